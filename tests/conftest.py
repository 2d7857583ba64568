"""What every test stands on: one thread for numeric libraries, no settings of the person who runs them, and
nothing left behind at the end.

`LIVERY_HOME` is left alone, so that the embedded model is fetched once and shared with the program.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import thread as pool
from pathlib import Path
from typing import Any, cast

import pytest

# Before anything imports a library that reads them.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "GGML_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
for name in ("LIVERY_RELEASES", "LIVERY_TOKEN"):
    os.environ.pop(name, None)


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """After the last test and every other session fixture: no thread that would keep the process alive, and no
    child process."""
    yield
    pooled = set(cast("Any", pool)._threads_queues)  # idle workers end with the interpreter
    threads = [t for t in threading.enumerate() if not t.daemon and t not in pooled]
    threads.remove(threading.main_thread())
    for thread in threads:
        thread.join(timeout=10)
    assert [t.name for t in threads if t.is_alive()] == []
    assert _children() == []


def _children() -> list[str]:
    """Command lines of child processes, where the system tells (Linux). Python's own helper is no leftover."""
    found: list[str] = []
    for listed in Path("/proc/self/task").glob("*/children"):
        for pid in listed.read_text().split():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:  # gone meanwhile
                continue
            if command and "multiprocessing.resource_tracker" not in command:
                found.append(command.strip())
    return found
