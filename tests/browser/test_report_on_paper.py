"""Wide tables on paper, and names that would be styles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from invariance.report.page import Cell, Column, Contents, Part, Section, name, numbers, table, write_report
from invariance.report.pictures import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from playwright.sync_api import Page

PAPER = 718  # A4 within Chromium's margins
STYLE = 'a style="}*{display:none"'


def _written(folder: Path, *parts: Part) -> str:
    return write_report(Contents("title", "lead", (Section("a", "section", parts),)), folder / "r.html").as_uri()


@pytest.mark.parametrize("n", [6, 11, 40])
def test_no_table_falls_off_the_sheet(page: Page, tmp_path: Path, n: int) -> None:
    columns = [Column("Environment", number=False), *(Column(f"systolic_pressure_{j}") for j in range(n))]
    rows = [[name("University_Hospital_of_the_North"), *(Cell("-0.5818 (-0.6060 to 0.5575)", 1.0) for _ in range(n))]]
    page.goto(_written(tmp_path, table("Coefficients", columns, rows)))
    page.emulate_media(media="print")
    page.set_viewport_size({"width": PAPER, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth") == PAPER


def test_numbers_of_a_common_table_are_not_broken(page: Page, tmp_path: Path) -> None:
    columns = [Column("Environment", number=False), *(Column(f"Mean of {j}") for j in range(9))]
    rows = [[name("University Hospital of the North " * 4), *numbers([1234.5] * 9)]]
    page.goto(_written(tmp_path, table("Means", columns, rows)))
    page.emulate_media(media="print")
    page.set_viewport_size({"width": PAPER, "height": 1000})
    lines = "cell => { const r = document.createRange(); r.selectNodeContents(cell); return r.getClientRects().length }"
    assert {cell.evaluate(lines) for cell in page.locator("td.n").all()} == {1}


def test_a_name_cannot_hide_the_page(page: Page, tmp_path: Path) -> None:
    drawn = picture(_named, (4.0, 3.0), "a", "alt", "caption")
    page.goto(_written(tmp_path, drawn))
    assert page.locator("h1").is_visible()
    assert page.locator("svg text", has_text=STYLE).count() == 2


def _named(ax: Axes) -> None:
    ax.set_xticks([0, 1], [STYLE, STYLE])
