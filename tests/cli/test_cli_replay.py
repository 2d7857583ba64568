"""``livery replay`` as a user runs it: real chats, both samples, and what is wrong with an input."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from livery.cli import app
from livery.errors import InputError
from livery.room.trajectories import read_trajectories
from livery.types import Route

ROOT = Path(__file__).parents[2]
CHATS = ROOT / "../shared/data/chats"
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(ROOT)

    def replay(file: Path, *options: str, language: str = "en") -> dict[str, Any]:
        """The summary; an input error is raised as such."""
        out = tmp_path / "out"
        arguments = [
            "replay", str(file), "--store", f"stores/demo-{language}", "--harness",
            f"harnesses/streamer-{language}", "--policy", "scripted:host", "--out", str(out), *options,
        ]  # fmt: skip
        result = CliRunner().invoke(app, arguments)
        if result.exception is not None:
            raise result.exception
        printed = json.loads(result.stdout.splitlines()[-1])
        assert printed == json.loads((out / "summary.json").read_text())
        return printed

    return replay


def whole(summary: dict[str, Any], out: Path) -> None:
    """Every figure that the issue names, and all of them agree with the lines beside them."""
    fates = [json.loads(line) for line in (out / "fates.jsonl").read_text("utf-8").splitlines()]
    duplicates = (out / "duplicates.jsonl").read_text("utf-8").splitlines()
    trajectories = list(read_trajectories(out / "trajectories.jsonl"))
    assert sum(summary["fates"].values()) == summary["messages"] == len(fates)
    assert len({f["message"] for f in fates}) == len(fates)
    counted = Counter(f["fate"] for f in fates)
    assert summary["fates"] == {name: counted[name] for name in summary["fates"]}
    assert len(duplicates) == summary["duplicates"]
    events = summary["messages"] + summary["duplicates"] + summary["deletions"]
    assert events == summary["recording"]["events"]
    assert sum(summary["routes"].values()) == len(trajectories) == summary["requests"]
    assert set(summary["latency_s"]) == {"p50", "p95", "max"}
    assert set(summary["tokens"]) == {"prompt", "cached", "output"}
    assert {t.harness_release for t in trajectories} <= {summary["harness_release"]}
    assert summary["harness_release"].startswith("sha256:")
    assert summary["policy"] == "scripted:host"
    assert summary["failures"] == 0


@pytest.mark.skipif(not CHATS.is_dir(), reason="the real chats are not here")
@pytest.mark.parametrize(
    ("name", "rows", "bad", "messages", "duplicates", "deletions"),
    [
        ("youtube-chat-downloader.json", 684, 0, 684, 0, 0),
        ("youtube-live_chat.jsonl", 49, 0, 48, 0, 0),
        # Test lines of a chat program: 98 messages, of which 22 repeat the id of an earlier one.
        ("twitch-irc.log", 110, 1, 76, 22, 10),
        ("bilibili-record.xml", 17, 0, 8, 0, 0),
    ],
)
def test_a_real_chat_is_replayed_to_the_last_row(
    run: Run, tmp_path: Path, name: str, rows: int, bad: int, messages: int, duplicates: int, deletions: int
) -> None:
    summary = run(CHATS / name, "--speed", "max")
    whole(summary, tmp_path / "out")
    found = (summary["messages"], summary["duplicates"], summary["deletions"])
    assert found == (messages, duplicates, deletions)
    recording = summary["recording"]
    assert (recording["file"], recording["rows"], recording["bad_rows"]) == (name, rows, bad)


@pytest.mark.parametrize(("language", "messages"), [("en", 63), ("zh", 60)])
def test_a_sample_chat_gets_answers(run: Run, tmp_path: Path, language: str, messages: int) -> None:
    start = ("--start-at", "2026-06-01T12:00")
    replies: list[list[tuple[str, str, Route]]] = []
    for _ in range(2):
        summary = run(ROOT / f"chats/demo-{language}.jsonl", "--speed", "max", *start, language=language)
        whole(summary, tmp_path / "out")
        assert summary["messages"] == messages
        assert summary["fates"]["answered"] >= 45
        assert summary["routes"]["agent"] > 40
        trajectories = read_trajectories(tmp_path / "out/trajectories.jsonl")
        replies.append([(t.id, t.reply, t.route) for t in trajectories])
    assert replies[0] == replies[1], "a replay is the same twice"


def test_a_finite_speed_counts_the_same_messages_and_duplicates(run: Run, tmp_path: Path) -> None:
    chat = tmp_path / "chat.jsonl"
    rows = [
        {"id": "a", "text": "how much is number 3?", "at": 0},
        {"id": "b", "text": "lol", "at": 1},
        {"id": "a", "text": "how much is number 4?", "at": 2},
        {"kind": "delete", "id": "b", "at": 3},
        {"id": "a", "text": "how much is number 3?", "at": 4},
    ]
    chat.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for speed in ("200", "max"):
        summary = run(chat, "--speed", speed)
        whole(summary, tmp_path / "out")
        figures = [summary[name] for name in ("messages", "duplicates", "deletions", "requests")]
        assert figures == [2, 2, 1, 1]
        lines = (tmp_path / "out/duplicates.jsonl").read_text("utf-8").splitlines()
        assert [(json.loads(x)["text"], json.loads(x)["same"]) for x in lines] == [
            ("how much is number 4?", False),
            ("how much is number 3?", True),
        ]


def test_a_recording_of_years_is_refused_at_a_finite_speed_until_its_silences_are_cut(run: Run, tmp_path: Path) -> None:
    chat = tmp_path / "chat.jsonl"
    times = (1_500_000_000, 1_700_000_000, 1_600_000_000, 1_700_000_001)
    rows = [{"text": f"how much is number {n}?", "at": at} for n, at in enumerate(times)]
    chat.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(InputError, match=r"would take 23\.1 days at this speed; cut its silences by --longest"):
        run(chat, "--speed", "100")
    summary = run(chat, "--speed", "100", "--longest-gap", "3")
    assert (summary["chat_s"], summary["messages"]) == (4.0, 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--speed", "nan"), "--speed: found 'nan'; expected `max` or a number above 0"),
        (("--speed", "inf"), "--speed: found 'inf'; expected `max` or a number above 0"),
        (("--speed", "0"), "--speed: found '0'; expected `max` or a number above 0"),
        (("--start-at", "soon"), "--start-at: found 'soon'; expected `now`, `recorded` or ISO 8601"),
        (("--on-screen", "999"), "--on-screen: found '999'; Harbor & Finch has the link ids 1, 2, 3"),
        (("--format", "none"), "unknown chat format 'none'; expected auto or one of"),
        (("--speed", "fast"), "--speed: found 'fast'; expected `max` or a number above 0"),
        (("--policy", "gpt:"), "gpt:"),
        (("--policy", "scripted:none"), "scripted:none: found 'none'; expected host, silent, instant"),
        (("--store", "stores"), "stores: has no store.yaml (or store.json)"),
        (("--store", "nowhere"), "nowhere: there is no such file or folder"),
        (("--harness", "nowhere"), "nowhere: no such folder; expected a harness folder"),
    ],
)
def test_an_option_that_cannot_be_is_named_with_what_may_be(run: Run, options: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError) as caught:
        run(ROOT / "chats/demo-en.jsonl", *options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file; expected a chat file"),
        (b"", "the file is empty; expected chat messages"),
        (b'{"text": "hi", "at": 1', "which is not valid JSON (Expecting ',' delimiter: line 1 column 23"),
        (b'{\n "a": [1]\n}', "which is no known chat format; expected one of"),
        (b"foo,bar\n1,2\n", ":1: found 'foo,bar', which is no known chat format; expected one of"),
        (b"\x89PNG\r\n\x1a\n\0\0", ":1: found binary data, which is no known chat format"),
        (b'text,at\n"open,1\nfoo,2\n', "none of its 1 rows could be read as csv"),
    ],
)
def test_a_chat_file_that_cannot_be_read_is_named_with_what_was_found(
    run: Run, tmp_path: Path, content: bytes | None, message: str
) -> None:
    chat = tmp_path / "chat"
    if content is not None:
        chat.write_bytes(content)
    with pytest.raises(InputError) as caught:
        run(chat)
    assert str(caught.value).startswith(str(chat))
    assert message in str(caught.value)


def test_a_folder_given_as_a_chat_is_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a folder; expected a chat file"):
        run(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_chat_that_may_not_be_read_is_refused(run: Run, tmp_path: Path) -> None:
    chat = tmp_path / "chat"
    chat.write_text("text\nhi\n")
    chat.chmod(0)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        run(chat)


def test_results_cannot_go_where_a_file_stands(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made: File exists; expected a folder for the results"):
        run(ROOT / "chats/demo-en.jsonl", "--out", str(tmp_path / "file"))


def test_bad_rows_are_named_and_the_good_ones_played(run: Run, tmp_path: Path) -> None:
    chat = tmp_path / "chat.jsonl"
    chat.write_text('{"text": "how much?", "at": 1}\nnot json\n{"at": 2}\n{"text": "lol", "at": 3}\n')
    summary = run(chat)
    whole(summary, tmp_path / "out")
    assert summary["messages"] == 2
    assert summary["recording"] == {
        "file": "chat.jsonl", "format": "jsonl", "rows": 4, "bad_rows": 2, "skipped": {}, "events": 2,
    }  # fmt: skip
    with pytest.raises(InputError, match=r"chat\.jsonl:2: not valid JSON"):
        run(chat, "--strict")
