"""What a training run leaves for people: a card of what was trained on what, the log, and a picture of the
loss."""

from __future__ import annotations

import importlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = ("livery", "torch", "transformers", "trl", "peft", "accelerate", "datasets", "tokenizers")


def versions() -> dict[str, str]:
    """Python and the packages on which a run's numbers depend."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a source tree that is not installed
            continue
    return found


def processors() -> str:
    """This machine's processors, in words."""
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]\
        if info.is_file() else []  # fmt: skip
    kind = names[0] if names else platform.processor() or platform.machine()
    return f"{os.cpu_count()} CPUs ({kind})"


def machine() -> str:
    """What the figures of a run were measured on, in words."""
    torch: Any = importlib.import_module("torch")
    cuda = (
        [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    )
    return f"{processors()}, {', '.join(cuda) or 'no GPU'}"


def write_run_card(out: Path, card: Mapping[str, Any], logged: Sequence[Mapping[str, Any]]) -> None:
    """``run.json`` for machines, ``README.md`` for people, ``log.jsonl`` with each logged step."""
    (out / "run.json").write_text(
        json.dumps(card, indent=1, sort_keys=True, default=str, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    lines = [json.dumps(entry, default=float) for entry in logged]
    (out / "log.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (out / "README.md").write_text(_readme(card), encoding="utf-8")


def _readme(card: Mapping[str, Any]) -> str:
    parts = [f"# A {card['kind'].upper()} run", "", "![loss](loss.png)", ""]
    for title in ("result", "data", "model", "settings", "versions"):
        parts += [f"## {title.capitalize()}", "", "| | |", "|---|---|"]
        parts += [f"| {name} | {_cell(value)} |" for name, value in card.get(title, {}).items()]
        parts.append("")
    return "\n".join(parts)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return text.replace("|", "\\|").replace("\n", " ")


def loss_picture(out: Path, logged: Sequence[Mapping[str, Any]], *, title: str) -> Path:
    """``loss.png``: loss and share of right tokens over the steps, the held-out loss where it was
    measured."""
    figures: Any = importlib.import_module("matplotlib.figure")
    figure = figures.Figure(figsize=(8, 4.5), layout="constrained")
    left = figure.add_subplot()
    right = left.twinx()
    for axis, name, label, colour, style in (
        (left, "loss", "loss", "tab:blue", "-"),
        (left, "eval_loss", "held-out loss", "tab:red", "o-"),
        (right, "mean_token_accuracy", "right tokens", "tab:green", "-"),
    ):
        points = [(e["step"], e[name]) for e in logged if name in e]
        if points:
            axis.plot(*zip(*points, strict=True), style, color=colour, label=label, linewidth=1, markersize=3)
    left.set(xlabel="optimizer step", ylabel="loss a token", title=title)
    left.set_ylim(bottom=0)
    right.set(ylabel="share of right tokens", ylim=(0, 1))
    left.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    path = out / "loss.png"
    figure.savefig(path, dpi=130)
    return path
