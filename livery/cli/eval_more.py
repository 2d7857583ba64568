"""``livery eval ifeval`` and ``livery eval table``: plain instructions, and one table over all runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from livery.errors import InputError

if TYPE_CHECKING:
    from livery.evaluation.ifeval_figures import IfevalFigures

_notices = Console(stderr=True, highlight=False)
_screen = Console(highlight=False)


def ifeval(
    out: Annotated[Path, typer.Option(help="Folder of the run; one that was begun goes on.")],
    policy: Annotated[str, typer.Option(help="hf:FOLDER?batch=16&device=cuda or openai:URL?model=NAME.")] = "",
    model: Annotated[str, typer.Option(help="In place of --policy: a model folder or hub name, for hf:.")] = "",
    lora: Annotated[list[Path] | None, typer.Option(help="Adapter for hf:; may be repeated.")] = None,
    data: Annotated[
        str, typer.Option(help="IFEval's prompts as JSON Lines, or their name on the hub.")
    ] = "google/IFEval",
    limit: Annotated[int, typer.Option(min=0, help="Only the first so many prompts; 0: all.")] = 0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a response.")] = 1280,
    concurrency: Annotated[
        int, typer.Option(min=0, help="Requests at a time; 0: 8 for openai:, the batch for hf:.")
    ] = 0,
) -> None:
    """T4: ask IFEval's prompts as plain chats and check the responses with lm-eval's checkers.

    Start it again to go on after a kill, or with a longer --limit. The last line is JSON.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from livery.evaluation import ifeval as t4
    from livery.evaluation.ifeval_chat import open_chat
    from livery.evaluation.ifeval_checkers import open_checkers
    from livery.evaluation.ifeval_figures import figures
    from livery.evaluation.ifeval_prompts import load_prompts, prompts_digest

    if bool(policy) == bool(model):
        raise InputError.at("--policy", "expected --policy or --model, one of them", code="ifeval-policy")
    prompts = load_prompts(data)
    with _notices.status("loading the checkers"):
        checkers = open_checkers()  # before hours of answers that could not be checked
    checkers.require(prompts)
    with _notices.status("loading the model"):
        chat = open_chat(policy or f"hf:{model}", tuple(lora or ()))
    recipe = t4.IfevalRecipe(
        tasks=prompts_digest(prompts),
        prompts=len(prompts),
        policy=chat.uri,
        weights=chat.weights,
        template=chat.template,
        max_tokens=max_tokens,
    )
    asked = prompts[: limit or len(prompts)]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_notices) as bar:
        shown = bar.add_task(f"t4 under {recipe.policy}", total=len(asked))

        async def run() -> t4.Answered:
            try:
                return await t4.answer(
                    recipe, asked, chat, out, at_a_time=concurrency, progress=lambda _: bar.advance(shown)
                )
            finally:
                await chat.aclose()

        answered = asyncio.run(run())
    with _notices.status("checking"):
        results = t4.check(asked, answered.responses, checkers)
        found = figures(results)
    t4.write_ifeval(out, results, found, checkers.name)
    _screen.print(_ifeval_table(found, f"T4 IFEval, {recipe.policy}, {found.prompts} of {len(prompts)} prompts"))
    if answered.open:
        _notices.print(f"{answered.open} prompts are open: nobody answered. Start it again to ask them.")
    _notices.print(f"the report: {out / t4.REPORT}")
    new = len(answered.responses) - answered.resumed
    measured = {
        "suite": t4.SUITE,
        "policy": recipe.policy,
        "tasks": found.prompts,
        "of": len(prompts),
        **{name: one.to_json() for name, one in found.measures.items()},
        "cut_percent": found.cut.to_json(),
        "costs": found.costs,
        "resumed": answered.resumed,
        "unavailable": answered.open,
        "overflowed": sum(r.overflow for r in answered.responses),
        "seconds": round(answered.seconds, 2),
        "tokens_per_second": round(answered.tokens / answered.seconds, 1) if new else None,
    }
    print(json.dumps(measured, ensure_ascii=False))
    if answered.open:
        raise typer.Exit(1)


def table(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Folders of runs, or their report.json; those of one policy make a row.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="NAME=RUN,RUN: runs that make a row of this name; may be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for the table as Markdown.")] = None,
    html: Annotated[Path | None, typer.Option(help="File for the table as a page.")] = None,
) -> None:
    """One table over runs: T1, T2, T3, T4, edits, reasoning and time, with intervals. The last line is JSON."""
    from livery.evaluation import table_page
    from livery.evaluation.table import build_table

    if not runs and not label:
        raise InputError.at("RUN", "found no run; expected folders of runs, or --label NAME=RUN,RUN", code="no-runs")
    built = build_table(runs or [], _labels(label or []))
    text = table_page.markdown(built)
    print(text)
    for path, content in ((out, text), (html, table_page.html(built) if html else "")):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8", newline="\n")
            _notices.print(f"the table: {path}")
    print(json.dumps(built.to_json(), ensure_ascii=False))


def _labels(given: list[str]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for text in given:
        name, _, rest = text.partition("=")
        places = [Path(p.strip()) for p in rest.split(",") if p.strip()]
        if not name.strip() or not places:
            raise InputError.at(text, "expected NAME=RUN,RUN", field="--label", code="table-label")
        if name.strip() in found:
            raise InputError.at(text, f"a second {name.strip()!r}; expected each name once", field="--label")
        found[name.strip()] = places
    return found


def concurrency_of(out: Path, now: int, resumed: int) -> int | None:
    """How many requests a run's results were played at a time, at most; None: an earlier start did not say.

    Args:
        out: the run's folder, before its new report is written.
        now: of this start.
        resumed: results that earlier starts made.
    """
    if not resumed:
        return now
    try:
        report: Any = json.loads((out / "report.json").read_text(encoding="utf-8"))
        earlier: Any = report["run"].get("concurrency")
    except (OSError, ValueError, KeyError):
        return None  # killed before it wrote one
    return max(now, earlier) if isinstance(earlier, int) else None


def _ifeval_table(found: IfevalFigures, title: str) -> Table:
    from livery.evaluation.ifeval_figures import TITLES

    table = Table("accuracy", "points", "95 % interval", title=title, title_justify="left")
    for name, one in found.measures.items():
        table.add_row(TITLES[name], f"{one.value:.1f}", f"{one.low:.1f} to {one.high:.1f}")
    table.add_row("Cut off by the limit", f"{found.cut.value:.1f}", f"{found.cut.low:.1f} to {found.cut.high:.1f}")
    return table
