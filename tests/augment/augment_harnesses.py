"""A small harness of somebody else's making: no topics the lexicon knows, enums, rules, a Python hook, its own words."""

from __future__ import annotations

from livery.harness.model import (
    ArgumentMap,
    Binding,
    Harness,
    Hook,
    Limits,
    Rendering,
    Section,
    Skill,
    SkillFile,
    Tool,
)

GUARD = """
from livery.harness.hooks.decisions import Allow, Retry

CHECKPOINT = "tool_call"

def check(value, context):
    if value.name == "hold_item" and "wood" in value.arguments:
        return Retry("hold_item takes no wood")
    return Allow()
"""


def carpenter() -> Harness:
    """A carpenter's counter: a user's own harness."""
    return Harness(
        name="carpenter",
        sections=(
            Section(
                key="who", title="The workshop", template="You stand at a carpenter's counter. Never promise a date."
            ),
            Section(
                key="ways",
                title="Ways",
                template="- Load `bench-prices` for prices, or `oak_and_ash` for wood.\n- Do not guess.\n- Call lookup_piece first.",
            ),
            Section(key="list", template="{{ skills_catalogue }}\n{{ tools }}\n{{ call_format }}"),
            Section(key="talk", volatility="request", template="{{ chat }}"),
        ),
        skills=(
            Skill(
                key="prices",
                name="bench-prices",
                description="What a piece costs.",
                kind="reply",
                body="# Prices\n\n1. Call `lookup_piece`.\n2. Say the price.\n3. Ask for the wood.\n4. Never round it.\n\nThen wait.",
                metadata={"livery-topics": "price"},
            ),
            Skill(
                key="wood",
                name="oak_and_ash",
                description="Which wood suits; see bench-prices for cost.",
                kind="reply",
                body="- Oak is hard.\n- Ash bends.\n- Read references/woods.md.",
                metadata={"livery-topics": "timber"},
                files=(SkillFile(path="references/woods.md", content="Use `bench-prices` too.\n"),),
            ),
        ),
        tools=(
            Tool(
                key="look",
                name="lookup_piece",
                description="A piece by number. `number` is on the tag.",
                input_schema={
                    "type": "object",
                    "properties": {"number": {"type": "string"}, "extra": {"type": "boolean"}},
                    "required": ["number"],
                    "additionalProperties": False,
                },
                binding=Binding(
                    operation="pricing.quote",
                    arguments=(
                        ArgumentMap(to="link_id", source="number", convert="digits"),
                        ArgumentMap(to="member", source="extra"),
                    ),
                ),
            ),
            Tool(
                key="hold",
                name="hold_item",
                description="Stock of a piece by grade.",
                input_schema={
                    "type": "object",
                    "properties": {
                        "link_id": {"type": "string"},
                        "grade": {"type": "string", "enum": ["rough", "fine"]},
                    },
                    "required": ["link_id"],
                    "additionalProperties": False,
                },
                binding=Binding(
                    operation="stock.check",
                    arguments=(ArgumentMap(to="variant", source="grade", labels={"rough": "R", "fine": "F"}),),
                ),
            ),
            Tool(
                key="ask",
                name="ask_owner",
                description="Call the owner.",
                input_schema={
                    "type": "object",
                    "properties": {"reason": {"type": "string"}},
                    "required": ["reason"],
                },
                binding=Binding(operation="room.hand_off"),
            ),
        ),
        hooks=(
            Hook(key="guard", checkpoint="tool_call", kind="python", source=GUARD, on_failure="allow"),
            Hook(
                key="first",
                checkpoint="reply",
                kind="rules",
                on_failure="allow",
                params={
                    "rules": [
                        {
                            "when": {"contains": "date", "not_loaded": ["oak_and_ash"]},
                            "then": "retry",
                            "message": "Load oak_and_ash, then call lookup_piece.",
                        }
                    ]
                },
            ),
            Hook(key="form", checkpoint="reply", kind="builtin", source="speech_format", on_failure="block"),
        ),
        rendering=Rendering(tools="signature"),
        limits=Limits(rounds=4, retries=1),
    )
