"""Dimension "hook behaviour": how checks speak to the policy, and what they announce and then ask for.

A policy can no longer recover by the look of a message, or reply by the habit of a length. Hooks keep what they
check; a new demand (a length, an opening, a close) is announced in the prompt and is never narrower than the base
where that could cost an answer. Replies of the degraded route are held to no opening or close they know nothing of.
"""

from __future__ import annotations

from random import Random
from typing import Any

from livery.augment.lexicon import Lexicon
from livery.augment.naming import changed
from livery.augment.operators import Edit, operator
from livery.augment.prompt_structure import plain
from livery.augment.wording import joiner
from livery.harness.model import Harness, Hook, Section, Tool


def _feedback(harness: Harness, **fields: str) -> Harness:
    return harness.replace(feedback={**harness.feedback.model_dump(), **fields})


@operator(
    "hook_behaviour.feedback_wording",
    stage=30,
    group="feedback-template",
    removes="feedback opens with known words",
)
def feedback_wording(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    return Edit(_feedback(harness, template=lexicon.choose(rng, "feedback")))


@operator(
    "hook_behaviour.feedback_language",
    stage=30,
    group="feedback-template",
    removes="feedback is in the language of the replies",
)
def feedback_language(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """The frame and the built-in hooks' own messages in the other language; details come through unchanged."""
    other = lexicon.other
    hooks = [
        changed(h, feedback=other.choose(rng, "hook_messages", h.source))
        if h.kind == "builtin" and not h.feedback and other.entries("hook_messages", h.source)
        else h
        for h in harness.hooks
    ]
    reply_in = lexicon.choose(rng, "reply_language")
    frame = other.choose(rng, "feedback")
    made = _feedback(harness, template=f"{frame} {reply_in}").replace(hooks=tuple(hooks))
    return Edit(made, {"language": other.language})


@operator(
    "hook_behaviour.feedback_format",
    stage=32,
    group="feedback-form",
    removes="feedback is a sentence",
)
def feedback_format(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    form = lexicon.choose(rng, "feedback_forms")
    return Edit(_feedback(harness, template=form), {"form": form})


@operator(
    "hook_behaviour.channel",
    stage=30,
    group="feedback-channel",
    removes="feedback comes as a user's turn",
)
def channel(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    ways = [c for c in ("tool", "user", "system") if c != harness.feedback.channel]
    way = rng.choice(ways)
    return Edit(_feedback(harness, channel=way), {"channel": way})


@operator(
    "hook_behaviour.order",
    stage=46,
    group="hook-order",
    removes="the first message names the first fault",
)
def order(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Neighbouring checks of one checkpoint see the same value, so they may run, and speak, in any order."""
    hooks = list(harness.hooks)
    for point in dict.fromkeys(h.checkpoint for h in hooks):
        places = [i for i, h in enumerate(hooks) if h.checkpoint == point]
        run: list[int] = []
        for i in [*places, -1]:
            if i >= 0 and hooks[i].mode == "check":
                run.append(i)
                continue
            mixed = [hooks[j] for j in run]
            rng.shuffle(mixed)
            for j, hook in zip(run, mixed, strict=True):
                hooks[j] = hook
            run = []
    if tuple(hooks) == harness.hooks:
        return None
    return Edit(harness.replace(hooks=tuple(hooks)), {"order": [h.key for h in hooks]})


# ----------------------------------------------------------------------------- what the prompt announces


def _speech(harness: Harness) -> Hook | None:
    return next((h for h in harness.hooks if h.kind == "builtin" and h.source == "speech_format"), None)


def _spoken(harness: Harness, **params: Any) -> Harness:
    hooks = tuple(
        changed(h, params={**h.params, **params}) if h.kind == "builtin" and h.source == "speech_format" else h
        for h in harness.hooks
    )
    return harness.replace(hooks=hooks)


def announced(harness: Harness, sentence: str) -> Harness:
    """The sentence at the end of the plain release section that fits best, the one about speech where there is one."""
    release = [s for s in harness.sections if s.volatility == "release"]
    if not release:
        section = Section(key="announced", template=sentence)
        return harness.replace(sections=(section, *harness.sections))
    about = [s for s in release if "limits.reply_chars" in s.template] or [s for s in release if plain(s)] or release
    target = about[-1]
    space = "\n" if "\n" in target.template.strip() else joiner(sentence)
    one = changed(target, template=f"{target.template.rstrip()}{space}{sentence}")
    return harness.replace(sections=tuple(one if s.key == one.key else s for s in harness.sections))


@operator(
    "hook_behaviour.reply_length",
    stage=70,
    group="reply-length",
    removes="replies have one length",
)
def reply_length(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Another limit on the reply's characters, never under the base's, announced where the base's was."""
    hook = _speech(harness)
    before = harness.limits.reply_chars
    most = int(before * rng.choice((1.1, 1.25, 1.5, 1.75)) // 10 * 10)
    if most <= before:
        return None
    harness_ = harness.replace(limits={**harness.limits.model_dump(), "reply_chars": most})
    if hook is not None and hook.params.get("max_chars"):
        harness_ = _spoken(harness_, max_chars=max(most, int(hook.params["max_chars"])))
    if not any("limits.reply_chars" in s.template for s in harness.sections):
        harness_ = announced(harness_, lexicon.choose(rng, "length_announced").format(n=most))
    return Edit(harness_, {"reply_chars": most})


def _with_phrase(harness: Harness, rng: Random, lexicon: Lexicon, where: str) -> Edit | None:
    hook = _speech(harness)
    if hook is None or hook.params.get(where):
        return None
    words = lexicon.choose(rng, f"{where}_phrases")
    params: dict[str, Any] = {where: words}
    longer = len(words) + 2
    if hook.params.get("max_chars"):
        params["max_chars"] = int(hook.params["max_chars"]) + longer
    if hook.params.get("max_sentences"):
        params["max_sentences"] = int(hook.params["max_sentences"]) + 1
    if hook.params.get("max_words"):
        params["max_words"] = int(hook.params["max_words"]) + len(words)
    limits = {**harness.limits.model_dump(), "reply_chars": harness.limits.reply_chars + longer}
    made = _spoken(harness, **params).replace(limits=limits)
    sentence = lexicon.choose(rng, f"{where}_announced").format(words=words)
    return Edit(announced(made, sentence), {where: words})


@operator(
    "hook_behaviour.prefix",
    stage=72,
    group="reply-prefix",
    removes="a reply opens as it likes",
)
def prefix(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Every reply must open with given words; the limits grow by as much."""
    return _with_phrase(harness, rng, lexicon, "prefix")


@operator(
    "hook_behaviour.sign_off",
    stage=73,
    group="reply-sign-off",
    held_out=True,
    removes="a reply ends as it likes",
)
def sign_off(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Every reply must end with given words; the limits grow by as much."""
    return _with_phrase(harness, rng, lexicon, "sign_off")


@operator(
    "hook_behaviour.retries",
    stage=40,
    group="retries",
    removes="how often a reply may be put right is known",
)
def retries(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """More retries, and as many more rounds, so that nothing that worked runs out of either."""
    more = rng.randint(1, 2)
    limits = harness.limits
    hooks = tuple(
        changed(h, params={**h.params, "attempts": int(h.params.get("attempts", 2)) + more})
        if h.kind == "builtin" and h.source == "retry_control"
        else h
        for h in harness.hooks
    )
    bigger = {**limits.model_dump(), "retries": limits.retries + more, "rounds": limits.rounds + more}
    return Edit(harness.replace(limits=bigger, hooks=hooks), {"retries": limits.retries + more})


@operator(
    "hook_behaviour.error_codes",
    stage=30,
    group="error-codes",
    removes="a tool's failure is known by its code",
)
def error_codes(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Kinds of failure by other codes: numbers, words or both. The message stays."""
    form = lexicon.choose(rng, "error_forms")
    first = rng.choice((10, 40, 100, 400, 500))
    kinds = list(lexicon.keys("error_words"))
    rng.shuffle(kinds)
    codes = {
        kind: form.format(n=first + n, kind=kind, word=lexicon.choose(rng, "error_words", kind))
        for n, kind in enumerate(kinds)
    }
    if len(set(codes.values())) < len(codes):
        return None

    def coded(tool: Tool) -> Tool:
        return changed(tool, result=changed(tool.result, errors=codes))

    return Edit(harness.replace(tools=tuple(coded(t) for t in harness.tools)), {"form": form})


@operator(
    "hook_behaviour.hook_codes",
    stage=34,
    group="hook-codes",
    held_out=True,
    removes="each check has words of its own",
)
def hook_codes(harness: Harness, rng: Random, lexicon: Lexicon) -> Edit | None:
    """Each check's message comes with a code of that check."""
    form = lexicon.choose(rng, "hook_code_forms")
    first = rng.choice((1, 11, 101))
    hooks: list[Hook] = []
    for n, hook in enumerate(harness.hooks, first):
        own = hook.feedback or "{{ reason }}"
        coded = form.replace("CODE", f"{n:02d}").replace("REASON", own)
        hooks.append(changed(hook, feedback=coded) if hook.checkpoint in ("reply", "tool_call") else hook)
    return Edit(harness.replace(hooks=tuple(hooks)), {"form": form, "first": first})
