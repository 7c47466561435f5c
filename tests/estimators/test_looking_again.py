"""Which columns rows are read again for, where there are too many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from invariance.estimators.bip import _leading


def test_selected_features_come_first_and_then_those_that_predict() -> None:
    worth = np.array([0.1, 0.2, 0.9, 0.8, 0.3])
    target = SimpleNamespace(r2_many=lambda masks: masks @ worth)
    selected = np.array([False, True, False, False, False])
    found = SimpleNamespace(target=SimpleNamespace(model=target))
    model: Any = SimpleNamespace(mask=selected, findings=found)
    assert np.flatnonzero(_leading(model, np.ones(5, np.int64), 3)).tolist() == [1, 2, 3]
    assert np.flatnonzero(_leading(model, np.array([1, 1, 3, 1, 1]), 3)).tolist() == [1, 3, 4]
