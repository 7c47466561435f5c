"""What every prior over subsets shares: it is stated without data, and bound to the features at hand."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from .._tools.arrays import Floats
from ..data.checks import quoted, warn
from ..exceptions import SettingError
from .bound import BoundPrior


class Prior(ABC):
    """What is believed about the subset before seeing data, for features not yet known."""

    max_size: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_size", _check_max_size(self.max_size))

    def bind(
        self,
        feature_names: Sequence[str] | int,
        largest_size: int | None = None,
        original_features: Sequence[str] | None = None,
    ) -> BoundPrior:
        """Tie the prior to its features.

        feature_names: the names, or a number p for features called x0, ..., x{p-1}.
        largest_size: the size limit when the prior has none of its own (None: no limit). A limit above p
        gives the same support as p and is stored as p.
        original_features: all features that the prior was stated about, in their order, where some of them were
        dropped since (None: none was). What it says about single features then holds for those that are left.
        """
        if isinstance(feature_names, int | np.integer):
            feature_names = [f"x{j}" for j in range(feature_names)]
        names = tuple(str(name) for name in feature_names)
        limit = _check_max_size(largest_size, "largest_size") if self.max_size is None else self.max_size
        max_size = len(names) if limit is None else min(limit, len(names))
        original = names if original_features is None else tuple(str(name) for name in original_features)
        if original == names:
            return self._build(names, max_size)
        lost = set(self.forced(original)) - set(names)
        if lost:
            warn(f"the prior includes {quoted(sorted(lost))} for certain, but the data dropped it: it is left out")
        return replace(self._restricted(original, names)._build(names, max_size), original_features=original)

    def forced(self, features: Sequence[str]) -> tuple[str, ...]:
        """Those of the features it was stated about that every subset holds."""
        return ()

    def limited_to(self, max_size: int) -> Prior:
        """The same belief about subsets of at most so many features."""
        limited = copy(self)
        object.__setattr__(limited, "max_size", max_size)
        return limited

    def with_outcome(self, name: str) -> Prior:
        """The same belief where one of the features it was stated about is the outcome."""
        return self

    def _restricted(self, original: tuple[str, ...], names: tuple[str, ...]) -> Prior:
        """The same belief about some of the features that it was stated about."""
        return self

    @abstractmethod
    def _build(self, names: tuple[str, ...], max_size: int) -> BoundPrior:
        """The bound prior; 0 <= max_size <= len(names)."""


def bound_prior(names: tuple[str, ...], limit: int, weights: Floats, q: Floats, what: str) -> BoundPrior:
    """Cut the size weights (p + 1,) at the limit and turn the inclusion probabilities q (p,) into odds."""
    soft = (q > 0.0) & (q < 1.0)
    log_odds = np.zeros(q.size)
    log_odds[soft] = np.log(q[soft]) - np.log1p(-q[soft])
    weights[limit + 1 :] = -np.inf
    name = f"{what} of {'' if limit == q.size else f'at most {limit} of '}{q.size} features"
    return BoundPrior(names, limit, log_odds, weights, q == 1.0, q == 0.0, name)


def as_float(value: Any, label: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise SettingError(f"{label} must be a number, got {value!r}") from None


def _check_max_size(value: object, label: str = "max_size") -> int | None:
    if value is None:
        return None
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 0:
        raise SettingError(f"{label} must be None or a whole number of features, 0 or more; got {value!r}")
    return int(value)
