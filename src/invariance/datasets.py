"""Small data sets whose truth is known."""

from __future__ import annotations

import numpy as np

from .data import MultiEnvironmentData

_FEATURES = ("age", "income", "exercise", "smoking", "salt", "sleep", "pulse", "medication")
_HOSPITALS = ("north", "south", "east", "west")
_TRUE = ("age", "exercise", "smoking")


def make_example(rows_per_environment: int = 150, seed: int = 7) -> MultiEnvironmentData:
    """Invented blood pressures in four hospitals.

    Age, exercise and smoking cause blood pressure alike everywhere. Pulse and medication follow from it, in each
    hospital in another way: they predict well inside a hospital and mislead in the next. Income, salt and sleep vary
    with the hospital and do nothing. `truth` marks the three causes.
    """
    rng = np.random.default_rng(seed)
    blocks = []
    for h in range(len(_HOSPITALS)):
        n = rows_per_environment
        age = rng.normal(45 + 6 * h, 10 + 2 * h, n)
        income = rng.normal(30 + 4 * h, 8, n) + 0.2 * age
        exercise = rng.normal(4 - 0.6 * h, 1.5, n) - 0.02 * (age - 45)
        smoking = np.clip(rng.normal(6 + 2.5 * h, 4, n), 0, None)
        salt = rng.normal(8 + h, 2, n)
        sleep = rng.normal(7, 0.8 + 0.2 * h, n)
        pressure = 90 + 0.6 * age - 2.5 * exercise + 0.9 * smoking + rng.normal(0, 4, n)
        pulse = 40 + (0.35 - 0.12 * h) * pressure + rng.normal(0, 3 + h, n)
        medication = 0.08 * (pressure - 100) * (1 + 0.5 * h) + 0.6 * h + rng.normal(0, 1, n)
        blocks.append(np.column_stack([age, income, exercise, smoking, salt, sleep, pulse, medication, pressure]))
    rows = np.vstack(blocks)
    return MultiEnvironmentData(
        X=np.ascontiguousarray(rows[:, :-1]),
        y=rows[:, -1].copy(),
        environment_index=np.repeat(np.arange(len(_HOSPITALS)), rows_per_environment),
        feature_names=_FEATURES,
        environments=_HOSPITALS,
        outcome_name="blood_pressure",
        environment_name="hospital",
        truth=np.isin(_FEATURES, _TRUE),
    )
