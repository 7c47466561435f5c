"""Another column of the same moments as the outcome."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..data.checks import nearest
from ..exceptions import DataError

if TYPE_CHECKING:
    from .moments import Moments


def with_outcome(moments: Moments, name: str) -> Moments:
    """See `Moments.with_outcome`."""
    owners = {column: feature for feature, members in moments.groups.items() for column in members}
    if name not in moments.columns or name in {**owners, **moments.groups}:
        wrong = f"column {name!r} is not in the data"
        if name in moments.groups:
            wrong = f"the feature {name!r} is made of several columns and cannot be the outcome"
        elif name in owners:
            wrong = f"column {name!r} is part of the feature {owners[name]!r} and cannot be the outcome"
        possible = [column for column in moments.columns if column not in owners]
        raise DataError(f"{wrong}; {nearest(name, possible)}")
    encoding = moments.encoding
    if encoding is not None and name != moments.outcome_name:
        encoding = encoding.with_outcome(name, moments.outcome_name)
    kind = moments.kind if name == moments.outcome_name else None
    turned = replace(moments, outcome=moments.columns.index(name), encoding=encoding, kind=kind)
    turned.check_outcome()
    return turned
