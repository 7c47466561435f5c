"""The tests of one subset under a regression that is not linear Gaussian: environments against a common fit."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np
from scipy.special import chdtrc

from .._tools.arrays import Floats, Integers, Mask
from ..conditionals.regression_model import RegressionModel
from ..data.multi_environment import MultiEnvironmentData
from .deviation import INTERCEPT, SLOPES, Deviation, Part, joint_of_parts
from .environment_test import EnvironmentTest


class RegressionTests:
    """As `SubsetTests`, by the specification itself, bound to the groups that are compared. What the groups' own
    intercepts gain is one part, what is left another; there is no variance that could differ by itself."""

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
        model = self._specification.bind(self._regrouped(groups, labels))
        k = self._columns.shape[1]
        common = np.arange(model.n_features) < k
        figures, own_level = model.figures(common), model.figures(np.ones(model.n_features, dtype=bool))
        if not figures.log_ratio[0] > -np.inf:
            return None
        deviance, degrees = -2.0 * float(figures.log_ratio[0]), float(figures.degrees[0])
        level = min(max(2.0 * float(own_level.pooled[0] - figures.pooled[0]), 0.0), deviance)
        freed = float(own_level.parameters[0] - figures.parameters[0])
        parts = {
            INTERCEPT: _part(level, freed),
            SLOPES: _part(deviance - level, degrees - freed),
        }
        null = model.null_many(common)
        tail = float(model.invariance_tails(common, figures.log_ratio).probability[0])
        spread = 2.0 * float(np.sqrt(null.variance[0]))
        return Deviation(deviance, -2.0 * float(null.expected[0]), spread, tail, joint_of_parts(parts), parts)

    def _regrouped(self, groups: Integers, labels: tuple[Hashable, ...]) -> MultiEnvironmentData:
        """The columns of the subset and, after them, one that is 1 in each group but the first."""
        level: Floats = (groups[:, None] == np.arange(1, len(labels))).astype(float)
        X = np.column_stack([self._columns, level])
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
