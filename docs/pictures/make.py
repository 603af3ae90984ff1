"""Makes the pictures of the live page anew; needs playwright and chromium.

A server of its own runs with the model that ships; what is seen is what was translated just then.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
DESK = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 780}
WALL = {"width": 1280, "height": 320}
TALK = (
    "Guten Morgen, meine Damen und Herren. "
    "Ich habe gestern leider keine Zeit gehabt, dich noch anzurufen. "
    "Das Buch hat 300 Seiten, und ich habe erst 50 gelesen. "
    "Ich möchte Ihnen für alles, was Sie für unser Land getan haben, von Herzen danken. "
)
OPEN = "Wann hast du zum letzten Mal mit "
# Chooses a word that had to be written, of the longest sentence: it waited as long as it could.
LONGEST_WAIT = """() => {
    const wait = ({ word: { forced, row } }) => forced ? row.source.length : 0;
    [...document.querySelectorAll(".row:not(.open) > .target .w")]
        .reduce((one, two) => wait(two) > wait(one) ? two : one).click();
}"""


@contextmanager
def server() -> Iterator[str]:
    """The address of a server that runs meanwhile."""
    command = [sys.executable, "-m", "hmt", "serve", "--port", "0", "--delay-ms", "60000"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert running.stdout is not None
    try:
        yield next(
            found[0] for line in running.stdout if (found := re.search(r"http://\S+/", line))
        )
    finally:
        running.terminate()
        running.wait()


def talk(page: Any) -> None:
    """Say everything, and leave the last sentence open."""
    page.locator("#word").fill(TALK)
    count = TALK.count(". ")
    page.wait_for_function(f"document.querySelectorAll('.row:not(.open)').length >= {count}")
    page.locator("#word").fill(OPEN)
    page.wait_for_timeout(1500)


def shoot(page: Any, name: str) -> None:
    """One picture; that this machine is busy is no part of it."""
    if page.locator("#message").is_visible():
        page.locator("#message button").click()
    page.screenshot(path=HERE / f"{name}.png", animations="disabled")


def main() -> None:
    """All pictures."""
    with server() as address, sync_playwright() as driver:
        path = shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])

        def visit(path: str, size: dict[str, int], scheme: str) -> Any:
            context = browser.new_context(
                viewport=size, color_scheme=scheme, bypass_csp=True, reduced_motion="reduce"
            )
            context.set_default_timeout(120_000)  # machines may be busy
            page = context.new_page()
            page.goto(address + path)
            return page

        for scheme in ("light", "dark"):
            page = visit("", DESK, scheme)
            talk(page)
            page.evaluate(LONGEST_WAIT)
            page.wait_for_timeout(500)
            shoot(page, f"live-page-{scheme}")
            page.context.close()
        speaker = visit("?room=aula", DESK, "light")
        phone = visit("?listen=aula", PHONE, "light")
        wall = visit("captions?room=aula&source=1", WALL, "dark")
        talk(speaker)
        phone.wait_for_timeout(500)
        shoot(phone, "live-page-phone")
        shoot(wall, "live-captions")
        browser.close()


if __name__ == "__main__":
    main()
