"""Kernels that others call are parts of these."""

from __future__ import annotations

import gc

import numba
import numpy as np
from numba.core import compiler
from test_twins import SCORING

from invariance.kernels import compilation
from invariance.kernels.active_set import active_set, flip_changes, flip_scores, load
from invariance.kernels.compiled import kernel


@kernel(fastmath={"contract"})
def _inner(values, x):
    total = 0.0
    for i in range(values.size):
        total += values[i] * x
    return total


@kernel
def _outer(values, x):
    return _inner(values, x) + 1.0


def test_a_part_is_not_compiled_by_itself_until_python_calls_it() -> None:
    assert compilation.POSSIBLE
    assert _outer(np.arange(4.0), 2.0) == 13.0
    assert not _inner.overloads
    assert _inner(np.arange(4.0), 2.0) == 12.0
    assert len(_inner.overloads) == len(_outer.overloads) == 1
    assert _outer(np.arange(3), 2.0) == 7.0


@kernel
def _joined(values):
    return np.append(values, values**2 + 1.0)


def test_functions_of_numba_that_became_parts_serve_others() -> None:
    """And compiling leaves numba and the collection of objects as they were."""
    values = np.arange(3.0)
    for function in (_joined, numba.njit(error_model="numpy")(_joined.py_func)):
        assert function(values).tolist() == [0.0, 1.0, 2.0, 1.0, 2.0, 5.0]
    assert gc.isenabled()
    assert compiler.Flags is not compilation._Flags


def test_changes_by_flips_are_those_of_the_chains() -> None:
    for included in (
        [False] * 5,
        [True, False, True, False, False],
        [False, True, True, True, False],
    ):
        state = active_set(4, 5, 5)
        expected = np.empty(5)
        assert load(SCORING, state, np.array(included))
        assert flip_scores(SCORING, state, expected)
        np.testing.assert_allclose(
            flip_changes(SCORING, state, np.array(included)), expected, rtol=1e-11
        )
        assert np.isnan(expected[SCORING.outcome])
