"""Dataclasses to and from plain values that JSON holds, without loss."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from ..exceptions import DataError, FileError
from .files import write_text

T = TypeVar("T")
_NOT_FINITE = ("-inf", "inf", "nan")
_hints = cache(get_type_hints)
_IN_WORDS = {
    dict: "an object",
    list: "a list",
    str: "text",
    int: "an integer",
    bool: "true or false",
}


def to_json(value: Any, not_finite: Callable[[float], Any] = str) -> Any:
    """Plain values of dataclasses, mappings, sequences, enums, paths, NumPy arrays and scalars.
    not_finite : what stands for NaN and infinities, by default their names"""
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind in "biu" or (value.dtype.kind == "f" and np.isfinite(value).all()):
            return value.tolist()
        value = value.tolist()
    match value:
        case Enum():
            return to_json(value.value, not_finite)
        case None | bool() | int():
            return value
        case str() | Path():
            return str(value)
        case float():
            return value if math.isfinite(value) else not_finite(value)
        case Mapping():
            return {str(key): to_json(item, not_finite) for key, item in value.items()}
        case list() | tuple():
            return [to_json(item, not_finite) for item in value]
        case frozenset():
            return sorted(to_json(item, not_finite) for item in value)
    if hasattr(value, "json_name"):
        return value.json_name
    if not is_dataclass(value):
        raise TypeError(f"JSON cannot hold a {type(value).__name__}")
    return {field.name: to_json(getattr(value, field.name), not_finite) for field in fields(value)}


def null(value: float) -> None:
    """`to_json(…, null)`: numbers that are not finite are null."""


def written(content: Any, path: str | Path | None = None) -> str:
    """Strict JSON, where a number that is not finite is null; also written to `path`."""
    text = json.dumps(to_json(content, null), indent=1, ensure_ascii=False, allow_nan=False)
    try:
        if path is not None:
            write_text(Path(path).expanduser(), text + "\n")
    except OSError as error:
        raise FileError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    return text


def from_json(kind: type[T], data: Any, place: str = "") -> T:
    """Return what `to_json` wrote of a type, of a dataclass by its annotations.

    ValueError names the place that does not fit. Annotations must resolve at run time: import their
    names outside of `if TYPE_CHECKING`.
    """
    result: T = _structured(kind, data, place or kind.__name__)
    return result


def _structured(kind: Any, data: Any, place: str) -> Any:
    origin = get_origin(kind)
    arguments = get_args(kind)
    if kind in (Any, Hashable):
        return data
    if hasattr(kind, "of_json_name"):
        try:
            return kind.of_json_name(data)
        except KeyError:
            _mismatch(data, "a known name", place)
    if kind is float:
        if isinstance(data, bool) or not (isinstance(data, int | float) or data in _NOT_FINITE):
            _mismatch(data, "a number", place)
        return float(data)
    if origin is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        known = arguments or [member.value for member in kind]
        if data not in known:
            _mismatch(data, f"one of {', '.join(map(repr, known))}", place)
        return data if origin is Literal else kind(data)
    if origin in (Union, UnionType):
        others = [option for option in arguments if option is not NoneType]
        if data is None and len(others) < len(arguments):
            return None
        for option in others[:-1]:
            with suppress(ValueError):
                return _structured(option, data, place)
        return _structured(others[-1], data, place)
    if origin is np.ndarray:
        return (
            data
            if isinstance(data, np.ndarray)
            else _array(np.dtype(get_args(arguments[1])[0]), data, place)
        )
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {
            key: _structured(arguments[1], item, f"{place}[{key!r}]")
            for key, item in _a(dict, data, place).items()
        }
    if isinstance(origin, type):  # tuple, list, frozenset, Sequence
        items = _a(list, data, place)
        kinds = (
            arguments
            if origin is tuple and arguments[-1] is not Ellipsis
            else arguments[:1] * len(items)
        )
        if len(kinds) != len(items):
            _mismatch(data, f"a list of {len(kinds)}", place)
        read = [
            _structured(each, item, f"{place}[{i}]")
            for i, (each, item) in enumerate(zip(kinds, items, strict=True))
        ]
        return origin(read) if origin in (list, frozenset) else tuple(read)
    return _dataclass(kind, data, place) if is_dataclass(kind) else _a(kind, data, place)


def _dataclass(kind: Any, data: Any, place: str) -> Any:
    content = _a(dict, data, place)
    hints = _hints(kind)
    given = {}
    for field in fields(kind):
        if field.name in content:
            given[field.name] = _structured(
                hints[field.name], content[field.name], f"{place}.{field.name}"
            )
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{place} has no {field.name!r}")
    return kind(**given)


def _array(dtype: np.dtype[Any], data: Any, place: str) -> Any:
    items = np.array(_a(list, data, place), dtype=object)
    kind = {"f": float, "b": bool, "i": int}[dtype.kind]
    if set(map(type, items.flat)) <= {kind}:
        return items.astype(dtype)
    return np.array([_structured(kind, item, place) for item in items.flat], dtype).reshape(
        items.shape
    )


def _a(kind: type[T], data: Any, place: str) -> T:
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        _mismatch(data, _IN_WORDS.get(kind, kind.__name__), place)
    return data


def _mismatch(data: Any, wanted: str, place: str) -> NoReturn:
    raise ValueError(f"{place} is {data!r:.60}, not {wanted}")


def parse(text: str) -> Any:
    """The value of strict JSON; ValueError for NaN and Infinity too."""
    return json.loads(text, parse_constant=lambda name: _mismatch(name, "strict JSON", "a number"))


def read_object(path: Path, what: str) -> dict[str, Any]:
    """The object in a file; FileError or DataError where there is none. what : "a saved model"."""
    try:
        content = parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(f"there is no file {str(path)!r} to read {what} from") from None
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not {what}: it is not valid JSON ({error})") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} is not {what}: it holds no JSON object")
    return content
