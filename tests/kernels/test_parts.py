"""Kernels that others call are parts of these."""

from __future__ import annotations

import numpy as np
from test_twins import SCORING

from invariance.kernels import parts
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
    assert parts.POSSIBLE
    assert _outer(np.arange(4.0), 2.0) == 13.0
    assert not _inner.overloads
    assert _inner(np.arange(4.0), 2.0) == 12.0
    assert len(_inner.overloads) == len(_outer.overloads) == 1
    assert _outer(np.arange(3), 2.0) == 7.0


def test_changes_by_flips_are_those_of_the_chains() -> None:
    for included in ([False] * 5, [True, False, True, False, False], [False, True, True, True, False]):
        state, expected = active_set(4, 5, 5), np.empty(5)
        assert load(SCORING, state, np.array(included))
        assert flip_scores(SCORING, state, expected)
        np.testing.assert_allclose(flip_changes(SCORING, state, np.array(included)), expected, rtol=1e-11)
        assert np.isnan(expected[SCORING.outcome])
