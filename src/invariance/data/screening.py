"""The checks that a piece of rows can answer: infinite and missing values, labels, magnitudes."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask
from ..exceptions import DataError
from .checks import (
    DROP_HINT,
    all_missing,
    check_scale,
    encode_labels,
    located,
    quoted,
    rows_text,
)
from .gaps import Gaps

NO_ROWS = "the table has no rows. Check the file, or what was filtered out before."
MISSING_WORDS = (
    "empty cells of a text file and the words None, NA, N/A, NaN and null count as missing: where one is a level, "
    "write another word."
)


class Rows(NamedTuple):
    """X (n, r), y (n,), codes (n,) into environments: the rows that are left; dropped: {label: rows left out}; beside
    (k, n): what comes with the outcome; gaps: of the rows left out."""

    X: Floats
    y: Floats
    codes: NDArray[np.intp]
    environments: tuple[Hashable, ...]
    dropped: dict[Hashable, int]
    beside: Floats
    gaps: Gaps

    def kept(self, rows: Mask) -> Rows:
        """Those of a mask (n,); environments of which none is left are gone."""
        codes, environments = encode_labels([self.environments[code] for code in self.codes[rows]])
        arrays = self.X[rows], self.y[rows], codes
        return Rows(*arrays, environments, self.dropped, self.beside[:, rows], self.gaps)


def screened(
    X: Floats,
    y: Floats,
    labels: list[Hashable] | None,
    columns: Sequence[str],
    environment: str | None,
    missing: str,
    in_chunks: bool = False,
    words: Collection[str] = (),
    beside: Sequence[Floats] = (),
    excluded: Sequence[str] = (),
) -> Rows:
    """The rows that are left after the checks; columns: names of those of X, of y and of k columns (n,) beside it;
    words: those of levels that were read from a file; excluded: columns that the user left out."""
    outcome = np.column_stack([y, *beside])
    if labels is None:
        codes: NDArray[np.intp]
        environments: tuple[Hashable, ...]
        codes, environments = np.zeros(len(y), dtype=np.intp), ("all",)
    else:
        codes, environments = encode_labels(labels)
    known = environments if labels is not None else None
    finite = bool(np.isfinite(X).all() and np.isfinite(outcome).all())
    if not finite:
        where = located(np.isinf(X), np.isinf(outcome), columns, codes, known)
        if where:
            raise DataError(f"infinite values (inf) in {where}. Replace them or remove those rows before fitting.")
    unlabelled = codes < 0
    gaps = Gaps()
    gone = unlabelled
    if not finite:
        lacking = np.column_stack([np.isnan(X), np.isnan(outcome)])
        gone = unlabelled | lacking.any(axis=1)
        lost = np.flatnonzero(gone & ~unlabelled)
        lost = lost[np.argsort(codes[lost], kind="stable")]
        for rows in np.split(lost, np.flatnonzero(np.diff(codes[lost])) + 1) if len(lost) else ():
            gaps.add(lacking[rows], environments[codes[rows[0]]])
    if missing == "error":
        if unlabelled.any():
            column = "environments" if environment is None else f"environment column {environment!r}"
            raise DataError(
                f"{column} has no label in {rows_text(int(unlabelled.sum()))}. {DROP_HINT}, or fill in the labels."
            )
        if not finite:
            where = located(np.isnan(X), np.isnan(outcome), columns, codes, known)
            read = [columns[j] for j in np.flatnonzero(np.isnan(X).any(axis=0)).tolist() if columns[j] in words]
            told = f" In {quoted(read)}, {MISSING_WORDS}" if read else ""
            counts = columns[: X.shape[1]], int((~gone).sum()), int(gone.sum())
            advice = "" if in_chunks else gaps.advice(columns, *counts, environment is not None, excluded)
            raise DataError(f"missing values (NaN) in {where}. {DROP_HINT}, or impute them first.{advice}{told}")
    dropped: dict[Hashable, int] = {}
    if gone.any():
        per_label = np.bincount(codes[gone] + 1, minlength=len(environments) + 1)
        dropped = {label: int(n) for label, n in zip((None, *environments), per_label, strict=True) if n}
        if gone.all() and not in_chunks:
            empty = [name for name, all_gone in zip(columns, all_missing(X, outcome), strict=True) if all_gone]
            advice = f"{quoted(empty)} is missing in every row: leave it out" if empty else "impute them instead"
            few = gaps.advice(columns, columns[: X.shape[1]], 0, len(y), environment is not None, excluded)
            raise DataError(f"no rows are left: all {rows_text(len(y))} have missing values; {advice}.{few}")
        X, outcome = X[~gone], outcome[~gone]
        codes, environments = encode_labels([environments[code] for code in codes[~gone]])
    if len(X):
        lowest = np.append(X.min(axis=0), outcome.min(axis=0))
        check_scale(columns, lowest, np.append(X.max(axis=0), outcome.max(axis=0)))
    y = np.ascontiguousarray(outcome[:, 0])
    with_y = np.ascontiguousarray(outcome[:, 1:].T)
    return Rows(np.ascontiguousarray(X), y, codes, environments, dropped, with_y, gaps)
