"""Who may do what, and the checks every request passes first.

One operator token. Programs send it as ``Authorization: Bearer``; a browser trades it on the login page for
a signed cookie (HttpOnly, SameSite=Strict), and every write by cookie must also carry a header that only
our own pages know. A stage key and a room's ingest token open just the stage and just the chat input.
`Guard` refuses foreign Hosts (DNS rebinding), foreign Origins, and bodies that are too large, and adds the
security headers. Not an account system: whoever has the token is the operator.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Callable, Mapping
from typing import Literal
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SESSION_S = 7 * 24 * 3600
CSRF_HEADER = "x-livery-csrf"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "media-src 'self'",
        "frame-src 'self'",
        "frame-ancestors 'self'",
        "form-action 'self'",
        "base-uri 'none'",
    )
)

SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}

Role = Literal["", "operator", "ingest"]


def new_token() -> str:
    """An operator token, 192 bits of the system's randomness."""
    return secrets.token_urlsafe(24)


class NotSignedIn(Exception):
    """An operator's page or action without the token; answered by the login page or 401."""


class Access:
    """Checks credentials. Every comparison takes the same time whatever is wrong."""

    def __init__(
        self,
        *,
        token: str,
        ingest_tokens: Mapping[str, str],
        public_stage: bool,
        public_chat: bool,
        clock: Callable[[], float],
    ) -> None:
        if len(token) < 16:
            raise ValueError("the operator token needs at least 16 characters")
        self._token = token
        self._ingest_tokens = ingest_tokens
        self._public_stage = public_stage
        self._public_chat = public_chat
        self._clock = clock
        # Browsers keep cookies by host, not by port: two consoles on one machine must not share a name.
        self.cookie = f"livery_{self._sign('cookie name')[:10]}"

    def _sign(self, text: str) -> str:
        return hmac.new(self._token.encode(), text.encode(), hashlib.sha256).hexdigest()

    def token_matches(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())

    def new_session(self) -> str:
        """A cookie value good for `SESSION_S`; it does not contain the token."""
        content = f"{int(self._clock()) + SESSION_S}.{secrets.token_urlsafe(12)}"
        return f"{content}.{self._sign('session ' + content)}"

    def _session_holds(self, session: str) -> bool:
        content, _, signature = session.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign("session " + content).encode()):
            return False
        return int(content.partition(".")[0]) > self._clock()

    def csrf(self, connection: HTTPConnection) -> str:
        """The value our pages send back with each write of this browser session."""
        return self._sign("csrf " + connection.cookies.get(self.cookie, ""))

    def is_operator(self, connection: HTTPConnection) -> bool:
        """By bearer token, or by cookie (with the CSRF header where the method writes)."""
        given = _bearer(connection)
        if given is not None:
            return self.token_matches(given)
        if not self._session_holds(connection.cookies.get(self.cookie, "")):
            return False
        if connection.scope["type"] == "http" and connection.scope["method"] not in SAFE_METHODS:
            header = connection.headers.get(CSRF_HEADER, "")
            return hmac.compare_digest(header.encode(), self.csrf(connection).encode())
        return True

    def may_chat(self, connection: HTTPConnection, room: str) -> Role | None:
        """What role sends chat to ``room`` over this connection; None: none may."""
        if self.is_operator(connection):
            return "operator"
        expected = self._ingest_tokens.get(room)
        if expected is not None:
            given = _bearer(connection)
            return "ingest" if given and hmac.compare_digest(given.encode(), expected.encode()) else None
        return "" if self._public_chat else None

    def sign_in_link(self, address: str) -> str:
        """An address that signs its opener in. The token stands after ``#``, which browsers do not send."""
        return f"{address}/login#token={self._token}"

    def stage_key(self, room: str) -> str:
        """What a private stage's address carries: it opens this room's stage and nothing else."""
        return self._sign("stage " + room)[:32]

    def may_watch(self, connection: HTTPConnection, room: str) -> bool:
        if self._public_stage or self.is_operator(connection):
            return True
        return hmac.compare_digest(connection.query_params.get("key", "").encode(), self.stage_key(room).encode())

    def stage_query(self, room: str) -> str:
        return "" if self._public_stage else f"?key={self.stage_key(room)}"


def _bearer(connection: HTTPConnection) -> str | None:
    scheme, _, value = connection.headers.get("authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else None


def _host_name(host: str) -> str:
    """Without port; brackets of an IPv6 address removed."""
    return urlsplit(f"//{host}").hostname or ""


class Guard:
    """ASGI middleware: Host, Origin, body size, security headers."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        allowed_hosts: frozenset[str],
        allowed_origins: frozenset[str],
        max_body_bytes: int,
    ) -> None:
        self.app = app
        self.allowed_hosts = {h.lower() for h in allowed_hosts} | {"localhost"}
        self.allowed_origins = allowed_origins
        self.max_body_bytes = max_body_bytes

    def _host_is_ours(self, host: str) -> bool:
        # Rebinding needs a name that the attacker's DNS answers for; a bare address cannot be rebound.
        try:
            name = _host_name(host)
            ipaddress.ip_address(name)
        except ValueError:
            name = host.rpartition(":")[0].lower() if ":" in host else host.lower()
            return name in self.allowed_hosts
        return True

    def _origin_is_ours(self, origin: str, host: str) -> bool:
        return origin in self.allowed_origins or urlsplit(origin).netloc.lower() == host.lower()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        writes = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        refusal = None
        if not self._host_is_ours(host):
            refusal = PlainTextResponse("This host name is not one the console answers to.\n", 421)
        elif writes and origin is not None and not self._origin_is_ours(origin, host):
            refusal = PlainTextResponse("Writes from pages of other sites are refused.\n", 403)
        elif int(headers.get("content-length") or 0) > self.max_body_bytes:
            refusal = PlainTextResponse(f"The body may have at most {self.max_body_bytes} bytes.\n", 413)
        if refusal is not None:
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
            else:
                await refusal(scope, receive, send)
            return

        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            if message["type"] == "http.request":
                received += len(message.get("body", b""))
                if received > self.max_body_bytes:
                    raise HTTPException(413, f"The body may have at most {self.max_body_bytes} bytes.")
            return message

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    answer.setdefault(name, value)
                if not scope["path"].startswith("/static/"):
                    answer.setdefault("cache-control", "no-store")
            await send(message)

        await self.app(scope, counted, secured)
