"""The priors and their names. To add one: copy `BetaBinomialPrior`, say what is `stated`, add a line to PRIORS."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Floats
from .._tools.registry import Member, Registry
from ..data.checks import nearest, quoted
from ..exceptions import SettingError
from .base import Prior, Stated


@dataclass(frozen=True)
class UniformPrior(Prior):
    """Every subset of at most `max_size` features is equally probable (None: no limit)."""

    max_size: int | None = None

    def stated(self, names: tuple[str, ...]) -> Stated:
        return Stated("uniform over subsets", np.zeros(len(names) + 1), np.full(len(names), 0.5))


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
                raise SettingError(f"{label} of the beta-binomial prior must be positive and finite: {value:g}")
            object.__setattr__(self, label, value)

    def stated(self, names: tuple[str, ...]) -> Stated:
        # Rising factorials over powers of a + b: differences of log-beta lose digits for large a and b.
        steps = np.arange(len(names))
        scale = np.logaddexp(np.log(self.a), np.log(self.b))
        rising_a = np.concatenate([[0.0], np.cumsum(np.log(self.a + steps) - scale)])
        rising_b = np.concatenate([[0.0], np.cumsum(np.log(self.b + steps) - scale)])
        total = np.sum(np.logaddexp(np.log(self.a), np.log(self.b + steps)) - scale)
        name = f"beta-binomial({self.a:g}, {self.b:g}) over subsets"
        return Stated(name, rising_a + rising_b[::-1] - total, np.full(steps.size, 0.5))


_ONE_OR_EACH = "inclusion probabilities must be one number, one per feature, or {feature name: probability}"


@dataclass(frozen=True)
class InclusionPrior(Prior):
    """Features enter independently, each with its own probability; 0 never and 1 always.

    probabilities : one number for all features, one per feature in their order, or {feature name: probability} (also a
        Series indexed by name), where features not named get 0.5. All features of the data as given count, also those
        that are then dropped because they are constant or screened out. With `max_size` these are the probabilities
        before truncation.
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

    def stated(self, names: tuple[str, ...]) -> Stated:
        values = self._values(names)
        distinct = [f"{value:g}" for value in np.unique(values)]
        name = f"independent inclusion (probability {' to '.join(distinct[:1] + distinct[1:][-1:])})"
        return Stated(name, np.zeros(len(names) + 1), values)

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
        """(p,) the probability of each feature"""
        given: Any = self.probabilities
        if isinstance(given, Mapping):
            for name in sorted(given.keys() - set(names)):
                raise SettingError(f"inclusion probability for unknown feature {name!r}; {nearest(name, names)}")
            return np.array([given.get(name, 0.5) for name in names], dtype=np.float64)
        if isinstance(given, float):
            return np.full(len(names), given)
        if len(given) != len(names):
            raise SettingError(f"{_ONE_OR_EACH}; got {len(given)} for {len(names)} features: {quoted(names)}")
        pairs = zip(names, given, strict=True)
        return np.array([_as_probability(q, f"feature {name!r}") for name, q in pairs], dtype=np.float64)


def _as_float(value: Any, label: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise SettingError(f"{label} must be a number, got {value!r}") from None


def _as_probability(value: Any, label: str) -> float:
    number = _as_float(value, f"inclusion probability of {label}")
    if not 0.0 <= number <= 1.0:
        raise SettingError(f"inclusion probability of {label} must be between 0 and 1, got {number:g}")
    return number


PRIORS = Registry(
    {
        "uniform": Member("priors.priors:UniformPrior", "over all subsets"),
        "beta-binomial": Member(
            "priors.priors:BetaBinomialPrior", "over sizes", ("beta-binomial", "beta-binomial(A,B)")
        ),
        "inclusion": Member("priors.priors:InclusionPrior", "of each feature alone", ("inclusion(Q)",)),
    }
)
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"


def parse_prior(text: str, max_size: int | None) -> Prior:
    """The prior that a text names: one of `PRIORS.forms`, with a number for each capital letter."""
    found = re.fullmatch(rf"([a-z-]+)\s*(?:\(\s*({_NUMBER}(?:\s*,\s*{_NUMBER})*)\s*\))?", text.strip().lower())
    if found is not None:
        values = [float(number) for number in (found[2] or "").split(",") if number]
        shapes = [(form.partition("(")[0], len(re.findall("[A-Z]", form))) for form in PRIORS.forms]
        if (found[1], len(values)) in shapes:
            prior: Prior = PRIORS[found[1]](*values, max_size=max_size)
            return prior
    raise SettingError(f"cannot read the prior {text!r}: use {', '.join(PRIORS.forms)}, with numbers for letters.")


def as_prior(given: str | Prior | None) -> Prior:
    """The prior that is given or that a text names; None is uniform over all subsets."""
    if given is None:
        return UniformPrior()
    if isinstance(given, str):
        return parse_prior(given, None)
    if not isinstance(given, Prior):
        raise SettingError(f"prior={given!r} is not a prior: use UniformPrior() or {', '.join(PRIORS.forms)}.")
    return given
