"""The tests of one subset under a regression that is not linear Gaussian: environments against a common fit."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np
from scipy.special import chdtrc

from .._tools.arrays import Floats, Integers, Mask
from ..conditionals.regression_model import RegressionModel
from ..data.multi_environment import MultiEnvironmentData
from .deviation import Deviation, Part, joint_of_parts
from .environment_test import EnvironmentTest


class RegressionTests:
    """As `SubsetTests`, by the specification itself, tied to the groups that are compared. Parts are what the groups'
    own intercepts gain, what their own slopes gain beyond, and what is left: where that is nothing, there is no third.
    """

    def __init__(self, model: RegressionModel, mask: Mask) -> None:
        self._specification, self._data = model.specification, model.data
        self._columns = model.data.X[:, model.features.expand(mask)]

    def all_environments(self) -> Deviation | None:
        """All environments against one common fit."""
        return self._test(self._data.environment_index, self._data.environments)

    def each(self) -> tuple[EnvironmentTest, ...]:
        return tuple(map(self.against_the_rest, range(self._data.n_environments)))

    def against_the_rest(self, e: int) -> EnvironmentTest:
        """The environment at place e."""
        tested = self._test((self._data.environment_index == e).astype(np.intp), (False, True))
        return EnvironmentTest(self._data.environments[e], int(self._data.counts[e]), tested)

    def _test(self, groups: Integers, labels: tuple[Hashable, ...]) -> Deviation | None:
        model = self._specification.tied(self._regrouped(groups, labels), None)
        k, place = self._columns.shape[1], np.arange(model.n_features)
        common, own_level = place < k, place < k + len(labels) - 1
        figures = model.figures(common)
        if not figures.log_ratio[0] > -np.inf:
            return None
        deviance, degrees = -2.0 * float(figures.log_ratio[0]), float(figures.degrees[0])
        fits = model.figures(np.array([own_level, place >= 0])[: len(model.compares) - 1])
        gained = [*np.clip(2.0 * (fits.pooled - figures.pooled), 0.0, deviance), deviance]
        freed = [*(fits.parameters - figures.parameters), degrees]
        shares = np.diff(np.maximum.accumulate(gained), prepend=0.0), np.diff(freed, prepend=0.0)
        parts = {name: _part(*map(float, share)) for name, *share in zip(model.compares, *shares, strict=True)}
        null = model.null_many(common)
        tail = float(model.invariance_tails(common, figures.log_ratio).probability[0])
        spread = 2.0 * float(np.sqrt(null.variance[0]))
        return Deviation(deviance, -2.0 * float(null.expected[0]), spread, tail, joint_of_parts(parts), parts)

    def _regrouped(self, groups: Integers, labels: tuple[Hashable, ...]) -> MultiEnvironmentData:
        """The columns of the subset; after them, for each group but the first, one that is 1 there; and, where slopes
        are not all that is left, the columns within each of these groups."""
        level: Floats = (groups[:, None] == np.arange(1, len(labels))).astype(float)
        within = [self._columns * one[:, None] for one in level.T] if self._specification.about_mean else []
        X = np.column_stack([self._columns, level, *within])
        names = tuple(f"column {j}" for j in range(X.shape[1]))
        return replace(
            self._data,
            X=X,
            environment_index=groups,
            environments=labels,
            feature_names=names,
            original_features=names,
            dropped_features=(),
            dropped_positions=(),
            dropped_columns=(),
            constants={},
            truth=None,
            grouping=None,
            encoding=None,
        )


def _part(deviance: float, degrees: float) -> Part:
    return Part(0.0, None) if degrees <= 0.0 else Part(deviance, float(chdtrc(degrees, deviance)))
