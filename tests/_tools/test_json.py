"""Dataclasses as JSON and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from invariance._tools.arrays import Floats, Integers, Mask
from invariance._tools.json import from_json, null, parse, read_object, to_json
from invariance.exceptions import DataError, FileError


class Kind(Enum):
    mean = "the mean"
    rate = "the rate"


@dataclass(frozen=True)
class Part:
    name: str
    weight: float
    kind: Kind = Kind.mean


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    pair: tuple[int, str]
    values: Floats
    counts: Integers
    flags: Mask
    scores: Mapping[str, float]
    either: Part | str
    missing: Part | None
    how: Literal["a", "b"]
    free: Any = None
    names: Sequence[str] = ()
    more: list[bool] = field(default_factory=list)


def whole(values: Any = ((1.5, np.nan), (-np.inf, 2.0))) -> Whole:
    return Whole(
        parts=(Part("x", np.float64(0.1)), Part("y", 0.9, Kind.rate)),
        pair=(2, "b"),
        values=np.array(values),
        counts=np.array([3, 4]),
        flags=np.array([True, False]),
        scores={"p": np.inf},
        either="text",
        missing=None,
        how="a",
        free={"k": [1, "z"]},
        names=("u", "v"),
        more=[True],
    )


def test_a_dataclass_comes_back_from_strict_json() -> None:
    read = from_json(Whole, parse(json.dumps(to_json(whole()), allow_nan=False)))
    for name, value in vars(whole()).items():
        found = getattr(read, name)
        assert type(found) is type(value)
        if isinstance(value, np.ndarray):
            assert_array_equal(found, value)
            assert found.dtype == value.dtype
        else:
            assert found == value


@given(st.lists(st.floats(width=64), min_size=1))
def test_numbers_come_back_to_the_bit(values: list[float]) -> None:
    back = from_json(Whole, parse(json.dumps(to_json(whole(values))))).values
    assert_array_equal(back, np.array(values))
    assert_array_equal(
        np.signbit(back[~np.isnan(back)]), np.signbit(np.array(values)[~np.isnan(values)])
    )


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        ("pair", [1], "a list of 2"),
        ("pair", ["1", "b"], r"Whole.pair\[0\] is '1', not an integer"),
        ("pair", [True, "b"], "integer"),
        ("values", [[1.0], [1.0, 2.0]], "not a number"),
        ("values", ["1.5"], "Whole.values is '1.5', not a number"),
        ("counts", [1.5], "integer"),
        ("flags", [1], "true or false"),
        ("parts", [{"weight": 1.0}], r"Whole.parts\[0\] has no 'name'"),
        ("parts", {}, "a list"),
        ("parts", [{"name": "x", "weight": True}], "not a number"),
        ("scores", {"p": None}, r"scores\['p'\]"),
        ("how", "c", "one of 'a', 'b'"),
        ("missing", {"name": "x", "weight": 1.0, "kind": "no"}, "one of 'the mean', 'the rate'"),
    ],
)
def test_a_value_of_another_type_is_named_by_its_place(place: str, value: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        from_json(Whole, to_json(whole()) | {place: value})


def test_what_json_cannot_hold_and_files_that_hold_none(tmp_path: Path) -> None:
    assert to_json({"a": np.array([1.0, np.nan])}, null) == {"a": [1.0, None]}
    with pytest.raises(TypeError, match="object"):
        to_json([object()])
    path = tmp_path / "saved.json"
    with pytest.raises(FileError, match=r"saved.json"):
        read_object(path, "a model")
    for content in (b"{", b'{"a": NaN}', b"\xff", b"[1]", b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"saved.json is not a model"):
            read_object(path, "a model")
