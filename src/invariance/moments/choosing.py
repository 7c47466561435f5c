"""Moments of some of the environments: additive, so that leaving one out costs nothing."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import replace

from ..exceptions import DataWarning
from .moments import Moments, fill_pool


def choosing(moments: Moments, labels: Sequence[Hashable]) -> Moments:
    """Moments of the rows of these environments alone, in this order; the pool is summed anew, not subtracted.

    What is constant in the rows that are left is dropped without a word and listed in `constants`.
    """
    kept = [moments.environment_index(label) for label in labels]
    counts, shifts = moments.counts[kept], moments.shifts[kept]
    scatter = moments.scatter[[*kept, -1]]
    if scatter.size:
        fill_pool(counts, shifts, scatter)
    chosen = replace(
        moments,
        environments=tuple(labels),
        counts=counts,
        shifts=shifts,
        minimum=moments.minimum[kept],
        maximum=moments.maximum[kept],
        scatter=scatter,
        at_ends=None if moments.at_ends is None else moments.at_ends[kept],
        rounding=None if moments.rounding is None else moments.rounding[kept],
        dropped_rows={label: n for label, n in moments.dropped_rows.items() if label in labels},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return chosen.without_constant(moments.varies[-1])


def without_environment(moments: Moments, label: Hashable) -> Moments:
    moments.environment_index(label)
    return choosing(moments, [other for other in moments.environments if other != label])
