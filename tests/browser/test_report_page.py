"""The report in a real browser: legible, accessible, sortable, harmless; on a wide screen, a telephone and paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from invariance import BIP, MultiEnvironmentData, compare
from invariance.datasets import make_example
from invariance.report.page import Cell, Column, Section, name, numbers, table, write_page

pytestmark = pytest.mark.integration

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAPER = 718  # A4 within Chromium's margins
NAMES = ["<script>alert(1)</script>", "a\"b'c", "x" * 200, "$x_1$", "new\nline", "שלום", "-->]]>", "c&amp;"]
ATTRIBUTE = '" onmouseover="alert(2)'


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a page with all sections and hostile names."""
    data = make_example()
    labels = np.array(["<img src=x onerror=alert(3)>", "$s$", ATTRIBUTE, "w"], dtype=object)[data.environment_index]
    rows = pd.DataFrame(data.X, columns=NAMES).assign(y=data.y, site=labels)
    read = MultiEnvironmentData.from_table(rows, "y", "site")
    model = BIP(progress=False).fit(read)
    return model.report(tmp_path_factory.mktemp("page") / "report.html", compare(read, "ICP,Lasso")).as_uri()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_page_is_clean_under_axe_and_never_wider_than_the_screen(
    page: Page, report: str, axe_violations: Callable[[Page], list[str]], scheme: str, width: int
) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(report)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert axe_violations(page) == []
    drawn = page.locator("figure img").first
    assert drawn.evaluate("element => element.naturalWidth") > 300
    assert drawn.evaluate("element => getComputedStyle(element).filter != 'none'") == (scheme == "dark")


def test_names_do_nothing(page: Page, report: str) -> None:
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    page.goto(report)
    for figure in page.locator("figure").all():
        figure.hover()
    assert page.locator("script").count() == 1
    assert page.locator("img").count() == page.locator("figure").count()
    assert page.locator("tbody th", has_text="<script>alert(1)</script>").count() > 0
    assert asked == []


def test_tables_sort_by_click_and_by_key(page: Page, report: str) -> None:
    page.goto(report)
    features = page.locator("table", has=page.locator("caption", has_text="Every feature"))
    head = features.locator("thead th", has_text="Change of R²")

    def values() -> list[float]:
        place = head.evaluate("cell => cell.cellIndex")
        cells = features.locator(f"tbody tr > :nth-child({place + 1})")
        return [float(value) for value in cells.evaluate_all("cells => cells.map(cell => cell.dataset.v)")]

    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert values() == sorted(values(), reverse=True)
    head.get_by_role("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert values() == sorted(values())
    unknown = features.locator("thead th", has_text="Coefficient")
    for _ in range(2):
        unknown.get_by_role("button").click()
        assert head.get_attribute("aria-sort") is None
        assert features.locator("tbody tr").last.locator("td").last.inner_text() == "–"


def test_paper_has_no_contents_and_no_boxes_that_scroll(page: Page, report: str, tmp_path: Path) -> None:
    page.goto(report)
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": PAPER, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth") == PAPER
    assert page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()
    assert page.locator(".scroll").first.evaluate("box => getComputedStyle(box).overflowX") == "visible"


@pytest.mark.parametrize("n", [9, 40])
def test_no_table_falls_off_the_sheet(page: Page, tmp_path: Path, n: int) -> None:
    columns = [Column("Environment", number=False), *(Column(f"systolic_pressure_{j}") for j in range(n))]
    hospital = name("University_Hospital_of_the_North")
    rows = [[hospital, *(Cell("-0.5818 (-0.6060 to 0.5575)", 1.0) for _ in range(n))]]
    short = [Column("Environment", number=False), *(Column(f"Mean of {j}") for j in range(9))]
    parts = table("Coefficients", columns, rows), table("Means", short, [[hospital, *numbers([1234.5] * 9)]])
    page.goto(write_page("title", "lead", [Section("a", "section", parts)], tmp_path / "r.html").as_uri())
    page.emulate_media(media="print")
    page.set_viewport_size({"width": PAPER, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth") == PAPER
    lines = "cell => { const r = document.createRange(); r.selectNodeContents(cell); return r.getClientRects().length }"
    assert {cell.evaluate(lines) for cell in page.locator("table").last.locator("td.n").all()} == {1}


def test_it_reads_without_a_script(browser: Browser, report: str) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(report)
        assert page.locator("thead button").count() == 0
        assert page.locator("thead th", has_text="Predictive inclusion").is_visible()
