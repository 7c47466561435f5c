"""What priors over subsets share: `Prior`, stated without data, and `BoundPrior`, which computes."""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._tools.arrays import Floats, Mask
from ..data.checks import quoted, warn
from ..data.features import as_masks
from ..exceptions import SettingError


@dataclass(frozen=True, eq=False)
class PriorTerms:
    """log p(z) over f free features: constant + Σ log_odds_j z_j + log_size_weight[|z|], |z| <= max_size."""

    log_odds: Floats
    log_size_weight: Floats
    max_size: int
    constant: float

    @classmethod
    def flat(cls, n_features: int, max_size: int) -> PriorTerms:
        """Weight 1 for every subset of at most max_size features."""
        sizes = np.where(np.arange(n_features + 1) <= max_size, 0.0, -np.inf)
        return cls(np.zeros(n_features), sizes, max_size, 0.0)

    def log_prior(self, draws: Mask) -> Floats:
        """(S,) of draws (S, f) over the free features; -inf for draws that are too large"""
        from ..kernels.dispatch import sizes, sums_over_members

        weight = np.append(self.log_size_weight, -np.inf)[np.minimum(sizes(draws), len(self.log_size_weight))]
        return (sums_over_members(draws, self.log_odds) if self.log_odds.any() else 0.0) + weight + self.constant


@dataclass(frozen=True, eq=False)
class BoundPrior:
    """A prior tied to p named features. Made by `Prior.bind`.

    log_odds : (p,) finite; 0 where a feature is forced in or out
    log_size_weight : (p + 1,) by |z|, -inf beyond max_size;  forced_in, forced_out : (p,)
    original_features : the features the prior was stated about; those not in feature_names were dropped
    log_normalizer : log of the sum of the unnormalised weights
    """

    feature_names: tuple[str, ...]
    max_size: int
    log_odds: Floats
    log_size_weight: Floats
    forced_in: Mask
    forced_out: Mask
    name: str
    original_features: tuple[str, ...] = ()
    log_normalizer: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "original_features", self.original_features or self.feature_names)
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
    def forced(self) -> NDArray[np.intp]:
        """Indices of the features that every subset holds."""
        return np.flatnonzero(self.forced_in)

    @cached_property
    def terms(self) -> PriorTerms:
        """The prior over the free features alone."""
        n_forced, n_free = len(self.forced), len(self.free)
        return PriorTerms(
            log_odds=self.log_odds[self.free],
            log_size_weight=self.log_size_weight[n_forced : n_forced + n_free + 1].copy(),
            max_size=min(self.max_size - n_forced, n_free),
            constant=-self.log_normalizer,
        )

    @cached_property
    def kept(self) -> NDArray[np.intp]:
        """(p,) positions of the features among the original ones."""
        position = {name: j for j, name in enumerate(self.original_features)}
        return np.array([position[name] for name in self.feature_names], dtype=np.intp)

    @cached_property
    def _weights(self) -> Floats:
        """log_size_weight by the number of free features in the subset, 0..t: (t + 1,)."""
        n_forced = len(self.forced)
        return self.log_size_weight[n_forced : n_forced + min(self.max_size - n_forced, self.free.size) + 1]

    @cached_property
    def _log_chances(self) -> tuple[Floats, Floats]:
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
    def _log_size_mass(self) -> Floats:
        """Unnormalised log mass of each number of free features, (t + 1,)."""
        counts = np.arange(self._weights.size)
        if self._exchangeable:
            # Exact integers: the logarithm of each binomial coefficient is right to the last digit.
            logs = [math.log(c) for c in _binomials(self.free.size, counts.size - 1)]
            return np.array(logs) + self.log_odds[self.free[:1]].sum() * counts + self._weights
        from ..kernels.subset_sums import add_features

        log_in, log_out = self._log_chances
        mass = np.where(counts == 0, 0.0, -np.inf)
        add_features(mass, log_in, log_out)
        return mass - np.sum(log_out) + self._weights

    @property
    def _size_chances(self) -> Floats:
        return np.exp(self._log_size_mass - self.log_normalizer)

    def _remaining_mass(self) -> Floats:
        """Table (f + 1, t + 2) in log space: [j, k] is the expected size weight when k of the first j free features are
        in and the others are drawn independently by their odds; the last column (too many) is -inf."""
        from ..kernels.subset_sums import fill_remaining

        table = np.full((self.free.size + 1, self._weights.size + 1), -np.inf)
        table[-1, :-1] = self._weights
        fill_remaining(table, *self._log_chances)
        return table

    def log_prob(self, masks: ArrayLike) -> Floats:
        """(S,) normalised log prior of subsets (S, p), or of one (p,); -inf outside the support."""
        from ..kernels.dispatch import sizes, sums_over_members

        rows = np.ascontiguousarray(as_masks(masks, len(self.feature_names)))
        size = sizes(rows)
        result = self.log_size_weight[size] - self.log_normalizer
        if self._exchangeable:
            result += self.log_odds[self.free[:1]].sum() * (size - len(self.forced))
        else:
            result += sums_over_members(rows, self.log_odds)
        np.minimum(result, 0.0, out=result)  # rounding must not make a probability exceed one
        result[rows[:, self.forced_out].any(axis=1) | ~rows[:, self.forced_in].all(axis=1)] = -np.inf
        return result

    def sample(self, n: int, rng: np.random.Generator) -> Mask:
        """(n, p) independent exact draws"""
        result = np.zeros((n, len(self.feature_names)), dtype=np.bool_)
        result[:, self.forced_in] = True
        log_in, _ = self._log_chances
        if self._exchangeable:
            chances = self._size_chances
            sizes = rng.choice(chances.size, size=n, p=chances / chances.sum())
            drawn = np.arange(self.free.size) < sizes[:, np.newaxis]
            result[:, self.free] = rng.permuted(drawn, axis=1, out=drawn)
        elif self._independent:
            for j, feature in enumerate(self.free):
                result[:, feature] = rng.random(n) < np.exp(log_in[j])
        else:
            from ..kernels.subset_sums import draw_from

            drawn = np.empty((n, self.free.size), dtype=np.bool_)
            draw_from(self._remaining_mass(), log_in, rng.random((self.free.size, n)), drawn)
            result[:, self.free] = drawn
        return result

    def support_size(self) -> int:
        """The exact number of subsets with positive probability."""
        return sum(_binomials(self.free.size, self._weights.size - 1))

    def size_distribution(self) -> Floats:
        """(p + 1,) prior probability of each size |z|"""
        result = np.zeros(len(self.feature_names) + 1)
        chances = self._size_chances
        result[len(self.forced) : len(self.forced) + chances.size] = chances
        return result

    def inclusion_probabilities(self) -> Floats:
        """(p,) prior probability that each feature is in the subset, after truncation"""
        result = self.forced_in.astype(np.float64)
        log_in, log_out = self._log_chances
        if self._independent:
            result[self.free] = np.exp(log_in)
        elif self._exchangeable:
            chances = self._size_chances
            result[self.free] = chances @ np.arange(chances.size) / self.free.size
        else:
            from ..kernels.subset_sums import inclusion_from

            free = np.empty(self.free.size)
            inclusion_from(self._remaining_mass(), log_in, log_out, free)
            result[self.free] = free
        return np.minimum(result, 1.0)


def _binomials(n: int, most: int) -> Iterator[int]:
    """C(n, 0), ..., C(n, most) as exact integers."""
    value = 1
    for k in range(most + 1):
        yield value
        value = value * (n - k) // (k + 1)


class Stated(NamedTuple):
    """p(z) ∝ exp(log_size_weight[|z|]) · Π_j odds of inclusion_j, before truncation: (p + 1,) and (p,)."""

    name: str
    log_size_weight: Floats
    inclusion: Floats


class Prior(ABC):
    """What is believed about the subset before seeing data, for features not yet known. max_size : largest |z|"""

    max_size: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_size", _check_max_size(self.max_size))

    @abstractmethod
    def stated(self, names: tuple[str, ...]) -> Stated:
        """The prior over subsets of these features, of any size."""

    def bind(
        self,
        feature_names: Sequence[str] | int,
        largest_size: int | None = None,
        original_features: Sequence[str] | None = None,
    ) -> BoundPrior:
        """Tie the prior to its features.

        feature_names : the names, or a number p for features called x0, ..., x{p-1}
        largest_size : the size limit when the prior has none of its own (None: no limit)
        original_features : all features that the prior was stated about, where some of them were dropped since
        """
        if isinstance(feature_names, int | np.integer):
            feature_names = [f"x{j}" for j in range(feature_names)]
        names = tuple(str(name) for name in feature_names)
        original = names if original_features is None else tuple(str(name) for name in original_features)
        prior = self
        if original != names:
            lost = set(self.forced(original)) - set(names)
            if lost:
                warn(f"the prior includes {quoted(sorted(lost))} for certain, but the data dropped it: it is left out")
            prior = self._restricted(original, names)
        name, weights, q = prior.stated(names)
        limit = _check_max_size(largest_size, "largest_size") if self.max_size is None else self.max_size
        max_size = len(names) if limit is None else min(limit, len(names))
        if (q == 1.0).sum() > max_size:
            always = [feature for feature, value in zip(names, q, strict=True) if value == 1.0]
            raise SettingError(
                f"{len(always)} features have inclusion probability 1, and subsets hold at most {max_size}: raise the "
                f"limit, or lower probabilities of {quoted(always)}."
            )
        soft = (q > 0.0) & (q < 1.0)
        log_odds = np.zeros(q.size)
        log_odds[soft] = np.log(q[soft]) - np.log1p(-q[soft])
        weights[max_size + 1 :] = -np.inf
        name = f"{name} of {'' if max_size == q.size else f'at most {max_size} of '}{q.size} features"
        return BoundPrior(names, max_size, log_odds, weights, q == 1.0, q == 0.0, name, original)

    def forced(self, features: Sequence[str]) -> tuple[str, ...]:
        """Those of the features it was stated about that every subset holds."""
        return ()

    def limited_to(self, max_size: int) -> Prior:
        """The same prior over subsets of at most so many features."""
        return replace(self, max_size=max_size)  # type: ignore[type-var]

    def with_outcome(self, name: str) -> Prior:
        """The same prior where one of the features it was stated about is the outcome."""
        return self

    def _restricted(self, original: tuple[str, ...], names: tuple[str, ...]) -> Prior:
        """The same prior about some of the features that it was stated about."""
        return self


def _check_max_size(value: object, label: str = "max_size") -> int | None:
    if value is None:
        return None
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 0:
        raise SettingError(f"{label} must be None or a whole number of features, 0 or more; got {value!r}")
    return int(value)
