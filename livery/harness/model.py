"""The Harness as a value: what a policy runs under, apart from its weights.

Everything is a frozen pydantic model; a changed harness is another value (`Harness.replace`). Loading
from a folder is `livery.harness.folder`, digests are `livery.harness.digest`. A component's ``key`` is
its stable identity and is never shown to a policy; its ``name`` is surface and free to change.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from livery.types import JSON, Checkpoint


class Frozen(BaseModel):
    """Immutable, closed to unknown fields: a typing slip in a file is an error, not a no-op."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class Section(Frozen):
    """One Jinja template of the prompt."""

    key: str
    """File stem in ``prompt/``."""
    title: str = ""
    """Heading; the rendering decides how it is written. Empty: no heading."""
    volatility: Literal["release", "room", "request"] = "release"
    """What it changes with. ``release`` sections make the cached prefix (the system message); ``room`` and
    ``request`` ones go into the user message, in section order."""
    facts: bool = False
    """Whether what it states may be repeated as fact (a campaign's terms). Numbers in other sections, examples
    and limits say, never ground a reply."""
    template: str


class SkillFile(Frozen):
    """A file beside SKILL.md, readable on request."""

    path: str
    """POSIX path relative to the skill's folder."""
    content: str
    """Text; for a binary file its base64."""
    encoding: Literal["utf-8", "base64"] = "utf-8"


class Skill(Frozen):
    """An Agent Skills folder (agentskills.io)."""

    key: str
    """``metadata.livery-key``, else the folder's name."""
    name: str
    description: str
    body: str
    """Markdown after the front matter."""
    kind: Literal["reply", "strategy"] = "strategy"
    """``metadata.livery-kind``. A reply may be given only after a reply skill was loaded."""
    license: str = ""
    compatibility: str = ""
    allowed_tools: str = ""
    """As written: a space-separated list."""
    facts: bool = False
    """``metadata.livery-facts: "true"``: what its body states may be repeated as fact."""
    metadata: dict[str, str] = {}
    extra: dict[str, JSON] = {}
    """Fields outside the specification, kept as found (``when_to_use``, ...)."""
    files: tuple[SkillFile, ...] = ()


class ArgumentMap(Frozen):
    """How one operation parameter is filled from the tool's arguments."""

    to: str
    """Operation parameter."""
    source: str = ""
    """Tool argument, dotted for nested ones (``item.link``). Empty: only ``constant`` or ``default``."""
    constant: JSON = None
    default: JSON = None
    """Used when ``source`` is absent from the call."""
    convert: Literal["", "string", "integer", "number", "boolean", "digits"] = ""
    """``digits`` takes the number out of a label: "No.3" or "3号链接" -> "3"."""
    labels: dict[str, JSON] = {}
    """Surface label -> operation value."""


class Binding(Frozen):
    operation: str
    """``catalog.get_product``, ``harness.load_skill``, ``mcp.<server>.<tool>``, ..."""
    arguments: tuple[ArgumentMap, ...] = ()
    """Operation parameters not named here take the tool argument of the same name."""


class ResultFormat(Frozen):
    """How an operation's typed result becomes the text that a policy reads."""

    style: Literal["json", "key_value", "prose", "xml"] = "json"
    template: str = ""
    """Jinja, for ``prose``; sees the result's fields and ``result``."""
    rename: dict[str, str] = {}
    """Result field -> surface field, at any depth."""
    labels: dict[str, dict[str, str]] = {}
    """Field -> {value: surface label}."""
    page_size: int = 0
    """Split a result's list into pages of this many; 0: all at once."""
    errors: dict[str, str] = {}
    """Kind of failure (``not_found``, `livery.types.ErrorKind`) -> the code that a policy reads for it."""


class Tool(Frozen):
    """The surface of an operation: what the policy sees, and how it is bound."""

    key: str
    name: str
    description: str
    input_schema: dict[str, Any]
    """JSON Schema 2020-12 of an object."""
    annotations: dict[str, Any] = {}
    """MCP tool annotations (``readOnlyHint``, ...)."""
    binding: Binding
    result: ResultFormat = ResultFormat()
    timeout_s: float = Field(default=2.0, gt=0)


class McpServer(Frozen):
    """An MCP server whose tools join the harness as ``mcp.<name>.<tool>`` operations."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    transport: Literal["stdio", "http"]
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    tools: tuple[str, ...] = ()
    """Which of its tools to show; empty: all."""
    timeout_s: float = Field(default=5.0, gt=0)
    refresh_s: float = Field(default=300.0, gt=0)


class Hook(Frozen):
    """A check at one checkpoint: built in, Python or YAML."""

    key: str
    checkpoint: Checkpoint
    kind: Literal["builtin", "python", "rules"]
    source: str = ""
    """``builtin``: its registered name; ``python``: the file's text; ``rules``: empty."""
    params: dict[str, Any] = {}
    """Settings of a built-in, or a YAML hook's rules."""
    mode: Literal["check", "change"] = "check"
    """``check`` hooks never rewrite and may run side by side; ``change`` hooks run in order."""
    on_failure: Literal["allow", "block"]
    """What its own crash or time-out does with the value: lets it through or stops it."""
    timeout_s: float = Field(default=0.5, gt=0)
    feedback: str = ""
    """Jinja; replaces the hook's own feedback text (sees ``reason`` and the hook's details)."""


class Feedback(Frozen):
    """How hook feedback reaches the policy."""

    channel: Literal["tool", "user", "system"] = "user"
    template: str = "{{ message }}"


class Rendering(Frozen):
    """How skills and tools are written into the prompt, and how actions are written by the policy."""

    heading: Literal["markdown", "xml", "plain", "numbered"] = "markdown"
    skills: Literal["lines", "xml", "table"] = "lines"
    tools: Literal["json_schema", "signature", "typescript", "prose"] = "json_schema"
    reasoning: Literal["none", "think"] = "none"
    """``think``: the policy may write ``<think>...</think>`` before it acts."""
    skill_description_chars: int = Field(default=1024, gt=0)
    """Longest description in the catalogue line; a longer one is a lint error, never cut in silence."""


class Limits(Frozen):
    rounds: int = Field(default=5, ge=1)
    """Policy calls per request, retries included; the last must be a reply."""
    deadline_s: float = Field(default=12.0, gt=0)
    """From the start of the loop to the reply, hooks and tools included."""
    degraded_reserve_s: float = Field(default=0.5, ge=0)
    """Kept back from the deadline for the degraded route."""
    retries: int = Field(default=2, ge=0)
    """Replies sent back by hooks; the runtime's cap, whatever a hook asks."""
    tool_calls: int = Field(default=8, ge=0)
    parallel_calls: int = Field(default=4, ge=1)
    turn_tokens: int = Field(default=160, ge=8)
    """Output tokens of one policy call."""
    reply_chars: int = Field(default=300, ge=1)
    context_tokens: int = Field(default=4096, ge=256)


class Degraded(Frozen):
    """Wording of the degraded route. Each is a Jinja sentence that sees operation results."""

    enabled: bool = True
    faq_score: float = Field(default=0.62, ge=0, le=1)
    """Least FAQ match (0-1) that is answered."""
    product_score: float = Field(default=0.80, ge=0, le=1)
    """Least product-name match (0-1)."""
    phrases: dict[str, str] = {}
    """Intent ("price", "stock", "shipping", "size", "product", "handoff") -> sentence; the package has defaults in
    en and zh."""


class Harness(Frozen):
    name: str
    description: str = ""
    language: str = "en"
    """BCP 47 tag of the replies."""
    sections: tuple[Section, ...]
    """In prompt order."""
    skills: tuple[Skill, ...] = ()
    """In catalogue order."""
    tools: tuple[Tool, ...] = ()
    hooks: tuple[Hook, ...] = ()
    """In running order within a checkpoint."""
    servers: tuple[McpServer, ...] = ()
    rendering: Rendering = Rendering()
    feedback: Feedback = Feedback()
    limits: Limits = Limits()
    degraded: Degraded = Degraded()

    def replace(self, **changes: Any) -> Harness:
        """A copy with fields changed, validated."""
        return Harness.model_validate({**{n: getattr(self, n) for n in type(self).model_fields}, **changes})

    def skill_named(self, name: str) -> Skill | None:
        return next((s for s in self.skills if s.name == name), None)

    def tool_named(self, name: str) -> Tool | None:
        return next((t for t in self.tools if t.name == name), None)
