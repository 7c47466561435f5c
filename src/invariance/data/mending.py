"""Cells that are changed before a column is read: codes for missing values, and limits of detection."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._tools.arrays import Floats
from .labels import level_of
from .reading import limit_of, reads_as_number

# The level of missing values, where they have one.
MISSING_LEVEL = "(missing)"


@dataclass(frozen=True)
class Mending:
    """below_limit : what '<0.5' counts as: "half" of the limit, the "limit" or "missing"; '>9' counts as the limit, or
    missing; na : {column: values that stand for missing ones, as text}"""

    below_limit: str | None = None
    na: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.below_limit is not None or bool(self.na)

    def of(self, columns: Collection[str]) -> Mending:
        """What is needed to read these columns."""
        return Mending(self.below_limit, {name: codes for name, codes in self.na.items() if name in columns})

    def series(self, series: Any, name: str) -> Any:
        """A narwhals Series with what is mended; the same where nothing is."""
        codes = self.na.get(name, ())
        if not codes and (self.below_limit is None or series.dtype.is_numeric()):
            return series
        import narwhals as nw

        values = [
            None if gone else value for value, gone in zip(series.to_list(), series.is_null().to_list(), strict=True)
        ]
        kept = [None if value is None or level_of(value) in codes else value for value in values]
        texts = {value for value in kept if isinstance(value, str)}
        found = ((text, limit_of(text)) for text in texts) if self.below_limit is not None else ()
        limits = {text: limit for text, limit in found if limit is not None}
        changed = kept != values
        if limits and all(text in limits or reads_as_number(text) for text in texts):
            kept = [self._counted(*limits[value]) if value in limits else value for value in kept]
        elif not changed:
            return series
        if series.dtype.is_numeric() or (texts and all(value is None or reads_as_number(value) for value in kept)):
            numbers = [np.nan if value is None else float(value) for value in kept]
            return nw.new_series(name, numbers, nw.Float64, backend="pandas")
        return nw.new_series(name, kept, None if not texts else nw.String, backend="pandas")

    def numbers(self, values: Floats, name: str) -> Floats:
        """(n,) as `series`, of a column of numbers"""
        codes = [float(code) for code in self.na.get(name, ()) if reads_as_number(code)]
        return np.where(np.isin(values, codes), np.nan, values) if codes else values

    def _counted(self, sign: str, limit: float) -> float | None:
        if self.below_limit == "missing":
            return None
        return limit / 2 if self.below_limit == "half" and sign in "<≤" else limit
