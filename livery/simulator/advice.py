"""Sizes that a reply puts forward, and ranges that it tells: all of it, or less than there is.

"S, not M" puts forward one size; "M or L" puts forward both, and is wrong where only one of them fits. A range told by
one of its ends ("two days" of two to five) promises more than the rule does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from livery.harness.quantities import Quantity, matches
from livery.simulator import cues
from livery.simulator.evidence import Evidence
from livery.simulator.reading import Claim, Reply

_ARTICLES = ("一码", "大一码", "小一码", "一号")


def range_faults(reply: Reply, evidence: Evidence) -> list[str]:
    """A range told by one end only is narrower than it is."""
    ranges = [f for k in evidence.known for f in k.facts if f.quantity.kind == "duration" and (f.low_end or f.high_end)]
    gold = {f.quantity.value for f in evidence.gold_known if f.quantity.kind == "duration"}
    if not ranges and len(gold) < 2:
        return []
    faults: list[str] = []
    lows = [f.quantity for f in ranges if f.low_end]
    highs = [f.quantity for f in ranges if f.high_end]
    whole = [
        f for f in evidence.pool("duration") if f.gold < 0 and not (f.low_end or f.high_end)
    ]  # known by itself as well
    claims = [c for c in reply.claims if c.quantity.kind == "duration"]
    for claim in claims:
        q = claim.quantity
        if any(matches(q, f.quantity) for f in whole):
            continue
        together = [c.quantity for c in claims if c.written[1] == claim.written[1]]
        before, after = reply.low[max(0, q.start - 24) : q.start], reply.low[q.end : q.end + 16]
        is_low = any(matches(q, x) for x in lows) and not any(matches(t, x) for t in together for x in highs)
        is_high = any(matches(q, x) for x in highs) and not any(matches(t, x) for t in together for x in lows)
        if is_low and not cues.LOWER_END.search(before):
            faults.append(f"accuracy: {q.text.strip()!r} is only the lower end of a range")
        elif is_high and not (cues.UPPER_END.search(before) or cues.UPPER_END_AFTER.match(after)):
            faults.append(f"accuracy: {q.text.strip()!r} is only the upper end of a range")
    return faults


def advises(claim: Claim) -> bool:
    """Whether a size is put forward, rather than denied, asked back, or named as what is or is not in stock."""
    if claim.denied or claim.quantity.text in _ARTICLES or cues.SIZE_ADVICE_SKIP.search(claim.quantity.text):
        return False
    return not claim.question


def sizes_told(claims: Iterable[Claim], reply: Reply, evidence: Evidence) -> tuple[list[str], set[int]]:
    """Faults among sizes put forward, and the gold facts that they state (none where one of them is wrong)."""
    faults: list[str] = []
    gold = [f for f in evidence.gold_known if f.quantity.kind == "size"]
    advice = [k for k in evidence.known if '"result":' in k.text and '"results":' not in k.text]
    right = {_size(f.quantity) for f in gold} | {
        _size(f.quantity) for k in advice for f in k.facts if f.quantity.kind == "size" and not f.clause
    }
    wrong = False
    mentioned: set[int] = set()
    told = tuple(claims)
    for claim in told:
        said = _size(claim.quantity)
        if gold or advice:
            if cues.GONE.search(claim.clause) or cues.THERE.search(claim.clause):
                if said not in right and not _size_known(said, evidence):
                    faults.append(f"accuracy: nothing is known of size {claim.quantity.text!r}")
                # A size that is there, or gone, is no advice; nor is the right one in a list of what is there.
                listed = {_size(c.quantity) for c in told if c.clause == claim.clause}
                if not gold or said not in right or listed - {_size(f.quantity) for f in gold}:
                    continue
            if said in right:
                mentioned |= {f.gold for f in gold if _size(f.quantity) == said}
            else:
                wrong = True
                faults.append(f"accuracy: size {claim.quantity.text!r} is not what the chart says")
        elif said not in right and not _size_known(said, evidence) and claim.quantity.text.lower() not in evidence.text:
            faults.append(f"accuracy: nothing is known of size {claim.quantity.text!r}")
    if len(right) > 1 and len(mentioned) == 1 and cues.ONLY.search(reply.low):
        faults.append("accuracy: more than one size fits")
    return faults, set() if wrong else mentioned


def _size(q: Quantity) -> str:
    text = str(q.value).upper().replace(" ", "")
    m = re.fullmatch(r"(\d)X([SL])", text)
    return "X" * int(m.group(1)) + m.group(2) if m else text


def _size_known(said: str, evidence: Evidence) -> bool:
    if any(_size(f.quantity) == said for f in evidence.pool("size")):
        return True
    forms = {said.lower(), re.sub(r"^(X{2,})(?=[SL]$)", lambda m: f"{len(m.group())}x", said).lower()}
    texts = (evidence.text, evidence.said_by_viewer)
    return any(re.search(rf"(?<![a-z0-9]){re.escape(f)}(?![a-z0-9])", t) for f in forms for t in texts)
