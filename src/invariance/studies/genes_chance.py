"""How many predictions are right by chance: the exact law, and what it says about methods and their settings."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import pandas as pd

from .._tools.arrays import Floats

LEVEL = 0.05
_SHOWN = 0.95


def chance_law(rows: pd.DataFrame) -> Floats:
    """P(k right predictions), k = 0, 1, …, where every fit of one seed draws as many genes as it predicts, among those
    that can be checked, without replacement: a sum of independent hypergeometric numbers.
    """
    from scipy.signal import convolve

    fits = rows.loc[rows["checkable"] > 0, ["candidates", "effects", "checkable"]]
    laws = [_of_one_fit(*fit) for fit in fits.itertuples(index=False, name=None)] or [np.ones(1)]
    while len(laws) > 1:
        # Neighbours are added in pairs, which keeps both of about the same length.
        odd = laws[-1:] if len(laws) % 2 else []
        laws = [convolve(*pair) for pair in zip(laws[::2], laws[1::2], strict=False)] + odd
    return np.maximum(laws[0], 0.0)


@lru_cache(maxsize=4096)
def _of_one_fit(candidates: int, effects: int, drawn: int) -> Floats:
    from scipy.stats import hypergeom

    return hypergeom.pmf(np.arange(min(effects, drawn) + 1), candidates, effects, drawn)


def upper_tail(law: Floats, correct: int) -> float:
    """P(at least so many)"""
    return float(min(law[correct:].sum(), 1.0))


def central_range(law: Floats) -> tuple[int, int]:
    """The numbers between which chance lies with 95% or more, and beyond each of which with 2.5% or less."""
    tail = (1.0 - _SHOWN) / 2.0
    low, high = np.searchsorted(np.cumsum(law), (tail, 1.0 - tail))
    return int(low), min(int(high), len(law) - 1)


def combined(p_values: Iterable[float]) -> float:
    """One p-value for several seeds, which share their deletions: twice the mean is one under any dependence (Vovk and
    Wang 2020). NaN without any.
    """
    known = np.array([value for value in p_values if not np.isnan(value)])
    if len(known) < 2:
        return float(known[0]) if len(known) else float("nan")
    return float(min(2.0 * known.mean(), 1.0))


def by_method(table: pd.DataFrame) -> dict[str, float]:
    """{method: its p-value, adjusted for its settings by Bonferroni and for the other methods by Holm}; one without
    predictions that can be checked has 1.
    """
    settings = table.assign(p_value=table["p_value"].fillna(1.0)).groupby("method", sort=False)["p_value"]
    p_values = (settings.min() * settings.size()).sort_values(kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.minimum(np.maximum.accumulate(p_values.to_numpy() * factors), 1.0)
    return dict(zip(p_values.index, adjusted.tolist(), strict=True))
