"""What makes fits of a few rows fast must not change what they find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba.core.options import DefaultOptions

from invariance.kernels.likelihoods import _largest, evaluate, evaluate_piecewise
from invariance.kernels.newton import maximise


@pytest.mark.skipif(not hasattr(DefaultOptions, "_nrt"), reason="this numba always counts references")
@pytest.mark.parametrize("kernel", [evaluate, evaluate_piecewise, maximise], ids=lambda kernel: kernel.__name__)
def test_references_are_not_counted(kernel: Any) -> None:
    assert kernel.targetoptions["_nrt"] is False


@pytest.mark.parametrize("n", range(1, 14))
def test_the_largest_wherever_it_stands(n: int) -> None:
    for place in range(n):
        values = np.full(20, -1.0)
        values[[2, 3 + n]] = 9.0
        values[3 + place] = -0.5
        assert _largest(values, 3, 3 + n) == -0.5
