"""What a latency replay's seconds and tokens come to, and two replays side by side.

Stages are wall seconds of one request that do not overlap and add up to the whole:

========  ==================================================================================================
queue     in the policy's own queue (a slot of the embedded engine, a batch)
prefill   reading what of the prompt was not in the cache
decode    sampling
engine    the rest of the policy's calls: tokenising, grammar, transport; all of them where an engine tells no times
cut       policy calls that failed or that the deadline ended: nothing tells how they divide
tools     while calls ran and no hook did
hooks     while hooks ran
degraded  the degraded route, without its hooks
loop      the rest of the agent: look-ups for the prompt, rendering, bookkeeping
speech    until the voice had made its audio
========  ==================================================================================================

Quantiles are `numpy.percentile`'s, interpolated.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from livery.errors import InputError
from livery.evaluation.latency import Level, Measured
from livery.harness.lint_tools import LOAD_SKILL
from livery.types import Route, Turn, Usage

SCHEMA: Final = "livery.latency/1"
UNDER_S: Final = 15.0
STAGES: Final = ("queue", "prefill", "decode", "engine", "cut", "tools", "hooks", "degraded", "loop", "speech")
KINDS: Final = ("skill", "tools", "reply", "length", "malformed")
"""Kinds of turn: it loaded skills only, called tools, replied, or was cut off at the length limit or no action."""


def stages_of(measured: Measured) -> dict[str, float]:
    """Seconds by stage, in the order of `STAGES`. Their sum is ``whole_s``, unless an engine tells more seconds than
    its call took."""
    trajectory, times = measured.trajectory, measured.trajectory.stages
    timings = [t.policy.timing for t in trajectory.turns]
    queue = sum(t.queue_s for t in timings)
    prefill = sum(t.prefill_s for t in timings)
    decode = sum(t.decode_s for t in timings)
    agent = times.policy_s + times.tools_s + times.hooks_s + times.degraded_s
    return {
        "queue": queue,
        "prefill": prefill,
        "decode": decode,
        "engine": max(0.0, times.policy_s - times.cut_s - queue - prefill - decode),
        "cut": times.cut_s,
        "tools": times.tools_s,
        "hooks": times.hooks_s,
        "degraded": times.degraded_s,
        "loop": max(0.0, trajectory.total_s - agent),
        "speech": measured.synthesis_s,
    }


def kind_of(turn: Turn) -> str:
    """Of `KINDS`."""
    if turn.policy.calls:
        return "skill" if turn.results and all(r.operation == LOAD_SKILL for r in turn.results) else "tools"
    return turn.policy.stop if turn.policy.stop in KINDS else "reply"


def quantiles(seconds: Iterable[float], *, most: bool = False) -> dict[str, float]:
    """``p50_s`` and ``p95_s`` (and ``max_s``); zeros of nothing."""
    values = list(seconds) or [0.0]
    p50, p95 = np.percentile(values, (50, 95))
    found = {"p50_s": _r(p50), "p95_s": _r(p95)}
    return {**found, "max_s": _r(max(values))} if most else found


def figures(level: Level) -> dict[str, Any]:
    """All of one concurrency, for JSON; ``answered`` holds every request's seconds, for `compare`."""
    requests = level.requests
    if not requests:
        raise ValueError("no request was measured")
    whole = [m.whole_s for m in requests]
    turns = [t for m in requests for t in m.trajectory.turns]
    routes = Counter(m.trajectory.route for m in requests)
    divided = [stages_of(m) for m in requests]
    return {
        "requests": len(requests),
        **quantiles(whole, most=True),
        "mean_s": _mean(whole),
        "under_15s": _r(sum(s < UNDER_S for s in whole) / len(whole)),
        "wall_s": _r(level.wall_s),
        "warm_s": _r(level.warm_s),
        "requests_per_s": _r(len(whole) / level.wall_s) if level.wall_s else 0.0,
        "side_by_side": _r(sum(whole) / level.wall_s) if level.wall_s else 0.0,
        "routes": {route.value: routes[route] for route in Route},
        "by_route": {
            route.value: {"requests": n, **quantiles(m.whole_s for m in requests if m.trajectory.route is route)}
            for route, n in routes.items()
        },
        "stages": {
            name: {
                **quantiles(d[name] for d in divided),
                "mean_s": _mean([d[name] for d in divided]),
                "share": _r(sum(d[name] for d in divided) / sum(whole)) if sum(whole) else 0.0,
            }
            for name in STAGES
        },
        "accounted": _r(sum(sum(d.values()) for d in divided) / sum(whole)) if sum(whole) else 1.0,
        "rounds": _by(turns, lambda t: str(t.round)),
        "turns": _by(turns, kind_of, KINDS),
        "tokens": _tokens(turns, len(requests)),
        "rooms": {
            name: _prefilled([m for m in requests if m.first is first])
            for name, first in (("first", True), ("later", False))
        },
        "answered": {"id": [m.id for m in requests], "whole_s": [_r(s) for s in whole]},
    }


def _by(turns: Sequence[Turn], key: Callable[[Turn], str], order: Sequence[str] = ()) -> dict[str, Any]:
    """Turns by key: how many, their tokens at the mean, their seconds."""
    groups: dict[str, list[Turn]] = {}
    for turn in turns:
        groups.setdefault(key(turn), []).append(turn)
    names = [n for n in order if n in groups] if order else sorted(groups)
    found: dict[str, Any] = {}
    for name in names:
        group = groups[name]
        used = [t.policy.usage for t in group]
        timings = [t.policy.timing for t in group]
        found[name] = {
            "turns": len(group),
            "prompt": _mean([u.prompt for u in used]),
            "cached": _mean([u.cached for u in used]),
            "output": _mean([u.output for u in used]),
            "reasoning": _mean([u.reasoning for u in used]),
            "reasoning_p95": _r(np.percentile([u.reasoning for u in used], 95)),
            "queue": quantiles(t.queue_s for t in timings),
            "prefill": quantiles(t.prefill_s for t in timings),
            "decode": quantiles(t.decode_s for t in timings),
        }
    return found


def _tokens(turns: Sequence[Turn], requests: int) -> dict[str, Any]:
    used = sum((t.policy.usage for t in turns), Usage())
    prefill = sum(t.policy.timing.prefill_s for t in turns)
    decode = sum(t.policy.timing.decode_s for t in turns)
    return {
        "prompt": used.prompt,
        "cached": used.cached,
        "output": used.output,
        "reasoning": used.reasoning,
        "cached_share": _r(used.cached / used.prompt) if used.prompt else 0.0,
        "output_a_request": _r(used.output / requests),
        "prefill_per_s": _r((used.prompt - used.cached) / prefill) if prefill else 0.0,
        "decode_per_s": _r(used.output / decode) if decode else 0.0,
    }


def _prefilled(requests: Sequence[Measured]) -> dict[str, Any]:
    """What the first turn of each request had to read: a room's second request should read only what changed."""
    firsts = [m.trajectory.turns[0].policy for m in requests if m.trajectory.turns]
    read = [p.usage.prompt - p.usage.cached for p in firsts] or [0]
    return {
        "requests": len(requests),
        "read_tokens_p50": _r(np.percentile(read, 50)),
        "prefill": quantiles(p.timing.prefill_s for p in firsts),
    }


# ------------------------------------------------------------------------------------- two replays


def read_figures(path: Path) -> dict[str, Any]:
    """A ``latency.json``.

    Raises:
        InputError: no such file, or it holds something else.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError.at(path, f"cannot be read: {error.strerror}; expected a latency.json") from error
    except ValueError as error:
        raise InputError.at(path, f"found no JSON ({error}); expected a latency.json", code="not-json") from error
    if not isinstance(data, dict) or cast("dict[str, Any]", data).get("schema") != SCHEMA:
        raise InputError.at(path, f"expected what `livery bench latency --out` wrote ({SCHEMA})", field="schema")
    return cast("dict[str, Any]", data)


def compare(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """B over A, by concurrency: ratios (below 1: B is quicker, or uses fewer). None where A has none of it.

    ``paired`` is the median over the requests both answered of B's seconds over A's.
    """
    shared = [c for c in a["concurrency"] if c in b["concurrency"]]
    return {
        "a": a["policy"],
        "b": b["policy"],
        "concurrency": {c: _compared(a["concurrency"][c], b["concurrency"][c]) for c in shared},
    }


def _compared(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    before = dict(zip(a["answered"]["id"], a["answered"]["whole_s"], strict=True))
    after = dict(zip(b["answered"]["id"], b["answered"]["whole_s"], strict=True))
    pairs = [after[i] / before[i] for i in before if i in after and before[i]]
    kinds = [k for k in KINDS if k in a["turns"] or k in b["turns"]]

    def of_turns(kind: str, name: str) -> float | None:
        return _ratio(a["turns"].get(kind, {}).get(name, 0), b["turns"].get(kind, {}).get(name, 0))

    return {
        **{name: [a[name], b[name]] for name in ("p50_s", "p95_s", "under_15s")},
        "p50": _ratio(a["p50_s"], b["p50_s"]),
        "p95": _ratio(a["p95_s"], b["p95_s"]),
        "paired": _r(np.median(pairs)) if pairs else None,
        "pairs": len(pairs),
        "agent_route": [a["routes"]["agent"], b["routes"]["agent"]],
        "stages": {s: _ratio(a["stages"][s]["mean_s"], b["stages"][s]["mean_s"]) for s in STAGES},
        "tokens": {
            n: _ratio(a["tokens"][n], b["tokens"][n])
            for n in ("output_a_request", "cached_share", "prefill_per_s", "decode_per_s")
        },
        "turns": {
            k: {n: of_turns(k, n) for n in ("output", "reasoning")}
            | {"reasoning_tokens": [a["turns"].get(k, {}).get("reasoning"), b["turns"].get(k, {}).get("reasoning")]}
            for k in kinds
        },
    }


def _ratio(a: float, b: float) -> float | None:
    return _r(b / a) if a else None


def _mean(values: Sequence[float]) -> float:
    return _r(np.mean(values)) if values else 0.0


def _r(value: Any) -> float:
    return round(float(value), 4)
