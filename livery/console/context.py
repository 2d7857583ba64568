"""What the console is given, and what its pages share while it runs.

`ConsoleContext` is the console's whole view of the program: rooms, releases, catalogues and a token. It
holds no logic of rooms or harnesses; those stay in their own packages.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Protocol, cast

from fastapi import Depends
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import HTTPConnection

from livery.console.auth import Access
from livery.console.drafts import Drafts, files_of
from livery.console.metrics import Metrics
from livery.console.watch import RoomWatch
from livery.errors import Problem
from livery.harness.channels import Router
from livery.harness.hooks.builtin import BUILTINS
from livery.harness.lint import Builtin
from livery.harness.releases import PrefixCost
from livery.harness.store import ReleaseStore
from livery.room.journal import Journal
from livery.room.runtime import Room
from livery.shop.catalogue import Catalogue
from livery.shop.operations import Operations


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    public_stage: bool = True
    """Whether the stage needs no key. What it shows is what the stream shows."""
    public_chat: bool = False
    """Whether anyone who reaches the console may send chat to a room without an ingest token of its own."""
    ingest_tokens: Mapping[str, str] = field(default_factory=dict[str, str])
    """Room id -> token that may send chat to it, and nothing else."""
    public_metrics: bool = True
    """Whether ``/metrics`` needs no token. It holds counts and durations, no text."""
    allowed_hosts: frozenset[str] = frozenset()
    """Host names (no port) the console may be called by, besides ``localhost`` and bare IP addresses."""
    allowed_origins: frozenset[str] = frozenset()
    """Foreign origins (``https://tool.example``) whose pages may send to it, besides its own."""
    max_body_bytes: int = 512 * 1024
    drafts: Path | None = None
    """Folder for unpublished edits. None keeps them in memory only."""
    warm_s: float = 8.0
    """How long a publication may wait until the policy has read the release's prompt; 0: not at all."""


class Prepare(Protocol):
    """`livery.agent.service.AgentService.prepare`."""

    async def __call__(
        self, release: str, *, instead_of: str, sessions: Sequence[str], limit_s: float
    ) -> PrefixCost: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleContext:
    rooms: Mapping[str, Room]
    """By room id; at least one."""
    store: ReleaseStore
    router: Router
    catalogues: Mapping[str, Callable[[], Catalogue]]
    """By room id: gives the room's catalogue as it stands now (`CatalogueSource.current`)."""
    catalogue_problems: Mapping[str, Callable[[], Sequence[Problem]]] = field(
        default_factory=dict[str, Callable[[], Sequence[Problem]]]
    )
    """By room id: what is wrong with the files of a catalogue that is therefore not in use (may lack rooms)."""
    operations: Operations
    """What lint may find tools bound to, and where the item card's price comes from."""
    journal: Journal
    token: str
    """The operator's. At least 16 characters."""
    version: str
    builtins: Mapping[str, Builtin] | None = field(default_factory=lambda: BUILTINS)
    """The registered built-in hooks, for lint; None leaves their names unchecked."""
    settings: ConsoleSettings = ConsoleSettings()
    prepare: Prepare | None = None
    """Has a release's prompt read by the rooms' policy before it is published; None: nobody does."""
    clock: Callable[[], float] = time.time


class Console:
    """One running console: the context plus what lives as long as the app."""

    def __init__(self, context: ConsoleContext) -> None:
        self.context = context
        self.access = Access(
            token=context.token,
            ingest_tokens=context.settings.ingest_tokens,
            public_stage=context.settings.public_stage,
            public_chat=context.settings.public_chat,
            clock=context.clock,
        )
        self.metrics = Metrics(context.rooms)
        self.watches = {
            name: RoomWatch(name, room, context.journal, self.metrics) for name, room in context.rooms.items()
        }
        self.drafts = Drafts(context.settings.drafts)
        self._files: OrderedDict[str, Mapping[str, str]] = OrderedDict()
        self.editing = asyncio.Lock()
        """Held while a draft is read, changed and written."""
        self.costs: OrderedDict[str, PrefixCost] = OrderedDict()
        """What the latest releases cost the policy's cache."""
        self.reading: set[asyncio.Task[None]] = set()
        """Prompts that are read after their channel was rolled back."""
        self.closing = asyncio.Event()
        """Set when the server goes down, so that open event streams end."""
        self.boot = hashlib.sha256(f"{context.clock()}".encode()).hexdigest()[:8]
        """Part of every event id: sequence numbers of another run are not taken for this one's."""
        self.pages = Environment(
            loader=PackageLoader("livery.console"),
            autoescape=True,  # every template, whatever its suffix: all of them show strangers' text
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        names = cast("dict[str, Any]", self.pages.globals)  # pyright: ignore[reportUnknownMemberType]
        names["url"] = self.url
        filters = cast("dict[str, Any]", self.pages.filters)  # pyright: ignore[reportUnknownMemberType]
        filters["short"] = short_release

    def url(self, path: str) -> str:
        """Of a file of ours; the version keeps an updated console from showing yesterday's scripts."""
        return f"/{path}?v={self.context.version}"

    def files(self, release: str) -> Mapping[str, str]:
        """The text files of a release, kept for the latest few. Blocks for some milliseconds the first time.

        Raises:
            StoreError: no such release.
        """
        if release not in self._files:
            self._files[release] = files_of(self.context.store.load(release))
            while len(self._files) > 8:
                self._files.popitem(last=False)
        return self._files[release]

    def render(self, template: str, **values: Any) -> str:
        return self.pages.get_template(template).render(version=self.context.version, **values)


def short_release(release: str) -> str:
    """The first ten hexadecimal digits, for people."""
    return release.removeprefix("sha256:")[:10]


def console_of(connection: HTTPConnection) -> Console:
    return connection.app.state.console


Shared = Annotated[Console, Depends(console_of)]
