"""Small requests that the policies' tests share. Not a test module."""

from livery.policies.policy import PolicyRequest, PromptMessage, ToolSurface

TOOLS = (
    ToolSurface(
        name="price_check",
        description="Final price of a link, with deals and coupons.",
        input_schema={
            "type": "object",
            "properties": {
                "link": {"type": "string", "maxLength": 4, "description": 'Link number, such as "3".'},
                "quantity": {"type": "integer", "minimum": 1, "maximum": 99},
            },
            "required": ["link"],
            "additionalProperties": False,
        },
    ),
    ToolSurface(
        name="load_skill",
        description="Read a skill before you follow it.",
        input_schema={
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 16}},
            "required": ["name"],
            "additionalProperties": False,
        },
    ),
)

MESSAGES = (
    PromptMessage(role="system", content="You are a shop host.\n\n## Skills\n- price-promo: Price questions."),
    PromptMessage(role="user", content="## Chat\nAnn: how much is link 3?"),
)


def request(messages=MESSAGES, **fields):
    defaults = {"tools": TOOLS, "max_tokens": 40, "timeout_s": 60.0, "session": "room", "seed": 7}
    return PolicyRequest(messages=messages, **{**defaults, **fields})
