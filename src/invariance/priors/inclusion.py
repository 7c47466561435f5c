"""Features that enter independently, each with its own probability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Floats
from ..data.checks import closest
from ..exceptions import SettingError
from .base import Prior, as_float, bound_prior
from .bound import BoundPrior

_ONE_OR_EACH = "inclusion probabilities must be one number, one per feature, or {feature name: probability}"


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
            raise SettingError(f"{_ONE_OR_EACH}, not an array of shape {np.shape(given)}")
        object.__setattr__(self, "probabilities", given)

    def _build(self, names: tuple[str, ...], max_size: int) -> BoundPrior:
        values, always = self._values(names), self.forced(names)
        if len(always) > max_size:
            limit = "the largest size the data allow" if self.max_size is None else "max_size"
            raise SettingError(
                f"{len(always)} features have inclusion probability 1 but {limit} is {max_size}; "
                f"raise the limit or lower some of these probabilities: {_listed(always)}"
            )
        distinct = [f"{value:g}" for value in np.unique(values)]
        what = f"independent inclusion (probability {' to '.join(distinct[:1] + distinct[1:][-1:])})"
        return bound_prior(names, max_size, np.zeros(len(names) + 1), values, what)

    def forced(self, features: Sequence[str]) -> tuple[str, ...]:
        values = self._values(tuple(features))
        return tuple(name for name, value in zip(features, values, strict=True) if value == 1.0)

    @property
    def by_position(self) -> bool:
        """Whether the order of the features says which probability is whose."""
        return isinstance(self.probabilities, tuple)

    def with_outcome(self, name: str) -> InclusionPrior:
        if not isinstance(self.probabilities, Mapping):
            return self
        others = {feature: value for feature, value in self.probabilities.items() if feature != name}
        return InclusionPrior(others, self.max_size)

    def _restricted(self, original: tuple[str, ...], names: tuple[str, ...]) -> InclusionPrior:
        values = dict(zip(original, self._values(original).tolist(), strict=True))
        return InclusionPrior([values[name] for name in names], self.max_size)

    def _values(self, names: tuple[str, ...]) -> Floats:
        """The probability of each feature, (p,)."""
        given: Any = self.probabilities
        if isinstance(given, Mapping):
            for name in sorted(given.keys() - set(names)):
                close = closest(name, names)
                hint = f"did you mean {close!r}?" if close else f"the features are {_listed(names)}"
                raise SettingError(f"inclusion probability for unknown feature {name!r}; {hint}")
            return np.array([given.get(name, 0.5) for name in names], dtype=np.float64)
        if isinstance(given, float):
            return np.full(len(names), given)
        if len(given) != len(names):
            raise SettingError(f"{_ONE_OR_EACH}; got {len(given)} for {len(names)} features: {_listed(names)}")
        pairs = zip(names, given, strict=True)
        return np.array([_as_probability(q, f"feature {name!r}") for name, q in pairs], dtype=np.float64)


def _as_probability(value: Any, label: str) -> float:
    number = as_float(value, f"inclusion probability of {label}")
    if not 0.0 <= number <= 1.0:
        raise SettingError(f"inclusion probability of {label} must be between 0 and 1, got {number:g}")
    return number


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
