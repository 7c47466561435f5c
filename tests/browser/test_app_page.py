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

RUN, REPORT, RESULT = (re.compile(rf"/{name}\?id=") for name in ("run", "report", "result"))
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    """Patients with an ID, dates, gaps, and so many measurements that a fit of all of them takes
    long."""
    table = patients()
    rng = np.random.default_rng(1)
    table.insert(0, "patient_id", range(1, len(table) + 1))
    table["visit"] = pd.date_range("2024-01-01", periods=len(table)).strftime("%d.%m.%Y")
    table.loc[3:5, "age"] = np.nan
    table[HOSTILE] = rng.normal(size=len(table))
    noise = pd.DataFrame(
        rng.normal(size=(len(table), 29)), columns=[f"measure {j}" for j in range(29)]
    )
    file = tmp_path / "my patients.csv"
    pd.concat([table, noise], axis=1).to_csv(file, index=False)
    return file


def bring(page: Page, app: RunningApp, file: Path) -> None:
    page.goto(app.address)
    page.set_input_files("#file", file)
    page.wait_for_url("**/table")


def choose_roles(page: Page) -> None:
    page.get_by_label("Outcome", exact=True).select_option("pressure")
    page.locator(".part", has_text="pressure").wait_for()  # it cannot be ticked any more
    page.get_by_label("Environment", exact=True).select_option("hospital")
    page.locator("table.groups").wait_for()


def fit(page: Page) -> None:
    page.get_by_role("button", name="Fit", exact=True).click()


def check_choices(
    page: Page, app: RunningApp, messy: Path, axe: Callable[[Page], list[str]]
) -> None:
    """Also on a telephone in the dark: nothing is wider than the window, and contrasts hold."""
    page.goto(app.address)
    assert axe(page) == []
    bring(page, app, messy)
    choose_roles(page)
    assert page.locator("table.groups tbody tr").all_inner_texts() == [
        f"{e}\t150" for e in ("aa", "bb", "cc", "dd")
    ]
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
    assert "in 'age' (3 rows)" in page.get_by_role("alert").inner_text()
    assert "--" not in page.inner_text("main")
    assert axe(page) == []


def check_cancel_and_report(page: Page, tmp_path: Path, axe: Callable[[Page], list[str]]) -> None:
    page.get_by_text("More settings").click()
    page.get_by_label("Engine", exact=True).select_option("exact")  # of 2^35 subsets
    settled(page)
    page.get_by_role("alert").get_by_role(
        "button", name="Leave out rows with missing values"
    ).click()  # and it goes on
    page.wait_for_url(RUN)
    page.get_by_role("progressbar").wait_for()
    page.locator("#stage", has_text=re.compile(r"\w")).wait_for(state="attached")
    assert axe(page) == []
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_url("**/table")
    assert page.get_by_role("alert").inner_text() == "The fit was cancelled."
    pressure = page.locator("#outcome option", has_text="pressure").get_attribute("value")
    assert (
        page.get_by_label("Outcome", exact=True).input_value() == pressure
    )  # what was chosen is still chosen
    page.get_by_label("Engine", exact=True).select_option("auto")
    page.get_by_role("button", name="Tick none").click()
    for name in ("sex", "age", "smoking", "drugs", HOSTILE):
        page.get_by_role("checkbox", name=name, exact=True).check()
    settled(page)
    for name in (
        "sex",
        "age",
        "smoking",
        "drugs",
        HOSTILE,
    ):  # none is lost by what comes from the server
        assert page.get_by_role("checkbox", name=name, exact=True).is_checked()
    fit(page)
    page.wait_for_url(REPORT)
    assert axe(page) == []
    assert page.frames == [page.main_frame]
    assert "smoking" in page.inner_text("main")
    assert HOSTILE in page.text_content("main")
    page.get_by_role("link", name="Files and prediction").click()
    page.wait_for_url(RESULT)
    assert axe(page) == []
    for link, name, text in (
        ("Report", "report.html", "smoking"),
        ("Python lines", "reproduce.py", "'my patients.csv'"),
        ("Model", "model.json", "smoking"),
        ("Coefficients in each environment (CSV)", "coefficients.csv", "pooled"),
        ("SVG of How probable each feature is", "inclusion.svg", "<svg"),
    ):
        with page.expect_download() as download:
            page.get_by_role("main").get_by_role("link", name=link, exact=True).click()
        assert download.value.suggested_filename == name
        download.value.save_as(tmp_path / "downloaded" / name)
        assert text in (tmp_path / "downloaded" / name).read_text(encoding="utf-8")


def check_prediction(page: Page, tmp_path: Path, axe: Callable[[Page], list[str]]) -> None:
    new = patients(9, seed=4).drop(columns="pressure").assign(**{HOSTILE: 0.5})
    new["age"] = new["age"].astype(float)
    new.loc[2, "age"] = np.nan
    new.to_csv(tmp_path / "new.csv", index=False)
    page.set_input_files("#file", tmp_path / "new.csv")
    page.get_by_role("alert").get_by_role("button", name="Leave predictions").click()
    page.locator("table.predictions").wait_for()
    assert axe(page) == []
    assert page.locator("table.predictions tbody tr").count() == 36
    with page.expect_download() as download:
        page.get_by_role("link", name="Predictions of new.csv (CSV)").click()
    download.value.save_as(tmp_path / "predictions.csv")
    written = pd.read_csv(tmp_path / "predictions.csv")
    assert written["prediction"].isna().sum() == 1
    assert (written["upper"] > written["lower"]).sum() == 35


def settled(page: Page) -> None:
    """What was chosen last has been looked at, and the page has changed."""
    page.locator(".htmx-request, .htmx-swapping, .htmx-settling, .htmx-added").first.wait_for(
        state="detached"
    )


def check_other_pages(page: Page, app: RunningApp, complaints: list[str]) -> None:
    """None of them leads here."""
    stranger = page.context.new_page()
    stranger.set_content(
        f'<html lang="en"><title>t</title><a href="{app.address}">a link</a></html>'
    )
    with stranger.expect_response(app.address) as answer:
        stranger.get_by_role("link").click()
    assert answer.value.status == 403
    complaints.clear()


def test_from_a_table_to_a_report_and_to_the_end(
    page: Page,
    messy: Path,
    tmp_path: Path,
    complaints: list[str],
    axe_violations: Callable[[Page], list[str]],
) -> None:
    """One test, because every one would start a page of its own."""
    (tmp_path / "temporary").mkdir()
    with running_app(tmp_path / "temporary") as app:
        check_choices(page, app, messy, axe_violations)
        check_cancel_and_report(page, tmp_path, axe_violations)
        check_prediction(page, tmp_path, axe_violations)
        given_up = ("htmx:sendAbort", "htmx:afterRequest")  # of a form that has changed again since
        assert [told for told in complaints if not told.startswith(given_up)] == []
        check_other_pages(page, app, complaints)
        page.get_by_role("link", name="Choices").click()
        assert page.locator("#gone").is_hidden()
        app.end()
        page.get_by_label("Outcome", exact=True).select_option("age")
        page.locator("#gone").wait_for()
    assert "Start it again" in " ".join(page.inner_text("#gone").split())
    complaints.clear()
