"""What is said of environments that were left out, beside refits of the whole estimator without each of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from invariance import BIP, BIPClassifier, Moments, Poisson
from invariance.models.base import Predicts
from invariance.prediction.new_environments import figures_of
from shifted_sites import DATA, fitted
from two_classes import LABELS, SITE, X, Y, classifier


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["selected", "average"])
def test_probabilities_in_environments_that_were_left_out(kind: str) -> None:
    found = classifier(predict_with=kind).new_environments()
    frame = found.to_frame().set_index("environment")
    assert list(frame.index) == [0, 1, 2, 3]
    for e in range(4):
        own = e == SITE
        model = BIPClassifier(predict_with=kind).fit(X[~own], LABELS[~own], environments=SITE[~own])
        p = model.predict_proba(X[own])[:, 1]
        expected = figures_of(Predicts.probability, Y[own].astype(float), p)
        assert {name: frame.loc[e, name] for name in expected} == pytest.approx(expected, rel=1e-9)
        assert frame.loc[e, "rows"] == 100
        assert frame.loc[e, "features"] == model.selected_features_
    assert found.to_frame().drop(columns="features").notna().all(axis=None)


@pytest.mark.filterwarnings("ignore")
def test_rates_in_environments_that_were_left_out() -> None:
    rng = np.random.default_rng(6)
    exposure = rng.uniform(1.0, 9.0, len(X))
    y = rng.poisson(exposure * np.exp(0.4 * X[:, 0] - 0.3 * X[:, 1] - 1.0)).astype(float)
    model = BIP(family=Poisson()).fit(X, y, environments=SITE, exposure=exposure)
    assert model.selected_features_ == ("x0", "x1")
    frame = model.new_environments().to_frame()
    for e in range(4):
        own = e == SITE
        other = BIP(family=Poisson()).fit(X[~own], y[~own], environments=SITE[~own], exposure=exposure[~own])
        expected = figures_of(Predicts.rate, y[own], other.predict(X[own]), exposure[own])
        assert {name: frame.loc[e, name] for name in expected} == pytest.approx(expected, rel=1e-8)
        missed = y[own] - other.predict(X[own]) * exposure[own]
        assert model.new_environments().left_out[e].rmse == pytest.approx(np.sqrt(np.mean(missed**2)))
    assert (frame["deviance_explained"] > 0.1).all()


def test_numbers_and_second_moments() -> None:
    rows, moments = fitted(DATA).new_environments(), BIP().fit(Moments.from_data(DATA)).new_environments()
    np.testing.assert_allclose(rows.to_frame()["rmse"], [left.rmse for left in rows.left_out])
    for figure in ("observed", "predicted", "rmse", "r2"):
        np.testing.assert_allclose(moments.to_frame()[figure], rows.to_frame()[figure], rtol=1e-8, err_msg=figure)
    assert "–" not in str(moments)
    assert rows.to_plain()["predicts"] == "number"


def test_what_a_person_reads() -> None:
    found = classifier().new_environments()
    text, frame = str(found), found.to_frame()
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("New environments: the probability that y is 'yes'\n")
    worst = frame.loc[(frame["observed"] - frame["predicted"]).abs().idxmax()]
    told = f"{worst['environment']}: {worst['observed']:.3g} observed, {worst['predicted']:.3g}"
    assert told in " ".join(text.split())
    head, *rows = [line.split() for line in text.splitlines()[-5:]]
    assert head == ["environment", "rows", "observed", "predicted", "intercept", "slope", "Brier", "AUC"]
    for row, expected in zip(rows, frame.itertuples(), strict=True):
        values = [expected.observed, expected.predicted, expected.intercept, expected.slope, expected.brier]
        np.testing.assert_allclose([float(cell) for cell in row[2:]], [*values, expected.auc], atol=5.1e-4)
    assert found._repr_html_().count("<tr ") == 5
    plain = json.loads(json.dumps(found.to_plain(), allow_nan=False))
    assert plain["classes"] == ["no", "yes"]
    assert [row["brier"] for row in plain["environments"]] == frame["brier"].tolist()


@pytest.mark.filterwarnings("ignore")
def test_an_environment_with_one_class_has_no_slope() -> None:
    y = np.where(SITE == 2, "no", LABELS)
    found = BIPClassifier().fit(X, y, environments=SITE).new_environments()
    row = found.to_frame().set_index("environment").loc[2]
    assert np.isnan([row["intercept"], row["slope"], row["auc"]]).all()
    assert row["observed"] == 0.0
    assert found.to_plain()["environments"][2]["auc"] is None
    assert str(found).splitlines()[-2].split()[-1] == "–"


@pytest.mark.filterwarnings("ignore")
def test_environments_that_cannot_be_left_out() -> None:
    y = np.where(SITE == 2, LABELS, "no")
    found = BIPClassifier().fit(X, y, environments=SITE).new_environments()
    assert found.to_plain()["not_left_out"] == ["2"]
    assert "1 of 4 environments (2)" in " ".join(str(found).split())
    alone = BIPClassifier().fit(X, LABELS).new_environments()
    assert "one environment" in str(alone)
    assert alone.to_frame().empty
    two = BIPClassifier().fit(X, LABELS, environments=SITE // 2).new_environments()
    assert "two environments" in str(two)
