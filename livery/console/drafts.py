"""Unpublished edits of a channel's harness, as files of the folder format, kept on disk until published.

A draft is the release it started from plus the text of each changed file. The same files, the same loader
and the same messages as a harness folder on disk: whoever knows one knows the other. Drafts never touch the
store.
"""

from __future__ import annotations

import io
import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from livery.errors import InputError, Problem
from livery.harness.folder import LoadedHarness, load_harness, save_harness
from livery.harness.model import Harness

_EDITABLE = re.compile(
    r"harness\.yaml|prompt/[^/]+\.md|tools/[^/]+\.ya?ml|hooks/[^/]+\.(?:ya?ml|py)"
    r"|skills/[^/]+/(?:[^/]+/)*[^/]+"
)
FILE_BYTES = 256 * 1024
"""Largest file that the editor takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    channel: str
    base: str
    """Release the edits were made on."""
    files: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    """POSIX path in the harness folder -> its whole new text; None: the file is deleted."""
    revision: int = 0
    """Grows with every save, so that two editors of one draft notice each other."""
    saved_at: float = 0.0

    def with_file(self, path: str, text: str | None, published: Mapping[str, str], *, at: float) -> Draft:
        """The draft with one file changed; a file equal to the published one is no longer part of it.

        Raises:
            InputError: the path is not one of a harness folder, or the text is too large.
        """
        check_path(path)
        if text is not None and len(text.encode()) > FILE_BYTES:
            raise InputError.at(path, f"is larger than {FILE_BYTES} bytes", code="file-too-large")
        files = {p: t for p, t in self.files.items() if p != path}
        if text != published.get(path):
            files[path] = text
        return replace(self, files=files, revision=self.revision + 1, saved_at=at)


def check_path(path: str) -> None:
    """
    Raises:
        InputError: ``path`` is not one that a harness folder has.
    """
    parts = path.split("/")
    clean = all(p not in ("", ".", "..") and not p.startswith(".") and p.isprintable() and "\\" not in p for p in parts)
    if not clean or len(path) > 300 or not _EDITABLE.fullmatch(path):
        expected = "harness.yaml, prompt/NAME.md, skills/NAME/SKILL.md, tools/NAME.yaml or hooks/NAME.yaml"
        raise InputError.at(path, f"is not a file of a harness; expected {expected}", code="file-unknown")


class Drafts:
    """One draft a channel, each a JSON file that is replaced whole."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: dict[str, Draft] = {}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.glob("*.json"):
                draft = Draft(**json.loads(path.read_text(encoding="utf-8")))
                self._held[draft.channel] = draft

    def get(self, channel: str) -> Draft | None:
        return self._held.get(channel)

    def put(self, draft: Draft) -> None:
        if self._folder is not None:
            path = self._path(self._folder, draft.channel)
            fresh = path.with_suffix(".tmp")
            with fresh.open("w", encoding="utf-8") as file:
                json.dump(asdict(draft), file, ensure_ascii=False)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        self._held[draft.channel] = draft

    def drop(self, channel: str) -> None:
        self._held.pop(channel, None)
        if self._folder is not None:
            self._path(self._folder, channel).unlink(missing_ok=True)

    @staticmethod
    def _path(folder: Path, channel: str) -> Path:
        return folder / f"{quote(channel, safe='')}.json"


def listed(manifest: str, path: str, *, present: bool) -> str:
    """The text of harness.yaml with the component of a new or deleted file put into, or out of, its list.

    Comments and layout stay. Files that are no component of their own (beside a skill, a hook's code) change
    nothing, nor does a harness.yaml without that list (then every file counts), or one that is not YAML now.
    """
    folder, _, rest = path.partition("/")
    key = rest.removesuffix("/SKILL.md") if folder == "skills" else rest.rpartition(".")[0]
    if not rest or "/" in key or path.endswith(".py"):
        return manifest
    yaml: Any = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 10_000
    yaml.indent(mapping=2, sequence=4, offset=2)
    try:
        content: Any = yaml.load(manifest)
    except YAMLError:
        return manifest  # the file's own problem is shown by lint
    found: Any = cast("dict[str, Any]", content).get(folder) if isinstance(content, dict) else None
    names = cast("list[str]", found)
    if not isinstance(found, list) or (key in names) is present:
        return manifest
    if present:
        names.append(key)
    else:
        names.remove(key)
    out = io.StringIO()
    yaml.dump(content, out)
    return out.getvalue()


def files_of(harness: Harness) -> dict[str, str]:
    """The harness's text files by POSIX path, in folder order; binary files beside a skill are left out."""
    with tempfile.TemporaryDirectory(prefix="livery-files-") as name:
        root = Path(name)
        save_harness(harness, root, overwrite=True)
        found: dict[str, str] = {}
        for path in sorted(p for p in root.rglob("*") if p.is_file()):
            try:
                found[path.relative_to(root).as_posix()] = path.read_bytes().decode()
            except UnicodeDecodeError:
                continue
        return found


def assemble(base: Harness, files: Mapping[str, str | None]) -> LoadedHarness:
    """``base`` with files replaced, read as any harness folder is; problems name files of the folder.

    Raises:
        InputError: the result is not a valid harness; every fault is listed.
    """
    for path in files:
        check_path(path)
    with tempfile.TemporaryDirectory(prefix="livery-draft-") as name:
        root = Path(name).resolve()
        save_harness(base, root, overwrite=True)
        for path, text in files.items():
            target = root / path
            if text is None:
                target.unlink(missing_ok=True)
                for folder in target.parents:
                    if folder == root or not folder.is_dir() or any(folder.iterdir()):
                        break
                    folder.rmdir()  # a skill goes with its last file
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8", newline="\n")
        try:
            loaded = load_harness(root)
        except InputError as fault:
            raise InputError([_shown(p, root) for p in fault.problems]) from fault
        sources = {name: replace(s, path=_relative(s.path, root)) for name, s in loaded.sources.items()}
        return replace(loaded, problems=tuple(_shown(p, root) for p in loaded.problems), sources=sources)


def _shown(problem: Problem, root: Path) -> Problem:
    message = problem.message.replace(f"{root}{os.sep}", "")
    return replace(problem, path=_relative(problem.path, root), message=message)


def _relative(path: str, root: Path) -> str:
    """The path with the temporary folder taken out."""
    return path.removeprefix(f"{root}{os.sep}").replace(os.sep, "/")


@dataclass(frozen=True, slots=True)
class Rebased:
    draft: Draft
    both: tuple[str, ...]
    """Files that the draft and the newer release both changed, and differently."""


def rebase(draft: Draft, *, onto: str, old: Mapping[str, str], new: Mapping[str, str], keep: str, at: float) -> Rebased:
    """Carry a draft's edits over to a release that was published meanwhile, file by file.

    Args:
        onto: that release; ``old`` and ``new`` are the files of the draft's base and of it.
        keep: "mine" or "theirs", for files that both changed.
    """
    both = both_changed(draft, old, new)
    files = {p: t for p, t in draft.files.items() if t != new.get(p) and not (keep == "theirs" and p in both)}
    return Rebased(replace(draft, base=onto, files=files, revision=draft.revision + 1, saved_at=at), both)


def both_changed(draft: Draft, old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(p for p, t in draft.files.items() if old.get(p) != new.get(p) and t != new.get(p))
