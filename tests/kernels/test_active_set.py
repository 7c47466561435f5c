from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance import LinearGaussian, MultiEnvironmentData
from invariance.kernels.active_set import (
    Scoring,
    active_set,
    add_column,
    flip_scores,
    load,
    remove_column,
)
from invariance.kernels.cholesky import subset_log_ratio
from invariance.kernels.mcmc import block_inclusion, block_terms, draw_index, normalised
from invariance.moments import Moments
from twins import all_masks, datasets, log_ratio, simulated


def scoring_of(data: MultiEnvironmentData) -> Scoring:
    return LinearGaussian().bind(data).scoring()


def room_for(scoring: Scoring):
    n_groups, d = scoring.inverse_scale.shape
    return active_set(n_groups, d, d)


def with_knockout(seed: int) -> MultiEnvironmentData:
    """Feature 1 is constant in the first environment."""
    data = simulated(5, (14, 16, 18), seed)
    X = data.X.copy()
    X[data.rows(0), 1] = 3.0
    return MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)


@settings(max_examples=25)
@given(datasets(), st.lists(st.integers(0, 4), min_size=1, max_size=12), st.booleans())
def test_flips_follow_any_history_of_additions_and_removals(data, history, knockout) -> None:
    if knockout:
        data = with_knockout(len(history))
    p = data.n_features
    scoring = scoring_of(data)
    state = room_for(scoring)
    included = np.zeros(p + 1, bool)
    assert load(scoring, state, included)
    for feature in (j % p for j in history):
        if included[feature]:
            remove_column(scoring, state, feature)
        else:
            assert add_column(scoring, state, feature)
        included[feature] ^= True
    change = np.empty(p + 1)
    assert flip_scores(scoring, state, change)
    now = log_ratio(data, included[:-1])
    for j in range(p):
        flipped = included[:-1].copy()
        flipped[j] ^= True
        assert change[j] == pytest.approx(log_ratio(data, flipped) - now, abs=1e-7)
    assert np.isnan(change[-1])


def test_collinear_columns_are_undecidable() -> None:
    data = simulated(3, (20, 25), 5)
    X = np.column_stack([data.X, data.X[:, 0] + data.X[:, 1]])
    data = MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)
    scoring = LinearGaussian().bind(Moments.from_data(data)).scoring()
    state = room_for(scoring)
    included = np.array([True, True, False, False, False])
    assert load(scoring, state, included)
    change = np.empty(5)
    flip_scores(scoring, state, change)
    assert np.isnan(change[3])
    assert np.isfinite(change[:3]).all()
    assert not add_column(scoring, state, 3)
    included[3] = True
    assert not load(scoring, state, included)
    assert np.isnan(subset_log_ratio(scoring, np.array([0, 1, 3])))
    with_rows = scoring_of(data)
    assert subset_log_ratio(with_rows, np.array([0, 1, 3])) == pytest.approx(
        log_ratio(data, included[:-1]), abs=1e-8
    )


def test_terms_weights_and_marginals_of_a_block() -> None:
    rng = np.random.default_rng(0)
    odds = rng.normal(size=4)
    by_size = rng.normal(size=5)
    bits = all_masks(4)
    terms = np.empty(16)
    block_terms(odds, by_size, terms)
    np.testing.assert_allclose(terms, bits @ odds + by_size[bits.sum(axis=1)], atol=1e-14)
    terms[3] = np.nan
    weights = np.empty(16)
    assert normalised(terms, weights)
    assert weights[3] == 0.0
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    edges = np.cumsum(weights)
    for s in range(16):
        if s != 3:
            assert draw_index(weights, edges[s] - 0.5 * weights[s]) == s
    assert draw_index(weights, 1.0) == 15
    expected = weights @ bits
    shares = np.empty(4)
    block_inclusion(weights, 4, shares)
    np.testing.assert_allclose(shares, expected, atol=1e-14)
    assert not normalised(np.full(3, np.nan), np.empty(3))
