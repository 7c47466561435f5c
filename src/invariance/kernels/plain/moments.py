"""Twins of what makes second moments of rows."""

from __future__ import annotations

import numpy as np

from ..._tools.arrays import Floats, Integers, Mask


def centred_rows(
    X: Floats,
    y: Floats,
    rows: Integers,
    centre: Floats,
    rest: Floats,
    minimum: Floats,
    maximum: Floats,
    at_ends: Integers | None = None,
) -> Floats:
    centred = np.concatenate([X[rows], y[rows, None]], axis=1, dtype=float)
    minimum[:], maximum[:] = centred.min(axis=0), centred.max(axis=0)
    if at_ends is not None:
        at_ends[:] = (centred == minimum).sum(axis=0), (centred == maximum).sum(axis=0)
    centre[:] = np.where(minimum == maximum, minimum, centred.mean(axis=0))
    centred -= centre
    rest[:] = centred.mean(axis=0)
    centred -= rest
    return centred


def fill_pooled(scatter: Floats, counts: Integers, gaps: Floats) -> None:
    weighted = counts[:, None] * gaps
    scatter[-1] = 0.0
    for factor, gap in zip(weighted, gaps, strict=True):
        scatter[-1] += factor[:, None] * gap
    for local in scatter[:-1]:
        scatter[-1] += local


def fill_without_row(
    scatter: Floats,
    e: int,
    loss: Floats,
    deviation: Floats,
    constant: Mask,
    counts: Integers,
    gaps: Floats,
    out: Floats,
) -> None:
    out[:-1] = scatter[:-1]
    out[e] -= loss[:, None] * deviation
    out[e, constant] = out[e, :, constant] = 0.0
    fill_pooled(out, counts, gaps)
