"""How much counts scatter beside what a Poisson law has it."""

from __future__ import annotations

import numpy as np

from ..data.subsets import Subset, as_mask
from ..kernels.newton.maximise import maximise
from ..kernels.newton.rows import work_for
from .poisson import Poisson, exposure_of
from .regression_model import REPORTED, RegressionModel

# Here chi-square laws for Poisson counts reject what is invariant about twice as often as they state.
LARGEST_HARMLESS = 1.2


def overdispersion(model: RegressionModel, subset: Subset) -> float:
    """Pearson's χ² over its degrees of freedom, of the Poisson fit with common slopes and an intercept for each
    environment: about 1 where counts are Poisson. NaN for other models, and where no degree of freedom is left or
    the fit comes to no end."""
    if not isinstance(model.specification, Poisson):
        return np.nan
    mask = as_mask(subset, model.feature_names)
    rows, data = model.problem, model.data
    n_environments = data.n_environments
    sites = np.repeat(np.eye(n_environments), data.counts, axis=1)
    slopes = rows.columns[1:][model.features.expand(mask)]
    columns = np.concatenate([sites, slopes])
    k = len(columns)
    theta = np.zeros(k)
    theta[:n_environments] = model.beginning[:-1, 0]
    own = rows._replace(columns=columns)
    work, inverse = work_for(own, k), np.empty((k, k))
    largest, rank = maximise(own, 0, n_environments, np.arange(k), k, theta, k, inverse, False, REPORTED, work)
    if np.isnan(largest):
        return np.nan
    order = model.specification.order(data)
    mean = exposure_of(data)[order] * np.exp(theta @ columns)
    degrees = data.n_rows - rank
    return float(np.sum((data.y[order] - mean) ** 2 / mean) / degrees) if degrees > 0 else np.nan


def overdispersion_words(ratio: float) -> str:
    """What to do about it; empty where nothing is to be done."""
    if not ratio > LARGEST_HARMLESS:
        return ""
    return f"the counts scatter {ratio:.1f} times as much as a Poisson law has it: use conditional='negative_binomial'"
