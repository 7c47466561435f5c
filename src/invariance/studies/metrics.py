"""How well a selected subset matches the truth, and intervals for the rates of such events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Mask
from ..exceptions import SettingError


def exact_discovery(selected: ArrayLike, truth: ArrayLike, rejected: bool = False) -> bool:
    """Whether the selected features (p,) are exactly the true ones (p,); False for a method that rejected its model."""
    chosen, true = _masks(selected, truth)
    return not rejected and bool((chosen == true).all())


def coverage(selected: ArrayLike, truth: ArrayLike, rejected: bool = False) -> bool:
    """Whether every selected feature is a true one, as it is for an empty selection.

    `rejected` says that the method found no subset acceptable (ICP's "model rejected"): that is no answer, and False,
    where an accepted empty subset is True.
    """
    chosen, true = _masks(selected, truth)
    return not rejected and not (chosen & ~true).any()


def precision(selected: ArrayLike, truth: ArrayLike) -> float:
    """Share of the selected features that are true; nan when none is selected, since no claim was made."""
    chosen, true = _masks(selected, truth)
    return _share(chosen & true, chosen)


def recall(selected: ArrayLike, truth: ArrayLike) -> float:
    """Share of the true features that are selected; nan when there is no true feature to find."""
    chosen, true = _masks(selected, truth)
    return _share(chosen & true, true)


def wilson_interval(successes: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Score interval for a probability after `successes` in n independent trials (Wilson 1927).

    It lies within [0, 1] and has positive width also at 0 and at n successes; without trials it is (0, 1).
    """
    if not 0 <= successes <= n:
        raise SettingError(f"successes={successes!r} must be between 0 and n={n!r}.")
    if not 0.0 < level < 1.0:
        raise SettingError(f"level={level!r} must be between 0 and 1.")
    if n == 0:
        return 0.0, 1.0
    z2 = NormalDist().inv_cdf(0.5 + level / 2) ** 2
    centre = (successes + z2 / 2) / (n + z2)
    half = np.sqrt(z2 * (successes * (n - successes) / n + z2 / 4)) / (n + z2)
    low = 0.0 if successes == 0 else max(0.0, float(centre - half))
    high = 1.0 if successes == n else min(1.0, float(centre + half))
    return low, high


@dataclass(frozen=True)
class Rate:
    """The share of n trials that succeeded, and its Wilson interval; mean is nan without trials."""

    mean: float
    low: float
    high: float
    n: int


def rate(values: Iterable[bool] | ArrayLike, level: float = 0.95) -> Rate:
    """Share of True (or 1) among outcomes that are each True or False (1 or 0), with its Wilson interval."""
    outcomes = np.asarray(values if isinstance(values, np.ndarray) else list(values))  # type: ignore[arg-type]
    if outcomes.ndim != 1 or not np.isin(outcomes, (0, 1)).all():
        raise SettingError("a rate is taken over a flat list of True and False, or of 1 and 0.")
    n, successes = len(outcomes), int(outcomes.sum())
    low, high = wilson_interval(successes, n, level)
    return Rate(successes / n if n else float("nan"), low, high, n)


def _masks(selected: ArrayLike, truth: ArrayLike) -> tuple[Mask, Mask]:
    masks = np.asarray(selected), np.asarray(truth)
    if masks[0].ndim != 1 or masks[0].shape != masks[1].shape:
        raise SettingError(f"selected and truth must be masks of one length, not {masks[0].shape} and {masks[1].shape}")
    if not all(np.isin(mask, (0, 1)).all() for mask in masks):
        raise SettingError("selected and truth must be masks of True and False (or 1 and 0), not lists of positions.")
    return masks[0].astype(bool), masks[1].astype(bool)


def _share(part: Mask, whole: Mask) -> float:
    return float(part.sum() / whole.sum()) if whole.any() else float("nan")
