"""Do independent replicas tell the same story? R̂ and Monte-Carlo standard errors of inclusion probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._tools.arrays import Floats

# Features whose inclusion varies less than this do not count for R̂: their standard error alone speaks.
_SETTLED_VARIANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Agreement:
    """inclusion, standard_error, r_hat: (d,) each."""

    inclusion: Floats
    standard_error: Floats
    r_hat: Floats

    @property
    def largest_error(self) -> float:
        return float(self.standard_error.max(initial=0.0))

    @property
    def largest_r_hat(self) -> float:
        return float(self.r_hat.max(initial=1.0))

    def reached(self, precision: float, r_hat: float) -> bool:
        return self.largest_error <= precision and self.largest_r_hat <= r_hat


def agreement_of(batches: Floats) -> Agreement:
    """From batches (replicas, rounds, d): mean inclusion of each feature in each round of each replica.

    Segments are halves of replicas. R̂² = 1 + (variance between segments) / (Bernoulli variance within them). The
    standard error is the larger of two: from the batches, and from the segments, which see slow drifts.
    """
    n_replicas, n_rounds, d = batches.shape
    half = n_rounds // 2
    if half:
        parts = [batches[:, :half].mean(axis=1), batches[:, n_rounds - half :].mean(axis=1)]
        segments = np.concatenate(parts)
    else:
        segments = batches[:, 0]
    inclusion = batches.mean(axis=(0, 1))
    if len(segments) < 2:
        unknown = np.sqrt(inclusion * (1.0 - inclusion))
        return Agreement(inclusion, unknown, np.where(unknown > 0, np.inf, 1.0))
    flat = batches.reshape(n_replicas * n_rounds, d)
    between = segments.var(axis=0, ddof=1)
    within = np.clip(segments * (1.0 - segments), 0.0, None).mean(axis=0)
    error = np.sqrt(np.maximum(flat.var(axis=0, ddof=1) / len(flat), between / len(segments)))
    r_hat = np.sqrt(1.0 + between / np.maximum(within, 1e-12))
    settled = inclusion * (1.0 - inclusion) < _SETTLED_VARIANCE
    return Agreement(inclusion, error, np.where(settled, 1.0, r_hat))
