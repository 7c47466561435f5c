"""A product of coins cut at a size, and mixtures of such, against sums over all subsets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import entr, logsumexp

from invariance.inference import mean_field
from invariance.inference.mean_field import MeanField, Mixture
from twins import all_masks

steps = st.one_of(st.floats(-60.0, 60.0), st.sampled_from([-np.inf, np.inf, 0.0, 1.0]))


@st.composite
def laws(draw: st.DrawFn, p: int | None = None, max_size: int | None = None) -> MeanField:
    p = draw(st.integers(1, 7)) if p is None else p
    logits = np.array(draw(st.lists(steps, min_size=p, max_size=p)))
    forced = int((logits == np.inf).sum())
    return MeanField(logits, draw(st.integers(forced, p)) if max_size is None else max(max_size, forced))


def log_probabilities(q: MeanField) -> np.ndarray:
    """(2**p,) by the definition: products of coins, cut and divided by their sum."""
    masks = all_masks(len(q.logits))
    value = -np.logaddexp(0.0, np.where(masks, -q.logits, q.logits)).sum(axis=1)
    value[masks.sum(axis=1) > q.max_size] = -np.inf
    return value - logsumexp(value)


def entropy_of(log_probabilities: np.ndarray) -> float:
    return float(entr(np.exp(log_probabilities)).sum())


@settings(max_examples=60, deadline=None)
@given(laws())
@example(MeanField(np.array([np.inf, np.inf, 0.0, 0.0]), 2))
@example(MeanField(np.array([50.0, 40.0, 45.0, 60.0]), 2))
@example(MeanField(np.zeros(4), 0))
@example(MeanField(np.array([1.0, 1.0, 1.0, -1.0, -1.0]), 3))
def test_everything_is_of_the_restricted_law(q: MeanField) -> None:
    masks, expected = all_masks(len(q.logits)), log_probabilities(q)
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
    np.testing.assert_allclose(q.log_prob(leading), -np.sort(-expected)[:possible], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(q.leading(3), leading[:3])
    np.testing.assert_array_equal(q.mode, leading[0])


@pytest.mark.parametrize("max_size", [0, 1, 3, 6])
def test_draws_have_the_probabilities_of_the_law(max_size: int) -> None:
    """Far outside the support, too."""
    q = MeanField(np.array([9.0, 8.0, 7.0, 1.0, -1.0, 0.5]), max_size)
    n = 40_000
    draws = q.sample(n, np.random.default_rng(0))
    share = np.bincount(draws @ (1 << np.arange(6)), minlength=64) / n
    expected = np.exp(log_probabilities(q))
    assert (np.abs(share - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / n) + 1e-12).all()


def test_many_features_and_hardly_any_support() -> None:
    """3,000 likely features, 5 at most: the support holds e^-5000 of the product."""
    rng = np.random.default_rng(1)
    logits = rng.normal(2.0, 1.0, 3000)
    q = MeanField(logits, 5)
    assert q.log_support_mass < -5000
    assert q.inclusion.sum() == pytest.approx(5.0, abs=0.01)
    draws = q.sample(2000, rng)
    assert draws.sum(axis=1).max() == 5
    likely = np.argsort(-logits)[:300]
    n_likely = draws[:, likely].sum()
    expected = 2000 * q.inclusion[likely].sum()
    assert abs(n_likely - expected) < 4.5 * np.sqrt(expected)
    assert 0.0 < q.entropy < 5 * np.log(3000)
    assert -q.log_prob(draws).mean() == pytest.approx(q.entropy, abs=0.2)
    np.testing.assert_array_equal(np.flatnonzero(q.mode), np.sort(np.argsort(-logits)[:5]))
    assert len(q.leading(50)) == 50


@settings(max_examples=40, deadline=None)
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
    np.testing.assert_allclose(mixture.inclusion, np.exp(expected) @ masks, atol=1e-9)
    assert mixture.entropy == pytest.approx(entropy_of(expected), abs=0.15)
    assert mixture.entropy <= entropy_of(expected) + entr(weights).sum() + 1e-9


@pytest.mark.parametrize("at_a_time", [1, 30, 10_000])
def test_draws_do_not_depend_on_how_many_are_made_at_a_time(monkeypatch: pytest.MonkeyPatch, at_a_time: int) -> None:
    q, rng = MeanField(np.linspace(-2.0, 1.0, 12), 5), np.random.default_rng(0)
    expected = q.sample_from(rng.random((50, 12)), rng)
    monkeypatch.setattr(mean_field, "_UNIFORMS_AT_A_TIME", at_a_time)
    again = np.random.default_rng(0)
    np.testing.assert_array_equal(q.sample(50, again), expected)
    assert again.random() == rng.random()
    assert expected.sum(axis=1).max() <= 5
