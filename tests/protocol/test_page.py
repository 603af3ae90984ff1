"""The page of `hmt serve` in a real browser: Playwright drives Debian's chromium."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hmt.streaming.record import Record

PAGE = Path(__file__).resolve().parents[2] / "src" / "hmt" / "server" / "page"
FILES = sorted(PAGE.iterdir())
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PHONE = {"width": 320, "height": 640}
DESK = {"width": 1280, "height": 800}
SENTENCE = "Ich habe gestern leider keine Zeit gehabt, dich noch anzurufen."
MILLISECONDS = 90_000  # machines of continuous integration are slow

# ---- the files themselves


def test_the_page_is_small() -> None:
    assert sum(path.stat().st_size for path in FILES) < 60_000


def test_nothing_is_inline_and_nothing_is_fetched_from_elsewhere() -> None:
    for path in FILES:
        text = path.read_text()
        assert "innerHTML" not in text and "insertAdjacentHTML" not in text, path.name
        for address in re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text):
            assert address in ("http://www.w3.org",), f"{path.name} names {address}"
        if path.suffix == ".html":
            assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text), (
                path.name
            )


# ---- in a browser


@contextmanager
def serving(*options: str) -> Iterator[str]:
    """The address of a server of its own."""
    pytest.importorskip("hmt.server.app", reason="needs the live server: pip install hmt[serve]")
    # a busy machine must not turn the tests away
    command = [sys.executable, "-m", "hmt", "serve", "--port", "0", "--delay-ms", "60000", *options]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout is not None
    try:
        for line in server.stdout:
            if found := re.search(r"http://\S+/", line):
                yield found[0]
                break
        else:
            pytest.fail("the server did not start")
    finally:
        server.terminate()
        server.wait(60)
        server.stdout.close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if CHROMIUM is None:
        pytest.skip("needs a browser: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


Visit = Callable[..., Any]


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Visit]:
    """Opens pages; whatever test it is, no request leaves the origin and nothing is reported."""
    faults: list[str] = []
    contexts = []

    def request_made(request: Any) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            faults.append(f"asks for {request.url}")

    def told(message: Any) -> None:
        # a lost connection is reported by the browser itself, whatever a page does
        if message.type == "error" and "WebSocket" not in message.text:
            faults.append(message.text)

    def open_page(path: str = "", before: str = "", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": DESK, **options})
        contexts.append(context)
        context.set_default_timeout(MILLISECONDS)
        if before:
            context.add_init_script(before)
        page = context.new_page()
        page.on("request", request_made)
        page.on("console", told)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(address + path)
        return page

    open_page.faults = faults  # type: ignore[attr-defined]
    yield open_page
    for context in contexts:
        context.close()
    assert not faults


def say(page: Any, text: str) -> None:
    """All words at once: letter by letter, a busy machine makes pauses that end sentences."""
    page.locator("#word").fill(text)


def wait_for(page: Any, claim: str) -> None:
    """Until a claim about the page holds; a function, because its policy forbids eval."""
    page.wait_for_function(f"() => {claim}")


def target(page: Any) -> str:
    lines: list[str] = page.locator(".row > .target").all_inner_texts()
    return " ".join(lines)


def sentences_done(page: Any, count: int) -> None:
    wait_for(page, f"document.querySelectorAll('.row:not(.open)').length >= {count}")


def test_typed_words_are_translated(visit: Visit) -> None:
    page = visit()
    say(page, f"{SENTENCE} U")
    page.locator("#word").press_sequentially("nd")
    sentences_done(page, 1)
    assert page.locator(".row").first.locator(".source").inner_text() == SENTENCE
    assert len(target(page).split()) > 3
    assert page.locator("#word").input_value() == "Und", "the unfinished word can still be edited"
    assert page.locator("#welcome").is_hidden()


def test_enter_ends_a_sentence(visit: Visit) -> None:
    reasons: list[str] = []

    def received(frame: str) -> None:
        event = json.loads(frame)
        if event["type"] == "session.output_transcript.done":
            reasons.append(event["hmt"]["reason"])

    page = visit("?none")
    page.on("websocket", lambda ws: ws.on("framereceived", received))
    page.reload()
    say(page, "Guten Morgen")
    page.keyboard.press("Enter")
    sentences_done(page, 1)
    assert target(page)
    assert reasons == ["enter"], "and not the pause that ends every sentence"


def test_text_only_grows(visit: Visit) -> None:
    page = visit()
    page.evaluate(
        """() => {
            window.seen = "";
            window.changed = [];
            new MutationObserver(() => {
                const lines = [...document.querySelectorAll(".row > .target")];
                const now = lines.map((line) => line.textContent).join(" ");
                if (!now.startsWith(window.seen.trimEnd())) window.changed.push([window.seen, now]);
                window.seen = now;
            }).observe(document.getElementById("rows"), {
                childList: true, subtree: true, characterData: true });
        }"""
    )
    say(page, f"{SENTENCE} {SENTENCE} ")
    sentences_done(page, 2)
    assert page.evaluate("() => window.changed") == []


def test_the_dial_sends_what_moved_and_says_when_it_applies(visit: Visit) -> None:
    sent: list[dict[str, Any]] = []
    page = visit("?none")
    page.on(
        "websocket", lambda ws: ws.on("framesent", lambda frame: sent.append(json.loads(frame)))
    )
    page.reload()
    wait_for(page, "document.body.dataset.state === 'live'")
    say(page, "Ich habe gestern ")  # a sentence is open
    moved = {}
    for name, label, when in (
        ("threshold", "Certainty", "from now on"),
        ("lower", "Head start", "from the next sentence"),
    ):
        usual = page.locator(f"#knob-{name}").input_value()
        page.locator(f"#knob-{name}").press("ArrowRight")
        moved[name] = float(page.locator(f"#knob-{name}").input_value())
        assert moved[name] > float(usual)
        shown = page.locator(f"output[for=knob-{name}]").inner_text()
        page.locator("#applies", has_text=f"{label} {shown} {when}").wait_for()
    knobs = [e["session"]["hmt"].get("knobs") for e in sent if e["type"] == "session.update"]
    assert all({name: value} in knobs for name, value in moved.items())
    page.locator("#reset").click()
    wait_for(page, f"Number(document.getElementById('knob-lower').value) < {moved['lower']}")
    shown = page.locator("output[for=knob-threshold]").inner_text()
    page.locator("#applies", has_text=f"Certainty {shown}").wait_for()


def test_a_sample_is_played_at_speaking_pace(visit: Visit) -> None:
    page = visit()
    page.evaluate(
        """() => {
            window.times = [];
            new MutationObserver((changes) => {
                const added = changes.flatMap(({ addedNodes }) => [...addedNodes]);
                const spoken = added.filter((node) => node.classList?.contains("s"));
                if (spoken.length) window.times.push([performance.now(), spoken.length]);
            }).observe(document.getElementById("rows"), { childList: true, subtree: true });
        }"""
    )
    page.locator("#welcome .primary").click()
    wait_for(page, "window.times.length >= 5")
    page.locator("#play").click()
    times = page.evaluate("() => window.times")
    # a busy machine is slower than that, never faster: two and a half words per second
    assert times[4][0] - times[0][0] > 4 * 390
    assert {count for _, count in times[1:]} == {1}
    page.wait_for_timeout(1000)
    assert len(page.evaluate("() => window.times")) == len(times)


PASTE = """(text) => {
    const data = new DataTransfer();
    data.setData("text", text);
    const paste = { clipboardData: data, bubbles: true, cancelable: true };
    document.getElementById("word").dispatchEvent(new ClipboardEvent("paste", paste));
}"""


def test_pasted_text_goes_in_by_itself_or_all_at_once(visit: Visit) -> None:
    sent: list[dict[str, Any]] = []
    page = visit("?none")
    page.on(
        "websocket", lambda ws: ws.on("framesent", lambda frame: sent.append(json.loads(frame)))
    )
    page.reload()
    wait_for(page, "document.body.dataset.state === 'live'")
    page.evaluate(PASTE, f"{SENTENCE} " * 6)
    wait_for(page, "document.querySelectorAll('.row .s').length > 1")
    page.locator("#faster").click()
    sentences_done(page, 6)
    assert page.locator("#queue").is_hidden()
    assert page.locator(".row > .source").all_inner_texts() == [SENTENCE] * 6
    sizes = [len(event["words"]) for event in sent if event["type"].endswith("append")]
    assert sizes[0] == 1 and max(sizes) == 20


def test_why_it_waited(visit: Visit) -> None:
    page = visit()
    say(page, f"{SENTENCE} ")
    sentences_done(page, 1)
    page.get_by_role("button", name="Sentence 1: why did it wait?").click()
    first = page.locator(".picked").inner_text()
    assert first == target(page).split()[0]
    assert "Written after" in page.locator("#why-body").inner_text()
    assert page.locator(".bars li.wrote").count() == 1
    page.get_by_role("button", name="Next word").click()
    assert page.locator(".picked").inner_text() == target(page).split()[1]
    page.locator(".row .target .w").last.click()
    assert page.locator(".picked").inner_text() == target(page).split()[-1]


RECOGNISER = """
window.SpeechRecognition = class {
    start() {
        window.recogniser = this;
    }
    stop() {}
    hear(text, isFinal) {
        const result = Object.assign([{ transcript: text }], { isFinal });
        this.onresult({ resultIndex: 0, results: [result] });
    }
};
"""


def allow(page: Any) -> None:
    """Turn the microphone on and agree to it."""
    page.locator("#mic").click()
    page.locator("#consent").get_by_role("button", name="Use the microphone").click()
    wait_for(page, "window.recogniser")


def test_each_word_can_stand_under_what_was_heard(visit: Visit) -> None:
    page = visit()
    say(page, f"{SENTENCE} ")
    sentences_done(page, 1)
    text = target(page)
    page.get_by_role("button", name="View").click()
    page.get_by_label("Each word under what was heard").check()
    assert page.locator(".column .source").all_inner_texts() == SENTENCE.split()
    under = " ".join(page.locator(".column .target").all_inner_texts())
    assert under.split() == text.split()


def test_guesses_are_seen_there_too(visit: Visit) -> None:
    page = visit(before=RECOGNISER)
    page.get_by_role("button", name="View").click()
    page.get_by_label("Each word under what was heard").check()
    page.keyboard.press("Escape")
    allow(page)
    page.evaluate("() => window.recogniser.hear('Ich habe', false)")
    page.locator(".gloss .tail", has_text="Ich habe").wait_for()


def test_downloads(visit: Visit, tmp_path: Path) -> None:
    webvtt = pytest.importorskip("webvtt")
    page = visit()
    say(page, f"{SENTENCE} {SENTENCE} ")
    sentences_done(page, 2)
    page.get_by_role("button", name="Save").click()
    saved = {}
    for name, kind in (("Text", "txt"), ("SRT", "srt"), ("WebVTT", "vtt"), ("JSONL", "jsonl")):
        with page.expect_download() as download:
            page.get_by_role("button", name=name, exact=True).click()
        saved[kind] = tmp_path / f"x.{kind}"
        download.value.save_as(saved[kind])
    words = target(page).split()
    assert saved["txt"].read_text().splitlines()[0] == SENTENCE
    for cues in (webvtt.read(str(saved["vtt"])), webvtt.from_srt(str(saved["srt"]))):
        assert " ".join(cue.text for cue in cues).split() == words
        assert all(len(line) <= 42 for cue in cues for line in cue.lines)
        times = [t for cue in cues for t in (cue.start_in_seconds, cue.end_in_seconds)]
        assert times == sorted(times)
    records = [Record.from_json(line) for line in saved["jsonl"].read_text().splitlines()]
    assert " ".join(record.prediction for record in records).split() == words


def watched(visit: Visit) -> tuple[Any, list[Any]]:
    """A live page, and its connections, which a test may cut."""
    page = visit("?none")
    routes: list[Any] = []

    def connect(route: Any) -> None:
        routes.append(route)
        route.connect_to_server()

    page.route_web_socket(re.compile("realtime"), connect)
    page.reload()
    wait_for(page, "document.body.dataset.state === 'live'")
    return page, routes


def test_a_lost_connection_costs_no_word(visit: Visit) -> None:
    whole = visit()
    say(whole, f"{SENTENCE} ")
    sentences_done(whole, 1)
    page, routes = watched(visit)
    start, rest = SENTENCE[:30].rsplit(" ", 1)[0], SENTENCE[:30].rsplit(" ", 1)[1] + SENTENCE[30:]
    say(page, f"{start} ")
    wait_for(page, "document.querySelectorAll('.row .w').length > 0")
    routes[-1].close(code=1012, reason="cut")
    say(page, f"{rest} ")
    sentences_done(page, 1)
    assert len(routes) > 1 and "resume" in routes[-1].url
    assert target(page) == target(whole)
    assert page.locator(".row .source").all_inner_texts() == [SENTENCE]


def test_speech_needs_consent_and_shows_guesses_in_grey(visit: Visit) -> None:
    page = visit(before=RECOGNISER)
    page.locator("#mic").click()
    assert "send the sound to its maker" in page.locator("#consent").inner_text()
    page.get_by_role("button", name="Not now").click()
    assert page.evaluate("() => window.recogniser") is None
    allow(page)
    page.evaluate("() => window.recogniser.hear('Ich habe', false)")
    page.locator(".tail", has_text="Ich habe").wait_for()
    page.evaluate("() => window.recogniser.hear('Ich habe keine Zeit', false)")
    page.locator(".tail", has_text="keine Zeit").wait_for()
    assert page.locator(".row .s").all_inner_texts() == ["Ich", "habe"], "both guesses had them"
    page.evaluate("() => window.recogniser.hear('Ich habe keine Zeit gehabt', true)")
    sentences_done(page, 1)
    assert page.locator(".row .source").inner_text() == "Ich habe keine Zeit gehabt"
    assert target(page)


def test_what_is_said_last_is_heard_after_the_microphone_is_stopped(visit: Visit) -> None:
    page = visit(before=RECOGNISER)
    allow(page)
    page.evaluate("() => window.recogniser.hear('Ich habe', false)")
    page.locator(".tail", has_text="Ich habe").wait_for()
    page.locator("#mic").click()
    page.evaluate("() => window.recogniser.hear('Ich habe keine Zeit gehabt', true)")
    page.evaluate("() => window.recogniser.onend()")
    sentences_done(page, 1)
    say(page, "Guten Morgen ")  # belongs to the next sentence, and is shown once
    wait_for(page, "document.querySelectorAll('.row').length === 2")
    sources = [text.strip() for text in page.locator(".row .source").all_inner_texts()]
    assert sources == ["Ich habe keine Zeit gehabt", "Guten Morgen"]


def test_words_typed_beside_speech_are_shown_once(visit: Visit) -> None:
    page = visit(before=RECOGNISER)
    wait_for(page, "document.body.dataset.state === 'live'")
    allow(page)
    say(page, f"{SENTENCE} ")
    sentences_done(page, 1)
    assert page.locator(".row .source").all_inner_texts() == [SENTENCE]


# ---- rooms


def test_a_room_is_read_on_phones_and_on_a_projector(visit: Visit) -> None:
    speaker = visit()
    speaker.get_by_role("button", name="Share").click()
    speaker.get_by_role("button", name="Open a room").click()
    links = [speaker.locator(f"#link-{name}").input_value() for name in ("listen", "captions")]
    wait_for(speaker, "document.body.dataset.state === 'live'")
    phone, wall = (visit(link.split("/", 3)[3]) for link in links)
    wait_for(phone, "document.body.dataset.state === 'listening'")
    wall.evaluate(
        """() => {
            window.moved = [];
            const seen = new Map();
            new MutationObserver(() => {
                const lines = [...document.querySelectorAll("#lines p")];
                for (const line of lines) {
                    const text = line.textContent;
                    if (!text.startsWith(seen.get(line) ?? "")) window.moved.push(text);
                    seen.set(line, text);
                }
                window.most = Math.max(window.most ?? 0, lines.length);
            }).observe(document.getElementById("lines"), {
                childList: true, subtree: true, characterData: true });
        }"""
    )
    speaker.keyboard.press("Escape")
    say(speaker, f"{SENTENCE} {SENTENCE} {SENTENCE} ")
    sentences_done(speaker, 3)
    sentences_done(phone, 3)
    for _ in range(100):  # a page that is not in front shows what it has when it gets to it
        if target(phone) == target(speaker):
            break
        phone.wait_for_timeout(100)
    assert target(phone) == target(speaker)
    assert phone.locator(".row > .source").all_inner_texts() == [SENTENCE] * 3
    assert phone.locator("#word").is_hidden()
    shown = " ".join(wall.locator("#lines p").all_inner_texts())
    assert shown and target(speaker).endswith(shown)
    assert wall.evaluate("() => [window.moved, window.most]") == [[], 2]


def test_a_room_is_still_there_after_a_reload(visit: Visit) -> None:
    page = visit()
    page.get_by_role("button", name="Share").click()
    page.get_by_role("button", name="Open a room").click()
    link = page.locator("#link-listen").input_value()
    assert page.locator("#loopback").is_visible(), "phones do not reach 127.0.0.1"
    wait_for(page, "document.body.dataset.state === 'live'")
    page.reload()
    wait_for(page, "document.body.dataset.state === 'live'")
    assert page.locator("#link-listen").input_value() == link


def test_listeners_have_no_dead_controls(visit: Visit) -> None:
    page = visit("?listen=quiet")
    assert "appears here" in page.locator("#welcome").inner_text()
    assert page.locator("#welcome button").first.is_hidden()
    speaker = visit("?room=quiet")
    wait_for(speaker, "document.body.dataset.state === 'live'")
    say(speaker, f"{SENTENCE} ")
    sentences_done(page, 1)
    assert page.locator(".row .number").is_hidden()
    page.locator(".row .w").first.click(force=True)
    assert page.locator(".chosen").count() == 0


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def test_links_to_a_room_let_people_listen_and_nothing_else(browser: Any, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"ana {hashed('own-secret')} translate,speak:*\n")
    with serving("--token-file", str(tokens)) as address:
        speaker = browser.new_page()
        speaker.set_default_timeout(MILLISECONDS)
        speaker.goto(f"{address}#token=own-secret")
        wait_for(speaker, "document.body.dataset.state === 'live'")
        speaker.get_by_role("button", name="Share").click()
        speaker.get_by_role("button", name="Open a room").click()
        wait_for(speaker, "document.getElementById('link-listen').value.includes('token=lk_')")
        link = speaker.locator("#link-listen").input_value()
        assert "secret" not in link
        phone = browser.new_page()
        phone.set_default_timeout(MILLISECONDS)
        phone.goto(link)
        wait_for(phone, "document.body.dataset.state === 'listening'")
        assert "English" in phone.locator("#pair").inner_text()
        guest = re.search("token=(lk_.+)", link)
        assert guest
        stranger = browser.new_page()
        stranger.goto(f"{address}?room=other#token={guest[1]}")
        stranger.get_by_text("does not grant speak:other").wait_for()
        for page in (speaker, phone, stranger):
            page.close()


def test_captions_are_transparent_where_asked(visit: Visit) -> None:
    def background(page: Any, element: str) -> str:
        found: str = page.evaluate(f"() => getComputedStyle(document.{element}).backgroundColor")
        return found

    clear = visit("captions?room=empty&bg=transparent")
    assert background(clear, "body") == background(clear, "documentElement") == "rgba(0, 0, 0, 0)"
    dark = visit("captions?room=empty")
    assert background(dark, "body") == "rgb(0, 0, 0)"
    # what OBS puts into every page that it shows
    dark.evaluate(
        """() => {
            const sheet = new CSSStyleSheet();
            sheet.replaceSync("body { background-color: rgba(0, 0, 0, 0); margin: 0px auto; }");
            document.adoptedStyleSheets = [sheet];
        }"""
    )
    assert background(dark, "body") == "rgba(0, 0, 0, 0)"


def test_captions_without_a_room_say_what_is_missing(visit: Visit) -> None:
    assert "/captions?room=" in visit("captions").locator("#state").inner_text()


# ---- for everybody


def overflow(page: Any) -> int:
    wide: int = page.evaluate(
        "() => Math.max(document.documentElement.scrollWidth - innerWidth,"
        " ...['stage', 'rail'].map((id) => document.getElementById(id))"
        ".map((box) => box.scrollWidth - box.clientWidth))"
    )
    return wide


def test_a_phone_never_scrolls_sideways(visit: Visit) -> None:
    page = visit(viewport=PHONE)
    assert overflow(page) <= 0
    say(page, f"{SENTENCE} Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen ")
    sentences_done(page, 1)
    assert overflow(page) <= 0
    for name in ("View", "Share", "Save", "Dial"):
        page.get_by_role("button", name=name, exact=True).click()
        assert overflow(page) <= 0, name
        page.keyboard.press("Escape")
    page.get_by_role("button", name="View").click()
    page.get_by_label("Each word under what was heard").check()
    page.locator("#size").fill("2.5")
    assert overflow(page) <= 0, "large text"


def test_on_a_phone_the_dial_and_the_reasons_are_two_sheets(visit: Visit) -> None:
    page = visit(viewport=PHONE)
    say(page, f"{SENTENCE} ")
    sentences_done(page, 1)
    assert page.locator("#rail").is_hidden()
    button = page.get_by_role("button", name="Sentence 1: why did it wait?")
    button.press("Enter")
    assert page.locator(".picked").is_visible() and page.locator("#knobs").is_hidden()
    focus = "() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.id"
    assert page.evaluate(focus) == "Close"
    page.keyboard.press("Escape")
    assert page.evaluate(focus).startswith("Sentence 1")
    page.locator("#tune").click()
    assert page.locator("#knobs").is_visible() and page.locator("#why").is_hidden()
    page.locator("#rail-close").click()
    assert page.locator("#rail").is_hidden()
    assert page.evaluate(focus) == "tune"


def test_messages_move_nothing(visit: Visit) -> None:
    page, routes = watched(visit)
    parts = """() => ["stage", "form"].map((id) => document.getElementById(id))
        .map(({ offsetTop, offsetHeight }) => offsetTop + offsetHeight)"""
    before = page.evaluate(parts)
    routes[-1].send(
        json.dumps({"type": "session.notice", "hmt": {"code": "lagging", "message": "It is late."}})
    )
    page.locator("#message", has_text="It is late.").wait_for()
    assert page.evaluate(parts) == before


def test_zoomed_in_the_field_and_the_newest_words_stay_in_sight(visit: Visit) -> None:
    page = visit(viewport={"width": 640, "height": 400})  # 1280 by 800 at 200 %
    say(page, f"{SENTENCE} " * 6)
    sentences_done(page, 6)
    wait_for(
        page,
        """[document.getElementById("word"), [...document.querySelectorAll(".row")].at(-1)]
            .map((one) => one.getBoundingClientRect())
            .every(({ top, bottom }) => top >= 0 && bottom <= innerHeight)""",
    )
    page.locator("#play").scroll_into_view_if_needed()
    assert page.locator("#play").is_visible()
    assert overflow(page) <= 0


def test_all_controls_are_reached_by_keyboard(visit: Visit) -> None:
    page = visit()
    say(page, f"{SENTENCE} ")
    sentences_done(page, 1)
    wanted = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, summary")]
            .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.disabled)
            .map((one) => one.id || one.textContent.trim())"""
    )
    reached, invisible = set(), []
    for _ in range(2 * len(wanted) + 10):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            """() => [document.activeElement.id || document.activeElement.textContent.trim(),
                getComputedStyle(document.activeElement).outlineStyle]"""
        )
        reached.add(name)
        if outline == "none" and name not in ("stage",):
            invisible.append(name)
    assert set(wanted) <= reached
    assert len(wanted) > 10
    assert not [name for name in invisible if name in wanted], "focus must be seen"


def test_keys_work_without_a_mouse(visit: Visit) -> None:
    page = visit()
    page.locator("#stage").focus()
    page.keyboard.press("p")
    wait_for(page, "document.querySelectorAll('.row .s').length > 0")
    page.keyboard.press("p")
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.id") == "word"
    page.keyboard.type("p / ? ")
    wait_for(page, "document.querySelector('.rows, #rows').textContent.includes('p / ?')")
    page.locator("#stage").focus()
    page.keyboard.press("?")
    assert page.locator("#view").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("#view").is_hidden()


CONTROLS = {"button", "textbox", "slider", "combobox", "radio", "checkbox", "link", "image", "img"}


def test_every_control_has_a_name(visit: Visit) -> None:
    page = visit()
    say(page, f"{SENTENCE} ")
    sentences_done(page, 1)
    page.locator(".row .w").first.click()
    page.locator("summary").click()
    for popover in (None, "View", "Share", "Save"):
        if popover:
            page.get_by_role("button", name=popover).click()
        client = page.context.new_cdp_session(page)
        nodes = client.send("Accessibility.getFullAXTree")["nodes"]
        found = [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node.get("ignored") and node["role"]["value"] in CONTROLS
        ]
        assert len(found) > 10
        assert not [role for role, name in found if not name.strip()], popover


# Contrast as WCAG 2.2 defines it, of every element that has text of its own.
CONTRAST = """() => {
    const canvas = document.createElement("canvas").getContext("2d");
    const rgba = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = ([r, g, b]) => {
        const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
        return 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
    };
    const behind = (node) => {
        for (; node; node = node.parentElement) {
            const colour = rgba(getComputedStyle(node).backgroundColor);
            if (colour[3] === 255) return colour;
        }
        return [255, 255, 255, 255];
    };
    const poor = [];
    let count = 0;
    for (const node of document.querySelectorAll("body *")) {
        const texts = [...node.childNodes].filter(({ nodeType }) => nodeType === Node.TEXT_NODE);
        if (!texts.some(({ data }) => data.trim()) || node.matches(":disabled")) continue;
        if (!node.checkVisibility({ visibilityProperty: true })) continue;
        const [one, two] = [light(rgba(getComputedStyle(node).color)), light(behind(node))];
        const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
        count += 1;
        if (ratio < 4.5) poor.push([node.className || node.id || node.tagName, ratio]);
    }
    return [count, poor];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_enough_in_both_themes(visit: Visit, scheme: str) -> None:
    page = visit(color_scheme=scheme)
    say(page, f"{SENTENCE} ")
    sentences_done(page, 1)
    # every ink, whatever the model was sure of
    page.evaluate(
        """() => document.querySelectorAll(".row > .target .w").forEach((word, k) => {
            word.classList.remove("c1", "c2", "c3", "c4");
            word.classList.add(`c${1 + (k % 4)}`);
        })"""
    )
    page.locator(".row .w").last.click()
    page.get_by_role("button", name="View").click()
    count, poor = page.evaluate(CONTRAST)
    assert count > 25
    assert poor == []


def test_colours_and_size_are_remembered(visit: Visit) -> None:
    page = visit(color_scheme="light")

    def look() -> list[str]:
        found: list[str] = page.evaluate(
            "() => [getComputedStyle(document.body).backgroundColor,"
            " getComputedStyle(document.getElementById('rows')).fontSize]"
        )
        return found

    light, usual = look()
    page.get_by_role("button", name="View").click()
    page.get_by_label("Colours").select_option("dark")
    page.get_by_label("Text size").fill("2")
    dark, large = look()
    assert dark != light and large != usual
    page.reload()
    assert look() == [dark, large]
    page.get_by_role("button", name="View").click()
    assert page.get_by_label("Colours").input_value() == "dark"
    assert page.get_by_label("Text size").input_value() == "2"


def test_nothing_moves_where_motion_is_not_wanted(visit: Visit) -> None:
    page = visit(reduced_motion="reduce")
    say(page, f"{SENTENCE} ")
    wait_for(page, "document.querySelectorAll('.row .w').length > 0")
    assert page.evaluate("() => document.getAnimations().length") == 0


def test_certainty_is_seen_without_colours(visit: Visit) -> None:
    page = visit(forced_colors="active")
    say(page, f"{SENTENCE} ")
    sentences_done(page, 1)
    page.evaluate("() => (document.querySelector('.row .w').className = 'w c4')")
    line = page.locator(".row .w").first.evaluate("(w) => getComputedStyle(w).textDecorationStyle")
    assert line == "wavy"


def test_languages_are_named_for_readers_aloud(visit: Visit) -> None:
    page = visit()
    say(page, "Guten ")
    row = page.locator(".row").first
    # a row may begin before the page knows the languages; it gets them then
    row.locator(".source[lang=de]").wait_for()
    row.locator(".target[lang=en]").wait_for(state="attached")
    assert page.locator("#rows").get_attribute("aria-live") == "off"
    page.get_by_role("button", name="View").click()
    page.get_by_label("Announce sentences").check()
    page.keyboard.press("Escape")
    say(page, "Morgen. ")
    sentences_done(page, 1)
    assert page.locator("#announce").text_content() == target(page)


def test_text_may_run_from_right_to_left(visit: Visit) -> None:
    def answer(route: Any) -> None:
        models = route.fetch().json()
        models["data"][0]["hmt"] |= {"source_language": "he", "target_language": "ar"}
        route.fulfill(json=models)

    page = visit("?none")
    page.route("**/v1/models", answer)
    page.reload()
    page.locator("#pair", has_text="Hebrew").wait_for()
    say(page, "שלום לכולם, זה משפט. ")
    sentences_done(page, 1)
    page.locator(".row .w").last.click()
    for part in (".row > .source", ".row > .target", ".picked", ".heard", ".bars span"):
        assert page.locator(part).first.get_attribute("dir") == "rtl", part
    page.locator("#word").fill("שלום")
    assert page.locator("#word").evaluate("(field) => field.matches(':dir(rtl)')")


VENV = os.environ.get("HMT_CLIENTS_VENV", "")
AXE = Path(VENV).resolve() / "node_modules" / "axe-core" / "axe.min.js"


def barriers(page: Any) -> list[Any]:
    """What axe-core finds against WCAG 2.2 AA, once words have faded in."""
    wait_for(page, "document.getAnimations().every((a) => a.playState !== 'running')")
    page.evaluate(AXE.read_text())
    levels = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']"
    found = page.evaluate(f"() => axe.run({{ runOnly: {levels} }})")
    assert len(found["passes"]) > 5
    return [(v["id"], [n["html"] for n in v["nodes"]]) for v in found["violations"]]


@pytest.mark.skipif(not VENV or not AXE.exists(), reason="HMT_CLIENTS_VENV has no axe-core")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_axe_finds_no_barrier(visit: Visit, scheme: str, size: dict[str, int]) -> None:
    page = visit(color_scheme=scheme, viewport=size)
    say(page, f"{SENTENCE} ")
    sentences_done(page, 1)
    page.locator(".row .w").last.click()  # opens a sheet on a phone
    assert barriers(page) == []
    page.keyboard.press("Escape")
    if page.locator("#tune").is_visible():
        page.locator("#tune").click()
    page.locator("summary").click()
    assert barriers(page) == []
    page.keyboard.press("Escape")
    for name in ("View", "Share", "Save"):
        page.get_by_role("button", name=name, exact=True).click()
        assert barriers(page) == [], name
        page.keyboard.press("Escape")
    assert barriers(visit("captions?room=empty&bg=light", color_scheme=scheme)) == []


def test_every_setting_with_a_choice_is_on_the_dial(visit: Visit) -> None:
    page = visit()
    say(page, "Ich habe ")  # a sentence is open
    page.locator("summary").click()
    for name, when in (("policy", "from now on"), ("attention", "from the next sentence")):
        select = page.get_by_label(name)
        usual = select.input_value()
        choices = select.locator("option").all_inner_texts()
        other = next(choice for choice in choices if choice != usual)
        select.select_option(other)
        page.locator("#applies", has_text=f"{name} {other} {when}").wait_for()
        select.select_option(usual)
        page.locator("#applies", has_text=f"{name} {usual}").wait_for()


def test_a_new_version_is_loaded_whole(address: str) -> None:
    """Without it, browsers keep scripts of an old version for days beside a new page."""
    for name in ("", "static/app.js", "static/style.css"):
        with urllib.request.urlopen(address + name) as answer:
            assert answer.headers["Cache-Control"] == "no-cache"


def test_a_violation_of_the_policy_would_be_noticed(visit: Visit) -> None:
    """The browser reports one as an error, and `visit` fails for those."""
    page = visit()
    with page.expect_console_message(lambda message: message.type == "error") as told:
        page.evaluate("() => document.body.setAttribute('style', 'color: red')")
    assert "Content Security Policy" in told.value.text
    visit.faults.clear()  # type: ignore[attr-defined]
