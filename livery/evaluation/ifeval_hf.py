"""The batched transformers policy, reading a conversation through the model's own chat template.

Only for plain chats: a conversation is rendered anew each turn, and a template may change what stands before. Needs
torch; imported only where ``hf:`` is asked for.
"""

from __future__ import annotations

from typing import Any

from livery.policies.hf import HfPolicy
from livery.policies.policy import PolicyRequest
from livery.types import PolicyTurn


class TemplatedHf(HfPolicy):
    """See the module."""

    @property
    def own_template(self) -> str:
        """The tokenizer's template; empty: it has none, and prompts are ChatML."""
        template: Any = getattr(self._tokenizer.tokenizer, "chat_template", None)
        return template if isinstance(template, str) else ""

    def written(self, turn: PolicyTurn) -> str:
        """A turn's text as it was sampled, reasoning and spaces included."""
        assert turn.tokens is not None
        return self._tokenizer.decode(turn.tokens.output_ids)

    def _prompt(self, request: PolicyRequest) -> tuple[int, ...]:
        if not self.own_template:
            return super()._prompt(request)
        tokenizer: Any = self._tokenizer.tokenizer
        messages = [{"role": m.role, "content": m.content} for m in request.messages]
        text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
