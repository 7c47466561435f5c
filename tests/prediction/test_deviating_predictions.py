"""Predictions after a fit with random deviations: own coefficients of known environments, intervals
for new ones."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import t as student

from deviation_twins import Dense, sites
from invariance import BIP, LinearGaussian, Moments, load
from invariance.exceptions import PredictionWarning
from line_twins import mixed_by_rows
from shifted_sites import own_baselines

pytestmark = pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
COUNTS = (3, 25, 8, 14, 1, 30, 6, 12, 9, 18, 22, 5)
DATA = sites(COUNTS, seed=2, size=0.8)
LABELS = DATA.environment_index


def fitted(kind: str, data: object = DATA) -> BIP:
    return BIP(deviations="random", baseline="shared", predict_with=kind, progress=False).fit(data)


@pytest.mark.parametrize("kind", ["selected", "everything"])
def test_known_environments_have_their_own_coefficients(kind: str) -> None:
    model = fitted(kind)
    mask = model.decision_.mask if kind == "selected" else np.ones(4, dtype=bool)
    blups = LinearGaussian(deviations="random").bind(DATA).blups(mask)
    X = DATA.X[:, mask]
    assert blups.share > 0.05
    plain = model.predict(DATA.X)
    own = model.predict(DATA.X, environments=LABELS)
    # Deviations are those from the line that predicts, which is not that of the mixed model where
    # all features do.
    covariance = Dense.of(DATA, mask).covariance(blups.share)
    expected = (covariance - np.eye(DATA.n_rows)) @ np.linalg.solve(covariance, DATA.y - plain)
    assert_allclose(own - plain, expected, rtol=1e-8, atol=1e-10)
    if kind == "selected":
        assert_allclose(plain, blups.intercepts[-1] + X @ blups.coefficients[-1], rtol=1e-9)
    assert np.mean((DATA.y - own) ** 2) < 0.9 * np.mean((DATA.y - plain) ** 2)
    with pytest.warns(PredictionWarning, match="no row of these environments"):
        strange = model.predict(DATA.X[:2], environments=[99, 1])
    assert_allclose(
        strange, [plain[0], plain[1] + (model.predict(DATA.X[1:2], environments=[1])[0] - plain[1])]
    )


def test_free_baselines_are_random_intercepts_of_dense_algebra() -> None:
    """Known environments have their own, intervals of new ones count how baselines deviate, and
    none is left out."""
    data = own_baselines(20, 8)
    env = data.environment_index
    model = BIP(deviations="random", predict_with="selected").fit(data)
    decision = model.decision_
    assert decision.level == "effects"
    X = data.X[:, decision.mask]
    y = data.y
    line, ratio = mixed_by_rows(X, y, env)
    assert_allclose([*model.predictor_.coefficients, model.predictor_.intercept], line, rtol=1e-5)
    member = (env[:, None] == np.arange(20)).astype(float)
    W = np.column_stack([X, np.ones(len(y))])
    V = np.eye(len(y)) + ratio * member @ member.T
    left = y - W @ line
    labels = [f"s{e}" for e in env]
    own = model.predict(data.X, environments=labels) - model.predict(data.X)
    assert_allclose(own, ratio * member @ member.T @ np.linalg.solve(V, left), rtol=1e-4, atol=1e-6)
    noise = left @ np.linalg.solve(V, left) / (len(y) - 3)
    new = own_baselines(20, 8, seed=1).X[:9]
    rows = np.column_stack([new[:, decision.mask], np.ones(9)])
    more = ratio + np.einsum("ni,ij,nj->n", rows, np.linalg.inv(W.T @ np.linalg.solve(V, W)), rows)
    freedom = (1.0 + more) ** 2 / (1.0 / (len(y) - 3) + more**2 / 19)
    found = model.predict_interval(new, coverage=0.9)
    expected = student.ppf(0.95, freedom) * np.sqrt(noise * (1.0 + more))
    assert_allclose(0.5 * (found[:, 1] - found[:, 0]), expected, rtol=1e-4)
    assert model._predictions._elsewhere == {}


def test_an_average_averages_own_coefficients() -> None:
    model = BIP(deviations="random", predict_with="average", select="mode", progress=False).fit(
        sites((40,) * 9, size=0.1)
    )
    predictor = model.predictor_
    data = sites((40,) * 9, size=0.1)
    assert len(predictor.members) > 1
    bound = LinearGaussian(deviations="random").bind(data)
    expected = np.zeros((9, 5))
    for member in predictor.members:
        mask = np.isin(np.arange(4), predictor.design.columns and member.at)
        found = bound.blups([predictor.columns[j] for j in member.at])
        own = np.column_stack([found.intercepts, found.coefficients])
        assert mask.sum() == len(member.at)
        expected[:, [0, *(1 + member.at)]] += member.weight * (own[:-1] - own[-1])
    assert_allclose(
        predictor.effects, expected[:, : 1 + len(predictor.columns)], rtol=1e-8, atol=1e-12
    )


def test_intervals_are_those_of_a_new_environment() -> None:
    model = fitted("selected")
    mask = model.decision_.mask
    dense = Dense.of(DATA, mask)
    blups = LinearGaussian(deviations="random").bind(DATA).blups(mask)
    X = sites((2,) * 5, seed=9).X
    W = np.column_stack([np.ones(len(X)), X[:, mask] - DATA.X[:, mask].mean(axis=0)])
    more = np.einsum(
        "ni,ij,nj->n", W, dense.new_environment(DATA.n_environments, blups.share, 20), W
    )
    within = DATA.n_rows - W.shape[1]
    between = DATA.n_environments - 1
    freedom = (1.0 + more) ** 2 / (1.0 / within + more**2 / between)
    expected = student.ppf(0.95, freedom) * np.sqrt(blups.noise * (1.0 + more))
    found = model.predict_interval(X, coverage=0.9)
    assert_allclose(0.5 * (found[:, 1] - found[:, 0]), expected, rtol=1e-8)
    assert_allclose(found.mean(axis=1), model.predict(X), rtol=1e-9)
    assert model._predictions._elsewhere == {}  # no environment was left out


def test_few_environments_are_left_out_too() -> None:
    model = fitted("selected", sites((12, 10, 4, 15, 8), seed=5, size=0.5))
    half = np.diff(model.predict_interval(DATA.X))[:, 0] / 2.0
    assert (half >= model.predictor_.half_width(DATA.X[:, model.decision_.mask], 0.9) - 1e-9).all()
    assert (half >= model.new_environments().half_width(0.9) - 1e-9).all()


def test_intervals_of_three_environments_warn() -> None:
    model = fitted("selected", sites((12, 10, 14), seed=5, size=0.5))
    with pytest.warns(
        PredictionWarning, match="3 training environments are few: .* cover less than 90%"
    ):
        model.predict_interval(sites((4, 4, 4), seed=6).X * 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PredictionWarning)
        model.predict_interval(sites((4, 4, 4), seed=6).X * 0.1, coverage=0.5)


@pytest.mark.parametrize("data", [DATA, Moments.from_data(DATA)], ids=["rows", "moments"])
def test_a_saved_model_predicts_the_same(data: object, tmp_path: Path) -> None:
    model = fitted("selected", data)
    model.save(tmp_path / "model.json")
    saved = load(tmp_path / "model.json")
    for kind in ("selected", "everything", "average"):
        both = model.set_params(predict_with=kind), saved.set_params(predict_with=kind)
        X = pd.DataFrame(DATA.X, columns=list(DATA.feature_names))
        own, again = (each.predict(X, environments=LABELS) for each in both)
        np.testing.assert_array_equal(own, again)
        np.testing.assert_array_equal(*(each.predict_interval(X) for each in both))


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.0, 0.3])
def test_intervals_cover_rows_and_means_of_new_sites(size: float) -> None:
    """90% of single rows and of means of 20 rows; pooled Student's t covers means of deviating
    sites less"""
    rows = []
    means = []
    pooled = []
    for seed in range(40):
        data = sites(
            tuple(np.random.default_rng(seed).integers(4, 41, 100)),
            seed=seed,
            p=3,
            size=size,
            n_slopes=3,
        )
        both = sites((20,) * 60, seed=10_000 + seed, p=3, size=size, n_slopes=3)
        model = fitted("everything", data)
        low, high = model.predict_interval(both.X).T
        rows.append(np.mean((low <= both.y) & (both.y <= high)))
        member = model.predictor_.members[0]
        missed = (both.y - model.predict(both.X)).reshape(60, 20).mean(axis=1)
        X = both.X.reshape(60, 20, -1).mean(axis=1)
        noise = member.noise
        quantile = student.ppf(0.95, member.freedom)
        variance = member.variance(X) - noise + noise / 20.0
        means.append(np.mean(np.abs(missed) <= quantile * np.sqrt(variance)))
        pooled.append(
            np.mean(
                np.abs(missed) <= quantile * np.sqrt(noise * (0.05 + member.design.leverage(X)))
            )
        )
    assert 0.88 < np.mean(rows) < 0.92
    assert 0.86 < np.mean(means) < 0.94
    assert np.mean(pooled) < 0.8 or not size
