"""The paper's three two-feature examples: two invariant subsets in two environments, one in three."""

from __future__ import annotations

import numpy as np

from ..exceptions import SettingError
from .structural import StructuralModel

Three = tuple[float, float, float]


def example_1(
    n_environments: int = 3,
    x1_means: Three = (0.0, 2.0, 5.0),
    y_intercept: float = 0.5,
    x2_on_x1: Three = (0.0, 0.0, 1.0),
    x2_intercept: float = 0.1,
    sd: float = 0.1,
) -> StructuralModel:
    """x1 → y → x2, and in the third environment also x1 → x2. The truth is {x1}; with two also {x1, x2} is invariant.

    x1 ~ N(x1_means[e], sd²), y ~ N(x1 + y_intercept, sd²), x2 ~ N(x2_on_x1[e]·x1 + y + x2_intercept, sd²).
    """
    slopes = [{(2, 0): 1.0, (1, 0): on_x1, (1, 2): 1.0} for on_x1 in x2_on_x1]
    intercepts = [[mean, x2_intercept, y_intercept] for mean in x1_means]
    return _example((0, 2, 1), slopes, intercepts, sd, n_environments)


def example_2(
    n_environments: int = 3,
    x1_means: Three = (0.0, 2.0, 5.0),
    x2_means: Three = (0.5, 0.5, -0.5),
    y_intercept: float = 0.1,
    sd: float = 0.1,
) -> StructuralModel:
    """x1 → y ← x2, and x2 shifts in the third environment. The truth is {x1, x2}; with two also {x1} is invariant.

    x1 ~ N(x1_means[e], sd²), x2 ~ N(x2_means[e], sd²), y ~ N(x1 + x2 + y_intercept, sd²).
    """
    slopes = [{(2, 0): 1.0, (2, 1): 1.0}] * 3
    intercepts = [[x1, x2, y_intercept] for x1, x2 in zip(x1_means, x2_means, strict=True)]
    return _example((0, 1, 2), slopes, intercepts, sd, n_environments)


def example_3(
    n_environments: int = 3,
    x1_means: Three = (0.0, 2.0, 5.0),
    y_intercept: float = 0.5,
    x2_on_x1: Three = (1.0, -2.0, 1.0),
    x2_on_y: Three = (0.0, 0.0, 1.0),
    x2_intercepts: Three = (0.1, 0.1, 0.0),
    sd: float = 0.1,
) -> StructuralModel:
    """y ← x1 → x2, and in the third environment also y → x2. The truth is {x1}; with two also {x1, x2} is invariant.

    x1 ~ N(x1_means[e], sd²), y ~ N(x1 + y_intercept, sd²),
    x2 ~ N(x2_on_x1[e]·x1 + x2_on_y[e]·y + x2_intercepts[e], sd²).
    """
    slopes = [{(2, 0): 1.0, (1, 0): on_x1, (1, 2): on_y} for on_x1, on_y in zip(x2_on_x1, x2_on_y, strict=True)]
    intercepts = [[x1, x2, y_intercept] for x1, x2 in zip(x1_means, x2_intercepts, strict=True)]
    return _example((0, 2, 1), slopes, intercepts, sd, n_environments)


def _example(
    ordering: tuple[int, int, int],
    slopes: list[dict[tuple[int, int], float]],
    intercepts: list[list[float]],
    sd: float,
    n_environments: int,
) -> StructuralModel:
    """Columns 0, 1 and 2 are x1, x2 and y; slopes[e][i, j] is the effect of column j on column i."""
    if n_environments not in (2, 3):
        raise SettingError(f"n_environments={n_environments!r}: the examples have 2 or 3 environments.")
    coefficients = np.zeros((3, 3, 3))
    for e, effects in enumerate(slopes):
        for (i, j), effect in effects.items():
            coefficients[e, i, j] = effect
    shifts = np.array(intercepts)
    differs = (coefficients != coefficients[0]).any(axis=2) | (shifts != shifts[0])
    kept = slice(n_environments)
    return StructuralModel(
        np.array(ordering), coefficients[kept], shifts[kept], np.full((n_environments, 3), sd**2), differs[kept, :-1]
    )
