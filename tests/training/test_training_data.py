"""Building data: jobs, filters, counts, going on after a kill."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs the training extra: pyarrow is not installed")

from livery.errors import InputError
from livery.harness.folder import load_harness
from livery.policies import wire
from livery.policies.policy import PromptMessage
from livery.simulator.tasks import make_tasks
from livery.training import data
from livery.training.conversations import token_row
from livery.training.data import Recipe, build, jobs, recipe_harnesses, tasks_digest
from livery.training.rollouts import (
    AgentTeacher,
    AnyFilter,
    JudgeFilter,
    Rollout,
    Verdict,
    VerifierFilter,
    read_verdict,
)
from livery.training.rows import read_card, read_rows, tokenised_anew
from livery.types import PolicyTurn, Route, ToolCall, Trajectory, Turn

ROOT = Path(__file__).parents[2]


class Bytes:
    def encode(self, segments):
        text = "".join(("\x01" if s.text == wire.START else "\x02") if s.control else s.text for s in segments)
        return tuple(text.encode())

    def closing(self, ids):
        return (wire.Segment("\n"),)

    def decode(self, ids):
        return bytes(ids).decode(errors="replace")


@pytest.fixture(scope="module")
def harness():
    return load_harness(ROOT / "harnesses" / "streamer-en").harness


@pytest.fixture(scope="module")
def tasks():
    return [("en", task) for task in make_tasks("train", "en", 12, 5)]


def variants(harness, seed):
    changed = harness.replace(description=f"{harness.description} v{seed}")
    return changed, [{"operator": "describe", "seed": seed}]


def recipe(harness, tasks, **changes):
    fields = {
        "harnesses": recipe_harnesses({"en": harness}),
        "split": "train",
        "tasks": tasks_digest(tasks),
        "teacher": "scripted:",
        "filter": "none",
        "tokenizer": {"source": "bytes", "digest": "b"},
        "tasks_a_variant": 3,
        "base_share": 0.5,
    }
    return Recipe(**{**fields, **changes})


def planned(recipe, harness, tasks):
    return list(jobs(recipe, {"en": harness}, tasks, variants))


def conversation(job, retry=False):
    failed = (PromptMessage(role="assistant", content="Bad."), PromptMessage(role="user", content="Again."))
    return (
        PromptMessage(role="system", content=f"Host {job.group.release[-6:]}."),
        PromptMessage(role="user", content=job.task.request.text),
        *(failed if retry else ()),
        PromptMessage(role="assistant", content=f"Answer {job.task.id}."),
    )


class Plain:
    """A teacher that answers at once; each ``retry_every``-th conversation has a reply that was sent back."""

    name = "scripted:"

    def __init__(self, retry_every=0, on_run=None):
        self.retry_every = retry_every
        self.on_run = on_run
        self.ran = []

    async def run(self, job):
        self.ran.append(job.index)
        if self.on_run:
            self.on_run(job)
        retry = bool(self.retry_every) and job.index % self.retry_every == 0
        messages = conversation(job, retry)
        turns = tuple(
            Turn(
                round=i,
                harness_release=job.group.release,
                weights="w1",
                policy=PolicyTurn(text=m.content),
                feedback="Again." if m.content == "Bad." else "",
            )
            for i, m in enumerate((m for m in messages if m.role == "assistant"), start=1)
        )
        trajectory = Trajectory(
            id=job.task.id, request=job.task.request, harness="en", harness_release=job.group.release, policy=self.name,
            turns=turns, reply=messages[-1].content, route=Route.AGENT, route_reason="reply accepted", started_at=0.0,
        )  # fmt: skip
        return Rollout(trajectory=trajectory, messages=messages)


def run(recipe, todo, out, teacher=None, judge=None, **more):
    return asyncio.run(build(recipe, todo, teacher or Plain(), judge or AnyFilter(), Bytes(), out, **more))


# -------------------------------------------------------------------------------------- jobs


def test_jobs_follow_from_the_recipe_in_groups_that_share_a_harness(harness, tasks):
    chosen = recipe(harness, tasks, passes=2)
    first, again = planned(chosen, harness, tasks), planned(chosen, harness, tasks)
    assert [(j.index, j.task.id, j.seed, j.group.release) for j in first] == [
        (j.index, j.task.id, j.seed, j.group.release) for j in again
    ]
    groups = Counter(j.group.index for j in first)
    assert list(groups.values()) == [3] * 8
    assert sum({j.group.index: j.group.is_base for j in first}.values()) == 4
    assert Counter(j.task.id for j in first) == {task.id: 2 for _, task in tasks}
    assert len({j.group.release for j in first if not j.group.is_base}) == 4
    other = planned(recipe(harness, tasks, seed=1), harness, tasks)
    assert [j.task.id for j in other] != [j.task.id for j in first[:12]]


def test_a_share_of_one_is_the_base_alone(harness, tasks):
    only = planned(recipe(harness, tasks, base_share=1.0), harness, tasks)
    assert {j.group.release for j in only} == set(recipe_harnesses({"en": harness}).values())


# ------------------------------------------------------------------------------------- rows


def test_rows_hold_ids_masks_and_where_they_came_from(harness, tasks, tmp_path):
    chosen = recipe(harness, tasks)
    todo = planned(chosen, harness, tasks)
    built = run(chosen, todo, tmp_path)
    rows = read_rows(tmp_path)
    assert (built.jobs, built.rows, built.dropped, built.retries) == (12, 12, {}, {"none": 12})
    assert (built.base, built.groups) == (6, 3)
    for row, job in zip(rows, todo, strict=True):
        assert row.tokens == token_row(conversation(job), Bytes(), name="")
        assert row.messages == conversation(job)
        assert row.group == job.group.release
        assert row.fields["variant"] == job.group.made[1]
    assert built.written == sum(len(f"Answer {j.task.id}.") + 1 for j in todo)
    assert tokenised_anew(rows, Bytes()) == rows


def test_a_harness_is_let_go_when_its_last_task_is_done(harness, tasks, tmp_path):
    chosen = recipe(harness, tasks)
    todo = planned(chosen, harness, tasks)
    held = []

    def count(job):
        held.append(len({j.group.index for j in todo if "live" in vars(j.group)}))

    run(chosen, todo, tmp_path, Plain(on_run=count), concurrency=1)
    assert max(held) <= 2
    assert not any("live" in vars(j.group) or "made" in vars(j.group) for j in todo)


def test_the_card_says_what_the_rows_are_made_of(harness, tasks, tmp_path):
    chosen = recipe(harness, tasks, task_seeds={"tasks": 5})
    built = run(chosen, planned(chosen, harness, tasks), tmp_path)
    card = read_card(tmp_path)
    assert card["harnesses"] == [{"name": "en", "digest": recipe_harnesses({"en": harness})["en"]}]
    assert card["tasks"] == tasks_digest(tasks)
    assert card["seeds"] == {"build": 0, "tasks": 5}
    assert card["counts"]["operators"] == {"describe": 6}
    assert card["counts"]["rows"] == built.rows
    assert card["versions"]["python"]
    text = (tmp_path / "README.md").read_text()
    assert "12 of 12 conversations were kept" in text
    assert card["rows_sha256"] in text


def test_most_failures_are_cut_and_a_share_is_kept_whole(harness, tasks, tmp_path):
    shares = {}
    for share in (0.0, 0.4, 1.0):
        chosen = recipe(harness, tasks, keep_whole=share, passes=10, base_share=0.0)
        built = run(chosen, planned(chosen, harness, tasks), tmp_path / str(share), Plain(retry_every=2))
        shares[share] = built.retries
        for row in read_rows(tmp_path / str(share)):
            said = [m.content for m in row.messages if m.role == "assistant"]
            assert ("Bad." in said) == (row.fields["retry"] == "whole")
            assert ("Again." in Bytes().decode(row.tokens.ids)) == ("Bad." in said)
    assert "whole" not in shares[0.0]
    assert "cut" not in shares[1.0]
    assert 0.25 < shares[0.4]["whole"] / (shares[0.4]["whole"] + shares[0.4]["cut"]) < 0.55


class Picky:
    name = "picky"

    async def judge(self, job, rollout):
        kinds = {0: ("accuracy: 0 (wrong price)",), 1: ("accuracy: 0", "effectiveness: 0.5")}
        return Verdict(reasons=kinds.get(job.index % 4, ()), scores={"accuracy": 1.0})


def test_what_is_dropped_is_counted_by_its_reasons(harness, tasks, tmp_path):
    chosen = recipe(harness, tasks)
    built = run(chosen, planned(chosen, harness, tasks), tmp_path, judge=Picky())
    assert built.rows == 6
    assert built.dropped == {"accuracy": 6, "effectiveness": 3}


def test_the_same_conversation_twice_is_one_row(harness, tasks, tmp_path):
    chosen = recipe(harness, tasks, base_share=1.0, passes=2)
    built = run(chosen, planned(chosen, harness, tasks), tmp_path)
    assert (built.rows, built.dropped) == (12, {"duplicate": 12})


def test_nothing_kept_is_an_error_that_counts_the_reasons(harness, tasks, tmp_path):
    class No:
        name = "no"

        async def judge(self, job, rollout):
            return Verdict(reasons=("judge: no",))

    chosen = recipe(harness, tasks)
    with pytest.raises(InputError, match=r"none of 12 conversations was kept \(\{'judge': 12\}\)"):
        run(chosen, planned(chosen, harness, tasks), tmp_path, judge=No())


def test_a_tokenizer_under_which_the_renderings_differ_fails_the_build_by_row(harness, tasks, tmp_path):
    class Joining(Bytes):
        def encode(self, segments):
            return tuple(bytes(super().encode(segments)).replace(b"\nA", b"\x03"))

    chosen = recipe(harness, tasks[:3])
    todo = planned(chosen, harness, tasks[:3])
    with pytest.raises(InputError) as error:
        asyncio.run(build(chosen, todo, Plain(), AnyFilter(), Joining(), tmp_path))
    assert [p.path for p in error.value.problems] == [j.name for j in todo]
    assert not (tmp_path / data.ROWS).exists()


# ---------------------------------------------------------------------------------- going on


def test_a_build_goes_on_after_what_is_done_and_ends_the_same(harness, tasks, tmp_path):
    chosen = recipe(harness, tasks)
    todo = planned(chosen, harness, tasks)
    run(chosen, todo, tmp_path / "whole", Plain(retry_every=3))
    lines = (tmp_path / "whole" / data.JOURNAL).read_text().splitlines(keepends=True)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / data.JOURNAL).write_text("".join(lines[:6]) + lines[6][:40])
    teacher = Plain(retry_every=3)
    told = []
    built = run(chosen, todo, tmp_path / "cut", teacher, done=lambda jobs, kept: told.append((jobs, kept)))
    assert built.resumed == 5
    assert len(teacher.ran) == 7
    assert (told[0], told[-1]) == ((5, 5), (12, 12))
    assert read_rows(tmp_path / "cut") == read_rows(tmp_path / "whole")
    assert read_card(tmp_path / "cut") == read_card(tmp_path / "whole")


def test_a_build_that_was_killed_goes_on(harness, tasks, tmp_path):
    script = tmp_path / "victim.py"
    script.write_text(
        "import os, signal, sys\n"
        f"sys.path[:0] = [{str(ROOT)!r}, {str(Path(__file__).parent)!r}]\n"
        "import test_training_data as t\n"
        "from pathlib import Path\n"
        "harness = t.load_harness(t.ROOT / 'harnesses' / 'streamer-en').harness\n"
        "tasks = [('en', x) for x in t.make_tasks('train', 'en', 12, 5)]\n"
        "chosen = t.recipe(harness, tasks)\n"
        "kill = lambda job: job.index == 7 and os.kill(os.getpid(), signal.SIGKILL)\n"
        "t.run(chosen, t.planned(chosen, harness, tasks), Path(sys.argv[1]), t.Plain(on_run=kill), concurrency=1)\n"
    )
    done = subprocess.run([sys.executable, str(script), str(tmp_path / "out")], timeout=120, env=os.environ)
    assert done.returncode == -signal.SIGKILL
    chosen = recipe(harness, tasks)
    teacher = Plain()
    built = run(chosen, planned(chosen, harness, tasks), tmp_path / "out", teacher)
    assert teacher.ran == list(range(7, 12))
    assert (built.rows, built.resumed) == (12, 7)


def test_a_folder_of_another_recipe_is_refused_field_by_field(harness, tasks, tmp_path):
    chosen = recipe(harness, tasks)
    run(chosen, planned(chosen, harness, tasks), tmp_path)
    other = recipe(harness, tasks, seed=4, keep_whole=0.5)
    with pytest.raises(InputError) as error:
        run(other, planned(other, harness, tasks), tmp_path)
    assert sorted(p.field for p in error.value.problems) == ["keep_whole", "seed"]


def test_a_share_of_the_rows_is_cut_after_the_first_turn(harness, tasks, tmp_path):
    chosen = recipe(harness, tasks, first_turns=0.5, keep_whole=1.0)
    run(chosen, planned(chosen, harness, tasks), tmp_path, Plain(retry_every=1))
    cut = [r for r in read_rows(tmp_path) if r.fields.get("first_turn")]
    assert 2 <= len(cut) <= 10
    assert all([m.role for m in r.messages].count("assistant") == 1 for r in cut)
    assert read_card(tmp_path)["recipe"]["first_turns"] == 0.5


def test_a_journal_of_a_version_without_a_field_is_gone_on_with(harness, tasks, tmp_path):
    chosen = recipe(harness, tasks)
    todo = planned(chosen, harness, tasks)
    run(chosen, todo, tmp_path)
    journal = tmp_path / data.JOURNAL
    lines = journal.read_text().splitlines(keepends=True)
    before = json.loads(lines[0])
    del before["first_turns"]
    journal.write_text(json.dumps(before) + "\n" + "".join(lines[1:]))
    assert run(chosen, todo, tmp_path).resumed == 12
    with pytest.raises(InputError) as error:
        run(recipe(harness, tasks, first_turns=0.5), todo, tmp_path)
    assert [p.field for p in error.value.problems] == ["first_turns"]


# ------------------------------------------------------------------------- teachers and filters


class Loader:
    """Loads a reply skill that fits and says nothing of substance."""

    uri, weights, actions = "test:loader", "w", "text"

    async def act(self, request):
        if not request.allow_reply:
            loader = next(t for t in request.tools if t.name == "load_skill")
            name = loader.input_schema["properties"]["name"]["enum"][0]
            return PolicyTurn(calls=(ToolCall(id="call_0", name="load_skill", arguments={"name": name}),), stop="calls")
        return PolicyTurn(text="Let me look into that for you.")


async def test_a_teacher_runs_the_agents_own_loop_in_the_tasks_shop(harness, tasks):
    chosen = recipe(harness, tasks)
    job = planned(chosen, harness, tasks)[0]
    rollout = await AgentTeacher(Loader()).run(job)
    assert rollout.trajectory.harness_release == job.group.release
    assert [m.role for m in rollout.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert rollout.messages[-1].content == "Let me look into that for you."
    again = await AgentTeacher(Loader()).run(job)
    assert again.messages == rollout.messages


async def test_the_verifier_drops_an_empty_answer_and_says_why(harness, tasks):
    chosen = recipe(harness, tasks)
    job = next(j for j in planned(chosen, harness, tasks) if j.task.asked[0].facts)
    rollout = await AgentTeacher(Loader()).run(job)
    verdict = await VerifierFilter().judge(job, rollout)
    assert verdict.scores["effectiveness"] == 0.0
    assert any(r.startswith("effectiveness: 0 (") for r in verdict.reasons)


def test_a_judges_words_are_read_or_the_row_is_dropped():
    good = read_verdict('Sure: {"accuracy": 1, "effectiveness": 1, "why": "fine"}')
    assert (good.reasons, good.scores) == ((), {"accuracy": 1.0, "effectiveness": 1.0})
    bad = read_verdict('{"accuracy": 0, "effectiveness": 0.5, "why": "wrong price"}')
    assert bad.reasons == ("accuracy: 0 (wrong price)", "effectiveness: 0.5 (wrong price)")
    for text in ("", "yes", '{"accuracy": 2, "effectiveness": 1}', "[1]"):
        assert read_verdict(text).reasons[0].startswith("judge: no verdict")


async def test_a_judge_sees_the_reply_and_what_it_rests_on(harness, tasks):
    shown = []

    class Judge:
        uri, weights, actions = "test:judge", "w", "native"

        async def act(self, request):
            shown.append(json.loads(request.messages[1].content))
            return PolicyTurn(text='{"accuracy": 1, "effectiveness": 0.5, "why": "half"}')

    job = planned(recipe(harness, tasks), harness, tasks)[0]
    rollout = await Plain().run(job)
    verdict = await JudgeFilter(Judge()).judge(job, rollout)
    assert verdict.reasons == ("effectiveness: 0.5 (half)",)
    assert shown == [{"chat": job.task.request.text, "results": [], "reply": f"Answer {job.task.id}."}]
