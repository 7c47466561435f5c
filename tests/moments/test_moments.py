from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance.data import MultiEnvironmentData, read_chunks
from invariance.exceptions import DataError, DataWarning
from invariance.inference.subset_blocks import all_log_ratios
from invariance.models.gaussian import LinearGaussian
from invariance.moments import Moments
from invariance.simulation import example_1
from twins import datasets, simulated


def plain_moments(data: MultiEnvironmentData) -> tuple[np.ndarray, np.ndarray]:
    table = np.column_stack([data.X, data.y])
    groups = [table[data.rows(e)] for e in range(data.n_environments)] + [table]
    means = np.array([group.mean(axis=0) for group in groups])
    scatter = np.array([np.cov(group.T, bias=True) * len(group) for group in groups])
    return means, scatter.reshape(len(groups), table.shape[1], table.shape[1])


def subset_of_rows(data: MultiEnvironmentData, rows: np.ndarray) -> MultiEnvironmentData:
    codes, labels = data.environment_index[rows], list(data.environments)
    present = [e for e in range(len(labels)) if e in set(codes.tolist())]
    recode = {e: i for i, e in enumerate(present)}
    return MultiEnvironmentData(
        np.ascontiguousarray(data.X[rows]),
        data.y[rows].copy(),
        np.array([recode[c] for c in codes.tolist()], dtype=np.intp),
        data.feature_names,
        tuple(labels[e] for e in present),
        data.outcome_name,
    )


def assert_same(a: Moments, b: Moments) -> None:
    b = b.of_columns(a.columns)
    order = [b.environments.index(label) for label in a.environments]
    assert a.counts.tolist() == b.counts[order].tolist()
    scale = np.sqrt(np.einsum("gjj->gj", a.scatter))
    np.testing.assert_allclose(a.means, b.means[order], rtol=1e-12, atol=1e-12)
    both = [*order, a.n_environments]
    tolerance = 1e-12 * scale[:, :, None] * scale[:, None, :] + 1e-13
    assert (np.abs(a.scatter - b.scatter[both]) <= tolerance).all()
    np.testing.assert_array_equal(a.varies, b.varies[both])


@settings(max_examples=30, deadline=None)
@given(datasets())
def test_agrees_with_plain_numpy(data) -> None:
    moments = Moments.from_data(data)
    means, scatter = plain_moments(data)
    np.testing.assert_allclose(moments.means, means[:-1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(moments.pooled_mean, means[-1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(moments.scatter, scatter, rtol=1e-10, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(datasets(), st.randoms(use_true_random=False))
def test_merging_equals_concatenating(data, random) -> None:
    rows = list(range(data.n_rows))
    random.shuffle(rows)
    cut = random.randrange(1, data.n_rows)
    parts = [Moments.from_data(subset_of_rows(data, np.array(part))) for part in (rows[:cut], rows[cut:])]
    assert_same(Moments.from_data(data), parts[0].merge(parts[1]))


def test_a_large_mean_costs_no_digits() -> None:
    data = simulated(3, (40, 50), seed=1)
    shifted = MultiEnvironmentData.from_arrays(data.X + 1e9, data.y, data.environment_index)
    # Adding 1e9 rounds the data itself to 1e-7; compare with moments of the rounded values.
    rounded = MultiEnvironmentData.from_arrays((data.X + 1e9) - 1e9, data.y, data.environment_index)
    np.testing.assert_allclose(Moments.from_data(shifted).scatter, Moments.from_data(rounded).scatter, rtol=1e-12)


@settings(max_examples=30, deadline=None)
@given(datasets(), st.integers(0, 1000))
def test_removing_a_row_equals_never_having_it(data, pick: int) -> None:
    row = pick % data.n_rows
    rest = np.delete(np.arange(data.n_rows), row)
    label = data.environments[data.environment_index[row]]
    removed = Moments.from_data(data).without_row(label, np.append(data.X[row], data.y[row]))
    expected = Moments.from_data(subset_of_rows(data, rest))
    np.testing.assert_allclose(removed.scatter, expected.scatter, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(removed.means, expected.means, rtol=1e-10, atol=1e-10)


def test_removing_the_only_different_row_leaves_a_constant() -> None:
    data = simulated(3, (20, 20), seed=2)
    X = data.X.copy()
    X[:20, 1] = 0.1
    X[7, 1] = 0.7
    data = MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)
    removed = Moments.from_data(data).without_row(0, np.append(X[7], data.y[7]))
    assert removed.varies[:, 1].tolist() == [False, True, True]
    assert removed.minimum[0, 1] == removed.maximum[0, 1] == 0.1
    assert (removed.scatter[0, 1] == 0).all()


def with_outlier(size: float, n: int = 100, first: bool = False) -> tuple[MultiEnvironmentData, int]:
    """One value of x0 at `size` standard deviations, and its row."""
    data = simulated(3, (n, n), seed=5)
    X, row = data.X.copy(), 0 if first else 7
    X[row, 0] = size
    return MultiEnvironmentData.from_arrays(X, data.y, data.environment_index), row


def removed_and_expected(data: MultiEnvironmentData, row: int) -> tuple[Moments, Moments]:
    removed = Moments.from_data(data).without_row(0, np.append(data.X[row], data.y[row]))
    return removed, Moments.from_data(subset_of_rows(data, np.delete(np.arange(data.n_rows), row)))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("size", [10.0, 1e2, 1e3])
def test_removing_an_outlier_is_right_to_nine_digits(size: float, first: bool) -> None:
    removed, expected = removed_and_expected(*with_outlier(size, first=first))
    scale = np.sqrt(np.einsum("gjj->gj", expected.scatter))
    np.testing.assert_array_equal(removed.varies, expected.varies)
    error = np.abs(removed.scatter - expected.scatter) / (scale[:, :, None] * scale[:, None, :])
    assert error.max() < 1e-9
    assert np.abs(removed.means - expected.means).max() < 1e-9


@pytest.mark.parametrize("size", [1e5, 1e7, 1e12])
def test_removing_an_outlier_that_drowned_the_others_is_refused(size: float) -> None:
    data, row = with_outlier(size)
    with pytest.raises(DataError, match="too little is left of the scatter of 'x0' in environment 0") as caught:
        Moments.from_data(data).without_row(0, np.append(data.X[row], data.y[row]))
    assert "with Moments.from_data or Moments.from_chunks" in str(caught.value)


def test_the_refusal_begins_where_nine_digits_end() -> None:
    """Whatever is not refused is right, and an outlier of a thousand standard deviations is not refused."""
    refused = []
    for size in np.geomspace(1e2, 1e8, 60):
        try:
            removed, expected = removed_and_expected(*with_outlier(size))
        except DataError:
            refused.append(size)
            continue
        assert removed.scatter[0, 0, 0] == pytest.approx(expected.scatter[0, 0, 0], rel=1e-9)
    assert 1e3 < min(refused) < 1e5


def test_errors_of_removal_after_removal_add_up() -> None:
    """Each outlier leaves enough digits of what is left; one after the other they do not."""
    data = simulated(3, (100, 100), seed=5)
    X = data.X.copy()
    X[3:6, 0] = 1e5, 2e3, 50.0
    data = MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)
    rows = np.column_stack([data.X, data.y])
    once = Moments.from_data(data).without_row(0, rows[3])
    fresh = Moments.from_data(subset_of_rows(data, np.delete(np.arange(200), 3)))
    np.testing.assert_allclose(once.scatter[0, 0, 0], fresh.scatter[0, 0, 0], rtol=1e-9)
    fresh.without_row(0, rows[4])
    with pytest.raises(DataError, match="too little is left of the scatter of 'x0'"):
        once.without_row(0, rows[4])


def test_a_dummy_can_lose_all_its_ones() -> None:
    data = simulated(3, (20, 20), seed=6)
    X = data.X.copy()
    X[:20, 1] = np.arange(20) < 3
    data = MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)
    moments = Moments.from_data(data)
    for row in range(3):
        assert moments.varies[0, 1]
        moments = moments.without_row(0, np.append(X[row], data.y[row]))
    assert moments.varies[:, 1].tolist() == [False, True, True]
    assert moments.maximum[0, 1] == moments.means[0, 1] == 0.0
    with pytest.raises(DataError, match="its 'x1' is outside the range"):
        moments.without_row(0, np.append(X[0], data.y[0]))


def test_a_row_at_the_end_of_a_range_leaves_once() -> None:
    data = simulated(2, (20, 20), seed=7)
    row = int(np.argmax(data.X[:20, 0]))
    values = np.append(data.X[row], data.y[row])
    moments = Moments.from_data(data).without_row(0, values)
    with pytest.raises(DataError, match="its 'x0' is outside the range"):
        moments.without_row(0, values)


def test_ends_are_counted_as_numpy_does() -> None:
    rng = np.random.default_rng(8)
    X, y = rng.integers(0, 3, (50, 4)).astype(float), rng.integers(0, 9, 50).astype(float)
    data = MultiEnvironmentData.from_arrays(X, y, np.repeat([0, 1], 25))
    table = np.column_stack([X, y])
    halves = [Moments.from_data(subset_of_rows(data, np.arange(start, 50, 2))) for start in (0, 1)]
    for moments in (Moments.from_data(data), halves[0].merge(halves[1])):
        for e, rows in enumerate((table[:25], table[25:])):
            expected = [(rows == rows.min(axis=0)).sum(axis=0), (rows == rows.max(axis=0)).sum(axis=0)]
            np.testing.assert_array_equal(moments.at_ends[e], expected)


def test_moments_without_rows_cannot_lose_one() -> None:
    moments = example_1().population_moments()
    with pytest.raises(DataError, match="not computed from rows"):
        moments.without_row(moments.environments[0], np.zeros(len(moments.columns)))


def test_row_errors_name_the_problem() -> None:
    moments = Moments.from_data(simulated(2, (5, 6)))
    with pytest.raises(DataError, match=r"there is no environment 'x'; the environments are \[0, 1\]"):
        moments.without_row("x", np.zeros(3))
    with pytest.raises(DataError, match="a row has 3 values"):
        moments.without_row(0, np.zeros(2))
    with pytest.raises(DataError, match="its 'x0' is outside the range there"):
        moments.without_row(0, np.array([1e6, 0.0, 0.0]))


def test_another_outcome_shares_the_memory() -> None:
    data = simulated(4, (20, 25), seed=3)
    moments = Moments.from_data(data)
    turned = moments.with_outcome("x2")
    assert turned.scatter is moments.scatter
    assert turned.feature_names == ("x0", "x1", "x3", "y")
    direct = MultiEnvironmentData.from_arrays(
        np.column_stack([data.X[:, [0, 1, 3]], data.y]), data.X[:, 2], data.environment_index
    )
    expected = all_log_ratios(LinearGaussian().bind(direct))
    np.testing.assert_allclose(all_log_ratios(LinearGaussian().bind(turned)), expected, rtol=1e-9)
    mask = [True, False, False, True]
    np.testing.assert_allclose(
        LinearGaussian().bind(turned).flip_neighbours(mask),
        LinearGaussian().bind(direct).flip_neighbours(mask),
        rtol=1e-9,
    )
    with pytest.raises(DataError, match="did you mean 'x2'"):
        moments.with_outcome("X2")


def test_a_column_constant_in_an_environment_cannot_be_the_outcome() -> None:
    data = simulated(4, (20, 25), seed=3)
    X = data.X.copy()
    X[:20, 2] = 4.0
    moments = Moments.from_data(MultiEnvironmentData.from_arrays(X, data.y, data.environment_index))
    with pytest.raises(DataError, match=r"outcome 'x2' is constant inside environment 0 \(20 rows\), so no model"):
        moments.with_outcome("x2")
    unchecked = replace(moments, outcome=2)
    with pytest.raises(DataError, match="outcome 'x2' is constant inside environment 0"):
        LinearGaussian().bind(unchecked)


def test_chunks_of_a_file_equal_the_whole(tmp_path) -> None:
    import pandas as pd

    data = simulated(3, (30, 40, 50), seed=4)
    table = pd.DataFrame(data.X, columns=list(data.feature_names))
    table["y"], table["site"] = data.y, [f"s{e}" for e in data.environment_index]
    table = table.sample(frac=1, random_state=0)
    path = tmp_path / "table.csv"
    table.to_csv(path, index=False)
    chunked = Moments.from_chunks(read_chunks(path, "y", "site", rows_per_chunk=17))
    whole = Moments.from_data(MultiEnvironmentData.from_table(path, "y", "site"))
    assert chunked.environments == whole.environments
    assert_same(whole, chunked)


def test_chunks_are_checked_as_a_whole(tmp_path) -> None:
    def chunks(text: str):
        path = tmp_path / "t.csv"
        path.write_text(text)
        return read_chunks(path, "y", "e", rows_per_chunk=2)

    rows = "1,0,a\n2,0,a\n3.5,0,a\n4,0,b\n5,0,b\n6.5,0,b\n"
    with pytest.raises(DataError, match="every feature is constant over all rows: 'x'"):
        Moments.from_chunks(chunks("y,x,e\n" + rows))
    text = "y,x,w,e\n1,0,3,a\n2,0,1,a\n3.5,0,4,a\n4,0,1,b\n5,0,5,b\n6.5,0,9,b\n"
    with pytest.warns(DataWarning, match="constant over all rows: 'x'"):
        moments = Moments.from_chunks(chunks(text))
    assert moments.feature_names == ("w",)
    with pytest.raises(DataError, match=r"environments too small: 'b' \(1 row\)"):
        Moments.from_chunks(chunks("y,x,e\n1,0,a\n2,1,a\n3,0,a\n3,4,b\n"))
    with pytest.raises(DataError, match="there are no rows"):
        Moments.from_chunks(iter(()))


def test_merging_different_columns_is_an_error() -> None:
    a, b = Moments.from_data(simulated(2)), Moments.from_data(simulated(3))
    with pytest.raises(DataError, match=r"different columns; they differ in \['x2'\]"):
        a.merge(b)
