"""What comes with an outcome, given as values or as the names of columns of X."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import narwhals as nw

from ..data.checks import nearest
from ..data.columns import as_frame, frame_names
from ..exceptions import DataError


def named_columns(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns of X among {role: values, name of a column, or None}."""
    return tuple(name for name in given.values() if isinstance(name, str))


def split_beside(X: Any, given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """X without the columns that are named, and {role: values}."""
    columns = frame_names(X)
    values = {role: value for role, value in given.items() if value is not None}
    for role, name in values.items():
        if not isinstance(name, str):
            continue
        if columns is None or name not in columns:
            found = "has no column names." if columns is None else f"has no such column; {nearest(name, columns)}"
            raise DataError(f"{role}={name!r} names a column of X, which {found} Pass one value per row otherwise.")
        values[role] = as_frame(X, "X")[name].to_native()
    return without_columns(X, named_columns(given)), values


def without_columns(X: Any, names: Sequence[str]) -> Any:
    """A data frame without those of the columns that it has; anything else as it is."""
    columns = frame_names(X) or []
    if not set(names).intersection(columns):
        return X
    frame = nw.from_native(X, eager_only=True)
    return frame.select([name for name in frame.columns if str(name) not in names]).to_native()


def in_typing(given: Mapping[str, Any]) -> Iterator[str]:
    """As arguments of `MultiEnvironmentData.from_arrays`, where X is what was given to `fit`."""
    for role, value in given.items():
        if value is not None:
            yield f"{role}=X[{value!r}]" if isinstance(value, str) else f"{role}={role}"
    named = named_columns(given)
    if named:
        yield f"exclude={list(named)!r}"
