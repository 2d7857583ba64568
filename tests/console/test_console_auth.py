"""Who gets in: token, cookie, CSRF header, Host and Origin, stage keys, ingest tokens."""

from __future__ import annotations

import html
from pathlib import Path

import httpx
import pytest
from console_examples import TOKEN, Desk, open_desk

from livery.console.auth import SESSION_S, Access
from livery.console.context import ConsoleSettings

PAGES = ["/", "/editor", "/requests/x", "/ui/requests/x", "/ui/rooms/demo/events"]
READS = [
    "/api/rooms",
    "/api/rooms/demo/stats",
    "/api/rooms/demo/events",
    "/api/requests/x",
    "/api/harness/channels",
]
WRITES = [
    ("POST", "/ui/rooms/demo/pause"),
    ("POST", "/ui/rooms/demo/approval"),
    ("POST", "/ui/rooms/demo/interrupt"),
    ("POST", "/ui/rooms/demo/item"),
    ("POST", "/ui/rooms/demo/say"),
    ("POST", "/ui/rooms/demo/pending/r/approve"),
    ("POST", "/ui/rooms/demo/pending/r/reject"),
    ("PUT", "/ui/editor/stable/file?path=harness.yaml"),
    ("DELETE", "/ui/editor/stable/file?path=harness.yaml"),
    ("DELETE", "/ui/editor/stable/draft"),
    ("POST", "/ui/editor/stable/new"),
    ("POST", "/ui/editor/stable/publish"),
    ("POST", "/ui/editor/stable/rollback"),
    ("POST", "/ui/editor/stable/rebase"),
    ("POST", "/ui/editor/split"),
    ("PUT", "/api/harness/channels/stable/draft"),
    ("POST", "/api/harness/channels/stable/publish"),
    ("POST", "/api/harness/channels/stable/rollback"),
    ("POST", "/api/harness/splits"),
    ("POST", "/api/rooms/demo/messages"),
    ("POST", "/api/rooms/demo/deletions"),
]


async def sign_in(client: httpx.AsyncClient) -> str:
    """Signs in by the form; returns the CSRF value of the page."""
    answer = await client.post("/login", data={"token": TOKEN, "next": "/editor"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/editor"
    page = html.unescape((await client.get("/")).text)
    return page.split('X-Livery-CSRF": "')[1].split('"')[0]


async def test_a_page_without_the_token_leads_to_the_login_page(stranger: httpx.AsyncClient):
    for path in PAGES:
        answer = await stranger.get(path, headers={"accept": "text/html"})
        assert answer.status_code == 303, path
        assert answer.headers["location"].startswith("/login?next=%2F")


async def test_reading_the_api_without_the_token_is_401(stranger: httpx.AsyncClient):
    for path in READS:
        answer = await stranger.get(path)
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_writing_without_the_token_is_401_and_changes_nothing(desk: Desk, stranger: httpx.AsyncClient):
    before = desk.store.routing()
    for method, path in WRITES:
        answer = await stranger.request(method, path, json={})
        assert answer.status_code == 401, path
    assert desk.store.routing() == before
    assert not desk.room.stats().paused
    assert desk.room.stats().messages == 0


async def test_a_wrong_token_is_refused(stranger: httpx.AsyncClient):
    for token in ["", "wrong", TOKEN + "x", TOKEN[:-1], TOKEN.upper()]:
        headers = {"authorization": f"Bearer {token}"}
        assert (await stranger.get("/api/rooms", headers=headers)).status_code == 401
        answer = await stranger.post("/login", data={"token": token})
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers


async def test_the_cookie_is_httponly_strict_and_does_not_hold_the_token(stranger: httpx.AsyncClient):
    cookie = (await stranger.post("/login", data={"token": TOKEN})).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie


async def test_a_write_by_cookie_needs_the_csrf_header(desk: Desk, stranger: httpx.AsyncClient):
    csrf = await sign_in(stranger)
    assert (await stranger.post("/ui/rooms/demo/pause", data={"on": "true"})).status_code == 401
    assert not desk.room.stats().paused
    wrong = {"x-livery-csrf": csrf[:-1] + ("0" if csrf[-1] != "0" else "1")}
    assert (await stranger.post("/ui/rooms/demo/pause", data={"on": "true"}, headers=wrong)).status_code == 401
    right = {"x-livery-csrf": csrf}
    assert (await stranger.post("/ui/rooms/demo/pause", data={"on": "true"}, headers=right)).status_code == 204
    assert desk.room.stats().paused


async def test_signing_out_drops_the_cookie(stranger: httpx.AsyncClient):
    csrf = await sign_in(stranger)
    answer = await stranger.post("/logout", headers={"x-livery-csrf": csrf})
    assert answer.headers["hx-redirect"] == "/login"
    assert (await stranger.get("/api/rooms")).status_code == 401


async def test_the_login_page_leads_only_to_this_site(stranger: httpx.AsyncClient):
    for place in ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:1"]:
        answer = await stranger.post("/login", data={"token": TOKEN, "next": place})
        assert answer.headers["location"] == "/"


def access(**changes: object) -> Access:
    settings: dict[str, object] = {
        "token": TOKEN,
        "ingest_tokens": {},
        "public_stage": True,
        "public_chat": False,
        "clock": lambda: 1000.0,
    }
    return Access(**{**settings, **changes})  # pyright: ignore[reportArgumentType]


def test_a_session_ends_and_cannot_be_stretched():
    from starlette.requests import HTTPConnection

    def connection(session: str, cookie: str) -> HTTPConnection:
        headers = [(b"cookie", f"{cookie}={session}".encode())]
        return HTTPConnection({"type": "websocket", "headers": headers})

    now = access()
    session = now.new_session()
    later = access(clock=lambda: 1000.0 + SESSION_S + 1)
    expiry, nonce, signature = session.split(".")
    stretched = f"{int(expiry) + 999999}.{nonce}.{signature}"
    assert now.is_operator(connection(session, now.cookie))
    assert not later.is_operator(connection(session, now.cookie))
    assert not later.is_operator(connection(stretched, now.cookie))
    assert not now.is_operator(connection("", now.cookie))
    assert not now.is_operator(connection("...", now.cookie))
    assert access(token="another-token-entirely").cookie != now.cookie


def test_a_short_token_is_refused_at_start():
    with pytest.raises(ValueError, match="at least 16"):
        access(token="short")


async def test_addresses_and_localhost_are_answered(client: httpx.AsyncClient):
    for host in ["127.0.0.1:8700", "localhost:8700", "192.168.1.20:8700", "[::1]:8700", "[::1]"]:
        assert (await client.get("/healthz", headers={"host": host})).status_code == 200, host


async def test_other_names_are_refused_so_that_dns_cannot_be_rebound(client: httpx.AsyncClient):
    for host in ["evil.example", "evil.example:8700", "localhost.evil.example", "", "127.0.0.1.nip.example"]:
        assert (await client.get("/healthz", headers={"host": host})).status_code == 421, host


async def test_a_named_host_can_be_allowed(tmp_path: Path):
    settings = ConsoleSettings(allowed_hosts=frozenset({"studio.lan"}))
    async with open_desk(tmp_path, settings=settings) as desk, desk.client(host="studio.lan") as client:
        assert (await client.get("/healthz")).status_code == 200


async def test_writes_from_other_origins_are_refused_even_with_the_token(desk: Desk, client: httpx.AsyncClient):
    for origin in ["https://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8700"]:
        answer = await client.post("/ui/rooms/demo/pause", data={"on": "true"}, headers={"origin": origin})
        assert answer.status_code == 403, origin
    assert not desk.room.stats().paused


async def test_writes_from_our_own_origin_pass(client: httpx.AsyncClient):
    headers = {"origin": "http://127.0.0.1:8700"}
    assert (await client.post("/ui/rooms/demo/pause", data={"on": "false"}, headers=headers)).status_code == 204


async def test_every_answer_carries_the_security_headers_and_pages_no_inline_script(
    client: httpx.AsyncClient,
):
    for path in ["/", "/editor", "/login", "/stage/demo", "/healthz", "/nowhere"]:
        answer = await client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self';" in policy, path
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "<style" not in answer.text
        assert " style=" not in answer.text
        assert "<script>" not in answer.text
        assert " onclick=" not in answer.text


async def test_a_private_stage_opens_by_its_own_key_and_no_other_rooms(tmp_path: Path):
    settings = ConsoleSettings(public_stage=False)
    async with open_desk(tmp_path, settings=settings) as desk, desk.client(signed_in=False) as stranger:
        key = desk.console.access.stage_key("demo")
        assert (await stranger.get("/stage/demo")).status_code == 403
        assert (await stranger.get(f"/stage/demo?key={desk.console.access.stage_key('other')}")).status_code == 403
        assert (await stranger.get("/stage/demo/audio?id=x")).status_code == 403
        page = await stranger.get(f"/stage/demo?key={key}")
        assert page.status_code == 200
        assert f"/stage/demo/events?key={key}" in page.text
        assert (await stranger.get(f"/api/rooms/demo/stats?key={key}")).status_code == 401


async def test_an_ingest_token_sends_chat_to_its_room_and_does_nothing_else(tmp_path: Path):
    settings = ConsoleSettings(ingest_tokens={"demo": "ingest-token"}, public_chat=True)
    async with open_desk(tmp_path, settings=settings) as desk, desk.client(signed_in=False) as stranger:
        message = {"viewer": "v1", "text": "how much is the bag?"}
        right = {"authorization": "Bearer ingest-token"}
        wrong = {"authorization": "Bearer ingest-tokem"}
        path = "/api/rooms/demo/messages"
        assert (await stranger.post(path, json=message)).status_code == 401
        assert (await stranger.post(path, json=message, headers=wrong)).status_code == 401
        assert (await stranger.post(path, json=message, headers=right)).status_code == 200
        assert (await stranger.post("/ui/rooms/demo/pause", data={"on": "true"}, headers=right)).status_code == 401
        assert (await stranger.get("/api/rooms/demo/stats", headers=right)).status_code == 401


async def test_public_chat_lets_anyone_write_to_a_room_without_a_token_of_its_own(tmp_path: Path):
    settings = ConsoleSettings(public_chat=True)
    async with open_desk(tmp_path, settings=settings) as desk, desk.client(signed_in=False) as stranger:
        answer = await stranger.post("/api/rooms/demo/messages", json={"viewer": "v", "text": "price of link 1?"})
        assert answer.json()["messages"][0]["accepted"] is True


async def test_metrics_can_be_closed(tmp_path: Path):
    settings = ConsoleSettings(public_metrics=False)
    async with open_desk(tmp_path, settings=settings) as desk:
        async with desk.client(signed_in=False) as stranger:
            assert (await stranger.get("/metrics")).status_code == 401
        async with desk.client() as client:
            assert (await client.get("/metrics")).status_code == 200
