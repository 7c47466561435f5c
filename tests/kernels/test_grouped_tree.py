"""Features of several columns: each kernel against least squares, subset by subset."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance import LinearGaussian, MultiEnvironmentData
from invariance.kernels.active_set import Scoring
from invariance.kernels.cholesky import subset_log_ratio
from invariance.kernels.subset_tree import (
    feature_starts,
    low_features,
    score_block,
    score_extensions,
    tree_starts,
    walk_order,
)
from twins import all_masks, log_ratio, simulated


def grouped_data(widths: list[int], seed: int = 0, constant: bool = False) -> MultiEnvironmentData:
    """Columns of features with these widths, at least one; `constant`: the first does not vary in
    environment 1."""
    d = max(sum(widths), 1)
    data = simulated(d, (d + 6, d + 9, d + 15), seed)
    X = data.X.copy()
    X[data.rows(1), 0] = 2.0 if constant else X[data.rows(1), 0]
    return MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)


def scoring_of(data: MultiEnvironmentData, rows: bool = False) -> Scoring:
    model = LinearGaussian().bind(data)
    return model.scoring_by_rows() if rows else model.scoring_by_moments()


def columns_of(widths: list[int], mask: np.ndarray, n_columns: int) -> np.ndarray:
    """(n_columns,) mask of the columns of the features in `mask` (f,)."""
    return np.concatenate(
        [np.repeat(mask, widths), np.zeros(n_columns - sum(widths), bool)]
    ).astype(bool)


def least_squares(data: MultiEnvironmentData, widths: list[int]) -> np.ndarray:
    """(2**f,) log Λ of all subsets of features."""
    masks = all_masks(len(widths))
    return np.array([log_ratio(data, columns_of(widths, mask, data.n_features)) for mask in masks])


def dense(scoring: Scoring, widths: list[int], n_low: int) -> np.ndarray:
    """(2**f,) from one block for each choice of the high features."""
    f = len(widths)
    starts = feature_starts(np.array(widths, np.int64))
    out = np.empty((1 << (f - n_low), 1 << n_low))
    low = starts[: n_low + 1]
    for prefix, high in enumerate(all_masks(f - n_low)):
        fixed = low[-1] + np.flatnonzero(np.repeat(high, widths[n_low:]))
        score_block(scoring, fixed, low, np.arange(low[-1]), out[prefix])
    return out.ravel()


def listed(
    scoring: Scoring, widths: list[int], prefix: tuple[int, ...], max_size: int
) -> dict[tuple[int, ...], float]:
    f = len(widths)
    first = prefix[-1] + 1 if prefix else 0
    subsets = [
        prefix + s
        for k in range(max_size - len(prefix) + 1)
        for s in combinations(range(first, f), k)
    ]
    members = np.empty((len(subsets), max(max_size, 1)), np.int32)
    out = np.full(len(subsets), np.inf)
    starts = feature_starts(np.array(widths, np.int64))
    fixed = np.flatnonzero(np.repeat(np.isin(range(f), prefix), widths))
    block = fixed, starts[first:] - starts[first], np.arange(starts[first], starts[-1])
    score_extensions(scoring, *block, np.array(prefix, np.int64), first, max_size, members, out)
    found = {tuple(row[row >= 0].tolist()): value for row, value in zip(members, out, strict=True)}
    assert sorted(found) == sorted(subsets)
    return found


@pytest.mark.parametrize("widths", [[3, 2, *[1] * 8], [2, *[1] * 8], [1, 1, 4, *[1] * 7]])
def test_the_last_three_columns_follow_features_of_several(widths: list[int]) -> None:
    """A block of nine features or more includes its last three columns together."""
    data = grouped_data(widths, seed=3)
    found = dense(scoring_of(data), widths, len(widths))
    np.testing.assert_allclose(found, least_squares(data, widths), rtol=1e-7, atol=1e-7)


some_widths = st.lists(st.integers(1, 5), max_size=5)


@settings(max_examples=25)
@given(some_widths, st.integers(0, 10**6), st.booleans(), st.integers(0, 5))
def test_all_subsets_agree_with_least_squares(
    widths: list[int], seed: int, constant: bool, n_low: int
) -> None:
    data = grouped_data(widths, seed, constant)
    scores = dense(scoring_of(data), widths, min(n_low, len(widths)))
    np.testing.assert_allclose(scores, least_squares(data, widths), rtol=1e-9, atol=1e-9)


@settings(max_examples=25)
@given(some_widths, st.integers(0, 10**6), st.booleans(), st.data())
def test_listed_subsets_agree_with_least_squares(
    widths: list[int], seed: int, constant: bool, draw: st.DataObject
) -> None:
    f = len(widths)
    prefix = tuple(sorted(draw.draw(st.sets(st.integers(0, f - 1) if f else st.nothing()))))
    max_size = draw.draw(st.integers(len(prefix), f))
    data = grouped_data(widths, seed, constant)
    expected = least_squares(data, widths)
    for subset, value in listed(scoring_of(data), widths, prefix, max_size).items():
        assert value == pytest.approx(expected[sum(1 << j for j in subset)], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("widths", [[1, 2, 1, 3, 2], [3, 2, 1, 1], [1, 1, 1, 4]])
def test_columns_that_depend_on_each_other_inside_a_feature_poison_its_subsets_alone(
    widths: list[int],
) -> None:
    """Unless one of them is declared absent in that group: it adds nothing to what the others
    explain there."""
    data = grouped_data(widths, 3)
    feature = int(np.argmax(widths))
    first = sum(widths[:feature])
    X = data.X.copy()
    X[data.rows(2), first + 2] = X[data.rows(2), first] - X[data.rows(2), first + 1]
    data = MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)
    scoring = scoring_of(data)
    holds = all_masks(len(widths))[:, feature]
    expected = np.where(holds, np.nan, least_squares(data, widths))
    for n_low in range(len(widths) + 1):
        np.testing.assert_allclose(dense(scoring, widths, n_low), expected, rtol=1e-9)
    for subset, value in listed(scoring, widths, (), len(widths)).items():
        assert value == pytest.approx(expected[sum(1 << j for j in subset)], rel=1e-9, nan_ok=True)
    scoring.inverse_scale[2, first + 2] = 0.0
    np.testing.assert_allclose(
        dense(scoring, widths, len(widths)), least_squares(data, widths), rtol=1e-9
    )


def block_of_features(
    widths: list[int], place: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns of the features at place 0 (fixed), and starts and columns of those at place 1 (the
    block)."""
    columns = np.arange(sum(widths))
    starts = feature_starts(np.array(widths, np.int64)[place == 1])
    return columns[np.repeat(place == 0, widths)], starts, columns[np.repeat(place == 1, widths)]


def undecided(widths: list[int], seed: int, kind: str) -> MultiEnvironmentData:
    """Second moments cannot decide: a column ten million times as large in one place, or a sum of
    two others."""
    data = grouped_data(widths, seed, constant=seed % 2 == 0)
    X = data.X.copy()
    y = data.y.copy()
    rows = data.rows(2)
    if kind == "huge":
        X[rows, -1] *= 1e7
        y[rows] += X[rows, -1]
    elif kind == "dependent" and X.shape[1] > 2:
        X[rows, -1] = X[rows, 0] + X[rows, 1]
    return MultiEnvironmentData.from_arrays(X, y, data.environment_index)


@settings(max_examples=30)
@given(
    some_widths,
    st.integers(0, 10**6),
    st.sampled_from(["plain", "huge", "dependent"]),
    st.booleans(),
)
def test_blocks_of_features_agree_with_single_subsets(
    widths: list[int], seed: int, kind: str, rows: bool
) -> None:
    place = np.random.default_rng(seed).integers(0, 3, len(widths))
    fixed, starts, block = block_of_features(widths, place)
    scoring = scoring_of(undecided(widths, seed, kind), rows)
    values = np.empty(1 << (starts.size - 1))
    score_block(scoring, fixed, starts, block, values)
    in_block = np.diff(starts).tolist()
    for value, bits in zip(values, all_masks(len(in_block)), strict=True):
        members = np.sort(np.concatenate([fixed, block[columns_of(in_block, bits, len(block))]]))
        expected = subset_log_ratio(scoring, members)
        assert value == pytest.approx(expected, rel=1e-6, abs=1e-6, nan_ok=True)


@given(st.lists(st.integers(1, 60), max_size=25))
def test_narrow_features_make_the_block_and_are_decided_last(widths: list[int]) -> None:
    w = np.array(widths, np.int64)
    order = walk_order(w)
    assert sorted(order) == list(range(len(w)))
    n_low = low_features(w[order])
    low = w[order][:n_low]
    high = w[order][n_low:]
    assert (np.diff(low) <= 0).all()
    assert not n_low or not len(high) or low.max() <= high.min()
    assert tree_starts(feature_starts(low))[-1] <= 1 << 21
    assert (
        n_low == min(len(w), 14)
        or tree_starts(feature_starts(np.append(np.sort(high)[:1], low)))[-1] > 1 << 21
    )


def test_features_of_one_width_stay_in_their_order() -> None:
    np.testing.assert_array_equal(walk_order(np.full(20, 4)), np.arange(20))
    assert low_features(np.full(20, 4)) == 14
    assert low_features(np.array([1, 5000])) == 1
    assert low_features(np.array([], np.int64)) == 0
