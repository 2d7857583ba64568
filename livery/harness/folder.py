"""A harness as a folder of plain files: `load_harness` and its inverse `save_harness`.

The format is documented in docs/harness.md. Whether a harness that loads is a *good* one is
`livery.harness.lint`'s question.
"""

from __future__ import annotations

import base64
import re
import shutil
import tempfile
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from livery.errors import InputError, Problem
from livery.harness.digest import component_digests, harness_digest
from livery.harness.model import Harness, Hook, Section, Tool
from livery.harness.reading import FOLDERS, MANIFEST, FolderReader
from livery.harness.skills import skill_folder_name, skill_text
from livery.harness.source import YamlSource, dump_yaml, join_front_matter


@dataclass(frozen=True, slots=True)
class LoadedHarness:
    harness: Harness
    problems: tuple[Problem, ...] = ()
    """Warnings, and errors that name skills which had to be skipped (``skill-skipped-*``)."""
    sources: Mapping[str, YamlSource] = field(default_factory=dict[str, YamlSource])
    """``skills/item-qa`` and the like, and ``settings`` -> where its fields stand, for `lint`."""


def load_harness(path: Path | str) -> LoadedHarness:
    """Load a harness folder.

    Raises:
        InputError: the folder does not give a valid harness; every fault of every file is listed, and the
            warnings too.
    """
    try:
        return LoadedHarness(*FolderReader(Path(path)).load())
    except OSError as fault:  # an editor or a checkout replaces files while we read
        message = f"cannot be read, or changed while it was read: {fault}"
        raise InputError.at(path, message, code="file-unreadable") from fault


def save_harness(harness: Harness, path: Path | str, *, overwrite: bool = False) -> None:
    """Write a harness as a folder from which `load_harness` gives an equal one with the same digest.

    The folder is written beside its place, read back and compared before anything is replaced.

    Args:
        overwrite: replace harness.yaml and the four component folders where ``path`` has them already;
            other files there stay.

    Raises:
        InputError: the folder holds a harness and ``overwrite`` is not set, a key is not fit for a file
            name, or a value would not come back as it is.
    """
    target = Path(path)
    managed = (MANIFEST, *FOLDERS)
    if not overwrite and any((target / name).exists() for name in managed):
        message = "holds a harness already; expected an empty folder, or leave to overwrite it"
        raise InputError.at(target, message, code="folder-not-empty")
    if unsafe := list(_unsafe_keys(harness)):
        raise InputError(unsafe)
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".livery-save-", dir=target) as name:
        fresh = Path(name) / "harness"
        _write(harness, fresh)
        _check_same(harness, fresh, target)
        for name in managed:
            old = target / name
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old)
            else:
                old.unlink(missing_ok=True)
            if (fresh / name).exists():
                (fresh / name).rename(old)


_UNSAFE = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]|^[.\s]|[.\s]$')


def _unsafe_keys(harness: Harness) -> Iterable[Problem]:
    for folder, keys in {
        "prompt": [s.key for s in harness.sections],
        "skills": [s.key for s in harness.skills],
        "tools": [t.key for t in harness.tools],
        "hooks": [h.key for h in harness.hooks],
    }.items():
        seen: set[str] = set()
        for key in keys:
            where = f"{folder}/{key}"
            if not key or len(key.encode()) > 200 or _UNSAFE.search(key):
                message = f"found the key {key!r}; expected one that can be a file name on every system"
                yield Problem(path=where, field="key", message=message, code="key-unsafe")
            if _folded(key) in seen:
                message = f"found {key!r} twice (letter case does not count in file names)"
                yield Problem(path=where, field="key", message=message, code="key-duplicate")
            seen.add(_folded(key))
    for skill in harness.skills:
        for file in skill.files:
            parts = PurePosixPath(file.path).parts
            if not parts or ".." in parts or any(_UNSAFE.search(p) for p in parts):
                message = f"found {file.path!r}; expected a relative path inside the skill's folder"
                yield Problem(path=f"skills/{skill.key}", field="files", message=message, code="key-unsafe")


def _folded(key: str) -> str:
    return unicodedata.normalize("NFC", key).casefold()


def _check_same(harness: Harness, folder: Path, target: Path) -> None:
    try:
        back = load_harness(folder).harness
    except InputError as fault:
        here, there = str(folder), str(target)
        moved = [replace(p, path=p.path.replace(here, there)) for p in fault.problems if p.severity == "error"]
        raise InputError(moved) from fault
    if back == harness and harness_digest(back) == harness_digest(harness):
        return
    before, after = component_digests(harness), component_digests(back)
    changed = [n for n in {**before, **after} if before.get(n) != after.get(n)] or list(before)
    message = "has a value that a folder cannot hold (space at an end, a hidden file, ...); nothing was written"
    raise InputError([Problem(path=name, message=message, code="save-changes") for name in changed])


def _write(harness: Harness, folder: Path) -> None:
    for name in FOLDERS:
        (folder / name).mkdir(parents=True)
    (folder / MANIFEST).write_text(manifest_text(harness), encoding="utf-8", newline="\n")
    for section in harness.sections:
        _put(folder / "prompt" / f"{section.key}.md", section_text(section))
    taken = {_folded(s.key) for s in harness.skills if skill_folder_name(s) == s.key}
    for skill in harness.skills:
        name = skill_folder_name(skill)
        if name != skill.key and _folded(name) in taken:
            name = skill.key
        taken.add(_folded(name))
        _put(folder / "skills" / name / "SKILL.md", skill_text(skill, name))
        for file in skill.files:
            path = folder / "skills" / name / file.path
            if file.encoding == "base64":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(base64.b64decode(file.content))
            else:
                _put(path, file.content)
    for tool in harness.tools:
        _put(folder / "tools" / f"{tool.key}.yaml", tool_text(tool))
    for hook in harness.hooks:
        _put(folder / "hooks" / f"{hook.key}.yaml", hook_text(hook))
        if hook.kind == "python":
            _put(folder / "hooks" / f"{hook.key}.py", hook.source)
    for name in FOLDERS:
        if not any((folder / name).iterdir()):
            (folder / name).rmdir()


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


# --------------------------------------------------------------------------------- each kind of file


def manifest_text(harness: Harness) -> str:
    """harness.yaml."""
    orders = {
        "prompt": [s.key for s in harness.sections],
        "skills": [s.key for s in harness.skills],
        "tools": [t.key for t in harness.tools],
        "hooks": [h.key for h in harness.hooks],
    }
    settings = harness.model_dump(mode="json", exclude_defaults=True)
    first = {"name": harness.name, "description": harness.description, "language": harness.language}
    rest = ("servers", "rendering", "feedback", "limits", "degraded")
    return dump_yaml(
        {k: v for k, v in first.items() if v or k == "name"}
        | {k: v for k, v in orders.items() if v}
        | {k: settings[k] for k in rest if settings.get(k)}
    )


def section_text(section: Section) -> str:
    """prompt/<key>.md."""
    front = section.model_dump(mode="json", exclude_defaults=True, exclude={"key", "template"})
    return join_front_matter(front, section.template)


def tool_text(tool: Tool) -> str:
    """tools/<key>.yaml."""
    fields = tool.model_dump(mode="json", exclude_defaults=True, exclude={"key", "input_schema", "binding"})
    binding: dict[str, Any] = {"operation": tool.binding.operation}
    arguments = [a.model_dump(mode="json", exclude_defaults=True) for a in tool.binding.arguments]
    if arguments and len({a["to"] for a in arguments}) == len(arguments):
        short = ((a.pop("to"), a) for a in arguments)
        binding["arguments"] = {to: how["source"] if how.keys() == {"source"} else how for to, how in short}
    elif arguments:
        binding["arguments"] = arguments
    head = {"name": fields.pop("name"), "description": fields.pop("description")}
    return dump_yaml({**head, "inputSchema": tool.input_schema, "binding": binding, **fields})


def hook_text(hook: Hook) -> str:
    """hooks/<key>.yaml; a Python hook's code is a file of its own beside it."""
    fields = hook.model_dump(mode="json", exclude_defaults=True, exclude={"key", "kind", "source"})
    head: dict[str, Any] = {"checkpoint": fields.pop("checkpoint")}
    params = dict(fields.pop("params", {}))
    match hook.kind:
        case "builtin":
            head["builtin"] = hook.source
        case "python":
            head["python"] = f"{hook.key}.py"
        case "rules":
            fields["rules"] = params.pop("rules", [])
    return dump_yaml(head | ({"params": params} if params else {}) | fields)
