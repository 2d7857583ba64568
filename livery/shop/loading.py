"""A store on disk that stays current. What is read, and how: `livery.shop.reading`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from livery.errors import InputError, Problem
from livery.shop.catalogue import Catalogue
from livery.shop.reading import KNOWN_FILES, load_catalogue

__all__ = ["CatalogueSource", "load_catalogue"]

Signature = tuple[tuple[str, int, int, int, int], ...]
"""(name, mtime_ns, ctime_ns, size, inode) of every file read."""

_SETTLED_NS = 2_000_000_000
"""A file changed less than this ago may change again within one tick of the file system's clock: the
coarsest tick every two seconds (FAT), most every few milliseconds."""


@dataclass(frozen=True, slots=True)
class _Seen:
    signature: Signature
    contents: Mapping[str, bytes] = field(repr=False)
    """Bytes of the files while their times cannot be trusted to show the next change; empty once settled."""


class CatalogueSource:
    """A store on disk that is always current: an edited price is what the next call of `current` answers.

    When files become invalid, the last good catalogue stays in use and ``problems`` says what is wrong.
    """

    def __init__(self, path: str | Path, *, clock_ns: Callable[[], int] = time.time_ns) -> None:
        """Loads at once.

        Raises:
            InputError: the store cannot be loaded and there is no earlier good one.
        """
        self.path = Path(path)
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._problems: tuple[Problem, ...] = ()
        self._generation = 1
        self._seen = self._look()
        self._catalogue = load_catalogue(self.path)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the files as they are now; empty while `current` shows them."""
        return self._problems

    @property
    def generation(self) -> int:
        """Grows with every new catalogue."""
        return self._generation

    def current(self) -> Catalogue:
        """The catalogue as the files have it now, or the last good one. Costs a few ``stat`` calls."""
        with self._lock:
            if self._changed():
                # The look comes before the read: a change during the read shows at the next call.
                self._seen = self._look()
                try:
                    self._catalogue = load_catalogue(self.path)
                except InputError as error:
                    self._problems = error.problems
                else:
                    self._problems = ()
                    self._generation += 1
            return self._catalogue

    def _changed(self) -> bool:
        signature = self._signature()
        if signature != self._seen.signature:
            return True
        if not self._seen.contents:
            return False
        contents = self._contents(signature)
        if contents != self._seen.contents:
            return True
        if self._settled(signature):
            self._seen = _Seen(signature, {})
        return False

    def _look(self) -> _Seen:
        signature = self._signature()
        return _Seen(signature, {} if self._settled(signature) else self._contents(signature))

    def _settled(self, signature: Signature) -> bool:
        return self._clock_ns() - max((max(s[1], s[2]) for s in signature), default=0) > _SETTLED_NS

    def _signature(self) -> Signature:
        files: list[tuple[str, os.stat_result]] = []
        try:
            if self.path.is_dir():
                with os.scandir(self.path) as entries:
                    files = [(e.path, e.stat()) for e in entries if e.name in KNOWN_FILES]
            else:
                files = [(str(self.path), self.path.stat())]
        except OSError:
            return ()  # gone for now: loading says so
        return tuple(sorted((name, s.st_mtime_ns, s.st_ctime_ns, s.st_size, s.st_ino) for name, s in files))

    def _contents(self, signature: Signature) -> dict[str, bytes]:
        contents: dict[str, bytes] = {}
        for name, *_ in signature:
            try:
                contents[name] = Path(name).read_bytes()
            except OSError:
                contents[name] = b""
        return contents
