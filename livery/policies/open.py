"""Policies by URI.

==============================================================  ===========================================
``llamacpp:``                                                   the embedded model, with the shipped adapter
``llamacpp:?adapter=none``                                      the embedded model as it is
``llamacpp:/path/model.gguf?lora=a.gguf&threads=2&slots=2``     another GGUF, in process
``openai:http://127.0.0.1:8080/v1?model=NAME&actions=text``     a server
``scripted:host``, ``scripted:silent``, ``scripted:play.yaml``  no model
``hf:/path/folder?lora=adapter&batch=16&device=cuda``           a transformers model (the training extra)
``hf:/path/folder?draft=head&draft_tokens=3``                   the same with a draft head
==============================================================  ===========================================

The fields after ``?`` are those of `LlamaCppOptions`, `EndpointOptions` and `HfOptions` (``ctx`` for context;
``lora`` may be repeated and scaled: ``lora=a.gguf*0.5``). ``adapter`` names one that ships with livery
(`livery.policies.shipped`): for ``llamacpp:`` without a path or ``lora`` it is ``auto``, the one of the harness's
language; for ``hf:`` it is ``none``. Secrets have no place in a URI.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from livery.errors import InputError, Problem
from livery.policies.policy import Policy

if TYPE_CHECKING:
    from livery.policies.hf import HfOptions

SCHEMES = {
    "llamacpp": "llamacpp: (embedded model) or llamacpp:/path/model.gguf?lora=...&threads=1&slots=2&ctx=4096",
    "openai": "openai:http://127.0.0.1:8080/v1?model=NAME&actions=text|native&grammar=llamacpp|structured",
    "scripted": "scripted:host, scripted:silent, scripted:instant or scripted:/path/script.yaml",
    "hf": "hf: (embedded model) or hf:/path/folder?lora=...&batch=16&ctx=4096&device=cpu (livery[training])",
}
_SECRET = ("key", "api_key", "apikey", "token", "password", "secret")


def open_policy(
    uri: str,
    *,
    loras: Sequence[Path] = (),
    threads: int = 0,
    progress: bool = True,
    rng: Random | None = None,
    language: str = "en",
) -> Policy:
    """Open the policy that ``uri`` names. An embedded model is loaded here: call it off the event loop.

    Args:
        loras: more adapters for ``llamacpp:`` and ``hf:`` (the command line's ``--lora``).
        threads: for ``llamacpp:``, where the URI does not say; 0 measures.
        progress: draw a bar while the embedded model downloads.
        rng: jitter of an endpoint's retries.
        language: of the harness, by which ``adapter=auto`` chooses.

    Raises:
        InputError: every fault of the URI, and what is expected.
    """
    scheme, colon, rest = uri.partition(":")
    match scheme if colon else "":
        case "llamacpp":
            return _llamacpp(uri, rest, tuple(loras), threads, progress, language)
        case "openai":
            _no_loras(uri, loras)
            return _endpoint(uri, rest, rng)
        case "hf":
            return _hf(uri, tuple(loras), language)
        case "scripted":
            from livery.policies.scripted import open_script

            _no_loras(uri, loras)
            return open_script(rest, uri=uri)
        case _:
            known = "\n".join(f"  {form}" for form in SCHEMES.values())
            raise InputError.at(uri or "policy", f"unknown policy; expected one of\n{known}", code="policy-scheme")


def _no_loras(uri: str, loras: Sequence[Path]) -> None:
    if loras:
        raise InputError.at(uri, "LoRA adapters are for llamacpp: and hf: policies", code="policy-lora")


class _Fields:
    """Reads a URI's query, gathering every fault."""

    def __init__(self, uri: str, query: str) -> None:
        self._uri = uri
        self._pairs = parse_qsl(query, keep_blank_values=True)
        self.problems: list[Problem] = []
        self._known: set[str] = set()

    def fault(self, name: str, message: str) -> None:
        self.problems.append(Problem(path=self._uri, field=name, message=message, code="policy-uri"))

    def all(self, name: str) -> list[str]:
        self._known.add(name)
        return [value for key, value in self._pairs if key == name]

    def adapters(self) -> list[tuple[Path, float]]:
        """The ``lora`` fields: paths and scales."""
        found: list[tuple[Path, float]] = []
        for text in self.all("lora"):
            name, star, scale = text.rpartition("*")
            try:
                found.append((Path(name), float(scale)) if star else (Path(text), 1.0))
            except ValueError:
                self.fault("lora", f"found {text!r}; expected a path, or a path and its scale: a.gguf*0.5")
        return found

    def shipped(self, default: str, other_base: bool, language: str) -> list[tuple[Path, float]]:
        """The adapter of the package that ``adapter`` asks for, if any."""
        from livery.policies.shipped import adapters_for

        choice = self.text("adapter", default)
        if other_base and choice != "none":
            self.fault(
                "adapter", f"found {choice!r}; the shipped adapters are for the embedded model: leave out the path"
            )
            return []
        try:
            return [(path, 1.0) for path in adapters_for(choice, language)]
        except InputError as error:
            self.problems += error.problems
            return []

    def text(self, name: str, default: str, among: Sequence[str] = ()) -> str:
        value = next(iter(self.all(name)), default)
        if among and value not in among:
            self.fault(name, f"found {value!r}; expected {' or '.join(among)}")
        return value

    def number(self, name: str, default: float, *, least: float = 0) -> float:
        return self._number(name, default, least, float, "a number")

    def count(self, name: str, default: int, *, least: int = 0) -> int:
        return int(self._number(name, default, least, int, "a whole number"))

    def _number(self, name: str, default: float, least: float, read: Callable[[str], float], kind: str) -> float:
        value = next(iter(self.all(name)), None)
        if value is None:
            return default
        try:
            number = read(value)
        except ValueError:
            number = None
        if number is None or number < least:
            self.fault(name, f"found {value!r}; expected {kind} of at least {least}")
            return default
        return number

    def check(self) -> None:
        for name, _ in self._pairs:
            if name not in self._known:
                self.fault(name, f"unknown field; expected one of {', '.join(sorted(self._known))}")
        if self.problems:
            raise InputError(self.problems)


def _llamacpp(uri: str, rest: str, loras: tuple[Path, ...], threads: int, progress: bool, language: str) -> Policy:
    from livery.policies.llamacpp import LlamaCppOptions, LlamaCppPolicy

    path, _, query = rest.partition("?")
    fields = _Fields(uri, query)
    defaults = LlamaCppOptions()
    adapters = [*((lora, 1.0) for lora in loras), *fields.adapters()]
    adapters[:0] = fields.shipped("none" if path or adapters else "auto", bool(path), language)
    options = LlamaCppOptions(
        model=Path(path).expanduser() if path else None,
        loras=tuple(adapters),
        threads=fields.count("threads", threads),
        slots=fields.count("slots", defaults.slots, least=1),
        context=fields.count("ctx", defaults.context, least=256),
        temperature=fields.number("temperature", defaults.temperature),
        top_p=fields.number("top_p", defaults.top_p),
        reply_chars=fields.count("reply_chars", defaults.reply_chars, least=1),
        parallel_calls=fields.count("parallel_calls", defaults.parallel_calls),
        constrained=fields.text("grammar", "on", ("on", "off")) == "on",
        lookup=fields.count("lookup", defaults.lookup),
        progress=progress,
    )
    fields.check()
    return LlamaCppPolicy.open(options, uri=uri)


def _hf(uri: str, loras: tuple[Path, ...], language: str) -> Policy:
    options = hf_options(uri, loras, language)
    from livery.policies.hf import HfPolicy

    return HfPolicy.open(options, uri=uri)


def hf_options(uri: str, loras: Sequence[Path] = (), language: str = "en") -> HfOptions:
    """What a URI of the scheme ``hf:`` asks for; nothing is loaded.

    Raises:
        InputError: every fault of the URI, or torch is not installed.
    """
    from livery.policies.hf_loading import needed

    needed("torch", "transformers")
    from livery.policies.hf import HfOptions

    path, _, query = uri.partition(":")[2].partition("?")
    fields = _Fields(uri, query)
    defaults = HfOptions()
    adapters = [*((lora, 1.0) for lora in loras), *fields.adapters()]
    adapters[:0] = fields.shipped("none", bool(path), language)
    options = HfOptions(
        model=path,
        loras=tuple(adapters),
        batch=fields.count("batch", defaults.batch, least=1),
        context=fields.count("ctx", defaults.context, least=256),
        temperature=fields.number("temperature", defaults.temperature),
        top_p=fields.number("top_p", defaults.top_p),
        dtype=fields.text("dtype", defaults.dtype),
        device=fields.text("device", defaults.device),
        prefix_mib=fields.count("prefix_mib", defaults.prefix_mib),
        draft=Path(draft).expanduser() if (draft := fields.text("draft", "")) else None,
        draft_tokens=fields.count("draft_tokens", defaults.draft_tokens, least=1),
    )
    fields.check()
    return options


def _endpoint(uri: str, rest: str, rng: Random | None) -> Policy:
    from livery.policies.endpoint import EndpointOptions, EndpointPolicy

    url = urlsplit(rest)
    if url.username or url.password or any(k.lower() in _SECRET for k, _ in parse_qsl(url.query)):
        # Named without its text: the message may be logged.
        raise InputError.at(
            "openai:",
            "a key or password stands in the URI; set OPENAI_API_KEY (or name another variable with "
            "key_env=) and leave it out",
            code="policy-secret",
        )
    fields = _Fields(uri, url.query)
    if url.scheme not in ("http", "https") or not url.hostname:
        fields.fault("", f"found {rest.partition('?')[0]!r}; expected {SCHEMES['openai']}")
    defaults = EndpointOptions(base_url="")
    choices: Mapping[str, Any] = {
        "actions": fields.text("actions", defaults.actions, ("native", "text")),
        "grammar": fields.text("grammar", defaults.grammar, ("none", "llamacpp", "structured")),
    }
    options = EndpointOptions(
        base_url=url._replace(query="", fragment="").geturl(),
        model=fields.text("model", ""),
        temperature=fields.number("temperature", defaults.temperature),
        key_env=fields.text("key_env", defaults.key_env),
        connect_s=fields.number("connect_s", defaults.connect_s),
        read_s=fields.number("read_s", defaults.read_s),
        retries=fields.count("retries", defaults.retries),
        warm=fields.text("warm", "off", ("on", "off")) == "on",
        **choices,
    )
    fields.check()
    return EndpointPolicy(options, uri=uri, rng=rng)
