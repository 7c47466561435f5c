"""Priors over subsets of features: stated without data; `bind` ties one to the features at hand.

To add one: copy `BetaBinomialPrior`, say what is `stated`, add a line to PRIORS.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._tools.arrays import Floats, Integers, Mask
from ._tools.registry import Member, Registry
from .data.checks import nearest, quoted, warn
from .data.features import as_masks
from .exceptions import SettingError
from .models.base import check_number, check_whole_number


@dataclass(frozen=True, eq=False)
class BoundPrior:
    """A prior tied to p named features: log p(z) = Σ log_odds_j z_j + log_size_weight[|z|] − log_normalizer.

    log_odds : (p,) finite; 0 where a feature is forced in or out
    log_size_weight : (p + 1,) by |z|, -inf beyond max_size;  forced_in, forced_out : (p,)
    original_features : the features the prior was stated about; those not in feature_names were dropped
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
        n_forced, f = len(self.forced), len(free)
        return BoundPrior(
            feature_names=tuple(self.feature_names[j] for j in free),
            max_size=min(self.max_size - n_forced, f),
            log_odds=self.log_odds[free],
            log_size_weight=self.log_size_weight[n_forced : n_forced + f + 1].copy(),
            forced_in=np.zeros(f, dtype=bool),
            forced_out=np.zeros(f, dtype=bool),
            name=self.name,
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
        from .kernels.subset_sums import size_distribution

        log_in, log_out = self._log_chances
        return size_distribution(log_in, log_out, counts[-1]) - np.sum(log_out) + self._weights

    def _remaining_mass(self) -> Floats:
        """Table (f + 1, t + 2) in log space: [j, k] is the expected size weight when k of the first j free features are
        in and the others are drawn independently by their odds; the last column (too many) is -inf."""
        from .kernels.subset_sums import fill_remaining

        table = np.full((self.free.size + 1, self._weights.size + 1), -np.inf)
        table[-1, :-1] = self._weights
        fill_remaining(table, *self._log_chances)
        return table

    def log_prob(self, masks: ArrayLike) -> Floats:
        """(S,) normalised log prior of subsets (S, p), or of one (p,); -inf outside the support."""
        from .kernels.subset_sums import sizes

        rows = np.ascontiguousarray(as_masks(masks, len(self.feature_names)))
        size = sizes(rows)
        result = self.log_size_weight[size] - self.log_normalizer
        if self._exchangeable:
            result += self.log_odds[self.free[:1]].sum() * (size - len(self.forced))
        else:
            result += rows @ self.log_odds
        np.minimum(result, 0.0, out=result)  # rounding must not make a probability exceed one
        result[rows[:, self.forced_out].any(axis=1) | ~rows[:, self.forced_in].all(axis=1)] = -np.inf
        return result

    def sample(self, n: int, rng: np.random.Generator) -> Mask:
        """(n, p) independent exact draws"""
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
            from .kernels.subset_sums import draw_from

            result[:, self.free] = draw_from(self._remaining_mass(), log_in, rng.random((self.free.size, n)))
        return result

    def support_size(self) -> int:
        """The exact number of subsets with positive probability."""
        return sum(_binomials(self.free.size, self._weights.size - 1))

    def size_distribution(self) -> Floats:
        """(p + 1,) prior probability of each size |z|"""
        result, first = np.zeros(len(self.feature_names) + 1), len(self.forced)
        result[first : first + self._weights.size] = np.exp(self._log_size_mass - self.log_normalizer)
        return result

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
            from .kernels.subset_sums import inclusion_from

            result[self.free] = inclusion_from(self._remaining_mass(), log_in, log_out)
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
        if self.max_size is not None:
            check_whole_number(self, "max_size", 0, 10)

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
        limit = largest_size if self.max_size is None else self.max_size
        max_size = len(names) if limit is None else min(int(limit), len(names))
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
        for name in ("a", "b"):
            check_number(self, name, "parameter of a beta distribution", positive=True)
            object.__setattr__(self, name, float(getattr(self, name)))

    def stated(self, names: tuple[str, ...]) -> Stated:
        # Rising factorials over powers of a + b: differences of log-beta lose digits for large a and b.
        steps = np.arange(len(names))
        scale = np.logaddexp(np.log(self.a), np.log(self.b))
        rising_a = np.concatenate([[0.0], np.cumsum(np.log(self.a + steps) - scale)])
        rising_b = np.concatenate([[0.0], np.cumsum(np.log(self.b + steps) - scale)])
        total = np.sum(np.logaddexp(np.log(self.a), np.log(self.b + steps)) - scale)
        name = f"beta-binomial({self.a:g}, {self.b:g}) over subsets"
        return Stated(name, rising_a + rising_b[::-1] - total, np.full(steps.size, 0.5))


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
            given = {str(name): _as_probability(value, repr(name)) for name, value in given.items()}
        elif np.ndim(given) == 1:
            given = tuple(_as_probability(value, j + 1) for j, value in enumerate(np.asarray(given).tolist()))
        else:
            given = _as_probability(given, "'all'")
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
        if isinstance(given, tuple) and len(given) != len(names):
            raise SettingError(f"{len(given)} inclusion probabilities for {len(names)} features: {quoted(names)}")
        return np.full(len(names), given, dtype=np.float64)


def _as_probability(value: Any, feature: object) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 <= number <= 1.0:
        raise SettingError(f"inclusion probability of feature {feature} must be between 0 and 1, got {value!r}")
    return number


PRIORS = Registry(
    {
        "uniform": Member("priors:UniformPrior", "over all subsets"),
        "beta-binomial": Member("priors:BetaBinomialPrior", "over sizes", ("beta-binomial", "beta-binomial(A,B)")),
        "inclusion": Member("priors:InclusionPrior", "of each feature alone", ("inclusion(Q)",)),
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
