"""Posterior to and from JSON, and to an xarray DataTree.

The JSON is strict and lossless. A number that is not finite is the string "-inf" or "inf" in the numeric fields, and
{"$float": "-inf"} in the free-form ones (environments, diagnostics). A subset is the list of the positions of its
features. `n_subsets` from 2**53 on is a hexadecimal string. Environment labels that JSON lacks are kept as text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .._tools.arrays import Floats, Mask
from ..exceptions import DataError, FileError
from .summary import Verdict

if TYPE_CHECKING:
    from .posterior import Evidence, Posterior

FORMAT = "invariance.posterior/1"
_NOT_FINITE = ("-inf", "inf", "nan")
_LARGEST_PLAIN_INTEGER = 2**53
_TEXTS = ("engine", "prior", "outcome_name", "model", "model_reason", "kind")
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
    """The posterior, without its source, and the keys of `more`, as strict JSON on one line per field."""
    content = to_plain(posterior) | dict(more or {})
    lines = (f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in content.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def to_plain(posterior: Posterior) -> dict[str, Any]:
    """The posterior, without its source, as values that JSON can hold."""
    labels = [label.item() if isinstance(label, np.generic) else label for label in posterior.environments]
    lacking = {type(label).__name__ for label in labels if not isinstance(label, str | int | float | None)}
    labels = [label if isinstance(label, str | int | float | None) else str(label) for label in labels]
    notes = list(posterior.notes)
    if lacking:
        notes.append(f"Environment labels of type {', '.join(sorted(lacking))} were saved as text.")
    evidence = None
    if posterior.judge is not None or posterior.table_evidence is not None:
        columns = posterior.leading_evidence(_WITH_EVIDENCE).columns()
        evidence = {name: _numbers(values) for name, values in columns.items()}
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
        "n_subsets": _count(posterior.n_subsets),
        **{key: str(getattr(posterior, key)) for key in _TEXTS},
        "environments": [_encode(label, "environments") for label in labels],
        "counts": posterior.counts.tolist(),
        "notes": notes,
        "diagnostics": _encode(posterior.diagnostics, "diagnostics"),
        "verdict": None if posterior.verdict is None else asdict(posterior.verdict),
        "table_evidence": evidence,
        "lowest_level": posterior.lowest_level,
    }


def from_json(path_or_text: str | Path) -> tuple[dict[str, Any], str]:
    """The arguments of the Posterior that `to_json` wrote, and where they are from; DataError says what is wrong."""
    text, origin = _read(path_or_text)
    try:
        content = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise DataError(f"{origin} is not valid JSON: {error}") from error
    if not isinstance(content, dict) or "format" not in content:
        raise DataError(f'{origin} is not a saved posterior: it has no key "format"')
    if content["format"] != FORMAT:
        raise DataError(f"{origin} has the format {content['format']!r}, and this version reads {FORMAT!r}")
    content = _LATER_KEYS | content
    missing = [key for key in _DECODERS if key not in content]
    if missing:
        raise DataError(f"{origin} is incomplete: it has no key {', '.join(map(repr, missing))}")
    arguments: dict[str, Any] = {}
    for key, decode in _DECODERS.items():
        try:
            value = decode(content[key])
            if key == "subsets":
                value = _masks(value, len(arguments["feature_names"]))
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
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
    whole = Dataset({"inclusion": ("feature", posterior.inclusion.copy())}, coords={"feature": names})
    if posterior.pairwise is not None:
        pairs = ("feature", "other_feature"), posterior.pairwise.copy()
        whole = whole.assign_coords(other_feature=names).assign(pairwise=pairs)
    subsets = Dataset(
        {
            "mask": (("subset", "feature"), posterior.masks.copy()),
            "log_ratio": ("subset", posterior.log_ratios.copy()),
            "probability": ("subset", np.exp(posterior.log_probabilities)),
        },
        coords={"subset": np.arange(len(posterior.masks)), "feature": names},
    )
    tree = DataTree.from_dict({"posterior": whole, "subsets": subsets})
    plain = ("model", "model_reason", "engine", "prior", "log_evidence", "entropy")
    tree.attrs.update(
        {key: getattr(posterior, key) for key in plain},
        outcome=posterior.outcome_name,
        n_subsets=_count(posterior.n_subsets),
        environments=[str(label) for label in posterior.environments],
        counts=posterior.counts.tolist(),
        notes=list(posterior.notes),
        verdict="" if posterior.verdict is None else posterior.verdict.sentence,
    )
    return tree


def _count(n_subsets: int) -> int | str:
    return n_subsets if n_subsets < _LARGEST_PLAIN_INTEGER else hex(n_subsets)


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _numbers(values: Floats) -> list[float | str]:
    return [_number(value) for value in values.tolist()]


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


def _is(kind: type, value: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise TypeError(f"{value!r:.60} is not a {kind.__name__}")
    return value


def _decode_number(value: Any) -> float:
    return float(value) if value in _NOT_FINITE else float(_is(int | float, value))  # type: ignore[arg-type]


def _decode_numbers(values: Any) -> Floats:
    return np.array([_decode_number(value) for value in _is(list, values)], dtype=np.float64)


def decode_verdict(value: Any) -> Verdict:
    log_ratio, expected, tail = (float(value[name]) for name in ("log_ratio", "expected", "tail_probability"))
    n_judged, n_exceptions = int(value["n_judged"]), int(value["n_exceptions"])
    exception = None if value["exception"] is None else tuple(map(str, value["exception"]))
    return Verdict(log_ratio, expected, tail, n_judged, bool(value["all_judged"]), n_exceptions, exception)


def _decode_evidence(value: Any) -> Evidence[Floats]:
    from .posterior import Evidence

    columns = {field.name: _decode_numbers(value[field.name]) for field in fields(Evidence)}
    if len({len(numbers) for numbers in columns.values()}) > 1:
        raise ValueError("as many numbers of each kind are needed")
    return Evidence(**columns)


def _masks(subsets: list[Any], p: int) -> Mask:
    masks = np.zeros((len(subsets), p), dtype=bool)
    for mask, positions in zip(masks, subsets, strict=True):
        members = [_is(int, position) for position in _is(list, positions)]
        if min(members, default=0) < 0:
            raise IndexError(f"feature {min(members)}")
        mask[members] = True
    return masks


def _optional(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else decode(value)


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_is(str, item) for item in _is(list, value))


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "feature_names": _texts,
    "subsets": lambda value: _is(list, value),
    "pairwise": _optional(lambda value: np.array([_decode_numbers(row) for row in value])),
    **dict.fromkeys(("inclusion", "log_ratios", "log_probabilities"), _decode_numbers),
    **dict.fromkeys(("log_evidence", "entropy"), _decode_number),
    "n_subsets": lambda value: int(value, 16) if isinstance(value, str) else _is(int, value),
    **dict.fromkeys(_TEXTS, lambda value: _is(str, value)),
    "environments": lambda value: tuple(_decode(_is(list, value))),
    "counts": lambda value: np.array([_is(int, item) for item in value], dtype=np.int64),
    "notes": _texts,
    "diagnostics": lambda value: _decode(_is(dict, value)),
    "verdict": _optional(decode_verdict),
    "table_evidence": _optional(_decode_evidence),
    "lowest_level": _optional(_decode_number),
}


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}, which strict JSON has no word for")


def _read(path_or_text: str | Path) -> tuple[str, str]:
    """The text, and its origin for messages."""
    if isinstance(path_or_text, str) and path_or_text.lstrip()[:1] in ("", "{", "["):
        return path_or_text, "the text"
    try:
        return Path(path_or_text).read_text(encoding="utf-8"), str(path_or_text)
    except OSError as error:
        raise FileError(f"{str(path_or_text)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path_or_text} is not a saved posterior: it is not UTF-8 text") from error
