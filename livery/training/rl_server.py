"""The policy that samples on a vLLM server: ids go there, ids and log-probabilities come back.

Speaks through TRL's client (``trl.generation.vllm_client``) to the server's ``/v1/completions`` with prompts as ids, so
that a conversation goes on by appending, as in this process. Every setting of the sampler is named in each request: a
server otherwise takes a model's own defaults, which often cut the distribution. Weights go to the server by TRL's
trainer, not by this.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol

from livery.errors import PolicyOverflow, PolicyTimeout, PolicyUnavailable
from livery.policies.hf_loading import ChatTokenizer
from livery.policies.policy import PolicyRequest, PromptMessage
from livery.policies.token_turns import prompt_ids, turn_of
from livery.types import PolicyTurn, Timing

WHOLE: Final[Mapping[str, Any]] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
}
"""The model's whole distribution, in the server's words."""


class Client(Protocol):
    """TRL's ``VLLMClient``, as far as it is used here."""

    base_url: str

    def generate(self, prompts: list[list[int]], **settings: Any) -> dict[str, Any]:
        """``completion_ids`` (prompts, ids) and ``logprobs`` (prompts, ids, 1)."""
        ...


class ServerPolicy:
    """See the module."""

    actions: Literal["text", "native"] = "text"

    def __init__(
        self,
        client: Client,
        tokenizer: ChatTokenizer,
        *,
        context: int,
        extra: Mapping[str, Any] | None = None,
        weights: str = "unnamed",
    ) -> None:
        """
        Args:
            context: most tokens of a conversation, the new turn included.
            extra: more fields for the request; must not touch the distribution.
            weights: the version that turns report.
        """
        self.uri = f"vllm:{client.base_url}"
        self.weights = weights
        self._client = client
        self._tokenizer = tokenizer
        self._context = context
        self._ends = sorted({*tokenizer.ends, tokenizer.start})
        self._extra = dict(extra or {})

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        prompt = prompt_ids(self._tokenizer, request)
        limit = min(request.max_tokens, self._context - len(prompt))
        if limit < 1:
            raise PolicyOverflow(f"the conversation has {len(prompt)} tokens, and the context is {self._context}")
        more: dict[str, Any] = {**self._extra, "stop_token_ids": self._ends, "skip_special_tokens": False}
        if request.seed is not None:
            # The loop gives one seed for a whole conversation: another one for each of its turns.
            more["seed"] = (request.seed * 1_000_003 + len(prompt)) % 2**63
        began = time.perf_counter()
        try:
            async with asyncio.timeout(request.timeout_s):
                got = await asyncio.to_thread(
                    self._client.generate,
                    [list(prompt)],
                    n=1,
                    max_tokens=limit,
                    logprobs=0,
                    generation_kwargs=more,
                    **WHOLE,
                )
        except TimeoutError:
            raise PolicyTimeout(f"{self.uri}: no turn within {request.timeout_s:.2f} s") from None
        except Exception as error:
            # TRL's client raises a bare Exception for whatever the server says.
            raise PolicyUnavailable(f"{self.uri}: {type(error).__name__}: {error}") from error
        ids, logprobs = self._read(got)
        return turn_of(
            self._tokenizer,
            request,
            prompt=prompt,
            ids=ids,
            logprobs=logprobs,
            cut=ids[-1] not in self._ends,
            timing=Timing(total_s=time.perf_counter() - began),
        )

    def _read(self, got: Mapping[str, Any]) -> tuple[list[int], list[float]]:
        [ids] = got["completion_ids"]
        found = got["logprobs"]
        if not found or len(found[0]) != len(ids) or not ids:
            raise PolicyUnavailable(
                f"{self.uri}: {len(ids)} ids with {len(found[0]) if found else 'no'} log-probabilities; expected one "
                "for each id"
            )
        logprobs = [entry[0] for entry in found[0]]
        if any(value is None for value in logprobs):
            raise PolicyUnavailable(f"{self.uri}: a log-probability that is not a number")
        return list(ids), logprobs

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None:
        """Nothing: the server keeps what requests share."""

    async def aclose(self) -> None:
        """Nothing: the client belongs to the trainer."""
