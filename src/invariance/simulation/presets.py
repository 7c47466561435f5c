"""Random structural models as in the paper's synthetic studies: every number of its supplement is a named parameter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._tools.arrays import Floats
from ..exceptions import SettingError
from .structural import StructuralModel

Range = tuple[float, float]


@dataclass(frozen=True)
class CoefficientBound:
    """A bound on re-drawn coefficients that follows the environment's m_e: factor · (m_e + offset) ** power."""

    offset: float
    factor: float = 1.0
    power: float = 1.0

    def __call__(self, intercept_mean: float) -> float:
        return self.factor * (intercept_mean + self.offset) ** self.power


@dataclass(frozen=True)
class SimulationParameters:
    """The numbers behind `random_model`. A range (low, high) is drawn from uniformly; low = high fixes the value.

    Once per model:
    true_features : p*_min and p*_max, the fewest and the most features before the outcome
    p_active : the values from which p_act is drawn, the probability that a coefficient of a feature is not 0
    coefficients : lb and ub, the range of absolute coefficients in the first environment
    noise : σ_min and σ_max; σ² is drawn from [σ_min², σ_max²] for every column

    Once per environment after the first:
    strength : the fraction ρ_e of features that are intervened on; ρ_e p is rounded to the nearest count, halves up
    intercept_mean : m_e; the intercept of an intervened feature is Normal(m_e, 1) with a random sign
    new_lower, new_upper : lb_e and ub_e from m_e, the range of absolute coefficients that are drawn anew
    factor_min, factor_extra : λ_min and λ_diff; σ² is multiplied by λ², λ from [λ_min, λ_min + λ_diff]
    p_change : the probability that a coefficient of an intervened feature is drawn anew (0 with probability
        1 − p_act), where otherwise it is that of the first environment. The supplement's prose has it the other way
        round: pass 1 − p_change for that reading.
    """

    true_features: tuple[int, int]
    p_active: tuple[float, ...]
    coefficients: Range
    noise: Range
    strength: Range
    intercept_mean: Range
    new_lower: CoefficientBound
    new_upper: CoefficientBound
    factor_min: Range
    factor_extra: Range
    p_change: Range

    def __post_init__(self) -> None:
        for name in ("true_features", "coefficients", "noise", "factor_min", "factor_extra", "strength", "p_change"):
            low, high = getattr(self, name)
            if not 0 <= low <= high < np.inf:
                raise SettingError(f"{name}={(low, high)!r} must be two finite numbers with 0 ≤ low ≤ high.")
        for name in ("strength", "p_change", "p_active"):
            if not getattr(self, name) or max(getattr(self, name)) > 1 or min(getattr(self, name)) < 0:
                raise SettingError(f"{name}={getattr(self, name)!r} must hold numbers from 0 to 1.")
        if self.noise[0] == 0 or self.factor_min[0] == 0:
            raise SettingError("noise and factor_min must be positive: a column without noise has no density.")
        for m in self.intercept_mean:
            if not 0 <= self.new_lower(m) <= self.new_upper(m) < np.inf:
                raise SettingError(f"new_lower and new_upper are not a range at intercept_mean={m!r}.")


THEORY = SimulationParameters(
    true_features=(1, 3),
    p_active=(1.0,),
    coefficients=(0.5, 2.0),
    noise=(0.1, 0.2),
    strength=(1.0, 1.0),
    intercept_mean=(0.0, 1.0),
    new_lower=CoefficientBound(0.01, power=2.0),
    new_upper=CoefficientBound(0.5, power=2.0),
    factor_min=(0.1, 0.2),
    factor_extra=(0.1, 0.5),
    p_change=(1.0, 1.0),
)
P10 = SimulationParameters(
    true_features=(1, 5),
    p_active=(0.6, 0.7, 0.8, 0.9),
    coefficients=(1.0, 2.1),
    noise=(0.1, 0.2),
    strength=(0.5, 1.0),
    intercept_mean=(0.0, 1.0),
    new_lower=CoefficientBound(0.01, factor=2.0),
    new_upper=CoefficientBound(0.5, factor=2.0),
    factor_min=(0.1, 0.2),
    factor_extra=(0.1, 0.5),
    p_change=(0.1, 0.3),
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
    n_environments: int, strength: float | Range, rng: np.random.Generator, p: int = 3, **changes: Any
) -> StructuralModel:
    """The model of the theory study; strength 1/3, 2/3 or 1 intervenes on one, two or all three features.

    `changes` are fields of `SimulationParameters` that differ from `THEORY`.
    """
    return random_model(p, n_environments, rng, _changed(THEORY, strength, changes))


def p10(
    n_environments: int, rng: np.random.Generator, strength: float | Range | None = None, p: int = 10, **changes: Any
) -> StructuralModel:
    """The model of the low-dimensional comparison. A number as strength fixes the fraction in all environments.

    The truth need not be the only invariant subset: features that no environment has intervened on leave others
    invariant, and so can a later feature that the outcome does not act on. About half of the models have
    mu_min() = 0 at E=2, one in six at E=5, one in fifty at E=20.

    `changes` are fields of `SimulationParameters` that differ from `P10`.
    """
    return random_model(p, n_environments, rng, _changed(P10, strength, changes))


def p450(
    n_environments: int, rng: np.random.Generator, strength: float | Range | None = None, p: int = 450, **changes: Any
) -> StructuralModel:
    """The model of the high-dimensional comparison, as published: features late in the ordering reach 1e30.

    `changes` are fields of `SimulationParameters` that differ from `P450`.
    """
    return random_model(p, n_environments, rng, _changed(P450, strength, changes))


def random_model(
    p: int, n_environments: int, rng: np.random.Generator, parameters: SimulationParameters
) -> StructuralModel:
    """Draw an ordering and all its conditionals.

    The outcome's place is uniform among those that `true_features` allows and the features are shuffled around it.
    Environments are drawn one after the other: with the same seed, fewer of them are the first ones of more.
    """
    fewest, most = parameters.true_features
    if p < 1 or n_environments < 1:
        raise SettingError(f"p={p} and n_environments={n_environments} must be at least 1.")
    if fewest > p:
        raise SettingError(f"true_features={parameters.true_features} asks for more than the p={p} features.")
    n_before = rng.integers(fewest, min(most, p), endpoint=True)
    ordering = np.insert(rng.permutation(p), n_before, p)
    position = np.argsort(ordering)
    earlier = position[None, :] < position[:, None]
    p_active = rng.choice(parameters.p_active)

    active = rng.random((p + 1, p + 1)) < p_active
    active[p] = True
    base = np.where(earlier & active, signed(rng, rng.uniform(*parameters.coefficients, (p + 1, p + 1))), 0.0)
    coefficients = np.repeat(base[None], n_environments, axis=0)
    intercepts = np.repeat(rng.standard_normal((1, p + 1)), n_environments, axis=0)
    low, high = parameters.noise
    variances = np.repeat(rng.uniform(low**2, high**2, (1, p + 1)), n_environments, axis=0)
    intervened = np.zeros((n_environments, p), dtype=bool)

    for e in range(1, n_environments):
        count = int(np.floor(rng.uniform(*parameters.strength) * p + 0.5))
        chosen = np.sort(rng.permutation(p)[:count])
        intervened[e, chosen] = True
        m = rng.uniform(*parameters.intercept_mean)
        intercepts[e, chosen] = signed(rng, rng.normal(m, 1.0, count))
        factor_min, factor_extra = rng.uniform(*parameters.factor_min), rng.uniform(*parameters.factor_extra)
        variances[e, chosen] *= rng.uniform(factor_min, factor_min + factor_extra, count) ** 2
        redrawn = earlier[chosen] & (rng.random((count, p + 1)) < rng.uniform(*parameters.p_change))
        bounds = parameters.new_lower(m), parameters.new_upper(m)
        new = signed(rng, rng.uniform(*bounds, (count, p + 1))) * (rng.random((count, p + 1)) < p_active)
        coefficients[e, chosen] = np.where(redrawn, new, coefficients[e, chosen])
    return StructuralModel(ordering, coefficients, intercepts, variances, intervened)


def _changed(
    parameters: SimulationParameters, strength: float | Range | None, changes: dict[str, Any]
) -> SimulationParameters:
    if strength is not None:
        fixed = (strength, strength) if isinstance(strength, int | float | np.number) else strength
        changes = {**changes, "strength": fixed}
    return replace(parameters, **changes)


def signed(rng: np.random.Generator, magnitudes: Floats) -> Floats:
    return np.where(rng.random(magnitudes.shape) < 0.5, magnitudes, -magnitudes)
