"""Which environment breaks the invariance of a subset: each of them against all others."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Mask
from ..conditionals.base import BoundConditional
from ..conditionals.compared import VARIANCE
from ..conditionals.gaussian import GaussianModel
from ..conditionals.regression_model import RegressionModel
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import SettingError
from ..moments.choosing import against_the_rest
from ..moments.moments import Moments
from .deviation import Deviation, NestedFits, deviation, fits_of_moments, fits_of_roots, fits_of_rows
from .environment_test import EnvironmentTest
from .regression_tests import RegressionTests

ALARM = 0.05


class Broken(NamedTuple):
    """The environment that deviates most from all others, with the p-value and the part ("intercept", "slopes", …)
    that does. Of two environments neither is the one that deviates: environment is None."""

    environment: Hashable | None
    p_value: float
    part: str


class SubsetTests:
    """The tests of one subset (p,) by linear Gaussian fits: from second moments or, where these cannot decide, from
    the rows."""

    def __init__(self, model: GaussianModel, mask: Mask) -> None:
        self._model, self._mask = model, mask
        self._moments = moments_of(model, mask)
        self._excess = float(model.excess_kurtosis(mask[None])[0])

    def all_environments(self) -> Deviation | None:
        """All environments against one common fit."""
        groups = list(range(self._moments.n_environments))
        return self._test(self._moments, lambda places: [places == e for e in groups])

    def each(self) -> tuple[EnvironmentTest, ...]:
        return tuple(map(self.against_the_rest, range(self._moments.n_environments)))

    def against_the_rest(self, e: int) -> EnvironmentTest:
        """The environment at place e."""
        tested = self._test(against_the_rest(self._moments, e), lambda places: [places == e, places != e])
        return EnvironmentTest(self._moments.environments[e], int(self._moments.counts[e]), tested)

    def _test(self, moments: Moments, split: Callable[[NDArray[np.intp]], list[Mask]]) -> Deviation | None:
        fits = fits_of_moments(moments)
        if np.isnan([fit.rss for fit in (*fits.own, fits.within, fits.pooled)]).any():
            fits = self._by_rows(split) or fits
        return deviation(fits, self._excess)

    def _by_rows(self, split: Callable[[NDArray[np.intp]], list[Mask]]) -> NestedFits | None:
        data, roots = self._model.rows, None if self._moments.second is None else self._moments.second.roots
        if data is None:
            places = np.arange(self._moments.n_environments)
            return (
                None if roots is None else fits_of_roots(self._moments, roots, list(map(np.flatnonzero, split(places))))
            )
        groups = [np.flatnonzero(rows) for rows in split(data.environment_index)]
        return fits_of_rows(data.X[:, data.features.expand(self._mask)], data.y, groups)


def moments_of(model: GaussianModel, mask: Mask) -> Moments:
    """Of the columns of one subset (p,)."""
    if not model.moments.scatter.size and model.rows is not None:
        return Moments.from_data(model.rows.narrowed(mask))
    columns = model.features.chosen(mask).columns
    return model.moments.of_columns((*columns, model.moments.outcome_name))


class Tests(Protocol):
    """The tests of one subset."""

    def all_environments(self) -> Deviation | None: ...

    def each(self) -> tuple[EnvironmentTest, ...]: ...

    def against_the_rest(self, e: int) -> EnvironmentTest: ...


@dataclass(frozen=True, eq=False)
class Compared:
    """A model by whose fits environments can be compared: the one that is asked for or, where this is linear, the
    linear Gaussian model of the same data."""

    model: GaussianModel | RegressionModel
    asked: BoundConditional

    @classmethod
    def of(cls, model: BoundConditional) -> Compared | None:
        """None where the model is none of these."""
        linear = model.by_least_squares
        if linear is not None:
            return cls(linear, model)
        return cls(model, model) if isinstance(model, RegressionModel) else None

    @cached_property
    def moments(self) -> Moments:
        """Second moments of the features and the outcome."""
        return Moments.from_data(self.model.data) if isinstance(self.model, RegressionModel) else self.model.moments

    @property
    def rows(self) -> MultiEnvironmentData | None:
        return self.model.rows

    @property
    def n_environments(self) -> int:
        return self.model.describe().n_environments

    def tests(self, mask: Mask) -> Tests:
        """Of a subset (p,), in what the model compares environments."""
        if isinstance(self.model, RegressionModel):
            return RegressionTests(self.model, mask)
        compared = self.asked.compared_by(mask)
        assert compared is not None
        if VARIANCE not in self.asked.compares:
            from .mean_tests import MeanTests

            return MeanTests(*compared)
        return SubsetTests(*compared)


@dataclass(frozen=True, eq=False)
class ComparedEnvironments:
    """Each environment against the others, for one subset.

    subset : names; tests : one for each environment; parts : in what environments are compared
    """

    subset: tuple[str, ...]
    outcome_name: str
    tests: tuple[EnvironmentTest, ...]
    parts: tuple[str, ...]

    @property
    def n_environments(self) -> int:
        return len(self.tests)

    @property
    def threshold(self) -> float:
        """What the p-value of an environment must be below to raise an alarm: 0.05/E."""
        return ALARM / len(self.tests)


def compared_environments(model: BoundConditional, mask: Mask) -> ComparedEnvironments:
    """Of a subset (p,)."""
    compared = comparable(model)
    subset = tuple(name for name, flag in zip(model.feature_names, mask, strict=True) if flag)
    return ComparedEnvironments(
        subset, model.describe().outcome_name, compared.tests(mask).each(), compared.asked.compares
    )


def comparable(model: BoundConditional) -> Compared:
    """Raise where there is nothing to compare."""
    compared = Compared.of(model)
    if compared is None:
        raise SettingError(
            "environments are compared by fits of the linear Gaussian model or of a regression: use "
            "conditional='linear_gaussian'."
        )
    if compared.n_environments < 2:
        raise SettingError("there is one environment, and nothing to compare it with: add rows of another one.")
    return compared


def breaking_environment(model: BoundConditional, mask: Mask) -> Broken | None:
    """The environment in which a subset (p,) is least like in the others. None where that cannot be told: with one
    environment, fits that cannot be decided, or a model whose fits are not compared."""
    compared = Compared.of(model)
    if compared is None or compared.n_environments < 2:
        return None
    return most_deviating(compared.tests(mask).each())


def where_it_breaks(model: BoundConditional, chosen: Mask, feature: int) -> Broken | None:
    """As `breaking_environment`, of a subset (p,) joined by a feature."""
    joined = chosen.copy()
    joined[feature] = True
    return breaking_environment(model, joined)


def most_deviating(tests: tuple[EnvironmentTest, ...]) -> Broken | None:
    """By the smallest p-value and, where several are 0 in float64, by the largest T."""
    decided = [(test.environment, test.deviation) for test in tests if test.deviation is not None]
    if not decided:
        return None
    label, worst = min(decided, key=lambda pair: (pair[1].p_value, -pair[1].deviance))
    return Broken(label if len(tests) > 2 else None, worst.p_value, worst.worst_part)
