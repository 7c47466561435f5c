"""The environments in the opening of a summary."""

from __future__ import annotations

import numpy as np

from invariance import BIP
from invariance.data import MultiEnvironmentData


def opening(labels: list[object]) -> str:
    rng = np.random.default_rng(0)
    n = len(labels)
    environments = np.repeat(np.array(labels, dtype=object), 20)
    data = MultiEnvironmentData.from_arrays(rng.normal(size=(20 * n, 2)), rng.normal(size=20 * n), environments)
    return " ".join(str(BIP().fit(data).posterior_.summary()).split("\n\n")[0].split())


def test_long_labels_are_told_apart() -> None:
    text = opening([f"treatment_2024_{place}_north_ward" for place in ("hospital", "clinics")])
    shown = text.split("40 rows: ")[1].split(" subsets")[0]
    first, second = (label.removesuffix(" (20)") for label in shown.split(", "))
    assert first != second
    assert "clinics" in second


def test_many_environments_are_counted() -> None:
    text = opening([f"site {i}" for i in range(30)])
    assert "site 0 (20), site 1 (20)" in text
    listed = text.count(" (20)")
    assert f"and {30 - listed} more" in text
