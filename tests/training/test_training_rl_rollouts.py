"""RL's rollouts: the agent's own loop under each prompt's harness, as rows whose ids and masks are what was sampled."""

import asyncio
import math
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the training extra: torch is not installed")
pytest.importorskip("transformers", reason="needs the training extra: transformers is not installed")

from policies_tiny_model import chat_tokenizer

from livery.errors import InputError, PolicyTimeout, PolicyUnavailable
from livery.harness.folder import load_harness
from livery.policies import wire
from livery.policies.policy import PromptMessage
from livery.policies.token_turns import prompt_ids, turn_of
from livery.policies.wire import Segment
from livery.simulator.oracle import OraclePolicy
from livery.simulator.task import Scores
from livery.simulator.tasks import make_tasks
from livery.training.advantages import Kind
from livery.training.rl_options import RlOptions
from livery.training.rl_rollouts import AgentRollouts, Sample, outcome_of, plan_jobs, rewards_of, token_row
from livery.types import PolicyTurn, Route, Timing, TokenTrace, Trajectory, Turn, Usage

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of the training libraries among themselves
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
ROOT = Path(__file__).parents[2]
THOUGHT = "the shop knows"


class Tokenized:
    """The oracle, as if a model had written its turns token by token, with a thought before each."""

    uri = "tokens:oracle"
    weights = "w"
    actions = "text"

    def __init__(self, tokenizer, *, fault=None):
        self.oracle = OraclePolicy(seed=0)
        self.tokenizer = tokenizer
        self.fault = fault
        self.wrote = []

    async def act(self, request):
        if self.fault:
            raise self.fault
        made = await self.oracle.act(request)
        wrote = PromptMessage(role="assistant", content=made.text, reasoning=THOUGHT, calls=made.calls)
        text = wire.message_text(wrote)[1]
        self.wrote.append(text)
        ids = self.tokenizer.encode((Segment(text), Segment(wire.END, True)))
        return turn_of(
            self.tokenizer,
            request,
            prompt=prompt_ids(self.tokenizer, request),
            ids=ids,
            logprobs=[-0.5] * len(ids),
            cut=False,
            timing=Timing(),
        )

    async def warm(self, messages, session=""):
        pass

    async def aclose(self):
        pass


@pytest.fixture(scope="module")
def harness():
    return load_harness(ROOT / "harnesses" / "streamer-en").harness


@pytest.fixture(scope="module")
def tasks():
    return {"en": make_tasks("train", "en", 10, 41)}


@pytest.fixture(scope="module")
def options():
    return RlOptions(out=Path("unused"), base_share=0.3)


def play(jobs, options, indices, **policy):
    tokenizer = chat_tokenizer()
    made = Tokenized(tokenizer, **policy)
    with asyncio.Runner() as runner:
        rollouts = AgentRollouts(jobs=jobs, options=options, policy=lambda trainer: made, runner=runner)
        return made, runner.run(rollouts.play(indices, made))


def test_the_oracle_earns_all_rewards_under_base_and_variants_and_its_rows_hold_what_it_wrote(harness, tasks, options):
    jobs = plan_jobs(options, tasks, {"en": harness}, 10)
    indices = [i for i in range(4) for _ in range(2)]
    policy, played = play(jobs, options, indices)
    assert len(played.samples) == 8
    tokenizer = policy.tokenizer
    for sample in played.samples:
        # Reasoning costs what its length says; all else is full.
        assert {n: sample.rewards[n] for n in ("accuracy", "effectiveness", "tool_rationality", "skill_selection")} == {
            "accuracy": 1, "effectiveness": 1, "tool_rationality": 1, "skill_selection": 1,
        }  # fmt: skip
        assert -1 < sample.rewards["call_length"] < 0 and -1 < sample.rewards["reply_length"] < 0
        assert sample.outcome["success"] == 1 and sample.outcome["degraded"] == 0
        own = [i for i, written in zip(sample.ids, sample.written, strict=True) if written]
        turns = tokenizer.decode(own).split("<think>")[1:]
        assert all(f"<think>{turn}" in policy.wrote for turn in turns)
        assert own.count(tokenizer.end) == len(turns) == sample.outcome["turns"]
        # What was read: system, chat, results. None of it is the policy's.
        read = tokenizer.decode([i for i, written in zip(sample.ids, sample.written, strict=True) if not written])
        assert "<tool_response>" in read and THOUGHT not in read
        kinds = Counter(k for k, written in zip(sample.kinds, sample.written, strict=True) if written)
        assert set(kinds) == {Kind.CALL, Kind.REPLY}
        last = [k for k, written in zip(sample.kinds, sample.written, strict=True) if written][-1]
        assert last == Kind.REPLY
        assert sum(sample.logprobs) == pytest.approx(-0.5 * len(own))
    # A group shares its prompt; other tasks have harnesses of their own.
    starts = [s.ids[: s.written.index(True)] for s in played.samples]
    assert starts[0] == starts[1] and len(set(starts)) == 4


def test_jobs_follow_from_the_options_with_the_base_in_its_share(harness, tasks, options):
    jobs = plan_jobs(options, tasks, {"en": harness}, 25)
    assert [j.index for j in jobs] == list(range(25))
    for first in (0, 10):
        one = jobs[first : first + 10]
        assert sorted(j.task.id for j in one) == sorted(t.id for t in tasks["en"])
        assert sum(j.harness.is_base for j in one) == 3
    again = plan_jobs(options, tasks, {"en": harness}, 25)
    assert [(j.task.id, j.seed, j.harness.seed) for j in jobs] == [(j.task.id, j.seed, j.harness.seed) for j in again]
    variant = next(j for j in jobs if not j.harness.is_base)
    base = next(j for j in jobs if j.harness.is_base)
    assert variant.harness.made[1] and base.harness.made == (harness, [])
    assert variant.harness.release != base.harness.release


def test_unknown_dimensions_are_told(harness, tasks):
    with pytest.raises(InputError, match="colours; expected some of skill_identifiers"):
        plan_jobs(RlOptions(out=Path("unused"), dimensions=("colours",)), tasks, {"en": harness}, 1)


def test_an_engine_that_fails_ends_the_run_and_is_not_scored(harness, tasks, options):
    jobs = plan_jobs(options, tasks, {"en": harness}, 1)
    with pytest.raises(PolicyUnavailable, match="no memory"):
        play(jobs, options, [0, 0], fault=PolicyUnavailable("no memory"))


def test_a_conversation_that_ran_out_of_time_counts_as_not_played(harness, tasks, options):
    jobs = plan_jobs(options, tasks, {"en": harness}, 1)
    _, played = play(jobs, options, [0], fault=PolicyTimeout("too late"))
    [sample] = played.samples
    assert all(math.isnan(value) for value in sample.rewards.values())
    assert sample.outcome["late"] == 1 and math.isnan(sample.outcome["success"])
    assert sample.ids == ()


# ---------------------------------------------------------------------------------- rows and rewards by hand


def turn(prompt, out, *, calls=(), round=1, reasoning=0, stop="reply", **more):
    tokens = TokenTrace(prompt_ids=prompt, output_ids=out, logprobs=tuple(-float(i) for i in out))
    usage = Usage(output=len(out), reasoning=reasoning)
    policy = PolicyTurn(calls=calls, text="", stop=stop, tokens=tokens, usage=usage)
    return Turn(round=round, harness_release="r", weights="w", policy=policy, **more)


def trajectory(task, *turns, route=Route.AGENT, reason="reply accepted"):
    return Trajectory(
        id="t", request=task.request, harness="h", harness_release="r", policy="p", turns=turns, route=route,
        route_reason=reason, started_at=0.0,
    )  # fmt: skip


FULL = Scores(accuracy=1, effectiveness=1, tool_rationality=1, skill_selection=1)
CALL = ("a call",)


def test_rows_are_appended_and_a_reply_that_was_sent_back_belongs_to_the_reply(tasks):
    task = tasks["en"][0]
    row = token_row(
        trajectory(
            task,
            turn((1, 2), (3, 4), calls=CALL),
            turn((1, 2, 3, 4, 5), (6,), round=2, feedback="no"),
            turn((1, 2, 3, 4, 5, 6, 7), (8,), round=3),
        )
    )
    assert row["ids"] == (1, 2, 3, 4, 5, 6, 7, 8)
    assert [int(w) for w in row["written"]] == [0, 0, 1, 1, 0, 1, 0, 1]
    assert [k for k, w in zip(row["kinds"], row["written"], strict=True) if w] == [0, 0, 1, 1]
    assert row["logprobs"] == (0, 0, -3, -4, 0, -6, 0, -8)


def test_ids_that_were_encoded_anew_are_refused(tasks):
    task = tasks["en"][0]
    with pytest.raises(ValueError, match="does not begin with the ids"):
        token_row(trajectory(task, turn((1, 2), (3, 4)), turn((1, 2, 3, 9, 5), (6,), round=2)))
    bare = Turn(round=1, harness_release="r", weights="w", policy=PolicyTurn(text="hi"))
    with pytest.raises(ValueError, match="no tokens"):
        token_row(trajectory(task, bare))


def test_masks_and_ids_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match=r"lengths \[1, 2\]"):
        Sample(ids=(1, 2), written=(True,), kinds=(0, 0), logprobs=(0.0, 0.0), rewards={}, outcome={})


def test_only_reasoning_is_charged_for_tool_turns_and_replies_apart(tasks):
    task = tasks["en"][0]
    options = RlOptions(out=Path("unused"), call_free=10, call_cap=110, reply_free=0, reply_cap=100)
    long = tuple(range(3, 300))
    played = trajectory(
        task,
        turn((1,), long, calls=CALL, reasoning=60),
        turn((1, *long), (5,), calls=CALL, round=2, reasoning=0),
        turn((1, *long, 5), (6,), round=3, reasoning=25),
    )
    rewards = rewards_of(task, played, FULL, options)
    assert rewards["call_length"] == pytest.approx(-0.25)  # the mean of half and nothing
    assert rewards["reply_length"] == pytest.approx(-0.25)
    outcome = outcome_of(played, rewards)
    assert outcome["call_reasoning"] == 30 and outcome["reply_reasoning"] == 25
    replied = rewards_of(task, trajectory(task, turn((1,), (2,))), FULL, options)
    assert math.isnan(replied["call_length"]) and replied["reply_length"] == 0


@pytest.mark.parametrize("route", [Route.DEGRADED, Route.SILENT])
def test_what_the_runtime_answers_in_the_policys_place_earns_the_policy_nothing(tasks, options, route):
    task = next(t for t in tasks["en"] if not t.may_be_silent)
    played = trajectory(task, turn((1,), (2,), stop="length"), route=route, reason="retries: sent back 3 times")
    rewards = rewards_of(task, played, FULL, options)
    assert rewards["accuracy"] == rewards["effectiveness"] == 0
    assert rewards["tool_rationality"] == 1
    outcome = outcome_of(played, rewards)
    assert outcome["truncated"] == outcome["degraded"] == 1 and outcome["success"] == 0
    allowed = task.model_copy(update={"may_be_silent": True})
    assert rewards_of(allowed, played, FULL, options)["effectiveness"] == (route is Route.SILENT)


def test_a_model_plays_trains_and_goes_on_in_one_process(tmp_path, monkeypatch):
    pytest.importorskip("trl", reason="needs the training extra: trl is not installed")
    from training_rows import small_model

    from livery.training import rl
    from livery.training.rl_rollouts import REWARDS

    compact = load_harness(ROOT / "harnesses" / "streamer-en-compact").harness
    limits = compact.limits.model_copy(update={"turn_tokens": 12, "retries": 1})
    seen = []
    plain = rl.RlTrainer._generation
    monkeypatch.setattr(rl.RlTrainer, "_generation", lambda self, p: seen.append(plain(self, p)) or seen[-1])
    options = RlOptions(
        out=tmp_path / "rl", model=str(small_model(tmp_path / "model")), lora_rank=2, tasks=2, group=2, accumulate=1,
        updates=2, steps=2, base_share=0.5, start_floor=0.0, cpu=True, max_tokens=8000,
    )  # fmt: skip
    result = rl.train_rl(options, {"compact": compact.replace(limits=limits)})
    assert result.steps == 2 and result.rollouts == 4 and result.generations == 1
    assert result.first["outcome/success"] == 0 and result.first["outcome/tokens"] > 0
    assert {f"reward/{name}/mean" for name in REWARDS if name != "call_length"} <= result.first.keys()
    assert result.difference < 1e-4
    assert result.read_tokens < 0.7 * result.row_tokens
    assert (tmp_path / "rl" / "model" / "adapter_model.safetensors").is_file()
    [batches] = seen
    assert len(batches) == 2 and all(batch.segments.kind.tolist() == [1, 1] for batch in batches)
    assert rl.train_rl(options, {"compact": compact.replace(limits=limits)}).resumed_at == 2
