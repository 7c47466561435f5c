"""Priors over subsets of features.

Every prior here has the form

    log p(z) = sum_j z_j * log_odds_j + log_size_weight[|z|] - log_normalizer

over the subsets z that contain every forced feature, no excluded one, and at most `max_size` features in all
(forced ones count). All of them are normalised over that support.

`UniformPrior`, `InclusionPrior` and `BetaBinomialPrior` say what is believed; `bind` ties one of them to the
features at hand and gives a `BoundPrior`, which computes.
"""

from __future__ import annotations

import math
import numbers
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .checks import closest

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

_BLOCK_VALUES = 1 << 22
_ONE_OR_EACH = "inclusion probabilities must be one number, one per feature, or {feature name: probability}"
PRIOR_FORMS = "uniform, beta-binomial, beta-binomial(A,B), inclusion(Q)"


@dataclass(frozen=True, eq=False)
class BoundPrior:
    """A prior tied to p named features. Made by `Prior.bind`.

    feature_names: the p names. max_size: largest |z|, at most p.
    log_odds: (p,) finite; 0 where a feature is forced in or out.
    log_size_weight: (p + 1,) indexed by |z|, -inf beyond max_size.
    forced_in, forced_out: (p,) bool. name: one line for people.
    log_normalizer: log of the sum of the unnormalised weights, derived from the rest.
    """

    feature_names: tuple[str, ...]
    max_size: int
    log_odds: FloatArray
    log_size_weight: FloatArray
    forced_in: BoolArray
    forced_out: BoolArray
    name: str
    log_normalizer: float = field(init=False)

    def __post_init__(self) -> None:
        for array in (self.log_odds, self.log_size_weight, self.forced_in, self.forced_out):
            array.setflags(write=False)
        if self._independent:
            total = self._weights[0] - np.sum(self._log_chances[1])
        else:
            total = np.logaddexp.reduce(self._log_size_mass)
        object.__setattr__(self, "log_normalizer", float(total))

    @cached_property
    def free(self) -> NDArray[np.intp]:
        """Indices of the features that are neither forced in nor forced out."""
        return np.flatnonzero(~(self.forced_in | self.forced_out))

    @cached_property
    def _n_forced(self) -> int:
        return int(np.count_nonzero(self.forced_in))

    @cached_property
    def _weights(self) -> FloatArray:
        """log_size_weight by the number of free features in the subset, 0..t: (t + 1,)."""
        most = min(self.max_size - self._n_forced, self.free.size)
        return self.log_size_weight[self._n_forced : self._n_forced + most + 1]

    @cached_property
    def _log_chances(self) -> tuple[FloatArray, FloatArray]:
        """Log probabilities of in and of out before any size weight, one per free feature."""
        odds = self.log_odds[self.free]
        return -np.logaddexp(0.0, -odds), -np.logaddexp(0.0, odds)

    @cached_property
    def _exchangeable(self) -> bool:
        """Subsets of one size are equally probable."""
        return np.unique(self.log_odds[self.free]).size <= 1

    @cached_property
    def _independent(self) -> bool:
        """No truncation and no size weight: the free features are independent."""
        return self._weights.size == self.free.size + 1 and bool(np.all(self._weights == self._weights[0]))

    @cached_property
    def _log_size_mass(self) -> FloatArray:
        """Unnormalised log mass of each number of free features, (t + 1,)."""
        counts = np.arange(self._weights.size)
        if self._exchangeable:
            # Exact integers: the logarithm of each binomial coefficient is right to the last digit.
            logs = [math.log(c) for c in _binomials(self.free.size, counts.size - 1)]
            return np.array(logs) + self.log_odds[self.free[:1]].sum() * counts + self._weights
        log_in, log_out = self._log_chances
        mass = np.where(counts == 0, 0.0, -np.inf)
        for j in range(self.free.size):
            _add_feature(mass, j, log_in[j], log_out[j])
        return mass - np.sum(log_out) + self._weights

    def _remaining_mass(self) -> FloatArray:
        """Table T of shape (f + 1, t + 2) over the f free features, in log space.

        T[j, k] is the expected size weight when k of the first j free features are in and the others are
        drawn independently by their odds; the last column (too many) is -inf.
        """
        log_in, log_out = self._log_chances
        table = np.full((self.free.size + 1, self._weights.size + 1), -np.inf)
        table[-1, :-1] = self._weights
        for j in range(self.free.size - 1, -1, -1):
            after = table[j + 1]
            table[j, :-1] = np.logaddexp(log_out[j] + after[:-1], log_in[j] + after[1:])
        return table

    def log_prob(self, masks: ArrayLike) -> FloatArray:
        """Normalised log prior probability of each subset; -inf outside the support.

        masks: (S, p) boolean (or 0/1), or one subset (p,). Returns (S,).
        """
        rows, p = np.atleast_2d(np.asarray(masks)), len(self.feature_names)
        if rows.ndim != 2 or rows.shape[1] != p:
            raise ValueError(f"masks must have shape (S, {p}), one column per feature; got {np.shape(masks)}")
        if rows.dtype != np.bool_ and not np.isin(rows, (0, 1)).all():
            raise ValueError("masks must be boolean (or 0 and 1): True where a feature is in the subset")
        rows = rows.astype(np.bool_, copy=False)
        sizes = np.count_nonzero(rows, axis=1)
        result = self.log_size_weight[sizes] - self.log_normalizer
        if self._exchangeable:
            result += self.log_odds[self.free[:1]].sum() * (sizes - self._n_forced)
        else:
            step = max(1, _BLOCK_VALUES // p)
            for start in range(0, len(rows), step):
                result[start : start + step] += rows[start : start + step] @ self.log_odds
        np.minimum(result, 0.0, out=result)  # rounding must not make a probability exceed one
        result[rows[:, self.forced_out].any(axis=1) | ~rows[:, self.forced_in].all(axis=1)] = -np.inf
        return result

    def sample(self, n: int, rng: np.random.Generator) -> BoolArray:
        """n independent exact draws, (n, p) bool.

        Unequal odds with a size limit need a table of (p + 1) x (max_size + 2) floats while drawing.
        """
        result = np.zeros((n, len(self.feature_names)), dtype=np.bool_)
        result[:, self.forced_in] = True
        log_in, _ = self._log_chances
        if self._exchangeable:
            chances = np.exp(self._log_size_mass - self.log_normalizer)
            sizes = rng.choice(chances.size, size=n, p=chances / chances.sum())
            drawn = np.arange(self.free.size) < sizes[:, np.newaxis]
            result[:, self.free] = rng.permuted(drawn, axis=1, out=drawn)
        elif self._independent:
            for j, feature in enumerate(self.free):
                result[:, feature] = rng.random(n) < np.exp(log_in[j])
        else:
            table = self._remaining_mass()
            held = np.zeros(n, dtype=np.intp)
            for j, feature in enumerate(self.free):
                chance = np.exp(log_in[j] + table[j + 1, held + 1] - table[j, held])
                result[:, feature] = rng.random(n) < chance
                held += result[:, feature]
        return result

    def support_size(self) -> int:
        """The exact number of subsets with positive probability."""
        return sum(_binomials(self.free.size, self._weights.size - 1))

    def size_distribution(self) -> FloatArray:
        """Prior probability of each size |z| = 0..p, (p + 1,)."""
        result = np.zeros(len(self.feature_names) + 1)
        mass = self._log_size_mass
        result[self._n_forced : self._n_forced + mass.size] = np.exp(mass - self.log_normalizer)
        return result

    def inclusion_probabilities(self) -> FloatArray:
        """Prior probability that each feature is in the subset, (p,).

        Under truncation these are the probabilities after it, so smaller than those an `InclusionPrior` was
        given. Unequal odds with a size limit need the same table as `sample`.
        """
        result = self.forced_in.astype(np.float64)
        log_in, log_out = self._log_chances
        if self._independent:
            result[self.free] = np.exp(log_in)
        elif self._exchangeable:
            chances = np.exp(self._log_size_mass - self.log_normalizer)
            result[self.free] = chances @ np.arange(chances.size) / self.free.size
        else:
            table = self._remaining_mass()
            before = np.where(np.arange(self._weights.size) == 0, 0.0, -np.inf)
            for j, feature in enumerate(self.free):
                result[feature] = np.exp(before + log_in[j] + table[j + 1, 1:] - table[0, 0]).sum()
                _add_feature(before, j, log_in[j], log_out[j])
        return np.minimum(result, 1.0)


class Prior(ABC):
    """What is believed about the subset before seeing data, for features not yet known."""

    max_size: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_size", _check_max_size(self.max_size))

    def bind(self, feature_names: Sequence[str] | int, largest_size: int | None = None) -> BoundPrior:
        """Tie the prior to its features.

        feature_names: the names, or a number p for features called x0, ..., x{p-1}.
        largest_size: the size limit when the prior has none of its own (None: no limit). A limit above p
        gives the same support as p and is stored as p.
        """
        if isinstance(feature_names, int | np.integer):
            feature_names = [f"x{j}" for j in range(feature_names)]
        names = tuple(str(name) for name in feature_names)
        limit = _check_max_size(largest_size, "largest_size") if self.max_size is None else self.max_size
        return self._build(names, len(names) if limit is None else min(limit, len(names)))

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
    {feature name: probability} (also a Series indexed by name), where features not named get 0.5.
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
        values = self._values(names)
        always = [name for name, value in zip(names, values, strict=True) if value == 1.0]
        if len(always) > max_size:
            limit = "the largest size the data allow" if self.max_size is None else "max_size"
            raise ValueError(
                f"{len(always)} features have inclusion probability 1 but {limit} is {max_size}; "
                f"raise the limit or lower some of these probabilities: {_listed(always)}"
            )
        distinct = [f"{value:g}" for value in np.unique(values)]
        what = f"independent inclusion (probability {' to '.join(distinct[:1] + distinct[1:][-1:])})"
        return _bound(names, max_size, np.zeros(len(names) + 1), values, what)

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
            raise ValueError(f"{_ONE_OR_EACH}; got {len(given)} for {len(names)} features")
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


def _add_feature(mass: FloatArray, j: int, log_in: float, log_out: float) -> None:
    """Extend, in place, the log size distribution of the first j features by one more."""
    top = min(j + 1, mass.size - 1)
    mass[1 : top + 1] = np.logaddexp(mass[1 : top + 1] + log_out, mass[:top] + log_in)
    mass[0] += log_out


def _binomials(n: int, most: int) -> Iterator[int]:
    """C(n, 0), ..., C(n, most) as exact integers."""
    value = 1
    for k in range(most + 1):
        yield value
        value = value * (n - k) // (k + 1)


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
