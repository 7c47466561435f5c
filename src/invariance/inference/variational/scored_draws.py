"""The ascent of models without a compiled scorer: draws are scored in batches, and remembered."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._tools.arrays import Floats, Mask
from ...conditionals.base import BoundConditional
from ...data.subsets import distinct
from ...kernels.masks import sizes
from ...kernels.mean_field import Objective, Trace, draw_pairs, make_step
from ..memory import ScoredSubsets


class ScoredDraws:
    """log Λ of draws by `score`: (S, f) → (S,), which is asked for those in a batch that are not remembered.

    room: how many are remembered. Threads may share the memory: at worst, a draw is scored twice.
    """

    def __init__(self, score: Callable[[Mask], Floats], n_free: int, max_size: int, room: int) -> None:
        self._scored = ScoredSubsets(score, n_free, room)
        self._max_size = max_size

    def log_ratios(self, draws: Mask) -> Floats:
        """(S,) NaN for draws that are too large, -inf for others outside the support"""
        values = np.full(len(draws), np.nan)
        inside = sizes(draws) <= self._max_size
        values[inside] = self._scored.values(draws if inside.all() else draws[inside])
        return values


def ascend_in_batches(
    logits: Floats,
    uniforms: Floats,
    rates: Floats,
    analytic: Mask,
    objective: Objective,
    lowest: Floats,
    scorer: ScoredDraws,
    trace: Trace,
) -> None:
    """As the kernel `ascend`: the same draws and steps, with one call of the scorer for the draws of an iteration."""
    n_iterations, n_pairs, f = uniforms.shape
    inclusion, gradient, draws = np.empty(f), np.empty(f), np.empty((2 * n_pairs, f), dtype=bool)
    for t in range(n_iterations):
        trace.logits[t] = logits
        draw_pairs(logits, uniforms[t], inclusion, draws)
        log_ratios = scorer.log_ratios(draws)
        trace.elbo[t], trace.error[t], trace.feasible[t] = make_step(
            logits, inclusion, draws, log_ratios, rates[t], analytic[t], objective, lowest, gradient
        )


def log_ratios_of(model: BoundConditional, masks: Mask) -> Floats:
    """(S,) log Λ of masks (S, p), each distinct one scored once; -inf outside the support"""
    first, group = distinct(masks)
    return model.log_ratio_many(masks[first])[group]
