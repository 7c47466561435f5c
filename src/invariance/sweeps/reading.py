"""From a table, whose columns are all alike to a sweep, to the moments and rows of its fits."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._tools.work import one_thread
from ..data.beside import ROLES
from ..data.beside import refuse as refuse_beside
from ..data.checks import check_lengths, did_you_mean, encode_labels, nearest, quoted, warn
from ..data.choices import listed_names
from ..data.columns import as_frame, free_name, label_list
from ..data.multi_environment import MultiEnvironmentData
from ..data.reading import column_names, read_columns
from ..data.table_file import TableFile
from ..exceptions import DataError, SettingError, WrongTypeError
from ..moments.moments import Moments
from .memory import check_room
from .source import Source

OPTIONS = (
    *("missing", "features", "exclude", "categorical", "numeric", "groups"),
    *("drop_environments", "merge_environments", "min_rows"),
)


@dataclass(frozen=True, eq=False)
class Reading:
    """source : what is fitted; identity : what it was made from, in values that JSON can hold"""

    source: Source
    identity: Mapping[str, Any]


def read_source(
    table: Any, environment: str | None = None, environments: Any = None, perturbed: Any = None, **options: Any
) -> Reading:
    """options : as `MultiEnvironmentData.from_table` takes them"""
    refuse_beside("a sweep", **{role: options.pop(role, None) for role in ROLES})
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise WrongTypeError(
            f"sweep() got an unexpected keyword argument {unknown[0]!r}{did_you_mean(unknown[0], OPTIONS)}"
        )
    if isinstance(table, Moments):
        given = {"environment": environment, "environments": environments, "perturbed": perturbed, **options}
        _refuse(given, "moments are of rows that were read already: compute them with it")
        return Reading(Source(table), _identity_of_moments(table))
    data, whom = _rows_of(table, environment, environments, perturbed, options)
    check_room(data, needs_rows=whom is not None)
    with one_thread():
        moments = Moments.from_data(data)
    perturbing = {} if whom is None else _perturbing(whom, moments.columns)
    source = Source(moments, data if perturbing else None, perturbing)
    return Reading(source, _identity_of_rows(data, perturbing))


def _rows_of(
    table: Any, environment: str | None, environments: Any, perturbed: Any, options: Mapping[str, Any]
) -> tuple[MultiEnvironmentData, list[str | None] | None]:
    """The rows, whose outcome is any column, and the column that each of them perturbs, where that is said."""
    if isinstance(table, MultiEnvironmentData):
        _refuse({"environment": environment, "environments": environments, **options}, "these data are read already")
        refuse_beside("a sweep", event=table.event_name, exposure=table.exposure_name)
        if isinstance(perturbed, str):
            raise SettingError(
                f"perturbed={perturbed!r} names a column of a table: pass one entry per row of the data."
            )
        return table, _entries(perturbed, table.n_rows)
    frame, names = _frame(table, environment, options.get("categorical", "auto"))
    columns = [name for name in (environment, perturbed) if isinstance(name, str)]
    for role, name in (("environment", environment), ("perturbed", perturbed)):
        if isinstance(name, str) and name not in names:
            raise DataError(f"{role} column {name!r} is not in the table; {nearest(name, names)}")
    whom = _entries(frame[perturbed].to_list() if isinstance(perturbed, str) else perturbed, len(frame))
    frame, environment = _labelled(frame, environment, environments)
    # Its number stands for the outcome of each row, and tells afterwards which rows are left.
    number = free_name("row number", frame.columns)
    frame = frame.with_columns(_series(frame, number, np.arange(len(frame), dtype=float)))
    exclude = [*listed_names("exclude", options.get("exclude", ())), *(name for name in columns if name != environment)]
    data = MultiEnvironmentData.from_table(frame.to_native(), number, environment, **{**options, "exclude": exclude})
    kept = data.y.astype(np.intp)
    return _with_a_column_as_outcome(data), None if whom is None else [whom[row] for row in kept]


def _frame(table: Any, environment: str | None, categorical: Any) -> tuple[Any, list[str]]:
    if not isinstance(table, str | os.PathLike):
        frame = as_frame(table)
        return frame, list(frame.columns)
    table = TableFile.of(table)
    names = column_names(table)
    texts = () if isinstance(categorical, str) else [name for name in categorical if name in names]
    labels = environment if environment in names else None
    return as_frame(read_columns(table, names, labels=labels, as_text=texts)), names


def _labelled(frame: Any, environment: str | None, environments: Any) -> tuple[Any, str]:
    """The frame with a column of labels, and its name."""
    if (environment is None) == (environments is None):
        raise SettingError(
            "a sweep needs environments, once: name their column, environment='site', or pass environments=labels, "
            "one per row."
        )
    if environment is not None:
        return frame, environment
    labels = label_list(environments)
    check_lengths({"the table": len(frame), "environments": len(labels)})
    name = free_name("environment", frame.columns)
    return frame.with_columns(_series(frame, name, labels)), name


def _series(frame: Any, name: str, values: Any) -> Any:
    import narwhals as nw

    return nw.new_series(name, values, backend=frame.implementation)


def _entries(perturbed: Any, n_rows: int) -> list[str | None] | None:
    if perturbed is None:
        return None
    entries = label_list(perturbed, "perturbed")
    check_lengths({"the table": n_rows, "perturbed": len(entries)})
    codes, labels = encode_labels(entries)
    names = [_name(label) for label in labels]
    return [None if code < 0 else names[code] for code in codes]


def _name(label: Any) -> str:
    """A column of whole numbers with blanks in it is one of floats."""
    return f"{label:.0f}" if isinstance(label, float) and label.is_integer() else str(label)


def _perturbing(whom: Sequence[str | None], columns: Sequence[str]) -> dict[str, tuple[int, ...]]:
    known, rows = set(columns), dict[str, list[int]]()
    for row, name in enumerate(whom):
        if name in known:
            rows.setdefault(str(name), []).append(row)
    named = [name for name in dict.fromkeys(whom) if name]
    if named and not rows:
        raise DataError(f"perturbed names none of the columns, but {quoted(named)}; {nearest(named[0], columns)}")
    folded = {name.strip().casefold(): name for name in columns}
    alike = [name for name in named if name not in known and name.strip().casefold() in folded]
    if alike:
        meant = quoted(dict.fromkeys(folded[name.strip().casefold()] for name in alike))
        warn(f"perturbed names {quoted(alike)}, which are no columns, so that their rows are used; is {meant} meant?")
    return {name: tuple(found) for name, found in rows.items()}


def _with_a_column_as_outcome(data: MultiEnvironmentData) -> MultiEnvironmentData:
    """With the last column that is a feature on its own in the place of the outcome."""
    features = data.features
    grouped = {column for members in features.groups.values() for column in members}
    alone = [j for j, name in enumerate(features.columns) if name not in grouped]
    if not alone:
        raise DataError(f"no column can be the outcome: {quoted(features.names)} are levels, splines or groups.")
    if len(features.names) < 2:
        raise DataError(f"{features.names[0]!r} is the only column: a sweep needs another one to predict it from.")
    j = alone[-1]
    name = features.columns[j]
    others = np.array([feature != name for feature in features.names])
    encoding = data.encoding
    if encoding is not None:
        columns = tuple(column for column in encoding.columns if column != name)
        members = tuple(member for member in encoding.members if member[0] != name)
        encoding = replace(encoding, columns=columns, members=members)
    y = np.ascontiguousarray(data.X[:, j])
    return replace(data.narrowed(others), y=y, outcome_name=name, encoding=encoding, constants=data.constants)


def _refuse(given: Mapping[str, Any], why: str) -> None:
    said = [name for name, value in given.items() if value is not None]
    if said:
        raise SettingError(f"{said[0]}= is for a table, and {why}. Leave {said[0]}= out.")


def _identity_of_rows(data: MultiEnvironmentData, perturbing: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    columns = (*data.features.columns, data.outcome_name)
    arrays = data.X, data.y, data.environment_index.astype(np.int64)
    return {
        **_shape(data.n_rows, columns, data.environments),
        "data": _digest(columns, *_labels(data, data.features.groups), *arrays),
        "perturbed": _digest(sorted(perturbing.items())) if perturbing else None,
    }


def _identity_of_moments(moments: Moments) -> dict[str, Any]:
    arrays = moments.counts, moments.centre, moments.rest, moments.minimum, moments.maximum, moments.scatter
    return {
        **_shape(moments.n_rows, moments.columns, moments.environments),
        "data": _digest(moments.columns, *_labels(moments, moments.groups), *arrays),
        "perturbed": None,
    }


def _shape(n_rows: int, columns: Sequence[str], environments: Sequence[Any]) -> dict[str, Any]:
    return {"rows": n_rows, "columns": len(columns), "environments": [str(label) for label in environments]}


def _labels(read: MultiEnvironmentData | Moments, groups: Mapping[str, Sequence[str]]) -> tuple[Any, ...]:
    return sorted(groups.items()), read.environments, sorted(read.constants.items())


def _digest(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        content = np.ascontiguousarray(part).data if isinstance(part, np.ndarray) else repr(part).encode()
        digest.update(content)
    return digest.hexdigest()[:32]
