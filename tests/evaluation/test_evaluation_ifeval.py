"""T4: lm-eval's checkers give here what they give there; the rest is our own counting, asking and resuming.

``data/ifeval_parity.jsonl`` holds prompts of our own with responses, some right and some not, and what lm-eval's checkers
say of each; ``ifeval_parity.json`` has the four means that lm-eval's own evaluator printed over the same responses,
replayed by a model class of its interface.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from livery.cli import app
from livery.errors import InputError, PolicyOverflow, PolicyUnavailable
from livery.evaluation import ifeval as t4
from livery.evaluation import ifeval_checkers
from livery.evaluation.ifeval_chat import Said, open_chat, without_reasoning
from livery.evaluation.ifeval_checkers import Checked, Checkers, open_checkers
from livery.evaluation.ifeval_figures import TITLES, IfevalResult, figures
from livery.evaluation.ifeval_prompts import IfevalPrompt, load_prompts, prompts_digest

DATA = Path(__file__).parent / "data"
CASES = [json.loads(line) for line in (DATA / "ifeval_parity.jsonl").read_text(encoding="utf-8").splitlines()]
LM_EVAL = json.loads((DATA / "ifeval_parity.json").read_text(encoding="utf-8"))
PUBLISHED = Path(__file__).parents[3] / "shared" / "data" / "ifeval" / "input_data.jsonl"

with_lm_eval = pytest.mark.filterwarnings("ignore")  # what lm-eval's own imports warn of is not ours to mend


def prompt_of(case):
    return IfevalPrompt(**{f: case[f] for f in ("key", "prompt", "instruction_id_list", "kwargs")})


def result_of(case, **fields):
    words = len(case["response"].split())
    names = case["instruction_id_list"]
    told = {"key": case["key"], "instructions": names, "strict": case["strict"], "loose": case["loose"]}
    return IfevalResult(**{**told, "words": words, "tokens": words, **fields})


class Fake:
    """A chat that says what it is told to, or raises it."""

    uri, weights, template, at_a_time = "hf:fake?temperature=0", "w", "chatml", 2

    def __init__(self, answers):
        self.answers = answers
        self.asked = []

    async def say(self, prompt, max_tokens):
        self.asked.append(prompt)
        answer = self.answers[prompt]
        if isinstance(answer, Exception):
            raise answer
        return Said(answer, len(answer.split()), 0, len(answer.split()) >= max_tokens)

    async def aclose(self):
        pass


def prompts_named(*names):
    return [
        IfevalPrompt(key=i, prompt=name, instruction_id_list=("punctuation:no_comma",), kwargs=({},))
        for i, name in enumerate(names)
    ]


def recipe_for(prompts, **fields):
    chat = Fake({})
    told = {"policy": chat.uri, "weights": chat.weights, "template": chat.template, "max_tokens": 5}
    return t4.IfevalRecipe(**{"tasks": prompts_digest(prompts), "prompts": len(prompts), **told, **fields})


# ------------------------------------------------------------------------------------------ parity


def test_our_means_over_its_verdicts_are_the_ones_that_lm_eval_printed():
    found = figures([result_of(c) for c in CASES])
    assert found.prompts == LM_EVAL["prompts"] == len(CASES)
    for name in TITLES:
        of = found.prompts if name.startswith("prompt") else found.instructions
        assert found.followed[name] / of == LM_EVAL[name], name
        assert found.measures[name].value == pytest.approx(100 * LM_EVAL[name])
    assert found.measures["prompt_loose"].value > found.measures["prompt_strict"].value


def test_the_fixture_tries_every_type_with_both_outcomes_in_it():
    verdicts = Counter(
        (name, met) for c in CASES for name, met in zip(c["instruction_id_list"], c["strict"], strict=True)
    )
    types = {name for name, _ in verdicts}
    assert len(types) == 25
    assert {name for name in types if not verdicts[name, True]} == set()
    assert {name for name in types if not verdicts[name, False]} <= {
        "change_case:capital_word_frequency",
        "change_case:english_capital",
        "detectable_format:multiple_sections",
    }


@with_lm_eval
def test_checks_and_means_equal_those_of_lm_evals_own_functions():
    pytest.importorskip("lm_eval", reason="needs the ifeval extra")
    checkers = open_checkers()
    utils = sys.modules["lm_eval.tasks.ifeval.utils"]
    ours = t4.check(
        [prompt_of(c) for c in CASES],
        [t4.Response(key=c["key"], response=c["response"], tokens=1) for c in CASES],
        checkers,
    )
    theirs = []
    for case in CASES:
        random.seed(case["key"])
        theirs.append(utils.process_results(prompt_of(case).to_doc(), [case["response"]]))
    assert (
        [list(r.strict) for r in ours] == [t["inst_level_strict_acc"] for t in theirs] == [c["strict"] for c in CASES]
    )
    assert [list(r.loose) for r in ours] == [t["inst_level_loose_acc"] for t in theirs] == [c["loose"] for c in CASES]
    found = figures(ours)
    inst = utils.agg_inst_level_acc([t["inst_level_strict_acc"] for t in theirs])
    assert found.followed["instruction_strict"] / found.instructions == inst == LM_EVAL["instruction_strict"]
    whole = [t["prompt_level_loose_acc"] for t in theirs]
    assert found.followed["prompt_loose"] / found.prompts == sum(whole) / len(whole) == LM_EVAL["prompt_loose"]


@with_lm_eval
def test_a_check_is_the_same_whatever_was_drawn_before_and_leaves_the_random_state_alone():
    pytest.importorskip("lm_eval", reason="needs the ifeval extra")
    checkers = open_checkers()
    counted = {"let_relation": "at least", "letter": "#", "let_frequency": 2}  # no letter: one is drawn in its place
    prompt = IfevalPrompt(key=7, prompt="x", instruction_id_list=("keywords:letter_frequency",), kwargs=(counted,))
    verdicts = set()
    for seed in range(12):
        random.seed(seed)
        before = random.getstate()
        verdicts.add(checkers.check(prompt, "a quick brown fox and a lazy hound").strict)
        assert random.getstate() == before
    assert len(verdicts) == 1
    odd = IfevalPrompt(key=8, prompt="x", instruction_id_list=("punctuation:no_dash",), kwargs=({},))
    with pytest.raises(InputError, match=r"punctuation:no_dash.*key 8"):
        checkers.require([prompt, odd])
    bad = IfevalPrompt(key=9, prompt="x", instruction_id_list=("punctuation:no_comma",), kwargs=({"commas": 2},))
    with pytest.raises(InputError, match="key 9: kwargs: lm-eval"):
        checkers.check(bad, "x")


@with_lm_eval
def test_every_published_prompt_has_a_checker():
    pytest.importorskip("lm_eval", reason="needs the ifeval extra")
    if not PUBLISHED.is_file():
        pytest.skip("the published prompts are not beside this checkout")
    prompts = load_prompts(str(PUBLISHED))
    open_checkers().require(prompts)
    assert (len(prompts), sum(len(p.instruction_id_list) for p in prompts)) == (541, 834)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(ifeval_checkers, "find_spec", lambda name: None)
    open_checkers.cache_clear()
    with pytest.raises(InputError, match=r"lm_eval, nltk, langdetect, immutabledict: not installed.*livery\[ifeval\]"):
        open_checkers()


# ----------------------------------------------------------------------------------------- figures


def test_intervals_of_instructions_resample_prompts():
    """Forty prompts of five instructions, each followed wholly or not at all: as wide as forty draws, not two hundred."""
    names = ["punctuation:no_comma"] * 5
    results = [
        IfevalResult(key=i, instructions=names, strict=[i % 2 == 0] * 5, loose=[True] * 5, words=1, tokens=1)
        for i in range(40)
    ]
    found = figures(results)
    one = found.measures["instruction_strict"]
    whole = found.measures["prompt_strict"]
    assert (one.value, one.n) == (50.0, 200)
    assert (one.low, one.high) == (whole.low, whole.high)
    assert one.high - one.low > 25
    assert found.measures["prompt_loose"].low == 100.0


def test_types_lengths_and_truncation_are_counted():
    results = [
        IfevalResult(key=1, instructions=["a:x", "b:y"], strict=[True, False], loose=[True, True], words=10, tokens=20),
        IfevalResult(key=2, instructions=["a:x"], strict=[False], loose=[False], words=0, tokens=40, cut=True),
        IfevalResult(key=3, instructions=["a:z"], strict=[True], loose=[True], words=20, tokens=30),
    ]
    found = figures(results)
    assert [(t.name, t.strict.value, t.loose.value, t.strict.n) for t in found.types] == [
        ("a:x", 50.0, 50.0, 2),
        ("a:z", 100.0, 100.0, 1),
        ("b:y", 0.0, 100.0, 1),
    ]
    assert [(g.name, round(g.strict.value, 1), g.strict.n) for g in found.groups] == [("a", 66.7, 3), ("b", 0.0, 1)]
    assert (round(found.cut.value, 1), found.empty) == (33.3, 1)
    assert (found.costs["words_mean"], found.costs["tokens_p50"]) == (10.0, 30.0)
    with pytest.raises(InputError, match="found no checked response"):
        figures([])


# ----------------------------------------------------------------------------------------- prompts


def test_prompts_are_read_whole_or_every_fault_is_named(tmp_path):
    good = {"key": 1, "prompt": "a", "instruction_id_list": ["x:y"], "kwargs": [{"n": None, "m": 2}]}
    path = tmp_path / "prompts.jsonl"
    path.write_text(json.dumps(good) + "\n", encoding="utf-8")
    (one,) = load_prompts(str(path))
    bare = one.model_copy(update={"kwargs": ({"m": 2},)})
    assert prompts_digest([one]) == prompts_digest([bare])  # the hub's form holds every field
    assert prompts_digest([one]) != prompts_digest([one.model_copy(update={"prompt": "b"})])
    lines = [good, good, {**good, "key": "k"}, {**good, "key": 2, "kwargs": []}]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_prompts(str(path))
    assert [(p.line, p.field) for p in caught.value.problems] == [(2, "key"), (3, "key"), (4, "")]
    assert "1 instructions and 0 kwargs" in str(caught.value)
    with pytest.raises(InputError, match="no such file; expected IFEval"):
        load_prompts(str(tmp_path / "none.jsonl"))


# ------------------------------------------------------------------------------------------ asking


async def test_a_run_goes_on_where_it_was_after_a_torn_line(tmp_path):
    prompts = prompts_named("a", "b", "c")
    recipe = recipe_for(prompts)
    first = Fake({"a": "one", "b": PolicyUnavailable("gone"), "c": "three words here and more"})
    answered = await t4.answer(recipe, prompts, first, tmp_path / "run")
    assert (answered.open, [r.key for r in answered.responses]) == (1, [0, 2])
    assert [r.cut for r in answered.responses] == [False, True]
    with (tmp_path / "run" / t4.RESPONSES).open("a") as file:
        file.write('{"schema": "livery.ifeval-resp')
    second = Fake({"b": "two"})
    answered = await t4.answer(recipe, prompts, second, tmp_path / "run")
    assert second.asked == ["b"]
    assert ([r.response for r in answered.responses], answered.resumed) == (
        ["one", "two", "three words here and more"],
        2,
    )
    assert len(t4.read_responses(tmp_path / "run" / t4.RESPONSES)) == 3


async def test_another_recipe_in_the_same_folder_is_refused(tmp_path):
    prompts = prompts_named("a")
    await t4.answer(recipe_for(prompts), prompts, Fake({"a": "one"}), tmp_path)
    with pytest.raises(InputError) as caught:
        await t4.answer(recipe_for(prompts, max_tokens=9, weights="v"), prompts, Fake({}), tmp_path)
    assert [p.field for p in caught.value.problems] == ["weights", "max_tokens"]


async def test_a_prompt_beyond_the_context_is_the_models_failure_and_nobody_there_is_not(tmp_path):
    prompts = prompts_named("a", "b")
    chat = Fake({"a": PolicyOverflow("too long"), "b": "two"})
    answered = await t4.answer(recipe_for(prompts), prompts, chat, tmp_path / "one")
    assert [(r.response, r.overflow) for r in answered.responses] == [("", True), ("two", False)]
    many = prompts_named(*"abcdefgh")
    gone = Fake({p.prompt: PolicyUnavailable("no server") for p in many})
    with pytest.raises(PolicyUnavailable, match=r"5 requests in a row.*no server.*start again"):
        await t4.answer(recipe_for(many), many, gone, tmp_path / "two")


async def test_the_report_has_the_figures_and_the_recipe(tmp_path):
    prompts = prompts_named("a", "b")
    answered = await t4.answer(recipe_for(prompts), prompts, Fake({"a": "one", "b": "t, w"}), tmp_path)

    class NoComma(Checkers):
        def __init__(self):
            self.name = "made up 1"

        def check(self, prompt, response):
            return Checked(strict=("," not in response,), loose=(True,))

    results = t4.check(prompts, answered.responses, NoComma())
    report = t4.write_ifeval(tmp_path, results, figures(results), "made up 1")
    assert json.loads((tmp_path / t4.REPORT).read_text()) == report
    assert (report["prompt_strict"]["value"], report["prompt_loose"]["value"]) == (50.0, 100.0)
    assert (report["run"]["suite"], report["run"]["max_tokens"], report["tasks"], report["of"]) == ("t4", 5, 2, 2)


def test_reasoning_is_no_part_of_a_response():
    assert without_reasoning("<think>\nhm, so\n</think>\n\nYes. ") == "Yes. "
    assert without_reasoning("<think>\nhm, so") == ""
    assert without_reasoning(" plain\n") == " plain\n"


def test_only_policies_without_a_harness_are_taken():
    with pytest.raises(InputError, match="found 'scripted:host'; expected hf:FOLDER or openai:URL"):
        open_chat("scripted:host")
    ran = CliRunner().invoke(app, ["eval", "ifeval", "--out", "x", "--policy", "hf:", "--model", "y"])
    assert isinstance(ran.exception, InputError)
    assert "one of them" in str(ran.exception)


# ------------------------------------------------------------------------------------ a real model


async def test_hf_reads_the_models_own_template_and_is_greedy(tmp_path):
    pytest.importorskip("torch", reason="needs the training extra")
    sys.path.append(str(Path(__file__).parents[1] / "policies"))
    try:
        from policies_tiny_model import byte_tokenizer, tiny_llama
    finally:
        sys.path.pop()
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}<|im_start|>{{ m.role }}\nQ: {{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
    tiny_llama().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    chat = open_chat(f"hf:{tmp_path}?batch=2&ctx=256")
    assert (chat.uri[-14:], chat.at_a_time, len(chat.template)) == ("&temperature=0", 2, 16)
    try:
        prompts = prompts_named("one", "another", "one")
        recipe = recipe_for(prompts, max_tokens=12)
        answered = await t4.answer(recipe, prompts, chat, tmp_path / "run")
        policy = chat._policy
        from livery.evaluation.ifeval_chat import request_of

        ids = policy._prompt(request_of("one <|im_end|>", 12))
    finally:
        await chat.aclose()
    first, _, third = answered.responses
    assert (first.response, first.tokens) == (third.response, third.tokens)
    assert all(r.tokens == 12 if r.cut else 0 < r.tokens <= 12 for r in answered.responses)
    assert tokenizer.decode(ids).startswith("<|im_start|>user\nQ: one")
