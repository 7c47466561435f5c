"""Closed forms of structural models against plain algebra and extended precision."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance import LinearGaussian, Moments
from invariance.moments.moments import filled_pool
from invariance.simulation import StructuralModel, example_2, flat, p10
from replication.heterogeneity import mu, mu_min, population
from replication.simulators import example_1, example_3, p450, theory

seeds = st.integers(0, 2**32)


def precise_mu(model: StructuralModel, masks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(S,) μ in extended precision, and (S,) the smallest squared, scaled pivot in an environment
    or in the mixture."""
    d = model.n_features + 1
    n_environments = model.n_environments
    loadings = np.zeros((n_environments, d, d + 1), np.longdouble)
    for e in range(n_environments):
        for i in model.ordering:
            loadings[e, i] = model.coefficients[e, i].astype(np.longdouble) @ loadings[e]
            loadings[e, i, i] += np.sqrt(np.longdouble(model.variances[e, i]))
            loadings[e, i, d] += model.intercepts[e, i]
    factors = loadings[:, :, :d]
    shifts = (loadings[:, :, d] - loadings[:, :, d].mean(axis=0)).T
    mixture = np.concatenate([*factors, shifts], axis=1) / np.sqrt(np.longdouble(n_environments))
    values = np.empty(len(masks))
    pivots = np.empty(len(masks))
    for s, mask in enumerate(masks):
        columns = np.append(np.flatnonzero(mask), model.n_features)
        fits = [_residual(rows[columns]) for rows in (*factors, mixture)]
        values[s] = 0.5 * (fits[-1][0] - np.mean([fit[0] for fit in fits[:-1]]))
        pivots[s] = min(fit[1] for fit in fits)
    return values, pivots


def _residual(rows: np.ndarray) -> tuple[np.longdouble, np.longdouble]:
    """log residual variance of the last row on the others, and the smallest squared pivot of the
    unit rows."""
    norms = np.sqrt((rows * rows).sum(axis=1))
    basis: list[np.ndarray] = []
    squares = []
    for rest in rows / norms[:, None]:
        for unit in basis * 2:
            rest -= (unit @ rest) * unit
        squares.append(rest @ rest)
        basis.append(rest / np.sqrt(squares[-1]))
    return np.log(squares[-1]) + 2 * np.log(norms[-1]), min(squares)


def all_masks(p: int) -> np.ndarray:
    return np.array(list(product([False, True], repeat=p)))


def small_model(seed: int = 3, n_environments: int = 3) -> StructuralModel:
    return theory(n_environments, 1.0, np.random.default_rng(seed))


def covariances(model: StructuralModel) -> np.ndarray:
    """(E, p+1, p+1) from (I - B)^-1 D (I - B)^-T."""
    d = model.n_features + 1
    inverse = np.linalg.inv(np.eye(d) - model.coefficients)
    return inverse * model.variances[:, None, :] @ inverse.swapaxes(1, 2)


def population_moments(model: StructuralModel, counts: np.ndarray) -> Moments:
    """Of so many rows of each environment, without sampling error."""
    means, factors = population(model)
    local = (factors * counts[:, None, None]) @ factors.swapaxes(1, 2)
    none = np.zeros_like(means)
    return Moments(
        columns=(*model.feature_names, "y"),
        outcome=model.n_features,
        environments=model.environments,
        counts=counts,
        centre=means,
        rest=none,
        minimum=np.full(means.shape, -np.inf),
        maximum=np.full(means.shape, np.inf),
        scatter=filled_pool(counts, means, none, local),
    )


def test_the_pooled_moments_are_those_of_the_mixture() -> None:
    model = small_model()
    counts = np.array([10, 20, 70])
    moments = population_moments(model, counts)
    means = np.linalg.solve(np.eye(4) - model.coefficients, model.intercepts[..., None])[..., 0]
    weights = counts / 100
    second = np.einsum(
        "e,eij->ij", weights, covariances(model) + means[:, :, None] * means[:, None, :]
    )
    pooled = second - np.outer(weights @ means, weights @ means)
    np.testing.assert_allclose(moments.scatter[-1], 100 * pooled, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        moments.scatter[:-1], counts[:, None, None] * covariances(model), rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(moments.pooled_mean, weights @ means)


def test_log_ratio_of_the_population_is_mu_times_the_rows() -> None:
    model = p10(4, np.random.default_rng(1))
    masks = all_masks(10)
    log_ratio = (
        LinearGaussian().bind(population_moments(model, np.full(4, 50))).log_ratio_many(masks)
    )
    np.testing.assert_allclose(log_ratio, -50 * 4 * mu(model, masks), rtol=1e-6, atol=1e-9)


@settings(max_examples=6)
@given(seeds, st.integers(2, 5))
def test_mu_vanishes_at_the_truth_and_nowhere_else(seed: int, n_environments: int) -> None:
    # p_active=1: a feature on which the outcome has no effect anywhere could join the truth
    p10_model = p10(n_environments, np.random.default_rng(seed), strength=1.0, p_active=(1.0,))
    for model in (small_model(seed, n_environments), p10_model):
        masks = all_masks(model.n_features)
        values = mu(model, masks)
        at_truth = (masks == model.truth).all(axis=1)
        assert values[at_truth] == pytest.approx([0.0], abs=1e-9)
        assert values[~at_truth].min() > 1e-9
        assert mu_min(model) == values[~at_truth].min()


@pytest.mark.skipif(
    np.finfo(np.longdouble).eps > 1e-18, reason="long double is no wider than double here"
)
def test_mu_at_p450_is_right_or_nan() -> None:
    model = p450(2, np.random.default_rng(0), p=250)
    rng = np.random.default_rng(1)
    masks = np.zeros((11, 250), dtype=bool)
    for mask, size in zip(masks[1:], np.tile([1, 3, 6, 10, 15], 2), strict=True):
        mask[rng.choice(250, size, replace=False)] = True
    masks[0] = model.truth
    values = mu(model, masks)
    expected, pivots = precise_mu(model, masks)
    assert values[0] == pytest.approx(0.0, abs=1e-12)
    decided = pivots > 1.1e-20
    np.testing.assert_allclose(values[decided], expected[decided], rtol=0, atol=1e-4)
    assert np.isnan(values[pivots < 0.9e-20]).all()
    assert 2 < decided.sum() < 11


@pytest.mark.parametrize(
    ("example", "truth"), [(example_1, [1, 0]), (example_2, [1, 1]), (example_3, [1, 0])]
)
def test_examples_lose_an_invariant_subset_with_the_third_environment(
    example: Any, truth: list[int]
) -> None:
    masks = all_masks(2)
    for n_environments, expected in ((2, [[1, 0], [1, 1]]), (3, [truth])):
        assert masks[mu(example(n_environments), masks) < 1e-12].astype(int).tolist() == expected
    assert mu_min(example(2)) == pytest.approx(0.0, abs=1e-12)
    assert mu_min(example(3)) > 0.1


def test_subsets_of_untouched_causes_are_invariant() -> None:
    for seed in range(3):
        model = flat(5, np.random.default_rng(seed))
        np.testing.assert_allclose(
            mu(model, [model.truth, np.zeros_like(model.truth)]), 0.0, atol=1e-9
        )
