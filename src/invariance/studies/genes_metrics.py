"""Precision and recall of predicted genes against held-out deletions, and what choosing at random would give."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from .._tools.arrays import Mask
from .base import Row

Line = Row | pd.Series  # of `summary`

# The counts of one fit, which add up over targets and folds.
COUNTS = ("predicted", "checkable", "correct", "candidates", "effects")

ABOVE, BELOW = "above chance", "below chance"


def counts_of(selected: Mask, candidates: Mask, effects: Mask) -> Row:
    """Of p genes: how many are predicted, can be checked, are right; how many could be, and have an effect."""
    values = selected, selected & candidates, selected & effects, candidates, effects
    return {name: int(mask.sum()) for name, mask in zip(COUNTS, values, strict=True)}


def expected_correct(rows: pd.DataFrame) -> float:
    """Right predictions, were those of each fit that can be checked chosen at random among its candidates."""
    chosen = rows[rows["candidates"] > 0]
    return float((chosen["checkable"] * chosen["effects"] / chosen["candidates"]).sum())


def by_seed(rows: pd.DataFrame) -> pd.DataFrame:
    """One line for each seed: the counts over all fits, precision, recall (NaN for 0 of 0) and precision at chance."""
    lines = []
    for seed, chosen in rows.groupby("replicate"):
        total = {name: int(chosen[name].sum()) for name in COUNTS}
        shares = {
            "precision": _share(total["correct"], total["checkable"]),
            "recall": _share(total["correct"], total["effects"]),
            "chance": _share(expected_correct(chosen), total["checkable"]),
        }
        lines.append({"seed": seed, **total, **shares})
    return pd.DataFrame(lines)


def chance_range(checkable: float, chance: float, level: float = 0.95) -> tuple[float, float]:
    """Where the precision of so many random predictions lies with probability `level` or more; NaN without any.

    The number of right ones is a sum of hypergeometric numbers, which spreads less than the binomial of the same mean
    (Hoeffding 1956), whose quantiles these are.
    """
    from scipy.stats import binom

    if np.isnan(checkable):
        return float("nan"), float("nan")
    n = round(checkable)
    tail = (1.0 - level) / 2.0
    low, high = binom.ppf((tail, 1.0 - tail), n, chance) / n
    return float(low), float(high)


def summary(rows: pd.DataFrame) -> Row:
    """Means over seeds with standard errors, NaN where there is no number: no prediction, no effect, a single seed."""
    seeds = by_seed(rows)
    chance = _mean(seeds["chance"])
    low, high = chance_range(_mean(seeds.loc[seeds["checkable"] > 0, "checkable"]), chance)
    return {
        "seeds": len(seeds),
        "seeds_with_predictions": int((seeds["checkable"] > 0).sum()),
        **{name: float(seeds[name].mean()) for name in COUNTS},
        "precision": _mean(seeds["precision"]),
        "precision_error": _error(seeds["precision"]),
        "recall": _mean(seeds["recall"]),
        "recall_error": _error(seeds["recall"]),
        "chance": chance,
        "chance_low": low,
        "chance_high": high,
    }


def against_chance(line: Line) -> str:
    """By the share of right predictions over all seeds, which counts whole predictions as the range does."""
    if line["checkable"] == 0:
        return undefined(line)
    share = line["correct"] / line["checkable"]
    if share > line["chance_high"]:
        return ABOVE
    return BELOW if share < line["chance_low"] else "as chance"


def undefined(line: Line) -> str:
    """Why there is no precision."""
    return "none can be checked" if line["predicted"] else "none predicted"


def _share(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


def _mean(values: Iterable[float]) -> float:
    known = _known(values)
    return float(known.mean()) if len(known) else float("nan")


def _error(values: Iterable[float]) -> float:
    known = _known(values)
    return float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else float("nan")


def _known(values: Iterable[float]) -> np.ndarray:
    numbers = np.array(list(values), dtype=float)
    return numbers[~np.isnan(numbers)]
