"""Leading subsets are scored again from the rows before anyone reads them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._tools.arrays import Floats, Mask
from ..conditionals.base import BoundConditional
from ..exceptions import NumericalWarning

if TYPE_CHECKING:
    pass

AGREEMENT = 1e-6
_EXAMPLES = 64


@dataclass(frozen=True, eq=False)
class Rescoring:
    """log_ratios (k,): with disagreeing values replaced; difference: the largest relative one; note: what happened that
    should not; changed: whether a value was replaced."""

    log_ratios: Floats
    difference: float | None
    note: str | None
    changed: bool


def rescore_leading(model: BoundConditional, masks: Mask, log_ratios: Floats, n: int) -> Rescoring:
    """Check the first n subsets against the rows; where they differ by more than 1e-6 the rows win."""
    old, new = log_ratios[:n], model.rescore(masks[:n]) if n else None
    if new is None:
        return Rescoring(log_ratios, None, None, False)
    difference = np.abs(new - old) / np.maximum(1.0, np.abs(new))
    wrong = ~(difference <= AGREEMENT)
    largest = float(np.nan_to_num(difference, nan=np.inf).max())
    if model.walk_error > 0.0:
        wrong &= ~(np.abs(new - old) <= model.walk_error)
        log_ratios = np.concatenate([np.where(wrong, old, new), log_ratios[n:]])
        old = log_ratios[:n]
    if not wrong.any():
        return Rescoring(log_ratios, largest, None, model.walk_error > 0.0)
    what = "second moments were" if model.walk_error == 0.0 else "the walk over all subsets was"
    note = (
        f"{wrong.sum()} of the {len(new)} leading subsets were re-scored from the rows: {what} off by up "
        f"to {largest:.1e} (nearly collinear features, or hardly anything left of the outcome)."
    )
    warnings.warn(note, NumericalWarning, stacklevel=2)
    repaired = log_ratios.copy()
    repaired[:n] = np.where(wrong, new, old)
    return Rescoring(repaired, largest, note, True)
