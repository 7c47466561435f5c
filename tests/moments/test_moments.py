"""Moments of data in memory: merged, of some environments or columns, with another outcome."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance import BIP, LinearGaussian, Moments, MultiEnvironmentData
from invariance.data.features import Features
from invariance.exceptions import DataError, DataWarning
from patients import patients
from twins import datasets, simulated, walked_log_ratios

from_table = MultiEnvironmentData.from_table
from_arrays = MultiEnvironmentData.from_arrays
from_data = Moments.from_data


def plain_moments(data: MultiEnvironmentData) -> tuple[np.ndarray, np.ndarray]:
    table = np.column_stack([data.X, data.y])
    groups = [table[data.rows(e)] for e in range(data.n_environments)] + [table]
    means = np.array([group.mean(axis=0) for group in groups])
    scatter = np.array([np.cov(group.T, bias=True) * len(group) for group in groups])
    return means, scatter.reshape(len(groups), table.shape[1], table.shape[1])


def subset_of_rows(data: MultiEnvironmentData, rows: np.ndarray) -> MultiEnvironmentData:
    present, codes = np.unique(data.environment_index[rows], return_inverse=True)
    labels = tuple(data.environments[e] for e in present)
    X = np.ascontiguousarray(data.X[rows])
    y = data.y[rows].copy()
    return MultiEnvironmentData(
        X, y, codes.astype(np.intp), data.feature_names, labels, data.outcome_name
    )


def assert_same(a: Moments, b: Moments, rtol: float = 1e-12) -> None:
    assert (a.columns, a.outcome_name, a.encoding) == (b.columns, b.outcome_name, b.encoding)
    assert (dict(a.constants), a.losses, dict(a.groups)) == (
        dict(b.constants),
        b.losses,
        dict(b.groups),
    )
    order = [b.environments.index(label) for label in a.environments]
    for name in ("counts", "minimum", "maximum"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name)[order], err_msg=name)
    np.testing.assert_allclose(a.means, b.means[order], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(a.pooled_mean, b.pooled_mean, rtol=1e-12, atol=1e-12)
    scale = np.sqrt(np.einsum("gjj->gj", a.scatter))
    tolerance = rtol * scale[:, :, None] * scale[:, None, :] + 1e-13
    assert (np.abs(a.scatter - b.scatter[[*order, a.n_environments]]) <= tolerance).all()


@settings(max_examples=30)
@given(datasets())
def test_agrees_with_plain_numpy(data) -> None:
    moments = from_data(data)
    means, scatter = plain_moments(data)
    np.testing.assert_allclose(moments.means, means[:-1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(moments.pooled_mean, means[-1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(moments.scatter, scatter, rtol=1e-10, atol=1e-10)


def test_a_large_mean_costs_no_digits() -> None:
    data = simulated(3, (40, 50), seed=1)
    # Adding 1e9 rounds the data itself to 1e-7; compare with moments of the rounded values.
    far, near = (from_data(replace(data, X=X)) for X in (data.X + 1e9, (data.X + 1e9) - 1e9))
    np.testing.assert_allclose(far.scatter, near.scatter, rtol=1e-12)


# ---------------------------------------------------------------- merging


@settings(max_examples=30)
@given(datasets(), st.randoms(use_true_random=False))
def test_merging_equals_concatenating(data, random) -> None:
    rows = list(range(data.n_rows))
    random.shuffle(rows)
    cut = random.randrange(1, data.n_rows)
    parts = [from_data(subset_of_rows(data, np.array(part))) for part in (rows[:cut], rows[cut:])]
    merged = parts[0].merge(parts[1])
    assert_same(from_data(data), merged.of_columns((*data.feature_names, "y")))


TABLE = patients(12)[["smoking", "age", "region", "drugs", "pressure", "hospital"]]
N = len(TABLE)
ASKED: dict[str, Any] = {"outcome": "pressure", "environment": "hospital"}
LEVELS = {
    "smoking": ["never", "former", "current"],
    "region": ["west", "north", "south", "east", "centre"],
}
FIRST = np.arange(N) % 3 > 0
MIXED = TABLE.assign(smoking=np.where(FIRST, np.resize(["never", "current"], N), "former"))
PARTS = (MIXED[FIRST], MIXED[~FIRST].assign(region="east"))


@pytest.mark.filterwarnings("ignore:dropped (features|columns)")
@pytest.mark.parametrize("order", [1, -1])
def test_tables_with_other_levels_are_merged_when_all_are_listed(order: int) -> None:
    parts = [part.assign(dose=float(k), k=7.0) for k, part in enumerate(PARTS)][::order]

    first, second = (
        Moments.from_rows(part, **ASKED, categorical=LEVELS, partial=True) for part in parts
    )
    whole = from_data(from_table(pd.concat(parts), **ASKED, categorical=LEVELS))
    assert whole.constants == {"k": 7.0}
    assert_same(first.merge(second).checked(), whole, rtol=1e-10)
    with pytest.raises(DataError, match="'dose'"):
        first.checked().merge(second.checked())


@pytest.mark.filterwarnings("ignore:dropped features")
def test_what_cannot_be_merged() -> None:
    first, second = (
        from_data(from_table(part[["smoking", "age", "pressure", "hospital"]], **ASKED))
        for part in (MIXED[FIRST], MIXED[MIXED["smoking"] != "current"])
    )
    with pytest.raises(DataError) as told:
        first.merge(second)
    assert dict(told.value.args[0].remedies[0].settings) == {
        "categorical": {"smoking": ["current", "never", "former"]}
    }
    grouped = from_table(
        MIXED[FIRST], **ASKED, features=["smoking", "age"], groups={"g": ["smoking", "age"]}
    )
    with pytest.raises(DataError, match="made or grouped differently"):
        first.merge(from_data(grouped))
    numbers = TABLE[["age", "drugs", "pressure", "hospital"]]
    with pytest.raises(DataError, match="'k'"):
        from_data(from_table(numbers.assign(k=1.0), **ASKED)).merge(
            from_data(from_table(numbers, **ASKED))
        )


# ---------------------------------------------------------------- another outcome


def test_another_outcome_shares_the_memory() -> None:
    data = simulated(4, (20, 25), seed=3)
    moments = from_data(data)
    turned = moments.with_outcome("x2")
    assert turned.scatter is moments.scatter
    assert turned.feature_names == ("x0", "x1", "x3", "y")
    direct = from_arrays(
        np.column_stack([data.X[:, [0, 1, 3]], data.y]), data.X[:, 2], data.environment_index
    )
    one = LinearGaussian().bind(turned)
    other = LinearGaussian().bind(direct)
    np.testing.assert_allclose(walked_log_ratios(one), walked_log_ratios(other), rtol=1e-9)
    mask = [True, False, False, True]
    np.testing.assert_allclose(one.flip_neighbours(mask), other.flip_neighbours(mask), rtol=1e-9)


def test_another_outcome_keeps_the_levels() -> None:
    table = TABLE.assign(age=[f"{age:.3f}" for age in TABLE["age"]])
    moments = from_data(from_table(table, **ASKED, numeric=["age"]))
    turned = moments.with_outcome("drugs")
    direct = from_table(table, "drugs", "hospital", numeric=["age"])
    assert turned.notes == moments.notes == direct.notes
    model = BIP(select="mode").fit(turned)
    expected = BIP(select="mode").fit(direct)
    np.testing.assert_allclose(model.predict(table), expected.predict(table), rtol=1e-9)
    assert set(model.selected_features_) == set(expected.selected_features_) != set()
    assert set(model.feature_names_in_) == {"smoking", "age", "region", "pressure"}
    assert turned.with_outcome("pressure").encoding == moments.encoding


def test_what_cannot_be_the_outcome() -> None:
    moments = from_data(from_table(TABLE, **ASKED))
    for name, told in (
        ("region", "several columns"),
        ("region=west", "part of"),
        ("agee", "did you mean 'age'"),
    ):
        with pytest.raises(DataError, match=told):
            moments.with_outcome(name)
    data = simulated(4, (20, 25), seed=3)
    flat = data.X.copy()
    flat[:20, 2] = 4.0
    moments = from_data(replace(data, X=flat))
    with pytest.raises(DataError, match="'x2' is constant inside environment '0'"):
        LinearGaussian().bind(replace(moments, outcome=2))


# ---------------------------------------------------------------- features of several columns

ENVIRONMENT = np.repeat([0, 1, 2], 40)


def one_hot(codes: np.ndarray, first: int = 0) -> np.ndarray:
    """(N, number of levels − first) of the levels from `first` on."""
    return (codes[:, None] == np.arange(first, codes.max() + 1)).astype(float)


def moments_of(dummies: np.ndarray, environment: np.ndarray) -> Moments:
    """The dummies as one feature "g", and a number x of its own."""
    x, y = np.random.default_rng(0).normal(size=(2, len(dummies)))
    names = [f"d{j}" for j in range(dummies.shape[1])]
    X = np.column_stack([dummies, x])
    return from_data(
        from_arrays(X, y, environment, feature_names=[*names, "x"], groups={"g": names})
    )


def ranks(dummies: np.ndarray, environment: np.ndarray) -> np.ndarray:
    """(E + 1,) ranks of the centred columns in each environment and in the pool."""
    groups = [
        *(environment == e for e in np.unique(environment)),
        np.ones(len(environment), dtype=bool),
    ]
    return np.array(
        [np.linalg.matrix_rank(dummies[rows] - dummies[rows].mean(axis=0)) for rows in groups]
    )


def levels(absent: dict[int, int]) -> np.ndarray:
    """(N,) one of four levels, all of them in every environment but for {environment: the level it
    lacks}."""
    codes = np.tile(np.arange(4), 30)
    for environment, level in absent.items():
        codes[(environment == ENVIRONMENT) & (codes == level)] = (level + 1) % 4
    return codes


@pytest.mark.parametrize("absent", [{}, {1: 0}, {1: 0, 2: 2}, {0: 0, 1: 0}])
@pytest.mark.parametrize("first", [0, 1], ids=["all levels", "with a reference"])
def test_widths_are_the_ranks_of_a_category(absent: dict[int, int], first: int) -> None:
    """A level that does not occur is a constant column; one to compare with that does not occur
    leaves a dependence."""
    dummies = one_hot(levels(absent), first)
    moments = moments_of(dummies, ENVIRONMENT)
    expected = np.column_stack([ranks(dummies, ENVIRONMENT), np.ones(4, int)])
    np.testing.assert_array_equal(moments.varying_widths, expected)
    assert not (moments.present & ~moments.varies).any()


def test_ranks_of_rare_and_constant_categories() -> None:
    setting = one_hot(np.array([0, 1, 1])[ENVIRONMENT])
    assert moments_of(setting, ENVIRONMENT).varying_widths[:, 0].tolist() == [0, 0, 0, 1]
    # Five rows in the second environment: intercept, variance, x, and two of the three dummies.
    codes = np.array([0, 1, 2, 3, 0, 1, 2, 3, 1, 2, 3, 1, 2])
    moments = moments_of(one_hot(codes, 1), np.repeat([0, 1], [8, 5]))
    assert moments.largest_size == 2
    codes = np.tile([1, 2], 40_000)
    codes[[0, 50_000]] = 0  # a single row of the level to compare with is enough
    assert moments_of(one_hot(codes, 1), np.repeat([0, 1], 40_000)).varying_widths[
        :, 0
    ].tolist() == [2, 2, 2]


def test_columns_of_other_numbers_are_left_to_the_rows() -> None:
    """Three columns of which one is the sum of the others: second moments cannot tell that from
    nearly so."""
    pair = np.random.default_rng(3).normal(size=(120, 2))
    moments = moments_of(np.column_stack([pair, pair.sum(axis=1)]), ENVIRONMENT)
    assert (moments.varying_widths[:, 0] == 3).all()
    shifted = moments_of(2.0 + one_hot(levels({1: 0}), 1), ENVIRONMENT)
    assert (shifted.varying_widths[:, 0] == 3).all()
    spread = np.tile(
        [*([0.5] * 8 + [2.0]) * 4, *[0.0] * 4], 3
    )  # varies as much as a column of 0 and 1 with its mean
    copied = moments_of(np.column_stack([spread, spread]), ENVIRONMENT)
    assert (copied.varying_widths[:, 0] == 2).all()


@pytest.mark.parametrize(("second", "left"), [(np.ones(20), ()), (np.arange(20.0), ("b",))])
def test_a_feature_whose_columns_are_all_dropped_is_no_group_any_more(
    second: np.ndarray, left: tuple
) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(20), second, rng.normal(size=20)])
    grouping = Features.of(["a", "b", "x"], {"g": ("a", "b")})
    env = np.arange(20) % 2
    part = from_data(
        MultiEnvironmentData(X, rng.normal(size=20), env, ("g", "x"), (0, 1), grouping=grouping)
    )
    with pytest.warns(DataWarning, match="'a'" if left else "'g'"):
        moments = part.merge(part).checked()
    assert moments.feature_names == (("g", "x") if left else ("x",))
    assert dict(moments.groups) == ({"g": left} if left else {})
