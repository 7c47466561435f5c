"""The local page in a browser, from a table to a report and the Python lines that give it again."""

from __future__ import annotations

import os
import re
import signal
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

pytestmark = pytest.mark.integration

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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
    page.get_by_text("More settings").click()
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
    (tmp_path / "downloaded" / "my patients.csv").write_bytes(messy.read_bytes())
    assert run_script(tmp_path / "downloaded") == (tmp_path / "downloaded" / "report.html").read_bytes()


def run_script(folder: Path) -> bytes:
    """The report that the downloaded Python lines write, where the table is."""
    again = folder / "again"
    again.mkdir()
    for name in ("my patients.csv", "reproduce.py"):
        (again / name).write_bytes((folder / name).read_bytes())
    subprocess.run([sys.executable, "-W", "ignore", "reproduce.py"], cwd=again, check=True, stdout=subprocess.DEVNULL)
    return (again / "report.html").read_bytes()


def test_a_killed_worker_is_survived(page: Page, app: RunningApp, messy: Path) -> None:
    bring(page, app, messy)
    choose_roles(page)
    page.get_by_label("Leave out rows with missing values").check()
    page.get_by_text("More settings").click()
    page.get_by_label("Engine --engine").select_option("tempering")
    fit(page)
    page.wait_for_url(RUN)
    (worker,) = app.workers
    os.kill(worker, signal.SIGKILL)
    page.wait_for_url("**/table")
    assert "has ended before its answer" in page.get_by_role("alert").inner_text()
    page.get_by_label("Engine --engine").select_option("auto")
    choose_features(page, ["age", "smoking"])
    fit(page)
    page.wait_for_url(RESULT)


def test_other_pages_cannot_lead_here(page: Page, app: RunningApp, complaints: list[str]) -> None:
    page.set_content(f'<html lang="en"><title>t</title><a href="{app.address}">a link</a></html>')
    with page.expect_response(app.address) as answer:
        page.get_by_role("link").click()
    assert answer.value.status == 403
    page.wait_for_load_state()
    complaints.clear()


def test_a_bad_file_is_told_on_the_page(
    page: Page, app: RunningApp, complaints: list[str], tmp_path: Path, axe_violations: Callable[[Page], list[str]]
) -> None:
    (tmp_path / "bad.csv").write_text("a,a\n1,2\n")
    page.goto(app.address)
    page.set_input_files("#file", tmp_path / "bad.csv")
    alert = page.get_by_role("alert")
    assert alert.text_content() == "duplicate column names in bad.csv: 'a'. Give every column its own name."
    assert axe_violations(page) == []
    assert all("422" in line for line in complaints)
    complaints.clear()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_width_and_both_schemes(
    page: Page, app: RunningApp, messy: Path, width: int, scheme: str, axe_violations: Callable[[Page], list[str]]
) -> None:
    """Nothing is wider than the window, and contrasts hold in the dark."""
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(app.address)
    assert axe_violations(page) == []
    bring(page, app, messy)
    choose_roles(page)
    assert axe_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_many_environments_are_reached_by_keys(
    page: Page, app: RunningApp, tmp_path: Path, axe_violations: Callable[[Page], list[str]]
) -> None:
    rng = np.random.default_rng(0)
    sites = np.repeat([f"St. Elisabeth University Hospital of City {i}" for i in range(30)], 10)
    pd.DataFrame({"hospital": sites, "age": rng.normal(size=300), "pressure": rng.normal(size=300)}).to_csv(
        tmp_path / "thirty.csv", index=False
    )
    page.set_viewport_size({"width": 390, "height": 800})
    bring(page, app, tmp_path / "thirty.csv")
    choose_roles(page)
    assert axe_violations(page) == []
    heading = page.locator("table.groups thead th").last
    assert heading.evaluate("th => th.getClientRects()[0].height") < 40  # one line


def test_the_choices_of_another_table_are_not_taken(
    page: Page, app: RunningApp, complaints: list[str], tmp_path: Path
) -> None:
    """Neither from another tab, nor when the browser goes back."""
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

    tab.get_by_label("Outcome --outcome").select_option("weight")
    bring(tab, app, tmp_path / "first.csv")
    tab.go_back()
    tab.go_back()
    assert (tab.inner_text("h1"), tab.input_value("#outcome")) == ("first.csv", "")
    page.get_by_label("Outcome --outcome").select_option("weight")
    page.locator("h1", has_text="first.csv").wait_for()
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


def test_without_scripts_the_chosen_file_is_shown(app: RunningApp, browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(app.address)
    box = page.locator("#file").bounding_box()
    assert box is not None
    assert box["height"] < 60
    context.close()
