"""Products of coins cut at a size, and mixtures, against sums over all subsets; importance weights
against a twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import entr, logsumexp
from scipy.stats import genpareto

from invariance.inference.mean_field import MeanField, Mixture
from invariance.inference.variational import pareto_smoothed, reweight
from twins import all_masks

steps = st.one_of(st.floats(-60.0, 60.0), st.sampled_from([-np.inf, np.inf, 0.0, 1.0]))


@st.composite
def laws(draw: st.DrawFn, p: int | None = None, max_size: int | None = None) -> MeanField:
    p = draw(st.integers(1, 7)) if p is None else p
    logits = np.array(draw(st.lists(steps, min_size=p, max_size=p)))
    forced = int((logits == np.inf).sum())
    return MeanField(
        logits, draw(st.integers(forced, p)) if max_size is None else max(max_size, forced)
    )


def log_probabilities(q: MeanField) -> np.ndarray:
    """(2**p,) by the definition: products of coins, cut and divided by their sum."""
    masks = all_masks(len(q.logits))
    value = -np.logaddexp(0.0, np.where(masks, -q.logits, q.logits)).sum(axis=1)
    value[masks.sum(axis=1) > q.max_size] = -np.inf
    return value - logsumexp(value)


def entropy_of(log_probabilities: np.ndarray) -> float:
    return float(entr(np.exp(log_probabilities)).sum())


@settings(max_examples=60)
@given(laws())
@example(MeanField(np.array([np.inf, np.inf, 0.0, 0.0]), 2))
@example(MeanField(np.array([50.0, 40.0, 45.0, 60.0]), 2))
@example(MeanField(np.zeros(4), 0))
@example(MeanField(np.array([1.0, 1.0, 1.0, -1.0, -1.0]), 3))
def test_everything_is_of_the_restricted_law(q: MeanField) -> None:
    masks = all_masks(len(q.logits))
    expected = log_probabilities(q)
    np.testing.assert_allclose(q.log_prob(masks), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(q.inclusion, np.exp(expected) @ masks, rtol=1e-9, atol=1e-12)
    assert q.entropy == pytest.approx(entropy_of(expected), rel=1e-9, abs=1e-11)
    assert q.inclusion.sum() <= q.max_size + 1e-9
    product = log_probabilities(MeanField(q.logits, len(q.logits)))
    inside = masks.sum(axis=1) <= q.max_size
    assert q.log_support_mass == pytest.approx(logsumexp(product[inside]), rel=1e-9, abs=1e-9)
    possible = int((expected > -np.inf).sum())
    leading = q.leading(1000)
    assert len(np.unique(leading, axis=0)) == len(leading) == possible
    np.testing.assert_allclose(
        q.log_prob(leading), -np.sort(-expected)[:possible], rtol=1e-9, atol=1e-9
    )
    np.testing.assert_array_equal(q.leading(3), leading[:3])
    np.testing.assert_array_equal(q.mode, leading[0])


@pytest.mark.parametrize("max_size", [0, 1, 3, 6])
def test_draws_have_the_probabilities_of_the_law(max_size: int) -> None:
    """Far outside the support, too."""
    q = MeanField(np.array([9.0, 8.0, 7.0, 1.0, -1.0, 0.5]), max_size)
    n = 50_000  # more than are drawn at a time
    draws = q.sample(n, np.random.default_rng(0))
    share = np.bincount(draws @ (1 << np.arange(6)), minlength=64) / n
    expected = np.exp(log_probabilities(q))
    assert (np.abs(share - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / n) + 1e-12).all()


@settings(max_examples=40)
@given(st.lists(laws(p=5, max_size=3), min_size=1, max_size=3), st.integers(0, 100))
def test_mixture_of_restricted_laws(components: list[MeanField], seed: int) -> None:
    most = max(q.max_size for q in components)
    components = [MeanField(q.logits, most) for q in components]
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(components)))
    mixture = Mixture(tuple(components), weights)
    masks = all_masks(5)
    with np.errstate(divide="ignore"):
        expected = np.log(weights @ np.exp([log_probabilities(q) for q in components]))
    np.testing.assert_allclose(np.exp(mixture.log_prob(masks)), np.exp(expected), atol=1e-12)


# Importance weights


def fitted(excess: np.ndarray) -> tuple[float, float]:
    """Zhang & Stephens' quasi-Bayesian mean over a grid, with scipy's likelihood instead of the
    closed form."""
    x = np.sort(excess)
    n = len(x)
    m = 30 + int(np.sqrt(n))
    prior_scale = x[int(np.floor(n / 4 + 0.5)) - 1]
    grid = np.array(
        [1 / x[-1] + (1 - np.sqrt(m / (i - 0.5))) / (3 * prior_scale) for i in range(1, m + 1)]
    )
    shapes = np.array([np.mean(np.log1p(-theta * x)) for theta in grid])
    scales = np.array([-k / t if t else x.mean() for k, t in zip(shapes, grid, strict=True)])
    likelihood = np.array(
        [genpareto.logpdf(x, k, scale=s).sum() for k, s in zip(shapes, scales, strict=True)]
    )
    theta = np.exp(likelihood - logsumexp(likelihood)) @ grid
    k = np.mean(np.log1p(-theta * x))
    return (n * k + 10 * 0.5) / (n + 10), (-k / theta if theta else x.mean())


def smoothed_by_twin(log_weights: np.ndarray) -> tuple[float, np.ndarray]:
    n = len(log_weights)
    top = log_weights.max()
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
        "lognormal": rng.normal(size=4000),
        "heavy": -0.9 * np.log(rng.random(2000)) + 50.0,
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
        # The subset with the largest weight, drawn often: more of it than the tail, or all of the
        # tail.
        *(
            (np.log(np.concatenate([np.ones(1500), np.full(n_top, 2.0)])), -np.inf)
            for n_top in (100, 110, 130)
        ),
        # A few draws above all others matter by their share.
        (np.append(np.zeros(1000), np.log([1e3] * 3)), np.inf),
        (np.append(np.zeros(1000), np.log([1.5] * 3)), -np.inf),
        (np.array([0.0]), -np.inf),
        (np.array([0.0, 3.0, 1.0]), np.inf),
        (np.append(np.full(500, -np.inf), [0.0, 1.0]), np.inf),
        # Thousands of nats below a few draws, the rest of the tail has no weight in float64.
        (
            np.concatenate([-3000.0 - np.linspace(0.0, 500.0, 3989), np.linspace(0.0, 1.0, 11)]),
            np.inf,
        ),
    ],
)
def test_weights_without_a_tail_to_fit(log_weights: np.ndarray, k: float) -> None:
    for jitter in (0.0, 1e-13):
        noisy = log_weights + jitter * np.random.default_rng(0).normal(size=len(log_weights))
        assert pareto_smoothed(noisy)[0] == k
        np.testing.assert_array_equal(pareto_smoothed(noisy)[1], noisy)


def test_draws_outside_the_support_are_kept_apart() -> None:
    masks = np.array([[0, 0], [1, 1], [1, 1], [0, 1], [1, 0], [1, 1]], dtype=bool)
    log_ratios = np.array([-1.0, -np.inf, -np.inf, -2.0, -np.inf, -np.inf])
    result = reweight(masks, log_ratios, np.zeros(6), np.zeros(6), keep=5)
    assert sorted(result.outside.tolist()) == [[True, False], [True, True]]
    assert result.undecided == pytest.approx(4 / 6)
    assert result.masks.tolist() == [[False, False], [False, True]]
