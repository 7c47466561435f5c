"""Effects and baselines of one subset: whether each is the same in all environments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from scipy.stats import chi2, f

from .._tools.arrays import Mask
from .._tools.text import in_quotes, printable
from ..kinds import KINDS, OutcomeKind
from ..models.base import BASELINE, DISPERSION, BoundModel, Level
from ..models.free_baselines import (
    FreeBaselineMeanGaussian,
    FreeBaselineRandomDeviations,
    SharedNoise,
)
from ..models.gaussian import MomentModel
from ..models.invariance_test import (
    Difference,
    InvarianceTest,
    Tolerance,
    deviance_difference,
    deviance_test,
    without_spread,
)
from ..models.random_coefficients import GaussianRandomDeviations
from ..models.regression import RegressionModel
from ..models.varying_coefficients import StructuredDeviations
from ..moments.random_intercept import random_intercept
from .heterogeneity import heterogeneity

# An exact test with a smaller p-value has found a difference, be it tolerated or not.
FOUND = 0.02
# Significance level of the test of equal baselines.
BASELINES_DIFFER = 0.05
# Units of baselines that are not the outcome's own
BASELINE_UNITS = frozenset(kind.baseline_unit for kind in KINDS.values() if kind.baseline_unit)
# {level: what may differ between environments there}
LEFT_FREE: dict[str, str] = {
    Level.effects: "baselines",
    Level.effects_noise_free: "baselines and noise",
}


class Grade(StrEnum):
    """Grade how equal environments are given the selected subset."""

    alike = "alike"  # within the tolerance, the whole interval of the difference
    no_difference = "no difference found"
    but_for = "alike but for one"  # environment
    differ = "differ"
    open = "cannot be told"  # with one environment, or too few rows


@dataclass(frozen=True)
class Heterogeneity:
    """State whether the effects of a subset are the same, whatever the baselines.

    Attributes
    ----------
    same : bool or None
        None if it cannot be decided: one environment, no features, or too few rows.
    grade : Grade
        Grade of a verdict on the effects alone.
    p_value, p_exact : float
        P-values of effects that are the same up to the tolerance, and exactly.
    difference, low, high : float
        Relative difference of effects between these environments, with a 90% interval.
    by_feature : dict
        {column: {"tau", "i2", "p_interaction"}} of its effect alone, from the estimates of the
        environments; tau is the standard deviation of coefficients, per 1 of the column.
    """

    same: bool | None
    grade: Grade
    p_value: float
    p_exact: float
    difference: float
    low: float
    high: float
    by_feature: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def qualifying(self, grade: Grade, accepted: Tolerance) -> Grade:
        """The grade of all that is compared: alike, or without a difference, only if effects alone
        are, too."""
        if self.same is False and grade in (Grade.alike, Grade.no_difference):
            return Grade.differ
        return Grade.no_difference if grade is Grade.alike and self.high > accepted.rho else grade


@dataclass(frozen=True)
class BaselineDifference:
    """State whether environments have the same baseline, given the effects of a subset.

    Attributes
    ----------
    same : bool
        Whether equal baselines are compatible with the data.
    p_value : float
        P-value of equal baselines.
    sd : float
        Standard deviation of baselines between environments, by restricted maximum likelihood; NaN
        if baselines do not have standard errors.
    unit : str
        Unit of sd.
    """

    same: bool
    p_value: float
    sd: float
    unit: str

    @property
    def size(self) -> str:
        """The standard deviation with its unit; nothing if it is not known"""
        unit = printable(self.unit)
        unit = unit if unit in BASELINE_UNITS else f"in units of {unit}"
        return "" if np.isnan(self.sd) else f"{self.sd:.2g} {unit}"


def effects_model(model: BoundModel) -> BoundModel:
    """The model that compares effects alone, if there is one; else the model itself."""
    first = next(iter(model.lower_levels), None)
    return model if first is None else model.at_level(first)


def separates_effects(model: BoundModel) -> bool:
    """Return whether effects are compared separately from baselines, if only by least squares."""
    return bool(model.lower_levels) or model.level is not Level.full or _of_fits(model)


def _of_fits(model: BoundModel) -> bool:
    """Return whether a model without lower levels has linear fits of the environments to
    compare."""
    labelled = isinstance(model, MomentModel) and not isinstance(model, StructuredDeviations)
    return labelled and not model.lower_levels and model.level is Level.full


def _compared(model: BoundModel, mask: Mask) -> tuple[BoundModel, Mask]:
    """Return the model that compares effects alone of a subset (p,), and the subset there."""
    by_fits = model.compared_by(mask) if _of_fits(model) else None
    return (
        (effects_model(model), mask) if by_fits is None else (effects_model(by_fits[0]), by_fits[1])
    )


def heterogeneity_of(model: BoundModel, mask: Mask, tolerance: Tolerance) -> Heterogeneity:
    """Return the heterogeneity of the effects of a subset (p,).

    model : of any level; tolerance : with the level that compatible subsets reach
    """
    compared, mask = _compared(model, mask)
    chosen = mask[None]
    supported = bool(compared.log_ratio_many(chosen)[0] > -np.inf)
    if compared.n_environments < 2 or not mask.any() or not supported:
        return Heterogeneity(None, Grade.open, np.nan, np.nan, np.nan, np.nan, np.nan)
    tolerances = tolerance, exactly(tolerance)
    if isinstance(compared, RegressionModel) and DISPERSION in compared.compares:
        p_values, found = _apart_from_dispersion(compared, mask, tolerances)
        graded = p_values
    else:
        tests = [compared.invariance_test(chosen, each) for each in tolerances]
        p_values = [_p_of_effects(test) for test in tests]
        rejected = min(p_values) < tolerance.level
        random = compared if isinstance(compared, GaussianRandomDeviations) else None
        if rejected and random is not None and random.has_heavy_tails(mask):
            chance = random.permuted_score(mask)
            p_values = [max(p_value, chance) for p_value in p_values]
        # What is accepted together with the noise is not rejected alone.
        graded = [
            max(p_value, float(test.joint[0]))
            for p_value, test in zip(p_values, tests, strict=True)
        ]
        found = compared.difference(chosen)
    p_value, p_exact = p_values
    difference, low, high = (float(values[0]) for values in found)
    if graded[0] >= tolerance.level and high <= tolerance.rho:
        grade = Grade.alike
    elif graded[0] >= tolerance.lowest_level and graded[1] >= min(FOUND, tolerance.level):
        grade = Grade.no_difference
    else:
        grade = Grade.differ
    return Heterogeneity(grade is not Grade.differ, grade, p_value, p_exact, difference, low, high)


def exactly(tolerance: Tolerance) -> Tolerance:
    """The same levels, without any tolerance"""
    return Tolerance(0.0, 0.0, tolerance.level, tolerance.weak_level)


def _p_of_effects(test: InvarianceTest) -> float:
    """Return the p-value of common effects, without a separate test of the noise."""
    return float(test.joint[0] if np.isnan(test.mean[0]) else test.mean[0])


def _apart_from_dispersion(
    model: RegressionModel, mask: Mask, tolerances: tuple[Tolerance, ...]
) -> tuple[list[float], Difference]:
    """p-values of common effects, and how different they are: the likelihood ratio compares
    dispersions, too."""
    q, expected, degrees = (np.array([value]) for value in model.spread_of_slopes(mask))
    signal = model.signal_of(model.gain_many(mask[None]))
    p_values = []
    for tolerance in tolerances:
        allowed = tolerance.noncentrality(signal, model.n_informative)
        tails = deviance_test(q, expected, degrees, allowed) if degrees[0] > 0.0 else np.ones(1)
        p_values.append(float(without_spread(tails, tolerance)[0]))
    return p_values, deviance_difference(q, expected, degrees, signal, True)


def baseline_of(
    model: BoundModel, mask: Mask, outcome_name: str, kind: OutcomeKind | None
) -> BaselineDifference | None:
    """Return the difference of baselines given a subset (p,).

    None if environments are not given by one label, or cannot be compared.
    """
    free, mask = _compared(model, mask)
    if isinstance(free, FreeBaselineMeanGaussian):
        full: BoundModel = free.shared_baseline
    else:
        full = free.at_level(Level.full)
    if (
        free.level is Level.full
        or free.n_environments < 2
        or not free.log_ratio_many(mask[None])[0] > -np.inf
    ):
        return None
    p_value = _p_of_baselines(full, free, mask)
    unit = outcome_name if kind is None else kind.baseline_unit or outcome_name
    return BaselineDifference(
        p_value >= BASELINES_DIFFER, p_value, _spread_of_baselines(full, free, mask), unit
    )


def _p_of_baselines(full: BoundModel, free: BoundModel, mask: Mask) -> float:
    """Return the p-value of equal baselines by the F test or the likelihood ratio.

    The likelihood ratio of a shared baseline is scaled to its mean under equal baselines.
    """
    if isinstance(full, MomentModel) and isinstance(
        free, SharedNoise | FreeBaselineRandomDeviations
    ):
        shared, own = (model.residuals(mask[None]) for model in (full, free))
        left = float(own.freedom[0, -1])
        degrees = float(shared.freedom[0, -1]) - left
        if degrees <= 0.0:
            return 1.0
        saved = max(float(shared.rss[0, -1] - own.rss[0, -1]), 0.0) / degrees
        return float(f.sf(saved / (float(own.rss[0, -1]) / left), degrees, left))
    log_ratios = [float(model.log_ratio_many(mask[None])[0]) for model in (full, free)]
    nulls = [model.null_many(mask[None]) for model in (full, free)]
    degrees = float(nulls[0].degrees[0] - nulls[1].degrees[0])
    if degrees <= 0.0 or log_ratios[0] == -np.inf:
        return 1.0 if degrees <= 0.0 else 0.0
    expected = -2.0 * float(nulls[0].expected[0] - nulls[1].expected[0])
    saved = log_ratios[1] - log_ratios[0]
    if (
        isinstance(full, RegressionModel)
        and isinstance(free, RegressionModel)
        and DISPERSION not in full.compares
    ):
        # What inflates fits of small environments, and shrinks them, is no part of the pooled fits.
        expected = degrees
        plain = (
            0.0
            if BASELINE in full.compares
            else free.plain_maximum(mask) - full.plain_maximum(mask)
        )
        saved = plain if np.isfinite(plain) and plain > 0.0 else saved
    unit = expected / degrees if np.isfinite(expected) and expected > 0.0 else 1.0
    return float(chi2.sf(max(2.0 * saved, 0.0) / unit, degrees))


def _spread_of_baselines(full: BoundModel, free: Any, mask: Mask) -> float:
    if isinstance(free, SharedNoise | FreeBaselineRandomDeviations):
        moments = full.moments  # type: ignore[attr-defined]
        found = random_intercept(moments, moments.feature_columns[moments.features.expand(mask)])
        return float(np.sqrt(found.ratio * found.noise))
    return float(heterogeneity(*free.baselines(mask)).tau[0])


# ---------------------------------------------------------------- in a few words

_EFFECTS_IN_SHORT = {
    Grade.alike: "effects are the same",
    Grade.no_difference: "no difference found in effects",
    Grade.differ: "effects differ, not clearly more than is tolerated",
}


_THE_SAME = {
    Level.full: "baseline, effects and noise",
    Level.effects: "effects and noise; free: baselines",
    Level.effects_noise_free: "effects; free: baselines and noise",
}
# Of classes, counts and times
_WITHOUT_NOISE = {Level.full: "baseline and effects", Level.effects: "effects; free: baselines"}


def level_in_words(level: str, kind: OutcomeKind) -> str:
    """Return the level with what is the same there."""
    texts = _THE_SAME if kind.by_least_squares else _WITHOUT_NOISE
    known = {str(each): text for each, text in texts.items()}
    return (
        f"{level} (the same up to the tolerance: {known[level]})" if level in known else f"{level}"
    )


def in_short(
    level: str,
    verdict: Any,
    effects: Heterogeneity,
    baseline: BaselineDifference | None,
    but_for: str | None = None,
) -> str:
    """Return what is the same in all environments in a few words, for titles; verdict : the
    `Verdict`; but_for : the environment whose effects alone deviate, if there is one."""
    baselines_differ = baseline is not None and not baseline.same
    alone = level == Level.full and baselines_differ
    alone = alone and verdict.grade in (Grade.no_difference, Grade.differ)
    if level in LEFT_FREE and effects.grade is Grade.open:
        return f"no effects to compare, {LEFT_FREE[level]} are free"
    if not (level in LEFT_FREE or alone) or effects.grade not in _EFFECTS_IN_SHORT:
        return str(verdict.short)
    unsure = effects.grade is Grade.alike and verdict.grade is Grade.no_difference
    same = _EFFECTS_IN_SHORT[Grade.no_difference if unsure else effects.grade]
    if same == _EFFECTS_IN_SHORT[Grade.no_difference] and effects.low > 0.0:
        same = "no clear difference in effects"
    if but_for is not None:
        same = f"effects are the same but for {in_quotes(but_for)}"
    if alone:
        return f"{same}, baselines differ when tested alone"
    may = " may" if baseline is not None and baseline.same else ""
    return f"{same}, {LEFT_FREE[level]}{may} differ"
