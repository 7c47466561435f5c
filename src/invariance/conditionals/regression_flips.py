"""Guesses of what adding or removing each feature does to a subset, under a regression."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._tools.arrays import Mask
from ..kernels.newton.flips import guess_flips
from ..kernels.newton.rows import work_for
from .base import FlipGuess
from .figures import Figures

if TYPE_CHECKING:
    from .regression_model import RegressionModel

# Promised gains below which fits that guesses start from count as done.
_ROUGHLY = 1e-2
_MOST_REMEMBERED = 2000


class FlipGuesses:
    """Those of a model, of which some are remembered."""

    def __init__(self, model: RegressionModel) -> None:
        self._model = model
        self._known: dict[bytes, FlipGuess] = {}

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_known": {}}

    def of(self, mask: Mask) -> FlipGuess:
        """(p,) each, of a subset (p,)"""
        key = np.packbits(mask).tobytes()
        known = self._known.get(key)
        if known is None:
            known = self._computed(mask)
            if len(self._known) >= _MOST_REMEMBERED:
                self._known = {}
            self._known[key] = known
        return known

    def _computed(self, mask: Mask) -> FlipGuess:
        model, problem = self._model, self._model.problem
        groups, n_features, widths = len(problem.starts), model.n_features, model.features.widths
        log_ratio, pooled, ranks = np.empty(1), np.empty(1), np.empty((1, groups), np.int64)
        gains = np.empty((1, groups, n_features))
        work = work_for(problem, len(problem.columns) + model.beginning.shape[1])
        layout = mask[None], model.n_always + model.features.starts, np.arange(model.n_always), model.beginning
        guess_flips(problem, *layout, _ROUGHLY, work, log_ratio, pooled, ranks, gains)
        own, change = Figures.of(log_ratio, pooled, ranks, model.profiled), np.where(mask, -widths, widths)
        log_ratios = np.minimum(log_ratio + gains[0, -1] - gains[0, :-1].sum(axis=0), 0.0)
        # NaN: the fit of the subset itself comes to no end.
        known = model.supported(mask ^ np.eye(n_features, dtype=bool)) & ~np.isnan(log_ratios)
        figures = Figures(
            np.where(known, log_ratios, -np.inf),
            pooled + gains[0, -1],
            own.degrees + (groups - 2.0) * change,
            own.parameters + change,
        )
        null = model.null_of(figures)
        return FlipGuess(figures.log_ratio, figures.pooled - model.empty, null.expected, null.variance)
