"""Moments of some of the environments, and of one against all others: sums of what is known of each."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .._tools.arrays import Integers, Mask
from ..data.checks import quoted
from ..data.columns import free_name
from ..data.labels import places_of
from ..exceptions import DataError
from .parts import Part, filled_pool, merged

if TYPE_CHECKING:
    from .moments import Moments


def choosing(moments: Moments, labels: Sequence[Hashable]) -> Moments:
    """Those of the environments with these labels, in the order of the moments.

    Features that are constant there are among `constants`, as they are of data that never had the other environments.
    """
    left = _of_environments(moments, np.unique(places_of(labels, moments.environments)))
    constant = ~left.varies[-1]
    constant[left.outcome] = False
    if constant[left.feature_columns].all():
        raise DataError(f"every feature is constant in {quoted(left.environments)}. Choose more environments.")
    narrowed = left.without_constant(constant)
    if narrowed.encoding is None:
        return narrowed
    means = {**narrowed.constants, **dict(zip(narrowed.columns, narrowed.pooled_mean.tolist(), strict=True))}
    return replace(narrowed, encoding=narrowed.encoding.occurring_in(means, narrowed.n_rows))


def _of_environments(moments: Moments, kept: Integers) -> Moments:
    environments = tuple(moments.environments[e] for e in kept)
    counts, centre, rest = moments.counts[kept], moments.centre[kept], moments.rest[kept]
    return replace(
        moments,
        environments=environments,
        counts=counts,
        centre=centre,
        rest=rest,
        minimum=moments.minimum[kept],
        maximum=moments.maximum[kept],
        scatter=filled_pool(counts, centre, rest, moments.scatter[kept]),
        at_ends=None if moments.at_ends is None else moments.at_ends[kept],
        rounding=None if moments.rounding is None else moments.rounding[kept],
        dropped_rows={k: n for k, n in moments.dropped_rows.items() if k is None or k in environments},
        second=None if moments.second is None else moments.second.choosing(kept),
        kind=None,
    )


def own_mean_names(apart: Mask, taken: Sequence[str]) -> list[str]:
    """For the columns of `with_own_means`, beside those that are taken."""
    return [free_name(f"own mean {e}", taken) for e in np.flatnonzero(apart)]


def with_own_means(moments: Moments, kept: Mask, apart: Mask) -> Moments:
    """Of the environments `kept` (E,), with a column for each of the environments `apart` (E,) that is 1 there and 0
    elsewhere. Every column is a feature, constant or not."""
    own = np.eye(moments.n_environments)[apart][:, kept].T
    counts, wider = moments.counts[kept], [(0, 0), (0, own.shape[1]), (0, own.shape[1])]
    centre, rest = np.hstack([moments.centre[kept], own]), np.hstack([moments.rest[kept], np.zeros_like(own)])
    return replace(
        moments,
        columns=(*moments.columns, *own_mean_names(apart, moments.columns)),
        environments=tuple(label for label, flag in zip(moments.environments, kept, strict=True) if flag),
        counts=counts,
        centre=centre,
        rest=rest,
        minimum=np.hstack([moments.minimum[kept], own]),
        maximum=np.hstack([moments.maximum[kept], own]),
        scatter=filled_pool(counts, centre, rest, np.pad(moments.scatter[:-1][kept], wider)),
        at_ends=None,
        rounding=None,
        dropped_rows={},
        second=None if moments.second is None else moments.second.choosing(np.flatnonzero(kept)).wider(own.shape[1]),
    )


def against_the_rest(moments: Moments, e: int) -> Moments:
    """Two environments: the one at place e, and the rows of all others together."""
    others: Part | None = None
    for other in range(moments.n_environments):
        if other != e:
            others = merged(others, moments.part(other))
    assert others is not None
    own = moments.part(e)
    counts, centre = np.array([own.n_rows, others.n_rows]), np.stack([own.centre, others.centre])
    rest = np.stack([own.rest, others.rest])
    return replace(
        moments,
        environments=(moments.environments[e], None),
        counts=counts,
        centre=centre,
        rest=rest,
        minimum=np.stack([own.minimum, others.minimum]),
        maximum=np.stack([own.maximum, others.maximum]),
        scatter=filled_pool(counts, centre, rest, np.stack([own.scatter, others.scatter])),
        at_ends=None,
        rounding=None,
        dropped_rows={},
        second=None,
    )
