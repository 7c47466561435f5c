from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance.conditionals.linear_gaussian import LinearGaussian
from invariance.data import DataError, DataWarning, MultiEnvironmentData, read_chunks
from invariance.moments import Moments
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
    b = b._reordered(a.columns)
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
    np.testing.assert_allclose(
        moments.scales, np.sqrt(np.einsum("gjj->gj", scatter) / moments.group_counts[:, None]), rtol=1e-10
    )


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
    expected = LinearGaussian(direct).log_ratio_all().log_ratio
    np.testing.assert_allclose(LinearGaussian(turned).log_ratio_all().log_ratio, expected, rtol=1e-9)
    mask = [True, False, False, True]
    np.testing.assert_allclose(
        LinearGaussian(turned).flip_neighbours(mask), LinearGaussian(direct).flip_neighbours(mask), rtol=1e-9
    )
    with pytest.raises(DataError, match="did you mean 'x2'"):
        moments.with_outcome("X2")


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
