"""Training of a draft head: what it learns from, what it leaves alone, and that its guesses get better."""

import asyncio
import json

import pytest

pytest.importorskip("trl", reason="needs the training extra: trl is not installed")

import torch
from policies_requests import request
from policies_tiny_model import chat_tokenizer, tiny_llama
from training_rows import small_data, small_model, small_rows

from livery.errors import InputError
from livery.policies.hf import HfOptions, HfPolicy
from livery.policies.hf_draft import DraftHead
from livery.policies.policy import PromptMessage
from livery.room.trajectories import TrajectoryWriter
from livery.training.conversations import TokenRow
from livery.training.draft import DraftOptions, train_draft, train_head
from livery.training.draft_loss import KeptStates, draft_batch, head_loss, hidden_states, unrolled
from livery.training.draft_rows import commonest, draft_rows, token_rows
from livery.training.packing import choose_packing, collate, mean_loss
from livery.training.rows import DataRow
from livery.training.tree import lay_out
from livery.types import PolicyTurn, Request, RoomState, Route, TokenTrace, Trajectory, Turn

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of the training libraries among themselves
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    home = tmp_path_factory.mktemp("draft")
    return small_data(home / "data"), small_model(home / "model")


def options(given, out, **changes):
    data, model = given
    settings = {"learning_rate": 5e-3, "steps": 6, "depth": 2, "save_every": 100, "cpu": True}
    return DraftOptions(data=(data,), model=str(model), out=out, **{**settings, **changes})


def logged(out, name="loss"):
    return [e[name] for e in map(json.loads, (out / "log.jsonl").read_text().splitlines()) if name in e]


def token_row(ids, written):
    return TokenRow(ids=tuple(ids), written=tuple(bool(w) for w in written))


def head_of(model, **more):
    return DraftHead(model, generator=torch.Generator().manual_seed(1), **more)


# ------------------------------------------------------------------------------------------------- places


def test_places_are_those_where_the_policy_wrote_the_token_and_the_next():
    #                ids 3  4  5  6  7  8  9 10
    row = token_row(range(3, 11), [0, 0, 1, 1, 1, 0, 1, 1])
    batch = draft_batch([row, row], "tree", 3)
    assert [level.tolist() for level in batch["levels"]] == [[2, 3, 6], [3], []]
    asked = sorted(zip(batch["source"].tolist(), batch["target"].tolist(), batch["weight"].tolist(), strict=True))
    assert asked == [(0, 6, 2.0), (1, 7, 2.0), (2, 10, 2.0)]
    assert batch["parent"].tolist() == list(range(-1, 7))


def by_rows(model, head, row, depth):
    """The head's outputs at each depth by the definition: for each place, a pass over the row up to it, where the last
    ``depth - 1`` inputs are the head's own outputs."""
    ids = torch.tensor([row.ids])
    hidden = model.base_model(input_ids=ids)[0][0]
    inputs = torch.cat([torch.zeros_like(hidden[:1]), hidden[:-1]])
    outs = {}

    def out_at(place, own):
        """Of a place, when itself and those before it, ``own`` in all but the first, read the head's outputs."""
        if (place, own) not in outs:
            before = inputs[: place + 1].clone()
            for back in range(own):
                at = place - back
                before[at] = out_at(at - 1, own - back - 1)
            square = torch.ones(place + 1, place + 1, dtype=torch.bool).tril()[None, None]
            positions = torch.arange(place + 1)[None]
            outs[place, own] = head(before[None], ids[:, : place + 1], mask=square, positions=positions)[0, -1]
        return outs[place, own]

    return lambda place: out_at(place, depth - 1)


@pytest.mark.parametrize("kind", ["tree", "mask"])
def test_unrolling_on_a_tree_is_unrolling_each_row_by_its_definition(kind):
    generator = torch.Generator().manual_seed(3)
    shared = torch.randint(3, 259, (20,), generator=generator).tolist()
    rows = []
    for length, read in ((9, 3), (7, 2), (12, 6)):
        rest = torch.randint(3, 259, (length,), generator=generator).tolist()
        written = [0] * 17 + [1] * 3 + [0] * read + [1] * (length - read)
        rows.append(token_row(shared + rest, written))
    model = tiny_llama().eval()
    assert choose_packing(model, kind).kind == kind
    head = head_of(model)
    batch = draft_batch(rows, kind, 3)
    with torch.no_grad():
        found = unrolled(head, hidden_states(model, batch), batch)
        layout = lay_out([r.ids for r in rows])
        for row, i in zip(rows, range(3), strict=True):
            places = layout.places(i)
            for depth, (level, out) in enumerate(zip(batch["levels"], found, strict=True), start=1):
                wanted = by_rows(model, head, row, depth)
                here = [(t, level.tolist().index(p)) for t, p in enumerate(places) if p in level.tolist()]
                assert here
                for t, at in here:
                    torch.testing.assert_close(out[at], wanted(t), rtol=1e-3, atol=1e-4)


async def test_depths_in_training_are_the_guesses_in_decoding():
    """What the head gives at depth k, trained on a row that greedy decoding wrote, is its k-th guess there."""
    model = tiny_llama()
    head = head_of(model)
    policy = HfPolicy(model, chat_tokenizer(), HfOptions(temperature=0.0, draft_tokens=3), draft=head)
    guessed = []
    propose = policy._decoder._drafter.propose

    def noted(slots, pending, lengths, most):
        out = propose(slots, pending, lengths, most)
        guessed.append((lengths[0], out[0]))
        return out

    policy._decoder._drafter.propose = noted
    turn = await policy.act(request(max_tokens=24))
    await policy.aclose()
    ids = turn.tokens.prompt_ids + turn.tokens.output_ids
    start = len(turn.tokens.prompt_ids)
    row = token_row(ids, [t >= start for t in range(len(ids))])
    choose_packing(model)
    batch = draft_batch([row], "tree", 3)
    with torch.no_grad():
        outs = unrolled(head, hidden_states(model, batch), batch)
    compared = 0
    for at, guesses in guessed:
        for k, guess in enumerate(guesses):
            place = at + k
            # A further guess rests on those before it: the same only where they are the row's own tokens.
            if list(ids[at + 1 : place + 1]) != guesses[:k] or place not in batch["levels"][k].tolist():
                break
            i = batch["levels"][k].tolist().index(place)
            assert int(head.choose(outs[k][i])) == guess
            compared += 1
    assert compared >= 12


# --------------------------------------------------------------------------------------------------- loss


def test_soft_and_hard_losses_are_what_they_say_and_only_written_places_give_a_gradient():
    model = tiny_llama().eval().requires_grad_(False)
    choose_packing(model)
    head = head_of(model)
    row = token_row(range(10, 22), [0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1])
    batch = draft_batch([row], "tree", 1)
    hidden = hidden_states(model, batch)
    out = unrolled(head, hidden, batch)[0]
    places = batch["levels"][0]
    assert places.tolist() == [3, 4, 8, 9, 10]
    logq = torch.log_softmax(head.scores(out), -1)
    logp = torch.log_softmax(model.lm_head(hidden[places]), -1)
    kl = (logp.exp() * (logp - logq)).sum()
    ce = -sum(logq[i, row.ids[p + 1]] for i, p in enumerate(places.tolist()))
    for soft in (0.0, 0.25, 1.0):
        found = head_loss(head, hidden, batch, soft=soft)
        torch.testing.assert_close(found.total, soft * kl + (1 - soft) * ce, rtol=1e-4, atol=1e-4)
    assert found.of.tolist() == [5.0]
    assert found.right.tolist() == [float((logq.argmax(-1) == logp.argmax(-1)).sum())]
    # The last id is read by no place that is asked: another one there changes nothing.
    other = draft_batch([token_row([*row.ids[:6], 99, *row.ids[7:]], row.written)], "tree", 1)
    assert not torch.equal(hidden_states(model, other)[8], hidden[8])
    probe = hidden.clone().requires_grad_(True)
    head_loss(head, probe, batch, soft=0.0).total.backward()
    moved = probe.grad.abs().sum(-1) > 0
    # Place t reads the state of t-1; as keys all that stand before the last asked place count, those after it do not.
    assert moved[:10].all()
    assert not moved[10:].any()


def test_with_a_short_vocabulary_places_out_of_reach_do_not_count():
    model = tiny_llama().eval().requires_grad_(False)
    choose_packing(model)
    row = token_row(range(10, 22), [0] * 4 + [1] * 8)
    batch = draft_batch([row], "tree", 1)
    hidden = hidden_states(model, batch)
    best = model.lm_head(hidden[batch["levels"][0]]).argmax(-1).tolist()
    few = sorted({*best[:2], 3, 15, 17})
    head = head_of(model, vocabulary=few)
    reached = [i for i, b in enumerate(best) if b in few]
    assert 0 < len(reached) < len(best)
    logq = torch.log_softmax(head.scores(unrolled(head, hidden, batch)[0]), -1)
    logp = torch.log_softmax(model.lm_head(hidden[batch["levels"][0]])[:, few], -1)
    wanted = sum((logp[i].exp() * (logp[i] - logq[i])).sum() for i in reached)
    found = head_loss(head, hidden, batch, soft=1.0)
    torch.testing.assert_close(found.total, wanted, rtol=1e-4, atol=1e-5)
    assert found.of.tolist() == [float(len(best))]
    asked = [(i, few.index(row.ids[p + 1])) for i, p in enumerate(batch["levels"][0].tolist()) if row.ids[p + 1] in few]
    hard = head_loss(head, hidden, batch, soft=0.0)
    torch.testing.assert_close(hard.total, -sum((logq[i, t] for i, t in asked), torch.tensor(0.0)))


def test_commonest_ids_are_those_that_policies_wrote():
    rows = [token_row([7, 7, 7, 9, 9, 5], [0, 0, 0, 1, 1, 1]), token_row([5, 6, 9], [1, 1, 1])]
    assert commonest(rows, 3, [2]) == (2, 5, 9)
    assert commonest(rows, 0, [2]) == ()


def test_kept_states_are_computed_once(tmp_path):
    model = tiny_llama().eval()
    choose_packing(model)
    calls = []
    model.model.register_forward_hook(lambda *_: calls.append(1))
    batches = [draft_batch([token_row(range(s, s + 9), [1] * 9)], "tree", 1) for s in (10, 40)]
    kept = KeptStates(model, tmp_path)
    first = [kept.of(b) for b in batches]
    again = [KeptStates(model, tmp_path).of(b) for b in batches]
    assert len(calls) == 2
    for a, b, batch in zip(first, again, batches, strict=True):
        assert torch.equal(a, b)
        torch.testing.assert_close(a, hidden_states(model, batch), rtol=2e-3, atol=2e-3)
    assert not torch.equal(first[0], first[1])


# ------------------------------------------------------------------------------------------------ the run


async def played(model, tokenizer, head=None):
    """What the policy writes greedily after a few prompts."""
    policy = HfPolicy(model, tokenizer, HfOptions(temperature=0.0), draft=head)
    prompts = [(PromptMessage(role="user", content=c * 3),) for c in "abcd"]
    turns = [await policy.act(request(prompt, max_tokens=40)) for prompt in prompts]
    await policy.aclose()
    return turns


def own_rows(turns):
    rows = []
    for i, turn in enumerate(turns):
        ids, start = turn.tokens.prompt_ids + turn.tokens.output_ids, len(turn.tokens.prompt_ids)
        tokens = token_row(ids, [t >= start for t in range(len(ids))])
        rows.append(DataRow(id=str(i), group="g", tokens=tokens, messages=(), fields={}))
    return rows


def test_a_trained_head_is_taken_at_its_word_more_often_and_the_model_stays_bit_for_bit(given, tmp_path):
    model, tokenizer = tiny_llama(), chat_tokenizer()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    plain = asyncio.run(played(model, tokenizer))
    result = train_head(options(given, tmp_path, steps=200, learning_rate=0.01), own_rows(plain), model, tokenizer)
    assert result.loss < 0.5 * result.first_loss
    assert result.right[0] > 0.6
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    model.set_attn_implementation("sdpa")
    shares = []
    for head in (DraftHead(model, start="fresh", generator=torch.Generator().manual_seed(5)).eval(),
                 DraftHead.load(tmp_path / "head", model)):  # fmt: skip
        turns = asyncio.run(played(model, tokenizer, head))
        assert [t.tokens.output_ids for t in turns] == [t.tokens.output_ids for t in plain]
        shares.append(sum(t.usage.accepted for t in turns) / sum(t.usage.drafted for t in turns))
    assert shares[1] > 0.4
    assert shares[0] < 0.1
    card = json.loads((tmp_path / "head" / "draft.json").read_text())
    assert (card["depth"], card["width"], card["schema"]) == (2, 16, "livery.draft/1")


def test_it_says_what_was_trained_on_what(given, tmp_path):
    said = []
    result = train_draft(options(given, tmp_path, steps=4, held_out=0.34, vocabulary=30), say=said.append)
    assert (result.rows, result.trees, result.steps, result.guessed, result.packing.kind) == (8, 2, 4, 30, "tree")
    assert result.parameters < 6000
    assert 0 < result.places < result.tokens
    assert len(result.right) == len(result.held_out_right) == 2
    assert result.held_out_loss is not None
    assert any("guesses among 30 ids" in line for line in said)
    card = json.loads((tmp_path / "run.json").read_text())
    assert card["kind"] == "draft"
    assert len(card["data"]["sources"]["data"]) == 64
    assert (tmp_path / "loss.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(logged(tmp_path, "right_2")) == 4
    assert len(list((tmp_path / "states").glob("*.npy"))) == 3


class Killed(Exception):
    pass


def killer(step):
    from transformers import TrainerCallback

    class Kill(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == step:
                raise Killed

    return Kill()


def weights_of(folder):
    from safetensors.torch import load_file

    return {k: v for file in sorted(folder.glob("*.safetensors")) for k, v in load_file(file).items()}


@pytest.mark.parametrize("joint", [False, True])
def test_a_killed_run_goes_on_as_if_it_had_not_been_killed(given, tmp_path, joint):
    from livery.training.stage import with_lora

    rows, tokenizer = small_rows(), chat_tokenizer()
    more = {"joint": 0.3, "lora_rank": 2} if joint else {}

    def start(name, **run):
        model = with_lora(tiny_llama(), rank=2, alpha=0, seed=0) if joint else tiny_llama()
        chosen = options(given, tmp_path / name, steps=5, save_every=2, accumulate=2, **more)
        return train_head(chosen, rows, model, tokenizer, **run)

    start("whole")
    with pytest.raises(Killed):
        start("cut", callbacks=[killer(3)])
    assert start("cut").resumed_at == 2
    assert logged(tmp_path / "cut") == logged(tmp_path / "whole")
    for part in ("head", "model") if joint else ("head",):
        a, b = (weights_of(tmp_path / name / part) for name in ("whole", "cut"))
        assert a
        assert all(torch.equal(a[k], b[k]) for k in a)


def test_jointly_the_adapter_learns_too_and_the_weights_below_it_do_not(given, tmp_path):
    from livery.training.stage import with_lora

    model = with_lora(tiny_llama(), rank=2, alpha=0, seed=0)
    chosen = options(given, tmp_path, steps=12, joint=0.3, lora_rank=2, learning_rate=0.02)
    rows = small_rows(harnesses=1)
    result = train_head(chosen, rows, model, chat_tokenizer())
    assert result.loss < 0.8 * result.first_loss
    # The first loss is the model's own, and 0.3 of the head's.
    base = tiny_llama().eval()
    choose_packing(base)
    torch.manual_seed(0)
    head = DraftHead(base)
    batch = draft_batch([r.tokens for r in rows], "tree", 2)
    of_head = head_loss(head, hidden_states(base, batch), batch, soft=1.0).total / batch["weight"].sum()
    own = mean_loss(base, collate([r.tokens for r in rows], "rows"))
    assert result.first_loss == pytest.approx(float(own + 0.3 * of_head), rel=1e-3)
    plain = tiny_llama().state_dict()
    for name, weight in model.get_base_model().state_dict().items():
        if ".lora_" not in name:
            assert torch.equal(weight, plain[name.replace(".base_layer.", ".")])
    assert any(v.abs().sum() > 0 for k, v in weights_of(tmp_path / "model").items() if "lora_B" in k)
    card = json.loads((tmp_path / "head" / "draft.json").read_text())
    assert len(card["made_for"]["adapter"]) == 16


# ---------------------------------------------------------------------------------------------- what is refused


def trajectory(turns, id="t"):
    return Trajectory(
        id=id,
        request=Request(id="r", messages=(), state=RoomState(room="r", language="en", now=0.0), created_at=0.0),
        harness="h",
        harness_release="rel",
        policy="hf:",
        turns=tuple(turns),
        reply="",
        route=Route.AGENT,
        route_reason="",
        started_at=0.0,
    )


def turn(round, prompt, output, text=""):
    trace = TokenTrace(prompt_ids=tuple(prompt), output_ids=tuple(output))
    return Turn(round=round, harness_release="rel", weights="w", policy=PolicyTurn(text=text, tokens=trace))


def test_a_run_gives_rows_of_what_its_policy_wrote(tmp_path):
    tokenizer = chat_tokenizer()
    said = list(tokenizer._encode_plain("Nine dollars."))
    turns = [turn(0, [5, 6], [7, 8]), turn(1, [5, 6, 7, 8, 9], said, "Nine dollars.")]
    assert token_rows(trajectory(turns)) == [
        token_row([5, 6, 7, 8, 9, *said], [0, 0, 1, 1, 0, *[1] * len(said)])
    ]  # fmt: skip
    apart = token_rows(trajectory([turns[0], turn(1, [50], [51, 52])]))
    assert apart == [token_row([5, 6, 7, 8], [0, 0, 1, 1]), token_row([50, 51, 52], [0, 1, 1])]
    with TrajectoryWriter(tmp_path / "trajectories.jsonl") as file:
        file.write(trajectory(turns, "a"))
        file.write(trajectory([Turn(round=0, harness_release="rel", weights="w", policy=PolicyTurn(text="x"))], "b"))
    notes = []
    rows = draft_rows((), (tmp_path,), tokenizer, max_tokens=100, say=notes.append)
    assert [(r.id, r.group, r.tokens) for r in rows] == [("a/0", "rel", token_rows(trajectory(turns))[0])]
    assert "1 trajectories without ids" in notes[0]
    with TrajectoryWriter(tmp_path / "other.jsonl") as file:
        file.write(trajectory([turn(0, [5], [30, 31], "Nine dollars.")]))
    with pytest.raises(InputError, match="in 1 of 1 turns the ids do not spell the reply"):
        draft_rows((), (tmp_path / "other.jsonl",), tokenizer, max_tokens=100, say=notes.append)
    with pytest.raises(InputError, match="none of at most 3 tokens in which the policy wrote two tokens"):
        draft_rows((), (tmp_path,), tokenizer, max_tokens=3, say=notes.append)


def test_what_does_not_fit_together_is_told(given, tmp_path):
    import peft

    with pytest.raises(InputError, match="expected --data or --run"):
        train_draft(DraftOptions(out=tmp_path))
    with pytest.raises(InputError, match="an adapter to train beside the head"):
        train_draft(options(given, tmp_path, joint=0.3))
    with pytest.raises(InputError, match="none where the main weights are frozen"):
        train_draft(options(given, tmp_path, lora_rank=2))
    with pytest.raises(InputError, match="no such file"):
        train_draft(options((tmp_path / "none", given[1]), tmp_path))
    other = peft.get_peft_model(tiny_llama(hidden=32), peft.LoraConfig(r=2, target_modules=["q_proj"]))
    other.save_pretrained(tmp_path / "other")
    with pytest.raises(InputError, match="does not fit the model"):
        train_draft(options(given, tmp_path / "out", lora=tmp_path / "other"))
    train_draft(options(given, tmp_path / "run", steps=1))
    with pytest.raises(InputError, match=r"settings\.depth: 2 before, 1 now"):
        train_draft(options(given, tmp_path / "run", steps=1, depth=1))


def test_the_command_ends_with_a_line_of_json_and_a_head(given, tmp_path):
    from typer.testing import CliRunner

    from livery.cli import app

    data, model = given
    done = CliRunner().invoke(
        app,
        ["train", "draft", "--data", str(data), "--model", str(model), "--out", str(tmp_path), "--steps", "2", "--cpu"],
    )
    assert done.exception is None
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["steps"], result["rows"], len(result["right"])) == (2, 12, 3)
    assert (tmp_path / "head" / "head.safetensors").is_file()
