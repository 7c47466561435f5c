"""A file in pieces, for data that never are in memory as a whole."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..exceptions import DataError
from .checks import check_missing_argument, resolve_columns, rows_text, warn
from .columns import Choices, RawTable, as_frame, excluding, refuse, series_values
from .encoding import Encoding, Learner
from .missing import NO_ROWS, WORTH_A_WARNING, Gaps, Rows, dropped_message, screened
from .multi_environment import MultiEnvironmentData, encoded
from .outcomes import refuse as refuse_outcome_columns
from .reading import TableFile, column_names, is_text, iter_columns


def read_chunks(
    path: str | os.PathLike[str],
    outcome: str,
    environment: str,
    features: Sequence[str] | None = None,
    missing: str = "error",
    rows_per_chunk: int = 100_000,
    *,
    exclude: Sequence[str] = (),
    categorical: str | Sequence[str] | Mapping[str, Sequence[Any]] = "auto",
    numeric: Sequence[str] = (),
    groups: Any = None,
    event: Any = None,
    exposure: Any = None,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    na: Sequence[str] = (),
    thousands: str | None = None,
) -> Iterator[MultiEnvironmentData]:
    """Read a file as data of at most ``rows_per_chunk`` rows each, so that it never is in memory as a whole.

    Names and values are checked as in ``MultiEnvironmentData.from_table``; what only all rows can show
    (sizes and number of environments, constant columns) is for :func:`check_whole` and :func:`check_spread`.
    Each chunk's ``environments`` are those that occur in it. Dropped rows are reported once, at the end.
    Where there are levels or splines, the file is read twice: they are those of all rows. Levels that ``categorical``
    lists, ``{"region": ["north", "south"]}``, are the same in every file, so that ``Moments`` of several can be
    merged. ``event`` and ``exposure`` are refused: models that use them need all rows. ``sep`` to ``thousands`` say how
    the file is written, as in ``read_table``.
    """
    refuse_outcome_columns("read_chunks", event=event, exposure=exposure)
    check_missing_argument(missing)
    if isinstance(rows_per_chunk, bool) or not isinstance(rows_per_chunk, (int, np.integer)) or rows_per_chunk < 1:
        raise DataError(f"rows_per_chunk={rows_per_chunk!r} is not a positive whole number: pass 1 or more.")
    path = TableFile.of(path, sep, decimal, encoding, sheet, na, thousands=thousands)
    available = column_names(path, warn_unnamed=features is None)
    outcome, environment, names = resolve_columns(available, outcome, environment, features, "the file")
    names = excluding(exclude, names, [name for name in available if name not in (outcome, environment)])
    choices = Choices.of(names, categorical, numeric, groups, exclude)
    return _Source(path, outcome, environment, names, missing, int(rows_per_chunk), choices).chunks()


class _Source(NamedTuple):
    path: str | os.PathLike[str]
    outcome: str
    environment: str
    names: tuple[str, ...]
    missing: str
    rows_per_chunk: int
    choices: Choices

    def chunks(self) -> Iterator[MultiEnvironmentData]:
        dropped: Counter[Hashable] = Counter()
        said: Counter[Hashable] = Counter()
        kept: dict[Hashable, None] = {}
        n_rows, gaps = 0, Gaps()
        texts = self._columns_of_text()
        encoding = self._encoding(texts)
        held: MultiEnvironmentData | None = None  # a chunk also tells of rows before and after it of which none is left
        for raw, rows in self._pieces(texts):
            n_rows += len(raw.values)
            kept.update(dict.fromkeys(rows.environments))
            if len(rows.y):
                if held is not None:
                    yield replace(held, dropped_rows=dict(dropped - said))
                    said = dropped.copy()
                held = encoded(rows, raw, encoding, self.outcome, self.environment)
            dropped.update(rows.dropped)
            gaps = gaps.merged(rows.gaps)
        if n_rows == 0:
            raise DataError(NO_ROWS)
        n_lost = sum(dropped.values())
        counted = (*self.names, self.outcome), self.names, n_rows - n_lost, n_lost, True, self.choices.excluded
        advice = gaps.advice(*counted, share=WORTH_A_WARNING)
        if held is None:
            gone = f"no rows are left: all {rows_text(n_rows)} have missing values; impute them instead."
            raise DataError(gone + advice)
        yield replace(held, dropped_rows=dict(dropped - said))
        if dropped:
            warn(dropped_message(dropped, tuple(kept), n_rows) + (advice and f".{advice}"))

    def _encoding(self, texts: set[str]) -> Encoding | None:
        learner = Learner(self.names, self.choices)
        for raw, rows in self._pieces(texts) if texts or self.choices.splines else ():
            learner.look(raw)
            learner.learn(rows, raw)
        learner.check()
        learner.warn()
        return learner.encoding((self.outcome, self.environment))

    def _pieces(self, texts: set[str]) -> Iterator[tuple[RawTable, Rows]]:
        columns = (*self.names, self.outcome)
        for frame in self._frames(texts):
            raw = RawTable.of_frame(frame, self.names, self.choices)
            changed = [name for name in self.names if name in {**raw.levels, **raw.refused} and name not in texts]
            refuse({name: raw.refused[name] for name in changed if name in self.choices.numeric}, in_table=True)
            if changed:
                raise DataError(
                    f"column {changed[0]!r} holds numbers, or true and false, in the first rows of the file, and other "
                    f"values later on: mend these, or take its values as levels, categorical={changed!r}."
                )
            y = series_values(frame[self.outcome], self.outcome, "outcome")
            labels = frame[self.environment].to_list()
            words = list(raw.levels) if is_text(self.path) else []
            rows = screened(raw.values, y, labels, columns, self.environment, self.missing, in_chunks=True, words=words)
            yield raw, rows

    def _columns_of_text(self) -> set[str]:
        """Columns whose first value is no number. They are read as text in every chunk, as in the whole file."""
        texts, unseen = set(self.choices.categorical), set(self.names) - self.choices.categorical
        for frame in self._frames(texts):
            raw = RawTable.of_frame(frame, self.names, self.choices)
            texts |= {*raw.levels, *raw.refused}
            filled = ~np.isnan(raw.values).all(axis=0)
            unseen -= {raw.names[j] for j in np.flatnonzero(filled)}
            if not unseen:
                break
        return texts

    def _frames(self, texts: set[str]) -> Iterator[Any]:
        columns = (*self.names, self.outcome, self.environment)
        doubted = texts - self.choices.categorical
        for table in iter_columns(self.path, columns, self.rows_per_chunk, self.environment, texts, doubted):
            yield as_frame(table)
