"""Outcomes with two values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, logit

from .._tools.arrays import Floats, Integers
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, use
from ..kernels.likelihoods import LOGISTIC, Rows
from .base import Predicts
from .regression import Regression, environment_starts, sums_of_groups


@dataclass(frozen=True)
class Logistic(Regression):
    """Outcome ~ Bernoulli with log odds intercept + coefficients · columns of z, by maximum likelihood.

    pseudo_rows : how many rows the pseudo-data of each environment weigh, whose outcome is the pooled mean; 0: none.
        They keep fits finite where features separate the two values, or an environment has only one of them

    Of the two values the larger one counts as 1.
    """

    name: ClassVar[str] = "logistic"
    predicts: ClassVar[Predicts] = Predicts.probability
    two_values: ClassVar[bool] = True

    def check(self, data: MultiEnvironmentData) -> None:
        values = np.unique(data.y)
        if len(values) != 2:
            what = f"the logistic model is for outcomes with two values, and {data.outcome_name!r} has {len(values):,}"
            raise DataError(f"{what}, such as {values[0]:g}", use(family="auto"))

    def events(self, data: MultiEnvironmentData) -> Floats:
        return (data.y == data.y.max()).astype(float)

    def arrange(self, data: MultiEnvironmentData, columns: Floats, order: Integers) -> Rows:
        y = self.events(data)
        extra = self.shares(data)[data.environment_index]
        return Rows(LOGISTIC, columns, environment_starts(data), (y + extra * y.mean())[order], (1.0 + extra)[order])

    def beginning(self, rows: Rows) -> Floats:
        share = (sums_of_groups(rows.outcome, rows.starts) + 0.5) / (sums_of_groups(rows.weight, rows.starts) + 1.0)
        return np.asarray(logit(share))[:, None]

    def mean(self, predictor: Floats) -> Floats:
        return np.asarray(expit(predictor))
