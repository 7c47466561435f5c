"""Moments as an Arrow table, one row per environment: stored, shipped and read back to the last
bit. The pool is added up again: where columns were left out after that was done, its last digits
may differ."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from .._tools.arrays import Fields, Floats
from .._tools.json import from_json, to_json
from .._version import __version__
from ..data.encoding import Encoding
from ..data.labels import label_from_plain, label_to_plain
from ..data.weights import Weights
from ..exceptions import DataError
from .moments import OF_COLUMNS, Moments, filled_pool

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "invariance.moments/1"
_KEY = b"invariance"


def to_arrow(moments: Moments) -> pa.Table:
    """See `Moments.to_arrow`."""
    pa = _pyarrow()
    labels = [json.dumps(label_to_plain(label), allow_nan=False) for label in moments.environments]
    columns = {
        "label": pa.array(labels, pa.string()),
        "count": pa.array(moments.counts, pa.int64()),
    }
    arrays = {name: getattr(moments, name) for name in OF_COLUMNS}
    arrays["scatter"] = moments.scatter[:-1, *np.tril_indices(len(moments.columns))]
    for name, values in arrays.items():
        starts = np.arange(len(labels) + 1, dtype=np.int64) * values.shape[1]
        columns[name] = pa.LargeListArray.from_arrays(pa.array(starts), pa.array(values.ravel()))
    told = {
        "format": FORMAT,
        "version": __version__,
        "n_environments": moments.n_environments,
        "columns": list(moments.columns),
        "outcome": moments.outcome_name,
        "groups": {name: list(members) for name, members in moments.groups.items()},
        "encoding": to_json(moments.encoding),
        "constants": dict(moments.constants),
        "dropped_rows": [
            [label_to_plain(label), int(n)] for label, n in moments.dropped_rows.items()
        ],
        "environment_notes": list(moments.environment_notes),
        "weights": to_json(moments.weights),
    }
    return pa.table(columns).replace_schema_metadata(
        {_KEY: json.dumps(told, allow_nan=False).encode()}
    )


def from_arrow(table: Any) -> Moments:
    """See `Moments.from_arrow`."""
    pa = _pyarrow()
    try:
        told = json.loads(table.schema.metadata[_KEY])
        if told["format"] != FORMAT:
            raise ValueError(
                f"its format is {told['format']!r} of invariance {told.get('version')}, not "
                f"{FORMAT!r}"
            )
        return _read(table, told)
    except (KeyError, TypeError, ValueError, AttributeError, pa.ArrowException) as error:
        found = " ".join(str(error).split()) or type(error).__name__
        what = f"this {type(table).__name__} is no table of moments, or damaged ({found})"
        raise DataError(f"{what}: pass what Moments.to_arrow of this version gave.") from error


def _read(table: pa.Table, told: Fields) -> Moments:
    environments = tuple(label_from_plain(json.loads(text)) for text in table["label"].to_pylist())
    if not len(environments) == len(set(environments)) == int(told["n_environments"]):
        raise ValueError(f"{len(environments)} rows for {told['n_environments']} environments")
    columns = tuple(map(str, told["columns"]))
    d = len(columns)
    counts = table["count"].to_numpy().astype(np.int64)
    centre, rest, minimum, maximum = (_numbers(table, name, d) for name in OF_COLUMNS)
    local = np.empty((len(environments), d, d))
    below = np.tril_indices(d)
    local[:, *below] = local[:, *below[::-1]] = _numbers(table, "scatter", d * (d + 1) // 2)
    squares = np.diagonal(local, axis1=1, axis2=2)
    finite = all(np.isfinite(values).all() for values in (centre, rest, minimum, maximum, local))
    if not finite or (counts < 1).any() or (minimum > maximum).any() or (squares < 0.0).any():
        raise ValueError("no rows can have such moments")
    return Moments(
        columns=columns,
        outcome=columns.index(told["outcome"]),
        environments=environments,
        counts=counts,
        centre=centre,
        rest=rest,
        minimum=minimum,
        maximum=maximum,
        scatter=filled_pool(counts, centre, rest, local),
        groups={name: tuple(members) for name, members in told["groups"].items()},
        encoding=None if told["encoding"] is None else from_json(Encoding, told["encoding"]),
        constants={name: float(value) for name, value in told["constants"].items()},
        dropped_rows={label_from_plain(label): int(n) for label, n in told["dropped_rows"]},
        environment_notes=tuple(told["environment_notes"]),
        weights=None if told.get("weights") is None else from_json(Weights, told["weights"]),
    )


def _numbers(table: pa.Table, name: str, width: int) -> Floats:
    """(E, width) of a column of lists"""
    import pyarrow.compute as pc

    column = table[name].combine_chunks()
    if column.null_count or set(pc.list_value_length(column).to_pylist()) != {width}:
        raise ValueError(f"{name} should have {width} numbers in each row")
    values: Floats = column.flatten().to_numpy().reshape(-1, width).copy()
    return values


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise DataError(
            "moments are stored with pyarrow: pip install 'invariant-prediction[parquet]'."
        ) from error
    return pyarrow
