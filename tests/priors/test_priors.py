"""Priors: normalisation, agreement with plain formulas, exact sampling, sizes, and error
messages."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import betaln

from invariance.priors import (
    PRIOR_FORMS,
    BetaBinomialPrior,
    BoundPrior,
    InclusionPrior,
    Prior,
    UniformPrior,
    parse_prior,
)
from twins import all_masks

NAMES = ["age", "dose", "site"]


def plain_weights(prior: Prior, masks: np.ndarray) -> np.ndarray:
    """Unnormalised probability of each subset, written as one product per subset."""
    p = masks.shape[1]
    limit = p if prior.max_size is None else prior.max_size
    k = masks.sum(axis=1)
    weights = np.ones(len(masks))
    if isinstance(prior, InclusionPrior):
        q = np.broadcast_to(np.asarray(prior.probabilities, dtype=float), p)
        weights = np.prod(np.where(masks, q, 1.0 - q), axis=1)
    elif isinstance(prior, BetaBinomialPrior):
        weights = np.exp(betaln(prior.a + k, prior.b + p - k) - betaln(prior.a, prior.b))
    return np.where(k > limit, 0.0, weights)


def size_distribution(bound: BoundPrior) -> np.ndarray:
    """(p + 1,) probability of each size, one free feature after the other"""
    forced = len(bound.forced)
    mass = np.full(len(bound.feature_names) + 1 - forced, -np.inf)
    mass[0] = 0.0
    for odds in bound.log_odds[bound.free]:
        mass[1:] = np.logaddexp(mass[1:], mass[:-1] + odds)
    weighted = mass + bound.log_size_weight[forced:]
    return np.pad(np.exp(weighted - bound.log_normalizer), (forced, 0))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Prior, int]:
    """A prior of any kind with p <= 10, whose forced features fit its limit."""
    p = draw(st.integers(0, 10))
    limit = draw(st.none() | st.integers(0, p + 2))
    kind = draw(st.sampled_from(["uniform", "beta-binomial", "scalar", "each", "each truncated"]))
    if kind == "uniform":
        return UniformPrior(limit), p
    if kind == "beta-binomial":
        positive = st.floats(0.05, 50.0)
        return BetaBinomialPrior(draw(positive), draw(positive), limit), p
    soft = st.floats(1e-6, 1.0 - 1e-6)
    if kind == "scalar":
        return InclusionPrior(draw(soft | st.just(0.0)), limit), p
    q = draw(st.lists(soft | st.sampled_from([0.0, 1.0, 0.5]), min_size=p, max_size=p))
    forced = sum(value == 1.0 for value in q)
    undecided = sum(0.0 < value < 1.0 for value in q)
    truncated = kind == "each truncated" and undecided > 0
    return InclusionPrior(q, forced + draw(st.integers(0, undecided - 1)) if truncated else None), p


FIXED: dict[str, tuple[Prior, int]] = {
    "uniform": (UniformPrior(), 5),
    "uniform truncated": (UniformPrior(2), 6),
    "beta-binomial": (BetaBinomialPrior(1.0, 3.0), 5),
    "beta-binomial truncated": (BetaBinomialPrior(0.5, 2.0, 3), 6),
    "one probability": (InclusionPrior(0.2), 5),
    "one probability truncated": (InclusionPrior(0.6, 2), 6),
    "each its own": (InclusionPrior([0.1, 0.4, 0.7, 0.85]), 4),
    "each its own truncated": (InclusionPrior([0.1, 0.4, 0.7, 0.85, 0.5], 2), 5),
    "hard and soft": (InclusionPrior([0.3, 1.0, 0.0, 0.6, 0.2, 0.9], 3), 6),
    "hard, rest equal": (InclusionPrior([0.5, 1.0, 0.0, 0.5, 0.5]), 5),
    "all decided": (InclusionPrior([1.0, 0.0, 1.0]), 3),
}
fixed_cases = pytest.mark.parametrize(("prior", "p"), FIXED.values(), ids=FIXED.keys())


@given(cases())
@example(FIXED["hard and soft"])
@example(FIXED["each its own truncated"])
@settings(max_examples=120)
def test_log_prob_is_normalised_and_equals_the_plain_formula(case: tuple[Prior, int]) -> None:
    prior, p = case
    masks = all_masks(p)
    weights = plain_weights(prior, masks)
    probabilities = np.exp(prior.bind(p).log_prob(masks))
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    expected = weights / weights.sum()
    np.testing.assert_allclose(probabilities, expected, rtol=1e-9, atol=1e-300)
    bound = prior.bind(p)
    support = np.isfinite(bound.log_prob(masks))
    np.testing.assert_array_equal(support, weights > 0)
    assert bound.support_size() == np.count_nonzero(support)
    sizes = np.bincount(masks.sum(axis=1), weights=expected, minlength=p + 1)
    np.testing.assert_allclose(size_distribution(bound), sizes, rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(
        bound.inclusion_probabilities(), expected @ masks, rtol=1e-9, atol=1e-15
    )
    inside = masks[support]
    stated = (
        inside @ bound.log_odds + bound.log_size_weight[inside.sum(axis=1)] - bound.log_normalizer
    )
    np.testing.assert_allclose(bound.log_prob(inside), stated, rtol=1e-10, atol=1e-10)


@fixed_cases
def test_sample_frequencies_match_log_prob(prior: Prior, p: int) -> None:
    bound = prior.bind(p)
    masks = all_masks(p)
    expected = np.exp(bound.log_prob(masks))
    n = 40_000
    drawn = bound.sample(n, np.random.default_rng(7))
    np.testing.assert_array_equal(drawn, bound.sample(n, np.random.default_rng(7)))
    assert (drawn.shape, drawn.dtype) == ((n, p), np.bool_)
    share = np.bincount(drawn @ (1 << np.arange(p)), minlength=2**p) / n
    assert (np.abs(share - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / n) + 1e-12).all()


def test_support_size_of_the_gene_study() -> None:
    bound = UniformPrior(200).bind(6169)
    count = bound.support_size()
    assert isinstance(count, int)
    assert count == sum(math.comb(6169, k) for k in range(201))
    assert bound.log_normalizer == pytest.approx(math.log(count), rel=1e-13)
    with_hard = InclusionPrior({"x3": 1.0, "x5": 0.0}, 200).bind(6169)
    assert with_hard.support_size() == sum(math.comb(6167, k) for k in range(200))


def test_beta_binomial_with_huge_parameters_tends_to_independent_inclusion() -> None:
    masks = all_masks(8)
    wide = BetaBinomialPrior(1e15, 3e15).bind(8).log_prob(masks)
    np.testing.assert_allclose(wide, InclusionPrior(0.25).bind(8).log_prob(masks), atol=1e-10)


def test_extreme_probabilities_stay_finite() -> None:
    q = [5e-324, 1e-300, 1.0 - 1e-16, 0.5]
    for limit in (None, 1, 0):
        bound = InclusionPrior(q, limit).bind(4)
        masks = all_masks(4)
        masks = masks[masks.sum(axis=1) <= bound.max_size]
        values = bound.log_prob(masks)
        assert np.isfinite(values).all()
        assert np.exp(values).sum() == pytest.approx(1.0, abs=1e-12)
        assert np.all(bound.inclusion_probabilities() <= 1.0)


LARGE_P = 4000


@pytest.mark.parametrize(
    "prior",
    [
        UniformPrior(),
        BetaBinomialPrior(1.0, 1.0, 200),
        InclusionPrior(np.linspace(0.01, 0.6, LARGE_P), 200),
        InclusionPrior(np.linspace(0.0, 1e-3, LARGE_P)),
    ],
    ids=lambda prior: prior.bind(LARGE_P).name,
)
def test_thousands_of_features(prior: Prior) -> None:
    bound = prior.bind(LARGE_P)
    sizes = size_distribution(bound)
    inclusion = bound.inclusion_probabilities()
    drawn = bound.sample(20, np.random.default_rng(11))
    assert math.isfinite(bound.log_normalizer)
    assert sizes.sum() == pytest.approx(1.0, abs=1e-9)
    mean = sizes @ np.arange(LARGE_P + 1)
    assert inclusion.sum() == pytest.approx(mean, rel=1e-9)
    spread = math.sqrt(sizes @ (np.arange(LARGE_P + 1) - mean) ** 2)
    assert abs(drawn.sum(axis=1).mean() - mean) <= 5 * spread / math.sqrt(20)
    assert drawn.sum(axis=1).max() <= bound.max_size
    values = bound.log_prob(drawn)
    assert np.isfinite(values).all()
    assert np.all(values < 0)


def test_forms_of_probabilities() -> None:
    by_order = InclusionPrior([0.5, 0.2, 1.0]).bind(NAMES)
    masks = all_masks(3)
    by_name = {"dose": 0.2, "site": 1.0}
    for given_as in (
        by_name,
        pd.Series(by_name),
        pd.Series([0.5, 0.2, 1.0]),
        np.array([0.5, 0.2, 1.0]),
    ):
        bound = InclusionPrior(given_as).bind(NAMES)
        np.testing.assert_array_equal(bound.log_prob(masks), by_order.log_prob(masks))
    assert by_order.forced_in.tolist() == [False, False, True]
    assert by_order.inclusion_probabilities() == pytest.approx([0.5, 0.2, 1.0])
    with pytest.raises(ValueError, match="read-only"):
        by_order.log_odds[0] = 1.0


def test_size_limit_comes_from_prior_then_data_then_p() -> None:
    assert UniformPrior().bind(5).max_size == 5
    assert UniformPrior().bind(5, largest_size=3).max_size == 3
    assert UniformPrior(4).bind(5, largest_size=3).max_size == 4
    assert UniformPrior(9).bind(5).max_size == 5
    assert UniformPrior(np.int64(2)).bind(np.int64(5)).max_size == 2  # type: ignore[arg-type]
    assert UniformPrior(9).bind(5).support_size() == UniformPrior().bind(5).support_size() == 32


UNREADABLE = (
    "",
    "flat",
    "uniform(2)",
    "uniform)",
    "beta-binomial(1)",
    "beta-binomial(1,3",
    "beta-binomial()",
)
UNREADABLE += ("inclusion", "inclusion(a)", "inclusion(0.3))")


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: InclusionPrior(1.5), ["'all'", "1.5"]),
        (lambda: InclusionPrior("often"), ["'all'", "'often'"]),
        (lambda: InclusionPrior({"age": -0.1}), ["'age'", "-0.1"]),
        (lambda: InclusionPrior([0.5, math.nan]), ["feature 2", "nan"]),
        (lambda: InclusionPrior([0.5, 0.2]).bind(3), ["2 inclusion", "3 features"]),
        (lambda: InclusionPrior(np.ones((2, 2))), ["'all'"]),
        (lambda: InclusionPrior({"agee": 0.2}).bind(NAMES), ["'agee'", "did you mean 'age'?"]),
        (lambda: InclusionPrior({"zzz": 0.2}).bind(NAMES), ["'zzz'", "'age', 'dose', 'site'"]),
        (
            lambda: InclusionPrior({"age": 1, "dose": 1}, 1).bind(NAMES),
            ["at most 1", "'age', 'dose'"],
        ),
        (lambda: UniformPrior(-1), ["max_size", "-1"]),
        (lambda: BetaBinomialPrior(max_size=2.0), ["max_size", "2.0"]),  # type: ignore[arg-type]
        (lambda: BetaBinomialPrior(0.0), ["a=0.0"]),
        (lambda: BetaBinomialPrior(1.0, math.inf), ["b=inf"]),
        (lambda: UniformPrior().bind(3).log_prob([[True, False]]), ["(S, 3)"]),
        (lambda: parse_prior("inclusion(1.5)", None), ["1.5"]),
        *(
            (lambda text=text: parse_prior(text, None), [repr(text), *PRIOR_FORMS])
            for text in UNREADABLE
        ),
    ],
)
def test_refusals(build: Callable[[], Any], named: list[str]) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        build()
    assert all(part in str(raised.value) for part in named), str(raised.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" Uniform ", UniformPrior(4)),
        ("beta-binomial", BetaBinomialPrior(max_size=4)),
        ("beta-binomial( .5 , 2e1 )", BetaBinomialPrior(0.5, 20.0, 4)),
        ("inclusion(1)", InclusionPrior(1.0, 4)),
    ],
)
def test_parse_prior(text: str, expected: Prior) -> None:
    assert parse_prior(text, 4) == expected
