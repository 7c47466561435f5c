"""The report in a real browser: legible, accessible, sortable, harmless; on a wide screen, a
telephone and paper."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariant-prediction[report]'")

from invariance import BIP, BIPSurvival, MultiEnvironmentData, compare
from invariance.datasets import make_example
from invariance.report.page import Block, Cell, Column, Table, numbers, texts, write_page

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("brief")]

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAPER = 718  # A4 within Chromium's margins
NAMES = [
    "<script>alert(1)</script>",
    "a\"b'c",
    "x" * 200,
    "$x_1$",
    "new\nline",
    "שלום",
    "-->]]>",
    "c&amp;",
]
ATTRIBUTE = '" onmouseover="alert(2)'


def make_report(folder: Path) -> str:
    """The address of a page with all sections and hostile names."""
    data = make_example()
    sites = ["<img src=x onerror=alert(3)>", "$s$", ATTRIBUTE, "w", "c", "h"]
    labels = np.array(sites, dtype=object)[data.environment_index]
    rows = pd.DataFrame(data.X, columns=NAMES).assign(y=data.y, site=labels)
    read = MultiEnvironmentData.from_table(rows, "y", "site")
    model = BIP(progress=False).fit(read)
    return model.report(folder / "report.html", compare(read, "ICP,Lasso")).as_uri()


def check_tables_sort_by_click_and_by_key(page: Page) -> None:
    features = page.locator("table", has=page.locator("caption", has_text="Every feature"))
    head = features.locator("thead th", has_text="Change of R²")

    def values() -> list[float]:
        place = head.evaluate("cell => cell.cellIndex")
        cells = features.locator(f"tbody tr > :nth-child({place + 1})")
        return [
            float(value)
            for value in cells.evaluate_all("cells => cells.map(cell => cell.dataset.v)")
        ]

    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert values() == sorted(values(), reverse=True)
    head.get_by_role("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert values() == sorted(values())
    features.locator("thead th", has_text="Role").get_by_role("button").click()
    assert head.get_attribute("aria-sort") is None


def check_paper(page: Page) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": PAPER, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth") == PAPER
    assert (
        page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    assert not page.locator("nav").is_visible()
    assert (
        page.locator(".scroll").first.evaluate("box => getComputedStyle(box).overflowX")
        == "visible"
    )


def test_the_page_of_a_fit(
    page: Page, browser: Browser, tmp_path: Path, axe_violations: Callable[[Page], list[str]]
) -> None:
    """Clean under axe, never wider than the screen, sortable, on paper, without scripts; names do
    nothing."""
    report = make_report(tmp_path)
    asked = list[str]()
    page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
    page.goto(report)
    for scheme, width in (("light", 1280), ("dark", 390)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert axe_violations(page) == []
        drawn = page.locator("figure img").first
        assert drawn.evaluate("element => element.naturalWidth") > 300
        assert drawn.evaluate("element => element.currentSrc == element.src") == (scheme == "light")
        assert page.locator("details[open]").count() == 0
        cut = (
            "boxes => boxes.filter(box => box.checkVisibility() && box.scrollWidth > "
            "box.clientWidth + 1).length"
        )
        assert page.locator("section figure .scroll").evaluate_all(cut) == 0
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert axe_violations(page) == []
    for figure in page.locator("figure").all():
        figure.hover()
    assert page.locator("script").count() == 1
    assert page.locator("img").count() == page.locator("figure").count()
    assert page.locator("tbody th", has_text="<script>alert(1)</script>").count() > 0
    assert asked == []
    check_tables_sort_by_click_and_by_key(page)
    check_paper(page)
    with browser.new_context(java_script_enabled=False) as context:
        plain = context.new_page()
        plain.goto(report)
        assert plain.locator("thead button").count() == 0
        plain.locator("summary", has_text="Feature by feature").click()
        assert plain.locator("thead th", has_text="Paper's inclusion").is_visible()


def pages_of_headings(pdf: bytes) -> dict[str, int]:
    """{heading: page, from 1} by the outline of a PDF that Chromium wrote"""
    objects = dict(re.findall(rb"(?m)^(\d+) 0 obj(.*?)endobj", pdf, re.DOTALL))
    kids = next(
        body for body in objects.values() if b"/Type /Pages" in body and b"/Parent" not in body
    )
    order: list[bytes] = []

    def walk(body: bytes) -> None:
        for child in re.findall(
            rb"(\d+) 0 R", body[body.index(b"/Kids") : body.index(b"]", body.index(b"/Kids"))]
        ):
            walk(objects[child]) if b"/Kids" in objects[child] else order.append(child)

    walk(kids)
    named = [body for body in objects.values() if b"/Title (" in body and b"/Dest" in body]
    found = {}
    for body in named:
        title = re.search(rb"/Title \((.*?)\)", body, re.DOTALL)
        page = re.search(rb"/Dest \[(\d+) 0 R", body)
        assert title is not None
        assert page is not None
        found[title[1].decode("latin-1")] = 1 + order.index(page[1])
    return found


RARER = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("numbers", "counts")]


@pytest.mark.parametrize("kind", ["classes", "times", *RARER])
def test_the_first_two_printed_pages_carry_the_answer(
    kind: str, page: Page, tmp_path: Path
) -> None:
    data = make_example()
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(data.X, columns=list(data.feature_names))
    site = np.array(data.environments, dtype=object)[data.environment_index]
    score = (data.y - data.y.mean()) / data.y.std()
    outcomes = {
        "numbers": data.y,
        "classes": score > 0.0,
        "counts": rng.poisson(np.exp(0.5 * score)),
    }
    if kind == "times":
        model = BIPSurvival(progress=False).fit(
            rows, np.exp(-score), environments=site, event=rng.random(900) < 0.8
        )
    else:
        model = BIP(progress=False).fit(rows, outcomes[kind], environments=site)
    page.goto(model.report(tmp_path / "report.html").as_uri())
    printed = pages_of_headings(page.pdf(format="A4", outline=True, tagged=True))
    assert (printed["The answer"], printed["Effects"], printed["Caveats"]) == (1, 1, 1)
    assert printed["Environments left out"] <= 2
    appendix = [
        place
        for title, place in printed.items()
        if title in ("The data", "Subsets", "Feature by feature")
    ]
    assert len(appendix) == 3
    assert min(appendix) == 3
    assert max(printed.values()) <= 10


def test_no_table_falls_off_the_sheet(page: Page, tmp_path: Path) -> None:
    hospital = texts("Environment", ["University_Hospital_of_the_North"])
    short = Block(
        table=Table("Means", [hospital, *(numbers(f"Mean of {j}", [1234.5]) for j in range(9))])
    )
    cells = (Cell("-0.5818 (-0.6060 to 0.5575)", 1.0),)
    for n in (9, 40):
        long = Table(
            "Coefficients", [hospital, *(Column(f"systolic_pressure_{j}", cells) for j in range(n))]
        )
        sections = [("a", "section", (Block(table=long), short), False)]
        page.goto(write_page("title", "lead", sections, tmp_path / "r.html").as_uri())
        page.emulate_media(media="print")
        page.set_viewport_size({"width": PAPER, "height": 1000})
        assert page.evaluate("document.documentElement.scrollWidth") == PAPER
        lines = (
            "cell => { const r = document.createRange(); r.selectNodeContents(cell); return "
            "r.getClientRects().length }"
        )
        assert {
            cell.evaluate(lines) for cell in page.locator("table").last.locator("td.n").all()
        } == {1}


def test_names_of_environments_are_not_broken_on_paper(page: Page, tmp_path: Path) -> None:
    """Beside coefficients that are infinite, and say so."""
    hospital = texts("Environment", ["switzerland"])
    cells = (Cell("-6.3 (-46.0 to 33.5), infinite by separation, penalised estimate", 1.0),)
    table = Table("Coefficients", [hospital, *(Column(f"pain={j}", cells) for j in range(8))])
    sections = [("a", "section", (Block(table=table),), False)]
    page.goto(write_page("title", "lead", sections, tmp_path / "r.html").as_uri())
    page.emulate_media(media="print")
    page.set_viewport_size({"width": PAPER, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth") == PAPER
    lines = (
        "cell => { const r = document.createRange(); r.selectNodeContents(cell); return "
        "r.getClientRects().length }"
    )
    assert {cell.evaluate(lines) for cell in page.locator("tr > :first-child").all()} == {1}
