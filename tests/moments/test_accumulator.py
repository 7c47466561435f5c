"""Rows that arrive in any pieces have the same moments."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrow_rows import added, assert_alike, cut, exact_scatter, moments_of
from invariance.exceptions import DataError, DataWarning
from invariance.moments import accumulator
from invariance.moments.moments import Moments

COLUMNS = ["x", "n", "ward", "flag", "y"]


def rows(n: int = 120) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "x": rng.normal(size=n) + 1e6,
            "n": rng.integers(-3, 4, n),
            "ward": rng.choice(["day", "night", "late"], n),
            "flag": rng.random(n) < 0.3,
            "y": rng.normal(size=n).astype(np.float32),
            "site": rng.choice(["a", "b", "c"], n),
        }
    )


def with_gaps(table: pa.Table) -> pa.Table:
    """Missing in every column, and two environments of which the first rows do not count"""
    rng = np.random.default_rng(1)
    columns = {}
    for name in table.column_names:
        gone = rng.random(table.num_rows) < 0.05
        gone[0] |= name == "x"
        columns[name] = pa.array(table[name].to_pylist(), table.schema.field(name).type, mask=gone)
    return pa.table(columns)


CUTS = st.lists(st.integers(0, 120), max_size=12)
BLOCKS = st.sampled_from([1, 7, 40, 1 << 20])


@pytest.fixture(scope="module")
def wholes() -> list[tuple[pa.Table, dict[str, Any], Moments]]:
    """Tables, settings and moments: without gaps and with them"""
    table = rows()
    gaps = with_gaps(rows())
    with pytest.warns(DataWarning, match="dropped"):
        some = moments_of(added([gaps], COLUMNS, missing="drop"))
    return [(table, {}, moments_of(added([table], COLUMNS))), (gaps, {"missing": "drop"}, some)]


@given(cuts=CUTS, tasks=CUTS, block_rows=BLOCKS, gaps=st.booleans())
@settings(max_examples=8)
@pytest.mark.filterwarnings("ignore:dropped")
def test_any_partition(
    wholes: Any, cuts: list[int], tasks: list[int], block_rows: int, gaps: bool
) -> None:
    table, how, expected = wholes[gaps]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accumulator, "_BLOCK_BYTES", 1)
        patch.setattr(accumulator, "_FEWEST_ROWS", block_rows)
        total = added([], COLUMNS, **how)
        for task in cut(table, tasks):
            total = total.merge(added(cut(task, cuts), COLUMNS, **how))
        assert_alike(moments_of(total), expected)


def test_merging_changes_neither() -> None:
    first, second = (added([piece], COLUMNS) for piece in cut(rows(), [50]))
    before = [pickle.dumps(rows) for rows in (first, second)]
    both = first.merge(second)
    expected = moments_of(both)
    assert [pickle.dumps(rows) for rows in (first, second)] == before
    both.extend(rows().to_batches()[:1])
    assert [pickle.dumps(rows) for rows in (first, second)] == before
    again = moments_of(pickle.loads(before[0]).merge(pickle.loads(before[1])))
    assert again.scatter.tobytes() == expected.scatter.tobytes()
    buffers: list[pickle.PickleBuffer] = []
    sent = pickle.dumps(first, protocol=5, buffer_callback=buffers.append)
    kept = [
        bytes(buffer.raw()) for buffer in buffers
    ]  # cannot be written to, as what some clusters send
    received = moments_of(
        pickle.loads(sent, buffers=kept).extend(rows().to_batches()[:1]).absorb(second)
    )
    assert kept == [bytes(buffer.raw()) for buffer in buffers]
    assert received.n_rows == expected.n_rows + rows().to_batches()[0].num_rows
    assert (
        moments_of(pickle.loads(sent, buffers=kept).absorb(second)).scatter.tobytes()
        == expected.scatter.tobytes()
    )
    twice = moments_of(first.merge(first))
    np.testing.assert_array_equal(twice.counts, 2 * moments_of(first).counts)


def test_what_comes_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of nulls at first, a new level and a new environment."""
    monkeypatch.setattr(accumulator, "_BLOCK_BYTES", 5 * 8 * 13)
    monkeypatch.setattr(accumulator, "_FEWEST_ROWS", 1)
    table = rows()
    early = table.slice(0, 60)
    late = table.slice(60)
    early = early.set_column(2, "ward", pa.array(["day", "night"] * 30))
    early = early.set_column(5, "site", pa.array(["a", "b"] * 30))
    gone = early.set_column(0, "x", pa.nulls(60)).slice(0, 20)
    with pytest.warns(
        DataWarning, match=r"dropped 20 of 140 rows .* 10 of environment 'a', 10 of environment 'b'"
    ):
        found = moments_of(added([gone, early, late], COLUMNS, missing="drop"))
    plain = moments_of(added([pa.concat_tables([early, late])], COLUMNS))
    assert found.dropped_rows == {"a": 10, "b": 10}
    assert_alike(found, replace(plain, dropped_rows=found.dropped_rows))
    assert found.environments == ("a", "b", "c")
    assert found.groups == {"ward": ("ward=late", "ward=night")}


def test_rows_without_any_value_are_told_of() -> None:
    table = rows()
    nothing = pa.table({name: pa.nulls(120) for name in COLUMNS}).append_column(
        "site", table["site"]
    )
    with pytest.raises(DataError, match=r"missing values .* 'y' \(120 rows\)"):
        moments_of(added([nothing, table], COLUMNS))
    with pytest.warns(DataWarning, match="dropped 120 of 240 rows"):
        moments_of(added([nothing, table], COLUMNS, missing="drop"))


@pytest.mark.filterwarnings("ignore:.* are one level")
def test_types_that_change() -> None:
    table = rows()
    text, wider, narrow = (
        table.set_column(1, "n", table["n"].cast(kind)) for kind in (pa.string(), "double", "int8")
    )
    for pieces in ([table, text], [text, table]):
        with pytest.raises(DataError, match="column 'n' holds"):
            added(pieces, COLUMNS)
        with pytest.raises(DataError, match="column 'n' holds"):
            added(pieces[:1], COLUMNS).merge(added(pieces[1:], COLUMNS))
    for others, how in (
        ([text], {"categorical": ["n"]}),
        ([text], {"numeric": ["n"]}),
        ([wider, narrow], {}),
    ):
        changing, same = (
            added(pieces, COLUMNS, **how)
            for pieces in ([table, *others], [table] * (1 + len(others)))
        )
        assert_alike(moments_of(changing), moments_of(same))


def test_what_is_refused() -> None:
    for name in ("n", "site"):
        with pytest.raises(DataError, match=f"'{name}'"):
            added([rows().drop_columns([name])], COLUMNS)
    for pieces in ([], [rows().slice(0, 0)]):
        with pytest.raises(DataError, match="no rows"):
            moments_of(added(pieces, COLUMNS))


def test_moments_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulator, "_MANY_NUMBERS", 100)
    monkeypatch.setattr(accumulator, "free_bytes", lambda: 3 * 8 * 36 - 1)
    with pytest.raises(
        DataError, match="column 'site' has 3 labels or more, and the second moments of 7 columns"
    ):
        moments_of(added([rows()], COLUMNS))
    monkeypatch.setattr(accumulator, "free_bytes", lambda: None)
    moments_of(added([rows()], COLUMNS))


def names_of(n: int) -> pa.Table:
    rng = np.random.default_rng(0)
    names = [f"p{k:05}" for k in range(n)]
    return pa.table(
        {
            "id": names,
            "x": rng.normal(size=n),
            "y": rng.normal(size=n),
            "site": ["a", "b"] * (n // 2),
        }
    )


def test_a_list_of_names_is_refused_before_it_fills_the_memory() -> None:
    columns = ["id", "x", "y"]
    halves = cut(names_of(1002), [501])
    for read in (
        lambda: added([names_of(1002)], columns),
        lambda: added(halves, columns),
        lambda: added(halves[:1], columns).merge(added(halves[1:], columns)),
    ):
        with pytest.raises(DataError, match="column 'id' is not numeric but has more than 1000"):
            read()
    assert len(added([names_of(1000)] * 2, columns).wide_columns) == 1002
    assert len(added([names_of(1002)], columns, categorical=["id"]).wide_columns) == 1004


# ---------------------------------------------------------------- digits, against exact rational
# arithmetic

THREE = ["x0", "x1", "x2"]


HARD: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "far from zero": lambda X, sites: X + 1e9,
    "sites far apart": lambda X, sites: X + 1e9 * sites,
    "outlying first row": lambda X, sites: np.where(np.arange(210)[:, None] > 0, X, 1e9),
    "of all sizes": lambda X, sites: X * [1e-12, 1.0, 1e12] + [1e-3, -1e9, 1e15],
}


def error(moments: Moments, X: np.ndarray, sites: np.ndarray) -> float:
    """The largest of all products, relative to the scatters of both columns"""
    worst = 0.0
    for e, rows in enumerate(
        [*(sites == label for label in moments.environments), np.full(len(X), True)]
    ):
        exact = exact_scatter(X[rows])
        size = np.sqrt(np.diagonal(exact))
        worst = max(worst, float(np.abs((moments.scatter[e] - exact) / np.outer(size, size)).max()))
    return worst


@pytest.mark.parametrize("kind", HARD)
@pytest.mark.parametrize("batch_rows", [7, 210])
def test_twelve_digits(kind: str, batch_rows: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(210, 3))
    sites = rng.integers(0, 3, 210)
    X = HARD[kind](X, sites[:, None])
    table = pa.table({**dict(zip(THREE, X.T, strict=True)), "site": sites})
    pieces = [table.slice(start, batch_rows) for start in range(0, 210, batch_rows)]
    moments = moments_of(added(pieces, THREE))
    assert error(moments, X, sites) <= 1e-12
    merged = added(pieces[:0], THREE)
    for piece in pieces:
        merged = merged.merge(added([piece], THREE))
    assert error(moments_of(merged), X, sites) <= 1e-12
    for e, label in enumerate(moments.environments):
        rows = X[sites == label]
        off = (moments.centre[e] - rows.astype(np.longdouble)).mean(axis=0) + moments.rest[e]
        assert (np.abs(off) <= 1e-15 * rows.std(axis=0)).all()
