"""Priors p(z) over feature selectors: stated without data, and bound to the features of a data set.

All have the form p(z) ∝ exp(w(|z|)) Π_j odds_j^z_j for |z| ≤ p_max, which includes the paper's
uniform prior over selectors with at most p_max features (Wu et al. 2025, arXiv:2506.22675).
"""

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
    """Hold a prior over subsets of p named features.

    Its log probabilities are::

        log p(z) = Σ_j log_odds_j z_j + log_size_weight[|z|] − log_normalizer

    Parameters
    ----------
    feature_names : tuple of str
        Names of the p features.
    max_size : int
        Largest number of features in a subset.
    log_odds : ndarray of shape (p,)
        Log odds of inclusion; 0 for features that are forced in or out.
    log_size_weight : ndarray of shape (p + 1,)
        Log weight of each size, -inf beyond max_size.
    forced_in : ndarray of shape (p,), bool
        Features that every subset contains.
    forced_out : ndarray of shape (p,), bool
        Features that no subset contains.
    name : str
        Description.
    original_features : tuple of str, default=()
        Features that the prior was stated about. Those that are not in feature_names were dropped.

    Attributes
    ----------
    log_normalizer : float
        Logarithm of the sum of the weights of all subsets.
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
        """Return the features that are neither forced in nor forced out.

        Returns
        -------
        ndarray of shape (f,), int
            Positions.
        """
        return np.flatnonzero(~(self.forced_in | self.forced_out))

    @cached_property
    def forced(self) -> NDArray[np.intp]:
        """Return the features that every subset contains.

        Returns
        -------
        ndarray of shape (k,), int
            Positions.
        """
        return np.flatnonzero(self.forced_in)

    @cached_property
    def over_free(self) -> BoundPrior:
        """Return the same prior over the free features alone."""
        return self.over(self.free)

    def over(self, free: Integers) -> BoundPrior:
        """Return the same prior over these free features alone, in this order."""
        n_forced = len(self.forced)
        f = len(free)
        none = np.zeros(len(free), dtype=bool)
        names = tuple(self.feature_names[j] for j in free)
        by_size = self.log_size_weight[n_forced : n_forced + f + 1]
        most = min(self.max_size - n_forced, f)
        return BoundPrior(names, most, self.log_odds[free], by_size.copy(), none, none, self.name)

    @cached_property
    def _weights(self) -> Floats:
        """Return log_size_weight by the number 0..t of free features in the subset, (t + 1,)."""
        n_forced = len(self.forced)
        return self.log_size_weight[
            n_forced : n_forced + min(self.max_size - n_forced, self.free.size) + 1
        ]

    @cached_property
    def _log_chances(self) -> tuple[Floats, Floats]:
        """Return log probabilities (f,) of inclusion and of exclusion, before any size weight."""
        odds = self.log_odds[self.free]
        return -np.logaddexp(0.0, -odds), -np.logaddexp(0.0, odds)

    @cached_property
    def _exchangeable(self) -> bool:
        return np.unique(self.log_odds[self.free]).size <= 1

    @cached_property
    def _independent(self) -> bool:
        """Return whether the free features are independent: without truncation and size weights."""
        return self._weights.size == self.free.size + 1 and bool(
            np.all(self._weights == self._weights[0])
        )

    @cached_property
    def _log_size_mass(self) -> Floats:
        """Return the unnormalised log mass (t + 1,) of each number of exchangeable features."""
        counts = np.arange(self._weights.size)
        # Exact integers: the logarithm of each binomial coefficient is right to the last digit.
        logs = [math.log(c) for c in _binomials(self.free.size, counts.size - 1)]
        return np.array(logs) + self.log_odds[self.free[:1]].sum() * counts + self._weights

    @cached_property
    def _remaining_mass(self) -> Floats:
        """Return the log expected size weight by the features that were drawn, (f + 1, t + 2).

        Entry [j, k] is for k of the first j free features in the subset and the others drawn
        independently by their odds; the last column (too many) is -inf.
        """
        table = np.full((self.free.size + 1, self._weights.size + 1), -np.inf)
        table[-1, :-1] = self._weights
        fill_remaining(table, *self._log_chances)
        return table

    def log_prob(self, masks: ArrayLike) -> Floats:
        """Return the normalised log prior of subsets.

        Parameters
        ----------
        masks : array-like of shape (S, p) or (p,), bool
            Subsets.

        Returns
        -------
        ndarray of shape (S,)
            Values of log p(z), -inf outside the support.
        """
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
        """Draw independent subsets, exactly.

        Parameters
        ----------
        n : int
            Number of draws.
        rng : numpy.random.Generator
            Random generator.

        Returns
        -------
        ndarray of shape (n, p), bool
            Subsets.
        """
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
        """Return the exact number of subsets with positive probability.

        Returns
        -------
        int
            Number of subsets.
        """
        return sum(_binomials(self.free.size, self._weights.size - 1))

    def inclusion_probabilities(self) -> Floats:
        """Return the prior inclusion probability of each feature, after truncation.

        Returns
        -------
        ndarray of shape (p,)
            Probabilities.
        """
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
    """Yield C(n, 0), ..., C(n, most) as exact integers."""
    value = 1
    for k in range(most + 1):
        yield value
        value = value * (n - k) // (k + 1)


class Prior(ABC):
    """Specify a prior over subsets before the features are known.

    This is the base of priors. A subclass is a frozen dataclass with the field `max_size`; it
    implements `describe`, and `inclusion` or `log_size_weight`, from which follows::

        p(z) ∝ exp(log_size_weight[|z|]) Π_j (odds of inclusion_j)^z_j,    |z| ≤ max_size

    See Also
    --------
    UniformPrior : All subsets are equally probable.
    BetaBinomialPrior : All sizes are equally probable, or by a beta distribution.
    InclusionPrior : Features have their own probabilities.
    """

    max_size: int | None

    def __post_init__(self) -> None:
        if self.max_size is not None:
            check_whole_number(self, "max_size", 0, 10)

    @abstractmethod
    def describe(self, inclusion: Floats) -> str:
        """Return the prior in words, with probabilities (p,) as `inclusion` returns them."""

    def inclusion(self, features: Sequence[str]) -> Floats:
        """Return the inclusion probability of each feature, before truncation.

        Parameters
        ----------
        features : sequence of str
            Names of the p features.

        Returns
        -------
        ndarray of shape (p,)
            Probabilities; 0.5 unless a subclass overrides it.
        """
        return np.full(len(features), 0.5)

    def log_size_weight(self, p: int) -> Floats:
        """Return the log weight of each size `|z|`.

        Parameters
        ----------
        p : int
            Number of features.

        Returns
        -------
        ndarray of shape (p + 1,)
            Log weights; 0 unless a subclass overrides it.
        """
        return np.zeros(p + 1)

    def forced(self, features: Sequence[str]) -> Names:
        """Return the features that every subset contains: those with inclusion probability 1.

        Parameters
        ----------
        features : sequence of str
            Names of the features.

        Returns
        -------
        tuple of str
            Names.
        """
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
        """Bind the prior to named features.

        Parameters
        ----------
        feature_names : sequence of str or int
            Names, or a number p for features called x0, ..., x{p-1}.
        largest_size : int, default=None
            Limit on the size if the prior does not have one.
        original_features : sequence of str, default=None
            All features that the prior was stated about, if some of them were dropped.

        Returns
        -------
        BoundPrior
            The prior over subsets of these features.

        Raises
        ------
        SettingError
            If more features are forced in than a subset may contain, or the prior names unknown
            features.
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
        """Return the same prior over subsets of at most a number of features.

        Parameters
        ----------
        max_size : int
            Largest number of features in a subset.

        Returns
        -------
        Prior
            The limited prior.
        """
        return replace(self, max_size=max_size)  # type: ignore[type-var]

    def with_outcome(self, name: str) -> Prior:
        """Return the same prior if one of its features becomes the outcome."""
        return self


@answers_papers_words
@dataclass(frozen=True)
class UniformPrior(Prior):
    """Make every subset of at most `max_size` features equally probable.

    With a limit it is the prior of the paper's high-dimensional studies.

    Parameters
    ----------
    max_size : int, default=None
        Largest number p_max of features in a subset. None is no limit.

    References
    ----------
    Wu, L., Yin, M., Wang, Y., Cunningham, J. P. and Blei, D. M. (2025), Bayesian invariance
    modeling of multi-environment data, section 4.1, arXiv:2506.22675.

    Examples
    --------
    >>> from invariance import UniformPrior
    >>> UniformPrior(max_size=2).bind(4).support_size()
    11
    """

    max_size: int | None = None

    def describe(self, inclusion: Floats) -> str:
        return "uniform over subsets"


@answers_papers_words
@dataclass(frozen=True)
class BetaBinomialPrior(Prior):
    """Draw a common inclusion probability from a beta distribution.

    Marginally::

        p(z) = B(a + |z|, b + p − |z|) / B(a, b)

    With a = b = 1 all sizes are equally probable, which corrects for the number of subsets of each
    size.

    Parameters
    ----------
    a : float, default=1.0
        First parameter of the beta distribution, positive.
    b : float, default=1.0
        Second parameter, positive.
    max_size : int, default=None
        Largest number of features in a subset, at which the prior is truncated and normalised. None
        is no limit.

    References
    ----------
    Scott, J. G. and Berger, J. O. (2010), Bayes and empirical-Bayes multiplicity adjustment in the
    variable-selection problem, Annals of Statistics 38, 2587-2619, arXiv:1011.2333.

    Examples
    --------
    >>> from invariance import BetaBinomialPrior
    >>> BetaBinomialPrior(1, 3).bind(4).inclusion_probabilities().round(2).tolist()
    [0.25, 0.25, 0.25, 0.25]
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
    """Include features independently, each with its own probability.

    Probability 0 excludes a feature, 1 forces it into every subset.

    Parameters
    ----------
    probabilities : float, array-like of shape (p,) or mapping of str to float
        Probabilities before truncation: one for all features, one for each feature of the data in
        order (also for features that are dropped later), or by name (also a Series), with 0.5 for
        features that are not named.
    max_size : int, default=None
        Largest number of features in a subset. None is no limit.

    Raises
    ------
    SettingError
        If a probability is not between 0 and 1.

    Examples
    --------
    >>> from invariance import InclusionPrior
    >>> InclusionPrior({"x0": 0.9, "x2": 1.0}).bind(3).inclusion_probabilities().round(1).tolist()
    [0.9, 0.5, 1.0]
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
    """Return the prior that a text names, one of `PRIOR_FORMS` with numbers for capital letters."""
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
    """Return a given prior, or the prior that a text names; None is uniform over all subsets."""
    if given is None:
        return UniformPrior()
    if isinstance(given, str):
        return parse_prior(given, None)
    if not isinstance(given, Prior):
        raise SettingError(
            f"prior={given!r} is not a prior: use UniformPrior() or {', '.join(PRIOR_FORMS)}."
        )
    return given
