"""The lab's table: what each arm earned on each set, with intervals, and what it kept of T1 on T2.

Read from the evaluations that are finished; nothing is played here. Seeds of one arm are averaged task by task before
tasks are resampled: the interval speaks of tasks, and the seeds stand apart beside it. An interval over two seeds would
be a guess.
"""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from livery.errors import InputError
from livery.evaluation.edits_reduction import error_reduction
from livery.evaluation.ifeval import RESULTS
from livery.evaluation.ifeval_figures import MODES, TITLES, IfevalResult, ratio
from livery.evaluation.results import Result, read_results
from livery.evaluation.statistics import Floats, difference, estimate, points
from livery.training.lab import BASE, IFEVAL, LabConfig, Step, done_of
from livery.training.lab_evals import verifiers_of
from livery.training.run_card import machine

TABLE_JSON: Final = "lab.json"
TABLE_MD: Final = "lab.md"
PICTURE: Final = "lab.png"
MEASURES: Final = ("avg", "accuracy", "effectiveness", "tool_rationality", "skill_selection")
_HEADS: Final = ("AVG", "accuracy", "effectiveness", "tools", "skill")
_FIRST: Final = "t1"
R = TypeVar("R")
COSTS: Final = ("rounds", "calls", "output_tokens", "reasoning_call_tokens", "reasoning_reply_tokens")


def write_table(out: Path, step: Step, config: LabConfig, *, profile: str, partly: bool = False) -> dict[str, Any]:
    """Write the table into the step's folder and return what the JSON holds. What is not finished is left out, and
    named.

    Args:
        partly: of an evaluation that is begun, take the first tasks up to one that has no result yet.
    """
    done = [name for name in step.needs if done_of(out / name)]
    begun = _begun(out, [n for n in step.needs if n not in done]) if partly else {}
    if not done and not begun:
        raise InputError.at(out, "no evaluation is finished; there is nothing to tabulate", code="lab-table")
    plain = [name for name in done if name.endswith(f"-{IFEVAL}")]
    runs = {name: read_results(out / name / "run") for name in done if name not in plain}
    followed = {name: _read_followed(out / name / "run" / RESULTS) for name in plain}
    data = table({**runs, **begun}, config, profile=profile, followed=followed)
    data["begun"] = {name: len(results) for name, results in begun.items()}
    data["unfinished"] = [name for name in step.needs if name not in done and name not in begun]
    data["verifiers"] = verifiers_of({n: out / n / "run" for n in (*runs, *begun)}, lambda name: "-edits-" not in name)
    data["date"] = datetime.now(UTC).date().isoformat()
    data["machine"] = machine()
    data["picture"] = PICTURE if profile == "full" else f"lab-{profile}.png"
    data["training"] = {
        f"{a.name}-s{s}": {"stage": a.stage, "measured": marker["measured"], **marker["facts"]}
        for a in config.arms
        for s in config.seeds_of(a)
        if (marker := done_of(out / f"{a.step}-s{s}"))
    }
    (out / step.name).mkdir(parents=True, exist_ok=True)
    picture(data, out / step.name / PICTURE)
    (out / step.name / TABLE_JSON).write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / step.name / TABLE_MD).write_text(as_markdown(data), encoding="utf-8")
    return data


def table(
    runs: Mapping[str, Sequence[Result]],
    config: LabConfig,
    *,
    profile: str,
    followed: Mapping[str, Sequence[IfevalResult]] | None = None,
) -> dict[str, Any]:
    """
    Args:
        runs: results by the name of the evaluation's step; arms and sets that are not there are left out.
        followed: the same of the plain prompts.
    """
    seeds = {BASE: (0,), **{a.name: config.seeds_of(a) for a in config.arms}}
    arms: dict[str, Any] = {}
    means: dict[tuple[str, str], dict[str, Floats]] = {}
    for arm, its_seeds in seeds.items():
        for suite in config.suites:
            by_seed = _by_seed(runs, arm, its_seeds, suite)
            if not by_seed:
                continue
            columns = [points(sorted(r, key=lambda one: one.index)) for r in by_seed.values()]
            mean = {m: np.mean([c[m] for c in columns], axis=0) for m in MEASURES}
            means[arm, suite] = mean
            arms.setdefault(arm, {})[suite] = {
                "measures": {m: estimate(mean[m]).to_json() for m in MEASURES},
                "seeds": {str(s): estimate(c["avg"]).to_json() for s, c in zip(by_seed, columns, strict=True)},
                "costs": {c: float(np.mean([[getattr(r, c) for r in rs] for rs in by_seed.values()])) for c in COSTS},
            }
    kept = {
        arm: {
            suite: _paired(means[arm, _FIRST], means[arm, suite])
            for suite in config.suites
            if suite != _FIRST and (arm, suite) in means
        }
        for arm in arms
        if (arm, _FIRST) in means
    }
    versus = {
        f"{b} against {a}": {
            suite: _paired(means[a, suite], means[b, suite])
            for suite in config.suites
            if (a, suite) in means and (b, suite) in means
        }
        for a, b in _pairs(config, tuple(arms))
    }
    return {
        "schema": "livery.lab-table/1",
        "profile": profile,
        "tasks": {suite: next(iter(m["avg"].shape)) for (_, suite), m in means.items()},
        "arms": arms,
        "t2_less_t1": kept,
        "edits": _edits(runs, seeds),
        "ifeval": _ifeval(followed or {}, seeds),
        "between": versus,
        "config": config.model_dump(mode="json"),
    }


def _begun(out: Path, names: Sequence[str]) -> dict[str, list[Result]]:
    found: dict[str, list[Result]] = {}
    for name in names:
        folder = out / name / "run"
        if name.endswith(f"-{IFEVAL}") or not (folder / RESULTS).is_file():
            continue
        by_place = {r.index: r for r in read_results(folder)}
        first = list(takewhile(lambda i, known=by_place: i in known, range(len(by_place))))
        if first:
            found[name] = [by_place[i] for i in first]
    return found


def _read_followed(path: Path) -> list[IfevalResult]:
    return [IfevalResult.model_validate_json(line) for line in path.read_bytes().splitlines()]


def _by_seed(runs: Mapping[str, Sequence[R]], arm: str, seeds: Sequence[int], suite: str) -> dict[int, Sequence[R]]:
    names = {s: f"eval-{arm}-{suite}" if arm == BASE else f"eval-{arm}-s{s}-{suite}" for s in seeds}
    return {s: runs[name] for s, name in names.items() if runs.get(name)}


def _edits(runs: Mapping[str, Sequence[Result]], seeds: Mapping[str, Sequence[int]]) -> dict[str, dict[str, Any]]:
    """Arm -> seed -> what edits of the harness did to the errors that the edited harness counts."""
    found: dict[str, dict[str, Any]] = {}
    for arm, its_seeds in seeds.items():
        old, new = (_by_seed(runs, arm, its_seeds, f"edits-{when}") for when in ("old", "new"))
        for seed in old.keys() & new.keys():
            found.setdefault(arm, {})[str(seed)] = error_reduction(old[seed], new[seed]).to_json()
    return found


def _ifeval(
    followed: Mapping[str, Sequence[IfevalResult]], seeds: Mapping[str, Sequence[int]]
) -> dict[str, dict[str, Any]]:
    """Arm -> measure of IFEval, in per cent; seeds averaged prompt by prompt."""
    found: dict[str, dict[str, Any]] = {}
    for arm, its_seeds in seeds.items():
        by_seed = _by_seed(followed, arm, its_seeds, IFEVAL)
        if not by_seed:
            continue
        rows = [sorted(r, key=lambda one: one.key) for r in by_seed.values()]
        sizes = np.array([len(r.instructions) for r in rows[0]], dtype=np.float64)
        for mode in MODES:
            met = np.mean([[sum(getattr(r, mode)) for r in row] for row in rows], axis=0)
            whole = np.mean([[all(getattr(r, mode)) for r in row] for row in rows], axis=0)
            found.setdefault(arm, {})[f"prompt_{mode}"] = ratio(whole, np.ones(len(sizes))).to_json()
            found[arm][f"instruction_{mode}"] = ratio(met, sizes).to_json()
        found[arm]["prompts"] = len(sizes)
        found[arm]["cut_percent"] = 100 * float(np.mean([[r.cut for r in row] for row in rows]))
    return found


def _paired(a: Mapping[str, Floats], b: Mapping[str, Floats]) -> dict[str, Any]:
    """B less A by the tasks both have (sets share their tasks by place): in AVG, and in effectiveness, which unlike AVG
    gives nothing for silence."""
    n = min(len(a["avg"]), len(b["avg"]))
    return {m: difference(a[m][:n], b[m][:n]).to_json() for m in ("avg", "effectiveness")}


def _pairs(config: LabConfig, there: Sequence[str]) -> list[tuple[str, str]]:
    """Arms that differ in one thing. Of one stage and budget: each that augments against each that does not, and a
    left-out dimension against none; and each against the arm it goes on from."""
    known = [a for a in config.arms if a.name in there]
    out: list[tuple[str, str]] = []
    for a in known:
        for b in known:
            if b.after == a.name:
                out.append((a.name, b.name))
            if (a.stage, a.tasks, a.steps) == (b.stage, b.tasks, b.steps) and not a.without and a is not b:
                fixed = a.stage != "distill" and not a.augment and b.augment
                left_out = a.augment and b.without is not None
                if fixed or left_out:
                    out.append((a.name, b.name))
    return out


def as_markdown(data: Mapping[str, Any]) -> str:
    lines = [
        "# The lab",
        "",
        f"`livery lab run --profile {data['profile']}`, {data.get('date', '')}; {data.get('machine', '')}.",
        "Points, with 95 % bootstrap intervals over tasks; seeds averaged task by task.",
        "",
        *_unfinished(data),
        f"![effectiveness]({data.get('picture', PICTURE)})",
        "",
        "## Scores",
        "",
        "| arm | set | tasks | " + " | ".join(_HEADS) + " | AVG by seed |",
        "|---|---|---|" + "---|" * (len(_HEADS) + 1),
    ]
    for arm, suites in data["arms"].items():
        for suite, found in suites.items():
            cells = [_estimate(found["measures"][m]) for m in MEASURES]
            seeds = ", ".join(f"{s}: {e['value']:.1f}" for s, e in found["seeds"].items())
            n = found["measures"]["avg"]["n"]
            lines.append(f"| {arm} | {suite} | {n} | " + " | ".join(cells) + f" | {seeds} |")
    for title, part in (("What is kept of T1, paired by task", "t2_less_t1"), ("Arms beside one another", "between")):
        if not any(data[part].values()):
            continue
        lines += ["", f"## {title}", ""]
        lines += ["| | set | AVG, difference | share kept, % | effectiveness, difference | share kept, % |"]
        lines += ["|---|---|---|---|---|---|"]
        for name, suites in data[part].items():
            for suite, found in suites.items():
                cells = " | ".join(_difference(found[m]) for m in ("avg", "effectiveness"))
                lines.append(f"| {name} | {suite} | {cells} |")
    lines += _more_sets(data)
    lines += _training(data.get("training", {}))
    return "\n".join(lines) + "\n"


def _more_sets(data: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    if data.get("ifeval"):
        lines += ["", "## IFEval, per cent", "", "| arm | prompts | " + " | ".join(TITLES.values()) + " | cut off |"]
        lines.append("|---|---|" + "---|" * (len(TITLES) + 1))
        for arm, found in data["ifeval"].items():
            cells = " | ".join(_estimate(found[m]) for m in TITLES)
            lines.append(f"| {arm} | {found['prompts']} | {cells} | {found['cut_percent']:.0f} |")
    if data.get("edits"):
        lines += ["", "## Edits of the harness: errors by the edited harness's demands, per cent", ""]
        lines += [
            "| arm | seed | tasks | before the edit | after it | error reduction, % |",
            "|---|---|---|---|---|---|",
        ]
        for arm, seeds in data["edits"].items():
            for seed, found in sorted(seeds.items()):
                less = _estimate(found["reduction_percent"]) if found["reduction_percent"] else "–"
                errors = " | ".join(_estimate(found[f"errors_{w}_percent"]) for w in ("old", "new"))
                lines.append(f"| {arm} | {seed} | {found['tasks']} | {errors} | {less} |")
    costs = {arm: found[_FIRST]["costs"] for arm, found in data["arms"].items() if "costs" in found.get(_FIRST, {})}
    if costs:
        lines += ["", "## What a task of T1 takes, on the mean", ""]
        lines += ["| arm | " + " | ".join(c.replace("_", " ") for c in COSTS) + " |", "|---" * (len(COSTS) + 1) + "|"]
        lines += [f"| {arm} | " + " | ".join(f"{c[k]:.1f}" for k in COSTS) + " |" for arm, c in costs.items()]
    return lines


_TRAINED: Final[Mapping[str, tuple[str, Mapping[str, Callable[[Mapping[str, Any]], str]]]]] = {
    "sft": (
        "supervised",
        {
            "rows": lambda f: f"{f['rows']}",
            "tokens read": lambda f: f"{f['tokens_read']}",
            "first loss": lambda f: f"{f['first_loss']:.3f}",
            "last loss": lambda f: f"{f['loss']:.3f}",
        },
    ),
    "distill": (
        "distillation",
        {
            "first KL": lambda f: f"{f['first_kl']:.4f}",
            "last KL": lambda f: f"{f['kl']:.4f}",
            "tokens a reply": lambda f: f"{f['length']:.0f}",
            "cut off": lambda f: f"{f['truncated']:.0%}",
        },
    ),
    "rl": (
        "reinforcement learning",
        {
            "rollouts": lambda f: f"{f['rollouts']}",
            "success, first": lambda f: f"{f['first'].get('success', float('nan')):.2f}",
            "last": lambda f: f"{f['last'].get('success', float('nan')):.2f}",
            "rollout s": lambda f: f"{f['rollout_s']:.0f}",
            "scoring s": lambda f: f"{f['scoring_s']:.0f}",
            "update s": lambda f: f"{f['update_s']:.0f}",
        },
    ),
}
"""Stage -> its title, and its columns beside steps and minutes."""


def _training(runs: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for stage, (title, columns) in _TRAINED.items():
        of = {name: f for name, f in runs.items() if f["stage"] == stage}
        if not of:
            continue
        lines += ["", f"## Training: {title}", ""]
        lines.append("| arm and seed | steps | " + " | ".join(columns) + " | minutes |")
        lines.append("|---" * (len(columns) + 3) + "|")
        for name, f in of.items():
            minutes = f"{f['seconds'] / 60:.1f}" + ("" if f["measured"] else " (last start)")
            lines.append(f"| {name} | {f['steps']} | " + " | ".join(c(f) for c in columns.values()) + f" | {minutes} |")
    return lines


def _unfinished(data: Mapping[str, Any]) -> list[str]:
    left: list[str] = data.get("unfinished", [])
    begun: dict[str, int] = data.get("begun", {})
    lines = [f"**Not finished, and not in the tables:** {', '.join(left)}.", ""] if left else []
    if begun:
        lines += [f"**Begun, first tasks only:** {', '.join(f'{name} ({n})' for name, n in begun.items())}.", ""]
    verifiers: dict[str, list[str]] = data.get("verifiers", {})
    if len(verifiers) > 1:
        fewest = ", ".join(min(verifiers.values(), key=len))
        said = (
            f"**Scored by {len(verifiers)} versions of the verifier**, so not comparable: {fewest} apart from the rest"
        )
        lines += [f"{said}. `livery eval rescore` scores them by one.", ""]
    return lines


def picture(data: Mapping[str, Any], path: Path) -> None:
    """Bars of effectiveness, with intervals: a group for each set, an arm each in it."""
    figures: Any = importlib.import_module("matplotlib.figure")
    arms: dict[str, Any] = data["arms"]
    suites = [s for s in data["tasks"] if any(s in found for found in arms.values())]
    figure = figures.Figure(figsize=(1.5 + 1.4 * len(suites), 3.6), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(arms)
    for i, (arm, found) in enumerate(arms.items()):
        places = [k for k, s in enumerate(suites) if s in found]
        ones = [found[suites[k]]["measures"]["effectiveness"] for k in places]
        values = [e["value"] for e in ones]
        errors = [[e["value"] - e["low"] for e in ones], [e["high"] - e["value"] for e in ones]]
        axes.bar(
            [k + (i - (len(arms) - 1) / 2) * width for k in places], values, width, yerr=errors, capsize=2, label=arm
        )
    axes.set_xticks(range(len(suites)), [s.replace("t2-", "t2\n").replace("-", "\n") for s in suites], fontsize=8)
    axes.set_ylim(0, 100)
    axes.set_ylabel("effectiveness, points")
    axes.legend(fontsize=8, frameon=False, ncols=len(arms), loc="upper center", bbox_to_anchor=(0.5, 1.14))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def _difference(d: Mapping[str, Any]) -> str:
    share = _estimate(d["kept_percent"]) if d["kept_percent"] else "–"
    return f"{d['value']:+.1f} ({d['low']:+.1f} to {d['high']:+.1f}) | {share}"


def _estimate(e: Mapping[str, Any]) -> str:
    return f"{e['value']:.1f} ({e['low']:.1f} to {e['high']:.1f})"


def publish(table: Path, to: Path, *, profile: str) -> list[Path]:
    """Copy a table where results are kept: Markdown and JSON to the folder, the picture beside them.

    Args:
        table: the folder that `write_table` wrote.

    Raises:
        InputError: there is no table, or its profile is the one that only shows that every step runs.
    """
    if profile == "smoke":
        raise InputError.at(table, f"found the profile {profile!r}: its figures mean nothing", code="lab-publish")
    if not (table / TABLE_JSON).is_file():
        raise InputError.at(table, "no table here; run the lab to its end, or `livery lab table`", code="lab-publish")
    to.mkdir(parents=True, exist_ok=True)
    stem = "lab" if profile == "full" else f"lab-{profile}"
    written: list[Path] = []
    for name in (TABLE_MD, TABLE_JSON, PICTURE):
        path = to / f"{stem}{Path(name).suffix}"
        written.append(Path(shutil.copy2(table / name, path)))
    return written
