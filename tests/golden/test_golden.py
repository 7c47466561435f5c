"""The package still computes what it computed when the results were written."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from adapter import result_of
from cases import Case, all_cases
from compare import RESULTS, across_machines, differences, read

CASES = all_cases()


@functools.cache
def committed() -> dict[str, Any]:
    return read(RESULTS)


def test_every_case_has_a_result() -> None:
    assert [case["name"] for case in CASES if case["name"] not in committed()] == []
    assert len(committed()) == len(CASES) >= 150


def test_differences_are_found() -> None:
    a = {"p": [1.0, 1e-13], "log_x": -700.0, "q": 1e-40, "name": "x", "far": "inf", "flag": True}
    assert list(differences(a, a, exact=True)) == []
    near = a | {"p": [1.0, 2e-13], "log_x": -700.0 - 1e-10, "q": 1e-40 * (1.0 + 1e-9)}
    assert list(differences(a, near)) == []
    assert len(list(differences(a, near, exact=True))) == 3
    far = {
        "p": [1.0, 1e-9],
        "log_x": -700.0 - 1e-5,
        "q": 1.1e-40,
        "name": "z",
        "far": 1.0,
        "flag": 1,
    }
    assert len(list(differences(a, far))) == 6


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_golden(case: Case) -> None:
    assert across_machines(case["name"], committed()[case["name"]], result_of(case)) == []
