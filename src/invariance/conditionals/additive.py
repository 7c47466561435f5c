"""The additive conditional: smooth curves in the place of straight lines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..data.curves import with_curves
from ..data.multi_environment import MultiEnvironmentData
from ..data.terms import FEWEST_KNOTS
from ..exceptions import DataError, SettingError
from ..moments.moments import Moments
from .additive_model import AdditiveModel, AllCoefficients
from .base import BoundConditional

_COMPARISONS = ("shape", "all")


@dataclass(frozen=True)
class Additive:
    """Outcome ~ Normal(intercept + a smooth curve of each numeric feature of z, variance), by maximum likelihood.

    knots : of the natural cubic splines, at quantiles of all rows; each feature has knots − 1 columns. Features with
        fewer than ten values, levels and groups of columns stay as they are. None: all features do, so that it is the
        data's own groups that are compared
    comparison : "shape" fits the curves to all rows; in each environment the intercept, one slope on each feature's
        curve and the variance may differ. "all": every coefficient may, which takes many more rows
    """

    knots: int | None = 6
    comparison: Literal["shape", "all"] = "shape"

    def __post_init__(self) -> None:
        if isinstance(self.knots, MultiEnvironmentData | Moments):
            raise SettingError("Additive holds settings only: tie it to data with Additive().bind(data).")
        whole = isinstance(self.knots, int | np.integer) and not isinstance(self.knots, bool)
        if self.knots is not None and (not whole or self.knots < FEWEST_KNOTS):
            raise SettingError(
                f"knots={self.knots!r} is not known: use a whole number from {FEWEST_KNOTS} on, or None."
            )
        if self.comparison not in _COMPARISONS:
            options = " or ".join(map(repr, _COMPARISONS))
            raise SettingError(f"comparison={self.comparison!r} is not known: use {options}.")

    def prepared(self, data: MultiEnvironmentData | Moments) -> tuple[Additive, MultiEnvironmentData]:
        """The data with curves in the place of columns, and the specification that takes them as they are."""
        if isinstance(data, Moments):
            raise DataError("the additive model needs the rows, and only moments are at hand: pass the data.")
        if self.knots is None:
            return self, data
        return replace(self, knots=None), with_curves(data, int(self.knots))

    def bind(self, data: MultiEnvironmentData | Moments, n_jobs: int | None = None) -> BoundConditional:
        """Tie the model to rows."""
        _, curved = self.prepared(data)
        return AdditiveModel(curved, n_jobs) if self.comparison == "shape" else AllCoefficients(curved, n_jobs)
