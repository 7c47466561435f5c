"""What two sets of moments have in common, before they are merged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..data.encoding import Encoding
from ..exceptions import DataError

if TYPE_CHECKING:
    from .moments import Moments


def joined_encoding(first: Moments, second: Moments) -> Encoding | None:
    """That of both; raise where their columns were made differently."""
    one, other = first.encoding, second.encoding
    both = None if one is None or other is None else one.joined(other)
    if both is None and (one is not other or dict(first.groups) != dict(second.groups)):
        if one is not None and other is not None and one.levels_differ(other):
            raise DataError(
                "cannot merge moments whose levels, or the order of them, differ: read the data of both with "
                f"categorical={one.all_levels(other)!r}."
            )
        raise DataError("cannot merge moments whose columns were made or grouped differently.")
    return both


def joined_columns(first: Moments, second: Moments) -> tuple[tuple[str, ...], dict[str, float]]:
    """The columns that vary in one of them or between them, in the order of the first; and what is constant in both."""
    given = [{*moments.columns, *moments.constants} for moments in (first, second)]
    if given[0] != given[1] or first.outcome_name != second.outcome_name:
        difference = sorted(given[0] ^ given[1]) or [first.outcome_name, second.outcome_name]
        raise DataError(f"cannot merge moments of different columns; they differ in {difference}.")
    constants = {name: value for name, value in first.constants.items() if second.constants.get(name) == value}
    back = [name for name in first.constants if name not in constants]
    if not back:
        return first.columns, constants
    if first.encoding is None:
        return (*first.columns, *back), constants
    order = (*first.encoding.features.columns, first.outcome_name)
    return tuple(name for name in order if name not in constants), constants


def restored(moments: Moments, columns: tuple[str, ...]) -> Moments:
    """With those of the columns that were left out because they are constant, at the end."""
    back = [name for name in columns if name not in moments.columns]
    if not back:
        return moments
    values = np.array([moments.constants[name] for name in back])
    everywhere = np.tile(values, (moments.n_environments, 1))
    nothing, k = np.zeros_like(everywhere), len(back)
    count = np.broadcast_to(moments.counts[:, None, None], (moments.n_environments, 2, k))
    return replace(
        moments,
        columns=(*moments.columns, *back),
        groups=moments.groups if moments.encoding is None else moments.encoding.features.groups,
        centre=np.hstack([moments.centre, everywhere]),
        rest=np.hstack([moments.rest, nothing]),
        minimum=np.hstack([moments.minimum, everywhere]),
        maximum=np.hstack([moments.maximum, everywhere]),
        scatter=np.pad(moments.scatter, ((0, 0), (0, k), (0, k))),
        at_ends=None if moments.at_ends is None else np.concatenate([moments.at_ends, count], axis=2),
        rounding=None if moments.rounding is None else np.hstack([moments.rounding, nothing]),
        second=None,
    )
