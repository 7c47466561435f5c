"""Posterior to and from JSON, and to an xarray DataTree.

The JSON is strict (no NaN or Infinity literals) and lossless: finite numbers are written so that they read
back as the same float64; in the numeric fields a number that is not finite is the string "-inf" or
"inf"; in the free-form fields (environments, diagnostics) it is {"$float": "-inf"}. A subset is the list of
the positions of its features. `n_subsets` from 2**53 on is a hexadecimal string. Environment labels that are
not text, numbers, booleans or None are kept as text, and a note says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .._tools.arrays import Floats, Mask
from ..exceptions import DataError, FileError
from .posterior import Evidence
from .summary import Verdict

if TYPE_CHECKING:
    from .posterior import Posterior

FORMAT = "invariance.posterior/1"
_NOT_FINITE = ("-inf", "inf", "nan")
_LARGEST_PLAIN_INTEGER = 2**53
_TEXTS = ("engine", "prior", "outcome_name", "model", "model_reason", "kind")
_KEYS = (
    *("feature_names", "inclusion", "pairwise", "subsets", "log_ratios", "log_probabilities"),
    *("log_evidence", "entropy", "n_subsets", *_TEXTS, "environments", "counts", "notes", "diagnostics"),
    *("verdict", "table_evidence", "lowest_level"),
)
# So many subsets of the table are saved with their evidence.
_WITH_EVIDENCE = 100
# What a file holds that was written before there was such a key.
_LATER_KEYS = {
    "verdict": None,
    "model": "linear Gaussian",
    "model_reason": "",
    "table_evidence": None,
    "lowest_level": None,
    "kind": "invariant",
}


def to_json(posterior: Posterior, more: Mapping[str, Any] | None = None) -> str:
    """The posterior, without its source, as strict JSON on one line per field; after it, what else is to be kept."""
    content = to_plain(posterior) | dict(more or {})
    lines = (f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in content.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def to_plain(posterior: Posterior) -> dict[str, Any]:
    """The posterior, without its source, as values that JSON can hold."""
    labels, changed = _labels(posterior.environments)
    notes = list(posterior.notes)
    if changed:
        notes.append(f"Environment labels of type {', '.join(changed)} were saved as text.")
    count = posterior.n_subsets
    return {
        "format": FORMAT,
        "feature_names": list(posterior.feature_names),
        "inclusion": _numbers(posterior.inclusion),
        "pairwise": None if posterior.pairwise is None else [_numbers(row) for row in posterior.pairwise],
        "subsets": [np.flatnonzero(mask).tolist() for mask in posterior.masks],
        "log_ratios": _numbers(posterior.log_ratios),
        "log_probabilities": _numbers(posterior.log_probabilities),
        "log_evidence": _number(posterior.log_evidence),
        "entropy": _number(posterior.entropy),
        "n_subsets": count if count < _LARGEST_PLAIN_INTEGER else hex(count),
        **{key: str(getattr(posterior, key)) for key in _TEXTS},
        "environments": [_encode(label, "environments") for label in labels],
        "counts": posterior.counts.tolist(),
        "notes": notes,
        "diagnostics": _encode(posterior.diagnostics, "diagnostics"),
        "verdict": None if posterior.verdict is None else posterior.verdict.to_plain(),
        "table_evidence": _evidence(posterior),
        "lowest_level": posterior.lowest_level,
    }


def from_json(path_or_text: str | Path) -> tuple[dict[str, Any], str]:
    """The arguments of the Posterior that `to_json` wrote, and where they are from; DataError says what is wrong."""
    text, origin = _read(path_or_text)
    try:
        content = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{origin} is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
    except ValueError as error:
        raise DataError(f"{origin} is not valid JSON: {error}") from error
    if not isinstance(content, dict) or "format" not in content:
        raise DataError(f'{origin} is not a saved posterior: it has no key "format"')
    if content["format"] != FORMAT:
        raise DataError(
            f"{origin} has the format {content['format']!r}, and this version reads {FORMAT!r}; "
            "read it with the version of invariance that wrote it"
        )
    content = _LATER_KEYS | content
    missing = [key for key in _KEYS if key not in content]
    if missing:
        raise DataError(f"{origin} is incomplete: it has no key {', '.join(map(repr, missing))}")
    arguments: dict[str, Any] = {}
    for key in _KEYS:
        try:
            value = _decode_field(key, content)
        except (TypeError, ValueError) as error:
            raise DataError(f"{origin} is damaged at key {key!r}: {error}") from error
        arguments["masks" if key == "subsets" else key] = value
    return arguments, origin


def to_datatree(posterior: Posterior) -> Any:
    """xarray.DataTree: "posterior" (inclusion, pairwise) and "subsets" (mask, log_ratio, probability)."""
    try:
        from xarray import Dataset, DataTree
    except ImportError as error:
        raise ImportError("to_datatree() needs xarray: pip install 'invariance[xarray]'") from error
    names = list(posterior.feature_names)
    coords: dict[str, Any] = {"feature": names}
    variables: dict[str, Any] = {"inclusion": ("feature", posterior.inclusion.copy())}
    if posterior.pairwise is not None:
        coords["other_feature"] = names
        variables["pairwise"] = (("feature", "other_feature"), posterior.pairwise.copy())
    subsets = Dataset(
        {
            "mask": (("subset", "feature"), posterior.masks.copy()),
            "log_ratio": ("subset", posterior.log_ratios.copy()),
            "probability": ("subset", np.exp(posterior.log_probabilities)),
        },
        coords={"subset": np.arange(len(posterior.masks)), "feature": names},
    )
    count = posterior.n_subsets
    attributes = {
        "outcome": posterior.outcome_name,
        "model": posterior.model,
        "model_reason": posterior.model_reason,
        "engine": posterior.engine,
        "prior": posterior.prior,
        "log_evidence": posterior.log_evidence,
        "entropy": posterior.entropy,
        "n_subsets": count if count < _LARGEST_PLAIN_INTEGER else hex(count),
        "environments": [str(label) for label in posterior.environments],
        "counts": posterior.counts.tolist(),
        "notes": list(posterior.notes),
        "verdict": "" if posterior.verdict is None else posterior.verdict.sentence,
    }
    tree = DataTree.from_dict({"posterior": Dataset(variables, coords=coords), "subsets": subsets})
    tree.attrs.update(attributes)
    return tree


def _evidence(posterior: Posterior) -> dict[str, Any] | None:
    if posterior.judge is None and posterior.table_evidence is None:
        return None
    columns = posterior.leading_evidence(_WITH_EVIDENCE).columns()
    return {name: _numbers(values) for name, values in columns.items()}


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _numbers(values: Floats) -> list[float | str]:
    return [_number(value) for value in values.tolist()]


def _labels(environments: tuple[Hashable, ...]) -> tuple[list[Any], list[str]]:
    """Labels that JSON can hold, and the names of the types that had to become text."""
    plain = [label.item() if isinstance(label, np.generic) else label for label in environments]
    keep = [label is None or isinstance(label, str | int | float) for label in plain]
    changed = sorted({type(label).__name__ for label, kept in zip(plain, keep, strict=True) if not kept})
    return [label if kept else str(label) for label, kept in zip(plain, keep, strict=True)], changed


def _encode(value: Any, where: str) -> Any:
    """A value of a free-form field as JSON; tuples and arrays become lists, keys become text."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, Mapping):
        return {str(key): _encode(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item, where) for item in value]
    raise TypeError(f"{where} holds a {type(value).__name__}, which JSON cannot hold")


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        if list(value) == ["$float"] and value["$float"] in _NOT_FINITE:
            return float(value["$float"])
        return {key: _decode(item) for key, item in value.items()}
    return [_decode(item) for item in value] if isinstance(value, list) else value


def _decode_field(key: str, content: dict[str, Any]) -> Any:
    value = content[key]
    match key:
        case "pairwise":
            if value is None:
                return None
            rows = [_decode_numbers(row) for row in _list(value)]
            p = len(content["feature_names"])
            if [len(row) for row in rows] != [p] * p:
                raise ValueError(f"{p} rows of {p} numbers are needed")
            return np.array(rows)
        case "subsets":
            return _decode_masks(value, len(content["feature_names"]))
        case "inclusion" | "log_ratios" | "log_probabilities":
            owner = "feature_names" if key == "inclusion" else "subsets"
            if len(_list(value)) != len(content[owner]):
                raise ValueError(f"{len(value)} numbers for {len(content[owner])} {owner}")
            return _decode_numbers(value)
        case "log_evidence" | "entropy":
            return float(_decode_numbers([value])[0])
        case "n_subsets":
            return int(value, 16) if isinstance(value, str) else _integer(value)
        case "counts":
            return np.array([_integer(item) for item in _list(value)], dtype=np.int64)
        case "environments":
            return tuple(_decode(_list(value)))
        case "feature_names" | "notes":
            return tuple(_text(item) for item in _list(value))
        case "diagnostics":
            if not isinstance(value, dict):
                raise TypeError("an object is needed")
            return {name: _decode(item) for name, item in value.items()}
        case "verdict":
            return None if value is None else Verdict.from_plain(value)
        case "lowest_level":
            return None if value is None else float(_decode_numbers([value])[0])
        case "table_evidence":
            return None if value is None else _decode_evidence(value, len(content["subsets"]))
        case _:
            return _text(value)


def _decode_evidence(value: Any, n_subsets: int) -> Evidence:
    columns = {field.name: _decode_numbers(value[field.name]) for field in fields(Evidence) if field.name in value}
    lengths = {len(numbers) for numbers in columns.values()}
    if len(columns) < len(fields(Evidence)) or len(lengths) > 1 or max(lengths) > n_subsets:
        raise ValueError("as many numbers of each kind are needed, at most one for each subset")
    return Evidence(**columns)


def _decode_numbers(values: Any) -> Floats:
    numbers = []
    for value in _list(values):
        if isinstance(value, bool) or not (isinstance(value, int | float) or value in _NOT_FINITE):
            raise TypeError(f"{value!r} is not a number")
        numbers.append(float(value))
    return np.array(numbers, dtype=np.float64)


def _decode_masks(value: Any, p: int) -> Mask:
    masks = np.zeros((len(_list(value)), p), dtype=bool)
    for row, positions in enumerate(value):
        for position in _list(positions):
            if not 0 <= _integer(position) < p:
                raise ValueError(f"subset {row} names feature {position}, but there are only {p} features")
            masks[row, position] = True
    return masks


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"a list is needed, not {value!r:.60}")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is not an integer")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}, which strict JSON has no word for")


def _read(path_or_text: str | Path) -> tuple[str, str]:
    """The text, and what to call its origin in a message."""
    if isinstance(path_or_text, str) and path_or_text.lstrip()[:1] in ("", "{", "["):
        return path_or_text, "the text"
    path = Path(path_or_text)
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except FileNotFoundError:
        raise FileError(f"there is no file {str(path)!r} to read a posterior from") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a saved posterior: it is not UTF-8 text") from error
