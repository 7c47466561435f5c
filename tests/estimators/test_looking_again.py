"""Which columns rows are read again for, where there are too many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from invariance.estimators.looking_again import _leading


def test_leading_subsets_come_first_and_then_probable_features() -> None:
    inclusion = np.array([0.1, 0.2, 0.9, 0.8, 0.3])
    masks = np.array([[False, False, False, True, True], [True, True, True, False, False]])
    posterior = SimpleNamespace(masks=masks, inclusion=inclusion, feature_names=tuple("abcde"))
    model: Any = SimpleNamespace(predictive_=None, posterior_=posterior, selected_features_=("b",))
    assert np.flatnonzero(_leading(model, np.ones(5, np.int64), 4)).tolist() == [1, 2, 3, 4]
    assert np.flatnonzero(_leading(model, np.array([1, 1, 2, 1, 1]), 4)).tolist() == [0, 1, 3, 4]
