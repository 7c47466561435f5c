"""Metrics against their definitions, and the Wilson interval against published values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.methods import coverage, exact_discovery, precision, rate, recall

TRUTH = [True, True, False, False]
masks = st.integers(1, 8).flatmap(
    lambda p: st.tuples(
        st.lists(st.booleans(), min_size=p, max_size=p), st.lists(st.booleans(), min_size=p, max_size=p)
    )
)


def test_a_rejected_model_is_neither_covered_nor_exact() -> None:
    assert coverage([False, False], [True, False])
    assert not coverage([False, False], [True, False], rejected=True)
    assert not exact_discovery([False, False], [False, False], rejected=True)


@given(masks)
def test_metrics_agree_with_sets(pair: tuple[list[bool], list[bool]]) -> None:
    selected, truth = ({j for j, member in enumerate(mask) if member} for mask in pair)
    assert exact_discovery(*pair) == (selected == truth)
    assert coverage(*pair) == (selected <= truth)
    both = len(selected & truth)
    assert precision(*pair) == pytest.approx(both / len(selected) if selected else math.nan, nan_ok=True)
    assert recall(*pair) == pytest.approx(both / len(truth) if truth else math.nan, nan_ok=True)


@pytest.mark.parametrize(
    ("selected", "truth", "message"),
    [
        ([True], [True, False], "one length"),
        ([[True, False]], [[True, False]], "one length"),
        ([0, 2, 3], [1, 0, 0], "not lists of positions"),
    ],
)
def test_what_is_no_mask_is_refused(selected: list[object], truth: list[object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        coverage(selected, truth)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    # Newcombe (1998), Statistics in Medicine 17:857-872, table I, method 3
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_rates_have_the_published_wilson_interval(successes: int, n: int, low: float, high: float) -> None:
    found = rate(np.arange(n) < successes)
    assert (found.mean, found.low, found.high) == pytest.approx((successes / n, low, high), abs=5e-5)
    assert found.n == n
