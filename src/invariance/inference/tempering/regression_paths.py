"""Which columns regressions of the outcome pick: where a search can look, when every single flip looks bad."""

from __future__ import annotations

import numpy as np

from ..._tools.arrays import Integers, Mask
from ...kernels.pursuit import inverse_scale_of, pursuit
from .replicas import CompiledTarget

Groups = tuple[int, int]


def groupings(target: CompiledTarget) -> tuple[Groups, Groups]:
    """Groups whose second moments are added up: first and one past the last, within environments and over the pool."""
    n_environments = len(target.scoring.weights) - 1
    return (0, n_environments), (n_environments, n_environments + 1)


def regression_path(
    target: CompiledTarget,
    groups: Groups,
    damping: float,
    length: int,
    given: Integers | None = None,
    without: Mask | None = None,
) -> Mask:
    """(d,) at most `length` columns: those that are given, and what a regression of the outcome adds; see `pursuit`.

    Columns of `without` (d,) may not be added.
    """
    given = np.empty(0, np.int64) if given is None else given
    free = target.prior.free if without is None else target.prior.free & ~without
    path = np.empty(min(length, target.n_free), np.int64)
    path[: len(given)] = given[: len(path)]
    scale = inverse_scale_of(target.scoring, *groups)
    n = pursuit(target.scoring, target.scoring.outcome, *groups, scale, free, damping, path, len(given))
    chosen = np.zeros(target.n_columns, bool)
    chosen[given], chosen[path[:n]] = True, True
    return chosen
