"""The local page in a browser, from a table to a report and the Python lines that give it again."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from app_server import RunningApp, running_app
from patients import patients
from report_reader import Page as ReportPage

pytestmark = pytest.mark.integration

if TYPE_CHECKING:
    from playwright.sync_api import Page

RUN, RESULT = re.compile(r"/run\?id="), re.compile(r"/result\?id=")
FEATURES = ["sex", "age", "smoking", "drugs", "<script>alert(1)</script>"]


@pytest.fixture(scope="module")
def app(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApp]:
    with running_app(tmp_path_factory.mktemp("page")) as started:
        yield started


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    """Patients with an ID, dates, gaps, and so many measurements that a fit of all of them takes long."""
    table = patients()
    rng = np.random.default_rng(1)
    table.insert(0, "patient_id", range(1, len(table) + 1))
    table["visit"] = pd.date_range("2024-01-01", periods=len(table)).strftime("%d.%m.%Y")
    table.loc[3:5, "age"] = np.nan
    table["<script>alert(1)</script>"] = rng.normal(size=len(table))
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


def choose_features(page: Page, names: list[str]) -> None:
    page.get_by_role("button", name="Tick none").click()
    for name in names:
        page.get_by_role("checkbox", name=name, exact=True).check()


def fit(page: Page) -> None:
    page.get_by_role("button", name="Fit", exact=True).click()


def test_from_a_table_to_a_report_and_again(
    page: Page, app: RunningApp, messy: Path, tmp_path: Path, axe_violations: Callable[[Page], list[str]]
) -> None:
    """Bring, choose, run, cancel, run, read, download, and run what was downloaded."""
    page.goto(app.address)
    assert axe_violations(page) == []
    bring(page, app, messy)
    choose_roles(page)
    assert page.locator("table.groups tbody tr").all_inner_texts() == [f"{e}\t150" for e in ("aa", "bb", "cc", "dd")]
    assert "linear Gaussian" in page.inner_text("#choice")
    for name, ticked in {"patient_id": False, "visit": False, "age": True, "<script>alert(1)</script>": True}.items():
        assert page.get_by_role("checkbox", name=name, exact=True).is_checked() == ticked
    assert axe_violations(page) == []

    fit(page)
    alert = page.get_by_role("alert")
    assert "in 'age' (3 rows)" in alert.inner_text()
    assert "--missing drop" in alert.inner_text()
    assert axe_violations(page) == []
    page.get_by_label("Leave out rows with missing values").check()
    page.get_by_label("Engine --engine").select_option("tempering")
    fit(page)
    page.wait_for_url(RUN)
    page.get_by_role("progressbar").wait_for()
    assert axe_violations(page) == []
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_url("**/table")
    assert alert.inner_text() == "The fit was cancelled."

    assert page.get_by_label("Outcome --outcome").input_value() == page.locator(
        "#outcome option", has_text="pressure"
    ).get_attribute("value")
    page.get_by_label("Engine --engine").select_option("auto")
    choose_features(page, FEATURES)
    fit(page)
    page.wait_for_url(RESULT)
    assert axe_violations(page) == []
    report = page.frame_locator("iframe.report")
    report.locator("h1").first.wait_for()
    assert "smoking" in report.locator("body").inner_text()
    assert "<script>alert(1)</script>" in report.locator("body").inner_text()

    for link, name in (("Download the report", "report.html"), ("Download as Python lines", "reproduce.py")):
        with page.expect_download() as download:
            page.get_by_role("link", name=link).click()
        assert download.value.suggested_filename == name
        download.value.save_as(tmp_path / "downloaded" / name)
    again = tmp_path / "downloaded" / "report.html"
    before = ReportPage(again.read_text(encoding="utf-8"))
    (again.parent / "my patients.csv").write_bytes(messy.read_bytes())
    script = [sys.executable, "-W", "ignore", "reproduce.py"]
    subprocess.run(script, cwd=again.parent, check=True, stdout=subprocess.DEVNULL)
    after = ReportPage(again.read_text(encoding="utf-8"))
    assert after.tables | {"Settings": []} == before.tables | {"Settings": []}  # None may stand for a default prior


def test_other_pages_cannot_lead_here(page: Page, app: RunningApp, complaints: list[str]) -> None:
    page.set_content(f'<html lang="en"><title>t</title><a href="{app.address}">a link</a></html>')
    with page.expect_response(app.address) as answer:
        page.get_by_role("link").click()
    assert answer.value.status == 403
    page.wait_for_load_state()
    complaints.clear()


def test_a_telephone_in_the_dark(
    page: Page, app: RunningApp, messy: Path, axe_violations: Callable[[Page], list[str]]
) -> None:
    """Nothing is wider than the window, and contrasts hold."""
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark")
    bring(page, app, messy)
    choose_roles(page)
    assert axe_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_choices_of_another_table_are_not_taken(
    page: Page, app: RunningApp, complaints: list[str], tmp_path: Path
) -> None:
    patients().to_csv(tmp_path / "first.csv", index=False)
    other = pd.DataFrame(
        {"clinic": ["u", "v", "w"] * 50, "weight": np.arange(150.0) ** 0.5, "income": np.arange(150.0)}
    )
    other.to_csv(tmp_path / "second.csv", index=False)
    bring(page, app, tmp_path / "first.csv")
    choose_roles(page)
    tab = page.context.new_page()
    bring(tab, app, tmp_path / "second.csv")
    fit(page)
    assert "Another table has come in between" in page.get_by_role("alert").inner_text()
    assert page.inner_text("h1") == "second.csv"
    assert page.input_value("#outcome") == ""

    tab.close()
    complaints.clear()


def test_a_page_that_was_closed_is_told(
    page: Page, browser: object, messy: Path, complaints: list[str], tmp_path: Path
) -> None:
    with running_app(tmp_path) as short:
        bring(page, short, messy)
        choose_roles(page)
        page.get_by_label("Leave out rows with missing values").check()
        page.get_by_text("More settings").click()
        page.get_by_label("Engine --engine").select_option("tempering")
        fit(page)
        page.wait_for_url(RUN)
        assert page.locator("#gone").is_hidden()
        page.locator("#stage", has_text=re.compile(r"\w")).wait_for(state="attached")
        short.end()
        page.locator("#gone").wait_for()
    assert "Start it again with invariance app" in " ".join(page.inner_text("#gone").split())
    complaints.clear()
