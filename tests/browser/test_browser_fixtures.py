"""The fixtures of this folder see what they should."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_requests_beyond_this_machine_are_stopped_and_recorded(
    page: Page, strays: list[str], complaints: list[str]
) -> None:
    page.set_content("<html lang=en><title>t</title><img src='https://example.org/x.png' alt=''></html>")
    page.wait_for_load_state()
    assert strays == ["https://example.org/x.png"]
    strays.clear()
    complaints.clear()


def test_console_errors_and_exceptions_are_recorded(page: Page, complaints: list[str]) -> None:
    page.set_content("<script>console.error('first'); throw new Error('second')</script>")
    assert [line.splitlines()[0] for line in complaints] == ["first", "second"]
    complaints.clear()


def test_axe_sees_a_picture_without_words(page: Page, axe_violations: Callable[[Page], list[str]]) -> None:
    page.set_content("<html lang=en><title>t</title><main><h1>h</h1><img src='data:,'></main></html>")
    assert [line.partition(":")[0] for line in axe_violations(page)] == ["image-alt"]
