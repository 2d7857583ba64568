"""The verifier: what one trajectory earns on its task, by rules alone. docs/verifier.md shows it by example.

Accuracy asks whether anything said is wrong, unsupported, promised without ground or forbidden; effectiveness whether
what was asked is answered; the other two how it came about (`livery.simulator.tool_use`). Gold and the real results of
the task's operations decide; hedges do not ("about $72, I think" is as wrong as "$72"). What it cannot see: praise
without figures ("sturdy"), and a rule's condition told the wrong way round without a word of denial.
"""

from __future__ import annotations

import re
from typing import Literal, cast

from livery.harness.model import Harness
from livery.harness.quantities import FACTUAL, matches, read_quantities
from livery.shop.catalogue import Catalogue
from livery.simulator import cues, manner, relevance, statements
from livery.simulator.assertions import (
    CHEAPEST,
    STOCK,
    comparison_faults,
    forbidden_faults,
    free_holds,
    only_shipping,
    returns_unknown,
    stance_of,
    statement_faults,
    stock_said,
    truth_of,
)
from livery.simulator.evidence import Evidence, evidence_of
from livery.simulator.judging import Verdict, judge_figures
from livery.simulator.reading import Reply, read_reply
from livery.simulator.reply_form import Form
from livery.simulator.task import Asked, GoldFact, Intent, Scores, Task
from livery.simulator.tool_use import skill_selection, tool_rationality
from livery.simulator.worlds import world_of
from livery.types import Route, Trajectory

ASIDE = 3.0
"""Weight of true facts nobody asked for that a reply may hold: 1 of another item, 0.5 of the same."""
_STATUSES: dict[str, statements.Status] = {
    "sold out": "sold_out", "已售罄": "sold_out", "no longer sold": "discontinued", "已下架": "discontinued",
    "not on sale yet": "upcoming", "未开售": "upcoming",
}  # fmt: skip
_NUMBERED = re.compile(r"link|item|number|#|号")
_SMALL = relevance.SOCIAL - {Intent.COMPLAINT}


def verify(task: Task, trajectory: Trajectory, harness: Harness, *, catalogue: Catalogue | None = None) -> Scores:
    """Score a trajectory.

    Args:
        harness: what it ran under; skills are known by key, their topics by ``metadata.livery-topics``.
        catalogue: the task's world, where the caller has it; else it is rebuilt from ``task.world`` (and remembered).

    Returns:
        The four scores and one reason for each loss.
    """
    shop = catalogue if catalogue is not None else world_of(task.world).catalogue
    evidence = evidence_of(task, trajectory, harness, shop)
    text = "" if trajectory.route is Route.SILENT else Form.of(harness).undressed(trajectory.reply)
    reply = read_reply(text, task.world.language, evidence.lexicon, evidence.asked)
    chat = bool(task.asked) and all(a.intent in _SMALL and not a.facts for a in task.asked)
    verdict = judge_figures(reply, evidence, chat=chat)
    faults = [*verdict.faults, *statement_faults(task, reply, evidence), *forbidden_faults(task, reply, evidence)]
    faults += manner.quality_faults(reply, task, evidence)
    if manner.contradicts(reply, task, stock_said(reply, evidence)):
        faults.append("accuracy: it says yes and no")
    own = manner.without_echo(reply, task)
    answer = reply if own == text else read_reply(own, task.world.language, evidence.lexicon, evidence.asked)
    effective, missing = _effectiveness(task, trajectory, answer, evidence, verdict)
    if effective and text:
        most, why = _manner(task, trajectory, harness, reply)
        effective, missing = min(effective, most), [*missing, *why]
    rational, tool_reasons = tool_rationality(task, trajectory)
    skilled, skill_reasons = skill_selection(task, trajectory, harness)
    return Scores(
        accuracy=0 if faults else 1,
        effectiveness=effective,
        tool_rationality=rational,
        skill_selection=cast(Literal[0, 1], skilled),
        reasons=tuple(dict.fromkeys((*faults, *missing, *tool_reasons, *skill_reasons))),
    )


# ------------------------------------------------------------------------------------- effectiveness


def _effectiveness(
    task: Task, trajectory: Trajectory, reply: Reply, evidence: Evidence, verdict: Verdict
) -> tuple[float, list[str]]:
    """0, 0.5 or 1, and what is missing."""
    handed = trajectory.route is Route.HANDOFF or any(e.kind == "hand_off" for e in trajectory.effects) or any(
        r.operation == "room.hand_off" and r.ok for r in trajectory.results
    )  # fmt: skip
    if not reply.low.strip():
        if task.may_be_silent or (handed and task.hand_off):
            return 1, []
        return 0, ["effectiveness: nothing was said"]
    honest = bool(handed or cues.HONEST.search(reply.low) or cues.HANDS_OFF.search(reply.low))
    reasons: list[str] = []
    marks: list[float] = []
    index = 0
    chat = all(_is_chat(a) for a in task.asked)
    alone = len(task.asked) == 1 and len([f for f in evidence.gold if f.required]) == 1
    for asked in task.asked:
        if _is_chat(asked) and not chat:
            index += len(asked.facts)
            continue  # beside a question of the shop, the question decides
        mark, missing = _met(asked, index, task, reply, evidence, verdict, alone=alone)
        index += len(asked.facts)
        if asked.cannot_check:
            mark, missing = (1.0, []) if honest else (0.0, ["effectiveness: it had to say that it cannot check"])
        marks.append(mark)
        reasons += missing
    score = 1.0 if all(m == 1 for m in marks) else 0.0 if not any(marks) else 0.5
    if task.hand_off and not handed:
        reasons.append("effectiveness: a person was to be called")
        score = min(score, 0.5)
    if verdict.aside > ASIDE and score:
        reasons.append("effectiveness: it is buried under facts nobody asked for")
        score = 0.5 if score == 1 and verdict.aside <= 4 * ASIDE else 0.0
    return score, reasons


def _is_chat(asked: Asked) -> bool:
    """Whether it asks nothing of the shop, so that only a fitting reply can meet it."""
    open_ = asked.ask_back or asked.cannot_check
    return asked.intent in relevance.SOCIAL and not open_ and not any(f.required for f in asked.facts)


def _manner(task: Task, trajectory: Trajectory, harness: Harness, reply: Reply) -> tuple[float, list[str]]:
    """The most that a reply can be worth by how it answers."""
    if manner.foreign(reply, task):
        return 0.0, ["effectiveness: it is in another language"]
    handed = any(r.operation == "room.hand_off" and r.ok for r in trajectory.results)
    handed = handed or trajectory.route is Route.HANDOFF
    reasons = [
        f"effectiveness: {why}"
        for why, found in (
            ("it puts off what it could answer", manner.defers(reply, task, handed=handed)),
            ("it asks for more than is open", manner.asks_everything(reply, task)),
            ("it only asks", manner.only_asks(reply, task)),
            ("it says the same twice", manner.repeats_itself(reply)),
            ("it reads out data or instructions", manner.reads_out(reply, trajectory, harness)),
        )
        if found
    ]
    return (0.5 if reasons else 1.0), reasons


def _met(
    asked: Asked, first: int, task: Task, reply: Reply, evidence: Evidence, verdict: Verdict, *, alone: bool
) -> tuple[float, list[str]]:
    if asked.ask_back:
        about = "size" if asked.intent is Intent.SIZE else "shipping" if asked.intent is Intent.SHIPPING else "other"
        fits = cues.ASKED_FOR[about].search(reply.low)
        if len(asked.items) != 1:  # which item is meant is open as well
            fits = (
                fits
                or cues.ASKED_FOR["other"].search(reply.low)
                or any(m.links & set(asked.items) for m in reply.mentions)
            )
        if cues.ASKS.search(reply.low) and fits:
            return 1.0, []
        return 0.0, [f"effectiveness: it had to ask back ({about})"]
    required = [(first + i, f) for i, f in enumerate(asked.facts) if f.required]
    if not required:
        mark = relevance.met(asked.intent, reply, task) if asked.intent in relevance.SOCIAL else 1.0
        said = "" if mark == 1 else "it is not clear that" if mark else "nothing shows that"
        return mark, [f"effectiveness: {said} it answers the {asked.intent.replace('_', ' ')}"] if said else []
    told = {i for i, f in required if _is_stated(i, f, task, reply, evidence, verdict, alone=alone)}
    ranges = {(f.key, f.item) for i, f in required if f.kind == "duration" and i not in told}
    stated = [i for i, f in required if i in told and (f.kind != "duration" or (f.key, f.item) not in ranges)]
    if len(stated) == len(required):
        return 1.0, []
    missing = [f"effectiveness: {f.key} is not told" for i, f in required if i not in stated]
    extra = any(first + i in verdict.stated for i, f in enumerate(asked.facts) if not f.required and f.kind == "money")
    compared = asked.intent is Intent.COMPARISON and extra and not comparison_faults(reply, evidence)
    return (0.5, missing) if stated or (compared and not verdict.faults) else (0.0, missing)


def _of_another(fact: GoldFact, reply: Reply) -> bool:
    """Whether the reply speaks by number of other items only. Names are not asked: an answer may hold any noun."""
    numbered = [m.links for m in reply.mentions if _NUMBERED.search(reply.low[m.start : m.end])]
    return bool(fact.item and numbered) and not any(fact.item in m.links for m in reply.mentions)


def _figures_told(text: str, reply: Reply, verdict: Verdict) -> bool:
    """Whether all figures of a text with figures are in the reply."""
    figures = [q for q in read_quantities(text) if q.kind in FACTUAL and q.kind not in ("number", "size")]
    return (
        bool(figures) and not verdict.faults and all(any(matches(c.quantity, q) for c in reply.claims) for q in figures)
    )


def _is_stated(
    index: int, fact: GoldFact, task: Task, reply: Reply, evidence: Evidence, verdict: Verdict, *, alone: bool
) -> bool:
    if index in verdict.stated:
        return True
    if fact.kind == "money" and fact.value == 0:
        free = [s for s in statements.free_statements(reply, shipping=only_shipping(task)) if s.shipping]
        return bool(free) and all(free_holds(s, evidence) for s in free)
    if fact.kind in ("yes_no", "text") and _of_another(fact, reply):
        return False
    if fact.kind == "yes_no":
        stance = stance_of(fact, task, reply, evidence, alone=alone)
        if (
            fact.key in STOCK
            and returns_unknown(reply, evidence)
            and "discontinued" in evidence.statuses(fact.item, "")
        ):
            return False
        if stance is None and fact.key in STOCK:
            optional = [i for i, f in enumerate(evidence.gold) if f.item == fact.item and f.kind in ("date", "count")]
            return any(i in verdict.stated for i in optional)
        return stance is truth_of(fact)
    if fact.kind != "text":
        return False
    if fact.key == "status":
        said = stock_said(reply, evidence)
        about = [s for s in said if not s.items or not fact.item or fact.item in s.items]
        if said and not about:
            return False  # of another item
        status = _STATUSES.get(str(fact.value))
        return any(s.status == status for s in about) or statements.worded(reply, fact.wordings)
    if fact.key == "promotion":
        near = [i for i, f in enumerate(evidence.gold) if not f.required and f.kind in ("percent", "money")]
        if any(i in verdict.stated for i in near):
            return True
    if fact.key.rsplit(".", 1)[-1] in CHEAPEST:
        for said in statements.comparisons(reply, evidence.asked):
            if said.aspect == "price" and fact.item in said.less:
                return True
        return not comparison_faults(reply, evidence) and (
            fact.item in statements.picks(reply, evidence.asked) or statements.worded(reply, fact.wordings)
        )
    if statements.worded(reply, (str(fact.value), *fact.wordings)) or _figures_told(str(fact.value), reply, verdict):
        return True
    return statements.covered(reply, str(fact.value)) >= 0.6
