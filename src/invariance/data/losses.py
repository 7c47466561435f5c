"""What was left out of the data as given, in words: rows with missing values, and what does not vary."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType

from ..exceptions import DataError
from .checks import listing, quoted, rows_text, warn


def dropped_message(dropped: Mapping[Hashable, int], environments: Sequence[Hashable], n_rows: int) -> str:
    """What missing="drop" removed; ``environments`` are those that are left."""
    parts = [f"{n} of environment {label!r}" for label, n in dropped.items() if label is not None]
    if None in dropped:
        parts.append(f"{dropped[None]} without an environment label")
    message = f"dropped {sum(dropped.values())} of {rows_text(n_rows)} with missing values: {listing(parts)}"
    lost = [label for label in dropped if label is not None and label not in environments]
    return f"{message}; nothing is left of environment {quoted(lost)}" if lost else message


def announce_constant(
    constant: Sequence[str],
    n_features: int,
    columns: Sequence[str] = (),
    gaps: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Warn that features constant over all rows are left out, and such columns of others; raise when none remain.
    gaps: {name: rows in which its one value is missing}"""
    if len(constant) == n_features:
        raise DataError(
            f"every feature is constant over all rows: {_with_gaps(constant, gaps)}. Add features that vary."
        )
    if constant:
        warn(constant_features(constant, gaps))
    if columns:
        warn(constant_columns(columns))


def losses(
    dropped_rows: Mapping[Hashable, int],
    environments: Sequence[Hashable],
    n_rows: int,
    features: Sequence[str],
    columns: Sequence[str],
    gaps: Mapping[str, int] = MappingProxyType({}),
) -> tuple[str, ...]:
    """Sentences about what was left out: rows, of which n_rows are left, constant features, and columns of others;
    gaps as in `announce_constant`."""
    sentences = []
    if dropped_rows:
        sentences.append(dropped_message(dropped_rows, environments, n_rows + sum(dropped_rows.values())) + ".")
    if features:
        sentences.append(constant_features(features, gaps) + ".")
    if columns:
        sentences.append(constant_columns(columns) + ".")
    return tuple(sentences)


def constant_features(features: Sequence[str], gaps: Mapping[str, int]) -> str:
    return f"dropped features that are constant over all rows: {_with_gaps(features, gaps)}"


def _with_gaps(features: Sequence[str], gaps: Mapping[str, int]) -> str:
    return listing(
        f"{name!r} (missing in {rows_text(gaps[name])})" if name in gaps else repr(name) for name in features
    )


def constant_columns(columns: Sequence[str]) -> str:
    return f"dropped columns that are constant over all rows from their features: {quoted(columns)}"
