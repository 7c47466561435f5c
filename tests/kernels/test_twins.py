"""Each kernel against its NumPy twin: the same numbers, ranks, and subsets that cannot be
decided."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernel_twins
from invariance import LinearGaussian, MultiEnvironmentData
from invariance.data.features import as_lists
from invariance.kernels import cholesky, elementary, row_residuals, subset_sums, subset_tree
from invariance.kernels.active_set import Scoring
from invariance.kernels.baseline_scores import contrast_statistics, residual_moments
from invariance.kernels.row_residuals import DEPENDENT, GroupRows, without_values
from invariance.kernels.subset_tree import feature_starts
from invariance.models.gaussian_fits import group_rows
from invariance.moments.least_squares import unit_rows
from twins import all_masks

TOLERANCE = 1e-9
MASKS = all_masks(4)


class Call(NamedTuple):
    """What both are called with. slack: of the last argument, besides 1e-9 relative; most: ranks
    above it are the same; free: places of arguments that may differ in the end."""

    module: Any
    name: str
    arguments: tuple[Any, ...]
    slack: Any = 0.0
    most: Any = None
    free: tuple[int, ...] = ()


def same(one: Any, other: Any, slack: Any = 0.0) -> None:
    one = np.asarray(one, dtype=float)
    other = np.asarray(other, dtype=float)
    np.testing.assert_array_equal(np.isfinite(one), np.isfinite(other))
    finite = np.isfinite(one)
    slack = np.broadcast_to(slack, one.shape)
    one = one[finite]
    other = other[finite]
    slack = slack[finite]
    assert (np.abs(one - other) <= 1e-9 * np.maximum(1.0, np.abs(other)) + slack).all()


def check(call: Call) -> list[Any]:
    """Results and changed arguments of both are the same; returns those of the twin."""
    made = []
    for function in (getattr(call.module, call.name), getattr(kernel_twins, call.name)):
        given = [
            deepcopy(each) if isinstance(each, np.ndarray) else each for each in call.arguments
        ]
        result = function(*given)
        changed = [
            each
            for k, each in enumerate(given)
            if isinstance(each, np.ndarray) and k not in call.free
        ]
        made.append(
            [
                *(result if isinstance(result, tuple) else [0.0 if result is None else result]),
                *changed,
            ]
        )
    for k, (one, other) in enumerate(zip(*made, strict=True), 1):
        if np.asarray(one).dtype.kind in "iub":
            most = np.inf if call.most is None or np.ndim(one) < 2 else call.most
            np.testing.assert_array_equal(np.minimum(one, most), np.minimum(other, most))
        else:
            same(one, other, call.slack if k == len(made[0]) else 0.0)
    return made[1]


@st.composite
def tables(draw, largest: int = 5) -> MultiEnvironmentData:
    """Few or many rows in each environment, with columns that are constant in one, copies, sums and
    nearly sums of others, and an outcome that features fit, or nearly."""
    p = draw(st.integers(1, largest))
    counts = draw(st.lists(st.integers(3, 14), min_size=2, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    site = np.repeat(np.arange(len(counts)), counts)
    X = rng.normal(size=(len(site), p)) * rng.uniform(0.5, 2.0, (len(counts), p))[
        site
    ] + rng.normal(size=p)
    for j in range(1, p):
        kind = draw(
            st.sampled_from(["own"] * 4 + ["constant somewhere", "copy", "sum", "nearly a sum"])
        )
        if kind == "constant somewhere":
            X[site == 0, j] = -1.0
        elif kind == "copy":
            X[:, j] = X[:, j - 1]
        elif kind.endswith("sum"):
            X[:, j] = X[:, :j].sum(axis=1) + (1e-5 * X[:, j] if kind.startswith("nearly") else 0.0)
    y = (
        X[:, 0]
        + X[:, -1] * (1.0 + site)
        + draw(st.sampled_from([1.0, 1.0, 1e-5, 0.0])) * rng.normal(size=len(site))
    )
    return MultiEnvironmentData.from_arrays(X, y, site)


def lists_of_subsets(model, draw) -> Iterator[Call]:
    model.prediction = draw(st.sampled_from([0.0, 0.7]))
    scoring = model.scoring_by_rows() if draw(st.booleans()) else model.scoring_by_moments()
    starts, members = as_lists(all_masks(model.n_features))
    columns = model.moments.feature_columns[members].astype(np.int64)
    n = len(starts) - 1
    yield Call(cholesky, "score_subsets", (scoring, np.nan, starts, columns, np.empty(n)))
    shares = np.empty((n, len(scoring.weights)))
    # Whether a column more than the rows can tell apart is rounding or not is of no consequence.
    most = scoring.rows.counts - 1
    yield Call(
        cholesky,
        "subset_fits",
        (scoring, starts, columns, shares, shares.astype(np.int64) * 0),
        most=most,
    )


def walks(model, draw) -> Iterator[Call]:
    p = model.n_features
    columns = model.moments.feature_columns.astype(np.int64)
    widths = draw(st.sampled_from([[1] * p, [p], [2] * (p // 2) + [1] * (p % 2)]))
    starts = feature_starts(np.array(widths, np.int64))
    f = len(widths)
    scoring = model.scoring_by_rows() if draw(st.booleans()) else model.scoring_by_moments()
    # What rounding may move log Λ of subsets whose pivots are at the tolerance.
    slack = 1e-5
    first = draw(st.integers(0, f))
    block = columns[: starts[first]], starts[first:] - starts[first], columns[starts[first] :]
    yield Call(
        subset_tree, "score_block", (scoring, *block, np.empty(1 << (f - first))), slack=slack
    )
    most = draw(st.integers(first, f))
    prefix = np.arange(first)
    n = len(kernel_twins._extensions((), f - first, most - first))
    listed = np.zeros((n, max(most, 1)), np.int32), np.empty(n)
    yield Call(
        subset_tree,
        "score_extensions",
        (scoring, *block, prefix, first, most, *listed),
        slack=slack,
    )


def rows_and_sums(model, draw) -> Iterator[Call]:
    data = model.data
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    f = model.n_features
    d = f + 1
    n = 1 << f
    masks = all_masks(f)
    centred = 1e4 + data.X, data.y, data.rows(0), *np.empty((4, d))
    # Of a mean each has its own part in `centre` and in `rest`.
    yield Call(row_residuals, "centred_rows", centred, free=(3, 4))
    values = np.where(rng.random(n) < 0.2, -np.inf, rng.normal(scale=300.0, size=n))
    yield Call(elementary, "exp_shifted", (values, 1000.0, np.empty(n)))
    weights = np.where(rng.random(n) < 0.2, 0.0, rng.random(n))
    listed = np.full((n, f), -1, np.int32)
    for s, mask in enumerate(masks):
        listed[s, : mask.sum()] = np.flatnonzero(mask)
    yield Call(subset_sums, "listed_inclusion", (weights, listed, np.ones((f, f))))
    odds = rng.normal(size=f)
    by_size = np.append(rng.normal(size=f), -np.inf)
    ratio = rng.normal(size=n)
    ratio[0] = np.nan
    yield Call(subset_sums, "add_listed_prior", (odds, 0.3, by_size, listed, ratio, np.empty(n)))
    pairs = np.zeros((f, f))
    assert subset_sums.fold_inclusion(weights, f, pairs) == pytest.approx(weights.sum())
    same(pairs, (masks * weights[:, None]).T @ masks.astype(float))
    positive = weights > 0.0
    same(subset_sums.weighted_sum(weights, np.where(positive, 1.0, -np.inf)), weights.sum())


@pytest.mark.parametrize("calls", [lists_of_subsets, walks, rows_and_sums])
@settings(max_examples=25)
@given(data=tables(), choice=st.data())
def test_kernels_and_twins(calls, data, choice) -> None:
    for call in calls(LinearGaussian().bind(data), choice.draw):
        check(call)


# -------------------------------------------------------------------- against NumPy itself


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=40), st.floats(-1e3, 1e3))
def test_logarithms(values: list[float], weight: float) -> None:
    x = np.array([*values, 1.0, 0.5**0.5, 2.0**0.5, np.nan])
    total = np.ones_like(x)
    elementary.add_weighted_log(total, weight, x)
    np.testing.assert_allclose(
        total, 1.0 + weight * np.log(x), rtol=1e-13, atol=1e-13 * abs(weight) + 1e-13
    )
    np.testing.assert_allclose(
        [elementary.logarithm(value) for value in x[:-1]], np.log(x[:-1]), rtol=1e-15
    )


@given(st.lists(st.floats(-707, 707), min_size=1, max_size=40), st.floats(-1e4, 1e4))
def test_exponentials(values: list[float], shift: float) -> None:
    np.testing.assert_allclose(
        [elementary.exponential(value) for value in values], np.exp(values), rtol=2e-15
    )
    below = np.minimum(shift - np.abs(values), shift)
    out = np.empty_like(below)
    elementary.exp_shifted(below, shift, out)
    np.testing.assert_allclose(out, np.exp(below - shift), rtol=1e-14)
    assert elementary.exponential(1e9) == elementary.exponential(708.0) < np.inf
    assert 0.0 < elementary.exponential(-1e9) == elementary.exponential(-708.0)


@settings(max_examples=20)
@given(tables())
def test_residuals_and_slopes_of_subsets(data: MultiEnvironmentData) -> None:
    unit, _, _ = unit_rows(np.column_stack([data.X, data.y]))
    masks = all_masks(data.n_features)
    kept = LinearGaussian().bind(data).scoring_by_rows().rows
    starts, members = as_lists(masks)
    shares, ranks = row_residuals.relative_residuals(
        unit, starts, members, len(unit) - 1, DEPENDENT
    )
    slopes = cholesky.subset_slopes(unit @ unit.T, TOLERANCE, starts, members)
    same(slopes, kernel_twins.subset_slopes(unit @ unit.T, TOLERANCE, starts, members), 1e-6)
    powers = np.empty((2, 2, len(masks)))
    weights = np.linspace(0.5, 2.0, unit.shape[1])
    for sums, function in zip(
        powers, (row_residuals.residual_powers, kernel_twins.residual_powers), strict=True
    ):
        function(unit, np.nan_to_num(slopes), weights, *sums)
    for s, mask in enumerate(masks):
        beta, _, rank, _ = np.linalg.lstsq(unit[:-1][mask].T, unit[-1], rcond=1e-12)
        residual = unit[-1] - beta @ unit[:-1][mask]
        assert ranks[s] == rank
        assert shares[s] == pytest.approx(residual @ residual, rel=1e-6, abs=1e-20)
        if not np.isnan(slopes[s]).any():
            same(slopes[s, mask], beta, 1e-6)
            residual = unit[-1] - slopes[s] @ unit[:-1]
            for sums in powers:
                same(sums[:, s], [residual**2 @ weights, residual**4 @ weights])
        columns = data.features.expand(mask[None])[0].nonzero()[0]
        for g in range(data.n_environments + 1 if kept.values.size else 0):
            own = kernel_twins._fits_from_rows(kept, g, columns[None], data.n_features)[0][0]
            same(row_residuals.share_from_rows(kept, g, columns, data.n_features), own)


def test_digits_do_not_depend_on_how_many_subsets_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor on how many of them are worked on together"""
    monkeypatch.setattr(row_residuals, "_MOST_NUMBERS", 1000)
    rng = np.random.default_rng(0)
    p = 8
    counts = np.full(11, 30.0)
    data = MultiEnvironmentData.from_arrays(
        rng.normal(size=(330, p)), rng.normal(size=330), np.repeat(range(11), 30)
    )
    moments = LinearGaussian().bind(data).moments
    masks = all_masks(p)
    unit, norms, _ = unit_rows(np.column_stack([data.X, data.y]))
    local = moments.scatter[:-1] / norms / norms[:, None]
    gaps = moments.gaps / norms

    def scored(chosen: np.ndarray) -> list[np.ndarray]:
        starts, members = as_lists(chosen)
        mean, scatter = residual_moments(
            unit @ unit.T, local, gaps, starts, members.astype(np.int64), TOLERANCE
        )
        shares, _ = row_residuals.relative_residuals(unit, starts, members, p, DEPENDENT)
        return [mean, scatter, shares, *contrast_statistics(mean, scatter, counts)]

    for s in range(0, len(masks), 9):
        for together, alone in zip(scored(masks), scored(masks[s : s + 1]), strict=True):
            np.testing.assert_array_equal(together[s], alone[0])


@settings(max_examples=25)
@given(st.integers(1, 30), st.integers(0, 70), st.integers(0, 1000))
def test_sums_and_lists_of_masks(n: int, p: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    masks = rng.random((n, p)) < rng.choice([0.0, 0.1, 0.7, 1.0], (n, 1))
    weights = rng.random(n) + 0.1
    for layout in (masks, np.asfortranarray(masks), masks[::2, : p // 2]):
        np.testing.assert_array_equal(subset_sums.sizes(layout), layout.sum(axis=1))
    shares = subset_sums.weighted_shares(masks, weights)
    np.testing.assert_allclose(shares, weights @ masks / weights.sum(), rtol=0, atol=1e-12)
    assert (shares[masks.all(axis=0)] == 1.0).all()
    columns = rng.permutation(3 * p)[:p]
    room = max(int(masks.sum(axis=1).max()), 1)
    members = subset_sums.listed(masks, columns, room)
    assert members.shape == (n, room)
    for row, mask in zip(members, masks, strict=True):
        np.testing.assert_array_equal(row[: mask.sum()], columns[mask])


# -------------------------------------------------------------------- at their limits


def scoring_with_rows() -> Scoring:
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(3), (12, 9, 15))
    X = rng.normal(size=(len(site), 4)) + 0.3 * site[:, None]
    X[site == 1, 1] = 2.0
    data = MultiEnvironmentData.from_arrays(
        X, X[:, 0] + X[:, 2] * site + rng.normal(size=len(site)), site
    )
    model = LinearGaussian().bind(data)
    return model.scoring_by_moments()._replace(rows=group_rows(data, model.moments))


SCORING = scoring_with_rows()


@pytest.mark.parametrize("weights", [[1.0, -0.5], [1000.0, -1000.0], [1.0, -2.0]])
def test_what_is_rounding_above_zero(weights) -> None:
    values = np.array([-1.0, 0.0, 5e-7, 1.5e-6, 2.5e-6, 0.5, 40.0, np.nan])
    compiled = [cholesky.settled(value, np.array(weights)) for value in values]
    cholesky.settle(values, np.array(weights))
    np.testing.assert_array_equal(values, compiled)


@pytest.mark.parametrize("pivot", [0.99, 1.0, 1.01, 20.0])
@pytest.mark.parametrize("share", [0.99, 1.0, 5.0])
def test_pivots_at_the_tolerance(pivot, share) -> None:
    moments = np.diag([pivot * TOLERANCE, 1.0, share * TOLERANCE])[None]
    rows = without_values(SCORING.rows)
    scoring = Scoring(moments, np.ones((1, 3)), 2, np.array([-1.0]), 0.0, TOLERANCE, rows)
    block = np.empty(0, np.int64), np.arange(3), np.arange(2), np.empty(4)
    values = check(Call(subset_tree, "score_block", (scoring, *block)))[-1]
    assert np.isnan(values).tolist() == [share < 1.0, pivot < 1.0 or share < 1.0] * 2


@pytest.mark.parametrize("which", ["mean", "gain"])
def test_the_screen_at_every_limit(which) -> None:
    """Limits so low that they reject all they are asked about, so high that they reject none, and
    between"""
    rng = np.random.default_rng(3)
    n = 64
    E = 3
    shares = rng.uniform(0.2, 1.0, (E + 1, n))
    counts = np.array([12.0, 9.0, 15.0, 36.0])
    shares[-1] = shares[:-1].mean(axis=0) * rng.uniform(1.0, 1.4, n)
    shares[1, 5] = np.nan
    ranks = rng.integers(0, 4, n)
    missing = rng.integers(0, 2, n)
    squares = rng.uniform(5.0, 9.0, E + 1)
    squares[-1] = 1.1 * squares[:-1].sum()
    sums = shares[-1], squares[:-1] @ shares[:-1]
    rejected = []
    for size in np.geomspace(1e-3, 1e3, 25):
        limits = (
            np.where(which == "mean", size, np.inf) * np.ones((6, 4, 1)) * np.array([1.0, 1.3, 1.8])
        )
        least = np.full(6, size if which == "gain" else -9.0)
        screen = subset_tree.Screen(squares, counts, limits, 0.01, 0.4)
        gain = check(
            Call(
                subset_tree,
                "screen_block",
                (screen, *sums, ranks, missing, 1, 0, least, np.empty(n)),
            )
        )[-1]
        assert np.isnan(gain[5])
        rejected.append(int(np.isnan(gain).sum()) - 1)
    assert len(set(rejected)) > 5


def test_environments_add_up() -> None:
    rng = np.random.default_rng(0)
    shares = rng.uniform(0.1, 1.0, 50)
    sums = rng.normal(size=(2, 50))
    found = sums.copy()
    subset_tree.add_environment(7.0, 3.0, shares, *found)
    np.testing.assert_allclose(
        found, sums + np.array([7.0 * np.log(shares), 3.0 * shares]), rtol=1e-12, atol=1e-12
    )


def test_rows_decide_where_second_moments_say_more_than_is_possible() -> None:
    wrong = SCORING.scatter.copy()
    wrong[-1, SCORING.outcome, SCORING.outcome] *= 1.0 + 0.4 * np.sign(SCORING.weights[-1])
    scoring = SCORING._replace(scatter=wrong)
    lists = (*as_lists(MASKS), np.empty(16))
    assert not np.isnan(check(Call(cholesky, "score_subsets", (scoring, np.nan, *lists)))[-1]).any()
    scoring = scoring._replace(rows=without_values(scoring.rows))
    assert np.isnan(check(Call(cholesky, "score_subsets", (scoring, np.nan, *lists)))[-1]).any()


def test_columns_that_second_moments_tell_apart_are_independent() -> None:
    """Even where rows have to say what is left of the outcome, and would not tell the columns
    apart."""
    moments = SCORING.scatter.copy()
    values = SCORING.rows.values.copy()
    moments[:, SCORING.outcome, SCORING.outcome] = 0.0
    values[2] = values[0]
    scoring = SCORING._replace(scatter=moments, rows=SCORING.rows._replace(values=values))
    check(
        Call(
            cholesky,
            "subset_fits",
            (scoring, *as_lists(MASKS), np.empty((16, 4)), np.zeros((16, 4), np.int64)),
        )
    )


@pytest.mark.parametrize("squared", [0.99, 1.0, 1.01, 30.0, 200.0])
def test_what_depends_on_others(squared) -> None:
    small = np.sqrt(squared * DEPENDENT)
    values = np.array(
        [[1.0, 0.0, 0.0, 0.0], [1.0, small, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0], [1.0, 0.0, small, 0.0]]
    )
    kept = GroupRows(values, np.array([0]), np.array([4]), np.array([4]))
    for members, outcome in (([0, 1], 2), ([0], 3), ([1], 3), ([0, 2], 3)):
        own = kernel_twins._fits_from_rows(kept, 0, np.array([members]), outcome)[0][0]
        np.testing.assert_allclose(
            row_residuals.share_from_rows(kept, 0, np.array(members), outcome), own, rtol=1e-2
        )


@pytest.mark.parametrize("n", [3, 7, 50])
@pytest.mark.parametrize("centred_rows", [row_residuals.centred_rows, kernel_twins.centred_rows])
def test_means_far_from_zero_cost_no_digits(n, centred_rows) -> None:
    rng = np.random.default_rng(n)
    X = np.column_stack(
        [1e9 + rng.normal(size=(n, 3)), np.full(n, 0.1), np.full(n, 1e9 + 0.1), rng.normal(size=n)]
    )
    y = -1e9 + rng.normal(size=n)
    origin = np.array([1e9, 1e9, 1e9, 0.5, 1e9, 0.0, -1e9])
    centre, rest, minimum, maximum = np.empty((4, 7))
    centred = centred_rows(X, y, np.arange(n), centre, rest, minimum, maximum)
    exact = np.column_stack([X, y]) - origin
    np.testing.assert_allclose((centre - origin) + rest, exact.mean(axis=0), rtol=0.0, atol=1e-13)
    np.testing.assert_allclose(centred, exact - exact.mean(axis=0), rtol=0.0, atol=1e-13)
    assert (centred[:, 3:5] == 0.0).all()
    assert (*centre[3:5], *rest[3:5]) == (0.1, 1e9 + 0.1, 0.0, 0.0)


@pytest.mark.parametrize(
    "kinds", [(np.float32, np.float32), (np.int64, np.int64), (np.int32, float), (bool, np.int8)]
)
def test_numbers_of_other_types_are_centred_as_doubles(kinds) -> None:
    rng = np.random.default_rng(4)
    X = (100.0 * rng.normal(size=(20, 3))).astype(kinds[0])
    y = (100.0 * rng.normal(size=20)).astype(kinds[1])
    found = check(
        Call(
            row_residuals, "centred_rows", (X, y, np.arange(2, 20), *np.empty((4, 4))), free=(3, 4)
        )
    )
    assert found[0].dtype == float


@pytest.mark.parametrize("shift", [0.0, -np.inf, -1e300])
def test_weights_of_what_is_impossible(shift) -> None:
    values = np.array([-np.inf, -np.inf, shift, shift - 800.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(Call(elementary, "exp_shifted", (values, shift, np.empty(4))))
