"""Sums over rows in an order that no compiler chooses: a kernel from the cache gives the same last digits."""

from __future__ import annotations

import numpy as np
import pytest

from invariance.kernels import scatter as row_blocks


@pytest.mark.parametrize("n", [1, 7, 8, 1003])
def test_eight_sums_side_by_side(n: int) -> None:
    values = np.random.default_rng(n).normal(1e6, 1.0, n)
    whole = n - n % 8
    sums = np.zeros(8)
    for eight in values[:whole].reshape(-1, 8):
        sums += eight
    for value in values[whole:]:
        sums[0] += value
    a, b, c, d, e, f, g, h = sums.tolist()
    assert row_blocks._sum(values) == ((a + b) + (c + d)) + ((e + f) + (g + h))


def test_no_kernel_over_blocks_of_rows_lets_the_compiler_reorder_sums() -> None:
    kernels = [each for each in vars(row_blocks).values() if hasattr(each, "targetoptions")]
    assert len(kernels) > 4
    for kernel in kernels:
        fast = kernel.targetoptions.get("fastmath", set())
        assert fast is not True, kernel.__name__
        assert "reassoc" not in (fast or set()), kernel.__name__
