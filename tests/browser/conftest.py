"""Debian's Chromium through Playwright. Nothing beyond this machine is reached, and the console
stays clean."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

LOOPBACK = ("127.0.0.1", "localhost")
WITHOUT_HOST = ("", "about", "blob", "data", "file")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of one file only: while Playwright lives, no other test of this process can run an event
    loop."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="needs pip install 'invariant-prediction[browser]'"
    )
    program = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if program is None:
        pytest.skip("needs Chromium: apt install chromium")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=program, args=list(FLAGS), timeout=600_000
        )
        yield opened
        opened.close()


@pytest.fixture
def complaints() -> list[str]:
    """Errors and warnings of the console, uncaught exceptions, and addresses beyond this machine
    that a page asked for (and did not get); a test that provokes some clears the list."""
    return []


@pytest.fixture
def page(browser: Browser, complaints: list[str]) -> Iterator[Page]:
    """A fresh page, 1280 px wide; the test fails if it reached out or complained."""

    def only_loopback(route: Route) -> None:
        address = urlsplit(route.request.url)
        if address.scheme in WITHOUT_HOST or address.hostname in LOOPBACK:
            route.continue_()
        else:
            complaints.append(route.request.url)
            route.abort()

    with browser.new_context(
        viewport={"width": 1280, "height": 900}, accept_downloads=True
    ) as context:
        context.route("**/*", only_loopback)
        fresh = context.new_page()
        fresh.set_default_timeout(600_000)
        fresh.on(
            "console",
            lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None,
        )
        fresh.on("pageerror", lambda error: complaints.append(str(error)))
        yield fresh
    assert complaints == []


@pytest.fixture
def axe_violations() -> Callable[[Page], list[str]]:
    """What axe holds against the page as it stands, one line for each rule."""
    module = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="needs axe-playwright-python"
    )

    def look(page: Page) -> list[str]:
        found = module.Axe().run(page).response["violations"]
        return [f"{rule['id']}: {[node['html'][:120] for node in rule['nodes']]}" for rule in found]

    return look
