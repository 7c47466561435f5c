"""The values of a Posterior, on posteriors enumerated by plain numpy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance.exceptions import SettingError, WrongTypeError
from invariance.posterior.posterior import Evidence
from posteriors import (
    all_masks,
    assert_same,
    cut,
    enumerate_posterior,
    from_probabilities,
    random_posterior,
)


def test_marginals_and_mode_agree_with_enumeration() -> None:
    log_ratios = -np.arange(8.0)[::-1]
    posterior = enumerate_posterior(log_ratios)
    weights = np.exp(log_ratios)
    assert posterior.mode == ("x0", "x1", "x2")
    assert posterior.mode_probability == pytest.approx(1 / weights.sum(), rel=1e-12)
    series = posterior.inclusion_probabilities
    assert series["x0"] == pytest.approx(weights[4:].sum() / weights.sum(), rel=1e-12)
    pairs = posterior.pairwise_inclusion
    assert pairs.loc["x0", "x2"] == pytest.approx(weights[[5, 7]].sum() / weights.sum(), rel=1e-12)
    np.testing.assert_allclose(np.diagonal(pairs), series, rtol=1e-12)


def test_subsets_table() -> None:
    posterior = from_probabilities({(0, 2): 0.5, (): 0.3, (1,): 0.2})
    table = posterior.subsets(3)
    assert list(table.columns)[:5] == ["subset", "size", "log_ratio", "probability", "cumulative"]
    assert list(table.columns)[5:] == [field.name for field in fields(Evidence)]
    assert table[list(table.columns)[5:]].isna().all(axis=None)
    assert table["subset"].tolist() == [("x0", "x2"), (), ("x1",)]
    assert table["size"].tolist() == [2, 0, 1]
    np.testing.assert_allclose(table["log_ratio"], np.log([0.5, 0.3, 0.2]))
    np.testing.assert_allclose(table["probability"], [0.5, 0.3, 0.2])
    np.testing.assert_allclose(table["cumulative"], [0.5, 0.8, 1.0])
    assert len(posterior.subsets()) == 8
    assert len(random_posterior(0, p=5).subsets()) == 20
    assert len(random_posterior(0, p=5).subsets(None)) == 32


@settings(max_examples=30)
@given(weights=st.lists(st.integers(0, 20), min_size=8, max_size=8), level=st.floats(0.01, 1.0))
def test_credible_collection_is_the_smallest(weights: list[int], level: float) -> None:
    if sum(weights) == 0:
        weights = [1] * 8
    probabilities = np.array(weights) / sum(weights)
    with np.errstate(divide="ignore"):
        posterior = enumerate_posterior(np.log(probabilities))
    collection = posterior.credible_subsets(level)
    assert collection["probability"].sum() >= level - 2e-12
    smallest = min(
        size
        for size in range(1, 9)
        if any(sum(c) >= level - 1e-12 for c in itertools.combinations(probabilities, size))
    )
    assert len(collection) == smallest


def test_credible_collection_asks_the_source_or_warns() -> None:
    whole = random_posterior(3, scale=1.0)
    expected = whole.credible_subsets(0.9)
    assert len(expected) > 3
    pd.testing.assert_frame_equal(cut(whole, 3, source=True).credible_subsets(0.9), expected)
    short = cut(whole, 3)
    with pytest.warns(UserWarning, match=f"{short.table_mass:.3g}"):
        assert len(short.credible_subsets(0.9)) == 3
    assert len(short.credible_subsets(0.01)) == 1


def test_order_of_ties_does_not_depend_on_the_engine() -> None:
    rng = np.random.default_rng(5)
    base = random_posterior(0, p=9)
    log_ratios = -rng.integers(0, 2, 512).astype(float)
    table = all_masks(9), log_ratios, log_ratios - np.log(np.exp(log_ratios).sum())
    found = []
    for _ in range(2):
        order = rng.permutation(512)
        masks, log_ratios, log_probabilities = (values[order] for values in table)
        found.append(
            replace(base, masks=masks, log_ratios=log_ratios, log_probabilities=log_probabilities)
        )
    assert_same(*found)
    rows = zip(found[0].masks, found[0].log_probabilities, strict=True)
    keys = [
        (-log_probability, int(mask.sum()), tuple(np.flatnonzero(mask)))
        for mask, log_probability in rows
    ]
    assert keys == sorted(keys)


def test_probability_by_names_and_mask_in_the_table_and_outside() -> None:
    posterior = random_posterior(7)
    table = posterior.subsets(None)
    for subset, probability in zip(
        table["subset"].tolist(), table["probability"].tolist(), strict=True
    ):
        assert posterior.probability(subset) == pytest.approx(probability, rel=1e-12)
        mask = [name in subset for name in posterior.feature_names]
        assert posterior.probability(mask) == posterior.probability(np.array(mask))
        assert posterior.probability(reversed(subset)) == posterior.probability(mask)
    last = table["subset"].iloc[-1]
    assert cut(posterior, 3, source=True).probability(last) == pytest.approx(
        posterior.probability(last), rel=1e-12
    )
    assert cut(posterior, 3, n_subsets=3).probability(last) == 0.0
    assert posterior.probability(posterior.mode) == cut(posterior, 3).probability(posterior.mode)


def test_sample_matches_the_probabilities() -> None:
    posterior = random_posterior(2, p=3, scale=1.0)
    draws = posterior.sample(20_000, random_state=0)
    assert list(draws.columns) == ["x0", "x1", "x2"]
    assert set(draws.dtypes) == {np.dtype(bool)}
    np.testing.assert_allclose(draws.mean(), posterior.inclusion, atol=0.015)
    pd.testing.assert_frame_equal(
        posterior.sample(50, 3), posterior.sample(50, np.random.default_rng(3))
    )
    assert not posterior.sample(50, 3).equals(posterior.sample(50, 4))


REFUSED = {
    "level 0": (lambda: random_posterior(0).credible_subsets(0.0), SettingError, "level"),
    "level NaN": (lambda: random_posterior(0).credible_subsets(math.nan), SettingError, "level"),
    "no subsets": (lambda: random_posterior(0).subsets(0), SettingError, "top"),
    "half a subset": (lambda: random_posterior(0).subsets(2.5), WrongTypeError, "top"),
    "an empty summary": (lambda: random_posterior(0).summary(0), SettingError, "top"),
    "no draws": (lambda: random_posterior(0).sample(0), SettingError, "n must"),
    "draws of a part": (lambda: cut(random_posterior(2), 3).sample(2), SettingError, "3 subsets"),
    "outside the table": (
        lambda: cut(random_posterior(7), 3).probability(["x0", "x1"]),
        SettingError,
        "3 subsets",
    ),
    "pairs": (
        lambda: random_posterior(0, pairwise=None).pairwise_inclusion,
        SettingError,
        "engine='exact'",
    ),
    "unknown feature": (
        lambda: random_posterior(0).probability(["x1", "x_2"]),
        ValueError,
        "'x_2'",
    ),
    "one string": (lambda: random_posterior(0).probability("x1"), TypeError, "x1"),
    "short mask": (
        lambda: random_posterior(0).probability([True, False]),
        ValueError,
        "4 features",
    ),
    "positions": (lambda: random_posterior(0).probability([1, 2]), TypeError, "1"),
}


@pytest.mark.parametrize(("ask", "error", "named"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(ask: Callable[[], Any], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        ask()


INCONSISTENT = {
    "feature_names": [("a", "a", "b", "c")],
    "inclusion": [np.zeros(3), np.array([0, 0.5, math.nan, 0])],
    "masks": [np.zeros((16, 4)), np.zeros((16, 4), dtype=bool)],
    "log_ratios": [np.zeros(3)],
    "log_probabilities": [np.zeros(16), np.full(16, -np.inf)],
    "counts": [np.ones(1, dtype=int)],
    "entropy": [math.nan],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, one) for name, values in INCONSISTENT.items() for one in values]
)
def test_inconsistent_parts_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        replace(random_posterior(0), **{name: value})


def test_arrays_are_read_only_copies() -> None:
    mine = np.array([0.1, 0.2, 0.3, 0.4])
    posterior = random_posterior(0, inclusion=mine, pairwise=None)
    mine[0] = 0.9
    assert posterior.inclusion[0] == 0.1
    with pytest.raises(ValueError, match="read-only"):
        posterior.masks[0, 0] = True
