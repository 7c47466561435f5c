"""Moments with what another look at their rows tells, of the columns that matter."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from .._tools.arrays import Integers, Mask
from ..conditionals.gaussian_moments import GaussianFromMoments
from ..exceptions import SettingError
from ..moments.moments import Moments
from ..moments.second_look import Rows

if TYPE_CHECKING:
    from .bip import BIP


def looked_at_again(model: BIP, moments: Moments, rows: Any, file_options: Mapping[str, Any]) -> Moments:
    """Where sums of fourth powers of all columns are too many, a fit without them tells which columns lead."""
    if model.environment is None:
        raise SettingError(
            "rows= needs the name of the column that holds the environment labels: BIP(environment=...) states it."
        )
    again = Rows(moments, rows, model.environment, model.n_jobs, file_options)
    decided = moments if GaussianFromMoments(moments).decides_all else again.resolving()
    if again.all_columns_fit:
        return again.looking_at(decided, moments.columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = clone(model).fit_moments(decided)
    leading = _leading(first, moments.features.widths, again.most_features)
    return again.looking_at(decided, moments.features.chosen(leading).columns)


def _leading(model: BIP, widths: Integers, most: int) -> Mask:
    """(p,) features of at most so many columns: the selected ones first, and each of these, as of the others, by what
    it adds to R² beside the selected ones. Probability would not tell: where tails are heavy, causes are improbable as
    long as nobody looks at them.
    """
    selected, target = model.decision_.mask, model.decision_.findings.target.model
    added = np.abs(target.r2_many(selected ^ np.eye(len(widths), dtype=bool)) - target.r2_many(selected[None]))
    chosen = np.zeros(len(widths), dtype=bool)
    for j in np.lexsort([-np.where(np.isfinite(added), added, 0.0), ~selected]):
        chosen[j] = widths[chosen].sum() + widths[j] <= most
    return chosen
