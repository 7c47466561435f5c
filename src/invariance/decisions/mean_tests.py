"""Which environment breaks the invariance of a subset where each may have a variance of its own.

T = −2 log Λ of all environments, less T of all but one, is what that one adds: it is chi-square under invariance, with
a degree of freedom for each of its coefficients. With an intercept of its own it adds less by what intercepts do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from .._tools.arrays import Floats, Mask
from ..conditionals.compared import INTERCEPT, SLOPES
from ..conditionals.gaussian import GaussianModel
from ..data.multi_environment import MultiEnvironmentData
from ..moments.choosing import own_mean_names, with_own_means
from .deviation import Deviation, Part
from .environments import EnvironmentTest, moments_of


class _Deviance(NamedTuple):
    """T of some environments, and its mean and degrees of freedom under invariance."""

    value: float
    mean: float
    degrees: float

    def less(self, other: _Deviance) -> _Deviance:
        return _Deviance(max(self.value - other.value, 0.0), self.mean - other.mean, self.degrees - other.degrees)


class MeanTests:
    """As `SubsetTests`, of the coefficients alone."""

    def __init__(self, model: GaussianModel, mask: Mask) -> None:
        self._model, self._mask = model, mask
        self._moments = moments_of(model, mask)

    def all_environments(self) -> Deviation | None:
        """All environments against one common fit."""
        everywhere = np.ones(self._moments.n_environments, dtype=bool)
        return self._test(everywhere & (np.arange(len(everywhere)) > 0), None)

    def each(self) -> tuple[EnvironmentTest, ...]:
        return tuple(map(self.against_the_rest, range(self._moments.n_environments)))

    def against_the_rest(self, e: int) -> EnvironmentTest:
        """The environment at place e."""
        tested = self._test(np.arange(self._moments.n_environments) == e, e)
        return EnvironmentTest(self._moments.environments[e], int(self._moments.counts[e]), tested)

    def _test(self, apart: Mask, e: int | None) -> Deviation | None:
        """Of the environment e, or of all; apart (E,): those that have an intercept of their own where slopes alone are
        compared."""
        everywhere = np.ones(len(apart), dtype=bool)
        whole, slopes = self._deviance(everywhere, ~everywhere), self._deviance(everywhere, apart)
        rest = _Deviance(0.0, 0.0, 0.0) if e is None else self._deviance(np.arange(len(apart)) != e, ~everywhere)
        if whole is None or slopes is None or rest is None:
            return None
        added = whole.less(rest)
        return None if added.degrees <= 0.0 else _deviation(added, whole.less(slopes))

    def _deviance(self, kept: Mask, apart: Mask) -> _Deviance | None:
        """Of the environments `kept` (E,); None where it cannot be decided."""
        found = self._of_model(self._model.of(with_own_means(self._moments, kept, apart)))
        if found is None and self._model.rows is not None:
            found = self._of_model(self._model.of(_rows_with_own_means(self._model.rows, self._mask, kept, apart)))
        return found

    @staticmethod
    def _of_model(model: GaussianModel) -> _Deviance | None:
        everything = np.ones((1, model.n_features), dtype=bool)
        log_ratio, null = float(model.log_ratio_many(everything)[0]), model.null_many(everything)
        if log_ratio == -np.inf:
            return None
        known = null.variance[0] > 0.0
        return _Deviance(-2.0 * log_ratio, -2.0 * float(null.expected[0]) if known else 0.0, float(null.degrees[0]))


def _rows_with_own_means(data: MultiEnvironmentData, mask: Mask, kept: Mask, apart: Mask) -> MultiEnvironmentData:
    """As `with_own_means`, of the columns of a subset (p,)."""
    chosen = kept[data.environment_index]
    place = data.environment_index[chosen]
    own: Floats = (place[:, None] == np.flatnonzero(apart)).astype(float)
    names = data.features.chosen(mask).columns
    return MultiEnvironmentData(
        X=np.column_stack([data.X[np.ix_(chosen, data.features.expand(mask))], own]),
        y=data.y[chosen],
        environment_index=(np.cumsum(kept) - 1)[place],
        feature_names=(*names, *own_mean_names(apart, (*names, data.outcome_name))),
        environments=tuple(label for label, flag in zip(data.environments, kept, strict=True) if flag),
        outcome_name=data.outcome_name,
    )


def _deviation(added: _Deviance, intercept: _Deviance) -> Deviation:
    unit = added.mean / added.degrees
    slopes = added.less(intercept)
    parts = {INTERCEPT: _part(intercept, unit), SLOPES: _part(slopes, unit)}
    p_value = float(chi2.sf(added.value / unit, added.degrees))
    return Deviation(added.value, added.mean, unit * float(np.sqrt(2.0 * added.degrees)), p_value, p_value, parts)


def _part(found: _Deviance, unit: float) -> Part:
    if found.degrees <= 0.0:
        return Part(0.0, None)
    return Part(found.value, float(chi2.sf(found.value / unit, found.degrees)))
