"""The pages in a real browser: headless Chromium through Playwright."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from console_examples import FILES, HOSTILE, TOKEN, Desk, Voice, open_desk, serving

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
REQUIRED = os.environ.get("LIVERY_REQUIRE_BROWSER") == "1"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None and not REQUIRED,
        reason="Chromium is not installed (apt-get install chromium); LIVERY_REQUIRE_BROWSER=1 makes this a failure",
    ),
]

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--mute-audio",
]
MOUTH = "document.querySelector('#figure').dataset.mouth"
WATCH_MOUTH = """
globalThis.seen = { sources: new Set(), shapes: new Set(), open: 0 };
new MutationObserver(() => {
  const figure = document.querySelector("#figure");
  seen.sources.add(figure.dataset.source);
  seen.shapes.add(document.querySelector("#mouth").getAttribute("d"));
  seen.open = Math.max(seen.open, parseFloat(figure.dataset.mouth));
}).observe(document.querySelector("#figure"), { attributes: true });
"""
SKILL = "skills/item-qa/SKILL.md"


async def until(page: playwright.Page, condition: str) -> None:
    """Until a JavaScript expression holds. (Playwright's own wait evaluates text inside the page, which our
    Content-Security-Policy forbids.)"""
    look = f"() => ({condition}) ? done() : requestAnimationFrame(look)"
    async with asyncio.timeout(20):
        await page.evaluate(f"new Promise((done) => {{ const look = {look}; look(); }})")


class Browser:
    """A browser on one console; what its pages complain of is kept."""

    def __init__(self, desk: Desk, address: str, context: playwright.BrowserContext) -> None:
        self.desk = desk
        self.address = address
        self.context = context
        self.faults: list[str] = []

    async def open(self, path: str) -> playwright.Page:
        page = await self.context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", lambda dialog: asyncio.ensure_future(dialog.accept()))
        page.on("console", lambda line: self.faults.append(line.text) if "Security Policy" in line.text else None)
        await page.goto(self.address + path)
        return page

    async def sign_in(self) -> playwright.Page:
        page = await self.open("/")
        await page.fill("#token", TOKEN)
        await page.click("button.primary")
        await page.wait_for_selector("[data-live]")
        await page.wait_for_selector("#link-state[data-state=open]")
        return page


@asynccontextmanager
async def browsing(folder: Path, *, voice: Voice | None = None, flags: tuple[str, ...] = ()) -> AsyncIterator[Browser]:
    async with (
        asyncio.timeout(90),
        open_desk(folder, voice=voice) as desk,
        serving(desk) as address,
        playwright.async_playwright() as driver,
    ):
        launched = await driver.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *flags])
        context = await launched.new_context(viewport={"width": 1280, "height": 900})
        browser = Browser(desk, address, context)
        yield browser
        await context.close()
        await launched.close()
        assert browser.faults == []


async def test_the_stage_shows_a_reply_moves_the_mouth_and_keeps_hostile_text_inert(tmp_path: Path):
    async with browsing(tmp_path, voice=Voice(3.0)) as browser:
        page = await browser.open("/stage/demo?parts=avatar,subtitles,item,chat&mute=1")
        await page.wait_for_selector("body[data-connected='1']")
        title = await page.title()
        assert await page.evaluate(MOUTH) == "0"
        await page.evaluate(WATCH_MOUTH)
        await browser.desk.say(f"{HOSTILE} how much is the bag?", id="b1", name=HOSTILE)
        await until(page, "document.body.dataset.state === 'speaking'")
        assert await page.inner_text("#subtitle") == "The canvas bag is $29.99 today."
        assert await page.inner_text("#item-now") == "$29.99"
        assert await page.inner_text("#item-was") == "$39.99"
        assert await page.inner_text("#item-name") == "Canvas tote bag, natural"
        assert await page.inner_text(".chat b") == HOSTILE
        assert await page.locator(".chat img, .chat script").count() == 0
        await until(page, "document.body.dataset.state === 'idle'")
        await until(page, f"parseFloat({MOUTH}) === 0")
        # Nothing may play here: the decoded WAV's loudness moves the mouth instead.
        seen = await page.evaluate("({ sources: [...seen.sources], shapes: seen.shapes.size, open: seen.open })")
        assert "envelope" in seen["sources"]
        assert "analyser" not in seen["sources"]
        assert seen["shapes"] > 5
        assert seen["open"] > 0.2
        assert not await page.is_visible("#subtitle")
        assert await page.title() == title
        assert await page.inner_text("#ai-label") == "AI-generated host"
        for width, height in ((1920, 1080), (1080, 1920)):
            await page.set_viewport_size({"width": width, "height": height})
            for part in ("#ai-label", "#figure", ".chat", "#item"):
                box = await page.locator(part).bounding_box()
                assert box is not None
                assert -60 <= box["x"] < width, part
                assert box["x"] + box["width"] <= width + 60, part
            overlap = await page.evaluate(
                "(() => { const r = (s) => document.querySelector(s).getBoundingClientRect();"
                " const a = r('#item'), b = r('.chat');"
                " return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom })()"
            )
            assert overlap is False


async def test_where_sound_may_play_the_mouth_follows_the_playing_audio(tmp_path: Path):
    flags = ("--autoplay-policy=no-user-gesture-required",)
    async with browsing(tmp_path, voice=Voice(3.0), flags=flags) as browser:
        page = await browser.open("/stage/demo")
        await page.wait_for_selector("body[data-connected='1']")
        await browser.desk.say("how much is the bag?", id="b1")
        await until(page, "document.querySelector('#figure').dataset.source === 'analyser'")
        await until(page, f"parseFloat({MOUTH}) > 0.2")
        assert not await page.is_visible("#sound")


async def test_a_transparent_stage_lets_the_stream_shine_through(tmp_path: Path):
    async with browsing(tmp_path) as browser:
        page = await browser.open("/stage/demo?transparent=1&parts=avatar")
        assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgba(0, 0, 0, 0)"
        assert await page.is_visible("#ai-label")
        await page.wait_for_selector("body[data-connected='1']")
        # Without a voice the text itself moves the mouth for as long as it takes to read.
        await browser.desk.say("how much is the bag?", id="b1")
        await until(page, f"parseFloat({MOUTH}) > 0.2")
        assert await page.evaluate("document.querySelector('#figure').dataset.source") == "text"


async def test_an_operator_edits_lints_compares_publishes_and_rolls_back(tmp_path: Path):
    async with browsing(tmp_path) as browser:
        live = await browser.sign_in()
        await live.fill(".say [name=text]", "how much is the bag?")
        await live.click(".say button")
        await live.wait_for_selector(".row .said:text('The canvas bag is $29.99 today.')")

        page = await browser.open(f"/editor?path={SKILL}")
        await page.fill("#source", FILES[SKILL].replace("name: item-qa", "name: [item-qa"))
        await page.wait_for_selector("#problems .error")
        assert SKILL in await page.inner_text("#problems")
        await page.click("#publish")
        await page.wait_for_selector("#publish-result:has-text('Not published')")

        edited = FILES[SKILL].replace("The canvas bag is $29.99 today.", "It is $29.99 with free shipping.")
        await page.fill("#source", edited)
        await page.wait_for_selector("#diff .diff-ins:has-text('free shipping')")
        await page.reload()
        assert await page.input_value("#source") == edited  # the draft survives
        await page.fill("[name=note]", f"free shipping {HOSTILE}")
        await page.click("#publish")
        await page.wait_for_selector("[role=status]:has-text('The next answer follows it.')")
        assert f"free shipping {HOSTILE}" in await page.inner_text(".log")
        assert await page.locator(".log img").count() == 0

        await live.fill(".say [name=text]", "and how much is the bag now, please?")
        await live.fill(".say [name=viewer]", "other")
        await live.click(".say button")
        await live.wait_for_selector(".row .said:text('It is $29.99 with free shipping.')")

        await page.click("button:has-text('Roll back to this')")
        await page.wait_for_selector("[role=status]:has-text('Rolled back.')")
        await live.fill(".say [name=text]", "so what does the bag cost today?")
        await live.fill(".say [name=viewer]", "third")
        await live.click(".say button")
        await until(live, "document.querySelectorAll('.row').length === 3")
        assert await live.locator(".row .said").all_inner_texts() == [
            "The canvas bag is $29.99 today.",
            "It is $29.99 with free shipping.",
            "The canvas bag is $29.99 today.",
        ]
        await live.click(".row >> nth=0")
        await live.wait_for_selector("#drawer .trajectory:has-text('Round 3')")
        await live.keyboard.press("Escape")
        assert await live.locator("#drawer .trajectory").count() == 0


async def test_a_publication_by_somebody_else_shows_while_editing(tmp_path: Path):
    from console_examples import write_harness

    from livery.harness.folder import load_harness

    async with browsing(tmp_path) as browser:
        link = browser.desk.console.access.sign_in_link(browser.address)
        live = await browser.open(link.removeprefix(browser.address))
        await live.wait_for_selector("[data-live]")
        assert TOKEN not in live.url
        page = await browser.open(f"/editor?path={SKILL}")
        await page.fill("#source", FILES[SKILL] + "\nOne more line.\n")
        await page.wait_for_selector("#save-state:text('Draft saved')")
        other = write_harness(tmp_path / "other", **{SKILL: FILES[SKILL] + "\nTheir line.\n"})
        release = browser.desk.store.publish("stable", load_harness(other).harness).release
        await page.click("#publish")
        await page.wait_for_selector("#publish-result:has-text('meanwhile')")
        assert browser.desk.store.channel("stable").release == release
        await page.reload()
        await page.wait_for_selector("#conflict:has-text('Somebody published meanwhile')")
        assert SKILL in await page.inner_text("#conflict")


async def test_approving_editing_and_rejecting_replies_and_pausing(tmp_path: Path):
    async with browsing(tmp_path) as browser:
        page = await browser.sign_in()
        await page.click("#approval")
        await page.wait_for_selector("#approval[aria-checked=true]")
        await browser.desk.say(f"{HOSTILE} how much is the bag?", id="b1", name=HOSTILE)
        await page.wait_for_selector(".decision textarea")
        assert await page.locator(".decision img").count() == 0
        await page.fill(".decision textarea", "It is $29.99, friend.")
        # Another panel update must not take the operator's words away.
        await browser.desk.say("hello everybody", id="b2", name="Zoe")
        await page.wait_for_selector(".chat-lines :text('hello everybody')")
        await page.click(".decision .primary >> nth=0")
        await until(page, "document.querySelectorAll('.chat-lines .answered').length === 1")
        spoken = [e.text for e in browser.desk.room.recent(100) if e.kind == "speaking"]
        assert spoken == ["It is $29.99, friend."]

        await browser.desk.say("is the lamp in stock?", id="b3", name="Kim")
        await page.wait_for_selector(".decision:has-text('lamp')")
        await page.locator(".decision:has-text('lamp') .danger").click()
        await page.wait_for_selector(".chat-lines .dropped:has-text('lamp')")

        await page.click("#pause")
        await page.wait_for_selector(".state.paused")
        assert browser.desk.room.stats().paused
        await page.click("#pause")
        await page.wait_for_selector("#pause:text('Pause')")
        assert not browser.desk.room.stats().paused

        await page.select_option("#item-select", "2")
        await page.wait_for_selector(".now:has-text('Desk lamp with dimmer')")
        assert browser.desk.room.state().on_screen == "2"
