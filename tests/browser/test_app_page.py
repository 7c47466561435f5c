"""The local page in a browser, from a table to a report."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from app_server import RunningApp, running_app
from patients import patients

pytestmark = pytest.mark.integration

if TYPE_CHECKING:
    from playwright.sync_api import Page

RUN, RESULT = re.compile(r"/run\?id="), re.compile(r"/result\?id=")
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    """Patients with an ID, dates, gaps, and so many measurements that a fit of all of them takes long."""
    table = patients()
    rng = np.random.default_rng(1)
    table.insert(0, "patient_id", range(1, len(table) + 1))
    table["visit"] = pd.date_range("2024-01-01", periods=len(table)).strftime("%d.%m.%Y")
    table.loc[3:5, "age"] = np.nan
    table[HOSTILE] = rng.normal(size=len(table))
    noise = pd.DataFrame(rng.normal(size=(len(table), 80)), columns=[f"measure {j}" for j in range(80)])
    file = tmp_path / "my patients.csv"
    pd.concat([table, noise], axis=1).to_csv(file, index=False)
    return file


def bring(page: Page, app: RunningApp, file: Path) -> None:
    page.goto(app.address)
    page.set_input_files("#file", file)
    page.wait_for_url("**/table")


def choose_roles(page: Page) -> None:
    page.get_by_label("Outcome --outcome").select_option("pressure")
    page.get_by_label("Environment --environment").select_option("hospital")
    page.locator("table.groups").wait_for()


def fit(page: Page) -> None:
    page.get_by_role("button", name="Fit", exact=True).click()


def check_choices(page: Page, app: RunningApp, messy: Path, axe: Callable[[Page], list[str]]) -> None:
    """Also on a telephone in the dark: nothing is wider than the window, and contrasts hold."""
    page.goto(app.address)
    assert axe(page) == []
    bring(page, app, messy)
    choose_roles(page)
    assert page.locator("table.groups tbody tr").all_inner_texts() == [f"{e}\t150" for e in ("aa", "bb", "cc", "dd")]
    assert "linear Gaussian" in page.inner_text("#choice")
    for name, ticked in {"patient_id": False, "visit": False, "age": True, HOSTILE: True}.items():
        assert page.get_by_role("checkbox", name=name, exact=True).is_checked() == ticked
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark")
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")
    fit(page)
    alert = page.get_by_role("alert").inner_text()
    assert "in 'age' (3 rows)" in alert
    assert "--missing drop" in alert
    assert axe(page) == []


def check_cancel_and_report(page: Page, tmp_path: Path, axe: Callable[[Page], list[str]]) -> None:
    page.get_by_label("Leave out rows with missing values").check()
    page.get_by_label("Engine --engine").select_option("tempering")
    fit(page)
    page.wait_for_url(RUN)
    page.get_by_role("progressbar").wait_for()
    page.locator("#stage", has_text=re.compile(r"\w")).wait_for(state="attached")
    assert axe(page) == []
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_url("**/table")
    assert page.get_by_role("alert").inner_text() == "The fit was cancelled."
    pressure = page.locator("#outcome option", has_text="pressure").get_attribute("value")
    assert page.get_by_label("Outcome --outcome").input_value() == pressure  # what was chosen is still chosen
    page.get_by_label("Engine --engine").select_option("auto")
    page.get_by_role("button", name="Tick none").click()
    for name in ("sex", "age", "smoking", "drugs", HOSTILE):
        page.get_by_role("checkbox", name=name, exact=True).check()
    fit(page)
    page.wait_for_url(RESULT)
    assert axe(page) == []
    report = page.frame_locator("iframe.report")
    report.locator("h1").first.wait_for()
    assert "smoking" in report.locator("body").inner_text()
    assert HOSTILE in str(report.locator("body").text_content())  # in the folded appendix
    for link, name, text in (
        ("Download the report", "report.html", "smoking"),
        ("Download as Python lines", "reproduce.py", "'my patients.csv'"),
    ):
        with page.expect_download() as download:
            page.get_by_role("link", name=link).click()
        assert download.value.suggested_filename == name
        download.value.save_as(tmp_path / "downloaded" / name)
        assert text in (tmp_path / "downloaded" / name).read_text(encoding="utf-8")


def check_other_pages(page: Page, app: RunningApp, complaints: list[str]) -> None:
    """None of them leads here."""
    stranger = page.context.new_page()
    stranger.set_content(f'<html lang="en"><title>t</title><a href="{app.address}">a link</a></html>')
    with stranger.expect_response(app.address) as answer:
        stranger.get_by_role("link").click()
    assert answer.value.status == 403
    complaints.clear()


def test_from_a_table_to_a_report_and_to_the_end(
    page: Page, messy: Path, tmp_path: Path, complaints: list[str], axe_violations: Callable[[Page], list[str]]
) -> None:
    """One test, because every one would start a page of its own."""
    (tmp_path / "temporary").mkdir()
    with running_app(tmp_path / "temporary") as app:
        check_choices(page, app, messy, axe_violations)
        check_cancel_and_report(page, tmp_path, axe_violations)
        assert complaints == []
        check_other_pages(page, app, complaints)
        page.get_by_role("link", name="Change the choices").click()
        assert page.locator("#gone").is_hidden()
        app.end()
        page.get_by_label("Outcome --outcome").select_option("age")
        page.locator("#gone").wait_for()
    assert "Start it again with invariance app" in " ".join(page.inner_text("#gone").split())
    complaints.clear()
