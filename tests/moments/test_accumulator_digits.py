"""Digits of the accumulator, against exact rational arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from arrow_rows import added, exact_scatter
from invariance.moments import accumulator
from invariance.moments.moments import Moments

COLUMNS = ["x0", "x1", "x2"]


def far_from_zero(X: np.ndarray, sites: np.ndarray) -> None:
    X += 1e9


def sites_far_apart(X: np.ndarray, sites: np.ndarray) -> None:
    X += 1e9 * sites[:, None]


def outlying_first_row(X: np.ndarray, sites: np.ndarray) -> None:
    X[0] = 1e9


def of_all_sizes(X: np.ndarray, sites: np.ndarray) -> None:
    X *= [1e-12, 1.0, 1e12]
    X += [1e-3, -1e9, 1e15]


HARD = [far_from_zero, sites_far_apart, outlying_first_row, of_all_sizes]


def rows_of(make_hard: Callable[[np.ndarray, np.ndarray], None]) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, sites = rng.normal(size=(210, 3)), rng.integers(0, 3, 210)
    make_hard(X, sites)
    return X, sites


def error(moments: Moments, X: np.ndarray, sites: np.ndarray) -> float:
    """The largest of all products, relative to the scatters of both columns"""
    worst = 0.0
    for e, rows in enumerate([*(sites == label for label in moments.environments), np.full(len(X), True)]):
        exact = exact_scatter(X[rows])
        size = np.sqrt(np.diagonal(exact))
        worst = max(worst, float(np.abs((moments.scatter[e] - exact) / np.outer(size, size)).max()))
    return worst


@pytest.mark.parametrize("make_hard", HARD)
@pytest.mark.parametrize("block_rows", [1, 1 << 16])
@pytest.mark.parametrize("batch_rows", [7, 64, 210])
def test_twelve_digits(
    make_hard: Callable[[np.ndarray, np.ndarray], None],
    block_rows: int,
    batch_rows: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accumulator, "_FEWEST_ROWS", block_rows)
    monkeypatch.setattr(accumulator, "_BLOCK_BYTES", 1)
    X, sites = rows_of(make_hard)
    table = pa.table({**dict(zip(COLUMNS, X.T, strict=True)), "site": sites})
    pieces = [table.slice(start, batch_rows) for start in range(0, 210, batch_rows)]
    moments = added(pieces, COLUMNS).moments("x2")
    assert error(moments, X, sites) <= 1e-12
    merged = added(pieces[:0], COLUMNS)
    for piece in pieces:
        merged = merged.merge(added([piece], COLUMNS))
    assert error(merged.moments("x2"), X, sites) <= 1e-12
    for e, label in enumerate(moments.environments):
        rows = X[sites == label]
        off = (moments.centre[e] - rows.astype(np.longdouble)).mean(axis=0) + moments.rest[e]
        assert (np.abs(off) <= 1e-15 * rows.std(axis=0)).all()


@pytest.mark.parametrize("make_hard", HARD)
def test_the_error_that_is_stated_is_not_exceeded(make_hard: Callable[[np.ndarray, np.ndarray], None]) -> None:
    X, sites = rows_of(make_hard)
    table = pa.table({**dict(zip(COLUMNS, X.T, strict=True)), "site": sites})
    moments = added([table.slice(start, 7) for start in range(0, 210, 7)], COLUMNS).moments("x2")
    assert moments.rounding is not None
    for e, label in enumerate(moments.environments):
        off = np.abs(np.diagonal(moments.scatter[e] - exact_scatter(X[sites == label])))
        assert (off <= moments.rounding[e]).all()
