"""What a page says by the model, by how many environments there are, and by what is given."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from invariance import BIP, BIPClassifier, BIPSurvival, Logistic, MultiEnvironmentData
from invariance.datasets import make_example
from invariance.moments import Moments
from invariance.report.pictures import Residuals
from report_reader import Page

DATA = make_example()
X = pd.DataFrame(DATA.X, columns=list(DATA.feature_names))[["age", "exercise", "smoking"]]
SITE = np.array(DATA.environments, dtype=object)[DATA.environment_index]
SCALED = (DATA.y - DATA.y.mean()) / DATA.y.std()

pytestmark = [
    pytest.mark.usefixtures("without_pictures"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def test_a_standard_error_is_that_of_a_mean() -> None:
    values = np.array([1.0, 2.0, 4.0, 9.0])
    data = MultiEnvironmentData.from_arrays(np.arange(8.0)[:, None], np.tile(values, 2), ["a"] * 4 + ["b"] * 4)
    found = Residuals.of_rows(data.y, np.zeros(8), data)
    assert found.standard_errors.tolist() == pytest.approx([values.std(ddof=1) / 2.0] * 2)


def test_moments_tell_the_means_and_spreads_of_their_rows(page: Callable[[BIP], Page]) -> None:
    read = page(BIP().fit(Moments.from_data(DATA)))
    for title, figure in (("Mean", np.mean), ("SD", partial(np.std, ddof=1))):
        told = {label: float(str(value)) for label, (_, value) in read.column("Environments", title).items()}
        assert told == pytest.approx({label: figure(DATA.y[label == SITE]) for label in DATA.environments}, rel=1e-5)


def test_pseudo_data_and_what_is_tolerated_of_classes(page: Callable[[BIP], Page]) -> None:
    classes = np.where(SCALED > 0.0, "high", "low")
    read = page(BIPClassifier().fit(X, classes, environments=SITE))
    assert "pseudo-data that weigh 1 row, whose outcome is the pooled mean" in read.text
    assert "may add 0.01 for each row to −2 log Λ(z)" in read.text
    assert "residual variance" not in read.text
    without = page(BIPClassifier(Logistic(pseudo_rows=0.0)).fit(X, classes, environments=SITE))
    assert "pseudo-data" not in without.text


def test_events_are_whole_and_pseudo_data_have_the_pooled_rate(page: Callable[[BIP], Page]) -> None:
    times = np.exp(-SCALED)
    end = np.quantile(times, 0.8)
    read = page(BIPSurvival().fit(X, np.minimum(times, end), environments=SITE, event=times <= end))
    events = {label: text for label, (text, _) in read.column("Environments", "Events").items()}
    assert events == {label: str(int((times[label == SITE] <= end).sum())) for label in DATA.environments}
    assert "in which events occur at the pooled rate" in read.text


def test_counts_with_an_exposure_are_told_as_rates(page: Callable[[BIP], Page]) -> None:
    rng = np.random.default_rng(0)
    hours = rng.uniform(1.0, 9.0, len(X))
    counts = rng.poisson(hours * np.exp(SCALED))
    read = page(BIP().fit(X, counts, environments=SITE, exposure=hours))
    told = {label: float(str(value)) for label, (_, value) in read.column("Environments", "Rate").items()}
    rates = {label: counts[label == SITE].sum() / hours[label == SITE].sum() for label in DATA.environments}
    assert told == pytest.approx(rates, rel=1e-5)
    assert "Mean" not in [text for text, _ in read.tables["Environments"][0]]


def test_one_environment_claims_nothing(page: Callable[[BIP], Page], tmp_path: Path) -> None:
    read = page(BIP().fit(X, DATA.y))
    assert read.column("Residuals by environment", "Mean residual")["all"][0] == "0"
    assert "Most probable subset" not in read.text
    assert "Subsets, the best predictor first" in read.tables
    assert "1 environments" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "ompatible subsets" not in read.text
    assert "model = BIP().fit(X, y)" in read.text
