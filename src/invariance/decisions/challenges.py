"""Whether the environments ever put a feature to the test."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._tools.arrays import Mask
from ..conditionals.base import BoundConditional
from ..conditionals.gaussian import GaussianModel
from ..conditionals.tolerance import Tolerance
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError
from ..moments.moments import Moments


def never_challenged(model: BoundConditional, mask: Mask, feature: int, tolerance: Tolerance) -> bool | None:
    """Whether no environment shifts a feature of the subset (p,) given the others in it: with each of its columns as
    the outcome, those others are compatible with invariance. None where that cannot be told."""
    linear = model.by_least_squares
    if linear is None or linear.moments.n_environments < 2:
        return None
    others = mask.copy()
    others[feature] = False
    rest = linear.features.expand(others)
    own = np.arange(linear.features.starts[feature], linear.features.starts[feature + 1])
    return all(_compatible(linear, rest, int(column), tolerance) for column in own)


def _compatible(model: GaussianModel, rest: Mask, column: int, tolerance: Tolerance) -> bool:
    """Of a column given the columns `rest` (q,)."""
    try:
        turned = model.of(_turned(model, rest, column))
    except DataError:
        # Constant in some environment, and not in all of them.
        return False
    given_rest = np.append(np.ones(rest.sum(), dtype=bool), False)
    return bool(turned.invariance_test(given_rest, tolerance).joint[0] >= tolerance.level)


def _turned(model: GaussianModel, rest: Mask, column: int) -> MultiEnvironmentData | Moments:
    """The column as the outcome of the columns `rest` and, last, of the old outcome."""
    names, outcome = model.features.columns, model.moments.outcome_name
    kept = [name for name, flag in zip(names, rest, strict=True) if flag]
    data = model.rows
    if data is None:
        moments = model.moments.of_columns((*kept, names[column], outcome))
        return replace(moments, groups={}, encoding=None).with_outcome(names[column])
    return MultiEnvironmentData(
        X=np.column_stack([data.X[:, rest], data.y]),
        y=data.X[:, column],
        environment_index=data.environment_index,
        feature_names=(*kept, outcome),
        environments=data.environments,
        outcome_name=names[column],
    )
