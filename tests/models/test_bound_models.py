"""What bound models say beside log Λ: parameters, degrees of freedom, fits, and what features have
in common."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from conformance_cases import StatsmodelsLogistic, UnitNoise, table
from invariance import Additive, BayesianLinearGaussian, LinearGaussian, MultiEnvironmentData
from invariance.models.base import Family
from invariance.models.gaussian_fits import row_groups
from invariance.models.likelihood import ByLikelihood, Maximum
from invariance.moments import Moments
from twins import all_masks, half_n_log_variance, simulated

SITES = np.repeat([0, 1, 2], 60)


def category(seed: int = 0) -> MultiEnvironmentData:
    """g: three dummies of a level that environment 1 lacks, x3, x4; x4 does not vary in environment
    2."""
    rng = np.random.default_rng(seed)
    codes = np.where(SITES == 1, rng.integers(1, 4, 180), rng.integers(0, 4, 180))
    X = np.column_stack([codes[:, None] == np.arange(1, 4), rng.normal(size=(180, 2))]).astype(
        float
    )
    X[SITES == 2, 4] = 0.5
    y = codes + X[:, 3] + rng.normal(size=180)
    return MultiEnvironmentData.from_arrays(X, y, SITES, groups={"g": ["x0", "x1", "x2"]})


def sums() -> MultiEnvironmentData:
    """x6 = x0 + x1, which subsets cannot hold beside both without a dependence; the others are free
    of any."""
    data = simulated(6, (40, 50, 60), seed=2)
    X = np.column_stack([data.X, data.X[:, 0] + data.X[:, 1]])
    return MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)


def settings() -> MultiEnvironmentData:
    """Three powers of a dose that each environment has set for all of its rows, and a number."""
    rng = np.random.default_rng(4)
    dose = np.array([1.0, 2.0, 4.0])[SITES]
    X = np.column_stack([dose, dose**2, dose**3, rng.normal(size=180)])
    y = X[:, 3] + dose + rng.normal(size=180)
    return MultiEnvironmentData.from_arrays(X, y, SITES, groups={"g": ["x0", "x1", "x2"]})


DATA = {
    "category": category,
    "sums": sums,
    "settings": settings,
    "grouped": lambda: table(True, False),
}
on_data = pytest.mark.parametrize("make", DATA.values(), ids=DATA)


def ranks_of(data: MultiEnvironmentData) -> np.ndarray:
    """(2**p, E + 1) of all subsets, by singular values of the centred columns."""
    scaled = data.X / np.abs(data.X).max(axis=0)
    centred = [scaled[rows] - scaled[rows].mean(axis=0) for rows in row_groups(data)]
    chosen = data.features.expand(all_masks(data.n_features))
    return np.array(
        [
            [np.linalg.matrix_rank(part[:, columns], tol=1e-9) for part in centred]
            for columns in chosen
        ]
    )


@on_data
def test_gains_and_degrees_are_those_of_the_ranks(make) -> None:
    data = make()
    masks = all_masks(data.n_features)
    ranks = ranks_of(data)
    degrees = (ranks[:, :-1] + 2).sum(axis=1) - (ranks[:, -1] + 2)
    gain = [
        half_n_log_variance(np.empty((data.n_rows, 0)), data.y)
        - half_n_log_variance(data.X[:, chosen], data.y)
        for chosen in data.features.expand(masks)
    ]
    model = LinearGaussian().bind(data)
    null = model.null_many(masks)
    np.testing.assert_array_equal(null.degrees, degrees)
    np.testing.assert_allclose(model.gain_many(masks), gain, rtol=1e-8, atol=1e-8)
    assert (null.variance > 0.0).all()
    np.testing.assert_allclose(null.expected, -0.5 * degrees, rtol=0.25)
    of_means = LinearGaussian("mean").bind(data).null_many(masks).degrees
    np.testing.assert_array_equal(of_means, (ranks[:, :-1] + 1).sum(axis=1) - (ranks[:, -1] + 1))


@pytest.mark.parametrize(
    "family",
    [LinearGaussian(), LinearGaussian(invariance="mean"), Additive(), BayesianLinearGaussian()],
    ids=repr,
)
def test_a_value_does_not_depend_on_what_else_is_asked(family: Family) -> None:
    data = simulated(6, (40, 50, 60, 70, 80), seed=2)
    model = family.bind(data)
    masks = all_masks(6)
    alone = np.concatenate([model.log_ratio_many(mask[None]) for mask in masks])
    np.testing.assert_array_equal(model.log_ratio_many(masks), alone)


def test_a_feature_is_alike_to_those_that_share_most_with_one_of_its_columns() -> None:
    X = np.random.default_rng(6).normal(size=(180, 6))
    y = np.random.default_rng(7).normal(size=180)
    X[:, 5], X[:, 2] = X[:, 1] + 0.1 * X[:, 5], X[:, 1] + 2.0 * X[:, 2]
    groups = {"g": ["x0", "x1"], "h": ["x4", "x5"]}
    model = LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, y, SITES, groups=groups))
    assert (model.alike(0, 3).tolist(), model.alike(3, 1).tolist()) == ([3, 1, 2], [0])


@pytest.mark.parametrize("with_rows", [True, False])
def test_a_column_that_is_constant_in_an_environment_has_no_coefficient_there(
    with_rows: bool,
) -> None:
    data = category()
    model = LinearGaussian().bind(data if with_rows else Moments.from_data(data))
    fit = model.fit(["x3", "x4"])
    assert fit.columns == ("x3", "x4")
    np.testing.assert_array_equal(
        np.isnan(fit.local_coefficients), [[False] * 2, [False] * 2, [False, True]]
    )
    design = np.column_stack([np.ones(60), data.X[data.rows(2), 3]])
    expected = np.linalg.lstsq(design, data.y[data.rows(2)], rcond=None)[0]
    np.testing.assert_allclose(
        [fit.local_intercepts[2], fit.local_coefficients[2, 0]], expected, rtol=1e-9
    )


# -------------------------------------------------------------------- models by likelihood


@pytest.mark.parametrize(
    "specification", [UnitNoise(), StatsmodelsLogistic()], ids=["unit noise", "logistic"]
)
def test_a_level_that_an_environment_lacks(specification: ByLikelihood) -> None:
    """Environment 1 lacks the level to compare with: its dummies add up to 1, and one of them is
    left out there."""
    data = category()
    y = (data.y > np.median(data.y)).astype(float) if specification.name == "logistic" else data.y
    model = specification.bind(replace(data, y=y))
    masks = all_masks(3)
    ranks = ranks_of(data)
    assert np.isfinite(model.log_ratio_many(masks)).all()
    np.testing.assert_array_equal(
        model.null_many(masks).degrees, (ranks[:, :-1] + 1).sum(axis=1) - ranks[:, -1] - 1
    )
    fit = model.fit(["g", "x4"])
    missing = [[False] * 4, [False, False, True, False], [False, False, False, True]]
    np.testing.assert_array_equal(np.isnan(fit.local_coefficients), missing)
    assert np.isfinite(fit.coefficients).all()


@dataclass(frozen=True)
class Stopping(ByLikelihood):
    """An optimiser that ends `short` of the maximum wherever it has few rows."""

    short: float = 0.0
    kind = "number"
    link = "identity"

    def maximise(self, X: NDArray, y: NDArray) -> Maximum | None:
        best = UnitNoise().maximise(X, y)
        return (
            best if len(y) > 100 else best._replace(log_likelihood=best.log_likelihood - self.short)
        )


def test_a_pooled_fit_that_beats_the_local_ones_is_an_optimisers_error() -> None:
    """Forgiven where it is rounding, and no value at all where it is more."""
    data = table(False, False)
    same = MultiEnvironmentData.from_arrays(
        np.tile(data.X[:60], (3, 1)), np.tile(data.y[:60], 3), SITES
    )
    masks = np.eye(7, dtype=bool)
    np.testing.assert_allclose(Stopping(0.0).bind(same).log_ratio_many(masks), 0.0, atol=1e-9)
    assert (Stopping(1e-7).bind(same).log_ratio_many(masks) == 0.0).all()
    assert (Stopping(1.0).bind(same).log_ratio_many(masks) == -np.inf).all()
    assert (Stopping(-1.0).bind(same).log_ratio_many(masks) < -2.9).all()
