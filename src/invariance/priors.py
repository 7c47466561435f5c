"""Priors over subsets of features.

`UniformPrior`, `InclusionPrior` and `BetaBinomialPrior` say what is believed; `bind` ties one of them to the
features at hand and gives a `BoundPrior`, which computes.
"""

from __future__ import annotations

import math
import numbers
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .bound_prior import BoundPrior, FloatArray
from .checks import closest, quoted, warn

__all__ = [
    "PRIOR_FORMS",
    "BetaBinomialPrior",
    "BoundPrior",
    "InclusionPrior",
    "Prior",
    "UniformPrior",
    "parse_prior",
]

_ONE_OR_EACH = "inclusion probabilities must be one number, one per feature, or {feature name: probability}"
PRIOR_FORMS = "uniform, beta-binomial, beta-binomial(A,B), inclusion(Q)"


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

    def _restricted(self, original: tuple[str, ...], names: tuple[str, ...]) -> Prior:
        """The same belief about some of the features that it was stated about."""
        return self

    @abstractmethod
    def _build(self, names: tuple[str, ...], max_size: int) -> BoundPrior:
        """The bound prior; 0 <= max_size <= len(names)."""


@dataclass(frozen=True)
class UniformPrior(Prior):
    """Every subset of at most `max_size` features is equally probable (None: no limit)."""

    max_size: int | None = None

    def _build(self, names: tuple[str, ...], max_size: int) -> BoundPrior:
        p = len(names)
        return _bound(names, max_size, np.zeros(p + 1), np.full(p, 0.5), "uniform over subsets")


@dataclass(frozen=True)
class BetaBinomialPrior(Prior):
    """A common inclusion probability drawn from Beta(a, b): p(z) = B(a + |z|, b + p - |z|) / B(a, b).

    With a = b = 1 all sizes are equally probable, which corrects for the number of subsets of each size.
    Truncated at `max_size` (None: no limit) and renormalised.
    """

    a: float = 1.0
    b: float = 1.0
    max_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for label in ("a", "b"):
            value = _as_float(getattr(self, label), f"{label} of the beta-binomial prior")
            if not 0.0 < value < math.inf:
                raise ValueError(f"{label} of the beta-binomial prior must be positive and finite: {value:g}")
            object.__setattr__(self, label, value)

    def _build(self, names: tuple[str, ...], max_size: int) -> BoundPrior:
        # Rising factorials over powers of a + b: differences of log-beta lose digits for large a and b.
        steps = np.arange(len(names))
        scale = np.logaddexp(np.log(self.a), np.log(self.b))
        rising_a = np.concatenate([[0.0], np.cumsum(np.log(self.a + steps) - scale)])
        rising_b = np.concatenate([[0.0], np.cumsum(np.log(self.b + steps) - scale)])
        total = np.sum(np.logaddexp(np.log(self.a), np.log(self.b + steps)) - scale)
        what = f"beta-binomial({self.a:g}, {self.b:g}) over subsets"
        return _bound(names, max_size, rising_a + rising_b[::-1] - total, np.full(steps.size, 0.5), what)


@dataclass(frozen=True)
class InclusionPrior(Prior):
    """Features enter independently, each with its own probability; 0 never and 1 always.

    probabilities: one number for all features, a sequence with one per feature in their order, or
    {feature name: probability} (also a Series indexed by name), where features not named get 0.5. All features of the
    data as given count, also those that are then dropped because they are constant or because a screen left them out.
    With `max_size` these are the probabilities before truncation: the larger subsets are removed and the rest
    renormalised, so that `BoundPrior.inclusion_probabilities` is then smaller.
    """

    probabilities: ArrayLike | Mapping[str, float]
    max_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.probabilities
        if hasattr(given, "to_dict") and all(isinstance(label, str) for label in given.index):
            given = given.to_dict()
        if isinstance(given, Mapping):
            given = {str(key): _as_probability(value, f"feature {key!r}") for key, value in given.items()}
        elif np.ndim(given) == 0:
            given = _as_probability(given, "all features")
        elif np.ndim(given) == 1:
            # Values are checked in bind, where the feature can be named.
            given = tuple(np.asarray(given).tolist())
        else:
            raise ValueError(f"{_ONE_OR_EACH}, not an array of shape {np.shape(given)}")
        object.__setattr__(self, "probabilities", given)

    def _build(self, names: tuple[str, ...], max_size: int) -> BoundPrior:
        values, always = self._values(names), self.forced(names)
        if len(always) > max_size:
            limit = "the largest size the data allow" if self.max_size is None else "max_size"
            raise ValueError(
                f"{len(always)} features have inclusion probability 1 but {limit} is {max_size}; "
                f"raise the limit or lower some of these probabilities: {_listed(always)}"
            )
        distinct = [f"{value:g}" for value in np.unique(values)]
        what = f"independent inclusion (probability {' to '.join(distinct[:1] + distinct[1:][-1:])})"
        return _bound(names, max_size, np.zeros(len(names) + 1), values, what)

    def forced(self, features: Sequence[str]) -> tuple[str, ...]:
        values = self._values(tuple(features))
        return tuple(name for name, value in zip(features, values, strict=True) if value == 1.0)

    def _restricted(self, original: tuple[str, ...], names: tuple[str, ...]) -> InclusionPrior:
        values = dict(zip(original, self._values(original).tolist(), strict=True))
        return InclusionPrior([values[name] for name in names], self.max_size)

    def _values(self, names: tuple[str, ...]) -> FloatArray:
        """The probability of each feature, (p,)."""
        given: Any = self.probabilities
        if isinstance(given, Mapping):
            for name in sorted(given.keys() - set(names)):
                close = closest(name, names)
                hint = f"did you mean {close!r}?" if close else f"the features are {_listed(names)}"
                raise ValueError(f"inclusion probability for unknown feature {name!r}; {hint}")
            return np.array([given.get(name, 0.5) for name in names], dtype=np.float64)
        if isinstance(given, float):
            return np.full(len(names), given)
        if len(given) != len(names):
            raise ValueError(f"{_ONE_OR_EACH}; got {len(given)} for {len(names)} features: {_listed(names)}")
        pairs = zip(names, given, strict=True)
        return np.array([_as_probability(q, f"feature {name!r}") for name, q in pairs], dtype=np.float64)


def parse_prior(text: str, max_size: int | None) -> Prior:
    """The prior that a short text names: one of `PRIOR_FORMS`, with numbers for A, B and Q."""
    number = r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*"
    plain = text.strip().lower()
    if plain == "uniform":
        return UniformPrior(max_size)
    if plain == "beta-binomial":
        return BetaBinomialPrior(max_size=max_size)
    if match := re.fullmatch(rf"beta-binomial\s*\({number},{number}\)", plain):
        return BetaBinomialPrior(float(match[1]), float(match[2]), max_size)
    if match := re.fullmatch(rf"inclusion\s*\({number}\)", plain):
        return InclusionPrior(float(match[1]), max_size)
    raise ValueError(
        f"cannot read the prior {text!r}; the accepted forms are {PRIOR_FORMS}, "
        "for example beta-binomial(1,3) or inclusion(0.1)"
    )


def _bound(names: tuple[str, ...], limit: int, weights: FloatArray, q: FloatArray, what: str) -> BoundPrior:
    """Cut the size weights (p + 1,) at the limit and turn the inclusion probabilities q (p,) into odds."""
    soft = (q > 0.0) & (q < 1.0)
    log_odds = np.zeros(q.size)
    log_odds[soft] = np.log(q[soft]) - np.log1p(-q[soft])
    weights[limit + 1 :] = -np.inf
    name = f"{what} of {'' if limit == q.size else f'at most {limit} of '}{q.size} features"
    return BoundPrior(names, limit, log_odds, weights, q == 1.0, q == 0.0, name)


def _check_max_size(value: object, label: str = "max_size") -> int | None:
    if value is None:
        return None
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{label} must be None or a whole number of features, 0 or more; got {value!r}")
    return int(value)


def _as_float(value: Any, label: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{label} must be a number, got {value!r}") from None


def _as_probability(value: Any, label: str) -> float:
    number = _as_float(value, f"inclusion probability of {label}")
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"inclusion probability of {label} must be between 0 and 1, got {number:g}")
    return number


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
