"""Agent Skills folders (agentskills.io/specification): loading, strict checks, files beside, look-up.

Loading is lenient, so that a folder written for another program works unchanged: whatever can be read is
read, and every liberty taken is a warning. Only a skill without a description, or whose front matter is not
YAML even after repair, is skipped. `check_skill` is the strict side, for lint. How skills are shown to a
policy is not decided here but by the agent's prompt.
"""

from __future__ import annotations

import base64
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from rapidfuzz import fuzz

from livery.errors import InputError, Problem
from livery.harness.model import Skill, SkillFile
from livery.harness.source import (
    YamlSource,
    closest,
    join_front_matter,
    normal_newlines,
    parse_yaml,
    read_text,
    shown_value,
    split_front_matter,
)

NAME_CHARS = 64
DESCRIPTION_CHARS = 1024
COMPATIBILITY_CHARS = 500

SPECIFIED_FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
# fmt: off
WIDELY_USED_FIELDS = frozenset(
    [
        "when_to_use", "when-to-use", "disable-model-invocation", "user-invocable", "argument-hint",
        "arguments", "model", "version", "author", "authors", "tags", "category", "categories",
        "keywords", "homepage", "repository", "effort", "context", "agent", "hooks", "paths", "shell",
        "disallowed-tools", "triggers", "dependencies", "requires", "globs", "title", "icon", "color",
        "language", "platforms"
    ]
)
# fmt: on
"""Outside the specification, but used by well-known programs: no warning, kept in ``extra``."""

KEY_FIELD = "livery-key"
SURFACE = "skill-name-surface"
"""Code of a name that the specification does not allow, of a skill whose key is given apart."""
KIND_FIELD = "livery-kind"
FACTS_FIELD = "livery-facts"
_OWN_METADATA = (KEY_FIELD, KIND_FIELD, FACTS_FIELD)
"""Read into fields of `Skill`, and so not in its ``metadata``."""
_KINDS: tuple[Literal["reply", "strategy"], ...] = ("reply", "strategy")

FILE_BYTES = 256 * 1024
"""A file beside SKILL.md larger than this is left out, with a warning."""
FOLDER_BYTES = 2 * 1024 * 1024
"""All files of one skill together."""

_IGNORED_NAMES = frozenset({"__pycache__", "node_modules", "Thumbs.db", "__MACOSX"})


# ------------------------------------------------------------------------------------------ loading


def load_skill_folder(path: Path, *, shown: str = "") -> tuple[Skill | None, list[Problem]]:
    """Load one skill.

    Args:
        path: the skill's folder; may itself be a symlink.
        shown: how problems name the folder; the path itself by default.

    Returns:
        The skill, or None where it had to be skipped, and everything worth saying. Problems are warnings
        except ``skill-skipped-*``, which say why there is no skill.
    """
    shown = shown or str(path)
    manifest = find_skill_manifest(path)
    if manifest is None:
        message = "found no SKILL.md; expected one in every skill's folder"
        return None, [Problem(path=shown, message=message, code="skill-skipped-no-file")]
    reader = _SkillReader(f"{shown}/{manifest.name}")
    folder_name = unicodedata.normalize("NFC", path.resolve().name if path.name in ("", ".", "..") else path.name)
    try:
        text = read_text(manifest, reader.path)
    except InputError as fault:
        return None, list(fault.problems)
    fields = reader.read(text, folder_name)
    if fields is None:
        return None, reader.problems
    files, problems = load_files(path, shown=shown)
    return Skill(**fields, files=files), [*reader.problems, *problems]


def find_skill_manifest(path: Path) -> Path | None:
    """``SKILL.md``, or ``skill.md`` where only that exists."""
    return next((path / n for n in ("SKILL.md", "skill.md") if (path / n).is_file()), None)


class _SkillReader:
    """One SKILL.md. Collects warnings while it reads."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.source = YamlSource(path, None)

    def warn(self, code: str, message: str, field: str = "", line: int = 0) -> None:
        self.problems.append(
            Problem(
                path=self.path,
                field=field,
                line=line or self.source.line(field),
                message=message,
                severity="warning",
                code=code,
            )
        )

    def read(self, text: str, folder_name: str) -> dict[str, Any] | None:
        parts = split_front_matter(text)
        if parts.yaml is None:
            self.skip("no-front-matter", "found no front matter; expected YAML between two lines of ---", 1)
            return None
        if not parts.closed:
            self.skip("no-front-matter", "found no line of --- that ends the front matter", parts.first_line)
            return None
        if not self.parse(parts.yaml, parts.first_line):
            return None
        front = self.source.value
        if not isinstance(front, dict):
            found = shown_value(front)
            self.skip("yaml", f"found {found}; expected a mapping with name and description", parts.first_line)
            return None
        self.problems.extend(self.source.duplicate_problems(code="skill-duplicate-key", severity="warning"))
        return self.fields(dict(front), folder_name, parts.body)  # pyright: ignore[reportUnknownArgumentType]

    def skip(self, code: str, message: str, line: int = 0) -> None:
        self.problems.append(Problem(path=self.path, line=line, message=message, code=f"skill-skipped-{code}"))

    def parse(self, text: str, first_line: int) -> bool:
        try:
            self.source = parse_yaml(text, self.path, first_line=first_line, text_under=("metadata",))
            return True
        except InputError as fault:
            first = fault.problems[0]
            repaired = quote_plain_values(text)
        if repaired != text:
            try:
                self.source = parse_yaml(repaired, self.path, first_line=first_line, text_under=("metadata",))
            except InputError:
                pass  # what is wrong with the author's own text is what they can act on
            else:
                message = "found text that YAML reads as something else (an unquoted colon?); read it as quoted"
                self.warn("skill-unquoted", message, line=first.line)
                return True
        self.skip("yaml", first.message, first.line)
        return False

    def fields(self, front: dict[str, Any], folder_name: str, body: str) -> dict[str, Any] | None:
        description = self.text(front.pop("description", None), "description")
        if not description:
            self.skip("no-description", "found no description; expected 1-1024 characters", self.source.line(""))
            return None
        if len(description) > DESCRIPTION_CHARS:
            message = f"found {len(description)} characters; expected at most {DESCRIPTION_CHARS} (kept whole)"
            self.warn("skill-description-long", message, "description")
        metadata = self.metadata(front.pop("metadata", None))
        name = self.name(front.pop("name", None), folder_name, keyed=KEY_FIELD in metadata)
        kind = metadata.pop(KIND_FIELD, "strategy")
        if kind not in _KINDS:
            message = f"found {kind!r}; expected reply or strategy (read as strategy)"
            self.warn("skill-kind", message, f"metadata.{KIND_FIELD}")
            kind = "strategy"
        facts = metadata.pop(FACTS_FIELD, "false")
        if facts not in ("true", "false"):
            message = f"found {facts!r}; expected true or false (read as false)"
            self.warn("skill-facts", message, f"metadata.{FACTS_FIELD}")
        compatibility = self.text(front.pop("compatibility", None), "compatibility")
        if len(compatibility) > COMPATIBILITY_CHARS:
            message = f"found {len(compatibility)} characters; expected at most {COMPATIBILITY_CHARS}"
            self.warn("skill-compatibility-long", message, "compatibility")
        license_ = self.text(front.pop("license", None), "license")
        allowed = self.allowed_tools(front.pop("allowed-tools", None))
        for unknown in front.keys() - WIDELY_USED_FIELDS:
            hint = closest(unknown, SPECIFIED_FIELDS)
            self.warn("skill-unknown-field", f"found an unknown field{hint}; kept as it is", unknown)
        return {
            "key": metadata.pop(KEY_FIELD, "") or folder_name,
            "name": name,
            "description": description,
            "body": body,
            "kind": kind,
            "facts": facts == "true",
            "license": license_,
            "compatibility": compatibility,
            "allowed_tools": allowed,
            "metadata": metadata,
            "extra": front,
        }

    def text(self, value: Any, field: str) -> str:
        if value is None:
            return ""
        if isinstance(value, str):
            return value.strip()
        if isinstance(value, (dict, list)):
            if field == "description":
                return ""  # nothing a policy could choose the skill by
            self.warn("skill-field-type", f"found {shown_value(value)}; expected text", field)
            return json.dumps(value, ensure_ascii=False)
        self.warn("skill-field-type", f"found {shown_value(value)}; expected text (put quotes around it)", field)
        return json.dumps(value)

    def name(self, value: Any, folder_name: str, *, keyed: bool) -> str:
        """``keyed``: the skill's key is given apart, so that its name is a surface and free."""
        name = self.text(value, "name")
        if not name:
            message = f"found no name; expected the folder's name (read as {folder_name!r})"
            self.warn("skill-name-missing", message, "name")
            return folder_name
        faults = list(name_faults(name))
        if keyed and name.strip():
            if faults:
                self.warn(SURFACE, surface_message(name), "name")
            return name
        for code, message in faults:
            self.warn(code, message, "name")
        if unicodedata.normalize("NFKC", name) != unicodedata.normalize("NFKC", folder_name):
            self.warn("skill-name-mismatch", f"found {name!r}; expected the folder's name {folder_name!r}", "name")
        return name

    def metadata(self, value: Any) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.warn("skill-field-type", f"found {shown_value(value)}; expected a mapping of text", "metadata")
            return {"metadata": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}
        found: dict[str, str] = {}
        for key, item in dict[str, Any](value).items():  # pyright: ignore[reportUnknownArgumentType]
            if not isinstance(item, str):
                message = f"found {shown_value(item)}; expected text (kept as JSON text)"
                self.warn("skill-metadata-nested", message, f"metadata.{key}")
            found[key] = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
        return found

    def allowed_tools(self, value: Any) -> str:
        if isinstance(value, list):
            items = [str(v) for v in list[Any](value)]  # pyright: ignore[reportUnknownArgumentType]
            self.warn("skill-field-type", "found a list; expected names separated by spaces", "allowed-tools")
            return " ".join(items)
        return self.text(value, "allowed-tools")


_KEY_LINE = re.compile(r"^(?P<indent> *)(?P<key>[A-Za-z0-9_-]+):[ \t]+(?P<value>\S.*?)[ \t]*$")


def quote_plain_values(front: str) -> str:
    """Front matter with each one-line or folded value that is not YAML by itself put in single quotes.

    Line numbers stay as they are: lines that continue a value are left blank.
    """
    lines = front.split("\n")
    out: list[str] = []
    i = 0
    while i < len(lines):
        found = _KEY_LINE.match(lines[i])
        if found is None or found["value"][0] in "|>&*":
            out.append(lines[i])
            i += 1
            continue
        indent, end = len(found["indent"]), i + 1
        while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > indent):
            end += 1
        whole = " ".join(part for part in (found["value"], *(s.strip() for s in lines[i + 1 : end])) if part)
        if _is_yaml(f"{found['key']}: {whole}"):
            out.extend(lines[i:end])
        else:
            bare = whole[1:-1] if len(whole) > 1 and whole[0] == whole[-1] and whole[0] in "'\"" else whole
            quoted = bare.replace("'", "''")
            out.append(f"{found['indent']}{found['key']}: '{quoted}'")
            out.extend([""] * (end - i - 1))
        i = end
    return "\n".join(out)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_yaml(text: str) -> bool:
    try:
        parse_yaml(text, "")
    except InputError:
        return False
    return True


# ------------------------------------------------------------------------------- files beside SKILL.md


def load_files(folder: Path, *, shown: str) -> tuple[tuple[SkillFile, ...], list[Problem]]:
    """Every file beside SKILL.md, by path; nothing that a symlink reaches outside the folder."""
    root = folder.resolve()
    files: list[SkillFile] = []
    problems: list[Problem] = []
    total = 0

    def warn(relative: str, code: str, message: str) -> None:
        problems.append(Problem(path=f"{shown}/{relative}", message=message, severity="warning", code=code))

    for path in _walk(folder):
        relative = unicodedata.normalize("NFC", path.relative_to(folder).as_posix())
        real = path.resolve()
        if not real.is_relative_to(root):
            warn(relative, "skill-file-outside", "found a link out of the skill's folder; left out")
            continue
        if not real.is_file():
            warn(relative, "skill-file-unreadable", "found something that is not a file; left out")
            continue
        size = real.stat().st_size
        if size > FILE_BYTES or total + size > FOLDER_BYTES:
            limit = f"{FILE_BYTES} bytes a file, {FOLDER_BYTES} a skill"
            warn(relative, "skill-file-large", f"found {size} bytes; expected at most {limit}; left out")
            continue
        total += size
        try:
            files.append(_skill_file(relative, real.read_bytes()))
        except OSError as fault:
            warn(relative, "skill-file-unreadable", f"cannot be read: {fault.strerror}; left out")
    return tuple(files), problems


def _walk(folder: Path) -> Iterator[Path]:
    manifest = find_skill_manifest(folder)
    # rglob does not follow links to folders, so there are no loops; such a link arrives as a path of its own.
    for path in sorted(folder.rglob("*"), key=lambda p: p.relative_to(folder).as_posix()):
        parts = path.relative_to(folder).parts
        hidden = any(p.startswith(".") or p in _IGNORED_NAMES or p.endswith(".pyc") for p in parts)
        if hidden or path == manifest or (path.is_dir() and not path.is_symlink()):
            continue
        yield path


def _skill_file(relative: str, data: bytes) -> SkillFile:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return SkillFile(path=relative, content=base64.b64encode(data).decode("ascii"), encoding="base64")
    return SkillFile(path=relative, content=normal_newlines(text))


def read_skill_file(skill: Skill, relative_path: str) -> SkillFile:
    """One file of a skill, as asked for by a policy.

    Args:
        relative_path: POSIX path inside the skill's folder; a leading ``./`` is accepted.

    Raises:
        InputError: the path leads outside the folder in any spelling (``skill-file-outside``), or there is no
            such file (``skill-file-missing``); the message lists what there is.
    """
    decoded = relative_path
    for _ in range(4):  # a path may be encoded more than once to slip through one decoding
        decoded = unquote(decoded)
    decoded = unicodedata.normalize("NFC", decoded.strip())
    folded = unicodedata.normalize("NFKC", decoded).replace("\\", "/")
    outside = (
        "\\" in decoded
        or "\0" in decoded
        or folded.startswith(("/", "~"))
        or re.match(r"^[A-Za-z][A-Za-z0-9+.-]*:", folded) is not None
        or ".." in folded.split("/")
    )
    if outside:
        message = f"found {relative_path!r}; expected a path inside the skill's folder, such as references/faq.md"
        raise InputError.at(skill.name, message, code="skill-file-outside")
    wanted = "/".join(part for part in decoded.split("/") if part not in ("", "."))
    for file in skill.files:
        if file.path == wanted:
            return file
    known = [f.path for f in skill.files]
    listed = f"it has: {', '.join(known)}" if known else "it has no files beside its text"
    message = f"found no file {relative_path!r}{closest(wanted, known)}; {listed}"
    raise InputError.at(skill.name, message, code="skill-file-missing")


# ------------------------------------------------------------------------------------------- saving


def skill_folder_name(skill: Skill) -> str:
    """The folder a skill is saved under: its name where the specification allows that name, else its key."""
    return skill.key if any(name_faults(skill.name)) else skill.name


def skill_text(skill: Skill, folder_name: str) -> str:
    """SKILL.md as `load_skill_folder` reads it back from a folder called ``folder_name``."""
    metadata = {k: v for k, v in skill.metadata.items() if k not in _OWN_METADATA}
    if skill.kind != "strategy":
        metadata[KIND_FIELD] = skill.kind
    if skill.facts:
        metadata[FACTS_FIELD] = "true"
    if skill.key != folder_name or skill.name != folder_name:
        metadata[KEY_FIELD] = skill.key
    front: dict[str, Any] = {"name": skill.name, "description": skill.description}
    optional = {
        "license": skill.license,
        "compatibility": skill.compatibility,
        "allowed-tools": skill.allowed_tools,
        "metadata": metadata,
    }
    front |= {k: v for k, v in optional.items() if v}
    return join_front_matter({**front, **skill.extra}, skill.body)


# -------------------------------------------------------------------------------------- strict checks


def surface_message(name: str) -> str:
    return f"found {name!r}, since {KEY_FIELD} names the skill; other programs want lowercase letters, digits, hyphens"


def name_faults(name: str) -> Iterator[tuple[str, str]]:
    """``(code, message)`` for each rule of the specification that a name breaks."""
    folded = unicodedata.normalize("NFKC", name)
    if not folded.strip():
        yield "skill-name-invalid", "found an empty name; expected 1-64 characters"
        return
    if len(folded) > NAME_CHARS:
        yield "skill-name-long", f"found {len(folded)} characters; expected at most {NAME_CHARS}"
    if folded != folded.lower() or not all(c.isalnum() or c == "-" for c in folded):
        yield "skill-name-invalid", f"found {name!r}; expected lowercase letters, digits and hyphens"
    elif folded.startswith("-") or folded.endswith("-") or "--" in folded:
        yield "skill-name-invalid", f"found {name!r}; expected single hyphens, and none at either end"


def check_skill(skill: Skill, *, path: str = "") -> list[Problem]:
    """The specification's rules on a loaded skill, strictly. Errors, except fields outside the
    specification that are widely used, which are warnings."""
    path = path or skill.name
    problems: list[Problem] = []

    def add(code: str, field: str, message: str, severity: str = "error") -> None:
        problems.append(Problem(path=path, field=field, message=message, severity=severity, code=code))

    for code, message in name_faults(skill.name):
        add(code, "name", message)
    if not skill.description.strip():
        add("skill-description-empty", "description", "found nothing; expected 1-1024 characters")
    if len(skill.description) > DESCRIPTION_CHARS:
        message = f"found {len(skill.description)} characters; expected at most {DESCRIPTION_CHARS}"
        add("skill-description-long", "description", message)
    if len(skill.compatibility) > COMPATIBILITY_CHARS:
        message = f"found {len(skill.compatibility)} characters; expected at most {COMPATIBILITY_CHARS}"
        add("skill-compatibility-long", "compatibility", message)
    for name in skill.extra:
        if name in WIDELY_USED_FIELDS:
            message = "not in the specification, though widely used; other programs may ignore it"
            add("skill-extra-field", name, message, "warning")
        else:
            add("skill-unknown-field", name, f"found an unknown field{closest(name, SPECIFIED_FIELDS)}")
    if not skill.body.strip():
        add(
            "skill-body-empty",
            "body",
            "found no text after the front matter; a policy would read nothing",
            "warning",
        )
    return problems


# -------------------------------------------------------------------------------------------- look-up


@dataclass(frozen=True, slots=True)
class SkillMatch:
    skill: Skill
    score: float
    """0-1."""


_CJK = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3040-\u30ff\uac00-\ud7af"
_TOKEN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
# fmt: off
_STOP = frozenset(
    [
        "a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "for", "from", "has",
        "have", "how", "i", "if", "in", "is", "it", "its", "me", "my", "of", "on", "or", "skill", "the",
        "this", "to", "use", "used", "user", "viewer", "viewers", "when", "with", "you", "your", "what",
        "which"
    ]
) | frozenset("的了是在和与或吗呢啊吧我你他这那就也都要用时当")
# fmt: on
_FLOOR = 0.05


def policy_may_load(skill: Skill) -> bool:
    """False with ``disable-model-invocation: true``: it is for people, and no policy hears of it."""
    return str(skill.extra.get("disable-model-invocation", "")).strip().casefold() != "true"


def catalogue_description(skill: Skill) -> str:
    """What the catalogue says of a skill: its description, and its ``when_to_use`` where it has one."""
    found = skill.extra.get("when_to_use") or skill.extra.get("when-to-use") or ""
    told = [str(part).strip() for part in (found if isinstance(found, list) else [found])]
    return " - ".join([skill.description, *filter(None, told)])


def match_skills(query: str, skills: Iterable[Skill]) -> list[SkillMatch]:
    """Skills by how well their name and description fit ``query``, best first; unrelated ones are left out.

    English counts by words (and their first letters, so that "ships" meets "shipping"), Chinese by characters
    and their pairs, each weighted by how few of the skills have it. A name that is nearly spelled right wins.
    """
    pool: Sequence[Skill] = tuple(skills)
    described = [_features(f"{_spaced(s.name)} {catalogue_description(s)}") for s in pool]
    wanted = _features(_spaced(query))
    weight = {t: w * math.log(1 + len(pool) / (0.5 + sum(t in d for d in described))) for t, w in wanted.items()}
    total = sum(weight.values())
    spelled = _spaced(query)
    matches: list[SkillMatch] = []
    for skill, words in zip(pool, described, strict=True):
        covered = sum(w for t, w in weight.items() if t in words) / total if total else 0.0
        name = max(fuzz.ratio(spelled, _spaced(n)) for n in (skill.name, skill.key)) / 100
        score = max(covered, name if name >= 0.7 else 0.0)
        if score > _FLOOR:
            matches.append(SkillMatch(skill, round(score, 6)))
    return sorted(matches, key=lambda m: -m.score)


def _spaced(name: str) -> str:
    """``ItemQA``, ``item_qa`` and ``item-qa`` as the same words."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", unicodedata.normalize("NFKC", name))
    return " ".join(re.split(r"[\s_\-./]+", split.casefold())).strip()


def _features(text: str) -> dict[str, float]:
    """Token -> weight."""
    found: dict[str, float] = {}
    for token in _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()):
        if re.match(rf"[{_CJK}]", token):
            found |= {c: 0.3 for c in token if c not in _STOP}
            pairs = (token[i : i + 2] for i in range(len(token) - 1))
            found |= {p: 1.0 for p in pairs if not (p[0] in _STOP or p[1] in _STOP)}
        elif token not in _STOP:
            found[token] = 1.0
            if len(token) >= 4:
                found[token[:4] + "*"] = 0.6
    return found
