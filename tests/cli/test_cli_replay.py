import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from livery.cli import app
from livery.errors import InputError
from livery.room.trajectories import read_trajectories

ROOT = Path(__file__).parents[2]
CHATS = ROOT.parent / "shared/data/chats"


def run(*arguments: str):
    return CliRunner().invoke(app, ["replay", *arguments], catch_exceptions=False)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_replay_writes_trajectories_and_a_summary_whose_fates_add_up(tmp_path, language):
    result = run(
        str(ROOT / f"chats/demo-{language}.jsonl"),
        "--store", str(ROOT / f"stores/demo-{language}"),
        "--harness", str(ROOT / f"harnesses/streamer-{language}"),
        "--policy", "scripted:host", "--start-at", "2026-06-01T12:00", "--out", str(tmp_path),
    )  # fmt: skip
    assert result.exit_code == 0
    last = json.loads(result.stdout.strip().splitlines()[-1])
    assert last == json.loads((tmp_path / "summary.json").read_text())
    assert last["messages"] == sum(last["fates"].values())
    assert last["requests"] == sum(last["routes"].values()) == len(list(read_trajectories(tmp_path / "trajectories.jsonl")))
    assert {"latency_s", "tokens", "harness_release", "policy"} <= last.keys()
    assert last["routes"]["agent"] > 30
    assert last["harness_release"].startswith("sha256:")


@pytest.mark.parametrize("name", ["youtube-chat-downloader.json", "youtube-live_chat.jsonl", "twitch-irc.log", "bilibili-record.xml"])
@pytest.mark.skipif(not CHATS.is_dir(), reason="the real chats are not here")
def test_every_real_chat_replays_with_fates_that_add_up(tmp_path, name):
    result = run(
        str(CHATS / name),
        "--store", str(ROOT / "stores/demo-en"), "--harness", str(ROOT / "harnesses/streamer-en"),
        "--policy", "scripted:host", "--out", str(tmp_path),
    )  # fmt: skip
    last = json.loads(result.stdout.strip().splitlines()[-1])
    assert last["messages"] == sum(last["fates"].values()) > 0
    assert last["failures"] == 0


def test_a_replay_is_the_same_twice(tmp_path):
    outs = []
    for name in ("a", "b"):
        run(
            str(ROOT / "chats/demo-en.jsonl"),
            "--store", str(ROOT / "stores/demo-en"), "--harness", str(ROOT / "harnesses/streamer-en"),
            "--policy", "scripted:host", "--start-at", "2026-06-01T12:00", "--out", str(tmp_path / name),
        )  # fmt: skip
        outs.append([(t.id, t.reply, t.route) for t in read_trajectories(tmp_path / name / "trajectories.jsonl")])
    assert outs[0] == outs[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("no-such-file.json",), "no-such-file.json"),
        ((str(ROOT / "chats/demo-en.jsonl"), "--speed", "fast"), "--speed: found 'fast'; expected `max`"),
        ((str(ROOT / "chats/demo-en.jsonl"), "--start-at", "noon"), "--start-at: found 'noon'"),
        ((str(ROOT / "chats/demo-en.jsonl"), "--policy", "gpt:"), "gpt:"),
        ((str(ROOT / "chats/demo-en.jsonl"), "--store", "nowhere"), "nowhere"),
        ((str(ROOT / "chats/demo-en.jsonl"), "--harness", "nowhere"), "nowhere"),
    ],
)
def test_bad_input_names_what_was_found_and_expected(tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(ROOT)
    defaults = ("--policy", "scripted:host") if "--policy" not in arguments else ()
    with pytest.raises(InputError) as caught:
        run(*arguments, *defaults, "--out", str(tmp_path))
    assert says in str(caught.value)
