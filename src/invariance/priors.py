"""Priors over subsets of features: stated without data; `bind` ties one to the features at hand."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._tools.arrays import Floats, Integers, Mask, Names, Rng
from .data.checks import answers_papers_words, nearest, quoted, warn
from .data.features import as_masks
from .exceptions import SettingError
from .kernels.subset_sums import (
    draw_from,
    fill_remaining,
    inclusion_from,
    sizes,
    sums_over_members,
)
from .models.base import check_number, check_whole_number


@dataclass(frozen=True, eq=False)
class BoundPrior:
    """A prior tied to p named features: log p(z) = Σ log_odds_j z_j + log_size_weight[|z|] −
    log_normalizer.

    log_odds : (p,) finite; 0 where a feature is forced in or out
    log_size_weight : (p + 1,) by |z|, -inf beyond max_size;  forced_in, forced_out : (p,)
    original_features : the features the prior was stated about; those not in feature_names were
        dropped
    """

    feature_names: Names
    max_size: int
    log_odds: Floats
    log_size_weight: Floats
    forced_in: Mask
    forced_out: Mask
    name: str
    original_features: Names = ()
    log_normalizer: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "original_features", self.original_features or self.feature_names)
        for array in (self.log_odds, self.log_size_weight, self.forced_in, self.forced_out):
            array.setflags(write=False)
        if self._independent:
            total = self._weights[0] - np.sum(self._log_chances[1])
        elif self._exchangeable:
            total = np.logaddexp.reduce(self._log_size_mass)
        else:
            total = self._remaining_mass[0, 0] - np.sum(self._log_chances[1])
        object.__setattr__(self, "log_normalizer", float(total))

    @cached_property
    def free(self) -> NDArray[np.intp]:
        """(f,) features that are neither forced in nor forced out"""
        return np.flatnonzero(~(self.forced_in | self.forced_out))

    @cached_property
    def forced(self) -> NDArray[np.intp]:
        """(k,) features that every subset holds"""
        return np.flatnonzero(self.forced_in)

    @cached_property
    def over_free(self) -> BoundPrior:
        """The same over draws of the free features alone."""
        return self.over(self.free)

    def over(self, free: Integers) -> BoundPrior:
        """The same over draws of the free features alone, in this order."""
        n_forced = len(self.forced)
        f = len(free)
        none = np.zeros(len(free), dtype=bool)
        names = tuple(self.feature_names[j] for j in free)
        by_size = self.log_size_weight[n_forced : n_forced + f + 1]
        most = min(self.max_size - n_forced, f)
        return BoundPrior(names, most, self.log_odds[free], by_size.copy(), none, none, self.name)

    @cached_property
    def _weights(self) -> Floats:
        """log_size_weight by the number of free features in the subset, 0..t: (t + 1,)."""
        n_forced = len(self.forced)
        return self.log_size_weight[
            n_forced : n_forced + min(self.max_size - n_forced, self.free.size) + 1
        ]

    @cached_property
    def _log_chances(self) -> tuple[Floats, Floats]:
        """(f,) each: log probabilities of in and of out, before any size weight"""
        odds = self.log_odds[self.free]
        return -np.logaddexp(0.0, -odds), -np.logaddexp(0.0, odds)

    @cached_property
    def _exchangeable(self) -> bool:
        return np.unique(self.log_odds[self.free]).size <= 1

    @cached_property
    def _independent(self) -> bool:
        """No truncation and no size weight: the free features are independent."""
        return self._weights.size == self.free.size + 1 and bool(
            np.all(self._weights == self._weights[0])
        )

    @cached_property
    def _log_size_mass(self) -> Floats:
        """Unnormalised log mass of each number of free features that are exchangeable, (t + 1,)."""
        counts = np.arange(self._weights.size)
        # Exact integers: the logarithm of each binomial coefficient is right to the last digit.
        logs = [math.log(c) for c in _binomials(self.free.size, counts.size - 1)]
        return np.array(logs) + self.log_odds[self.free[:1]].sum() * counts + self._weights

    @cached_property
    def _remaining_mass(self) -> Floats:
        """Table (f + 1, t + 2) in log space: [j, k] is the expected size weight when k of the first
        j free features are in and the others are drawn independently by their odds; the last column
        (too many) is -inf."""
        table = np.full((self.free.size + 1, self._weights.size + 1), -np.inf)
        table[-1, :-1] = self._weights
        fill_remaining(table, *self._log_chances)
        return table

    def log_prob(self, masks: ArrayLike) -> Floats:
        """(S,) normalised log prior of subsets (S, p), or of one (p,); -inf outside the support."""
        rows = np.ascontiguousarray(as_masks(masks, len(self.feature_names)))
        size = sizes(rows)
        result = self.log_size_weight[size] - self.log_normalizer
        if self._exchangeable:
            result += self.log_odds[self.free[:1]].sum() * (size - len(self.forced))
        else:
            of_members = np.empty(len(rows))
            sums_over_members(rows, self.log_odds, of_members)
            result += of_members
        np.minimum(result, 0.0, out=result)  # rounding must not make a probability exceed one
        result[
            rows[:, self.forced_out].any(axis=1) | ~rows[:, self.forced_in].all(axis=1)
        ] = -np.inf
        return result

    def sample(self, n: int, rng: Rng) -> Mask:
        """(n, p) independent exact draws"""
        result = np.zeros((n, len(self.feature_names)), dtype=np.bool_)
        result[:, self.forced_in] = True
        log_in, _ = self._log_chances
        if self._exchangeable:
            chances = np.exp(self._log_size_mass - self.log_normalizer)
            held = rng.choice(chances.size, size=n, p=chances / chances.sum())
            drawn = np.arange(self.free.size) < held[:, np.newaxis]
            result[:, self.free] = rng.permuted(drawn, axis=1, out=drawn)
        elif self._independent:
            for j, feature in enumerate(self.free):
                result[:, feature] = rng.random(n) < np.exp(log_in[j])
        else:
            drawn = np.empty((n, self.free.size), dtype=bool)
            draw_from(self._remaining_mass, log_in, rng.random((self.free.size, n)), drawn)
            result[:, self.free] = drawn
        return result

    def support_size(self) -> int:
        """The exact number of subsets with positive probability."""
        return sum(_binomials(self.free.size, self._weights.size - 1))

    def inclusion_probabilities(self) -> Floats:
        """(p,) prior probability that each feature is in the subset, after truncation"""
        result = self.forced_in.astype(np.float64)
        log_in, log_out = self._log_chances
        if self._independent:
            result[self.free] = np.exp(log_in)
        elif self._exchangeable:
            chances = np.exp(self._log_size_mass - self.log_normalizer)
            result[self.free] = chances @ np.arange(chances.size) / self.free.size
        else:
            inclusion = np.empty(self.free.size)
            # Log distribution of the size before any feature is drawn: 0 for certain
            of_none = np.append(0.0, np.full(self._weights.size - 1, -np.inf))
            inclusion_from(self._remaining_mass, log_in, log_out, of_none, inclusion)
            result[self.free] = inclusion
        return np.minimum(result, 1.0)


def _binomials(n: int, most: int) -> Iterator[int]:
    """C(n, 0), ..., C(n, most) as exact integers."""
    value = 1
    for k in range(most + 1):
        yield value
        value = value * (n - k) // (k + 1)


class Prior(ABC):
    """What is believed about the subset before seeing data, for features not yet known. max_size :
    largest |z|

    p(z) ∝ exp(log_size_weight[|z|]) · Π_j odds of inclusion_j, truncated at max_size
    """

    max_size: int | None

    def __post_init__(self) -> None:
        if self.max_size is not None:
            check_whole_number(self, "max_size", 0, 10)

    @abstractmethod
    def describe(self, inclusion: Floats) -> str:
        """The prior in words, with probabilities (p,) as `inclusion` has them."""

    def inclusion(self, features: Sequence[str]) -> Floats:
        """(p,) probability of each of the features, before truncation"""
        return np.full(len(features), 0.5)

    def log_size_weight(self, p: int) -> Floats:
        """(p + 1,) by |z|"""
        return np.zeros(p + 1)

    def forced(self, features: Sequence[str]) -> Names:
        """Those of the features that every subset holds."""
        return tuple(
            name
            for name, value in zip(features, self.inclusion(features), strict=True)
            if value == 1.0
        )

    def bind(
        self,
        feature_names: Sequence[str] | int,
        largest_size: int | None = None,
        original_features: Sequence[str] | None = None,
    ) -> BoundPrior:
        """Tie the prior to its features.

        feature_names : the names, or a number p for features called x0, ..., x{p-1}
        largest_size : the size limit when the prior has none of its own (None: no limit)
        original_features : all features that the prior was stated about, where some of them were
            dropped since
        """
        if isinstance(feature_names, int | np.integer):
            feature_names = [f"x{j}" for j in range(feature_names)]
        names = tuple(map(str, feature_names))
        original = names if original_features is None else tuple(map(str, original_features))
        always = self.forced(original)
        lost = set(always) - set(names)
        if lost:
            warn(
                f"the prior includes {quoted(sorted(lost))} for certain, but the data dropped it: "
                "it is left out"
            )
        limit = largest_size if self.max_size is None else self.max_size
        max_size = len(names) if limit is None else min(int(limit), len(names))
        if len(always) - len(lost) > max_size:
            forced = f"{len(always)} features have inclusion probability 1 ({quoted(always)})"
            raise SettingError(f"{forced}, and subsets hold at most {max_size}: raise the limit.")
        stated = dict(zip(original, self.inclusion(original).tolist(), strict=True))
        q = np.array([stated[name] for name in names])
        soft = (q > 0.0) & (q < 1.0)
        log_odds = np.zeros(q.size)
        weights = self.log_size_weight(q.size)
        log_odds[soft] = np.log(q[soft]) - np.log1p(-q[soft])
        weights[max_size + 1 :] = -np.inf
        name = (
            f"{self.describe(q)} of "
            f"{'' if max_size == q.size else f'at most {max_size} of '}{q.size} features"
        )
        return BoundPrior(names, max_size, log_odds, weights, q == 1.0, q == 0.0, name, original)

    def limited_to(self, max_size: int) -> Prior:
        """The same prior over subsets of at most so many features."""
        return replace(self, max_size=max_size)  # type: ignore[type-var]

    def with_outcome(self, name: str) -> Prior:
        """The same prior where one of the features it was stated about is the outcome."""
        return self


@answers_papers_words
@dataclass(frozen=True)
class UniformPrior(Prior):
    """Every subset of at most `max_size` features is equally probable (None: no limit)."""

    max_size: int | None = None

    def describe(self, inclusion: Floats) -> str:
        return "uniform over subsets"


@answers_papers_words
@dataclass(frozen=True)
class BetaBinomialPrior(Prior):
    """A common inclusion probability drawn from Beta(a, b): p(z) = B(a + |z|, b + p - |z|) / B(a,
    b).

    With a = b = 1 all sizes are equally probable, which corrects for the number of subsets of each
    size. Truncated at `max_size` (None: no limit) and renormalised.
    """

    a: float = 1.0
    b: float = 1.0
    max_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("a", "b"):
            check_number(self, name, "parameter of a beta distribution", positive=True)
            object.__setattr__(self, name, float(getattr(self, name)))

    def describe(self, inclusion: Floats) -> str:
        return f"beta-binomial({self.a:g}, {self.b:g}) over subsets"

    def log_size_weight(self, p: int) -> Floats:
        # Rising factorials over powers of a + b: differences of log-beta lose digits for large a
        # and b.
        steps = np.arange(p)
        scale = np.logaddexp(np.log(self.a), np.log(self.b))
        rising_a, rising_b = (
            np.append(0.0, np.cumsum(np.log(c + steps) - scale)) for c in (self.a, self.b)
        )
        total = np.sum(np.logaddexp(np.log(self.a), np.log(self.b + steps)) - scale)
        return np.asarray(rising_a + rising_b[::-1] - total)


@answers_papers_words
@dataclass(frozen=True)
class InclusionPrior(Prior):
    """Features enter independently, each with its own probability; 0 never and 1 always.

    probabilities : before truncation; one number for all features, one per feature in their order,
        or {feature name: probability} (also a Series indexed by name), where features not named get
        0.5. All features of the data as given count, also those that are then dropped.
    """

    probabilities: ArrayLike | Mapping[str, float]
    max_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.probabilities
        if hasattr(given, "to_dict") and all(isinstance(label, str) for label in given.index):
            given = given.to_dict()
        if isinstance(given, Mapping):
            given = {str(name): _as_probability(value, repr(name)) for name, value in given.items()}
        elif np.ndim(given) == 1:
            given = tuple(
                _as_probability(value, j + 1) for j, value in enumerate(np.asarray(given).tolist())
            )
        else:
            given = _as_probability(given, "'all'")
        object.__setattr__(self, "probabilities", given)

    def describe(self, inclusion: Floats) -> str:
        distinct = [f"{value:g}" for value in np.unique(inclusion)]
        return (
            f"independent inclusion (probability {' to '.join(distinct[:1] + distinct[1:][-1:])})"
        )

    def inclusion(self, features: Sequence[str]) -> Floats:
        given: Any = self.probabilities
        if isinstance(given, Mapping):
            for name in sorted(given.keys() - set(features)):
                raise SettingError(
                    f"inclusion probability for unknown feature {name!r}; {nearest(name, features)}"
                )
            return np.array([given.get(name, 0.5) for name in features], dtype=np.float64)
        if isinstance(given, tuple) and len(given) != len(features):
            raise SettingError(
                f"{len(given)} inclusion probabilities for {len(features)} features: "
                f"{quoted(features)}"
            )
        return np.full(len(features), given, dtype=np.float64)

    def with_outcome(self, name: str) -> InclusionPrior:
        if not isinstance(self.probabilities, Mapping):
            return self
        others = {
            feature: value for feature, value in self.probabilities.items() if feature != name
        }
        return InclusionPrior(others, self.max_size)


def _as_probability(value: Any, feature: object) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 <= number <= 1.0:
        raise SettingError(
            f"inclusion probability of feature {feature} must be between 0 and 1, got {value!r}"
        )
    return number


PRIORS = {"uniform": UniformPrior, "beta-binomial": BetaBinomialPrior, "inclusion": InclusionPrior}
# How they are typed, a number for each capital letter.
PRIOR_FORMS = ("uniform", "beta-binomial", "beta-binomial(A,B)", "inclusion(Q)")


def parse_prior(text: str, max_size: int | None) -> Prior:
    """The prior that a text names: one of `PRIOR_FORMS`, with a number for each capital letter."""
    call = re.fullmatch(r"([a-z-]+)\s*(?:\(([^()]*)\))?", text.strip().lower())
    name, numbers = call.groups() if call else ("", None)
    values: list[float] | None = None
    with suppress(ValueError):
        values = [] if numbers is None else [float(number) for number in numbers.split(",")]
    shapes = [(form.partition("(")[0], len(re.findall("[A-Z]", form))) for form in PRIOR_FORMS]
    if values is not None and (name, len(values)) in shapes:
        prior: Prior = PRIORS[name](*values, max_size=max_size)
        return prior
    raise SettingError(
        f"cannot read the prior {text!r}: use {', '.join(PRIOR_FORMS)}, with numbers for letters."
    )


def as_prior(given: str | Prior | None) -> Prior:
    """The prior that is given or that a text names; None is uniform over all subsets."""
    if given is None:
        return UniformPrior()
    if isinstance(given, str):
        return parse_prior(given, None)
    if not isinstance(given, Prior):
        raise SettingError(
            f"prior={given!r} is not a prior: use UniformPrior() or {', '.join(PRIOR_FORMS)}."
        )
    return given
