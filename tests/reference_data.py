"""Fixed data sets and what other software computed on them; tests that need them skip where the
folder is absent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from invariance.data import MultiEnvironmentData

REFERENCE = Path(__file__).resolve().parents[2] / "shared" / "reference"

needs_reference = pytest.mark.skipif(
    not REFERENCE.is_dir(), reason="the reference outputs are not at hand"
)


@dataclass(frozen=True, eq=False)
class Reference:
    """One data set: arrays of the .npz, and what the .json records about it."""

    name: str
    arrays: dict[str, np.ndarray]
    results: dict[str, Any]

    @property
    def data(self) -> MultiEnvironmentData:
        return MultiEnvironmentData.from_arrays(
            self.arrays["X"], self.arrays["y"], self.arrays["env"]
        )

    @property
    def fit_arguments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """X, y and environments, as fit() takes them."""
        return self.arrays["X"], self.arrays["y"], self.arrays["env"]


def reference_files(pattern: str = "p10_*.npz") -> list[str]:
    """Names of the data sets; one placeholder that is marked to be skipped when the folder is
    absent."""
    return sorted(path.stem for path in REFERENCE.glob(pattern)) or ["absent"]


@cache
def load_reference(name: str) -> Reference:
    if not REFERENCE.is_dir():
        pytest.skip("the reference outputs are not at hand")
    with np.load(REFERENCE / f"{name}.npz") as stored:
        arrays = dict(stored)
    path = REFERENCE / f"{name}.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    return Reference(name, arrays, results)
