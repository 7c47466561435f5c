"""The page of a fit: what it says is what was found, it is whole, and the same every time."""

from __future__ import annotations

import re
from base64 import b64decode
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from invariance import BIP, compare
from invariance.datasets import make_example
from invariance.decisions.decision import role_in_words
from invariance.exceptions import FileError, SettingError
from invariance.report import page
from invariance.report.page import numbers, with_equal_decimals
from report_reader import Page

HOSTILE = [
    *("<script>alert(1)</script>", "a\"b'c", "x" * 200, "$x_1$"),
    *("new\nline", "שלום", "-->]]>", "c&amp;"),
]


@pytest.fixture(scope="module")
def model() -> BIP:
    return BIP(random_state=3).fit(make_example())


@pytest.fixture(scope="module")
def source(model: BIP, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert model.report(path) == path
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def read(source: str) -> Page:
    return Page(source)


def test_the_verdict_and_every_number_are_those_of_the_fit(model: BIP, read: Page) -> None:
    decision, posterior = model.decision_, model.posterior_
    assert decision.verdict in read.text
    roles = read.column("Every feature", "Role")
    inclusion, predictive = (read.column("Every feature", title) for title in ("Inclusion", "Predictive inclusion"))
    coefficients = read.column("Every feature", "Coefficient")
    for feature in decision.features:
        j = posterior.feature_names.index(feature.name)
        assert roles[feature.name][0] == role_in_words(feature)
        assert float(str(inclusion[feature.name][1])) == pytest.approx(posterior.inclusion[j], rel=1e-5)
        assert float(str(predictive[feature.name][1])) == pytest.approx(model.predictive_.inclusion[j], rel=1e-5)
        if feature.selected:
            assert float(str(coefficients[feature.name][1])) == pytest.approx(model.coef_[j], rel=1e-5)
        else:
            assert coefficients[feature.name] == ("–", None)


def test_subsets_coefficients_and_environments(model: BIP, read: Page, source: str) -> None:
    bold = re.findall(r'<th scope="row" class="strong[^"]*"[^>]*>(.*?)</th>', source)
    assert bold == ["{age, exercise, smoking}"] * 2  # in either posterior
    best = model.predictive_.subsets(1).iloc[0]
    first = read.tables["Compatible subsets, the best predictor first"][1]
    assert first[0][0] == "{age, exercise, smoking}"
    assert float(str(first[2][1])) == pytest.approx(best["probability"], rel=1e-5)
    found = model.decision_.coefficients()
    west = found[(found["environment"] == "west") & (found["column"] == "age")].iloc[0]
    text, value = read.column("Coefficients with 95% intervals by environment", "age")["west"]
    assert float(str(value)) == pytest.approx(west["estimate"], rel=1e-5)
    assert text == f"{west['estimate']:.4f} ({west['lower']:.4f} to {west['upper']:.4f})"
    tested = read.column("T = −2 log Λ by environment", "p-value")
    assert [float(cell[0]) for cell in list(tested.values())[:-1]] == pytest.approx(
        [test.deviation.p_value for test in model.diagnose().tests], abs=5e-4
    )


def test_how_it_was_made(read: Page) -> None:
    assert "Bayesian Invariance Modeling of Multi-Environment Data" in read.text
    assert read.column("Settings", "Value")["random_state"][0] == "3"
    assert read.column("Settings", "As by default")["random_state"][0] == "no"
    assert read.column("Settings", "As by default")["select"][0] == "yes"


def test_the_page_is_whole_and_in_order(read: Page, source: str) -> None:
    levels = [level for level, _ in read.headings]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert len(read.ids) == len(set(read.ids))
    assert {f"#{name}" for name in read.ids} >= set(read.references)
    assert all(address.startswith("data:") for address in read.addresses)
    assert not re.search(r"https?://", source)
    assert read.counts["img"] == len(re.findall(r'<img alt="[^"]', source)) == 6
    assert read.counts["script"] == 1
    assert len(source) < 400_000


def test_the_same_input_gives_the_same_bytes_whatever_the_style(model: BIP, source: str, tmp_path: Path) -> None:
    with plt.style.context("dark_background"):
        again = model.report(tmp_path / "again.html")
    assert again.read_text(encoding="utf-8") == source


def test_hostile_names_are_only_names(tmp_path: Path) -> None:
    data = make_example()
    X = pd.DataFrame(data.X, columns=HOSTILE)
    labels = np.array(["<b>n</b>", "$s$", '"q"', "e\nw"], dtype=object)[data.environment_index]
    path = BIP().fit(X, pd.Series(data.y, name="</title><i>"), environments=labels).report(tmp_path / "hostile.html")
    source = path.read_text(encoding="utf-8")
    read = Page(source)
    assert read.counts["script"] == 1
    assert read.counts["b"] == read.counts["i"] == 0
    names = {row[0][0] for row in read.tables["Every feature"][1:]}
    assert names == {name.replace("\n", "\\n") for name in HOSTILE}
    assert {row[0][0] for row in read.tables["Environments"][1:]} == {"<b>n</b>", "$s$", '"q"', "e\\nw"}
    first = re.search(r"base64,([^\"]*)", source)
    assert first
    assert ">$x_1$</text>" in b64decode(first[1]).decode("utf-8")


def test_comparison_with_other_methods(model: BIP, read: Page, tmp_path: Path, without_pictures: None) -> None:
    assert "Other methods" not in [text for _, text in read.headings]
    found = compare(make_example(), "ICP,Lasso")
    compared = Page(model.report(tmp_path / "compared.html", found).read_text(encoding="utf-8"))
    marks = compared.column("Selected", "Lasso")
    assert {name for name, (text, _) in marks.items() if text.startswith("●")} == {
        name for name, flag in zip(found.feature_names, found.methods[1].selected, strict=True) if flag
    }
    fewer = compare(make_example().narrowed(np.arange(8) < 4), "Lasso")
    for other in ("ICP", fewer):
        with pytest.raises(SettingError):
            model.report(tmp_path / "r.html", comparison=other)
    assert [file.name for file in tmp_path.iterdir()] == ["compared.html"]


def test_what_cannot_be_written_is_refused_before_anything_is_computed(
    model: BIP, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BIP, "diagnose", lambda *_: pytest.fail("too late"))
    (tmp_path / "folder.html").mkdir()
    for name in ("report.pdf", "folder.html"):
        with pytest.raises(FileError, match=name):
            model.report(tmp_path / name)
    monkeypatch.setattr(page, "find_spec", lambda name: None)
    with pytest.raises(FileError, match=re.escape("pip install 'invariance[report]'")):
        model.report(tmp_path / "report.html")


def test_progress_is_the_models(model: BIP, tmp_path: Path, without_pictures: None) -> None:
    seen: list[tuple[float, str]] = []
    told = BIP(progress=lambda fraction, message: seen.append((fraction, message))).fit(make_example())
    seen.clear()
    told.report(tmp_path / "report.html")
    assert (seen[-1][0], "report" in seen[-1][1]) == (1.0, True)


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([12345.6, 0.0123456, -0.5], ["12,346", "0.01235", "-0.5000"]),
        ([0.0, -1e-9, 1e9, float("nan"), float("inf")], ["0", "-1e-09", "1e+09", "–", "–"]),
    ],
)
def test_numbers_have_four_digits(values: list[float], texts: list[str]) -> None:
    assert [cell.text for cell in numbers("", values).cells] == texts


def test_numbers_of_a_row_have_the_same_decimals() -> None:
    assert with_equal_decimals([12.3456, 0.1, float("nan"), -3.0]) == ["12.35", "0.10", "–", "-3.00"]
