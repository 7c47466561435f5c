"""Outcomes of two values that a code for missing values, or another spelling, hides."""

from __future__ import annotations

import numpy as np
import pandas as pd

from invariance import BIP
from invariance.data.outcomes import outcome_kind


def reason(*values_and_counts: tuple[float, int]) -> str:
    y = np.concatenate([np.full(count, value, float) for value, count in values_and_counts])
    return outcome_kind(np.random.default_rng(0).permutation(y), "died").reason


def test_codes_beside_two_values_are_pointed_at() -> None:
    said = ", but 599 of 600 rows are 0 or 1: look whether 9 stands for missing values"
    assert reason((0, 300), (1, 299), (9, 1)).endswith(said)
    assert "look whether 8 and 99 stand for missing values" in reason((1, 300), (2, 280), (8, 10), (99, 10))
    assert "look whether -9 stands" in reason((0, 300), (1, 299), (-9, 1))
    assert "look whether 9 stands" in reason((0, 3000), (1, 2900), (9, 1))


def test_counts_and_scores_are_not() -> None:
    for values in (
        [(0, 900), (1, 90), (2, 9), (3, 1)],
        [(0, 300), (1, 200), (9, 100)],
        [(0, 500), (5, 480), (9, 5)],
        [(float(k), 100) for k in range(7)],
    ):
        assert "missing" not in reason(*values)
    assert "missing" not in outcome_kind(np.random.default_rng(0).normal(size=5000), "y").reason
    late = np.concatenate([np.zeros(600), np.ones(600), np.arange(2.0, 50.0)])
    assert "missing" not in outcome_kind(late, "y").reason
    many = np.concatenate([np.zeros(900), np.ones(900), np.arange(10.0, 60.0, 10.0)])
    assert "missing" not in outcome_kind(many, "y").reason


def test_the_fit_says_so() -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 300).astype(float)
    y[7] = 9.0
    model = BIP().fit(rng.normal(size=(300, 2)), pd.Series(y, name="died"), environments=np.repeat([1, 2, 3], 100))
    assert "look whether 9 stands for missing values" in " ".join(str(model.summary()).split())
