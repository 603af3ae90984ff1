"""The page of one sentence on a phone and in the dark, in a real browser."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from hmt.analysis.explanation import explain
from hmt.analysis.html_page import html_page
from hmt.models.model import load

CHROMIUM = shutil.which("chromium")
PHONE = {"width": 360, "height": 640}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "why.html"
    text = "Ich habe gestern leider gar keine Zeit gehabt, weil ich arbeiten musste."
    path.write_text(html_page(explain(load(), text)), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if CHROMIUM is None:
        pytest.skip("needs a browser: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def test_on_a_phone_the_panel_leaves_the_grid_free(browser: Any, address: str) -> None:
    """Planted: the panel sticky at the bottom of the screen."""
    page = browser.new_page(viewport=PHONE)
    page.goto(address)
    for button in page.locator(".waits button").all():
        button.click()
        cell, panel, grid = (
            page.locator(name).bounding_box()
            for name in ('tbody .state[aria-pressed="true"]', "#detail", ".scroll")
        )
        assert grid["y"] + grid["height"] <= panel["y"], "one above the other"
        assert grid["y"] <= cell["y"] and cell["y"] + cell["height"] <= panel["y"]
        assert panel["y"] + 40 < PHONE["height"], "the panel's head is on the screen"
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.close()


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
def test_the_page_follows_the_reader(
    scheme: str, is_dark: bool, browser: Any, address: str
) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.goto(address)
    ground, ink = (
        page.evaluate(f"getComputedStyle(document.body).{name}.match(/\\d+/g).map(Number)")
        for name in ("backgroundColor", "color")
    )
    assert (sum(ground) < sum(ink)) == is_dark
    page.close()
