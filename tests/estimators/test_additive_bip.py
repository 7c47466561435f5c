"""The additive model in the estimator: what it finds, predicts, saves and says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, Additive, LinearGaussian, MultiEnvironmentData, Tolerance
from invariance.decisions.environments import Compared


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """y follows curves of a and b alike at all sites; d follows y, otherwise at each."""
    rng = np.random.default_rng(0)
    site = np.repeat(range(4), 80)
    X = rng.normal(size=(320, 3)) + rng.normal(size=(4, 3))[site]
    y = 2.0 * np.tanh(X[:, 0]) + 0.5 * X[:, 1] ** 2 + rng.normal(scale=0.4, size=320)
    d = y * np.array([1.0, -0.5, 2.0, 0.3])[site] + rng.normal(size=320)
    columns = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "d": d, "sex": rng.choice(["m", "f"], 320)}
    return pd.DataFrame(columns | {"few": rng.integers(0, 4, 320), "flat": 1.0, "y": y, "site": site})


FEATURES = ["a", "b", "c", "d", "sex", "few", "flat"]


@pytest.fixture(scope="module")
def model(table: pd.DataFrame) -> BIP:
    with pytest.warns(UserWarning, match="constant"):
        return BIP("additive", progress=False).fit(table[FEATURES], table["y"], environments=table["site"])


def test_finds_what_straight_lines_miss(model: BIP, table: pd.DataFrame) -> None:
    assert model.selected_features_ == ("a", "b")
    assert model.support_.tolist() == [name in ("a", "b") for name in FEATURES]
    assert model.columns_[:6] == ("a", "a~2", "a~3", "a~4", "a~5", "b")
    data = MultiEnvironmentData.from_table(table[["a", "b", "y", "site"]], "y", "site")
    straight, curves = LinearGaussian().bind(data), Additive().bind(data)
    both = np.ones((1, 2), dtype=bool)
    assert straight.invariance_test(both, Tolerance()).joint[0] < 1e-4
    assert curves.invariance_test(both, Tolerance()).joint[0] > 0.1


def test_predictions_are_curves(model: BIP, table: pd.DataFrame) -> None:
    predicted = model.predict(table[FEATURES])
    assert np.corrcoef(predicted, table["y"])[0, 1] > 0.93
    pieces = [model.predict(table[FEATURES].iloc[rows]) for rows in (slice(0, 7), slice(7, None))]
    np.testing.assert_allclose(np.concatenate(pieces), predicted)
    far = table[FEATURES].iloc[:3].assign(a=[100.0, 200.0, 300.0])
    with pytest.warns(UserWarning, match="far outside the rows that were fitted: the farthest has a = 300"):
        line = model.predict(far.assign(b=0.0))
    assert line[2] - line[1] == pytest.approx(line[1] - line[0])
    low, high = model.predict_interval(table[FEATURES]).T
    assert np.mean((low < table["y"]) & (table["y"] < high)) > 0.85


def test_the_diagnosis_compares_what_the_posterior_does(model: BIP) -> None:
    diagnosis = model.diagnose()
    assert diagnosis.subset == ("a", "b")
    assert diagnosis.whole is not None
    bound = model.decision_.findings.target.model
    assert diagnosis.whole.deviance == pytest.approx(-2.0 * bound.log_ratio(["a", "b"]), abs=1e-6)
    assert not diagnosis.stands_out
    assert model.diagnose(["d"]).stands_out
    assert Compared.of(bound).tests(np.zeros(bound.n_features, dtype=bool)).deviation(None) is not None


def test_environments_can_be_left_out(model: BIP) -> None:
    """Fits without each environment keep the columns, and so what predicts."""
    left_out = model._new_environments("selected").left_out
    assert len(left_out) == 4
    assert all({"a", "b"} <= set(errors.features) for errors in left_out)
    assert all(errors.rmse < 1.0 for errors in left_out)
