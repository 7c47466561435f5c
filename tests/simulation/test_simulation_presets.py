"""The paper's presets and examples: ranges and distributions of what is drawn, and the published numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare, kstest, norm

from invariance.simulation import (
    P10,
    P450,
    THEORY,
    SimulationParameters,
    example_1,
    example_2,
    example_3,
    p10,
    random_model,
    theory,
)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6), st.floats(0.0, 1.0), st.integers(5, 12))
def test_interventions_touch_the_marked_features_only(seed: int, n_environments: int, strength: float, p: int) -> None:
    model = p10(n_environments, np.random.default_rng(seed), strength=strength, p=p)
    assert not model.intervened[0].any()
    assert set(model.intervened[1:].sum(axis=1)) <= {int(np.floor(strength * p + 0.5))}
    for e in range(n_environments):
        kept = np.append(~model.intervened[e], True)
        assert kept[-1]
        np.testing.assert_array_equal(model.coefficients[e, kept], model.coefficients[0, kept])
        np.testing.assert_array_equal(model.intercepts[e, kept], model.intercepts[0, kept])
        np.testing.assert_array_equal(model.variances[e, kept], model.variances[0, kept])
        changed = model.intervened[e]
        assert (model.intercepts[e, :-1] != model.intercepts[0, :-1])[changed].all()
        assert (model.variances[e, :-1] != model.variances[0, :-1])[changed].all()


@pytest.mark.parametrize(
    ("strength", "p", "count"), [(0.33, 3, 1), (1 / 3, 3, 1), (2 / 3, 3, 2), (1.0, 3, 3), (0.25, 10, 3), (0.04, 10, 0)]
)
def test_strength_is_rounded_to_a_count_of_features(strength: float, p: int, count: int) -> None:
    model = theory(4, strength, np.random.default_rng(0), p=p)
    assert model.intervened.sum(axis=1).tolist() == [0, count, count, count]


@pytest.mark.parametrize(
    ("parameters", "p", "new_range"),
    [
        (THEORY, 12, (0.01**2, 1.5**2)),
        (replace(THEORY, intercept_mean=(0.3, 0.3)), 12, (0.31**2, 0.8**2)),
        (P10, 10, (0.02, 3.0)),
        (P450, 60, (0.01, 0.615)),
    ],
)
def test_drawn_parameters_stay_in_the_published_ranges(
    parameters: SimulationParameters, p: int, new_range: tuple[float, float]
) -> None:
    for seed in range(10):
        model = random_model(p, 4, np.random.default_rng(seed), parameters)
        fewest, most = parameters.true_features
        assert fewest <= model.truth.sum() <= most
        assert ((model.variances[0] >= 0.1**2) & (model.variances[0] <= 0.2**2)).all()
        low, high = parameters.coefficients
        base = np.abs(model.coefficients[0])
        assert ((base == 0) | ((base >= low) & (base <= high))).all()
        assert (base[p, :p] > 0).tolist() == model.truth.tolist()
        redrawn = np.abs(model.coefficients)[model.coefficients != model.coefficients[0]]
        assert ((redrawn == 0) | ((redrawn >= new_range[0]) & (redrawn <= new_range[1]))).all()
        factor = np.sqrt(model.variances / model.variances[0])[:, :p][model.intervened]
        assert ((factor >= 0.1) & (factor <= 0.7)).all()
        share = model.intervened[1:].mean(axis=1)
        assert ((share >= parameters.strength[0] - 0.5 / p) & (share <= 1.0)).all()


def test_shares_of_active_and_redrawn_coefficients() -> None:
    parameters = replace(P450, p_active=(0.25,), p_change=(0.2, 0.2), strength=(1.0, 1.0))
    model = random_model(150, 2, np.random.default_rng(0), parameters)
    position = np.argsort(model.ordering)
    pairs = position[None, :] < position[:150, None]
    base, other = model.coefficients[0, :150][pairs], model.coefficients[1, :150][pairs]
    assert binomtest(int((base != 0).sum()), base.size, 0.25).pvalue > 1e-3
    # 0 drawn anew as 0 looks unchanged: p_change (1 - 0.75²)
    assert binomtest(int((base != other).sum()), base.size, 0.2 * (1 - 0.75**2)).pvalue > 1e-3
    assert binomtest(int((base > 0).sum()), int((base != 0).sum()), 0.5).pvalue > 1e-3


def test_intercepts_before_and_after_intervention() -> None:
    parameters = replace(P450, p_active=(0.0,), intercept_mean=(0.7, 0.7), strength=(1.0, 1.0))
    model = random_model(1000, 2, np.random.default_rng(0), parameters)
    assert kstest(model.intercepts[0], "norm").pvalue > 1e-3

    def mixture(x: np.ndarray) -> np.ndarray:
        return 0.5 * (norm.cdf(x - 0.7) + norm.cdf(x + 0.7))

    assert kstest(model.intercepts[1, :-1], mixture).pvalue > 1e-3
    assert kstest(model.variances[0], "uniform", (0.01, 0.03)).pvalue > 1e-3


def test_the_number_of_true_features_and_their_identity_are_uniform() -> None:
    rng = np.random.default_rng(0)
    truths = np.array([p10(1, rng).truth for _ in range(600)])
    sizes = np.bincount(truths.sum(axis=1), minlength=11)
    assert sizes[[0, 6, 7, 8, 9, 10]].sum() == 0
    assert chisquare(sizes[1:6]).pvalue > 1e-3
    singles = truths[truths.sum(axis=1) == 1]
    assert chisquare(singles.sum(axis=0)).pvalue > 1e-3


# columns x1, x2, y; slopes of the columns that follow from others and invariant subsets, environment by environment
EXAMPLES = [
    (
        example_1,
        [[0, 0.6, 0.5], [2, 2.6, 2.5], [5, 10.6, 5.5]],
        {(2, 0): [1, 1, 1], (1, 0): [0, 0, 1], (1, 2): [1, 1, 1]},
        [[1, 0]],
    ),
    (
        example_2,
        [[0, 0.5, 0.6], [2, 0.5, 2.6], [5, -0.5, 4.6]],
        {(2, 0): [1, 1, 1], (2, 1): [1, 1, 1]},
        [[1, 1]],
    ),
    (
        example_3,
        [[0, 0.1, 0.5], [2, -3.9, 2.5], [5, 10.5, 5.5]],
        {(2, 0): [1, 1, 1], (1, 0): [1, -2, 1], (1, 2): [0, 0, 1]},
        [[1, 0]],
    ),
]


@pytest.mark.parametrize(("example", "means", "slopes", "with_three"), EXAMPLES)
def test_examples(
    example: Any, means: list[list[float]], slopes: dict[tuple[int, int], list[float]], with_three: list[list[int]]
) -> None:
    """The published numbers, and an invariant subset that is lost with the third environment."""
    coefficients = np.zeros((3, 3, 3))
    for (i, j), values in slopes.items():
        coefficients[:, i, j] = values
    masks = np.array(list(product([False, True], repeat=2)))
    for n_environments, expected in ((2, [[1, 0], [1, 1]]), (3, with_three)):
        model = example(n_environments)
        np.testing.assert_allclose(model.population_moments().means, means[:n_environments], atol=1e-12)
        np.testing.assert_array_equal(model.coefficients, coefficients[:n_environments])
        np.testing.assert_allclose(model.variances, 0.1**2)
        assert masks[model.mu(masks) < 1e-12].astype(int).tolist() == expected
        assert model.truth.astype(int).tolist() == with_three[0]
    assert example(2).mu_min() == pytest.approx(0.0, abs=1e-12)
    assert example(3).mu_min() > 0.1
