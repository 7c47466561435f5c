"""What comes with an outcome, out of the columns of X."""

from __future__ import annotations

from typing import Any

import narwhals as nw

from ..data.checks import nearest
from ..data.columns import as_frame, frame_names
from ..exceptions import DataError


def split_beside(X: Any, **given: Any) -> tuple[Any, dict[str, Any]]:
    """X without the columns that are named, and {role: values}; given: values, the name of a column of X, or None."""
    values = {role: value for role, value in given.items() if value is not None}
    named = {role: name for role, name in values.items() if isinstance(name, str)}
    if not named:
        return X, values
    columns = frame_names(X)
    for role, name in named.items():
        if name not in (columns or ()):
            found = "has no column names" if columns is None else f"has no such column; {nearest(name, columns)}"
            raise DataError(
                f"{role}={name!r} names a column of X, which {found.rstrip('.')}. Pass {role}=values, one per row."
            )
    frame = nw.from_native(X, eager_only=True)
    values |= {role: as_frame(X, "X")[name].to_native() for role, name in named.items()}
    kept = [name for name in frame.columns if str(name) not in named.values()]
    return frame.select(kept).to_native(), values
