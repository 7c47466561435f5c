"""Precision and recall of predicted genes against held-out deletions, and what choosing at random would give."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from .._tools.arrays import Mask
from .base import Row
from .genes_chance import central_range, chance_law, combined, upper_tail

Line = Row | pd.Series  # of `summary`

# The counts of one fit, which add up over targets and folds.
COUNTS = ("predicted", "checkable", "correct", "candidates", "effects")


def counts_of(selected: Mask, candidates: Mask, effects: Mask) -> Row:
    """Of p genes: how many are predicted, can be checked, are right; how many could be, and have an effect."""
    values = selected, selected & candidates, selected & effects, candidates, effects
    return {name: int(mask.sum()) for name, mask in zip(COUNTS, values, strict=True)}


def by_seed(rows: pd.DataFrame) -> pd.DataFrame:
    """One line for each seed: the counts over all fits, precision, recall (NaN for 0 of 0), and what random predictions
    have: the mean of their precision, its central 95%, and how probable it is that they are right as often.
    """
    lines = []
    for seed, chosen in rows.groupby("replicate"):
        total = {name: int(chosen[name].sum()) for name in COUNTS}
        law = chance_law(chosen)
        low, high = central_range(law)
        checked = {
            "precision": total["correct"],
            "chance": float(law @ np.arange(len(law))),
            "chance_low": low,
            "chance_high": high,
        }
        shares = {name: _share(number, total["checkable"]) for name, number in checked.items()}
        shares["recall"] = _share(total["correct"], total["effects"])
        p_value = upper_tail(law, total["correct"]) if total["checkable"] else float("nan")
        lines.append({"seed": seed, **total, **shares, "p_value": p_value})
    return pd.DataFrame(lines)


def summary(rows: pd.DataFrame) -> Row:
    """Means over seeds with standard errors, NaN where there is no number: no prediction, no effect, a single seed.

    chance, chance_low, chance_high : what random predictions have in one seed; p_value : of all seeds together
    """
    seeds = by_seed(rows)
    return {
        "seeds": len(seeds),
        "seeds_with_predictions": int((seeds["checkable"] > 0).sum()),
        **{name: float(seeds[name].mean()) for name in COUNTS},
        "precision": _mean(seeds["precision"]),
        "precision_error": _error(seeds["precision"]),
        "recall": _mean(seeds["recall"]),
        "recall_error": _error(seeds["recall"]),
        **{name: _mean(seeds[name]) for name in ("chance", "chance_low", "chance_high")},
        "p_value": combined(seeds["p_value"]),
    }


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
