"""Reading a harness folder: each kind of file in it, with every fault on its line.

The way in is `livery.harness.folder.load_harness`; the format is documented in docs/harness.md. Everything is
read before anything is complained of, so that one run shows every fault, and nothing in the folder is
executed: a Python hook's constants are read from its syntax tree.
"""

from __future__ import annotations

import ast
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from jinja2 import Environment, TemplateSyntaxError
from pydantic import ValidationError

from livery.errors import InputError, Problem
from livery.harness.model import (
    Degraded,
    Feedback,
    Frozen,
    Harness,
    Hook,
    Limits,
    McpServer,
    Rendering,
    Section,
    Skill,
    Tool,
)
from livery.harness.schema import schema_faults
from livery.harness.skills import find_skill_manifest, load_skill_folder
from livery.harness.source import (
    Location,
    YamlSource,
    closest,
    field_name,
    one_of,
    parse_yaml,
    read_text,
    shown_value,
    split_front_matter,
    validation_problems,
)

MANIFEST = "harness.yaml"
FOLDERS = ("prompt", "skills", "tools", "hooks")

_IGNORED = frozenset({"__pycache__"})
_TEMPLATES = Environment()  # only to check: nothing is rendered here
_K = TypeVar("_K", Section, Skill, Tool, Hook)


class _Manifest(Frozen):
    """harness.yaml."""

    name: str
    description: str = ""
    language: str = "en"
    prompt: tuple[str, ...] | None = None
    skills: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None
    hooks: tuple[str, ...] | None = None
    servers: tuple[McpServer, ...] = ()
    rendering: Rendering = Rendering()
    feedback: Feedback = Feedback()
    limits: Limits = Limits()
    degraded: Degraded = Degraded()


class _SectionFront(Frozen):
    """Front matter of a prompt section."""

    title: str = ""
    volatility: Literal["release", "room", "request"] = "release"
    facts: bool = False


_TOOL_FIELDS = ("key", "name", "description", "inputSchema", "annotations", "binding", "result", "timeout_s")
_HOOK_FIELDS = (
    "key", "checkpoint", "builtin", "rules", "python", "params", "mode", "on_failure", "timeout_s",
    "feedback",
)  # fmt: skip
_HOOK_CONSTANTS = ("CHECKPOINT", "ON_FAILURE", "MODE", "TIMEOUT_S", "PARAMS", "FEEDBACK")


class FolderReader:
    """One pass over a folder; collects faults (no harness) and other problems."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.faults: list[Problem] = []
        self.problems: list[Problem] = []
        self.sources: dict[str, YamlSource] = {}

    def load(self) -> tuple[Harness, tuple[Problem, ...], dict[str, YamlSource]]:
        """The harness, warnings (and errors about skipped skills), and where each component's fields stand.

        Raises:
            InputError: see `livery.harness.folder.load_harness`.
        """
        if not self.root.is_dir():
            raise InputError.at(self.root, "no such folder; expected a harness folder", code="folder-missing")
        manifest = self.manifest()
        order = manifest or _Manifest(name="?")
        sections = self.ordered("prompt", self.sections(), order.prompt, manifest is not None)
        skills = self.ordered("skills", self.skills(), order.skills, manifest is not None)
        tools = self.ordered("tools", self.tools(), order.tools, manifest is not None)
        hooks = self.ordered("hooks", self.hooks(), order.hooks, manifest is not None)
        self.duplicate_names("tools", tools, self.faults, "error")
        self.duplicate_names("skills", skills, self.problems, "warning")
        everything = sorted([*self.faults, *self.problems], key=lambda p: (p.path, p.line))
        if manifest is None or self.faults:
            raise InputError(everything)
        settings = {n: getattr(manifest, n) for n in type(manifest).model_fields if n not in FOLDERS}
        harness = Harness(sections=sections, skills=skills, tools=tools, hooks=hooks, **settings)
        return harness, tuple(everything), self.sources

    # ------------------------------------------------------------------------------- shared reading

    def shown(self, *parts: str) -> str:
        return str(self.root.joinpath(*parts))

    def yaml(self, path: str, text: str, first_line: int = 1) -> tuple[YamlSource, dict[str, Any]] | None:
        """A YAML mapping, or None with its fault recorded."""
        try:
            source = parse_yaml(text, path, first_line=first_line)
        except InputError as fault:
            self.faults.extend(fault.problems)
            return None
        self.faults.extend(source.duplicate_problems(code="key-twice"))
        value: Any = {} if source.value is None else source.value
        if not isinstance(value, dict):
            message = f"found {shown_value(value)}; expected a mapping of fields"
            self.faults.append(source.problem(message, code="field-invalid"))
            return None
        return source, cast("dict[str, Any]", value)

    def text(self, path: Path, shown: str) -> str | None:
        try:
            return read_text(path, shown)
        except InputError as fault:
            self.faults.extend(fault.problems)
            return None

    def files(self, folder: str, suffixes: Sequence[str]) -> list[Path]:
        """Files of a component folder by name; anything else is worth a warning."""
        if not (self.root / folder).is_dir():
            return []
        found: list[Path] = []
        for path in sorted((self.root / folder).iterdir()):
            if path.name.startswith(".") or path.name in _IGNORED:
                continue
            if path.suffix in suffixes and path.is_file():
                found.append(path)
            else:
                expected = " or ".join(f"*{s}" for s in suffixes)
                self.warn(self.shown(folder, path.name), f"expected only {expected} here; ignored", "file-ignored")
        return found

    def warn(self, path: str, message: str, code: str, field: str = "", line: int = 0) -> None:
        self.problems.append(Problem(path=path, field=field, line=line, message=message, severity="warning", code=code))

    def template(self, text: str, source: YamlSource, field: str, line: int = 0) -> None:
        """Check a Jinja template's syntax."""
        try:
            _TEMPLATES.compile(text, raw=True)  # parsing alone passes unknown filters
        except TemplateSyntaxError as fault:
            start = line or source.line(field)
            # A block scalar's text starts on the line below its key.
            at = start + fault.lineno - (1 if line else 0 if "\n" in text else 1)
            message = f"not a valid Jinja template: {fault.message}"
            self.faults.append(Problem(path=source.path, field=field, line=at, message=message, code="template-syntax"))

    def ordered(
        self, folder: str, found: Mapping[str, _K | None], order: Sequence[str] | None, known: bool
    ) -> tuple[_K, ...]:
        """Components in the order of harness.yaml, or by file name where it has no list."""
        if order is None:
            return tuple(c for c in found.values() if c is not None)
        source = self.sources["settings"]
        seen: set[str] = set()
        for i, key in enumerate(order):
            place = f"{folder}[{i}]"
            if key in seen:
                self.faults.append(source.problem(f"found {key!r} twice", field=place, code="order-duplicate"))
            elif key not in found:
                message = f"found {key!r}{closest(key, found)}; expected {one_of(found)}"
                self.faults.append(source.problem(message, field=place, code="order-unknown"))
            seen.add(key)
        for key in found.keys() - seen if known else ():
            component = self.sources.get(f"{folder}/{key}")
            where = component.path if component else self.shown(folder, key)
            message = f"not in the list `{folder}` of {MANIFEST}; not a part of the harness"
            self.warn(where, message, "file-not-listed")
        return tuple(c for key in dict.fromkeys(order) if (c := found.get(key)) is not None)

    def add(self, folder: str, found: dict[str, _K | None], key: str, component: _K | None, source: YamlSource) -> None:
        if key in found:
            first = self.sources[f"{folder}/{key}"].path
            message = f"found the key {key!r} a second time (first in {first}); expected one"
            self.faults.append(source.problem(message, field="key", code="key-duplicate"))
            return
        found[key] = component
        self.sources[f"{folder}/{key}"] = source

    def duplicate_names(
        self, folder: str, components: Iterable[Skill | Tool], problems: list[Problem], severity: str
    ) -> None:
        first: dict[str, str] = {}
        for component in components:
            source = self.sources[f"{folder}/{component.key}"]
            if component.name in first:
                message = f"found the name {component.name!r} a second time (first in {first[component.name]})"
                problems.append(source.problem(message, field="name", code="name-duplicate", severity=severity))
            first.setdefault(component.name, source.path)

    # ---------------------------------------------------------------------------------- each kind

    def manifest(self) -> _Manifest | None:
        shown = self.shown(MANIFEST)
        if not (self.root / MANIFEST).is_file():
            message = f"found no {MANIFEST}; expected one with at least a name"
            self.faults.append(Problem(path=shown, message=message, code="file-missing"))
            return None
        text = self.text(self.root / MANIFEST, shown)
        parsed = None if text is None else self.yaml(shown, text)
        if parsed is None:
            return None
        source, fields = parsed
        self.sources["settings"] = source
        for i, server in enumerate(cast("Iterable[Any]", fields.get("servers") or ())):
            if isinstance(server, dict) and "name" in server:
                self.sources.setdefault(f"servers/{server['name']}", _inside(source, f"servers[{i}]"))
        try:
            manifest = _Manifest.model_validate(fields)
        except ValidationError as fault:
            self.faults.extend(validation_problems(fault, source, known=tuple(_Manifest.model_fields)))
            return None
        names = [s.name for s in manifest.servers]
        for i, name in enumerate(names):
            if name in names[:i]:
                message = f"found the server {name!r} a second time; expected one"
                self.faults.append(source.problem(message, field=f"servers[{i}].name", code="key-duplicate"))
        self.template(manifest.feedback.template, source, "feedback.template")
        for intent, phrase in manifest.degraded.phrases.items():
            self.template(phrase, source, f"degraded.phrases.{intent}")
        return manifest

    def sections(self) -> dict[str, Section | None]:
        found: dict[str, Section | None] = {}
        for path in self.files("prompt", [".md"]):
            key, shown = _stem(path), self.shown("prompt", path.name)
            text = self.text(path, shown)
            section, source = (None, YamlSource(shown, None)) if text is None else self.section(key, shown, text)
            self.add("prompt", found, key, section, source)
        return found

    def section(self, key: str, shown: str, text: str) -> tuple[Section | None, YamlSource]:
        parts = split_front_matter(text)
        source = YamlSource(shown, None, {"": 1, "template": parts.body_line})
        if not parts.closed:
            message = "found no line of --- that ends the front matter"
            self.faults.append(source.problem(message, code="front-matter-open"))
            return None, source
        self.template(parts.body, source, "template", parts.body_line)
        parsed = self.yaml(shown, parts.yaml or "", parts.first_line)
        if parsed is None:
            return None, source
        source = YamlSource(shown, None, {"": 1, **parsed[0].lines, "template": parts.body_line})
        try:
            front = _SectionFront.model_validate(parsed[1])
        except ValidationError as fault:
            self.faults.extend(validation_problems(fault, source, known=tuple(_SectionFront.model_fields)))
            return None, source
        return Section(key=key, template=parts.body, **front.model_dump()), source

    def skills(self) -> dict[str, Skill | None]:
        found: dict[str, Skill | None] = {}
        folder = self.root / "skills"
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.name.startswith(".") or path.name in _IGNORED:
                continue
            shown = self.shown("skills", path.name)
            if not path.is_dir():
                self.warn(shown, "expected only folders here, each with a SKILL.md; ignored", "file-ignored")
                continue
            skill, problems = load_skill_folder(path, shown=shown)
            self.problems.extend(problems)
            key = skill.key if skill else unicodedata.normalize("NFC", path.name)
            self.add("skills", found, key, skill, skill_source(path, shown))
        return found

    def tools(self) -> dict[str, Tool | None]:
        found: dict[str, Tool | None] = {}
        for path in self.files("tools", [".yaml", ".yml"]):
            shown = self.shown("tools", path.name)
            text = self.text(path, shown)
            parsed = None if text is None else self.yaml(shown, text)
            if parsed is None:
                self.add("tools", found, _stem(path), None, YamlSource(shown, None))
                continue
            source, fields = parsed
            key = fields.get("key")
            tool = self.tool(source, fields, _stem(path))
            self.add("tools", found, key if isinstance(key, str) and key else _stem(path), tool, source)
        return found

    def tool(self, source: YamlSource, fields: dict[str, Any], stem: str) -> Tool | None:
        values = {"key": stem, "name": stem, **fields}
        if "input_schema" in values:
            message = "found an unknown field (did you mean 'inputSchema'?)"
            self.faults.append(source.problem(message, field="input_schema", code="field-unknown"))
            values["inputSchema"] = values.get("inputSchema", values["input_schema"])
        values["input_schema"] = values.pop("inputSchema", {"type": "object", "properties": {}})
        if isinstance(values.get("result"), str):
            values["result"] = {"style": values["result"]}
        values["binding"], short = _full_binding(values.get("binding"))

        def relocate(location: Location) -> Location:
            match location:
                case ("input_schema", *rest):
                    return ("inputSchema", *rest)
                case ("binding", "arguments", int(i), *rest) if short:
                    return ("binding", "arguments", short[i], *rest)
                case _:
                    return location

        if values["binding"] is None:
            del values["binding"]
        if isinstance(values["input_schema"], dict):
            self.schema(source, cast("dict[str, Any]", values["input_schema"]))
        try:
            tool = Tool.model_validate(values)
        except ValidationError as fault:
            self.faults.extend(validation_problems(fault, source, known=_TOOL_FIELDS, relocate=relocate))
            return None
        self.template(tool.result.template, source, "result.template")
        return tool

    def schema(self, source: YamlSource, schema: dict[str, Any]) -> None:
        for place, code, message in schema_faults(schema):
            name = field_name(("inputSchema", *place))
            self.faults.append(source.problem(message, field=name, code=code))

    def hooks(self) -> dict[str, Hook | None]:
        found: dict[str, Hook | None] = {}
        paths = self.files("hooks", [".yaml", ".yml", ".py"])
        python = {_stem(p) + ".py": p for p in paths if p.suffix == ".py"}
        used: set[str] = set()
        for path in paths:
            if path.suffix == ".py":
                continue
            shown = self.shown("hooks", path.name)
            text = self.text(path, shown)
            parsed = None if text is None else self.yaml(shown, text)
            if parsed is None:
                self.add("hooks", found, _stem(path), None, YamlSource(shown, None))
                continue
            source, fields = parsed
            if isinstance(fields.get("python"), str):
                used.add(fields["python"])
            key = fields.get("key", _stem(path))
            hook = self.yaml_hook(source, {"key": _stem(path), **fields}, python)
            self.add("hooks", found, key if isinstance(key, str) else _stem(path), hook, source)
        for name, path in python.items():
            if name not in used:
                hook, source = self.bare_hook(path)
                self.add("hooks", found, _stem(path), hook, source)
        return dict(sorted(found.items()))

    def yaml_hook(self, source: YamlSource, fields: dict[str, Any], python: Mapping[str, Path]) -> Hook | None:
        kinds = [k for k in ("builtin", "rules", "python") if k in fields]
        unknown = fields.keys() - set(_HOOK_FIELDS)
        for name in unknown:
            message = f"found an unknown field{closest(name, _HOOK_FIELDS)}; expected {one_of(_HOOK_FIELDS)}"
            self.faults.append(source.problem(message, field=name, code="field-unknown"))
        if len(kinds) != 1:
            found = " and ".join(kinds) or "none"
            message = f"found {found} of builtin, rules and python; expected exactly one"
            self.faults.append(source.problem(message, field=kinds[1] if kinds else "", code="hook-kind"))
            return None
        kind = kinds[0]
        values = {k: v for k, v in fields.items() if k in Hook.model_fields and k not in ("kind", "source")}
        values["kind"] = kind
        if kind == "rules":
            params: Any = values.get("params") or {}
            values["params"] = {**params, "rules": fields["rules"]} if isinstance(params, dict) else params
        elif not isinstance(fields[kind], str):
            message = f"found {shown_value(fields[kind])}; expected a name"
            self.faults.append(source.problem(message, field=kind, code="field-invalid"))
            return None
        elif kind == "builtin":
            values["source"] = fields["builtin"]
        else:
            path = python.get(unicodedata.normalize("NFC", fields["python"]))
            if path is None:
                message = f"found {fields['python']!r}; expected a file of hooks/: {one_of(python)}"
                self.faults.append(source.problem(message, field="python", code="hook-python-missing"))
                return None
            constants = self.python_source(path)
            if constants is None:
                return None
            values["source"], stated, _ = constants
            values = {**stated, **values}  # what the YAML says counts
        return self.hook(source, values)

    def bare_hook(self, path: Path) -> tuple[Hook | None, YamlSource]:
        shown = self.shown("hooks", path.name)
        constants = self.python_source(path)
        if constants is None:
            return None, YamlSource(shown, None)
        text, stated, source = constants
        values = {**stated, "key": _stem(path), "kind": "python", "source": text}
        return self.hook(source, values, lambda loc: (str(loc[0]).upper(), *loc[1:])), source

    def hook(
        self,
        source: YamlSource,
        values: dict[str, Any],
        relocate: Callable[[Location], Location] = lambda loc: loc,
    ) -> Hook | None:
        try:
            hook = Hook.model_validate(values)
        except ValidationError as fault:
            self.faults.extend(validation_problems(fault, source, known=_HOOK_FIELDS, relocate=relocate))
            return None
        self.template(hook.feedback, source, field_name(relocate(("feedback",))))
        return hook

    def python_source(self, path: Path) -> tuple[str, dict[str, Any], YamlSource] | None:
        """A Python hook's text and what its literal module constants say, without running it."""
        shown = self.shown("hooks", path.name)
        text = self.text(path, shown)
        if text is None:
            return None
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError) as fault:
            line = (fault.lineno or 0) if isinstance(fault, SyntaxError) else 0
            detail = fault.msg if isinstance(fault, SyntaxError) else str(fault)
            message = f"not valid Python: {detail}"
            self.faults.append(Problem(path=shown, line=line, message=message, code="hook-syntax"))
            return None
        values: dict[str, Any] = {}
        lines: dict[str, int] = {"": 1}
        for name, value, line in _assignments(tree):
            lines[name] = line
            try:
                values[name.lower()] = ast.literal_eval(value)
            except ValueError:
                message = "found an expression; expected a literal (it is read, never run)"
                self.faults.append(Problem(path=shown, field=name, line=line, message=message, code="hook-constant"))
        return text, values, YamlSource(shown, None, lines)


def _stem(path: Path) -> str:
    """A key from a file name; NFC, since some file systems give it decomposed."""
    return unicodedata.normalize("NFC", path.stem)


def _inside(source: YamlSource, prefix: str) -> YamlSource:
    """The part of a source under ``prefix``, as if it were a file's root."""
    lines = {n[len(prefix) :].lstrip("."): line for n, line in source.lines.items() if n.startswith(prefix)}
    return YamlSource(source.path, None, lines)


def skill_source(path: Path, shown: str) -> YamlSource:
    """Where the fields of a SKILL.md stand; empty where its front matter is not YAML as it is."""
    manifest = find_skill_manifest(path) or path / "SKILL.md"
    name = f"{shown}/{manifest.name}"
    try:
        parts = split_front_matter(read_text(manifest, name))
        lines = parse_yaml(parts.yaml or "", name, first_line=parts.first_line).lines
    except InputError:  # said by load_skill_folder already
        return YamlSource(name, None)
    return YamlSource(name, None, {**lines, "body": parts.body_line})


def _full_binding(value: Any) -> tuple[Any, tuple[str, ...]]:
    """A binding with its short forms written out, and the parameters of a short ``arguments`` in order."""
    if isinstance(value, str):
        return {"operation": value}, ()
    if not isinstance(value, dict):
        return value, ()
    binding = cast("dict[str, Any]", value)
    arguments = binding.get("arguments")
    if not isinstance(arguments, dict):
        return binding, ()
    short = cast("dict[str, Any]", arguments)
    full = [
        {"to": to, **cast("dict[str, Any]", how)} if isinstance(how, dict) else {"to": to, "source": how}
        for to, how in short.items()
    ]
    return {**binding, "arguments": full}, tuple(short)


def _assignments(tree: ast.Module) -> Iterable[tuple[str, ast.expr, int]]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in _HOOK_CONSTANTS:
                yield name, value, node.lineno
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name in _HOOK_CONSTANTS:
                yield name, value, node.lineno
            case _:
                pass
