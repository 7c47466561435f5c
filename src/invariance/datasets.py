"""Invented blood pressures in hospitals, whose causes are known."""

from __future__ import annotations

import numpy as np

from ._tools.arrays import Floats
from .data.multi_environment import MultiEnvironmentData

_CAUSES = ("age", "exercise", "smoking")
_FEATURES = ("age", "pulse", "exercise", "smoking", "medication", "salt", "visits", "sleep")
# The hospitals, the new one last: how old and unhealthy their patients are, and how each effect follows blood pressure.
_HOSPITALS = ("north", "south", "east", "west", "coast", "hill", "centre")
_SHIFT = (0, 1, 2, 3, 0.5, 2.5, 4)
_FOLLOWS = {
    "pulse": (0.45, 0.1, -0.25, 0.3, 0.4, 0.35, -0.4),
    "medication": (0.12, 0.03, 0.08, -0.05, 0.1, 0.08, -0.1),
    "salt": (-0.15, 0.05, -0.03, 0.1, -0.12, -0.1, 0.15),
    "visits": (0.15, -0.1, 0.05, 0.0, 0.12, 0.1, -0.15),
    "sleep": (0.1, -0.05, 0.0, -0.1, 0.08, 0.06, 0.12),
}


def make_example(rows_per_environment: int = 150, seed: int = 11) -> MultiEnvironmentData:
    """Invented blood pressures in six hospitals.

    Age, exercise and smoking cause blood pressure, in every hospital alike. The other five features follow from it, in
    each hospital in another way: they predict well inside a hospital and mislead in the next. `truth` marks the causes.
    """
    return _hospitals(range(6), rows_per_environment, seed)


def make_new_hospital(rows: int = 150, seed: int = 12) -> MultiEnvironmentData:
    """A seventh hospital beside those of `make_example`: causes act as in the others, effects follow in another way."""
    return _hospitals(range(6, 7), rows, seed)


def _hospitals(numbers: range, n: int, seed: int) -> MultiEnvironmentData:
    rng = np.random.default_rng(seed)
    rows = np.vstack([_rows(h, n, rng) for h in numbers])
    return MultiEnvironmentData(
        X=np.ascontiguousarray(rows[:, :-1]),
        y=rows[:, -1].copy(),
        environment_index=np.repeat(np.arange(len(numbers)), n),
        feature_names=_FEATURES,
        environments=tuple(_HOSPITALS[h] for h in numbers),
        outcome_name="blood_pressure",
        environment_name="hospital",
        truth=np.isin(_FEATURES, _CAUSES),
    )


def _rows(h: int, n: int, rng: np.random.Generator) -> Floats:
    """(n, 9) the features and blood pressure of hospital h"""
    shift = _SHIFT[h]
    age = rng.normal(45 + 6 * shift, 10 + 2 * shift, n)
    exercise = rng.normal(4 - 0.6 * shift, 1.5, n) - 0.02 * (age - 45)
    smoking = np.clip(rng.normal(6 + 2.5 * shift, 4, n), 0, None)
    pressure = 90 + 0.6 * age - 2.5 * exercise + 0.9 * smoking + rng.normal(0, 4, n)
    follows = {name: slopes[h] * (pressure - 120) for name, slopes in _FOLLOWS.items()}
    pulse = 75 + follows["pulse"] + rng.normal(0, 4, n)
    medication = 3 + follows["medication"] + rng.normal(0, 1, n)
    salt = 8 + follows["salt"] + 0.05 * age + rng.normal(0, 1, n)
    visits = 4 + follows["visits"] + rng.normal(0, 1 + 0.3 * shift, n)
    sleep = 7 + follows["sleep"] + 0.2 * exercise + rng.normal(0, 0.8, n)
    return np.column_stack([age, pulse, exercise, smoking, medication, salt, visits, sleep, pressure])
