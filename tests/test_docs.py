"""README and docs name only what exists: links, commands and their options, modules, files, variables."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.exceptions import TyperException

from livery.cli import app
from livery.cli.augment import RunByDefault

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
COMMANDS: Any = typer.main.get_command(app)

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _inline(page: Path) -> list[str]:
    """Code within sentences and tables."""
    return INLINE.findall(FENCE.sub("", _text(page)))


def _shell_lines(page: Path) -> Iterator[str]:
    for language, block in FENCE.findall(_text(page)):
        if language in ("", "sh", "bash"):
            yield from re.sub(r"\\\n", " ", block).splitlines()


def _anchors(page: Path) -> set[str]:
    """Headings as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", _text(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# --------------------------------------------------------------------------------------------- links


@pages
def test_relative_links_lead_somewhere(page: Path) -> None:
    broken: list[str] = []
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", _text(page))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        missing = not file.exists() or ROOT not in (file, *file.parents)
        if missing or (anchor and file.suffix == ".md" and anchor not in _anchors(file)):
            broken.append(target)
    assert broken == []


# ------------------------------------------------------------------------------------------ commands


def _faults(arguments: list[str], *, whole: bool) -> str:
    """What is wrong with the arguments of ``livery``; empty: nothing. ``whole``: a line that can be typed, where
    values count as well; otherwise a mention, such as `livery data check DIR`."""
    command, named = COMMANDS, "livery"
    while hasattr(command, "commands"):
        if not arguments or arguments[0].startswith("-"):
            return f"`{named}` needs a command" if whole else ""
        if isinstance(command, RunByDefault) and arguments[0] not in command.commands:
            arguments = ["run", *arguments]
        if arguments[0] not in command.commands:
            return f"no command {arguments[0]!r} in `{named}`"
        named += f" {arguments[0]}"
        command, arguments = command.commands[arguments[0]], arguments[1:]
    known = {opt for p in command.params for opt in (*p.opts, *p.secondary_opts)} | {"--help"}
    given = [a.partition("=")[0] for a in arguments if a.startswith("--")]
    if unknown := [option for option in given if option not in known]:
        return f"`{named}` has no {', '.join(unknown)}"
    if whole:
        try:
            command.make_context(command.name, list(arguments))
        except TyperException as fault:
            return f"`{named}`: {fault.format_message()}"
    return ""


def _commands_of(line: str) -> Iterator[list[str]]:
    """The arguments of each ``livery`` or ``python -m livery.cli`` in a shell line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set("&|;"):
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words.pop(0)
            if words[:1] == ["livery"]:
                yield words[1:]
            elif "livery.cli" in words:
                yield words[words.index("livery.cli") + 1 :]
            elif words[:2] == ["make", "live"]:
                yield ["live", *(a for w in words if w.startswith("LIVE_ARGS=") for a in shlex.split(w[10:]))]
            words = []
        else:
            words.append(word)


@pages
def test_every_command_line_is_one_that_livery_takes(page: Path) -> None:
    faults = [
        f"{line}: {fault}"
        for line in _shell_lines(page)
        if "livery" in line or "make live" in line
        for arguments in _commands_of(line)
        if (fault := _faults(arguments, whole=True))
    ]
    mentions = [code for code in _inline(page) if re.match(r"(livery|make) [a-z]", code)]
    faults += [
        f"{mention}: {fault}"
        for mention in mentions
        for arguments in _commands_of(re.sub(r"\.\.\.|[\[\]]", "", mention))
        if (fault := _faults(arguments, whole=False))
    ]
    assert faults == []


def test_the_check_of_commands_finds_faults() -> None:
    """It would notice a command, an option or a value that does not exist."""

    def fault(line: str) -> str:
        return next(_faults(arguments, whole=True) for arguments in _commands_of(line))

    assert fault("livery liv --chat x") == "no command 'liv' in `livery`"
    assert fault("cd x && livery live --chats x") == "`livery live` has no --chats"
    assert "missing argument 'file'" in fault("livery replay").lower()
    assert "'--port'" in fault("X=1 python -m livery.cli live --port x | cat")
    assert fault('make live LIVE_ARGS="--polic x"') == "`livery live` has no --polic"
    assert fault("livery live --chat none  # a comment --with dashes") == ""


@pages
def test_make_targets_exist(page: Path) -> None:
    code = [*_shell_lines(page), *_inline(page)]
    named = {target for line in code for target in re.findall(r"^make(?: [A-Z_]+=\S+)* ([a-z]+)", line)}
    rules = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named <= rules


@cache
def _known_options() -> frozenset[str]:
    """Of every command, and of the benchmarks."""
    found: set[str] = {"--help"}

    def walk(command: Any) -> None:
        for parameter in command.params:
            found.update((*parameter.opts, *parameter.secondary_opts))
        for one in getattr(command, "commands", {}).values():
            walk(one)

    walk(COMMANDS)
    for script in ROOT.glob("benchmarks/**/*.py"):
        found.update(re.findall(r"\"(--[a-z][a-z-]*)\"", script.read_text(encoding="utf-8")))
    return frozenset(found)


@pages
def test_options_in_sentences_exist(page: Path) -> None:
    named = {m[0] for code in _inline(page) if (m := re.match(r"--[a-z][a-z-]*", code))}
    assert sorted(named - _known_options()) == []


# ------------------------------------------------------------------------------- modules, files, names


def _resolves(dotted: str) -> bool:
    """A module, or what a module holds. One that needs an extra which is not installed need only be there."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        try:
            if importlib.util.find_spec(name) is None:
                continue
        except ModuleNotFoundError:  # its parent is a module, not a package
            continue
        try:
            value = importlib.import_module(name)
        except ModuleNotFoundError as missing:
            return not (missing.name or "").startswith("livery")
        for attribute in parts[length:]:
            if not hasattr(value, attribute):
                return False
            value = getattr(value, attribute)
        return length > 1 or len(parts) == 1
    return False


@pages
def test_modules_and_what_they_hold_exist(page: Path) -> None:
    named = set(re.findall(r"(?<![\w/.@-])livery(?:\.[A-Za-z_]\w*)+(?![\w/-])", _text(page)))
    named = {name for name in named if not name.endswith((".db", ".json", ".yaml"))}
    assert sorted(name for name in named if not _resolves(name)) == []


@pages
def test_python_examples_import_what_exists(page: Path) -> None:
    missing: list[str] = []
    for language, block in FENCE.findall(_text(page)):
        if language != "python":
            continue
        tree = compile(block, page.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("livery"):
                names = [f"{node.module}.{one.name}" for one in node.names]
                missing += [name for name in names if not _resolves(name)]
    assert missing == []


def test_the_check_of_modules_finds_faults() -> None:
    assert _resolves("livery.types.Trajectory")
    assert _resolves("livery.agent.telemetry")
    assert not _resolves("livery.types.Trajektory")
    assert not _resolves("livery.agents")
    assert not _resolves("livery.agent.service.Nothing")


@pages
def test_files_of_the_repository_exist(page: Path) -> None:
    """Paths that begin with one of the repository's own folders."""
    folders = "livery|tests|benchmarks|configs|stores|harnesses|chats"
    paths = [code for code in _inline(page) if re.fullmatch(rf"(?:{folders})/[\w./-]+", code)]
    assert [path for path in paths if not (ROOT / path.removesuffix("/")).exists()] == []


@pages
def test_environment_variables_are_read_somewhere(page: Path) -> None:
    named = set(re.findall(r"\bLIVERY_[A-Z_]+\b", _text(page)))
    read = {
        name
        for folder in ("livery", "tests", "benchmarks")
        for file in (ROOT / folder).rglob("*.py")
        if file != Path(__file__)
        for name in re.findall(r"\bLIVERY_[A-Z_]+\b", file.read_text(encoding="utf-8"))
    }
    assert sorted(named - read) == []


# ----------------------------------------------------------------------------------------- the console


def test_every_metric_is_documented() -> None:
    page = _text(ROOT / "docs/console.md")
    module = importlib.import_module("livery.console.metrics")
    made = set(re.findall(r"\"(livery_[a-z_]+)\"", inspect.getsource(module)))
    assert len(made) > 8
    documented = set(re.findall(r"`(livery_[a-z_]+?)(?:_total)?(?:\{[a-z,]+\})?`", page))
    assert made == documented


def test_every_documented_path_of_the_api_is_served() -> None:
    page = _text(ROOT / "docs/console.md")
    served = {
        re.sub(r"\{\w+\}", "*", route.path)
        for name in ("api", "api_harness", "stage")
        for route in importlib.import_module(f"livery.console.{name}").router.routes
    }
    named = {
        re.sub(r"\b[A-Z_]{2,}\b", "*", path) for path in re.findall(r"(?:GET|POST|PUT|DELETE|WS) (/[\w/.-]+)`", page)
    }
    assert {"/api/rooms/*/messages", "/api/rooms/*/ws", "/api/harness/channels/*/draft"} <= named
    assert sorted(named - served) == []
