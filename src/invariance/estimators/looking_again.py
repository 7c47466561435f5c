"""Moments with what another look at their rows tells, of the columns that matter."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from itertools import zip_longest
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
    """(p,) features of at most so many columns: the selected ones, those of the leading subsets and, while there is
    room, those that are most probable. A subset that does not fit is passed over."""
    chosen = np.zeros(len(widths), dtype=bool)
    predictive = [] if model.predictive_ is None else list(model.predictive_.masks)
    ranked = zip_longest(predictive, model.posterior_.masks)
    single = np.eye(len(widths), dtype=bool)[np.argsort(-model.posterior_.inclusion, kind="stable")]
    names = np.array(model.posterior_.feature_names, dtype=object)
    for mask in (np.isin(names, model.selected_features_), *(m for pair in ranked for m in pair), *single):
        if mask is not None and widths[chosen | mask].sum() <= most:
            chosen |= mask
    return chosen
