"""Coefficients of one subset with their intervals, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t

from .._tools.arrays import Mask
from ..conditionals.base import BoundConditional
from ..data.columns import free_name
from ..exceptions import SettingError

if TYPE_CHECKING:
    import pandas as pd


def coefficient_table(model: BoundConditional, mask: Mask, coverage: float) -> pd.DataFrame:
    """Of the subset (p,): column, environment, estimate, lower, upper; the pooled fit comes first.

    NaN where a column is constant or adds nothing to the others; lower and upper also where the model does not know how
    sure it is.
    """
    import pandas as pd

    if not 0.0 < coverage < 1.0:
        raise SettingError(f"coverage={coverage!r} is not possible: use a number between 0 and 1, such as 0.95.")
    fit, errors, labels = model.fit(mask), model.standard_errors(mask), model.describe().environments
    pooled = free_name("pooled", [label for label in labels if isinstance(label, str)])
    estimates = np.vstack([fit.coefficients, fit.local_coefficients])
    margins = np.full(estimates.shape, np.nan)
    if errors is not None:
        pooled_first = [-1, *range(len(labels))]
        values, freedom = errors.values[pooled_first], errors.freedom[pooled_first]
        margins = t.ppf(0.5 + coverage / 2.0, np.where(freedom > 0.0, freedom, np.nan))[:, None] * values
        estimates = np.where(np.isnan(values), np.nan, estimates)
    return pd.DataFrame(
        {
            "column": [name for _ in estimates for name in fit.columns],
            "environment": pd.Series([label for label in (pooled, *labels) for _ in fit.columns], dtype=object),
            "estimate": estimates.ravel(),
            "lower": (estimates - margins).ravel(),
            "upper": (estimates + margins).ravel(),
        }
    )
