"""Features that determine the outcome exactly, in all rows or in some environment.

Their likelihood is unbounded, so that Λ(z) is not defined: they are found, refused or named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from .._tools.text import in_quotes
from ..data.checks import quoted, warn
from ..data.features import Features
from ..exceptions import DataError, Message, Remedy, use
from ..moments.moments import Moments
from .base import PIVOT_TOLERANCE
from .gaussian_fits import inverse_scales

if TYPE_CHECKING:
    from .gaussian import MomentModel

# All features together are tried where these are no more than so many.
_MOST_TOGETHER = 256
# Columns that a search adds one by one in each environment and over all rows.
_STEPS = 10
# Rows beyond those that a fit takes, from which on no coincidence of whole numbers gives an
# environment's outcome.
_SPARE_ROWS = 5
_MOST_REMEDIES = 3


def check_determined(model: MomentModel, allowed: Mask, max_size: int) -> None:
    """Raise where features give the outcome in all rows, or in some environments. Warn where
    several give it by coefficients that differ between all environments, which is a rejected subset
    among others, and where environments that have no fits of their own can be explained so."""
    few = len(allowed) <= _MOST_TOGETHER
    # What all features leave of the outcome, any of them leave.
    if few and model.fits_each and model.moments.scatter.size and model.leaves_some(allowed):
        return
    for feature in np.flatnonzero(allowed & model.nearly_outcome()):
        mask = np.arange(model.n_features) == feature
        if _refused(model, mask, model.determined_by(mask, model.fits_each)):
            return
    if not model.moments.scatter.size:
        return
    tried = list(_sets_to_try(model.moments, model.features, allowed))
    for mask in tried:
        if len(model.determined_by(mask, False)):
            smallest = _smallest(model, mask, False, 1)
            if smallest.sum() <= max_size and _refused(
                model, smallest, model.determined_by(smallest, False)
            ):
                return
    for mask in tried if model.n_environments > 1 else ():
        if len(model.determined_by(mask, True, _SPARE_ROWS)):
            smallest = _smallest(model, mask, True, _SPARE_ROWS)
            groups = model.determined_by(smallest, True, _SPARE_ROWS)
            if smallest.sum() <= max_size:
                if model.fits_each and (smallest.sum() == 1 or len(groups) < model.n_environments):
                    _refused(model, smallest, groups)
                what, remedies = _told(model, smallest, groups)
                left = (
                    "no subset with all of these has a likelihood"
                    if model.fits_each
                    else "see how it was recorded"
                )
                warn(Message(f"{what}: {left}. To fit without that", *remedies))
                return


def _refused(model: MomentModel, mask: Mask, groups: Integers) -> bool:
    """Raise about a subset (p,) that gives the outcome in groups; warn and return True with a
    single environment."""
    if not len(groups):
        return False
    what, remedies = _told(model, mask, groups)
    error = DataError(f"{what}, which leaves no noise to compare. To fit without that", *remedies)
    if model.n_environments > 1:
        raise error
    warn(error.args[0])
    return True


def _smallest(model: MomentModel, mask: Mask, locally: bool, spare: int) -> Mask:
    """A part of a subset (p,) that gives the outcome too, and without any of its features does
    not"""
    for j in np.flatnonzero(mask):
        fewer = mask & (np.arange(len(mask)) != j)
        if fewer.any() and len(model.determined_by(fewer, locally, spare)):
            mask = fewer
    return mask


def _sets_to_try(moments: Moments, features: Features, allowed: Mask) -> Iterator[Mask]:
    """Subsets (p,): all features if they are few, and those by which a search explains the outcome
    of a group."""
    if len(allowed) <= _MOST_TOGETHER:
        yield allowed
    owners = np.repeat(np.arange(len(allowed)), features.widths)
    for columns in _pursued(moments, moments.feature_columns[features.expand(allowed)]):
        found = np.isin(np.arange(len(allowed)), owners[np.isin(moments.feature_columns, columns)])
        if found.sum() < allowed.sum() or len(allowed) > _MOST_TOGETHER:
            yield found


def _pursued(moments: Moments, columns: Integers) -> list[Integers]:
    """Columns that one by one explain most of what is left of the outcome, for each group in which
    some explain all."""
    y = moments.outcome
    every = np.arange(len(moments.group_counts))
    scale = inverse_scales(np.einsum("gjj->gj", moments.scatter), moments.present)
    free = np.zeros(scale.shape, bool)
    free[:, columns] = moments.present[:, columns]
    left = np.where(moments.present, 1.0, 0.0)
    toward = moments.scatter[:, y] * scale * scale[:, y, None]
    rows: list[Floats] = []
    chosen: list[Integers] = []
    found: dict[int, Integers] = {}
    for step in range(1, min(_STEPS, len(columns)) + 1):
        gains = np.where(
            free & (left > PIVOT_TOLERANCE), toward**2 / np.maximum(left, PIVOT_TOLERANCE), -1.0
        )
        chosen.append(gains.argmax(axis=1))
        row = moments.scatter[every, chosen[-1]] * scale * scale[every, chosen[-1], None]
        for earlier in rows:
            row -= earlier * earlier[every, chosen[-1], None]
        rows.append(row / np.sqrt(np.maximum(left[every, chosen[-1]], PIVOT_TOLERANCE))[:, None])
        toward -= rows[-1] * rows[-1][:, y, None]
        left -= rows[-1] ** 2
        free[every, chosen[-1]] = False
        enough = moments.present[:, y] & (moments.group_counts >= step + 1 + _SPARE_ROWS)
        for g in np.flatnonzero(enough & (left[:, y] < PIVOT_TOLERANCE)).tolist():
            found.setdefault(g, np.unique([places[g] for places in chosen]))
    return list(found.values())


def _told(model: MomentModel, mask: Mask, groups: Integers) -> tuple[str, list[Remedy]]:
    """Return which outcomes a subset (p,) determines, and remedies."""
    names = model.features.chosen(mask).names
    E = model.n_environments
    labels = [model.moments.environments[g] for g in groups if g < E]
    remedies = [use(exclude=[name]) for name in names[:_MOST_REMEDIES]]
    if E in groups:
        where = (
            "every environment"
            if E > 1 and (model.has_rows or len(labels) == E)
            else "all rows together"
        )
    elif len(labels) == E:
        where = "every environment, by coefficients that differ"
    else:
        where = f"environment {quoted(labels)}"
        if E - len(labels) > 1:
            remedies.append(use(drop_environments=labels))
    shown = (
        "exactly"
        if model.has_rows
        else "to the digits of second moments (the rows would show more)"
    )
    verb = "determines" if len(names) == 1 else "together determine"
    return (
        f"{quoted(names)} {verb} the outcome {in_quotes(model.moments.outcome_name)} {shown} in "
        f"{where}",
        remedies,
    )
