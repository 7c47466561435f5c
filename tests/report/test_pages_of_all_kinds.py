"""A page for every kind of outcome, and for what goes wrong: one environment, nothing selected, nothing invariant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from decision_cases import made
from invariance import BIP, BIPClassifier, BIPSurvival, Columns, MultiEnvironmentData, spline
from invariance.datasets import make_example
from invariance.moments import Moments
from report_reader import Page

DATA = make_example()
X = pd.DataFrame(DATA.X, columns=list(DATA.feature_names))
SITE = np.array(DATA.environments, dtype=object)[DATA.environment_index]
SCALED = (DATA.y - DATA.y.mean()) / DATA.y.std()


def _survival() -> BIP:
    times = np.exp(-SCALED)
    end = np.quantile(times, 0.8)
    return BIPSurvival().fit(X, np.minimum(times, end), environments=SITE, event=times <= end)


def _counts() -> BIP:
    return BIP().fit(X, np.random.default_rng(0).poisson(np.exp(SCALED)), environments=SITE)


def _incompatible() -> BIP:
    shifted = DATA.y + np.array([0.0, 30.0, -60.0, 100.0])[DATA.environment_index] * np.sin(np.arange(len(X)))
    return BIP().fit(X, shifted, environments=SITE)


def _levels() -> BIP:
    wards = np.random.default_rng(0).choice(["a", "b", "c"], len(X))
    return BIP(columns=Columns(groups=[spline("age", knots=4)])).fit(X.assign(ward=wards), DATA.y, environments=SITE)


# {what: (the fit, sentences of its page)}
CASES: dict[str, tuple[Callable[[], BIP], list[str]]] = {
    "same mean": (
        lambda: BIP("linear_gaussian_mean").fit(X, DATA.y, environments=SITE),
        ["given z, the intercept and the coefficients are the same", "a variance of its own", "Around 0 in every"],
    ),
    "curves": (
        lambda: BIP("additive").fit(X, DATA.y, environments=SITE),
        ["enter by smooth curves", "The columns of a curve have no meaning one by one"],
    ),
    "bayesian": (
        lambda: BIP("bayesian_linear_gaussian").fit(X, DATA.y, environments=SITE),
        ["Λ(z) is the Bayes factor", "This model gives no intervals"],
    ),
    "classes": (
        lambda: BIPClassifier().fit(X, np.where(SCALED > 0.0, "high", "low"), environments=SITE),
        ["'high' counts 0 and 'low' counts 1", "log odds", "minus the probability that the fit"],
    ),
    "counts": (_counts, ["ratios of rates", "the dispersion are the same", "the count minus what"]),
    "survival": (_survival, ["480 of 600 ended with", "hazard ratios", "the baseline hazard are the same"]),
    "moments": (
        lambda: BIP().fit(Moments.from_data(DATA)),
        ["Second moments alone were fitted. The rows would add", "residuals need the rows", "fit(moments)"],
    ),
    "levels and splines": (_levels, ["2 of them of several columns", "spline('age', knots=4)", "3 columns"]),
    "never challenged": (lambda: BIP().fit(made()), ["{b}: never challenged: no environment shifts this"]),
    "nothing compatible": (
        _incompatible,
        [
            "spread unequally between environments",
            "Not compatible with invariance",
            "No subset is compatible",
            "As no subset was compatible, the selection is",
        ],
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", CASES)
def test_a_page_of_every_kind(kind: str, tmp_path: Path, without_pictures: None) -> None:
    fit, sentences = CASES[kind]
    model = fit()
    source = model.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert f'<div class="callout {"good" if model.decision_.is_compatible else "bad"}">' in source
    read = Page(source)
    assert " ".join(model.decision_.verdict.split()) in read.text
    assert [sentence for sentence in sentences if sentence not in read.text] == []
    assert {row[0][0] for row in read.tables["Environments"][1:]} == {str(label) for label in model.environments_}


def test_one_environment_shows_no_p_value(tmp_path: Path, without_pictures: None) -> None:
    with pytest.warns(UserWarning, match="one environment"):
        model = BIP().fit(X, DATA.y)
    read = Page(model.report(tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "Cannot be told: one environment cannot show invariance" in read.text
    assert "There is one environment" in read.text
    assert "Only the environments at hand were compared" not in read.text
    assert not [cell for rows in read.tables.values() for cell, _ in rows[0] if "p_inv" in cell]


def test_nothing_selected(tmp_path: Path) -> None:
    y = np.random.default_rng(1).normal(size=len(X))
    model = BIP().fit(X[["salt", "sleep"]], y, environments=SITE)
    assert model.selected_features_ == ()
    read = Page(model.report(tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "No feature is selected, so that there are no coefficients." in read.text
    assert "no feature is selected" in read.text


def test_forty_environments(tmp_path: Path, without_pictures: None) -> None:
    labels = np.array([f"site {i % 40}" for i in range(len(X))])
    model = BIP().fit(X[["age", "exercise"]], DATA.y, environments=labels)
    read = Page(model.report(tmp_path / "report.html").read_text(encoding="utf-8"))
    for caption in ("Environments", "Residuals by environment", "T = −2 log Λ by environment"):
        assert len(read.tables[caption]) == 41


def test_expected_events_balance_those_that_occurred(tmp_path: Path, without_pictures: None) -> None:
    read = Page(_survival().report(tmp_path / "report.html").read_text(encoding="utf-8"))
    observed, expected = (
        np.array([float(str(value)) for _, value in read.column("Residuals by environment", title).values()])
        for title in ("Mean events", "Mean predicted")
    )
    assert observed.mean() == pytest.approx(0.8)
    assert expected.mean() == pytest.approx(0.8, abs=0.005)


@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
def test_rows_that_were_left_out_are_told(tmp_path: Path, without_pictures: None) -> None:
    holed = X.assign(y=DATA.y, site=SITE, constant=1.0)
    holed.loc[[0, 1, 200], "age"] = np.nan
    data = MultiEnvironmentData.from_table(holed, "y", "site", missing="drop")
    read = Page(BIP().fit(data).report(tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "Left out 3 rows with missing values and 1 constant column" in read.text
    assert {label: text for label, (text, _) in read.column("Environments", "Left out").items()} == {
        "north": "2",
        "south": "1",
        "east": "0",
        "west": "0",
    }
