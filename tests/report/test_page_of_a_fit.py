"""The page of a fit: what it says is what was found, it is whole, and the same every time."""

from __future__ import annotations

import re
from functools import partialmethod
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from invariance import BIP, MultiEnvironmentData, Tolerance, compare
from invariance.datasets import make_example
from invariance.decisions.decision import described
from invariance.exceptions import FileError, SettingError
from invariance.moments import Moments
from invariance.priors import UniformPrior
from invariance.report import page
from invariance.report import sections as contents
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
        assert roles[feature.name][0] == described(decision, feature)
        assert float(str(inclusion[feature.name][1])) == pytest.approx(posterior.inclusion[j], rel=1e-5)
        assert float(str(predictive[feature.name][1])) == pytest.approx(model.predictive_.inclusion[j], rel=1e-5)
        if feature.selected:
            assert float(str(coefficients[feature.name][1])) == pytest.approx(model.coef_[j], rel=1e-5)
        else:
            assert coefficients[feature.name] == ("–", None)


def test_the_selected_subset_stands_out(source: str) -> None:
    assert '<div class="callout good"><strong>Compatible with invariance</strong><p>3 features predict' in source
    bold = re.findall(r'<th scope="row" class="strong[^"]*"[^>]*>(.*?)</th>', source)
    assert bold == ["{age, exercise, smoking}"] * 2  # in either posterior


def test_subsets_and_coefficients_by_environment(model: BIP, read: Page) -> None:
    best = model.predictive_.subsets(1).iloc[0]
    first = read.tables["Compatible subsets, the best predictor first"][1]
    assert first[0][0] == "{age, exercise, smoking}"
    assert float(str(first[2][1])) == pytest.approx(best["probability"], rel=1e-5)
    found = model.decision_.coefficients()
    west = found[(found["environment"] == "west") & (found["column"] == "age")].iloc[0]
    text, value = read.column("Coefficients with 95% intervals by environment", "age")["west"]
    assert float(str(value)) == pytest.approx(west["estimate"], rel=1e-5)
    assert text == f"{west['estimate']:.4f} ({west['lower']:.4f} to {west['upper']:.4f})"


def test_residuals_and_the_diagnosis_of_environments(model: BIP, read: Page) -> None:
    data = make_example()
    predicted = model.predict(data.to_frame())
    for e, label in enumerate(data.environments):
        rows = data.rows(e)
        wanted = {
            "Mean predicted": predicted[rows].mean(),
            "Mean residual": (data.y - predicted)[rows].mean(),
            "95%": np.quantile((data.y - predicted)[rows], 0.95),
        }
        for title, value in wanted.items():
            cell = read.column("Residuals by environment", title)[str(label)]
            assert float(str(cell[1])) == pytest.approx(value, rel=1e-4, abs=1e-9)
    diagnosis = model.diagnose()
    tested = read.column("T = −2 log Λ by environment", "p-value")
    assert [float(cell[0]) for cell in tested.values()] == pytest.approx(
        [test.deviation.p_value for test in diagnosis.tests], abs=5e-4
    )


def test_how_it_was_made(read: Page) -> None:
    assert "Bayesian Invariance Modeling of Multi-Environment Data" in read.text
    assert "Luhuan Wu, Mingzhang Yin, Yixin Wang, John P. Cunningham and David M. Blei" in read.text
    assert "exact enumeration" in read.text
    assert "uniform over subsets of 8 features" in read.text
    assert "Seed 3; the engine draws nothing" in read.text
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
    assert read.counts["svg"] == len([label for label in read.labels if label]) == 6
    assert read.counts["script"] == 1


def test_the_same_input_gives_the_same_bytes(source: str, tmp_path: Path) -> None:
    again = BIP(random_state=3).fit(make_example()).report(tmp_path / "again.html")
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
    assert "$x_1$" in re.sub(r"<table>.*?</table>", "", source, flags=re.DOTALL)


def _many_features(p: int, n_environments: int) -> MultiEnvironmentData:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(n_environments), 40)
    X = rng.normal(size=(len(labels), p)) * (1.0 + labels[:, None] % 3)
    y = X[:, :2].sum(axis=1) + rng.normal(size=len(X))
    names = [f"a feature, number {j}" for j in range(p)]
    return MultiEnvironmentData.from_arrays(X, y, labels, feature_names=names)


def test_a_page_of_thirty_features_stays_small(tmp_path: Path) -> None:
    model = BIP(prior=UniformPrior(max_size=2), progress=False).fit(_many_features(30, 5))
    path = model.report(tmp_path / "large.html")
    assert path.stat().st_size < 150_000
    assert len(Page(path.read_text(encoding="utf-8")).tables["Every feature"]) == 31


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
def test_a_page_of_two_hundred_features_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BIP, "diagnose", partialmethod(BIP.diagnose, leave_out=False))
    model = BIP(prior=UniformPrior(max_size=1), progress=False).fit(Moments.from_data(_many_features(200, 12)))
    path = model.report(tmp_path / "large.html")
    assert path.stat().st_size < 3_000_000
    read = Page(path.read_text(encoding="utf-8"))
    assert len(read.tables["Every feature"]) == 201
    assert "leave_out=True" in read.text


def test_comparison_with_other_methods(model: BIP, read: Page, tmp_path: Path, without_pictures: None) -> None:
    assert "Other methods" not in [text for _, text in read.headings]
    found = compare(make_example(), "ICP,Lasso")
    outcome_columns = Page(model.report(tmp_path / "compared.html", found).read_text(encoding="utf-8"))
    assert "Other methods" in [text for _, text in outcome_columns.headings]
    marks = outcome_columns.column("Features by method", "Lasso")
    assert {name for name, (text, _) in marks.items() if text.startswith("●")} == {
        name for name, flag in zip(found.feature_names, found.methods[1].selected, strict=True) if flag
    }
    ours = outcome_columns.column("Features by method", "This fit")
    assert {name for name, (text, _) in ours.items() if text.startswith("●")} == set(model.selected_features_)


def test_a_comparison_of_other_data_is_refused(model: BIP, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="pass what compare"):
        model.report(tmp_path / "r.html", comparison="ICP")
    data = make_example()
    fewer = compare(data.narrowed(np.arange(8) < 4), "Lasso")
    with pytest.raises(SettingError, match=r"other features, '.*' for example"):
        model.report(tmp_path / "r.html", comparison=fewer)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_is_refused_before_anything_is_computed(
    model: BIP, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BIP, "diagnose", lambda *_: pytest.fail("too late"))
    with pytest.raises(FileError, match=r"report as 'report.pdf': use a name that ends in \.html"):
        model.report(tmp_path / "report.pdf")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(FileError, match="it is a folder"):
        model.report(tmp_path / "folder.html")
    monkeypatch.setattr(page, "find_spec", lambda name: None)
    with pytest.raises(FileError, match=re.escape("pip install 'invariance[report]'")):
        model.report(tmp_path / "report.html")


def test_nobody_finds_half_a_page(model: BIP, tmp_path: Path, without_pictures: None) -> None:
    path = tmp_path / "report.html"
    path.write_text("before", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "render", _fails)
        with pytest.raises(RuntimeError):
            model.report(path)
    assert path.read_text(encoding="utf-8") == "before"
    with pytest.raises(FileError, match="there is no folder"):
        model.report(tmp_path / "nowhere" / "report.html")
    model.report(path)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_progress_is_the_models(
    model: BIP, tmp_path: Path, without_pictures: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    class Bar(contents.ProgressBar):
        def __init__(self, description: str, total: int, mode: object = "auto", meanwhile: str = "") -> None:
            seen.append((total, mode))
            super().__init__(description, total, False, meanwhile)

        def advance(self, steps: int = 1, detail: str = "") -> None:
            seen.append("step")

    monkeypatch.setattr(contents, "ProgressBar", Bar)
    model.report(tmp_path / "report.html")
    assert seen == [(len(contents.SECTIONS), "auto"), *["step"] * len(contents.SECTIONS)]


def test_a_tolerance_is_told_as_it_is(tmp_path: Path, without_pictures: None) -> None:
    strict = BIP(tolerance=Tolerance.strict(0.01)).fit(make_example())
    read = Page(strict.report(tmp_path / "strict.html").read_text(encoding="utf-8"))
    assert strict._findings.judge.model.judged_by(strict.decision_.accepted) in read.text
    assert "coefficients that differ may explain" not in read.text


def _fails(*_: object) -> str:
    raise RuntimeError
