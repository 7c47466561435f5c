"""The linear Gaussian conditional: the paper's."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Literal

from ..data.checks import warn
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import SettingError
from ..moments.moments import Moments
from .gaussian import GaussianModel
from .gaussian_moments import GaussianFromMoments
from .gaussian_rows import GaussianOnDemand, fits_in_memory, moments_bytes
from .mean_gaussian import MeanGaussian

_INVARIANCE = ("distribution", "mean")
_SECOND_MOMENTS = ("auto", "all", "on demand")


@dataclass(frozen=True)
class LinearGaussian:
    """Outcome ~ Normal(intercept + coefficients · columns of z, variance), by maximum likelihood.

    invariance : what must be the same in every environment; "distribution" is all of it: the intercept, the
        coefficients and the variance; "mean" is the intercept and the coefficients, and each environment has a variance
        of its own, which also makes heavy tails harmless
    second_moments : "all" pairs of columns at once, "on demand", which takes the memory of the data twice and is
        slower, or "auto": all where these fit into the memory that is free; "mean" needs all
    prediction : reward λ for subsets that predict well: the posterior is p(z)·Λ(z)·(σ̂²(∅)/σ̂²(z))^(λN/2), σ̂² the
        variance that the pooled fit leaves, or of "mean" the geometric mean of those of all rows' environments. 0 is
        the paper's; 0.1 leads samplers through thousands of features. Log ratios, p-values and verdicts that are
        reported remain those of Λ
    """

    invariance: Literal["distribution", "mean"] = "distribution"
    second_moments: Literal["auto", "all", "on demand"] = "auto"
    prediction: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.invariance, MultiEnvironmentData | Moments):
            raise SettingError("LinearGaussian holds settings only: tie it to data with LinearGaussian().bind(data).")
        for name, known in (("invariance", _INVARIANCE), ("second_moments", _SECOND_MOMENTS)):
            if getattr(self, name) not in known:
                options = " or ".join(map(repr, known))
                raise SettingError(f"{name}={getattr(self, name)!r} is not known: use {options}.")
        if self.invariance == "mean" and self.second_moments == "on demand":
            raise SettingError("invariance='mean' needs all second moments: use second_moments='all'.")
        reward = self.prediction
        if not isinstance(reward, Real) or isinstance(reward, bool) or not 0.0 <= reward < float("inf"):
            raise SettingError(f"prediction={reward!r} is no reward: use a number from 0 on.")

    def bind(self, data: MultiEnvironmentData | Moments, n_jobs: int | None = None) -> GaussianModel:
        """Tie the model to data, or to moments alone."""
        if self.invariance == "mean":
            return MeanGaussian(data, n_jobs, self.prediction)
        if isinstance(data, Moments) or self.second_moments == "all":
            return GaussianFromMoments(data, n_jobs, self.prediction)
        if self.second_moments == "auto":
            if fits_in_memory(data):
                return GaussianFromMoments(data, n_jobs, self.prediction)
            warn(
                f"second moments of {data.n_features:,} features take {moments_bytes(data) / 1e9:.1f} GB, more than is "
                "free, and are computed on demand, which is slower"
            )
        return GaussianOnDemand(data, n_jobs, self.prediction)


def linear_gaussian_mean() -> LinearGaussian:
    """What the name "linear_gaussian_mean" stands for."""
    return LinearGaussian(invariance="mean")
