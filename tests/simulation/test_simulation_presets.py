"""The paper's presets and examples: ranges and distributions of what is drawn, and the published
numbers; `flat`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare, kstest, norm

from invariance.simulation import P10, SimulationParameters, example_2, flat, p10, random_model
from replication.simulators import P450, THEORY, example_1, example_3


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.integers(1, 6), st.floats(0.0, 1.0), st.integers(5, 12))
def test_interventions_touch_the_marked_features_only(
    seed: int, n_environments: int, strength: float, p: int
) -> None:
    model = p10(n_environments, np.random.default_rng(seed), strength=strength, p=p)
    assert not model.intervened[0].any()
    assert set(model.intervened[1:].sum(axis=1)) <= {int(np.floor(strength * p + 0.5))}
    touched = np.column_stack([model.intervened, np.zeros(n_environments, dtype=bool)])
    for values in (model.intercepts, model.variances):
        np.testing.assert_array_equal(values != values[0], touched)
    assert not (model.coefficients != model.coefficients[0]).any(axis=2)[~touched].any()


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
    for seed in range(5):
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
    base = model.coefficients[0, :150][pairs]
    other = model.coefficients[1, :150][pairs]
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


# columns x1, x2, y; slopes of the columns that follow from others, environment by environment; the
# invariant subset
EXAMPLES = [
    (
        example_1,
        [[0, 0.6, 0.5], [2, 2.6, 2.5], [5, 10.6, 5.5]],
        {(2, 0): 1, (1, 0): [0, 0, 1], (1, 2): 1},
        [1, 0],
    ),
    (example_2, [[0, 0.5, 0.6], [2, 0.5, 2.6], [5, -0.5, 4.6]], {(2, 0): 1, (2, 1): 1}, [1, 1]),
    (
        example_3,
        [[0, 0.1, 0.5], [2, -3.9, 2.5], [5, 10.5, 5.5]],
        {(2, 0): 1, (1, 0): [1, -2, 1], (1, 2): [0, 0, 1]},
        [1, 0],
    ),
]


@pytest.mark.parametrize(("example", "means", "slopes", "truth"), EXAMPLES)
def test_examples(
    example: Any, means: list[list[float]], slopes: dict[tuple[int, int], Any], truth: list[int]
) -> None:
    """The published numbers."""
    coefficients = np.zeros((3, 3, 3))
    for (i, j), values in slopes.items():
        coefficients[:, i, j] = values
    for n_environments in (2, 3):
        model = example(n_environments)
        found = np.linalg.solve(np.eye(3) - model.coefficients, model.intercepts[..., None])[..., 0]
        np.testing.assert_allclose(found, means[:n_environments], atol=1e-12)
        np.testing.assert_array_equal(model.coefficients, coefficients[:n_environments])
        np.testing.assert_allclose(model.variances, 0.1**2)
        assert model.truth.astype(int).tolist() == truth


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(9, 14))
def test_flat_has_causes_descendants_and_siblings(seed: int, n_environments: int, p: int) -> None:
    model = flat(n_environments, np.random.default_rng(seed), p=p)
    causes = model.truth
    descendants = model.coefficients[0, :p, p] != 0
    siblings = ~causes & ~descendants & model.coefficients[0, :p, :p].any(axis=1)
    irrelevant = ~(causes | descendants | siblings)
    assert causes.sum() in (2, 3, 4)
    assert descendants.sum() in (2, 3)
    assert siblings.sum() == 2

    def between(values: np.ndarray, low: float, high: float) -> bool:
        return bool(((low <= values) & (values <= high)).all())

    base = np.abs(model.coefficients[0])
    deviations = np.sqrt(model.variances[0])
    assert not base[p, :p][~causes].any()
    assert between(base[p, :p][causes], 0.5, 1.5)
    among = base[:p, :p][np.ix_(causes, causes)]
    assert np.count_nonzero(among) == len(among) * (len(among) - 1) // 2
    assert between(among[among > 0], 0.25, 0.75)
    assert (deviations[:p][causes | irrelevant] == 1.0).all()
    assert between(deviations[:p][siblings], 0.3, 0.8)
    assert between(deviations[[*np.flatnonzero(descendants), p]], 0.5, 1.2)

    assert not model.intervened[:, causes].any()
    assert model.intervened[1:, irrelevant].all()
    assert between(np.sqrt(model.variances / model.variances[0]), 0.5, 2.0)
    of_siblings = model.coefficients[:, :p, :p][:, siblings][:, :, causes]
    ratios = of_siblings / of_siblings[0]
    np.testing.assert_allclose(ratios, np.broadcast_to(ratios[..., :1], ratios.shape))
    assert between(ratios, -1.0, 1.5)


def test_jitter_moves_the_outcomes_coefficients_in_each_environment() -> None:
    model = flat(40, np.random.default_rng(0))
    data = model.sample(1000, np.random.default_rng(1), jitter=0.1)
    ratios = []
    for e in range(model.n_environments):
        X = data.X[data.rows(e)][:, model.truth]
        y = data.y[data.rows(e)]
        slopes = np.linalg.lstsq(np.column_stack([X, np.ones(len(y))]), y, rcond=None)[0][:-1]
        ratios.append(slopes / model.coefficients[0, -1, :-1][model.truth])
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.03)
    assert np.std(ratios) == pytest.approx(0.1, abs=0.025)
