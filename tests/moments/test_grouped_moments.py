"""Which columns of a feature add to the others, environment by environment, as second moments tell."""

from __future__ import annotations

import numpy as np
import pytest

from invariance import MultiEnvironmentData
from invariance.exceptions import DataWarning
from invariance.moments import Moments


def one_hot(codes: np.ndarray, first: int = 0) -> np.ndarray:
    """(N, number of levels − first) of the levels from `first` on."""
    return (codes[:, None] == np.arange(first, codes.max() + 1)).astype(float)


def moments_of(dummies: np.ndarray, environment: np.ndarray) -> Moments:
    """The dummies as one feature "g", and a number x of its own."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, len(dummies)))
    names = [f"d{j}" for j in range(dummies.shape[1])]
    X = np.column_stack([dummies, x])
    data = MultiEnvironmentData.from_arrays(X, y, environment, feature_names=[*names, "x"], groups={"g": names})
    return Moments.from_data(data)


def ranks(dummies: np.ndarray, environment: np.ndarray) -> np.ndarray:
    """(E + 1,) ranks of the centred columns in each environment and in the pool."""
    groups = [*(environment == e for e in np.unique(environment)), np.ones(len(environment), dtype=bool)]
    return np.array([np.linalg.matrix_rank(dummies[rows] - dummies[rows].mean(axis=0)) for rows in groups])


ENVIRONMENT = np.repeat([0, 1, 2], 40)


def levels(absent: dict[int, int]) -> np.ndarray:
    """(N,) one of four levels, all of them in every environment but for {environment: the level it lacks}."""
    codes = np.tile(np.arange(4), 30)
    for environment, level in absent.items():
        codes[(environment == ENVIRONMENT) & (codes == level)] = (level + 1) % 4
    return codes


@pytest.mark.parametrize("absent", [{}, {1: 0}, {1: 0, 2: 2}, {0: 0, 1: 0}])
@pytest.mark.parametrize("first", [0, 1], ids=["all levels", "with a reference"])
def test_widths_are_the_ranks_of_a_category(absent: dict[int, int], first: int) -> None:
    """A level that does not occur is a constant column; one to compare with that does not occur leaves a dependence."""
    dummies = one_hot(levels(absent), first)
    moments = moments_of(dummies, ENVIRONMENT)
    expected = np.column_stack([ranks(dummies, ENVIRONMENT), np.ones(4, int)])
    np.testing.assert_array_equal(moments.varying_widths, expected)
    assert not (moments.present & ~moments.varies).any()


def test_a_category_that_is_a_setting_of_the_environments_has_its_rank_in_the_pool_alone() -> None:
    dummies = one_hot(np.array([0, 1, 1])[ENVIRONMENT])
    assert moments_of(dummies, ENVIRONMENT).varying_widths[:, 0].tolist() == [0, 0, 0, 1]


def test_the_room_for_features_is_counted_in_columns_that_add_something() -> None:
    """Five rows in the second environment: intercept, variance, x, and two of the three dummies."""
    codes = np.array([0, 1, 2, 3, 0, 1, 2, 3, 1, 2, 3, 1, 2])
    moments = moments_of(one_hot(codes, 1), np.repeat([0, 1], [8, 5]))
    assert moments.largest_size == 2
    moments.check_max_size(2)


def test_a_single_row_of_the_level_to_compare_with_is_enough() -> None:
    """However many rows the others have: the dummies are far from dependent for second moments, if nearly so."""
    codes = np.tile([1, 2], 40_000)
    codes[[0, 50_000]] = 0
    environment = np.repeat([0, 1], 40_000)
    dummies = one_hot(codes, 1)
    moments = moments_of(dummies, environment)
    np.testing.assert_array_equal(moments.varying_widths[:, 0], ranks(dummies, environment))
    assert moments.varying_widths[:, 0].tolist() == [2, 2, 2]


def test_columns_of_other_numbers_are_left_to_the_rows() -> None:
    """Three columns of which one is the sum of the others: second moments cannot tell that from nearly so."""
    rng = np.random.default_rng(3)
    pair = rng.normal(size=(120, 2))
    moments = moments_of(np.column_stack([pair, pair.sum(axis=1)]), ENVIRONMENT)
    assert (moments.varying_widths[:, 0] == 3).all()
    shifted = moments_of(2.0 + one_hot(levels({1: 0}), 1), ENVIRONMENT)
    assert (shifted.varying_widths[:, 0] == 3).all()
    spread = np.tile([*([0.5] * 8 + [2.0]) * 4, *[0.0] * 4], 3)  # varies as much as a column of 0 and 1 with its mean
    copied = moments_of(np.column_stack([spread, spread]), ENVIRONMENT)
    assert (copied.varying_widths[:, 0] == 2).all()


def chunk(dummies: np.ndarray, seed: int) -> MultiEnvironmentData:
    rng = np.random.default_rng(seed)
    X = np.column_stack([dummies, rng.normal(size=len(dummies))])
    names = ("a", "b", "x")
    env = np.arange(len(dummies)) % 2
    whole = MultiEnvironmentData.from_arrays(
        rng.normal(size=(len(X), 3)), rng.normal(size=len(X)), env, feature_names=names, groups={"g": ["a", "b"]}
    )
    return MultiEnvironmentData(X, whole.y, env, ("g", "x"), (0, 1), grouping=whole.grouping)


def test_a_feature_whose_columns_are_all_dropped_is_no_group_any_more() -> None:
    constant = np.ones((20, 2))
    with pytest.warns(DataWarning, match="'g'"):
        moments = Moments.from_chunks([chunk(constant, 0), chunk(constant, 1)])
    assert moments.feature_names == ("x",)
    assert dict(moments.groups) == {}
    half = np.column_stack([np.ones(20), np.arange(20.0)])
    with pytest.warns(DataWarning, match="'a'"):
        moments = Moments.from_chunks([chunk(half, 0), chunk(half, 1)])
    assert moments.feature_names == ("g", "x")
    assert dict(moments.groups) == {"g": ("b",)}
