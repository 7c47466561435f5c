"""Importance weights: Pareto smoothing against a plain twin, and what ties say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import genpareto

from invariance.inference.variational import POOR_PARETO_K, pareto_smoothed, reweight


def fitted(excess: np.ndarray) -> tuple[float, float]:
    """Zhang & Stephens' quasi-Bayesian mean over a grid, with scipy's likelihood instead of the closed form."""
    x = np.sort(excess)
    n = len(x)
    m = 30 + int(np.sqrt(n))
    prior_scale = x[int(np.floor(n / 4 + 0.5)) - 1]
    grid = np.array([1 / x[-1] + (1 - np.sqrt(m / (i - 0.5))) / (3 * prior_scale) for i in range(1, m + 1)])
    shapes = np.array([np.mean(np.log1p(-theta * x)) for theta in grid])
    scales = np.array([-k / t if t else x.mean() for k, t in zip(shapes, grid, strict=True)])
    likelihood = np.array([genpareto.logpdf(x, k, scale=s).sum() for k, s in zip(shapes, scales, strict=True)])
    theta = np.exp(likelihood - logsumexp(likelihood)) @ grid
    k = np.mean(np.log1p(-theta * x))
    return (n * k + 10 * 0.5) / (n + 10), (-k / theta if theta else x.mean())


def smoothed_by_twin(log_weights: np.ndarray) -> tuple[float, np.ndarray]:
    n, top = len(log_weights), log_weights.max()
    weights = np.exp(log_weights - top)
    order = np.argsort(weights, kind="stable")
    cutoff = weights[order[n - int(min(n / 5, 3 * np.sqrt(n))) - 1]]
    tail = [i for i in order if weights[i] > cutoff * (1 + 1e-9)]
    k, sigma = fitted(weights[tail] - cutoff)
    for rank, i in enumerate(tail):
        weights[i] = min(1.0, cutoff + genpareto.ppf((rank + 0.5) / len(tail), k, scale=sigma))
    with np.errstate(divide="ignore"):
        return k, np.log(weights) + top


def examples() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    atoms = np.log(np.array([0.1, 0.5, 1.0, 1.3, 4.0]))
    return {
        "light": rng.normal(size=1000) * 0.3,
        "lognormal": rng.normal(size=4000),
        "heavy": -0.9 * np.log(rng.random(2000)) + 50.0,
        "bounded": np.log(rng.random(500)),
        "some impossible": np.where(rng.random(800) < 0.5, -np.inf, rng.normal(size=800)),
        "five subsets": atoms[rng.choice(5, 4000, p=[0.2, 0.3, 0.46, 0.035, 0.005])],
        "ties on the grid": np.log(np.concatenate([np.ones(3900), np.full(99, 2.0), [2.1]])),
    }


@pytest.mark.parametrize("name", examples())
def test_smoothed_weights_are_the_twins(name: str) -> None:
    log_weights = examples()[name]
    k, smoothed = pareto_smoothed(log_weights)
    expected_k, expected = smoothed_by_twin(log_weights)
    assert k == pytest.approx(expected_k, rel=1e-6, abs=1e-8)
    np.testing.assert_allclose(smoothed, expected, rtol=1e-6, atol=1e-8)
    finite = np.isfinite(log_weights)
    assert np.abs(smoothed[finite] - log_weights[finite]).max() > 1e-3


def test_reweighting_uses_the_smoothed_weights() -> None:
    rng = np.random.default_rng(5)
    masks = rng.random((1000, 4)) < 0.5
    log_ratios = -0.8 * np.log(rng.random(1000)) - 20.0
    zero = np.zeros(1000)
    result = reweight(masks, log_ratios, zero, zero, keep=16)
    k, smoothed = smoothed_by_twin(log_ratios)
    weights = np.exp(smoothed - logsumexp(smoothed))
    raw = np.exp(log_ratios - logsumexp(log_ratios))
    np.testing.assert_allclose(result.inclusion, weights @ masks, rtol=1e-6)
    assert np.abs(raw @ masks - weights @ masks).max() > 1e-3
    assert result.ess == pytest.approx(1 / (weights**2).sum(), rel=1e-6)
    assert result.pareto_k == pytest.approx(k, rel=1e-6)


@pytest.mark.parametrize(
    ("log_weights", "k"),
    [
        # The subset with the largest weight, drawn often: more of it than the tail, or all of the tail.
        *((np.log(np.concatenate([np.ones(1500), np.full(n_top, 2.0)])), -np.inf) for n_top in (100, 110, 130)),
        # A few draws above all others matter by their share.
        (np.append(np.zeros(1000), np.log([1e3] * 3)), np.inf),
        (np.append(np.zeros(1000), np.log([1.5] * 3)), -np.inf),
        (np.array([0.0]), -np.inf),
        (np.array([0.0, 3.0, 1.0]), np.inf),
        (np.append(np.full(500, -np.inf), [0.0, 1.0]), np.inf),
    ],
)
def test_weights_without_a_tail_to_fit(log_weights: np.ndarray, k: float) -> None:
    for jitter in (0.0, 1e-13):
        noisy = log_weights + jitter * np.random.default_rng(0).normal(size=len(log_weights))
        assert pareto_smoothed(noisy)[0] == k
        np.testing.assert_array_equal(pareto_smoothed(noisy)[1], noisy)


def test_a_few_draws_that_dwarf_all_others() -> None:
    """Thousands of nats apart, the rest of the tail has no weight in float64: nothing can be fitted, nor trusted."""
    log_weights = np.concatenate([-3000.0 - np.linspace(0.0, 500.0, 3989), np.linspace(0.0, 1.0, 11)])
    k, smoothed = pareto_smoothed(log_weights)
    assert k == np.inf
    np.testing.assert_array_equal(smoothed, log_weights)
    masks = np.arange(4000)[:, None] >> np.arange(12) & 1 == 1
    result = reweight(masks, log_weights, np.zeros(4000), np.zeros(4000), keep=5)
    assert result.pareto_k > POOR_PARETO_K
    assert 5 < result.ess < 12
    assert len(result.masks) == 5


def test_draws_outside_the_support_are_kept_apart() -> None:
    masks = np.array([[0, 0], [1, 1], [1, 1], [0, 1], [1, 0], [1, 1]], dtype=bool)
    log_ratios = np.array([-1.0, -np.inf, -np.inf, -2.0, -np.inf, -np.inf])
    result = reweight(masks, log_ratios, np.zeros(6), np.zeros(6), keep=5)
    assert sorted(result.outside.tolist()) == [[True, False], [True, True]]
    assert result.undecided == pytest.approx(4 / 6)
    assert result.masks.tolist() == [[False, False], [False, True]]
