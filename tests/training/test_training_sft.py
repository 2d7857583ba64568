"""Supervised training: the loss it descends, going on after a kill, the cards it leaves."""

import json
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the training extra: trl is not installed")

import torch
from policies_tiny_model import chat_tokenizer, tiny_llama
from training_rows import small_data, small_model, small_rows

from livery.errors import InputError
from livery.policies.hf_loading import load_model
from livery.training.packing import collate, mean_loss
from livery.training.sft import SftOptions, train_rows, train_sft, trees
from livery.training.stage import last_checkpoint

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of the training libraries among themselves
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    home = tmp_path_factory.mktemp("sft")
    return small_data(home / "data"), small_model(home / "model")


def options(given, out, **changes):
    data, model = given
    settings = {"lora_rank": 0, "learning_rate": 5e-3, "steps": 6, "trees": 1, "save_every": 100, "cpu": True}
    return SftOptions(data=data, model=str(model), out=out, **{**settings, **changes})


def losses(out):
    return [e["loss"] for e in map(json.loads, (out / "log.jsonl").read_text().splitlines()) if "loss" in e]


def test_it_learns_and_says_what_was_trained_on_what(given, tmp_path):
    said = []
    result = train_sft(options(given, tmp_path, steps=30, held_out=0.34, learning_rate=0.02), say=said.append)
    assert result.loss < 0.6 * result.first_loss
    assert result.held_out_loss is not None
    assert (result.rows, result.trees, result.packing.kind) == (8, 2, "tree")
    assert result.tokens_of_rows > result.tokens_read
    card = json.loads((tmp_path / "run.json").read_text())
    assert card["data"]["split"] == "train"
    assert card["data"]["seeds"] == {"tasks": 3}
    assert len(card["data"]["rows_sha256"]) == 64
    assert card["versions"]["trl"]
    assert card["result"]["steps"] == 30
    assert (tmp_path / "loss.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "rows_sha256" in (tmp_path / "README.md").read_text()
    assert any("8 rows in 2 trees" in line for line in said)
    assert len(losses(tmp_path)) == 30


def test_the_first_loss_and_step_are_those_of_plain_training(given, tmp_path):
    rows = small_rows()
    wanted = tiny_llama()
    first = trees(rows, most_rows=8, most_tokens=8192, rng=random.Random(0))
    result = train_rows(
        options(given, tmp_path, steps=1, trees=len(first), schedule="constant", warmup=0.0, clip=1e9),
        rows, model := tiny_llama(), chat_tokenizer(),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(wanted.parameters(), lr=5e-3, weight_decay=0.0)
    loss = mean_loss(wanted, collate([r.tokens for r in rows], "rows"))
    loss.backward()
    optimizer.step()
    assert result.first_loss == pytest.approx(loss.item(), abs=1e-4)
    for a, b in zip(model.parameters(), wanted.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=2e-4)


def test_accumulated_batches_weigh_each_token_alike(given, tmp_path):
    rows = [r for r in small_rows(harnesses=4) if r.id not in ("0/0", "0/1", "1/2")]
    runs = []
    for name, trees_, accumulate in (("one", 4, 1), ("four", 1, 4)):
        chosen = options(given, tmp_path / name, steps=3, trees=trees_, accumulate=accumulate, seed=1)
        train_rows(chosen, rows, model := tiny_llama(), chat_tokenizer())
        runs.append((losses(tmp_path / name), model))
    assert runs[0][0] == pytest.approx(runs[1][0], abs=2e-3)
    for a, b in zip(runs[0][1].parameters(), runs[1][1].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-3)


class Killed(Exception):
    pass


def killer(step):
    from transformers import TrainerCallback

    class Kill(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == step:
                raise Killed

    return Kill()


@pytest.mark.parametrize("lora_rank", [0, 2])
def test_a_killed_run_goes_on_as_if_it_had_not_been_killed(given, tmp_path, lora_rank):
    rows, tokenizer = small_rows(), chat_tokenizer()

    def chosen(name):
        return options(given, tmp_path / name, steps=7, save_every=2, lora_rank=lora_rank)

    train_rows(chosen("whole"), rows, tiny_llama(), tokenizer)
    with pytest.raises(Killed):
        train_rows(chosen("cut"), rows, tiny_llama(), tokenizer, callbacks=[killer(5)])
    (tmp_path / "cut" / "checkpoint-6").mkdir()  # what a kill in the middle of saving leaves
    (tmp_path / "cut" / "checkpoint-6" / "trainer_state.json").write_text('{"epo')
    result = train_rows(chosen("cut"), rows, tiny_llama(), tokenizer)
    assert result.resumed_at == 4
    assert losses(tmp_path / "cut") == losses(tmp_path / "whole")
    a, b = (torch_weights(tmp_path / name / "model") for name in ("whole", "cut"))
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name])


def torch_weights(folder):
    from safetensors.torch import load_file

    return {k: v for file in folder.glob("*.safetensors") for k, v in load_file(file).items()}


def test_a_folder_of_another_run_is_refused_and_fresh_begins_anew(given, tmp_path):
    train_sft(options(given, tmp_path, steps=2, save_every=1))
    assert last_checkpoint(tmp_path).name == "checkpoint-2"
    with pytest.raises(InputError, match=r"settings\.learning_rate: 0\.005 before, 0\.5 now"):
        train_sft(options(given, tmp_path, steps=2, save_every=1, learning_rate=0.5))
    result = train_sft(options(given, tmp_path, steps=2, save_every=1, learning_rate=0.5), fresh=True)
    assert (result.resumed_at, result.steps) == (0, 2)


def test_an_adapter_is_saved_and_changes_the_model(given, tmp_path):
    train_sft(options(given, tmp_path, steps=4, lora_rank=2, learning_rate=0.05))
    adapter = tmp_path / "model"
    assert (adapter / "adapter_model.safetensors").is_file()
    ids = torch.tensor([[5, 6, 7, 8]])
    plain, merged = (load_model(given[1], adapters=a) for a in ((), [(adapter, 1.0)]))
    assert not torch.allclose(plain(ids).logits, merged(ids).logits)


def test_a_trained_adapter_is_trained_on(given, tmp_path):
    first = train_sft(options(given, tmp_path / "a", steps=8, lora_rank=2, learning_rate=0.05))
    more = options(given, tmp_path / "b", steps=2, lora_rank=0, lora=tmp_path / "a" / "model", learning_rate=1e-6)
    second = train_sft(more)
    assert second.first_loss < 0.9 * first.first_loss
    cards = [json.loads((tmp_path / n / "run.json").read_text())["model"] for n in "ab"]
    assert cards[0]["weights"] == cards[1]["weights"]
    assert "adapter" not in cards[0]
    assert len(cards[1]["adapter"]) == 16
    ids = torch.tensor([[5, 6, 7, 8]])
    a, b = (load_model(given[1], adapters=[(tmp_path / n / "model", 1.0)])(ids).logits for n in "ab")
    assert torch.allclose(a, b, atol=1e-3)  # so small a rate changes next to nothing
    with pytest.raises(InputError, match="an adapter has its own"):
        train_sft(options(given, tmp_path / "c", lora_rank=4, lora=tmp_path / "a" / "model"))
    with pytest.raises(InputError, match="adapter_config"):
        train_sft(options(given, tmp_path / "c", lora_rank=0, lora=given[1]))


def test_a_row_beyond_the_limit_is_an_error_and_is_not_cut(given, tmp_path):
    with pytest.raises(InputError, match="12 rows are longer than 50 tokens"):
        train_sft(options(given, tmp_path, max_tokens=50))


def test_groups_are_cut_evenly_and_keep_to_their_harness():
    rows = small_rows(harnesses=2, tasks=9)
    cut = trees(rows, most_rows=4, most_tokens=9999, rng=random.Random(1))
    assert sorted(i for tree in cut for i in tree) == list(range(18))
    assert sorted(map(len, cut)) == [3] * 6
    assert all(len({rows[i].group for i in tree}) == 1 for tree in cut)
    shared = len(rows[0].tokens.ids)
    narrow = trees(rows, most_rows=9, most_tokens=shared + 5, rng=random.Random(1))
    assert [len(tree) for tree in narrow] == [1] * 18


def test_two_processes_take_the_steps_of_one(given, tmp_path):
    given = small_data(tmp_path / "data", harnesses=4), given[1]  # divides by two: no group is read twice
    script = tmp_path / "run.py"
    script.write_text(
        "import sys, pickle, torch\n"
        "from livery.training.sft import train_sft\n"
        "torch.set_num_threads(1)\n"
        "train_sft(pickle.load(open(sys.argv[1], 'rb')))\n"
    )
    (tmp_path / "options").write_bytes(pickle.dumps(options(given, tmp_path / "two", steps=3)))
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    launch += [str(script), str(tmp_path / "options")]
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "ACCELERATE_USE_CPU": "true", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(launch, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    train_sft(options(given, tmp_path / "one", steps=3, trees=2))
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=2e-3)
    a, b = (torch_weights(tmp_path / name / "model") for name in ("one", "two"))
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-2, atol=1e-3)
