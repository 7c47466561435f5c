"""Structural models: what they sample, and their closed forms against sampling and extended precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance import LinearGaussian
from invariance.exceptions import SettingError
from invariance.simulation import (
    P10,
    P450,
    CoefficientBound,
    StructuralModel,
    example_1,
    flat,
    p10,
    p450,
    random_model,
    theory,
)

seeds = st.integers(0, 2**32)
RNG = np.random.default_rng(0)


def precise_mu(model: StructuralModel, masks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(S,) μ in extended precision, and (S,) the smallest squared, scaled pivot in an environment or in the mixture."""
    d, n_environments = model.n_features + 1, model.n_environments
    loadings = np.zeros((n_environments, d, d + 1), np.longdouble)
    for e in range(n_environments):
        for i in model.ordering:
            loadings[e, i] = model.coefficients[e, i].astype(np.longdouble) @ loadings[e]
            loadings[e, i, i] += np.sqrt(np.longdouble(model.variances[e, i]))
            loadings[e, i, d] += model.intercepts[e, i]
    factors, shifts = loadings[:, :, :d], (loadings[:, :, d] - loadings[:, :, d].mean(axis=0)).T
    mixture = np.concatenate([*factors, shifts], axis=1) / np.sqrt(np.longdouble(n_environments))
    values, pivots = np.empty(len(masks)), np.empty(len(masks))
    for s, mask in enumerate(masks):
        columns = np.append(np.flatnonzero(mask), model.n_features)
        fits = [_residual(rows[columns]) for rows in (*factors, mixture)]
        values[s] = 0.5 * (fits[-1][0] - np.mean([fit[0] for fit in fits[:-1]]))
        pivots[s] = min(fit[1] for fit in fits)
    return values, pivots


def _residual(rows: np.ndarray) -> tuple[np.longdouble, np.longdouble]:
    """log residual variance of the last row on the others, and the smallest squared pivot of the unit rows."""
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


def recursive_rows(model: StructuralModel, e: int, noise: np.ndarray) -> np.ndarray:
    """The structural equations, one column after the other, for standard normal noise (n, p+1)."""
    rows = np.zeros_like(noise)
    for i in model.ordering:
        rows[:, i] = (
            model.intercepts[e, i] + rows @ model.coefficients[e, i] + np.sqrt(model.variances[e, i]) * noise[:, i]
        )
    return rows


def covariances(model: StructuralModel) -> np.ndarray:
    """(E, p+1, p+1) from (I - B)^-1 D (I - B)^-T."""
    d = model.n_features + 1
    inverse = np.linalg.inv(np.eye(d) - model.coefficients)
    return inverse * model.variances[:, None, :] @ inverse.swapaxes(1, 2)


@pytest.mark.parametrize("n_environments", [1, 3])
def test_rows_follow_the_structural_equations(n_environments: int) -> None:
    model = p10(n_environments, np.random.default_rng(5))
    counts = np.arange(19, 19 + n_environments)
    data = model.sample(counts, np.random.default_rng(8))
    assert data.environments == ("e1", "e2", "e3")[:n_environments]
    assert data.counts.tolist() == counts.tolist()
    assert data.X.flags.c_contiguous
    assert data.truth.tolist() == model.truth.tolist()
    rng = np.random.default_rng(8)
    for e in range(n_environments):
        rows = recursive_rows(model, e, rng.standard_normal((11, counts[e])).T)
        np.testing.assert_allclose(np.column_stack([data.X, data.y])[data.rows(e)], rows, rtol=1e-9, atol=1e-9)


def test_the_pooled_moments_are_those_of_the_mixture() -> None:
    model, counts = small_model(), np.array([10, 20, 70])
    moments = model.population_moments(counts)
    means = np.linalg.solve(np.eye(4) - model.coefficients, model.intercepts[..., None])[..., 0]
    weights = counts / 100
    second = np.einsum("e,eij->ij", weights, covariances(model) + means[:, :, None] * means[:, None, :])
    pooled = second - np.outer(weights @ means, weights @ means)
    np.testing.assert_allclose(moments.scatter[-1], 100 * pooled, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(moments.scatter[:-1], counts[:, None, None] * covariances(model), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(moments.pooled_mean, weights @ means)


def test_log_ratio_of_the_population_is_mu_times_the_rows() -> None:
    model, masks = p10(4, np.random.default_rng(1)), all_masks(10)
    log_ratio = LinearGaussian().bind(model.population_moments(50)).log_ratio_many(masks)
    np.testing.assert_allclose(log_ratio, -50 * 4 * model.mu(masks), rtol=1e-6, atol=1e-9)


@settings(max_examples=6, deadline=None)
@given(seeds, st.integers(2, 5))
def test_mu_vanishes_at_the_truth_and_nowhere_else(seed: int, n_environments: int) -> None:
    # p_active=1: a feature on which the outcome has no effect anywhere could join the truth
    p10_model = p10(n_environments, np.random.default_rng(seed), strength=1.0, p_active=(1.0,))
    for model in (small_model(seed, n_environments), p10_model):
        masks = all_masks(model.n_features)
        values = model.mu(masks)
        at_truth = (masks == model.truth).all(axis=1)
        assert values[at_truth] == pytest.approx([0.0], abs=1e-9)
        assert values[~at_truth].min() > 1e-9
        assert model.mu_min() == values[~at_truth].min()


def test_mu_min_can_be_limited_to_small_subsets() -> None:
    model = p10(3, np.random.default_rng(0))
    masks = all_masks(10)
    others = masks[(masks.sum(axis=1) <= 2) & (masks != model.truth).any(axis=1)]
    assert model.mu_min(max_size=2) == model.mu(others).min()
    assert model.mu_min(max_size=2) >= model.mu_min()
    assert random_model(2, 2, RNG, replace(P10, true_features=(0, 0))).mu_min(max_size=0) == np.inf


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="long double is no wider than double here")
def test_mu_at_p450_is_right_or_nan() -> None:
    model, rng = p450(2, np.random.default_rng(0), p=250), np.random.default_rng(1)
    masks = np.zeros((11, 250), dtype=bool)
    for mask, size in zip(masks[1:], np.tile([1, 3, 6, 10, 15], 2), strict=True):
        mask[rng.choice(250, size, replace=False)] = True
    masks[0] = model.truth
    values = model.mu(masks)
    expected, pivots = precise_mu(model, masks)
    assert values[0] == pytest.approx(0.0, abs=1e-12)
    decided = pivots > 1.1e-20
    np.testing.assert_allclose(values[decided], expected[decided], rtol=0, atol=1e-4)
    assert np.isnan(values[pivots < 0.9e-20]).all()
    assert 2 < decided.sum() < 11


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"ordering": [0, 0, 2]}, "ordering"),
        ({"variances": np.zeros((2, 3))}, "variances"),
        ({"intercepts": np.full((2, 3), np.nan)}, "intercepts"),
        ({"coefficients": np.ones((2, 3, 3))}, "coefficients"),
        ({"intervened": np.zeros((2, 2))}, "intervened"),
        ({"feature_names": ("a", "a")}, "feature_names"),
        ({"intercepts": np.array([[0, 0, 0], [0, 0, 1]])}, "outcome"),
    ],
)
def test_inconsistent_models_are_refused(changes: dict[str, object], named: str) -> None:
    with pytest.raises(SettingError, match=named):
        replace(example_1(2), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        *((lambda n=n: small_model().sample(n, RNG), "^n") for n in (0, 2.5, [3, 3], [3, 0, 3])),
        (lambda: flat(3, RNG).sample(10, RNG, jitter=np.nan), "jitter"),
        (lambda: flat(3, RNG).sample_apart(10, 3, RNG), "n_fresh"),
        (lambda: flat(3, RNG, p=8), "p=8"),
        (lambda: p10(0, RNG), "n_environments=0"),
        (lambda: example_1(4), "n_environments=4"),
        (lambda: random_model(30, 2, RNG, P450).mu_min(), "max_size"),
        (lambda: p10(2, RNG, strength=(0.0, 1.5)), "strength"),
        (lambda: p10(2, RNG, noise=(0.0, 0.1)), "noise"),
        (lambda: p10(2, RNG, p_active=(1.2,)), "p_active"),
        (lambda: p10(2, RNG, new_upper=CoefficientBound(0.001)), "new_upper"),
        (lambda: p10(2, RNG, true_features=(11, 12)), "true_features"),
    ],
)
def test_impossible_requests_are_refused(ask: Callable[[], object], named: str) -> None:
    with pytest.raises(SettingError, match=named):
        ask()
