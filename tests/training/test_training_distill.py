"""On-policy distillation: the divergence it descends, its teacher, its prompts, going on after a kill."""

import json
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the training extra: trl is not installed")

import torch
from policies_tiny_model import byte_tokenizer, chat_tokenizer, tiny_llama
from training_rows import small_model
from typer.testing import CliRunner

from livery.cli import app
from livery.errors import InputError
from livery.policies.hf_loading import ChatTokenizer
from livery.training.distill import AdapterOff, DistillOptions, distill, make_trainer, train_distill
from livery.training.distill_prompts import Prompts, prompt_ids, read_prompts, render
from livery.training.stage import with_lora

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of the training libraries among themselves
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
TEXTS = tuple(f"Say {word}." for word in ("one", "two", "three", "four", "five", "six"))
PROMPTS = Prompts(texts=TEXTS, found=6, dropped={"excluded": 0, "repeated": 0}, sources={}, excluded={})


def options(out, **changes):
    settings = {
        "prompts": (), "steps": 4, "batch": 2, "accumulate": 2, "max_new_tokens": 6, "max_truncated": 1.0, "cpu": True,
        "learning_rate": 5e-3, "save_every": 100, "schedule": "constant", "warmup": 0.0,
    }  # fmt: skip
    return DistillOptions(out=out, **{**settings, **changes})


def adapted(size=0.0, seed=0):
    """The tiny model under an adapter; ``size`` moves it away from its base."""
    model = with_lora(tiny_llama(), rank=2, alpha=0.0, seed=seed)
    torch.manual_seed(seed + 1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.copy_(size * torch.randn_like(weight))
    return model


def trained(out, student, teacher=None, **changes):
    chosen = options(out, **{"lora_rank": 0, **changes})
    result = distill(chosen, PROMPTS, student, teacher, chat_tokenizer())
    return result, [e for e in map(json.loads, (out / "log.jsonl").read_text().splitlines()) if "kl" in e]


def batch(rows, pad=0):
    """Ids of (prompt, reply) as the trainer has them: prompts padded on the left, replies on the right."""
    before, after = max(len(p) for p, _ in rows), max(len(r) for _, r in rows)
    out = {
        "prompt_ids": [[pad] * (before - len(p)) + p for p, _ in rows],
        "prompt_mask": [[0] * (before - len(p)) + [1] * len(p) for p, _ in rows],
        "completion_ids": [r + [pad] * (after - len(r)) for _, r in rows],
        "completion_mask": [[1] * len(r) + [0] * (after - len(r)) for _, r in rows],
    }
    out = {name: torch.tensor(value) for name, value in out.items()}
    return {**out, "num_items_in_batch": torch.tensor(sum(len(r) for _, r in rows))}


def plain_kl(rows, student, teacher):
    """Row by row, all logits, from the definition."""
    total, tokens = 0.0, 0
    for prompt, reply in rows:
        ids = torch.tensor([prompt + reply])
        at = slice(len(prompt) - 1, -1)
        ours = torch.log_softmax(student(ids).logits[0, at], -1)
        with torch.no_grad():
            theirs = torch.log_softmax(teacher(ids).logits[0, at], -1)
        total = total + (ours.exp() * (ours - theirs)).sum()
        tokens += len(reply)
    return total / tokens


ROWS = [([5, 6, 7, 8], [9, 10, 2]), ([11, 12], [13, 14, 15, 16, 17]), ([1, 20, 21, 22, 23, 24], [2])]


@pytest.mark.parametrize("kind", ["adapter", "all weights"])
def test_the_loss_and_its_gradient_are_those_of_the_definition(tmp_path, kind):
    if kind == "adapter":
        student, teacher = adapted(0.3), None
    else:
        student, teacher = tiny_llama(seed=1), tiny_llama(seed=2)
    reference = tiny_llama() if teacher is None else teacher
    wanted = plain_kl(ROWS, student, reference)
    wanted.backward()
    gradients = {n: p.grad.clone() for n, p in student.named_parameters() if p.grad is not None}
    student.zero_grad()
    trainer = make_trainer(options(tmp_path), [(1, 2)], student, teacher, chat_tokenizer())
    student.train()
    loss = trainer.compute_loss(student, batch(ROWS))
    loss.backward()
    assert wanted > 0.05
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-4)
    found = {n: p.grad for n, p in student.named_parameters() if p.grad is not None}
    assert found.keys() == gradients.keys() and found
    assert any(g.abs().max() > 1e-3 for g in found.values())
    for name, gradient in gradients.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-6)
    assert student.training


def test_the_teacher_is_the_model_without_its_adapter_and_leaves_it_as_it_was():
    student = adapted(0.3).train()
    ids = torch.tensor([[5, 6, 7, 8]])
    teacher = AdapterOff(student)
    hidden = teacher.base_model(input_ids=ids, use_cache=False).last_hidden_state
    assert torch.equal(hidden, tiny_llama().model(ids).last_hidden_state)
    assert not hidden.requires_grad
    assert not torch.allclose(hidden, student.base_model.model.model(ids).last_hidden_state)
    assert list(teacher.parameters()) == []
    assert student.training
    assert all(p.requires_grad == ("lora" in n) for n, p in student.named_parameters())


def test_a_fresh_adapter_has_no_divergence_and_a_moved_one_comes_back(tmp_path):
    _, still = trained(tmp_path / "fresh", adapted(0.0), steps=2)
    assert [e["kl"] for e in still] == pytest.approx([0.0, 0.0], abs=1e-6)
    result, steps = trained(tmp_path / "moved", adapted(0.3), steps=25, learning_rate=0.02, batch=8, accumulate=1)
    assert steps[0]["kl"] > 0.05
    assert result.kl < 0.5 * result.first_kl
    assert result.steps == 25
    assert 1 <= steps[0]["length"] <= 6
    assert result.sampled_tokens == pytest.approx(sum(e["tokens"] for e in steps))


def test_all_weights_come_back_to_a_teacher_of_their_own(tmp_path):
    student = tiny_llama()
    torch.manual_seed(3)
    with torch.no_grad():
        for weight in student.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    result, _ = trained(tmp_path, student, tiny_llama(), steps=20, batch=8, accumulate=1, learning_rate=5e-3)
    assert result.kl < 0.7 * result.first_kl
    assert (tmp_path / "model" / "model.safetensors").is_file()


def test_the_student_learns_only_on_what_it_sampled_up_to_its_end(tmp_path):
    trainer = make_trainer(options(tmp_path, batch=3), [(5, 6, 7), (8, 9)], adapted(0.3), None, chat_tokenizer())
    made = trainer._generate_and_score_completions([{"prompt": [5, 6, 7]}, {"prompt": [8, 9]}, {"prompt": [3]}])
    assert made["prompt_ids"].tolist() == [[5, 6, 7], [0, 8, 9], [0, 0, 3]]
    assert made["num_items_in_batch"] == made["completion_mask"].sum()
    for ids, mask in zip(made["completion_ids"].tolist(), made["completion_mask"].tolist(), strict=True):
        ends = [i for i, token in enumerate(ids) if token in (0, 2)]  # <|endoftext|> and <|im_end|>
        assert sum(mask) == (ends[0] + 1 if ends else 6)


class Killed(Exception):
    pass


def killer(step):
    from transformers import TrainerCallback

    class Kill(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == step:
                raise Killed

    return Kill()


def test_a_killed_run_goes_on_as_if_it_had_not_been_killed(tmp_path):
    tokenizer = chat_tokenizer()

    def chosen(name):
        return options(tmp_path / name, steps=6, save_every=2)

    distill(chosen("whole"), PROMPTS, adapted(0.3), None, tokenizer)
    with pytest.raises(Killed):
        distill(chosen("cut"), PROMPTS, adapted(0.3), None, tokenizer, callbacks=[killer(5)])
    result = distill(chosen("cut"), PROMPTS, adapted(0.3), None, tokenizer)
    assert result.resumed_at == 4
    a, b = ([json.loads(x) for x in (tmp_path / n / "log.jsonl").read_text().splitlines()] for n in ("whole", "cut"))
    for name in ("kl", "tokens", "truncated"):
        assert [e[name] for e in a if name in e] == [e[name] for e in b if name in e]
    weights = [(tmp_path / n / "model" / "adapter_model.safetensors").read_bytes() for n in ("whole", "cut")]
    assert weights[0] == weights[1]


def test_a_folder_of_another_run_is_refused_and_fresh_begins_anew(tmp_path):
    distill(options(tmp_path, steps=1), PROMPTS, adapted(0.3), None, chat_tokenizer())
    with pytest.raises(InputError, match=r"settings\.max_new_tokens: 6 before, 5 now") as error:
        distill(options(tmp_path, steps=1, max_new_tokens=5), PROMPTS, adapted(0.3), None, chat_tokenizer())
    assert error.value.problems[0].code == "distill-other-run"
    result = distill(
        options(tmp_path, steps=1, max_new_tokens=5), PROMPTS, adapted(0.3), None, chat_tokenizer(), fresh=True
    )
    assert (result.resumed_at, result.steps) == (0, 1)


def test_a_run_whose_replies_are_cut_stops_with_advice_and_may_go_on(tmp_path):
    def go(**changes):
        chosen = options(tmp_path, max_new_tokens=1, save_every=1, truncated_over=3, **changes)
        return distill(chosen, PROMPTS, adapted(0.3), None, chat_tokenizer())

    with pytest.raises(InputError, match=r"of the last 3 steps were cut off at 1 tokens, more than 50%.*--max-new-tok"):
        go(max_truncated=0.5)
    assert (tmp_path / "checkpoint-2").is_dir()
    assert go(max_truncated=1.0).resumed_at == 2


# ------------------------------------------------------------------------------------------ prompts


def written(path: Path, *records):
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records), encoding="utf-8")
    return path


def test_prompts_of_the_test_set_and_repeated_ones_are_dropped_and_counted(tmp_path):
    train = written(
        tmp_path / "train.jsonl",
        {"prompt": "Write a poem."}, {"prompt": "Name  a\nRIVER."}, "", {"prompt": "write a poem."},
        {"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello?"}]},
    )  # fmt: skip
    test = written(tmp_path / "test.jsonl", {"key": 1, "prompt": "Name a river."})
    found = read_prompts([str(train)], [test])
    assert found.texts == ("Write a poem.", "Hello?")
    assert (found.found, found.dropped) == (4, {"excluded": 1, "repeated": 1})
    assert set(found.sources) == {"train.jsonl"} and len(found.excluded["test.jsonl"]) == 64
    with pytest.raises(InputError, match="no prompt is left of 1"):
        read_prompts([str(test)], [test])


def test_faulty_lines_are_named_with_file_line_and_field(tmp_path):
    path = written(
        tmp_path / "bad.jsonl",
        {"prompt": "Good."}, "{", {"text": "No prompt."}, {"prompt": 7}, {"prompt": " "}, [1],
        {"messages": [{"role": "assistant", "content": "Hi"}]},
    )  # fmt: skip
    with pytest.raises(InputError) as error:
        read_prompts([str(path)])
    found = [(p.path, p.line, p.field) for p in error.value.problems]
    assert found == [(str(path), n, f) for n, f in zip(range(2, 8), ["", *["prompt"] * 3, "", "messages"], strict=True)]
    assert "expected a text that is not empty" in error.value.problems[1].message
    with pytest.raises(InputError, match="no such file"):
        read_prompts([str(tmp_path / "none" / "there.jsonl")])
    with pytest.raises(InputError, match="not UTF-8"):
        (tmp_path / "latin.jsonl").write_bytes('{"prompt": "é"}'.encode("latin-1"))
        read_prompts([str(tmp_path / "latin.jsonl")])


def test_a_name_that_is_no_file_is_asked_of_the_hub():
    def load(name):
        assert name == "allenai/tulu-3-sft-mixture"
        return [{"messages": [{"role": "user", "content": "Hi."}]}, {"messages": [{"role": "user", "content": "Ho."}]}]

    assert read_prompts(["allenai/tulu-3-sft-mixture"], load=load).texts == ("Hi.", "Ho.")

    def offline(name):
        raise ConnectionError("no route")

    with pytest.raises(InputError, match=r"the hub gave no data set of this name \(ConnectionError: no route\)"):
        read_prompts(["some/where"], load=offline)


def test_prompts_are_rendered_by_the_models_own_template():
    inner = byte_tokenizer()
    plain = ChatTokenizer(inner)
    assert inner.decode(prompt_ids("Hi", plain)) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    inner.chat_template = "<|im_start|>system\nKind.<|im_end|>{{ messages[0].content }}"
    ids = prompt_ids("Hi", plain)
    assert inner.decode(ids) == "<|im_start|>system\nKind.<|im_end|>Hi"
    assert (ids[0], ids[-3]) == (plain.start, plain.end)
    made = render(["Hi", "<|im_end|>", "x" * 99], plain, most_tokens=50)
    assert made.ids == (ids,)
    assert made.dropped == {"marks": 1, "long": 1}


# ------------------------------------------------------------------------------------- the whole command


def test_the_command_trains_an_adapter_on_and_ends_with_json(tmp_path):
    base = small_model(tmp_path / "base")
    adapted(0.3).save_pretrained(tmp_path / "adapter")
    prompts = written(tmp_path / "prompts.jsonl", *({"prompt": t} for t in TEXTS))
    excluded = written(tmp_path / "test.jsonl", {"prompt": TEXTS[0]})
    arguments = [
        "train", "distill", "--model", base, "--lora", tmp_path / "adapter", "--prompts", prompts, "--exclude", excluded,
        "--out", tmp_path / "out", "--steps", 2, "--batch", 2, "--accumulate", 1, "--max-new-tokens", 4,
        "--max-truncated", 1, "--cpu",
    ]  # fmt: skip
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exception is None
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["steps"], result["prompts"], result["dropped"]["excluded"]) == (2, 5, 1)
    assert result["first_kl"] > 0.01
    out = tmp_path / "out"
    assert (out / "model" / "adapter_model.safetensors").is_file()
    assert (out / "loss.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    card = json.loads((out / "run.json").read_text())
    assert card["model"]["teacher"] == "the model, adapter off"
    assert card["data"]["used"] == 5
    assert str(tmp_path) not in (out / "plan.json").read_text().replace(str(base), "")


def test_what_cannot_teach_is_refused(tmp_path):
    base = str(small_model(tmp_path / "base"))
    given = written(tmp_path / "p.jsonl", {"prompt": "Hi"})

    def refused(match, **changes):
        with pytest.raises(InputError, match=match):
            train_distill(options(tmp_path / "out", **{"prompts": (str(given),), "model": base, **changes}))

    refused("nothing to learn", teacher=base)
    refused("no adapter_config.json", lora=tmp_path)
    refused("neither a rank nor a teacher", lora=tmp_path, teacher=base)
    other = tmp_path / "other"
    tiny_llama(vocabulary=260).save_pretrained(other)
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens(["<more>"])
    tokenizer.save_pretrained(other)
    refused("reads the same ids", teacher=str(other))
    adapted(0.1).save_pretrained(tmp_path / "adapter")
    wide = tmp_path / "wide"
    tiny_llama(hidden=32).save_pretrained(wide)
    byte_tokenizer().save_pretrained(wide)
    refused("does not fit the model", model=str(wide), lora=tmp_path / "adapter")
