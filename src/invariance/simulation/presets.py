"""Random structural models of the paper's synthetic studies.

Every number of the supplement (Wu et al. 2025, arXiv:2506.22675, appendix C) is a named parameter.
"""

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
    """Bound redrawn coefficients by a function of the environment's m_e.

    The bound is factor · (m_e + offset) ** power.

    Parameters
    ----------
    offset : float
        Added to m_e.
    factor : float, default=1.0
        Factor.
    power : float, default=1.0
        Power.
    """

    offset: float
    factor: float = 1.0
    power: float = 1.0

    def __call__(self, intercept_mean: float) -> float:
        return self.factor * (intercept_mean + self.offset) ** self.power


@dataclass(frozen=True)
class SimulationParameters:
    """Set the numbers of `random_model`.

    A range (low, high) is drawn from uniformly; low = high fixes the value. `strength` to
    `p_change` apply to each environment after the first.

    Parameters
    ----------
    true_features : tuple of int
        Smallest and largest number p* of features before the outcome.
    p_active : tuple of float
        Values from which p_act is drawn, the probability that a coefficient of a feature is not 0.
    coefficients : tuple of float
        Range of absolute coefficients in the first environment.
    noise : tuple of float
        Bounds σ_min and σ_max; σ² is drawn from [σ_min², σ_max²] for every column.
    strength : tuple of float
        Range of the fraction ρ_e of features that are intervened on; ρ_e p is rounded to the
        nearest count, halves up.
    intercept_mean : tuple of float
        Range of m_e; the intercept of an intervened feature is Normal(m_e, 1) with a random sign.
    new_lower, new_upper : CoefficientBound
        Range, given m_e, of absolute coefficients that are redrawn.
    factor_min, factor_extra : tuple of float
        Ranges of λ_min and λ_diff; σ² is multiplied by λ², with λ from [λ_min, λ_min + λ_diff].
    p_change : tuple of float
        Range of the probability that a coefficient of an intervened feature is redrawn (0 with
        probability 1 − p_act) instead of kept from the first environment. The supplement's prose
        has it the other way round.

    Raises
    ------
    SettingError
        If a range is empty or impossible.

    References
    ----------
    Wu, L., Yin, M., Wang, Y., Cunningham, J. P. and Blei, D. M. (2025), Bayesian invariance
    modeling of multi-environment data, appendix C, arXiv:2506.22675.
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
        most = {"strength": 1.0, "p_change": 1.0}
        for name in ("true_features", "coefficients", "noise", "factor_min", "factor_extra", *most):
            low, high = getattr(self, name)
            if not 0 <= low <= high <= most.get(name, np.finfo(float).max):
                raise SettingError(
                    f"{name}={(low, high)!r} is not a range: 0 ≤ low ≤ high, finite, shares up to "
                    "1."
                )
        if not self.p_active or not 0 <= min(self.p_active) <= max(self.p_active) <= 1:
            raise SettingError(f"p_active={self.p_active!r} must hold numbers from 0 to 1.")
        if self.noise[0] == 0 or self.factor_min[0] == 0:
            raise SettingError(
                "noise and factor_min must be positive: a column without noise has no density."
            )
        if any(
            not 0 <= self.new_lower(m) <= self.new_upper(m) < np.inf for m in self.intercept_mean
        ):
            raise SettingError(
                f"new_lower and new_upper are no range for intercept_mean={self.intercept_mean!r}."
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


def p10(
    n_environments: int,
    rng: np.random.Generator,
    strength: float | Range | None = None,
    p: int = 10,
    **changes: Any,
) -> StructuralModel:
    """Draw the model of the paper's low-dimensional comparison.

    The true subset need not be the only invariant one: 0.6 of the models have another for E = 2,
    0.03 for E = 20.

    Parameters
    ----------
    n_environments : int
        Number of environments E.
    rng : numpy.random.Generator
        Random generator.
    strength : float or tuple of float, default=None
        Fraction of features that are intervened on, a number for all environments or a range.
    p : int, default=10
        Number of features.
    **changes : Any
        Fields of `SimulationParameters` that differ from `P10`.

    Returns
    -------
    StructuralModel
        The model.

    References
    ----------
    Wu, L., Yin, M., Wang, Y., Cunningham, J. P. and Blei, D. M. (2025), Bayesian invariance
    modeling of multi-environment data, section 4.2.2, arXiv:2506.22675.

    Examples
    --------
    >>> import numpy as np
    >>> from invariance.simulation import p10
    >>> p10(3, np.random.default_rng(0)).n_features
    10
    """
    return random_model(p, n_environments, rng, changed(P10, strength, changes))


def random_model(
    p: int, n_environments: int, rng: np.random.Generator, parameters: SimulationParameters
) -> StructuralModel:
    """Draw an ordering of features and outcome, and their conditional distributions.

    The position of the outcome is uniform among those that `true_features` allows. Environments are
    drawn one after the other: with the same seed, a model of fewer environments has the first ones
    of a model of more.

    Parameters
    ----------
    p : int
        Number of features.
    n_environments : int
        Number of environments E.
    rng : numpy.random.Generator
        Random generator.
    parameters : SimulationParameters
        The numbers of the simulation.

    Returns
    -------
    StructuralModel
        The model.

    Raises
    ------
    SettingError
        If p is below the number of true features, or n_environments below 1.
    """
    fewest, most = parameters.true_features
    if p < max(fewest, 1) or n_environments < 1:
        given = f"true_features={parameters.true_features}, or n_environments={n_environments}"
        raise SettingError(f"p={p} is below {given}.")
    n_before = rng.integers(fewest, min(most, p), endpoint=True)
    ordering = np.insert(rng.permutation(p), n_before, p)
    position = np.argsort(ordering)
    earlier = position[None, :] < position[:, None]
    p_active = rng.choice(parameters.p_active)

    active = rng.random((p + 1, p + 1)) < p_active
    active[p] = True
    base = np.where(
        earlier & active, signed(rng, rng.uniform(*parameters.coefficients, (p + 1, p + 1))), 0.0
    )
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
        factor_min = rng.uniform(*parameters.factor_min)
        factor_extra = rng.uniform(*parameters.factor_extra)
        variances[e, chosen] *= rng.uniform(factor_min, factor_min + factor_extra, count) ** 2
        redrawn = earlier[chosen] & (rng.random((count, p + 1)) < rng.uniform(*parameters.p_change))
        bounds = parameters.new_lower(m), parameters.new_upper(m)
        new = signed(rng, rng.uniform(*bounds, (count, p + 1))) * (
            rng.random((count, p + 1)) < p_active
        )
        coefficients[e, chosen] = np.where(redrawn, new, coefficients[e, chosen])
    return StructuralModel(ordering, coefficients, intercepts, variances, intervened)


def changed(
    parameters: SimulationParameters, strength: float | Range | None, changes: dict[str, Any]
) -> SimulationParameters:
    if strength is not None:
        changes = changes | {
            "strength": strength if isinstance(strength, tuple) else (strength, strength)
        }
    return replace(parameters, **changes)


def signed(rng: np.random.Generator, magnitudes: Floats) -> Floats:
    return np.where(rng.random(magnitudes.shape) < 0.5, magnitudes, -magnitudes)


def flat(n_environments: int, rng: np.random.Generator, p: int = 10) -> StructuralModel:
    """Draw a model in which the true subset is the best invariant predictor.

    The outcome has 2 to 4 causes, 2 or 3 descendants and 2 siblings; other features are irrelevant.

    Parameters
    ----------
    n_environments : int
        Number of environments E.
    rng : numpy.random.Generator
        Random generator.
    p : int, default=10
        Number of features, at least 9.

    Returns
    -------
    StructuralModel
        The model.

    Raises
    ------
    SettingError
        If p is below 9 or n_environments below 1.

    Notes
    -----
    - causes: linear Gaussian among themselves, coefficients ±U[0.25, 0.75], noise of variance 1;
    - outcome: coefficients ±U[0.5, 1.5] on the causes, noise of standard deviation U[0.5, 1.2];
    - descendants: ±U[0.5, 1.5] times the outcome, half of them plus 0.5 times a cause, noise of
      standard deviation U[0.5, 1.2];
    - siblings: ±U[0.5, 1.5] times every cause, noise of standard deviation U[0.3, 0.8];
    - irrelevant features: Normal(m, 1) with m ~ Normal(0, 1) in each environment.

    Later environments intervene on each descendant and sibling with probability 0.6: the intercept
    is Normal(0, 4²), the coefficients are multiplied by one U[−1, 1.5] and the standard deviation
    of the noise by U[0.5, 2]. Causes and outcome are not changed: the true subset is the best
    predictor among the invariant subsets once each descendant was intervened on.
    """
    if p < 9 or n_environments < 1:  # 4 causes, 3 descendants and 2 siblings
        raise SettingError(
            f"p={p} must be at least 9 and n_environments={n_environments} at least 1."
        )
    n_causes = int(rng.integers(2, 5))
    n_descendants = int(rng.integers(2, 4))
    shuffled = rng.permutation(p)
    causes, followers, irrelevant = np.split(shuffled, [n_causes, n_causes + n_descendants + 2])
    descendants, siblings = np.split(followers, [n_descendants])
    coefficients = np.zeros((p + 1, p + 1))
    deviations = np.ones(p + 1)

    for k, cause in enumerate(causes):
        coefficients[cause, causes[:k]] = signed(rng, rng.uniform(0.25, 0.75, k))
    coefficients[p, causes] = signed(rng, rng.uniform(0.5, 1.5, n_causes))
    deviations[p] = rng.uniform(0.5, 1.2)
    coefficients[descendants, p] = signed(rng, rng.uniform(0.5, 1.5, n_descendants))
    mixed = descendants[rng.random(n_descendants) < 0.5]
    coefficients[mixed, rng.choice(causes, len(mixed))] = 0.5
    deviations[descendants] = rng.uniform(0.5, 1.2, n_descendants)
    coefficients[np.ix_(siblings, causes)] = signed(rng, rng.uniform(0.5, 1.5, (2, n_causes)))
    deviations[siblings] = rng.uniform(0.3, 0.8, 2)

    everywhere = np.repeat(coefficients[None], n_environments, axis=0)
    scales = np.repeat(deviations[None], n_environments, axis=0)
    intercepts = np.zeros((n_environments, p + 1))
    intervened = np.zeros((n_environments, p), dtype=bool)
    intercepts[0, irrelevant] = rng.standard_normal(len(irrelevant))
    for e in range(1, n_environments):
        hit = followers[rng.random(len(followers)) < 0.6]
        intercepts[e, hit] = rng.normal(0.0, 4.0, len(hit))
        everywhere[e, hit] *= rng.uniform(-1.0, 1.5, (len(hit), 1))
        scales[e, hit] *= rng.uniform(0.5, 2.0, len(hit))
        intercepts[e, irrelevant] = rng.standard_normal(len(irrelevant))
        intervened[e, hit] = intervened[e, irrelevant] = True
    ordering = np.concatenate([causes, [p], followers, irrelevant])
    return StructuralModel(ordering, everywhere, intercepts, scales**2, intervened)


def example_2(n_environments: int = 3) -> StructuralModel:
    """Return the paper's Example 2, x1 → y ← x2, in which x2 shifts in the third environment.

    The true subset is {x1, x2}; in two environments {x1} is invariant as well::

        x1 ~ Normal(0, 2 or 5; 0.1²),    x2 ~ Normal(0.5, 0.1²), in the third Normal(−0.5, 0.1²)
        y ~ Normal(x1 + x2 + 0.1, 0.1²)

    Parameters
    ----------
    n_environments : {2, 3}, default=3
        Number of environments.

    Returns
    -------
    StructuralModel
        The model.

    Raises
    ------
    SettingError
        If n_environments is not 2 or 3.

    References
    ----------
    Wu, L., Yin, M., Wang, Y., Cunningham, J. P. and Blei, D. M. (2025), Bayesian invariance
    modeling of multi-environment data, appendix C.2, arXiv:2506.22675.
    """
    if n_environments not in (2, 3):
        raise SettingError(
            f"n_environments={n_environments!r}: the example has 2 or 3 environments."
        )
    kept = slice(n_environments)
    coefficients = np.zeros((3, 3, 3))
    variances = np.full((3, 3), 0.1**2)
    coefficients[:, 2, :2] = 1.0
    intercepts = np.array([[0.0, 0.5, 0.1], [2.0, 0.5, 0.1], [5.0, -0.5, 0.1]])
    intervened = intercepts[:, :2] != intercepts[0, :2]
    return StructuralModel(
        np.arange(3), coefficients[kept], intercepts[kept], variances[kept], intervened[kept]
    )
