"""What regressions other than the linear Gaussian share: a specification by its likelihood, and the model tied to rows.

Each environment owns pseudo-data of the weight of a few rows, which keep fits finite where a subset separates the
outcome, or an environment has no events: log Λ = max Σ f_e − Σ max f_e is at most 0 all the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, SettingError
from ..kernels.newton.rows import Rows
from ..moments.moments import Moments
from .base import Null
from .figures import Figures
from .regression_fit import RegressionFit

if TYPE_CHECKING:
    from .regression_model import RegressionModel


@dataclass(frozen=True)
class Regression(ABC):
    """Base of specifications: the outcome's law given intercept + coefficients · columns of z, by maximum likelihood.

    pseudo_rows : how many rows the pseudo-data of each environment weigh, whose outcome is the pooled mean; 0: none
    """

    pseudo_rows: float = 1.0

    name: ClassVar[str]
    intercept: ClassVar[bool] = True
    takes: ClassVar[tuple[str, ...]] = ()  # what the model uses of that which comes with an outcome
    about_mean: ClassVar[tuple[str, ...]] = ()  # what each environment has of its own beside intercept and slopes
    two_values: ClassVar[bool] = False  # whether features may separate the outcome

    def __post_init__(self) -> None:
        given = self.pseudo_rows
        if not isinstance(given, Real) or isinstance(given, bool) or not 0.0 <= given < np.inf:
            raise SettingError(f"pseudo_rows={given!r} is no weight: use a number of rows from 0 on.")

    @abstractmethod
    def check(self, data: MultiEnvironmentData) -> None:
        """Raise DataError where the outcome is not of the kind that this model is for."""

    @abstractmethod
    def arrange(self, data: MultiEnvironmentData, columns: Floats, order: Integers) -> Rows:
        """The rows `order` (N,) of the data as kernels take them; columns (q, N): in this order already."""

    @abstractmethod
    def beginning(self, rows: Rows) -> Floats:
        """(E + 1, r) parameters of the empty subset in each environment and the pool, roughly: the intercept, if there
        is one, and after it those that no column belongs to."""

    @abstractmethod
    def mean(self, predictor: Floats) -> Floats:
        """The expected outcome (n,) at intercept + coefficients · columns (n,)."""

    def events(self, data: MultiEnvironmentData) -> Floats:
        """(N,) how many events each row is: what there must be some of in every environment."""
        return data.y

    def remarks(self, model: RegressionModel, masks: Mask) -> tuple[str, ...]:
        """Sentences on the leading subsets, masks (S, p), beside those of all regressions."""
        return ()

    def order(self, data: MultiEnvironmentData) -> Integers:
        """(N,) rows by environment, and within each as the kernel wants them."""
        return np.argsort(data.environment_index, kind="stable").astype(np.int64)

    def profiled(self, rows: Rows) -> Integers:
        """(E + 1,) how many parameters the fit of each environment and the pooled one have that are maximised out and
        stand in no array."""
        return np.zeros(len(rows.starts), np.int64)

    def null(self, counts: Integers, figures: Figures) -> Null:
        """The law of log Λ of invariant subsets, from the rows (E,) of each environment. For many of them −2 log Λ is
        chi-square, with a degree of freedom for each parameter that may differ."""
        degrees = figures.degrees if len(counts) > 1 else np.zeros_like(figures.degrees)
        return Null(np.where(degrees > 0.0, -0.5 * degrees, -np.inf), 0.5 * degrees, degrees)

    def finished(self, fit: RegressionFit, rows: Rows) -> RegressionFit:
        """The fit with names for what else the model has."""
        return fit

    def shares(self, data: MultiEnvironmentData) -> Floats:
        """(E,) λ_e: by how much more than once each row of an environment counts."""
        return self.pseudo_rows / data.counts

    def bind(self, data: MultiEnvironmentData | Moments, n_jobs: int | None = None) -> RegressionModel:
        """Tie the model to data."""
        if isinstance(data, Moments):
            raise DataError(f"the {self.name} model needs the rows, and only moments are at hand: pass the data.")
        self.check(data)
        return self.tied(data, n_jobs)

    def tied(self, data: MultiEnvironmentData, n_jobs: int | None) -> RegressionModel:
        from .regression_model import RegressionModel

        return RegressionModel(self, data, n_jobs)
