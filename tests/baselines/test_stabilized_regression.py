"""Stabilised regression against the formulas of the authors' package on rows."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from invariance.baselines import StabilizedRegression
from invariance.baselines.stabilized_regression import _sampled_errors
from invariance.data.multi_environment import MultiEnvironmentData
from invariance.exceptions import DataError, DataWarning, SettingError
from invariance.moments.moments import Moments


def rows(n_environments: int = 3, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first two features cause the outcome, the third is an effect that environments move, the
    last is noise."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_environments), [25, 40, 31, 28][:n_environments])
    X = rng.normal(size=(len(labels), 4)) + labels[:, None] * [0.5, 0.0, 0.0, 0.0]
    y = X[:, 0] + 0.2 * X[:, 1] + rng.normal(size=len(labels))
    X[:, 2] = (1.0 + labels) * y + rng.normal(size=len(labels))
    return X, y, labels


def chow(X: np.ndarray, y: np.ndarray, labels: np.ndarray) -> float:
    """As getpval of the package: predictions of an environment by the others, whitened by their
    covariance."""
    design = np.column_stack([np.ones(len(y)), X])
    p_values = []
    k = design.shape[1]
    for label in np.unique(labels):
        own = design[labels == label]
        other = design[labels != label]
        n = len(own)
        m = len(other)
        b = np.linalg.lstsq(other, y[labels != label], rcond=None)[0]
        left = y[labels != label] - other @ b
        missed = y[labels == label] - own @ b
        covariance = np.eye(n) + own @ np.linalg.solve(other.T @ other, own.T)
        statistic = (
            missed @ np.linalg.solve(covariance, missed) / (n * np.var(left, ddof=1) * m / (m - k))
        )
        p_values.append(stats.f.sf(statistic, n, m - k))
    return min(1.0, min(p_values) * (1 if len(p_values) == 2 else len(p_values)))


@pytest.mark.parametrize("n_environments", [2, 3, 4])
def test_it_is_the_average_that_the_formulas_give(n_environments: int) -> None:
    X, y, labels = rows(n_environments)
    model = StabilizedRegression(alpha_pred=0.2, random_state=7).fit(X, y, labels)
    subsets = [tuple(j for j in range(4) if code >> j & 1) for code in range(16)]
    assert model.subsets_["subset"].tolist() == [
        tuple(f"x{j}" for j in subset) for subset in subsets
    ]
    designs = [np.column_stack([np.ones(len(y)), X[:, list(subset)]]) for subset in subsets]
    lines = [np.linalg.lstsq(design, y, rcond=None)[0] for design in designs]
    errors = np.array(
        [np.mean((y - design @ line) ** 2) for design, line in zip(designs, lines, strict=True)]
    )
    p_values = np.array([chow(X[:, list(subset)], y, labels) for subset in subsets])
    np.testing.assert_allclose(model.subsets_["p_value"], p_values, rtol=1e-8)
    np.testing.assert_allclose(model.subsets_["mean_squared_error"], errors, rtol=1e-10)
    stable = p_values >= 0.05
    at = int(np.argmin(np.where(stable, errors, np.inf)))
    best = designs[at]
    rng = np.random.default_rng(7)
    sampled = []
    for _ in range(500):
        drawn = rng.integers(len(y), size=len(y))
        sampled.append(
            np.mean((y - best @ np.linalg.lstsq(best[drawn], y[drawn], rcond=None)[0]) ** 2)
        )
    data = MultiEnvironmentData.from_arrays(X, y, labels)
    coefficients = np.zeros(4)
    coefficients[list(subsets[at])] = lines[at][1:]
    terms = data, Moments.from_data(data), np.array(subsets[at], dtype=np.int64), coefficients
    np.testing.assert_allclose(
        _sampled_errors(*terms, np.random.default_rng(7)), sampled, rtol=1e-9
    )
    averaged = stable & (errors <= np.quantile(sampled, 0.8))
    assert model.subsets_["averaged"].tolist() == averaged.tolist()
    assert 1 < averaged.sum() < stable.sum() < 16
    expected = np.zeros(5)
    for subset, line in ((subsets[i], lines[i]) for i in np.flatnonzero(averaged)):
        expected[[*subset, 4]] += np.append(line[1:], line[0]) / averaged.sum()
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), expected, atol=1e-9)
    assert model.support_.tolist() == (expected[:-1] != 0.0).tolist()


def test_a_feature_that_varies_in_one_environment_only_is_tested_by_rank() -> None:
    X, y, labels = rows()
    X[:, 3] = np.where(labels == 1, X[:, 3], 2.0)
    y = y + 2.0 * (labels == 1) * X[:, 1]
    found = StabilizedRegression().fit(X, y, labels).subsets_.set_index("subset")["p_value"]
    p_values = []
    for label in range(3):
        design = np.column_stack([np.ones(len(y)), X[:, [0, 3]]])
        own = np.flatnonzero(labels == label)
        freed = np.column_stack([design, np.eye(len(y))[:, own]])
        squares = [
            np.sum((y - A @ np.linalg.lstsq(A, y, rcond=None)[0]) ** 2) for A in (design, freed)
        ]
        ranks = [np.linalg.matrix_rank(A) for A in (design, freed)]
        m = len(y) - len(own)
        variance = squares[1] / (m - 1) * m / (len(y) - ranks[1])
        added = ranks[1] - ranks[0]
        p_values.append(
            stats.f.sf((squares[0] - squares[1]) / added / variance, added, len(y) - ranks[1])
        )
    assert np.argmin(p_values) == 1
    assert found[("x0", "x3")] == pytest.approx(min(1.0, 3 * min(p_values)), rel=1e-8)


def test_where_nothing_is_stable_the_least_unstable_tenth_stays() -> None:
    X, y, labels = rows()
    with pytest.warns(DataWarning, match="no subset is stable"):
        model = StabilizedRegression(alpha_pred=1e-9).fit(X, y + 50.0 * labels**2, labels)
    table = model.subsets_.sort_values("p_value", ascending=False)
    assert (table["p_value"] < 0.05).all()
    assert table["averaged"][2:].sum() == 0
    assert table["averaged"].any()


def test_subsets_of_many_features_are_drawn_by_size() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8))
    labels = np.repeat([0, 1], 30)
    y = X[:, 0] + rng.normal(size=60)
    model, again = (
        StabilizedRegression(n_subsets=250, random_state=3).fit(X, y, labels) for _ in range(2)
    )
    sizes = model.subsets_["subset"].map(len)
    assert len(sizes) == 251
    assert sizes[0] == 0
    counts = np.bincount(sizes[1:], minlength=9)[1:]
    assert stats.chisquare(counts, 250 * np.array([1, 2, 3, 4, 4, 3, 2, 1]) / 20.0).pvalue > 0.001
    pd.testing.assert_frame_equal(model.subsets_, again.subsets_)
    every = StabilizedRegression(n_subsets=None).fit(X, y, labels).subsets_["subset"]
    assert sorted(every) == sorted(
        tuple(f"x{j}" for j in c) for k in range(9) for c in combinations(range(8), k)
    )


def test_an_outcome_that_features_determine_speaks_against_no_subset_that_has_them() -> None:
    X, _, labels = rows()
    table = StabilizedRegression().fit(X, X[:, 0] - X[:, 3], labels).subsets_
    exact = table["subset"].map(lambda names: {"x0", "x3"} <= set(names))
    assert (table["p_value"][exact] == 1.0).all()
    assert (table["mean_squared_error"] == 0.0).tolist() == exact.tolist()
    assert table["averaged"].tolist() == exact.tolist()


@pytest.mark.parametrize(
    ("method", "error", "named"),
    [
        (StabilizedRegression(alpha_stab=0.0), SettingError, "alpha_stab"),
        (StabilizedRegression(alpha_pred=1.0), SettingError, "alpha_pred"),
        (StabilizedRegression(n_subsets=0), SettingError, "n_subsets"),
        (StabilizedRegression(), DataError, r"up to 1 columns"),
    ],
)
def test_refusals(method: StabilizedRegression, error: type[Exception], named: str) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(error, match=named):
        method.fit(rng.normal(size=(7, 3)), rng.normal(size=7), [0, 0, 0, 0, 1, 1, 1])
