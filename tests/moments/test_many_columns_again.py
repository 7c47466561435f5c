"""Of more columns than sums of fourth powers are kept of, those are looked at again that predict."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyarrow")

from invariance import BIP, Moments


def test_causes_are_found_though_tails_are_heavy() -> None:
    rng = np.random.default_rng(3)
    place, X = np.arange(4_000) % 4, rng.standard_t(5, size=(4_000, 30))
    y = X[:, 0] - X[:, 1] + 0.3 * X[:, 2] + rng.standard_t(3, size=4_000)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(30)]).assign(y=y, site=place)
    model = BIP(environment="site", progress=False, random_state=1)
    model.fit_moments(Moments.from_rows(frame, "y", "site"), rows=frame)
    assert model.selected_features_ == ("x0", "x1", "x2")
