"""``livery harness``: lint, show and compare harnesses; publish them to channels and take them back.

A HARNESS is a folder, or what the release store knows: a channel's name, a digest or its first six digits.
"""

from __future__ import annotations

import getpass
import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from jinja2 import TemplateError
from rich.console import Console
from rich.table import Table

from livery.errors import InputError, Problem, StoreError
from livery.harness.diff import diff_harnesses, html_diff, text_diff
from livery.harness.digest import component_digests, components, harness_digest
from livery.harness.folder import (
    LoadedHarness,
    hook_text,
    load_harness,
    manifest_text,
    section_text,
    tool_text,
)
from livery.harness.hooks.builtin import BUILTINS
from livery.harness.hooks.loading import load_hooks
from livery.harness.hooks.run import HookRunner
from livery.harness.lint import estimate_tokens, has_errors
from livery.harness.lint import lint as lint_harness
from livery.harness.model import Harness, Hook, McpServer, Section, Skill, Tool
from livery.harness.skills import skill_folder_name, skill_text
from livery.harness.source import closest, dump_yaml
from livery.harness.store import DEFAULT_CHANNEL, Publication, ReleaseStore
from livery.shop.registry import shop_operations

app = typer.Typer(no_args_is_help=True, help="Lint, show, compare, publish and roll back harnesses.")

HarnessArgument = Annotated[str, typer.Argument(help="Folder, channel, digest or its beginning.")]
StoreOption = Annotated[
    str, typer.Option("--releases", envvar="LIVERY_RELEASES", help="Release store: file or database URL.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]
NoteOption = Annotated[str, typer.Option(help="Why; kept in the channel's log.")]
ActorOption = Annotated[str, typer.Option(help="Who; by default the user's name.")]
RELEASES = "var/releases.db"


@app.command()
def lint(
    folder: Annotated[Path, typer.Argument(help="Harness folder.")],
    as_json: JsonOption = False,
) -> None:
    """Check a harness folder: ``file:line: code message``, exit status 1 where there is an error."""
    try:
        problems = _linted(load_harness(folder))
    except InputError as fault:
        problems = list(fault.problems)
    errors = sum(p.severity == "error" for p in problems)
    if as_json:
        print(json.dumps({"errors": errors, "warnings": len(problems) - errors, "problems": _as_data(problems)}))
    else:
        for p in problems:
            print(_line(p))
        print(f"{errors} errors, {len(problems) - errors} warnings", file=sys.stderr)
    if errors:
        raise typer.Exit(1)


@app.command()
def show(
    harness: HarnessArgument,
    component: Annotated[str, typer.Argument(help="Such as skills/item-qa: print its file.")] = "",
    releases: StoreOption = RELEASES,
    as_json: JsonOption = False,
) -> None:
    """List a harness's components with their digests, or print one as its file."""
    value = _harness(harness, releases)
    if component:
        print(_component_text(value, component), end="")
        return
    digests = component_digests(value)
    if as_json:
        print(json.dumps({"name": value.name, "release": harness_digest(value), "components": digests}))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("component", "name", "tokens", "digest"):
        table.add_column(heading, justify="right" if heading == "tokens" else "left", no_wrap=True)
    named = {name: getattr(c, "name", "") for name, c in components(value)}
    for name, digest in digests.items():
        tokens = estimate_tokens(_component_text(value, name))
        table.add_row(name, named.get(name, value.name), str(tokens), digest.removeprefix("sha256:")[:12])
    _out().print(f"{value.name} ({value.language})  {harness_digest(value)}", soft_wrap=True)
    _out().print(table)


@app.command()
def diff(
    old: HarnessArgument,
    new: HarnessArgument,
    releases: StoreOption = RELEASES,
    as_json: JsonOption = False,
    as_html: Annotated[bool, typer.Option("--html", help="Print an HTML fragment.")] = False,
) -> None:
    """Compare two harnesses component by component."""
    found = diff_harnesses(_harness(old, releases), _harness(new, releases))
    if as_json:
        print(json.dumps(found.as_json(), ensure_ascii=False))
    elif as_html:
        print(html_diff(found))
    else:
        _out().print(text_diff(found), soft_wrap=True)


@app.command()
def publish(
    folder: Annotated[Path, typer.Argument(help="Harness folder.")],
    channel: Annotated[str, typer.Option(help="Channel to point at it.")] = DEFAULT_CHANNEL,
    releases: StoreOption = RELEASES,
    note: NoteOption = "",
    actor: ActorOption = "",
    force: Annotated[bool, typer.Option(help="Publish in spite of lint errors.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a folder a release and point a channel at it; lint errors and broken hooks are refused."""
    loaded = load_harness(folder)
    problems = _linted(loaded)
    if not has_errors(problems):
        problems = [*problems, *_hook_faults(loaded.harness)]
    for p in problems:
        print(_line(p), file=sys.stderr)
    if has_errors(problems) and not force:
        print("not published: it has errors (--force publishes it all the same)", file=sys.stderr)
        raise typer.Exit(1)
    with ReleaseStore(releases) as store:
        moved = store.publish(channel, loaded.harness, note=note, actor=actor or getpass.getuser())
        before = store.load(moved.previous) if moved.previous else None
    _told(moved, as_json)
    if (said := _prefix_said(loaded.harness, before)) and not as_json:
        print(said, file=sys.stderr)


@app.command()
def rollback(
    channel: Annotated[str, typer.Argument(help="Channel.")] = DEFAULT_CHANNEL,
    steps: Annotated[int, typer.Option(min=1, help="How many releases back.")] = 1,
    to: Annotated[str, typer.Option(help="Digest (or its beginning) to go back to instead.")] = "",
    releases: StoreOption = RELEASES,
    note: NoteOption = "",
    actor: ActorOption = "",
    as_json: JsonOption = False,
) -> None:
    """Point a channel back at what it pointed at before."""
    with _opened(releases) as store:
        target = store.resolve(to) if to else None
        who = actor or getpass.getuser()
        _told(store.rollback(channel, steps=steps, to=target, note=note, actor=who), as_json)


@app.command()
def channels(
    releases: StoreOption = RELEASES,
    log: Annotated[str, typer.Option(help="Show this channel's log instead.")] = "",
    as_json: JsonOption = False,
) -> None:
    """List channels and splits, or one channel's log."""
    with _opened(releases) as store:
        if log:
            _channel_log(store, log, as_json)
            return
        listed = store.channels()
        splits = store.splits()
        if as_json:
            rows = [{"channel": c.name, "release": c.release, "version": c.version} for c in listed]
            shares = [{"rooms": s.rooms, "by": s.by, "percent": s.percent} for s in splits]
            print(json.dumps({"channels": rows, "splits": shares}))
            return
        table = _table("channel", "release", "version", "since", "harness")
        for c in listed:
            name = store.release(c.release).name
            table.add_row(c.name, _short(c.release), str(c.version), _when(c.updated_at), name)
        _out().print(table)
        for s in splits:
            _out().print(_split_line(s.rooms, s.by, s.percent), soft_wrap=True)


@app.command()
def split(
    rooms: Annotated[str, typer.Argument(help="Room id, a pattern with * and ?, or * for all.")],
    shares: Annotated[list[str] | None, typer.Argument(help="CHANNEL=PERCENT ..., 100 together.")] = None,
    by: Annotated[str, typer.Option(help="What always gets the same channel: viewer or room.")] = "viewer",
    remove: Annotated[bool, typer.Option(help="Remove the split of these rooms.")] = False,
    releases: StoreOption = RELEASES,
    note: NoteOption = "",
    actor: ActorOption = "",
    as_json: JsonOption = False,
) -> None:
    """Share the requests of rooms out to channels, such as ``'*' stable=90 canary=10``."""
    who = actor or getpass.getuser()
    with _opened(releases) as store:
        if remove:
            store.remove_split(rooms, note=note, actor=who)
            print(json.dumps({"rooms": rooms, "percent": {}}) if as_json else f"{rooms}: no split")
            return
        made = store.set_split(rooms, _percentages(shares or []), by=_unit(by), note=note, actor=who)
        if as_json:
            print(json.dumps({"rooms": made.rooms, "by": made.by, "percent": made.percent}))
        else:
            print(_split_line(made.rooms, made.by, made.percent))


# ------------------------------------------------------------------------------------------- parts


def _linted(loaded: LoadedHarness) -> list[Problem]:
    operations = {name: operation.parameters for name, operation in shop_operations().items()}
    return lint_harness(
        loaded.harness, loaded.problems, operations=operations, builtins=BUILTINS, sources=loaded.sources
    )


def _hook_faults(harness: Harness) -> list[Problem]:
    """What shows only when the hooks are made: lint runs none of their code, the agent will run all of it."""
    try:
        HookRunner(harness, load_hooks(harness))
    except InputError as fault:
        return list(fault.problems)
    return []


def _prefix_said(harness: Harness, before: Harness | None) -> str:
    """How much of the prompt's unchanging part a model server has to read anew; empty where it cannot be rendered."""
    from livery.agent.live_harness import LiveHarness
    from livery.agent.service import shared_beginning

    try:
        text, old = (
            LiveHarness(one, "", shop_operations()).prompt.system("text") if one else "" for one in (harness, before)
        )
    except (InputError, TemplateError):
        return ""
    alike = estimate_tokens(text[: shared_beginning(text, old)])
    return (
        f"the prompt's unchanging part: about {estimate_tokens(text):,} tokens, the first {alike:,} as before; "
        "rooms that run read it with their next request"
    )


def _line(p: Problem) -> str:
    where = f"{p.path}:{p.line}" if p.line else p.path
    field = f"{p.field}: " if p.field else ""
    return f"{where}: {p.severity} {p.code} {field}{p.message}"


def _as_data(problems: list[Problem]) -> list[dict[str, Any]]:
    return [
        {
            "path": p.path,
            "line": p.line,
            "field": p.field,
            "severity": p.severity,
            "code": p.code,
            "message": p.message,
        }
        for p in problems
    ]


def _harness(reference: str, releases: str) -> Harness:
    if Path(reference).is_dir():
        return load_harness(reference).harness
    if "/" in reference or not (Path(releases).exists() or "://" in releases):
        raise InputError.at(reference, f"no such folder, and no release store at {releases}", code="harness-missing")
    with _opened(releases) as store:
        return store.load(store.resolve(reference))


def _opened(releases: str) -> ReleaseStore:
    """A store that is there already: looking must not make one."""
    if "://" not in releases and not Path(releases).exists():
        raise StoreError(
            f"no release store at {releases}; `livery harness publish` makes one, --releases names another"
        )
    return ReleaseStore(releases)


def _component_text(harness: Harness, name: str) -> str:
    if name == "settings":
        return manifest_text(harness)
    found = dict(components(harness))
    match found.get(name):
        case Section() as section:
            return section_text(section)
        case Skill() as skill:
            return skill_text(skill, skill_folder_name(skill))
        case Tool() as tool:
            return tool_text(tool)
        case Hook() as hook:
            return hook_text(hook) + (f"\n# {hook.key}.py\n{hook.source}" if hook.kind == "python" else "")
        case McpServer() as server:
            return dump_yaml(server.model_dump(mode="json", exclude_defaults=True))
        case _:
            message = f"found no component {name!r}{closest(name, found)}; `show` without it lists them"
            raise InputError.at(harness.name, message, code="component-missing")


def _percentages(shares: list[str]) -> dict[str, float]:
    percent: dict[str, float] = {}
    for share in shares:
        channel, _, number = share.partition("=")
        try:
            percent[channel] = float(number.removesuffix("%"))
        except ValueError:
            message = f"found {share!r}; expected CHANNEL=PERCENT such as canary=10"
            raise InputError.at("split", message, code="split-percent") from None
    return percent


def _unit(by: str) -> Literal["viewer", "room"]:
    match by:
        case "viewer" | "room":
            return by
        case _:
            raise InputError.at("--by", f"found {by!r}; expected viewer or room", code="split-by")


def _told(moved: Publication, as_json: bool) -> None:
    if as_json:
        print(
            json.dumps(
                {
                    "channel": moved.channel,
                    "release": moved.release,
                    "previous": moved.previous,
                    "version": moved.version,
                }
            )
        )
    else:
        before = _short(moved.previous) if moved.previous else "nothing"
        print(f"{moved.channel}: {before} -> {_short(moved.release)} (version {moved.version})")


def _channel_log(store: ReleaseStore, channel: str, as_json: bool) -> None:
    entries = store.log(channel)
    if as_json:
        rows = [
            {
                "version": e.version,
                "action": e.action,
                "release": e.release,
                "at": e.at,
                "note": e.note,
                "actor": e.actor,
            }
            for e in entries
        ]
        print(json.dumps({"channel": channel, "log": rows}, ensure_ascii=False))
        return
    table = _table("version", "action", "release", "at", "actor", "note")
    for e in entries:
        table.add_row(str(e.version), e.action, _short(e.release), _when(e.at), e.actor, e.note)
    _out().print(table)


def _split_line(rooms: str, by: str, percent: dict[str, float]) -> str:
    return f"{rooms} by {by}: " + ", ".join(f"{channel} {share:g}%" for channel, share in percent.items())


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading)
    return table


def _out() -> Console:
    # Made when needed: a console keeps the stream that was standard output when it was made.
    return Console(highlight=False, markup=False, emoji=False)
