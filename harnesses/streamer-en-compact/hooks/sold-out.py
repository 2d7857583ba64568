"""Do not urge viewers to buy what is sold out.

A reply that calls for an order while this request's own look-up says the item cannot be bought is sent back.
"""

import re

from livery.harness.hooks.decisions import Allow, Retry

CHECKPOINT = "reply"
MODE = "check"
ON_FAILURE = "allow"
TIMEOUT_S = 0.2

URGES = re.compile(
    r"\b(?:order now|buy (?:it )?now|grab (?:it|one|yours)|add (?:it )?to (?:your )?(?:cart|basket)|get yours)\b", re.I
)
GONE = {"sold out", "no longer sold", "not on sale yet"}


def check(value, context):
    if not URGES.search(value):
        return Allow()
    for result in reversed(context.results):
        found = result.value if result.ok and isinstance(result.value, dict) else {}
        if found.get("status") in GONE:
            return Retry(f"{found.get('name', 'The item')} is {found['status']}: say so, and do not call for an order.")
    return Allow()
