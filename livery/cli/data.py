"""``livery data``: build, check and look at training conversations.

Everything heavy is imported inside the commands, so that other commands start quickly.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer
from rich.console import Console

from livery.errors import InputError

if TYPE_CHECKING:
    from livery.training.rollouts import Filter, Teacher

app = typer.Typer(help="Training conversations: build, check, show.", no_args_is_help=True)

_notices = Console(stderr=True, highlight=False)
_screen = Console(highlight=False)

ModelOption = Annotated[
    str,
    typer.Option(help="Whose tokenizer: a folder, a hub name or a GGUF file; empty: the embedded model's."),
]


@app.command()
def build(
    harness: Annotated[list[Path], typer.Argument(help="Harness folders; each gets tasks in its language.")],
    out: Annotated[Path, typer.Option(help="Folder for rows, card and journal.")] = Path("out/data"),
    tasks: Annotated[int, typer.Option(min=1, help="Tasks for each harness.")] = 1000,
    task_file: Annotated[
        Path | None,
        typer.Option(help="Tasks of `livery tasks make` instead; each goes to the harness of its language."),
    ] = None,
    split: Annotated[Literal["train", "heldout"], typer.Option(help="Of worlds, words and operators.")] = "train",
    teacher: Annotated[
        str, typer.Option(help="`oracle`, `oracle?manner=plain`, or a policy URI with actions=text.")
    ] = "oracle",
    judge: Annotated[
        str, typer.Option(help="What filters: `verifier`, `none`, or a policy URI that judges.")
    ] = "verifier",
    model: ModelOption = "",
    passes: Annotated[int, typer.Option(min=1, help="Harnesses under which each task is run.")] = 1,
    tasks_a_variant: Annotated[int, typer.Option(min=1, help="Tasks that share a variant.")] = 5,
    base_share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of groups under the base harness; 1: only there.")
    ] = 0.2,
    strength: Annotated[float, typer.Option(min=0, max=1, help="How much a variant changes.")] = 0.5,
    dimension: Annotated[
        list[str] | None, typer.Option(help="Only operators of this dimension; may be repeated.")
    ] = None,
    keep_whole: Annotated[
        float, typer.Option(min=0, max=1, help="Share of conversations that keep what was sent back.")
    ] = 0.05,
    first_turns: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the rows that are cut after the policy's first turn.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Of everything.")] = 0,
    concurrency: Annotated[int, typer.Option(min=1, help="Conversations side by side.")] = 16,
    deadline: Annotated[float, typer.Option(help="A teacher's seconds for one conversation.")] = 120.0,
) -> None:
    """Run tasks under a harness and its variants through a teacher and keep what is right.

    Start it again to go on after a kill. The last line is JSON: the counts.
    """
    from livery.policies.hf_loading import load_tokenizer, needed

    needed("transformers", "pyarrow")
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from livery.cli.harnesses import load_checked
    from livery.simulator.task_sets import read_tasks
    from livery.simulator.tasks import make_tasks
    from livery.training import data

    harnesses = {folder.resolve().name: load_checked(folder) for folder in harness}
    if task_file is not None:
        asked = [(_of_language(harnesses, t.world.language, task_file), t) for t in read_tasks(task_file)]
    else:
        worlds: Literal["train", "test"] = "train" if split == "train" else "test"
        asked = [
            (name, task)
            for name, one in harnesses.items()
            for task in make_tasks(worlds, "zh" if one.language.startswith("zh") else "en", tasks, seed * 100_003)
        ]
    tokenizer = load_tokenizer(model)
    recipe = data.Recipe(
        harnesses=data.recipe_harnesses(harnesses),
        split=split,
        tasks=data.tasks_digest(asked),
        task_seeds={} if task_file else {"worlds": seed * 100_003},
        seed=seed,
        passes=passes,
        tasks_a_variant=tasks_a_variant,
        base_share=base_share,
        keep_whole=keep_whole,
        first_turns=first_turns,
        variants={"strength": strength, "dimensions": dimension or "all"},
        teacher=teacher,
        filter=judge,
        tokenizer={"source": model or "embedded", "digest": tokenizer.digest},
    )
    todo = list(data.jobs(recipe, harnesses, asked, _variants(split, strength, dimension), patience_s=deadline))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[kept]} kept"),
        TimeRemainingColumn(),
    )
    began = time.perf_counter()
    with Progress(*columns, console=_notices) as bar:
        shown = bar.add_task(f"conversations under {len(harnesses)} harness(es)", total=len(todo), kept=0)

        def done(jobs: int, kept: int) -> None:
            bar.update(shown, completed=jobs, kept=kept)

        async def run() -> data.Built:
            # An adapter that comes along speaks one language: none is chosen where harnesses speak several.
            spoken = {one.language for one in harnesses.values()}
            made, close = _teacher(teacher, seed, spoken.pop() if len(spoken) == 1 else "mul")
            filtered, close_filter = _filter(judge)
            try:
                return await data.build(
                    recipe, todo, made, filtered, tokenizer, out, concurrency=concurrency, done=done
                )
            finally:
                await close()
                await close_filter()

        built = asyncio.run(run())
    _notices.print(f"{built.rows} rows in {out}; what they are made of: {out / 'README.md'}")
    counts: dict[str, Any] = {
        "rows": built.rows,
        "conversations": built.jobs,
        "dropped": dict(built.dropped),
        "retries": dict(built.retries),
        "base": built.base,
        "harnesses": built.groups,
        "tokens": built.tokens,
        "written": built.written,
        "resumed": built.resumed,
        "seconds": round(time.perf_counter() - began, 2),
    }
    print(json.dumps(counts, ensure_ascii=False))


def _of_language(harnesses: dict[str, Any], language: str, file: Path) -> str:
    name = next((n for n, h in harnesses.items() if h.language.startswith(language)), None)
    if name is None:
        raise InputError.at(file, f"tasks in {language!r}, and no harness of that language was given")
    return name


def _variants(split: str, strength: float, dimensions: list[str] | None) -> Any:
    from livery.augment.operators import DIMENSIONS
    from livery.augment.sampling import sample_variant

    unknown = sorted({*(dimensions or ())} - {*DIMENSIONS})
    if unknown:
        raise InputError.at(
            "--dimension",
            f"found {', '.join(unknown)}; expected of {', '.join(DIMENSIONS)}",
            code="dimension",
        )
    chosen: Any = tuple(dimensions or DIMENSIONS)
    of: Any = split

    def draw(harness: Any, seed: int) -> tuple[Any, list[dict[str, Any]]]:
        variant = sample_variant(harness, seed, of, strength, chosen)
        return variant.harness, [record.model_dump(mode="json") for record in variant.records]

    return draw


async def _nothing() -> None:
    """Nothing to close."""


def _teacher(uri: str, seed: int, language: str) -> tuple[Teacher, Any]:
    """(teacher, how to close it)."""
    from livery.policies.open import open_policy
    from livery.simulator.oracle import Manner
    from livery.training.rollouts import AgentTeacher, oracle_teacher

    if uri.partition("?")[0] == "oracle":
        manner = uri.partition("?")[2].removeprefix("manner=") or "varied"
        if manner not in get_args(Manner):
            raise InputError.at("--teacher", f"found {uri!r}; expected oracle, or oracle?manner=plain", code="teacher")
        return oracle_teacher(seed, cast(Manner, manner)), _nothing
    policy = open_policy(uri, language=language)
    return AgentTeacher(policy), policy.aclose


def _filter(name: str) -> tuple[Filter, Any]:
    from livery.policies.open import open_policy
    from livery.training.rollouts import AnyFilter, JudgeFilter, VerifierFilter

    if name == "verifier":
        return VerifierFilter(), _nothing
    if name == "none":
        return AnyFilter(), _nothing
    policy = open_policy(name)
    return JudgeFilter(policy), policy.aclose


@app.command()
def check(
    folder: Annotated[Path, typer.Argument(help="What `livery data build` wrote.")],
    model: ModelOption = "",
) -> None:
    """Render every conversation twice, whole and turn by turn; any difference in tokens is an error."""
    from livery.policies.hf_loading import load_tokenizer, needed

    needed("transformers", "pyarrow")
    from livery.training.rows import read_card, read_rows, tokenised_anew

    tokenizer = load_tokenizer(model)
    rows = read_rows(folder)
    again = tokenised_anew(rows, tokenizer)
    same = read_card(folder).get("tokenizer", {}).get("digest") == tokenizer.digest
    changed = [a.id for a, b in zip(rows, again, strict=True) if a.tokens != b.tokens] if same else []
    if changed:
        raise InputError.at(folder, f"{len(changed)} rows hold other ids than their messages give, first {changed[0]}")
    print(json.dumps({"rows": len(rows), "differences": 0, "tokenizer": tokenizer.digest, "as_built": same}))


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="What `livery data build` wrote.")],
    row: Annotated[int, typer.Argument(min=0, help="Which row, from 0.")] = 0,
    model: ModelOption = "",
) -> None:
    """Show a row as a model meets it: what the policy wrote, on which the loss falls, in green."""
    from rich.text import Text

    from livery.policies.hf_loading import load_tokenizer, needed

    needed("transformers", "pyarrow")
    from livery.training.rows import read_rows

    tokenizer = load_tokenizer(model)
    rows = read_rows(folder)
    if row >= len(rows):
        raise InputError.at(folder, f"{len(rows)} rows; expected a number below that", field="row")
    chosen = rows[row]
    text = Text()
    at = 0
    ids, written = chosen.tokens.ids, chosen.tokens.written
    while at < len(ids):
        end = at
        while end < len(ids) and written[end] == written[at]:
            end += 1
        piece: str = tokenizer.tokenizer.decode(list(ids[at:end]))
        text.append(piece, style="bold green" if written[at] else "dim")
        at = end
    _screen.print(text)
    _notices.print_json(json.dumps({"id": chosen.id, **chosen.fields}, ensure_ascii=False))
