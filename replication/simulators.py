"""Models of the paper's studies: theory, 450 features, and the examples that one or two
environments leave open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from invariance.exceptions import SettingError
from invariance.simulation import P10, CoefficientBound, StructuralModel, random_model
from invariance.simulation.presets import Range, changed

THEORY = replace(
    P10,
    true_features=(1, 3),
    p_active=(1.0,),
    coefficients=(0.5, 2.0),
    strength=(1.0, 1.0),
    new_lower=CoefficientBound(0.01, power=2.0),
    new_upper=CoefficientBound(0.5, power=2.0),
    p_change=(1.0, 1.0),
)
P450 = replace(
    P10,
    true_features=(1, 10),
    p_active=(0.1, 0.15, 0.2, 0.25),
    intercept_mean=(0.0, 0.4),
    new_lower=CoefficientBound(0.01),
    new_upper=CoefficientBound(0.01, factor=1.5),
)


def theory(
    n_environments: int,
    strength: float | Range,
    rng: np.random.Generator,
    p: int = 3,
    **changes: Any,
) -> StructuralModel:
    """The model of the theory study; strength 1/3, 2/3 or 1 intervenes on one, two or all three
    features.

    changes : fields of `SimulationParameters` that differ from `THEORY`
    """
    return random_model(p, n_environments, rng, changed(THEORY, strength, changes))


def p450(
    n_environments: int,
    rng: np.random.Generator,
    strength: float | Range | None = None,
    p: int = 450,
    **changes: Any,
) -> StructuralModel:
    """The model of the high-dimensional comparison, as published: features late in the ordering
    reach 1e30.

    changes : fields of `SimulationParameters` that differ from `P450`
    """
    return random_model(p, n_environments, rng, changed(P450, strength, changes))


def example_1(n_environments: int = 3) -> StructuralModel:
    """x1 → y → x2, and in the third environment also x1 → x2. The truth is {x1}; with two also {x1,
    x2} is invariant.

    x1 ~ N(0, 2 or 5; 0.1²), y ~ N(x1 + 0.5, 0.1²), x2 ~ N(y + 0.1, 0.1²), in the third N(x1 + y +
    0.1, 0.1²).
    """
    slopes = [{(2, 0): 1.0, (1, 0): on_x1, (1, 2): 1.0} for on_x1 in (0.0, 0.0, 1.0)]
    return _example(
        (0, 2, 1), slopes, [[mean, 0.1, 0.5] for mean in (0.0, 2.0, 5.0)], n_environments
    )


def example_3(n_environments: int = 3) -> StructuralModel:
    """y ← x1 → x2, and in the third environment also y → x2. The truth is {x1}; with two also {x1,
    x2} is invariant.

    x1 ~ N(0, 2 or 5; 0.1²), y ~ N(x1 + 0.5, 0.1²), x2 ~ N(x1 + 0.1, −2 x1 + 0.1 or x1 + y; 0.1²).
    """
    slopes = [
        {(2, 0): 1.0, (1, 0): on_x1, (1, 2): on_y}
        for on_x1, on_y in ((1.0, 0.0), (-2.0, 0.0), (1.0, 1.0))
    ]
    return _example(
        (0, 2, 1), slopes, [[0.0, 0.1, 0.5], [2.0, 0.1, 0.5], [5.0, 0.0, 0.5]], n_environments
    )


def _example(
    ordering: tuple[int, int, int],
    slopes: list[dict[tuple[int, int], float]],
    intercepts: list[list[float]],
    n_environments: int,
) -> StructuralModel:
    """Columns 0, 1 and 2 are x1, x2 and y; slopes[e][i, j] is the effect of column j on column
    i."""
    if n_environments not in (2, 3):
        raise SettingError(
            f"n_environments={n_environments!r}: the examples have 2 or 3 environments."
        )
    coefficients = np.zeros((3, 3, 3))
    shifts = np.array(intercepts)
    for e, effects in enumerate(slopes):
        for place, effect in effects.items():
            coefficients[e][place] = effect
    differs = (coefficients != coefficients[0]).any(axis=2) | (shifts != shifts[0])
    kept = slice(n_environments)
    variances = np.full((n_environments, 3), 0.1**2)
    return StructuralModel(
        np.array(ordering), coefficients[kept], shifts[kept], variances, differs[kept, :-1]
    )
