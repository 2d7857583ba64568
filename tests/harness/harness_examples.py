"""A small harness as files, which the tests of loading, digests, lint, diff and the CLI bend."""

from __future__ import annotations

from pathlib import Path

FILES: dict[str, str] = {
    "harness.yaml": """\
name: corner-shop
description: A small host.
language: en
prompt: [persona, tools, chat]
skills: [item-qa, flash-sale]
limits:
  rounds: 4
  deadline_s: 8
""",
    "prompt/persona.md": """\
---
title: Who you are
---

You host a live shop. Skills:
{{ skills_catalogue }}
""",
    "prompt/tools.md": "---\ntitle: Tools\n---\n\n{{ tools }}\n{{ call_format }}\n",
    "prompt/chat.md": "---\nvolatility: request\n---\n\n{{ chat }}\n",
    "skills/item-qa/SKILL.md": """\
---
name: item-qa
description: Answer a viewer's question about one item, such as its price or material.
metadata:
  livery-kind: reply
  author: shop team
---

# Item question

Call `get_item`, then answer in one sentence. See references/tone.md.
""",
    "skills/item-qa/references/tone.md": "Warm and short.\n",
    "skills/flash-sale/SKILL.md": """\
---
name: flash-sale
description: Push an item whose promotion ends within ten minutes.
---

Load `item-qa` first.
""",
    "tools/get_item.yaml": """\
name: get_item
description: Facts of one item.
inputSchema:
  type: object
  properties:
    number:
      type: string
      description: Link number.
    view: {type: string, enum: [short, full]}
  required: [number]
annotations:
  readOnlyHint: true
binding:
  operation: catalog.get_product
  arguments:
    link_id: {source: number, convert: digits}
    detail: {source: view, labels: {short: 0, full: 1}}
result:
  style: key_value
  rename: {price_minor: price}
""",
    "hooks/no-links.yaml": """\
checkpoint: reply
on_failure: block
rules:
  - when: {contains_any: ["http://", "https://"]}
    then: retry
    message: Say it without a link.
""",
    "hooks/shout.py": '''\
"""No shouting."""

CHECKPOINT = "reply"
ON_FAILURE = "allow"
TIMEOUT_S = 0.2

raise RuntimeError("a loader must not run this")


def check(value, context):
    return None
''',
}

OPERATIONS = {
    "catalog.get_product": {
        "type": "object",
        "properties": {
            "link_id": {"type": "string"},
            "detail": {"type": "integer", "enum": [0, 1]},
        },
        "required": ["link_id"],
    },
    "catalog.search": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"],
    },
}


def write_example(root: Path, changes: dict[str, str | None] | None = None) -> Path:
    """The example under ``root/shop``, with files replaced, added or (None) left out."""
    folder = root / "shop"
    for name, text in {**FILES, **(changes or {})}.items():
        if text is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
    return folder
