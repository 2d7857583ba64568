"""Any server that speaks the OpenAI chat protocol: llama.cpp, vLLM, SGLang, Ollama, a hosted API.

Always streamed, so that a turn that is cut off by time stops being paid for. ``native`` actions use the
server's function calling; ``text`` actions put the tools in the prompt and read calls from the text, bound by
a grammar where the server takes one. A whole call is tried again after a lost connection, 408, 409, 429 or
5xx: nothing of a broken stream has been used. Waits are full jitter (Brooker, "Exponential Backoff And
Jitter", AWS 2015) or what ``Retry-After`` says, and never outlast the request's own time. Token ids do not
travel this protocol, so turns carry no `TokenTrace`.

The API key comes from an environment variable and stands in no URI, log or error.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from random import Random
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import openai

from livery.errors import PolicyMalformed, PolicyOverflow, PolicyTimeout, PolicyUnavailable
from livery.policies import wire
from livery.policies.grammar import grammar
from livery.policies.policy import PolicyRequest, PromptMessage, ToolSurface
from livery.types import PolicyTurn, Timing, ToolCall, Usage

# The SDK's transport is httpx up to version 2 and httpx2 from 3 on; a broken stream raises its own errors.
_transport = next(
    kind.__module__.partition(".")[0]
    for kind in openai.DefaultAsyncHttpxClient.__mro__
    if kind.__module__.startswith("httpx")
)
_TransportError: type[Exception] = sys.modules[_transport].HTTPError

_RETRIED = {408, 409, 425, 429}
_REFUSED = {400, 413, 422}
_OVERFLOW_CODES = {"context_length_exceeded", "exceed_context_size_error"}
"""OpenAI's code, llama.cpp's type. vLLM and SGLang name the context in the message only."""
_OVERFLOW_WORDS = re.compile(
    r"(?=.*\b(context (length|size|window)|model length|max_model_len))"
    r"(?=.*\b(exceed|longer|maximum|only|too (long|large)))",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    base_url: str
    """Up to and with the version: ``http://127.0.0.1:8080/v1``."""
    model: str = ""
    """Empty: the first that the server lists."""
    actions: Literal["text", "native"] = "native"
    grammar: Literal["none", "llamacpp", "structured"] = "none"
    """How the server takes a GBNF grammar with text actions: llama.cpp's ``grammar`` field, vLLM's
    ``structured_outputs``, or not at all."""
    temperature: float = 0.2
    key_env: str = "OPENAI_API_KEY"
    connect_s: float = 3.0
    read_s: float = 15.0
    """Longest silence of the server, prefill included."""
    retries: int = 2
    backoff_s: float = 0.25
    """The first wait is drawn from [0, this]; each next from twice the span."""
    backoff_cap_s: float = 4.0
    warm: bool = False
    """Whether to prefill prefixes with one-token requests; worth it on a server of one's own."""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """More fields for the request's body."""


class EndpointPolicy:
    """See the module.

    Args:
        uri: how it was asked for; without secrets.
        rng: where jitter comes from.
        sleep: how waits are waited.
    """

    def __init__(
        self,
        options: EndpointOptions,
        *,
        uri: str,
        rng: Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.uri = uri
        self._options = options
        self._rng = rng or Random()
        self._sleep = sleep
        self._model = options.model
        self._reported = ""
        local = urlsplit(options.base_url).hostname in ("127.0.0.1", "localhost", "::1")
        self._client = openai.AsyncOpenAI(
            base_url=options.base_url,
            api_key=os.environ.get(options.key_env) or "none",
            max_retries=0,
            timeout=openai.Timeout(options.read_s, connect=options.connect_s),
            # A proxy from the environment cannot reach this machine's own loopback.
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False) if local else None,
        )

    @property
    def weights(self) -> str:
        """The model's name as the server reports it."""
        return self._reported or self._model

    @property
    def actions(self) -> Literal["text", "native"]:
        return self._options.actions

    async def act(self, request: PolicyRequest) -> PolicyTurn:
        began = time.perf_counter()
        fault: Exception | None = None
        try:
            async with asyncio.timeout(request.timeout_s):
                for attempt in range(self._options.retries + 1):
                    try:
                        return await self._once(request, began)
                    except (openai.APIError, _TransportError) as error:
                        if _overflows(error):
                            raise PolicyOverflow(f"{self.uri}: {_said(error)}") from None
                        fault = error
                    left = request.timeout_s - (time.perf_counter() - began)
                    wait = self._wait(fault, attempt)
                    if wait is None or attempt == self._options.retries or wait >= left:
                        break
                    await self._sleep(wait)
        except TimeoutError:
            last = f" (last fault: {_said(fault)})" if fault else ""
            raise PolicyTimeout(f"{self.uri}: no complete turn within {request.timeout_s:.2f} s{last}") from None
        raise PolicyUnavailable(f"{self.uri}: {_said(fault)}") from None

    async def warm(self, messages: tuple[PromptMessage, ...], session: str = "") -> None:
        if self._options.warm:
            probe = PromptMessage(role="user", content="")
            request = PolicyRequest(messages=(*messages, probe), tools=(), max_tokens=1, timeout_s=60.0)
            await self.act(request)

    async def aclose(self) -> None:
        await self._client.close()

    # ------------------------------------------------------------------------------------ one try

    async def _once(self, request: PolicyRequest, began: float) -> PolicyTurn:
        if not self._model:
            listed = await self._client.models.list()
            if not listed.data:
                raise PolicyUnavailable(f"{self.uri}: the server lists no models; name one with ?model=")
            self._model = listed.data[0].id
        received = _Received()
        # The body is assembled as plain data: `extra` fields differ by server and are not in the SDK's types.
        create: Any = self._client.chat.completions.create
        stream = await create(**self._body(request))
        try:
            await received.read(stream)
        except ValueError as error:
            raise PolicyMalformed(f"{self.uri}: the stream is not JSON events ({error})") from error
        finally:
            await stream.close()
        if not received.events:
            raise PolicyMalformed(f"{self.uri}: the answer held no chat completion events")
        self._reported = received.model or self._reported
        return received.turn(request, began)

    def _body(self, request: PolicyRequest) -> dict[str, Any]:
        native = self._options.actions == "native"
        extra: dict[str, Any] = dict(self._options.extra)
        body: dict[str, Any] = {
            "model": self._model,
            "messages": chat_messages(request.messages, native=native),
            "max_tokens": request.max_tokens,
            "temperature": self._options.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.seed is not None:
            body["seed"] = request.seed
        if native and request.tools:
            body["tools"] = [_function(tool) for tool in request.tools]
            if not request.allow_calls:
                body["tool_choice"] = "none"
            elif not request.allow_reply:
                body["tool_choice"] = "required"
        elif not native and self._options.grammar != "none":
            bound = grammar(
                request.tools,
                allow_calls=request.allow_calls,
                allow_reply=request.allow_reply,
                reasoning=request.reasoning,
            )
            if self._options.grammar == "llamacpp":
                extra["grammar"] = bound
            else:
                extra["structured_outputs"] = {"grammar": bound}
        return {**body, "extra_body": extra} if extra else body

    def _wait(self, fault: Exception | None, attempt: int) -> float | None:
        """Seconds before the next try; None when another try would be in vain."""
        if isinstance(fault, openai.APIStatusError):
            if fault.status_code not in _RETRIED and fault.status_code < 500:
                return None
            asked = retry_after_s(fault.response.headers.get("retry-after"), time.time())
            if asked is not None:
                return asked
        span = min(self._options.backoff_cap_s, self._options.backoff_s * 2**attempt)
        return self._rng.uniform(0, span)


def retry_after_s(value: str | None, now: float) -> float | None:
    """Seconds that a ``Retry-After`` header asks for (a number, or an HTTP date); None where there is
    none."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except ValueError:
        return None


def _overflows(fault: Exception) -> bool:
    """Whether a server says that the conversation does not fit the model's context, by its status or in its stream."""
    if not isinstance(fault, openai.APIError) or isinstance(fault, openai.APIConnectionError):
        return False
    if isinstance(fault, openai.APIStatusError) and fault.status_code not in _REFUSED:
        return False
    codes = {str(fault.code), str(fault.type)}
    return bool(codes & _OVERFLOW_CODES) or _OVERFLOW_WORDS.search(fault.message) is not None


def _said(fault: Exception | None) -> str:
    if isinstance(fault, openai.APIStatusError):
        return f"HTTP {fault.status_code}: {str(fault.message)[:300]}"
    cause = fault.__cause__ if fault is not None else None
    detail = f" ({type(cause).__name__})" if cause else ""
    return f"{type(fault).__name__}: {str(fault)[:300]}{detail}"


def _function(tool: ToolSurface) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.input_schema),
        },
    }


def chat_messages(messages: tuple[PromptMessage, ...], *, native: bool) -> list[dict[str, Any]]:
    """Messages of the OpenAI protocol. Marks of chat formats in untrusted text are made harmless either way:
    a server tokenises the whole rendered template, and would take them for its own."""
    if not native:
        return [dict(zip(("role", "content"), wire.message_text(message), strict=True)) for message in messages]
    out: list[dict[str, Any]] = []
    for message in messages:
        entry: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.role in ("user", "tool"):
            entry["content"] = wire.neutral(message.content)
        if message.role == "tool":
            entry["tool_call_id"] = message.call_id
        if message.calls:
            entry["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {
                        "name": call.name,
                        "arguments": json.dumps(dict(call.arguments), ensure_ascii=False),
                    },
                }
                for call in message.calls
            ]
        out.append(entry)
    return out


@dataclass(slots=True)
class _Part:
    """A call as its pieces arrive."""

    id: str = ""
    name: str = ""
    arguments: str = ""


class _Received:
    """What a stream has brought so far."""

    def __init__(self) -> None:
        self.events = 0
        self.model = ""
        self._content = ""
        self._reasoning = ""
        self._parts: dict[int, _Part] = {}
        self._finish = ""
        self._usage: Any = None
        self._timings: Mapping[str, Any] = {}
        self._first_at = 0.0

    async def read(self, stream: AsyncIterator[Any]) -> None:
        async for chunk in stream:
            if not hasattr(chunk, "choices"):
                continue
            self.events += 1
            self.model = chunk.model or self.model
            self._usage = chunk.usage or self._usage
            extra: Mapping[str, Any] = chunk.model_extra or {}
            self._timings = extra.get("timings") or self._timings
            for choice in chunk.choices or ():
                self._finish = choice.finish_reason or self._finish
                if choice.delta is not None:
                    self._delta(choice.delta)

    def _delta(self, delta: Any) -> None:
        extra: Mapping[str, Any] = delta.model_extra or {}
        thought = str(extra.get("reasoning_content") or extra.get("reasoning") or "")
        if thought or delta.content or delta.tool_calls:
            self._first_at = self._first_at or time.perf_counter()
        self._reasoning += thought
        self._content += delta.content or ""
        for piece in delta.tool_calls or ():
            part = self._parts.setdefault(piece.index, _Part())
            part.id = piece.id or part.id
            if piece.function is not None:
                part.name += piece.function.name or ""
                part.arguments += piece.function.arguments or ""

    def turn(self, request: PolicyRequest, began: float) -> PolicyTurn:
        first_call = wire.calls_so_far(request.messages)
        native = self._calls(first_call, {c.id for m in request.messages for c in m.calls})
        parsed = wire.parse_turn(self._content, first_call=first_call + len(native))
        broken = next((c for c in native if wire.malformed_text(c) is not None), None)
        fault = parsed.malformed or (f"the arguments of {broken.name} are not a JSON object" if broken else "")
        calls = (*native, *parsed.calls)
        whole = wire.ParsedTurn(
            reasoning="\n".join(filter(None, (self._reasoning.strip(), parsed.reasoning))),
            calls=calls,
            reply="" if calls else parsed.reply,
            malformed=fault,
        )
        cut = self._finish == "length"
        if cut:
            whole = whole.whole()
        stop = whole.stop(cut=cut)
        if stop == "reply" and not whole.reply:
            stop = "malformed"
        return PolicyTurn(
            calls=whole.calls,
            text=whole.reply,
            reasoning=whole.reasoning,
            stop=stop,
            usage=self._counts(),
            timing=self._times(began),
        )

    def _calls(self, first: int, taken: set[str]) -> tuple[ToolCall, ...]:
        calls: list[ToolCall] = []
        for number, (_, part) in enumerate(sorted(self._parts.items())):
            call_id = part.id if part.id and part.id not in taken else f"call_{first + number}"
            taken.add(call_id)
            try:
                value = json.loads(part.arguments or "{}")
            except (json.JSONDecodeError, RecursionError):
                value = None
            read = cast("dict[str, Any]", value) if isinstance(value, dict) else {wire.MALFORMED: part.arguments}
            calls.append(ToolCall(id=call_id, name=part.name, arguments=read))
        return tuple(calls)

    def _counts(self) -> Usage:
        if self._usage is None:
            return Usage()
        prompt, output = self._usage.prompt_tokens_details, self._usage.completion_tokens_details
        return Usage(
            prompt=self._usage.prompt_tokens or 0,
            cached=(prompt.cached_tokens or 0) if prompt else 0,
            output=self._usage.completion_tokens or 0,
            reasoning=(output.reasoning_tokens or 0) if output else 0,
        )

    def _times(self, began: float) -> Timing:
        now = time.perf_counter()
        first = (self._first_at or now) - began
        return Timing(
            total_s=now - began,
            prefill_s=float(self._timings.get("prompt_ms", 0.0)) / 1000,
            decode_s=float(self._timings["predicted_ms"]) / 1000
            if "predicted_ms" in self._timings
            else now - began - first,
            first_token_s=first,
        )
