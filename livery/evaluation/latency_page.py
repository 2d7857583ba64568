"""The pages of the benches: JSON, and Markdown that says how it was measured. Nothing is reckoned here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from livery.errors import InputError

Data = Mapping[str, Any]


def write(out: Path, name: str, data: Data, text: str) -> tuple[Path, Path]:
    """``name.json`` and ``name.md`` in ``out``.

    Raises:
        InputError: it cannot be a folder.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError.at(out, f"cannot be made: {error.strerror}; expected a folder for the results") from error
    pages = out / f"{name}.json", out / f"{name}.md"
    pages[0].write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    pages[1].write_text(text, encoding="utf-8")
    return pages


def latency_page(data: Data) -> str:
    levels: Mapping[str, Data] = data["concurrency"]
    names = list(levels)
    rows = [
        ("requests", *(one["requests"] for one in levels.values())),
        ("P50, s", *(_s(one["p50_s"]) for one in levels.values())),
        ("P95, s", *(_s(one["p95_s"]) for one in levels.values())),
        ("under 15 s", *(_share(one["under_15s"]) for one in levels.values())),
        ("requests a second", *(f"{one['requests_per_s']:.3f}" for one in levels.values())),
        ("really side by side", *(f"{one['side_by_side']:.2f}" for one in levels.values())),
        *((f"route `{r}`", *(one["routes"][r] for one in levels.values())) for r in data["routes"]),
        ("prompt tokens from the cache", *(_share(one["tokens"]["cached_share"]) for one in levels.values())),
        ("decode, tokens a second", *(f"{one['tokens']['decode_per_s']:.1f}" for one in levels.values())),
        ("prefill, tokens a second", *(f"{one['tokens']['prefill_per_s']:.1f}" for one in levels.values())),
    ]  # fmt: skip
    parts = [
        _head("Latency of the whole agent", data),
        f"{_what(data)}: the same {data['requests']} requests at each concurrency.",
        _table(("at concurrency", *names), rows),
    ]
    for name, one in levels.items():
        parts += [f"## At concurrency {name}", *_level(one)]
    return "\n\n".join(parts) + "\n"


def _level(one: Data) -> Iterable[str]:
    yield _table(
        ("stage", "P50, s", "P95, s", "mean, s", "share"),
        [
            (name, _s(s["p50_s"]), _s(s["p95_s"]), _s(s["mean_s"]), _share(s["share"]))
            for name, s in one["stages"].items()
        ],
    )
    for title, groups in (("round", one["rounds"]), ("kind of turn", one["turns"])):
        yield _table(
            (title, "turns", "prompt", "cached", "output", "reasoning", "prefill P50 / P95, s", "decode P50 / P95, s"),
            [
                (
                    name,
                    g["turns"],
                    *(f"{g[n]:.1f}" for n in ("prompt", "cached", "output", "reasoning")),
                    *(f"{_s(g[n]['p50_s'])} / {_s(g[n]['p95_s'])}" for n in ("prefill", "decode")),
                )
                for name, g in groups.items()
            ],
        )
    first, later = one["rooms"]["first"], one["rooms"]["later"]
    yield (
        f"A room's first request read {first['read_tokens_p50']:.0f} tokens before its first turn (median), later ones "
        f"{later['read_tokens_p50']:.0f}; prefill P50 {_s(first['prefill']['p50_s'])} and "
        f"{_s(later['prefill']['p50_s'])} s."
    )


def load_page(data: Data) -> str:
    waits = [
        (title, *(_s(data[name][q]) for q in ("p50_s", "p95_s", "max_s")))
        for title, name in (
            ("message to its fate", "wait"),
            ("message to its reply", "answered_wait"),
            ("of that, in the queue", "queue"),
            ("the agent, a request", "agent"),
            ("making the audio", "synthesis"),
        )
    ]
    promise = "kept" if data["kept"] else "**broken**"
    rows = [
        ("sustained, messages a second", f"{data['sustained']['messages_per_s']:.3f}"),
        ("sustained, requests a second", f"{data['sustained']['requests_per_s']:.3f}"),
        ("offered, messages a second", f"{data['offered_per_s']:.3f} for {data['span_s']:.0f} s"),
        ("messages, requests", f"{data['messages']}, {data['requests']}"),
        ("deadline of a message, of a request", f"{data['deadline_s']:g} s, {data['agent_deadline_s']:g} s"),
        ("past their deadline", f"{data['late_messages']} messages, {data['late_requests']} requests"),
        ("without a fate", data["without_fate"]),
        *((f"fate `{name}`", f"{n} ({_share(data['fate_shares'][name])})") for name, n in data["fates"].items()),
        *((f"route `{name}`", f"{n} ({_share(data['route_shares'][name])})") for name, n in data["routes"].items()),
    ]
    parts = [
        _head(f"The promise at {data['times']:g} times the sustained rate", data),
        f"{_what(data)}. Nobody waits past the deadline (with {data['grace_s']:g} s of grace): {promise}.",
        _table(("", ""), rows),
        _table(("seconds", "P50", "P95", "max"), waits),
    ]
    return "\n\n".join(parts) + "\n"


def soak_page(data: Data) -> str:
    memory, most = data["memory_mib"], data["most"]
    found = "nothing grew that may not" if data["kept"] else "grew: " + "; ".join(data["grew"])
    rows = [
        ("messages, requests", f"{data['messages']}, {data['requests']}"),
        ("memory (RSS), MiB", f"{memory['warm']} after warm-up, {memory['end']} at the end, {memory['most']} at most"),
        ("memory's slope, MiB an hour", f"{memory['slope_per_hour']} (allowed {memory['slope_allowed']:g})"),
        *(
            (title, f"{data[name]['before']:g} to {data[name]['after']:g}")
            for title, name in (("open files", "open_files"), ("threads", "threads"), ("tasks", "tasks"))
        ),
        ("requests waiting, at most", f"{most['waiting']} (allowed {most['waiting_allowed']})"),
        *((f"`{name}`, MiB", f"{before} to {after}") for name, (before, after) in data["files_mib"].items()),
        *((f"rows of `{t}`", f"{r['rows']} (at most {r['at_most']})") for t, r in data["journal"].items()),
        *((f"fate `{name}`", n) for name, n in data["fates"].items()),
        *((f"route `{name}`", n) for name, n in data["routes"].items()),
        (
            "message to its reply, s",
            f"P50 {_s(data['answered_wait']['p50_s'])}, P95 {_s(data['answered_wait']['p95_s'])}",
        ),
    ]
    parts = [
        _head(f"A soak of {data['minutes']:g} minutes", data),
        f"{_what(data)}, {data['rate_per_s']:g} messages a second: {found}.",
        _table(("", ""), rows),
    ]
    return "\n\n".join(parts) + "\n"


def _head(title: str, data: Data) -> str:
    lines = (
        f"- Command: `{data['command']}`",
        f"- Date: {data['date']}, livery {data['livery']}",
        f"- Machine: {data['machine']}",
    )
    return f"# {title}\n\n" + "\n".join(lines)


def _what(data: Data) -> str:
    return f"Policy `{data['policy']}` under `{data['harness']}`, voice `{data['speech']}`"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def _s(seconds: float) -> str:
    return f"{seconds:.3f}"


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"
