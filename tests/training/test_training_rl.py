"""The RL trainer on a toy world: it learns, each segment by its own rewards; goes on after a kill; refuses what would
bias the ratio."""

import json

import pytest

pytest.importorskip("trl", reason="needs the training extra: trl is not installed")

import rl_toy
import torch
import transformers
from policies_tiny_model import tiny_llama
from typer.testing import CliRunner

from livery.cli import app
from livery.errors import InputError
from livery.training.packing import choose_packing, logprobs
from livery.training.rl import _picture, schedule
from livery.training.rl_options import RlOptions, Sampling
from livery.training.rl_rollouts import Rollouts, samples_of
from livery.training.rl_trainer import Reference, RlTrainer
from livery.training.stage import with_lora

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of the training libraries among themselves
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def without_picture(monkeypatch):
    """Drawing takes longer than most of these runs; one test draws by itself."""
    monkeypatch.setattr("livery.training.rl._picture", lambda *args, **more: None)


def steps_of(out):
    return [e for e in map(json.loads, (out / "log.jsonl").read_text().splitlines()) if "loss" in e]


def weights_of(out):
    return transformers.AutoModelForCausalLM.from_pretrained(out / "model").state_dict()


class StopAt(transformers.TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **more):
        control.should_training_stop = state.global_step >= self.step


@pytest.fixture
def batches(monkeypatch):
    """Every batch that the loss was taken of."""
    seen = []
    plain = RlTrainer.compute_loss

    def noted(self, model, inputs, **more):
        seen.append(inputs)
        return plain(self, model, inputs, **more)

    monkeypatch.setattr(RlTrainer, "compute_loss", noted)
    return seen


def test_each_segment_learns_what_its_own_rewards_ask_for(tmp_path):
    result, _ = rl_toy.run(
        tmp_path, tiny_llama(hidden=64), steps=14, group=8, groups_a_batch=2, accumulate=1, clip=(0.2, 0.2)
    )
    steps = [e for e in steps_of(tmp_path) if e["rollouts"]]
    even = [e["reward/even/mean"] for e in steps]
    odd = [e["reward/odd/mean"] for e in steps]
    # The tool turn is paid for even ids and the reply for odd ones: one advantage for both would move neither.
    assert sum(even[-2:]) / 2 > even[0] + 0.2
    assert sum(odd[-2:]) / 2 > odd[0] + 0.1
    assert result.last["outcome/success"] > result.first["outcome/success"]
    assert result.generations == 7 and result.rollouts == 7 * 32


def test_a_batch_predicts_what_the_policy_wrote_and_nothing_else(tmp_path, batches):
    _, toy = rl_toy.run(tmp_path, steps=1, group=2, accumulate=1)
    [batch] = batches
    samples = toy.samples[0][:2]
    wrote = [i for s in samples for i, own in zip(s.ids, s.written, strict=True) if own]
    assert batch.packed["target"].tolist() == wrote
    assert len(wrote) < sum(len(s.ids) for s in samples) / 2
    assert batch.segments.kind.tolist() == [0, 1, 0, 1]
    assert batch.sampler.tolist() == pytest.approx(
        [p for s in samples for p, own in zip(s.logprobs, s.written, strict=True) if own]
    )
    model = tiny_llama()
    assert choose_packing(model).kind == "tree"
    again, _ = logprobs(model, batch.packed)
    assert again.detach().tolist() == pytest.approx(batch.sampler.tolist(), abs=1e-4)


def test_prompts_arrive_repeated_and_each_gets_one_row(tmp_path):
    _, toy = rl_toy.run(tmp_path, steps=4, group=3, accumulate=2)
    assert toy.seen == [[str(i) for i in range(4) for _ in range(3)], [str(i) for i in range(4, 8) for _ in range(3)]]
    output = Rollouts(samples=toy.samples[0]).as_trl()
    assert samples_of(output, 12) == toy.samples[0]
    with pytest.raises(ValueError, match="one row for each"):
        samples_of(output, 4)
    output["env_mask"][0] = output["env_mask"][0][:-1]
    with pytest.raises(ValueError, match="of lengths"):
        samples_of(output, 12)


def test_how_a_step_is_split_into_batches_changes_nothing(tmp_path):
    rl_toy.run(tmp_path / "a", steps=1, groups_a_batch=2, accumulate=1)
    rl_toy.run(tmp_path / "b", steps=1, groups_a_batch=1, accumulate=2)
    one, two, start = weights_of(tmp_path / "a"), weights_of(tmp_path / "b"), tiny_llama().state_dict()
    # Adam's first step is the learning rate whatever the size: compare where the gradient is not rounding.
    assert steps_of(tmp_path / "a")[0]["grad_norm"] == pytest.approx(steps_of(tmp_path / "b")[0]["grad_norm"], rel=1e-3)
    same = [torch.isclose(one[n], two[n], atol=1e-4).float().mean() for n in one]
    assert min(same) > 0.97
    assert not torch.equal(one["model.norm.weight"], start["model.norm.weight"])


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not(tmp_path):
    whole, _ = rl_toy.run(tmp_path / "whole", steps=4)
    rl_toy.run(tmp_path / "cut", steps=4, save_every=1, callbacks=[StopAt(2)])
    assert len(steps_of(tmp_path / "cut")) == 2
    after, toy = rl_toy.run(tmp_path / "cut", steps=4, save_every=1)
    assert after.resumed_at == 2 and after.steps == 4 and whole.resumed_at == 0
    assert toy.seen == [[str(i) for i in range(4, 8) for _ in range(4)]]
    assert after.sampled_tokens == whole.sampled_tokens and after.rollouts == whole.rollouts == 32
    one, two = weights_of(tmp_path / "whole"), weights_of(tmp_path / "cut")
    for name in one:
        torch.testing.assert_close(one[name], two[name], atol=1e-4, rtol=1e-3)
    with pytest.raises(InputError, match=r"learning_rate: 0\.005 before, 0\.1 now"):
        rl_toy.run(tmp_path / "cut", steps=4, save_every=1, learning_rate=0.1)


def test_the_ratio_acts_in_the_second_pass_and_not_in_the_first(tmp_path):
    rl_toy.run(tmp_path, steps=2, updates=1, passes=2, accumulate=1)
    first, second = steps_of(tmp_path)
    assert first["call/ratio_min"] == pytest.approx(1, abs=1e-4) == first["reply/ratio_max"]
    assert second["call/ratio_max"] - second["call/ratio_min"] > 1e-3
    assert second["reply/clipped_low"] + second["reply/clipped_high"] > 0
    assert second["rollouts"] == 0


def test_a_run_in_which_no_batch_is_used_again_is_refused(tmp_path):
    with pytest.raises(InputError, match="every ratio would be 1"):
        rl_toy.run(tmp_path, updates=1, passes=1)


def test_time_tokens_and_shares_are_logged_for_each_step_and_add_up(tmp_path):
    result, toy = rl_toy.run(tmp_path, steps=4)
    steps = steps_of(tmp_path)
    assert len(steps) == 4
    assert all(e["update_s"] > 0 for e in steps)
    assert [e["rollout_s"] > 0 for e in steps] == [True, False, True, False]
    assert result.update_s == pytest.approx(sum(e["update_s"] for e in steps))
    written = sum(sum(s.written) for generation in toy.samples for s in generation)
    assert result.sampled_tokens == written
    rows = sum(len(s.ids) for generation in toy.samples for s in generation)
    assert result.row_tokens == rows > 1.5 * result.read_tokens
    assert result.sampled_tokens_a_second == pytest.approx(written / result.rollout_s)
    assert steps[0]["truncated_share"] == 0 and "reward/even/zero_variance_groups" in steps[0]
    assert steps[0]["sampler/difference"] < 1e-5
    card = json.loads((tmp_path / "run.json").read_text())
    assert card["kind"] == "rl" and card["result"]["rollout_s"] == result.rollout_s
    drawn = _picture(tmp_path, steps, title="a run")
    assert drawn.stat().st_size > 10_000


def test_the_kl_is_to_the_policy_as_it_was_at_the_start(tmp_path):
    model = with_lora(tiny_llama(), rank=2, alpha=0.0, seed=0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.add_(0.3)
    rl_toy.run(tmp_path, model, steps=4, beta=0.1, learning_rate=0.02)
    steps = steps_of(tmp_path)
    # Neither the model under the adapter nor the latest sampler: at the start there is no distance, and then it stays.
    assert steps[0]["call/kl"] == pytest.approx(0, abs=1e-6)
    assert steps[1]["call/kl"] > 1e-4 and steps[2]["call/kl"] > 1e-4
    assert (tmp_path / "model" / "adapter_model.safetensors").is_file()


def test_a_reference_is_put_in_place_and_taken_out_again():
    model = tiny_llama()
    ids = torch.tensor([[5, 6, 7]])
    before = model(ids).logits
    reference = Reference(model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.1)
    after = model(ids).logits
    with reference.in_place():
        assert torch.equal(model(ids).logits, before)
    assert torch.equal(model(ids).logits, after) and not torch.allclose(before, after)


def test_a_policy_that_does_too_little_is_refused_and_may_be_forced(tmp_path):
    with pytest.raises(InputError, match=r"of the first rollouts succeeded.*--force-start"):
        rl_toy.run(tmp_path, start_floor=1.0, steps=1)
    result, _ = rl_toy.run(tmp_path, start_floor=1.0, steps=1, force_start=True)
    assert result.steps == 1


def test_a_sampler_whose_probabilities_are_not_the_trainers_is_refused(tmp_path):
    chosen = rl_toy.options(tmp_path, steps=1)

    class Off(rl_toy.Toy):
        def __call__(self, prompts, trainer):
            output = super().__call__(prompts, trainer)
            output["logprobs"] = [[p - 0.1 if p else 0.0 for p in row] for row in output["logprobs"]]
            return output

    with pytest.raises(InputError, match=r"0\.1 nats a token .*--old recomputed"):
        rl_toy.run(tmp_path, rollouts=Off(chosen), steps=1)
    result, _ = rl_toy.run(
        tmp_path / "recomputed", rollouts=Off(rl_toy.options(tmp_path, steps=1)), steps=1, old="recomputed"
    )
    assert result.difference == pytest.approx(0.1, abs=1e-3)
    assert steps_of(tmp_path / "recomputed")[0]["call/ratio_max"] == pytest.approx(1, abs=1e-4)


def test_groups_without_differences_teach_nothing_and_are_counted(tmp_path):
    class Flat(rl_toy.Toy):
        def __call__(self, prompts, trainer):
            output = super().__call__(prompts, trainer)
            output["rewards"] = [{"even": 1.0, "odd": float("nan")} for _ in prompts]
            return output

    rl_toy.run(tmp_path, rollouts=Flat(rl_toy.options(tmp_path)), steps=1)
    [step] = steps_of(tmp_path)
    assert step["reward/even/zero_variance_groups"] == 4 and step["reward/odd/missing_share"] == 1
    assert step["loss"] == 0 and step["grad_norm"] == 0


def test_a_batch_without_a_written_token_is_passed_over(tmp_path):
    class Mute(rl_toy.Toy):
        def __call__(self, prompts, trainer):
            output = super().__call__(prompts, trainer)
            for name in ("completion_ids", "logprobs", "env_mask", "kinds"):
                output[name][:4] = [[]] * 4
            return output

    rl_toy.run(tmp_path, rollouts=Mute(rl_toy.options(tmp_path)), steps=1)
    [step] = steps_of(tmp_path)
    assert step["call/segments"] == 4 and step["grad_norm"] > 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0.7), ("top_p", 0.9), ("top_k", 20), ("min_p", 0.05), ("repetition_penalty", 1.05),
        ("presence_penalty", 0.5), ("frequency_penalty", 0.5), ("grammar", "root ::= x"), ("logit_bias", {"3": 1}),
        ("structured_outputs", {"regex": "a"}), ("min_tokens", 4), ("stop", ["x"]),
    ],
)  # fmt: skip
def test_sampling_that_biases_the_ratio_is_refused(tmp_path, name, value):
    with pytest.raises(InputError, match=f"{name}.*another distribution"):
        RlOptions(out=tmp_path, server="http://localhost:1", sampling={name: value})


def test_neutral_sampling_settings_and_those_of_the_server_alone_are_taken():
    given = {"temperature": 1.0, "top_k": -1, "top_p": 1, "priority": 3}
    assert Sampling(given=given).extra == {"priority": 3}


def test_options_out_of_range_are_told_together(tmp_path):
    with pytest.raises(InputError) as told:
        RlOptions(out=tmp_path, group=1, base_share=1.5, sampling={"priority": 1})
    assert {p.field for p in told.value.problems} == {"group", "base_share", "sampling"}


def test_a_run_is_as_long_as_its_tasks_make_it(tmp_path, monkeypatch):
    assert schedule(rl_toy.options(tmp_path, steps=0, accumulate=4, updates=2), 20) == (6, 24)
    assert schedule(rl_toy.options(tmp_path, steps=5, accumulate=1, updates=2), 20) == (5, 6)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert schedule(rl_toy.options(tmp_path, steps=0, accumulate=4, updates=2), 20) == (4, 32)


def test_the_command_tells_wrong_weights_and_biased_sampling(tmp_path):
    runner = CliRunner()
    asked = ["train", "rl", "harnesses/streamer-en", "--out", str(tmp_path)]
    result = runner.invoke(app, [*asked, "--call-reward", "accuracy"])
    assert result.exit_code == 2 and "NAME=VALUE" in result.output
    result = runner.invoke(app, [*asked, "--sampling", "top_p=0.8"])
    assert isinstance(result.exception, InputError) and "top_p" in str(result.exception)
