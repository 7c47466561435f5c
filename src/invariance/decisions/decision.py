"""The decision of a fit: which features to use, whether they are invariant, and the role of each
feature."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy.special import chdtrc
from scipy.stats import t

from .._tools.arrays import Fields, Floats, Mask, Names
from .._tools.json import null, to_json
from .._tools.names import PlotKind, PredictWith
from .._tools.sections import Rendered, Section, as_text
from .._tools.text import format_count, format_subset, in_quotes, in_series, printable
from .._tools.time_limit import out_of_time
from ..data.checks import SMALLEST_ENVIRONMENT
from ..data.columns import free_name
from ..data.features import as_mask, distinct
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, Message, SettingError, use
from ..inference.enumeration import Enumeration
from ..models.base import (
    BASELINE,
    DISPERSION,
    INTERCEPT,
    SLOPES,
    VARIANCE,
    BoundModel,
    Estimates,
    Level,
    moments_of,
)
from ..models.bayesian import BayesianGaussian
from ..models.gaussian import LinearGaussian
from ..models.invariance_test import Tolerance
from ..models.varying_coefficients import Curves, StructuredDeviations
from ..moments.moments import Moments
from ..posterior.posterior import Judge, Posterior, SubsetEvidence
from ..posterior.summary import (
    CAUSES,
    COMPARES_BASELINES,
    Summary,
    everywhere,
    format_p_value,
    format_percent,
    format_share,
    format_small_p_value,
    reading,
)
from .components import Components, components_of
from .effects import (
    ONE_VALUE,
    PENALISED,
    SEPARATION,
    effect_records,
    effect_section,
)
from .environments import (
    ALARM,
    WorstEnvironment,
    compared_model,
    environment_tests,
    worst_environment,
)
from .heterogeneity import MetaAnalysis, heterogeneity
from .levels import (
    FOUND,
    BaselineDifference,
    Grade,
    Heterogeneity,
    baseline_of,
    heterogeneity_of,
    in_short,
    separates_effects,
)
from .pipeline import Findings, asks_for_compatible
from .residual_check import Autocorrelation, NoiseChecks, autocorrelation, noise_checks
from .rules import RULES, RULES_IN_WORDS, Rule, all_subsets, falls_back
from .selection_error import ChanceSelection, chance_selection
from .site_level import absorbed_baselines, site_level_caution

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from ..prediction.model_choice import Choice
    from ..prediction.new_environments import NewEnvironments
    from ..prediction.predictions import CostOfInvariance, Predictions

# Of a subset that is not compatible with invariance, or of one environment
NO_LEVEL = "none"
# Residuals that a survey may compute, for the tails' weight.
_MOST_RESIDUALS = 1_000_000_000
# Subsets × rows up to which all compatible subsets are counted.
_MOST_COUNTED = 1 << 24
_MOST_SURVEYED = 8192
_FEWEST_SURVEYED = 200
# Other features whose breaking environment is looked for, those that predict most first.
MOST_OTHERS = 20
_AT_ONCE = 256


# ---------------------------------------------------------------- which subsets are compatible


@dataclass(frozen=True, eq=False)
class CompatibleSubsets:
    """masks (k, p) : those that are listed, the best predictor first; n : how many there are, at
    least
    all_scored : whether every subset was tested, so that n is exact; accepted : the tolerance with
        the level that they
    reach; in_all (p,) : features that every known one holds, none where no subset is listed
    """

    masks: Mask
    n: int
    all_scored: bool
    accepted: Tolerance
    in_all: Mask

    def __str__(self) -> str:
        return f"{'' if self.all_scored else 'at least '}{format_count(self.n)}"


def compatible_subsets(findings: Findings) -> CompatibleSubsets:
    """As the predictive posterior lists them; exact engines too may stop before the worst
    predictors are tested."""
    posterior = findings.posterior
    predictive = findings.predictive
    if predictive is None:
        none = np.zeros((0, findings.target.n_features), dtype=bool)
        exhaustive = isinstance(findings.engine, Enumeration)
        return CompatibleSubsets(
            none, 0, exhaustive, findings.tolerance.weak, np.zeros(none.shape[1], dtype=bool)
        )
    masks = predictive.masks
    judge = predictive.judge
    probable = posterior.masks[:_FEWEST_SURVEYED]
    assert judge is not None
    n = int(predictive.diagnostics.get("subsets_compatible", len(masks)))
    all_scored = predictive.diagnostics.get("compatible_counted", False) or n == posterior.n_subsets
    known = np.concatenate([masks, probable[judge.compatible(probable)]])
    if not all_scored and posterior.n_subsets * judge.model.n_rows <= _MOST_COUNTED:
        every = all_subsets(findings.target)
        known = every[judge.compatible(every)]
        n = len(known)
        all_scored = True
    return CompatibleSubsets(masks, n, all_scored, judge.tolerance, np.asarray(known.all(axis=0)))


class Survey(NamedTuple):
    """masks (k, p); p_invariant, r2, difference (k,), NaN where not known; complete: whether these
    are all subsets"""

    masks: Mask
    p_invariant: Floats
    r2: Floats
    difference: Floats
    complete: bool


def survey(findings: Findings, chosen: Mask) -> Survey:
    """Of the chosen subset (p,) and those that the posteriors list: all subsets while these are
    few."""
    model = findings.judge.model
    posterior = findings.posterior
    predictive = findings.predictive
    most = max(_FEWEST_SURVEYED, min(_MOST_SURVEYED, _MOST_RESIDUALS // model.n_rows)) // 2
    listed = (posterior,) if predictive is None else (posterior, predictive)
    masks = np.vstack([chosen[None], *(each.masks[:most] for each in listed)])
    masks = masks[np.sort(distinct(masks)[0])]
    p_values = model.invariance_test(masks, findings.tolerance).joint
    differences = model.difference(masks, ends=False).estimate
    return Survey(
        masks, p_values, model.r2_many(masks), differences, len(masks) >= posterior.n_subsets
    )


# ---------------------------------------------------------------- roles of features


class Role(StrEnum):
    """Of selected features: required, kept, chosen, fallback, forced; of others: the rest; of both:
    constant_within."""

    required = "required"  # no compatible subset lacks it
    kept = "kept for prediction"
    chosen = "chosen"  # by the rule, into a subset that is not compatible
    fallback = "chosen by the fallback"  # of the rule, since no subset is compatible
    forced = "forced in"  # by the prior
    breaks = "breaks invariance"  # together with the subset
    adds_nothing = "adds nothing"  # worth its price
    predicts_more = "would predict more"  # and stay compatible, but the rule left it out
    left_out = "left out"  # of a subset that is not compatible itself
    too_small = "improvement too small"  # for the fallback: not worth the price
    raises_error = (
        "raises the expected error"  # worth the price, but not by the fallback's criterion
    )
    constant_within = (
        "constant within environments"  # all of them: its effect cannot be compared between them
    )
    not_allowed = "not allowed"  # by the prior
    not_judged = "not judged"  # the rows cannot decide


@dataclass(frozen=True)
class FeatureRole:
    """r2_change : of R² when this feature alone is left out of the subset, or added to it;
    p_invariant : of the subset then; gain : of −2 log-likelihood by the feature, p_gain : its
    p-value, price : what that gain is to exceed;
    never_challenged : whether no environment shifted it given the others, None outside the subset
        or where not
    tested; broken : where it breaks invariance, if it does; error_change : relative change of the
    expected error in a new environment when this feature alone is left out or added, NaN unless the
    rule fell back, when the gain is that of least squares with a baseline in each environment;
    constant_within : whether it is constant within every environment"""

    name: str
    selected: bool
    role: Role
    r2_change: float
    p_invariant: float
    gain: float
    p_gain: float
    price: float
    never_challenged: bool | None = None
    broken: WorstEnvironment | None = None
    error_change: float = np.nan
    constant_within: bool = False

    @property
    def content(self) -> Fields:
        """As `to_json` takes it, labels as text."""
        if self.broken is None or self.broken.environment is None:
            return vars(self)
        return vars(self) | {
            "broken": replace(self.broken, environment=str(self.broken.environment))
        }


class _Figures(NamedTuple):
    """Of S subsets, (S,) each. gain: of the pooled fit over the empty one, in nats; weight:
    log p(z) − cost(z)/2."""

    p_invariant: Floats
    r2: Floats
    gain: Floats
    weight: Floats
    log_prior: Floats
    log_ratio: Floats


def _subset_figures(findings: Findings, masks: Mask, accepted: Tolerance) -> _Figures:
    model = findings.target.model
    log_prior = findings.target.prior.log_prob(masks)
    test = model.invariance_test(masks, accepted)
    gain = model.untilted.gain_many(masks)
    weight = findings.score.weigh(gain, masks @ model.free_columns) + log_prior
    figures = model.r2_many(masks), gain, weight, log_prior, model.log_ratio_many(masks)
    return _Figures(test.joint, *figures)


def _fallback_figures(model: BoundModel, chosen: Mask, units: list[Mask]) -> tuple[Floats, Floats]:
    """(p,) gain and change of the expected error of each feature: see `FeatureRole`; units : (p, p)
    one feature in each row, in parts"""
    gains = [model.separate_gains_many(chosen | each)[each] for each in units]
    risk = np.concatenate([model.random_effects_risk_many(chosen ^ each) for each in units])
    own = model.random_effects_risk_many(chosen)[0]
    known = np.isfinite(risk) & np.isfinite(own)
    ratio = np.divide(risk, own, out=np.full(len(chosen), np.nan), where=known)
    return np.concatenate(gains), np.sqrt(ratio) - 1.0


def _fallback_role(gain: float, price: float, error_change: float) -> Role:
    """Of a feature that was not selected; what is worth its price and lowers the error was left out
    since beside it a selected one is not worth its price"""
    if gain < price:
        return Role.too_small
    if np.isnan(error_change):
        return Role.not_judged
    return Role.raises_error if error_change >= 0.0 else Role.left_out


def feature_roles(
    findings: Findings, chosen: Mask, compatible: CompatibleSubsets, fell_back: bool = False
) -> tuple[FeatureRole, ...]:
    """Of all features: those of the chosen subset (p,) in their order, then the others, by how much
    they predict.
    fell_back : whether the rule chose what risks least, since no subset is compatible"""
    model = findings.target.model
    prior = findings.target.prior
    accepted = compatible.accepted
    p = len(chosen)
    own = _subset_figures(findings, chosen[None], accepted)
    # In parts, which bounds the memory that models with thousands of features take.
    units = [np.eye(min(_AT_ONCE, p - k), p, k, dtype=bool) for k in range(0, p, _AT_ONCE)]
    parts = [_subset_figures(findings, chosen ^ each, accepted) for each in units]
    flipped = _Figures(*map(np.concatenate, zip(*parts, strict=True)))
    with np.errstate(invalid="ignore"):
        r2_change = np.where(np.isfinite(flipped.r2), flipped.r2 - own.r2, np.nan)
        gains = flipped.weight - own.weight > 0.0
        gain = 2.0 * np.abs(np.where(np.isfinite(flipped.gain), flipped.gain, np.nan) - own.gain)
    error_change = np.full(p, np.nan)
    if fell_back:
        gain, error_change = _fallback_figures(model, chosen, units)
    price = findings.score.price * model.free_columns
    holds = own.p_invariant[0] >= accepted.level
    breaks = flipped.p_invariant < accepted.level
    scored = flipped.log_ratio > -np.inf
    allowed = flipped.log_prior > -np.inf
    constant = model.constant_within
    figures = {
        "r2_change": r2_change,
        "p_invariant": np.where(scored, flipped.p_invariant, np.nan),
        "gain": gain,
        "p_gain": chdtrc(model.free_columns, gain),
        "price": price,
        "error_change": error_change,
        "constant_within": constant,
    }
    outside = np.flatnonzero(~chosen)
    outside = outside[np.argsort(-np.nan_to_num(r2_change[outside], nan=-np.inf), kind="stable")]
    roles = []
    for rank, j in enumerate((*np.flatnonzero(chosen), *outside), -int(chosen.sum())):
        challenged = None
        broken = None
        if chosen[j]:
            role = Role.kept if holds else Role.fallback if fell_back else Role.chosen
            if prior.forced_in[j]:
                role = Role.forced
            elif constant[j]:
                role = Role.constant_within
            elif compatible.in_all[j] and breaks[j]:
                role = Role.required
            challenged = never_challenged(model.at_level(Level.full), chosen, j, accepted)
        elif not scored[j]:
            role = Role.constant_within if constant[j] else Role.not_judged
        elif not allowed[j] and (fell_back or (holds and not breaks[j])):
            role = Role.not_allowed
        elif fell_back:
            role = _fallback_role(gain[j], price[j], error_change[j])
        elif not holds:
            role = Role.left_out
        elif not breaks[j]:
            role = Role.predicts_more if gains[j] else Role.adds_nothing
        else:
            role = Role.breaks
            if rank < MOST_OTHERS and compared_model(model) is not None:
                enlarged = chosen | (np.arange(p) == j)
                broken = worst_environment(environment_tests(model, enlarged).each())
        name = findings.posterior.feature_names[j]
        found: Fields = {key: values[j].item() for key, values in figures.items()}
        found |= {"never_challenged": challenged, "broken": broken}
        roles.append(FeatureRole(name, bool(chosen[j]), role, **found))
    return tuple(roles)


def never_challenged(
    model: BoundModel, mask: Mask, feature: int, tolerance: Tolerance
) -> bool | None:
    """Whether no environment shifts a feature of the subset (p,) given the others in it: with each
    of its columns as the outcome, those others are compatible with invariance, by least squares,
    whatever the kind of outcome. None if that cannot be tested."""
    linear = model.by_least_squares
    if model.n_environments < 2 or (linear is None and model.data is None):
        return None
    if (model.observed.counts < SMALLEST_ENVIRONMENT).any():
        return None
    bind = LinearGaussian().bind if linear is None else linear.of
    others = mask.copy()
    others[feature] = False
    rest = model.features.expand(others)
    given_rest = np.append(np.ones(rest.sum(), dtype=bool), False)
    for column in range(model.features.starts[feature], model.features.starts[feature + 1]):
        try:
            turned = bind(_turned(linear or model, rest, column))
        except DataError:
            # Constant in some environment, and not in all of them.
            return False
        if not turned.log_ratio_many(given_rest[None])[0] > -np.inf:
            return None
        if not turned.invariance_test(given_rest, tolerance).joint[0] >= tolerance.level:
            return False
    return True


def _turned(model: BoundModel, rest: Mask, column: int) -> MultiEnvironmentData | Moments:
    """The column as the outcome of the columns `rest` and, last, of the old outcome."""
    names = model.features.columns
    outcome = model.observed.outcome_name
    data = model.data
    kept = tuple(name for name, flag in zip(names, rest, strict=True) if flag)
    if data is None:
        moments = moments_of(model.observed).of_columns((*kept, names[column], outcome))
        return replace(moments, groups={}, encoding=None).with_outcome(names[column])
    X = np.column_stack([data.X[:, rest], data.y])
    labels = data.environments
    named = (*kept, outcome), labels, names[column]
    return MultiEnvironmentData(
        X, data.X[:, column], data.environment_index, *named, design=data.design
    )


# ---------------------------------------------------------------- the decision

_MOST_SELECTED = 100
# Subsets that a summary lists.
TOP = 10
# Shown by texts and JSON, and computed with the decision.
_SHOWN = (
    "verdict",
    "mode_evidence",
    "features",
    "prediction",
    "known_by_tolerance",
    "effective_tolerance",
    "alarms",
    "autocorrelation",
    "noise",
    "curves",
    "n_tried",
    "heterogeneity",
    "evidence",
    "baseline",
    "rejected",
)
# The note on a coefficient in a model that gives no intervals.
NO_INTERVAL = "no interval"
UNCHALLENGED = (
    "Never challenged: no environment shifts this feature, given the others selected. The data "
    "could not have shown "
    "it to be a decoy."
)


@dataclass(frozen=True, eq=False, repr=False)
class Decision(Rendered):
    """Hold the subset that a rule selected, with its tests, estimates and predictions.

    Attributes
    ----------
    findings : Findings
        Posteriors, model and data of the fit.
    mask : ndarray of shape (p,), bool
        The selected subset.
    rule : Rule
        The rule that selected it.
    predictions : Predictions
        Predictors of the selected subset and of all features.
    predict_with : {"auto", "everything", "selected", "average"}
        Features that predict, as requested.
    chance : ChanceSelection or None
        Result of `model.chance_selection()`, if it was called.
    cost : CostOfInvariance or None
        Result of `model.cost_of_invariance()`, if it was called.

    Examples
    --------
    >>> from invariance import BIP
    >>> from invariance.datasets import make_example
    >>> decision = BIP().fit(make_example()).decision_
    >>> decision.level, decision.invariant
    ('full', True)
    """

    findings: Findings
    mask: Mask
    rule: Rule
    predictions: Predictions
    predict_with: PredictWith
    chance: ChanceSelection | None = None
    cost: CostOfInvariance | None = None

    def complete(self) -> Self:
        """Compute all that texts and JSON show, so that these start no fit, and return it."""
        for name in _SHOWN:
            getattr(self, name)
        self.posterior.leading_evidence(TOP, elsewhere=False)
        self.findings.posterior.leading_evidence(1, elsewhere=False)
        return self

    def stating(self, **more: Any) -> Self:
        """Return it with other fields; nothing is computed again."""
        other = copy(self)
        vars(other).update(more)
        return other

    @property
    def model(self) -> BoundModel:
        """By which subsets are judged."""
        return self.findings.target.model.untilted

    @property
    def tolerance(self) -> Tolerance:
        return self.findings.tolerance

    @property
    def predictive(self) -> Posterior | None:
        return self.findings.predictive

    @property
    def n_environments(self) -> int:
        return self.findings.posterior.n_environments

    @cached_property
    def selected(self) -> Names:
        return self.findings.posterior.names_of(self.mask)

    @cached_property
    def columns(self) -> Names:
        """Names of the columns of the chosen features, to which the coefficients belong."""
        return self.findings.target.model.features.chosen(self.mask).columns

    @cached_property
    def evidence(self) -> SubsetEvidence:
        """Return the evidence on the selected subset.

        Returns
        -------
        Evidence
            Its fields are numbers.
        """
        return self.findings.judge.evidence(self.mask[None]).one()

    @cached_property
    def mode_evidence(self) -> SubsetEvidence:
        """Of the most probable subset of the paper's posterior, at the level of that."""
        judge = self.findings.posterior.judge or self.findings.judge
        return judge.evidence(self.findings.posterior.mode_mask[None]).one()

    @cached_property
    def compatible(self) -> CompatibleSubsets:
        return compatible_subsets(self.findings)

    @property
    def accepted(self) -> Tolerance:
        """With the level that subsets had to reach: the weak one where none reaches the usual
        one."""
        return self.compatible.accepted

    @property
    def invariant(self) -> bool:
        """Return whether invariance of the selected subset is compatible with the data.

        Returns
        -------
        bool
            True if effects, baseline and noise are the same up to the tolerance, or no difference
            was found.
        """
        return self.level == Level.full and self.verdict.grade in (Grade.alike, Grade.no_difference)

    @cached_property
    def rejected(self) -> bool:
        """Return whether invariance of the selected subset is rejected.

        Returns
        -------
        bool
            True if its p-value is below the lower level of the tolerance.
        """
        predictive = vars(self.findings).get("predictive")
        if predictive is not None and (predictive.mode_mask == self.mask).all():
            return False
        return bool(self.findings.judge.rejected(self.mask[None])[0])

    @property
    def judged(self) -> bool:
        """Whether the rows suffice to judge the chosen subset."""
        return bool(np.isfinite(self.evidence.deviance))

    @property
    def is_compatible(self) -> bool:
        """Return whether the selected subset is compatible at the level that was reached.

        Returns
        -------
        bool
            True if its p-value reaches the level that subsets had to reach.
        """
        return self.evidence.p_invariant >= self.accepted.level

    @property
    def level(self) -> str:
        """Return the level of invariance at which the selected subset is compatible.

        Returns
        -------
        str
            "full", "effects", "effects, noise free" or "none".
        """
        if self.n_environments < 2 or not self.is_compatible:
            return NO_LEVEL
        return str(self.findings.level)

    @cached_property
    def tested_effects(self) -> Heterogeneity:
        """`heterogeneity` without the figures of each feature, which the verdict does not need."""
        found = heterogeneity_of(self.model, self.mask, self.accepted)
        if (
            found.grade is Grade.no_difference
            and self.worst is not None
            and self.worst.part == SLOPES
        ):
            found = replace(found, same=False, grade=Grade.differ)  # in that environment
        return found

    @cached_property
    def heterogeneity(self) -> Heterogeneity:
        """Test whether the effects of the selected features are the same, whatever the baselines.

        Returns
        -------
        Heterogeneity
            Grade, p-values and differences, also for each column.
        """
        between = self.between_environments
        if between is None or not self.selected:
            return self.tested_effects
        figures = np.array([between.tau, between.i2, between.p_value]).T.tolist()
        each = (dict(zip(("tau", "i2", "p_interaction"), row, strict=True)) for row in figures)
        by_feature = dict(zip(self.columns, each, strict=True))
        return replace(self.tested_effects, by_feature=by_feature)

    @cached_property
    def baseline(self) -> BaselineDifference | None:
        """Test whether baselines are the same, given the effects of the selected features.

        Returns
        -------
        BaselineDifference or None
            None if environments are not given by one label.
        """
        outcome_name = self.findings.posterior.outcome_name
        return baseline_of(self.model, self.mask, outcome_name, self.predictions.outcome.kind)

    @cached_property
    def shifted(self) -> Names:
        """Chosen features that environments move, given the others."""
        full = self.model.at_level(Level.full)
        names = self.findings.posterior.feature_names
        return tuple(
            names[j]
            for j in np.flatnonzero(self.mask).tolist()
            if never_challenged(full, self.mask, j, self.accepted) is False
        )

    @cached_property
    def noise(self) -> NoiseChecks | None:
        """Check the residuals of the selected subset.

        Returns
        -------
        NoiseChecks or None
            None if the model does not have residuals to check.
        """
        return noise_checks(self.model, self.mask, self.tolerance)

    @cached_property
    def features(self) -> tuple[FeatureRole, ...]:
        """Return the role of each feature.

        Returns
        -------
        tuple of FeatureRole
            The selected features in their order, then the others by the R² that they would add.
        """
        return feature_roles(self.findings, self.mask, self.compatible, self.fell_back)

    @property
    def fell_back(self) -> bool:
        """Whether the rule chose what risks least in a new environment, since no subset is
        compatible."""
        return falls_back(self.rule, self.findings)

    @property
    def absorbed_baselines(self) -> int:
        """Return how many differences between baselines the selected features absorb.

        Features that are constant within every environment absorb them. These differences, of E −
        1, are not tested.

        Returns
        -------
        int
            Number of differences.
        """
        return absorbed_baselines(self.findings.target.model, self.mask)

    @cached_property
    def survey(self) -> Survey:
        """p-values and R² of the chosen subset and of those that the posteriors list."""
        return survey(self.findings, self.mask)

    @property
    def rule_says(self) -> str:
        name = next((name for name, kind in RULES.items() if type(self.rule) is kind), None)
        if name is None:
            return repr(self.rule)
        settings = ", ".join(f"{key} {value:g}" for key, value in vars(self.rule).items())
        return f"{name}: {RULES_IN_WORDS[name]}{f' ({settings})' if settings else ''}"

    @property
    def posterior(self) -> Posterior:
        """Return the posterior by which the rule selects.

        Returns
        -------
        Posterior
            The predictive posterior, or the paper's if the rule uses it or no subset is compatible.
        """
        return self.findings.ranking(self.rule)

    @property
    def selects_by_posterior(self) -> bool:
        """Whether the rule selected by the posterior: one that asks for compatible subsets cannot
        if there are none."""
        return not asks_for_compatible(self.rule) or self.predictive is not None

    @cached_property
    def components(self) -> Components | None:
        """By which factor, or which coefficient along the variable; None where environments are one
        label."""
        return components_of(self.model, self.mask, self.tolerance)

    @cached_property
    def autocorrelation(self) -> Autocorrelation | None:
        """Of residuals of the chosen subset, where it is known when rows were taken."""
        return autocorrelation(self.model, self.mask)

    @cached_property
    def curves(self) -> Curves | None:
        """Return level and coefficients along the variable that environments are compared by.

        Returns
        -------
        Curves or None
            None if environments are not compared along a variable.
        """
        model = self.model
        if (
            not isinstance(model, StructuredDeviations)
            or self.components is None
            or model.design.variable is None
        ):
            return None
        return model.curves(self.mask)

    @cached_property
    def worst(self) -> WorstEnvironment | None:
        """Return the environment that deviates most from all others, given the selected subset.

        Returns
        -------
        WorstEnvironment or None
            None if its p-value is not below 0.05/E, or environments are not given by one label.
        """
        return self._worst_by(self.findings.target.model)

    @cached_property
    def worst_at_all(self) -> WorstEnvironment | None:
        """The same at the full level: it may deviate in its baseline or its noise, too."""
        if self.findings.level is Level.full:
            return self.worst
        return self._worst_by(self.findings.target.model.at_level(Level.full))

    def _worst_by(self, model: BoundModel) -> WorstEnvironment | None:
        compared = compared_model(model) is not None or model.compared_by(self.mask) is not None
        if self.n_environments < 2 or self.components is not None or not (self.judged and compared):
            return None
        worst = worst_environment(environment_tests(model, self.mask).each())
        small = worst is not None and worst.p_value < ALARM / self.n_environments
        return worst if small else None

    @cached_property
    def effective_tolerance(self) -> float:
        """Return the tolerated relative difference of the coefficients of the selected subset.

        Returns
        -------
        float
            The rho of the tolerance, or less if the signal is so strong that such differences would
            explain more of the residual variance than is tolerated.
        """
        model = self.model
        rho = self.tolerance.rho
        signal = model.signal_of(model.gain_many(self.mask[None]))
        allowed = self.tolerance.noncentrality(signal, model.n_informative)
        return float(np.sqrt(allowed[0] / signal[0])) if signal[0] > 0.0 else rho

    @property
    def tolerates_less(self) -> bool:
        """Whether the effective tolerance is noticeably below rho."""
        return self.effective_tolerance < 0.9 * self.tolerance.rho

    @cached_property
    def without_worst(self) -> tuple[float, float] | None:
        """p-values of approximate and of exact invariance of the chosen subset without the
        environment that deviates most; None where there is no such environment, or too few rows are
        left."""
        if self.worst is None or self.worst.environment is None:
            return None
        try:
            others = self.model.without(self.worst.environment)
        except DataError:
            return None
        left = np.array([name in self.selected for name in others.feature_names])
        evidence = Judge(others, self.tolerance).evidence(left[None], elsewhere=False).one()
        return evidence.p_invariant, evidence.p_exact

    @cached_property
    def verdict(self) -> Verdict:
        """Return the verdict on invariance of the selected features.

        Returns
        -------
        Verdict
            A grade and sentences.
        """
        return verdict_on(self)

    @property
    def causes(self) -> str:
        """Why the exact test may reject the mode of the paper's posterior: it may compare
        baselines, and the selection not."""
        judge = self.findings.posterior.judge
        stricter = judge is not None and judge.model.level is not self.findings.level
        return COMPARES_BASELINES if stricter else CAUSES

    @property
    def in_short(self) -> str:
        """What is the same in all environments, in a few words."""
        verdict = self.verdict
        in_effects = self.worst is not None and self.worst.part == SLOPES
        alone = verdict.environment if in_effects and verdict.grade is Grade.but_for else None
        return in_short(self.level, verdict, self.tested_effects, self.baseline, alone)

    @cached_property
    def known_by_tolerance(self) -> dict[float, Names | None] | None:
        """`by_tolerance`, which is shown if it is found in seconds."""
        if self._asks_for_compatible and (
            not self.findings.cheap_again or out_of_time("other tolerances")
        ):
            return None
        return self.by_tolerance

    @cached_property
    def by_tolerance(self) -> dict[float, Names | None]:
        """Return the selection at other tolerated differences of coefficients.

        Returns
        -------
        dict of float to tuple of str or None
            {rho: selected features}, also for the rho of the fit; None if no subset is compatible.
            Empty if the rule does not depend on compatibility.
        """
        if not self._asks_for_compatible:
            return {}
        own = self.tolerance.rho
        found: dict[float, Names | None] = {}
        for rho in sorted({*_OTHER_TOLERANCES, own}):
            findings = self.findings
            if rho != own:
                findings = findings.at(replace(self.tolerance, rho=rho))
            found[rho] = None
            if findings.predictive is not None:
                found[rho] = findings.posterior.names_of(self.rule.select(findings))
        return found

    @property
    def _asks_for_compatible(self) -> bool:
        return asks_for_compatible(self.rule) and self.n_environments > 1

    def simulated_chance(self) -> ChanceSelection:
        """Simulate data sets, in which a feature may be selected that is not invariant;
        SettingError where that is not possible."""
        unchallenged = [
            feature.name
            for feature in self.features
            if feature.selected and feature.never_challenged
        ]
        names = self.findings.posterior.feature_names
        return chance_selection(self.findings, self.mask, self.rule, as_mask(unchallenged, names))

    @property
    def prediction(self) -> Choice:
        """Return whether all features predict or the selected ones, with the reason.

        Returns
        -------
        Choice
            Errors of both in held-out environments, and the choice.
        """
        return self.predictions.choice

    @property
    def new_environments(self) -> NewEnvironments:
        """Errors of what predicts in environments that are left out."""
        return self.predictions.new_environments(self.predict_with)

    @cached_property
    def alarms(self) -> Names:
        """Cautions for readers of the chosen subset."""
        return self.findings.target.model.untilted.remarks(self.mask[None]).alarms

    @cached_property
    def n_tried(self) -> int:
        """Subsets that were tested for invariance."""
        predictive = self.predictive
        n = self.findings.posterior.n_subsets
        if predictive is None:
            return n if self.compatible.all_scored else len(self.survey.masks)
        return int(predictive.diagnostics.get("subsets_tested", n))

    @property
    def predictor_in_words(self) -> str:
        """Return what predicts, and why."""
        return self.predictions.told(self.predict_with)

    @property
    def sections(self) -> tuple[Section, ...]:
        """What text and HTML show: the facts, the selected features and the others."""
        return tuple(self.found())

    def found(self) -> Iterator[Section]:
        """Yield each as soon as it is known, the verdict first, if not all is computed."""
        yield Section("Decision", facts=tuple(_facts(self)), label_width=13)
        effects = effect_section(self)
        if effects is not None:
            yield effects
        for title, selected, most in (
            ("Selected", True, _MOST_SELECTED),
            ("Other", False, MOST_OTHERS),
        ):
            features = [feature for feature in self.features if feature.selected is selected]
            shown = features[:most]
            rest = Counter(feature.role.value for feature in features[most:])
            notes = [UNCHALLENGED] if any(feature.never_challenged for feature in shown) else []
            if rest:
                roles = ", ".join(f"{role} ({n:,})" for role, n in rest.most_common())
                notes.insert(0, f"… and {len(features) - most:,} more: {roles}")
            if features:
                facts = tuple((feature.name, role_in_words(feature)) for feature in shown)
                yield Section(f"{title} features", facts=facts, notes=tuple(notes))
        title = "Selected, by how much coefficients may differ"
        tried = self.known_by_tolerance
        if tried is None and self._asks_for_compatible:
            yield Section(title, sentences=(_NOT_TRIED,))
        elif tried is not None and len(set(tried.values())) > 1:
            told = ((f"{rho:.0%}", _or_none(names)) for rho, names in tried.items())
            allowed = f"no more than {format_percent(self.effective_tolerance)} is tolerated"
            limit = f"Of {format_subset(self.selected)}, whose signal is strong, {allowed}."
            yield Section(title, facts=tuple(told), notes=(limit,) if self.tolerates_less else ())

    @cached_property
    def estimates(self) -> Estimates:
        """Coefficients of the chosen subset and their standard errors, which every table and
        picture shows."""
        return self.model.estimates(self.mask)

    @cached_property
    def between_environments(self) -> MetaAnalysis | None:
        """How each coefficient of the chosen subset differs between environments; None if these are
        not one label."""
        own = self.model.own_estimates(self.mask, self.estimates)
        if own is None:
            return None
        return heterogeneity(own.values[:-1], own.errors[:-1], own.freedom[:-1])

    def coefficients(self, coverage: float = 0.95) -> pd.DataFrame:
        """Return coefficients of the selected subset, for the pool and each environment.

        They are maximum likelihood estimates with intervals, also if the model keeps its fits
        finite by pseudo-data, which shrink `coef_`. If maximum likelihood is infinite, because
        features separate the outcome of an environment or it has no events, the estimate with
        pseudo-data is given and marked.

        Parameters
        ----------
        coverage : float, default=0.95
            Confidence level of the intervals, between 0 and 1.

        Returns
        -------
        DataFrame
            One row for each column and environment, the pool ("pooled") first: column, environment,
            estimate, lower, upper, infinite (whether the maximum likelihood estimate is infinite),
            note. NaN if a column is constant or a combination of others, as the note states.

        Raises
        ------
        SettingError
            If coverage is not between 0 and 1.
        """
        import pandas as pd

        if not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
            raise SettingError(
                f"coverage={coverage!r} is not possible: use a number between 0 and 1, such as "
                "0.95."
            )
        labels = self.findings.posterior.environments
        found = self.estimates
        pooled = free_name("pooled", [label for label in labels if isinstance(label, str)])
        values, errors, freedom, infinite, one_value = (np.roll(part, 1, axis=0) for part in found)
        freedom = freedom[:, None]
        known = np.isfinite(freedom).any()
        notes = np.where(np.isnan(values), "constant", "" if known else NO_INTERVAL)
        if known:
            unknown = np.where(freedom > 0.0, "not identified", "too few rows")
            notes = np.where(np.isnan(errors) & (notes == ""), unknown, notes)
            values = np.where(np.isnan(errors), np.nan, values)
        why = np.where(one_value, ONE_VALUE, SEPARATION)[:, None] + np.where(
            np.isnan(values), "", PENALISED
        )
        notes = np.where(infinite, why, notes)
        margins = t.ppf(0.5 + coverage / 2.0, np.where(freedom > 0.0, freedom, np.nan)) * errors
        return pd.DataFrame(
            {
                "column": [name for _ in values for name in self.columns],
                "environment": pd.Series(
                    [label for label in (pooled, *labels) for _ in self.columns], dtype=object
                ),
                "estimate": values.ravel(),
                "lower": (values - margins).ravel(),
                "upper": (values + margins).ravel(),
                "infinite": infinite.ravel(),
                "note": pd.Series(notes.ravel().tolist(), dtype=object),
            }
        )

    def effects(self, coverage: float = 0.95, by_environment: bool = False) -> pd.DataFrame:
        """Return the effect of each column per unit, and its heterogeneity between environments.

        Effects are differences of the outcome or ratios of odds, rates, hazards or means:
        `coefficients` times `size`, for ratios with the exponential. A family with a link of its
        own is refused.

        Parameters
        ----------
        coverage : float, default=0.95
            Confidence level of the intervals, also of those for a new environment.
        by_environment : bool, default=False
            Whether rows for each environment follow the row of all environments.

        Returns
        -------
        DataFrame
            One row for each column of the selected features, and environment. Columns of curves,
            which do not have a unit, are not included.

            - feature, column, unit, size: what changes, and by how much;
            - environment: "pooled", for the fit to all rows, or a label;
            - estimate, lower, upper: the effect with its interval. Ratios are on the ratio scale;
            - standard_error: of a difference, or of the logarithm of a ratio;
            - tau: standard deviation of the effect between environments, of logarithms for a ratio,
              by restricted maximum likelihood from the estimates of the environments;
            - i2: share of the variance of these estimates that is not due to sampling, as in
              metafor;
            - p_interaction: p-value of the same effect in all environments, by Welch's version of
              Cochran's Q, which allows for few rows;
            - prediction_lower, prediction_upper: interval for the effect in a new environment,
              μ ± t(E − 2)·√(τ² + se²) around the random-effects mean, from four environments on;
            - infinite: whether the maximum likelihood estimate is infinite, because features
              separate the outcome or there are no events. The estimate is then that with
              pseudo-data. Such environments do not count in tau, i2, p_interaction and the interval
              for a new environment;
            - note: why there is no estimate, or a remark on it.

            From tau to prediction_upper, NaN in rows of environments and if these are not given by
            one label.

        Raises
        ------
        SettingError
            If coverage is not between 0 and 1, or the family has a link of its own.

        See Also
        --------
        coefficients : Return coefficients of columns, without units.

        References
        ----------
        Viechtbauer, W. (2005), Bias and efficiency of meta-analytic variance estimators in the
        random-effects model, Journal of Educational and Behavioral Statistics 30, 261-293,
        doi:10.3102/10769986030003261.

        Higgins, J. P. T., Thompson, S. G. and Spiegelhalter, D. J. (2009), A re-evaluation of
        random-effects meta-analysis, Journal of the Royal Statistical Society A 172, 137-159,
        doi:10.1111/j.1467-985X.2008.00552.x.
        """
        from .effects import effects

        return effects(self, coverage, by_environment)

    def plot(
        self, kind: PlotKind = "inclusion", ax: Axes | None = None, top: int | None = None
    ) -> Any:
        """Draw one kind of plot.

        Parameters
        ----------
        kind : {"inclusion", "effects", "left_out", ...}, default="inclusion"
            Further kinds are "calibration", "subsets", "coefficients", "environments", "frontier",
            "along" for environments along a variable, and "trace" for `engine="vi"`.
        ax : Axes, default=None
            Axes to draw on. None makes a new figure, which notebooks show.
        top : int, default=None
            Largest number of features, subsets or environments drawn. None is as many as fit.

        Returns
        -------
        Axes or dict of str to Axes
            The axes, by name if the plot has several.
        """
        from .plots import plot

        return plot(self, kind, ax, top)

    def to_plain(self) -> Fields:
        """As values that JSON can hold; numbers that are not known are None."""
        posterior = self.findings.posterior
        compatible = self.compatible
        coefficients = self.coefficients()
        probability = posterior.mode_probability
        coefficients["environment"] = [str(label) for label in coefficients["environment"]]
        tried = self.known_by_tolerance
        level = compatible.accepted.level
        content = {
            "verdict": self.verdict,
            "level": self.level,
            "heterogeneity": self.heterogeneity,
            "baseline": self.baseline,
            "invariant": self.invariant if posterior.n_environments > 1 else None,
            "selected": self.selected,
            "rule": self.rule_says,
            "tolerance": self.tolerance,
            "effective_tolerance": self.effective_tolerance,
            "by_tolerance": None
            if tried is None
            else {f"{rho:g}": names for rho, names in tried.items()},
            "subsets_tried": self.n_tried,
            "luck": self.chance,
            "price_of_a_column": self.findings.score.price,
            "predicts_with": self.predictions.resolved(self.predict_with),
            "prediction": self.prediction.content,
            "price": None if self.cost is None else self.cost.content,
            "absorbed_baselines": self.absorbed_baselines,
            "evidence": self.evidence,
            "compatible": {
                "subsets": compatible.n,
                "all_scored": compatible.all_scored,
                "level": level,
            },
            "most_probable": {
                "subset": posterior.mode,
                "probability": probability,
                "evidence": self.mode_evidence,
            },
            "autocorrelation": self.autocorrelation,
            "components": None if self.components is None else self.components.content,
            "along": None if self.curves is None else self.curves._asdict(),
            "noise": None if self.noise is None else self.noise.to_plain(),
            "features": [feature.content for feature in self.features],
            "coefficients": coefficients.to_dict("records"),
            "effects": effect_records(self),
        }
        plain: Fields = to_json(content, null)
        return plain


@dataclass(frozen=True, repr=False)
class FitSummary(Rendered):
    """The decision, then the posterior by which it was made; worded : how a sentence with remedies
    is written."""

    decision: Decision
    posterior: Summary
    worded: Callable[[str], str] = str

    @property
    def sections(self) -> tuple[Section, ...]:
        return tuple(self.found())

    def found(self) -> Iterator[Section]:
        """Each section as soon as it is known: the verdict first."""
        yield from self.decision.found()
        posterior, *more = self.posterior.sections
        if self.decision.n_environments > 1:  # the verdict counts the subsets
            posterior = replace(
                posterior, facts=tuple(fact for fact in posterior.facts if fact[0] != "subsets")
            )
        yield from (posterior, *more, *self._second_view)

    @property
    def _second_view(self) -> tuple[Section, ...]:
        """The paper's posterior, where the rule selects by another."""
        posterior = self.decision.findings.posterior
        if self.decision.posterior is posterior:
            return ()
        about = (
            (papers_view(self.decision.findings.target.model),)
            if posterior.n_environments > 1
            else ()
        )
        return (
            Section(
                "The paper's posterior, by invariance alone",
                (reading(posterior, self.decision.causes), *about),
            ),
        )

    def __str__(self) -> str:
        return as_text(self.sections, self.worded)

    __repr__ = __str__


# ---------------------------------------------------------------- the verdict, and other words


@dataclass(frozen=True)
class Verdict:
    """State whether the selected features are invariant, as a grade and in sentences.

    Attributes
    ----------
    grade : Grade
        The grade.
    sentence : str
        The whole verdict.
    environment : str or None
        Label of the environment that deviates most, if it does significantly.
    effects : str
        Whether effects are the same.
    baseline : str
        Whether baselines are the same.
    follows : str
        Consequence for a new environment.
    context : str
        What was tested.
    """

    grade: Grade
    sentence: str
    environment: str | None = None
    effects: str = ""
    baseline: str = ""
    follows: str = ""
    context: str = ""

    @property
    def short(self) -> str:
        return (
            f"alike but for {in_quotes(self.environment)}"
            if self.grade is Grade.but_for
            else self.grade.value
        )

    def __str__(self) -> str:
        return self.sentence


_NOT_TRIED = (
    "Other tolerances were not tried, because each takes another search. In Python "
    "decision_.by_tolerance tries four, "
    "on the command line --tolerance 0.05 tries one."
)
_OTHER_TOLERANCES = (0.0, 0.05, 0.1, 0.2)


def papers_view(model: BoundModel) -> str:
    """What the paper's posterior is about; marginal likelihoods prefer large subsets, maximised
    ones small ones."""
    small = ": where many subsets are invariant it prefers small ones, and may be empty"
    return (
        "It weighs how alike the environments are, not how well a subset predicts, and tolerates "
        "no difference"
        f"{'' if isinstance(model, BayesianGaussian) else small}."
    )


def _or_none(names: Names | None) -> str:
    return "no subset is compatible" if names is None else format_subset(names)


def p_values_in_words(evidence: SubsetEvidence | Heterogeneity) -> str:
    """The tolerant and the exact one."""
    p_value = evidence.p_value if isinstance(evidence, Heterogeneity) else evidence.p_invariant
    return f"p-value {format_p_value(p_value)}, exact {format_small_p_value(evidence.p_exact)}"


def grade_of(
    evidence: SubsetEvidence,
    accepted: Tolerance,
    worst: WorstEnvironment | None,
    without_worst: tuple[float, float] | None,
) -> Grade:
    """Of a subset; worst : the environment that deviates significantly, without_worst : see
    `Decision`"""
    compatible = evidence.p_invariant >= accepted.level
    found = min(FOUND, accepted.level)
    if compatible and evidence.difference_high <= accepted.rho:
        return Grade.alike
    if (
        evidence.p_invariant >= accepted.lowest_level
        and worst is None
        and evidence.p_exact >= found
    ):
        return Grade.no_difference
    if (
        without_worst is not None
        and without_worst[0] >= accepted.level
        and without_worst[1] >= found
    ):
        return Grade.but_for
    return Grade.differ


def verdict_on(decision: Decision) -> Verdict:
    posterior = decision.findings.posterior
    context = " ".join(_context(decision))
    if posterior.n_environments == 1 or not decision.judged:
        return Verdict(Grade.open, context)
    grade = _grade(decision)
    worst = decision.worst
    label = None if worst is None or worst.environment is None else str(worst.environment)
    baseline = _baseline_sentence(decision)
    follows = _what_follows(decision, grade)
    effects = _effects_sentence(decision, grade, label)
    sentence = " ".join(part for part in (effects, baseline, follows, context) if part)
    return Verdict(grade, sentence, label, effects, baseline, follows, context)


def _grade(decision: Decision) -> Grade:
    """Of the subset at its level; alike only if the effects alone are, too."""
    grade = grade_of(decision.evidence, decision.accepted, decision.worst, decision.without_worst)
    grade = decision.tested_effects.qualifying(grade, decision.accepted)
    sees_factors = decision.components is None or decision.components.sees_factors
    return Grade.no_difference if grade is Grade.alike and not sees_factors else grade


def _effects_sentence(decision: Decision, grade: Grade, label: str | None) -> str:
    """Whether effects are the same, whatever the baselines; of no features, whether the outcome
    itself is."""
    posterior = decision.findings.posterior
    found = decision.tested_effects
    k = len(decision.selected)
    outcome = printable(posterior.outcome_name)
    between = f"between the {posterior.n_environments:,} environments"
    everyone = f"in {everywhere(posterior)}"
    apart = "between environments"
    if decision.components is not None:
        everyone = decision.components.design.everywhere
        between = decision.components.design.compared
        apart = decision.components.differing
    values = p_values_in_words(decision.evidence)
    if not k and decision.findings.level is not Level.full:
        return (
            f"No feature is selected: none with the same effect everywhere predicts {outcome} "
            "well enough."
        )
    if not k:
        if grade in (Grade.alike, Grade.no_difference):
            return f"No difference was found in {outcome} itself {between} ({values})."
        lowest = decision.tolerance.lowest_level
        part = "spread" if decision.evidence.p_spread < lowest else "distribution"
        part = "mean" if decision.evidence.p_mean < lowest else part
        return f"The {part} of {outcome} differs {apart} ({values})."
    own = not separates_effects(decision.model)
    in_effects = decision.worst is not None and decision.worst.part == SLOPES
    shown = found.grade
    if own or (grade is Grade.but_for and in_effects) or found.same is None:
        shown = grade
    if shown is Grade.alike and grade is Grade.no_difference:
        shown = grade
    joined = "baseline or" if shown is Grade.differ else "baseline and"
    several = own or k > 1
    what = f"{f'{joined} ' if own else ''}{'effects' if several else 'effect'} of {k:,} "
    what += f"{'feature' if k == 1 else 'features'} on {outcome}"
    if not own:
        values = p_values_in_words(found)
    size = "" if np.isnan(found.difference) else format_percent(found.difference)
    interval = f"90% CI {format_percent(found.low)} to {format_percent(found.high)}"
    share = float(decision.model.deviation_shares(decision.mask[None])[0])
    explained = f"; deviations explain {format_percent(share)} of the noise's variance"
    explained = "" if np.isnan(share) else explained
    most = f", most in {in_quotes(label)} (slopes)" if label is not None and in_effects else ""
    same = f"The {what} {'are' if several else 'is'} the same"
    if shown is Grade.alike:
        details = f"difference {size}, {interval}{most}; {values}{explained}"
        return f"{same} {everyone} to within {decision.tolerance.rho:.0%} ({details})."
    clear = size and found.low > 0.0
    if shown is Grade.no_difference:
        excluded = f"; up to {format_percent(found.high)} cannot be excluded" if size else ""
        excluded = f": estimated {size}, {interval}" if clear else excluded
        if decision.components is not None and not decision.components.sees_factors:
            excluded = "; the test sees little here"
        return (
            f"No{' clear' if found.low > 0.0 else ''} difference was found {between} in the "
            f"{what}{excluded} ({values}{most}{explained})."
        )
    if shown is Grade.but_for and decision.worst is not None and decision.without_worst is not None:
        p_invariant, p_exact = map(format_p_value, decision.without_worst)
        deviates = (
            "which deviates from the others (exact p-value "
            f"{format_small_p_value(decision.worst.p_value)})"
        )
        deviates += ", but not clearly more than is tolerated" if decision.is_compatible else ""
        return (
            f"{same} in all environments but {in_quotes(label)}, {deviates} ({values}; without it "
            f"p-value {p_invariant}, exact {p_exact})."
        )
    if own and label is not None and decision.worst is not None:
        most = f", most in {in_quotes(label)} ({decision.worst.part})"
    if decision.components is not None:
        change = decision.components.change
        most = "" if change is None else f", most in {change.told(posterior.outcome_name)}"
    by = f" by {size} ({interval})" if clear else ""
    tolerated = format_percent(decision.effective_tolerance)
    limit = f" where {tolerated} is tolerated" if decision.tolerates_less else ""
    if decision.is_compatible and not found.low > decision.effective_tolerance:
        most += ", not clearly more than is tolerated"
    differ = "differ" if several else "differs"
    return f"The {what} {differ} {apart}{by}{limit}{most}{explained} ({values})."


def _baseline_sentence(decision: Decision) -> str:
    """Whether baselines, and the noise, differ between environments."""
    found = decision.baseline
    said = []
    if found is not None:
        size = f", sd {found.size} between environments" if found.size else ""
        values = f"(p-value {format_small_p_value(found.p_value)}{size})"
        if decision.level == Level.full and not found.same:
            beside = "effects" if decision.selected else "all else"
            passes = f"p ≥ {decision.accepted.level:g}"
            together = f"p-value {format_p_value(decision.evidence.p_invariant)}"
            said.append(
                f"Tested together with {beside}, baselines pass at {passes} ({together}); tested "
                f"alone, they differ {values}."
            )
        else:
            differ = "do not differ detectably" if found.same else "differ"
            said.append(f"Baselines {differ} {values}.")
    lowest = decision.tolerance.lowest_level
    if decision.findings.level is Level.effects_noise_free:
        said.append("The noise differs, too: each environment has its own.")
    elif decision.evidence.p_spread < lowest and decision.selected:
        said.append(
            "The spread of the noise differs (p-value "
            f"{format_small_p_value(decision.evidence.p_spread)})."
        )
    for worst in (
        dict.fromkeys((decision.worst_at_all, decision.worst)) if found is not None else ()
    ):
        if worst is not None and worst.environment is not None and worst.part != SLOPES:
            values = f"exact p-value {format_small_p_value(worst.p_value)}"
            values += (
                ", not clearly more than is tolerated"
                if worst is decision.worst and decision.is_compatible
                else ""
            )
            label = in_quotes(str(worst.environment))
            said.append(f"Environment {label} deviates most in its {worst.part} ({values}).")
    return " ".join(said)


_CARRY_OVER = "In a new environment, carry over the effects and estimate the"


def _what_follows(decision: Decision, grade: Grade) -> str:
    """For an environment that was not seen."""
    if not decision.selected:
        return ""
    baseline = decision.baseline
    second_chance = decision.accepted.level < decision.tolerance.level
    if (
        decision.level == Level.full
        and baseline is not None
        and not baseline.same
        and (grade is Grade.but_for or second_chance)
    ):
        return Message(
            f"{_CARRY_OVER} baseline there. To estimate effects within environments",
            use(baseline="free"),
        )
    if decision.level not in (Level.effects, Level.effects_noise_free):
        return ""
    own = "baseline" if decision.level == Level.effects else "baseline and noise"
    said = f"{_CARRY_OVER} {own} there."
    shifted = decision.shifted
    moved = f", and here they move {format_subset(shifted)}" if shifted else ""
    return f"{said} A feature that environments move only in its mean would pass this test{moved}."


def compared_in_words(model: BoundModel, joint: str = "and") -> str:
    """Return what has to be the same for p-values of a subset: effects, baselines, noise."""
    names = {
        INTERCEPT: "baselines",
        BASELINE: "baselines",
        VARIANCE: "noise",
        DISPERSION: "dispersion",
    }
    return in_series(["effects", *(names[part] for part in model.compares if part in names)], joint)


def _context(decision: Decision) -> Iterator[str]:
    """What else belongs to a verdict: what was tried, what passes, and where nothing does."""
    posterior = decision.findings.posterior
    outcome = printable(decision.findings.posterior.outcome_name)
    compatible = decision.compatible
    chosen = format_subset(decision.selected)
    if posterior.n_environments == 1:
        yield (
            f"One environment cannot tell which features predict {outcome} alike elsewhere: "
            "nothing speaks for the "
            f"selection {chosen} in another one. Add rows from at least one other environment."
        )
    elif decision.is_compatible:
        if decision.accepted.level < decision.tolerance.level:
            levels = f"{decision.tolerance.level:g}, so p ≥ {decision.accepted.level:g} was used"
            yield f"No subset{decision.findings.allowed} passes at p ≥ {levels}."
        all_pass = compatible.n == posterior.n_subsets > 1
        if all_pass and decision.findings.level is not Level.full:
            yield (
                f"All {format_count(compatible.n)} subsets are compatible with equal effects, so "
                "that prediction alone decides between them."
            )
        elif all_pass:
            yield (
                "But nothing speaks against any other subset either: all "
                f"{format_count(compatible.n)} are compatible "
                "with invariance. The environments differ too little, or have too few rows, to "
                "tell subsets apart."
            )
        else:
            yield f"Subsets tried: {format_count(decision.n_tried)}; compatible: {compatible}."
    elif not compatible.n:
        found = "is" if compatible.all_scored else "was found that is"
        subset = f"No subset of these features{decision.findings.allowed} {found} invariant"
        design = None if decision.components is None else decision.components.design
        where = f"in {everywhere(posterior)}" if design is None else design.everywhere
        yield f"{subset} {where}: {_closest(decision)}."
        yield (
            f"The selection {chosen} is {fallback(decision)}; in a new environment it may "
            "predict differently."
        )
    else:
        if not decision.judged:
            yield (
                f"The rows cannot judge whether the selected features {chosen} predict "
                f"{outcome} alike."
            )
        best = format_subset(posterior.names_of(compatible.masks[0]))
        yield (
            f"Subsets that reach p-value {decision.accepted.level:g}: {compatible}; of them "
            f"{best} predicts best."
        )
    if decision.absorbed_baselines:
        yield site_level_caution(decision.findings.target.model, decision.mask)


def _closest(decision: Decision) -> str:
    survey = decision.survey
    # P-values that are all 0 in float64 say nothing: then by how different coefficients are.
    best = int(np.lexsort((survey.difference, -survey.p_invariant))[0])
    tested = f"of {'all' if survey.complete else 'the'} {format_count(len(survey.masks))} "
    tested += "tested" if survey.complete else "listed"
    closest = format_subset(decision.findings.posterior.names_of(survey.masks[best]))
    p_value = (
        f"p-value {format_p_value(float(survey.p_invariant[best]))}, and "
        f"{decision.accepted.level:g} is needed"
    )
    return f"{tested}, {closest} is closest ({p_value})"


def fallback(decision: Decision) -> str:
    """Which rule chose where nothing is compatible."""
    if not decision.fell_back:
        return "what the rule chose all the same"
    return "that of the random-effects rule, from how coefficients differ between environments"


def _facts(decision: Decision) -> Iterator[tuple[str, str]]:
    """With one environment no subset is compatible with anything, nor more probable than the prior
    says."""
    posterior = decision.findings.posterior
    target = decision.findings.target
    verdict = decision.verdict
    yield "verdict", " ".join(part for part in (verdict.effects, verdict.context) if part)
    if verdict.baseline:
        yield "baseline", verdict.baseline
    if verdict.follows:
        yield "elsewhere", verdict.follows
    if decision.chance is not None:
        yield "luck", str(decision.chance)
    yield (
        "selected",
        f"{format_subset(decision.selected)}: {_figures_in_words(decision, decision.evidence)}",
    )
    yield "predicts with", decision.predictor_in_words
    if decision.cost is not None:
        yield "price", str(decision.cost)
    if posterior.n_environments > 1:
        judged_by = decision.model.judged_by(decision.accepted)
        least = (
            f"; rho {decision.effective_tolerance:.2g} for the selected features, whose "
            "signal is strong"
        )
        yield "test", f"{judged_by}{least if decision.tolerates_less else ''}"
    if decision.components is not None:
        yield from decision.components.facts(posterior.outcome_name)
    yield from (("caution", alarm) for alarm in decision.alarms)
    if decision.autocorrelation is not None and decision.autocorrelation.alarms:
        yield "caution", decision.autocorrelation.sentence
    yield "rule", decision.rule_says
    if decision.noise is not None and decision.noise.sentence is not None:
        yield "noise", decision.noise.sentence
    largest = target.model.largest_size
    if largest < posterior.n_features and target.prior.max_size >= largest:
        smallest = int(np.argmin(posterior.counts))
        few = (
            f"{printable(str(posterior.environments[smallest]))} has {posterior.counts[smallest]:,}"
        )
        few = (
            few
            if decision.components is None
            else f"there are {target.model.n_informative:,} for all deviations"
        )
        yield (
            "limit",
            f"the rows are too few to judge subsets of more than {largest:,} features: {few}.",
        )


def _figures_in_words(decision: Decision, evidence: SubsetEvidence) -> str:
    figures = [f"R² {format_share(evidence.r2)}"]
    if decision.n_environments > 1 and np.isfinite(evidence.deviance):
        values = p_values_in_words(evidence)
        of_effects = decision.heterogeneity.same is None or values == p_values_in_words(
            decision.heterogeneity
        )
        together = "" if of_effects else f" ({compared_in_words(decision.model)})"
        figures.insert(0, f"{values}{together}")
    if not np.isnan(evidence.r2_new):
        figures.append(f"{format_share(evidence.r2_new)} in environments left out")
    return ", ".join(figures)


_ROLES = {
    Role.required: "required: in every compatible subset listed",
    Role.kept: "kept for prediction",
    Role.chosen: "chosen by the rule",
    Role.fallback: "chosen by the fallback",
    Role.forced: "forced in by the prior",
    Role.breaks: "breaks invariance",
    Role.adds_nothing: "improvement too small",
    Role.predicts_more: "would predict more and stay compatible",
    Role.left_out: "left out",
    Role.too_small: "left out: improvement too small",
    Role.raises_error: "left out: raises the expected error in a new environment",
    Role.constant_within: "constant within environments: its effect cannot be compared between "
    "them",
    Role.not_allowed: "not allowed beside the selected ones by the prior",
    Role.not_judged: "cannot be judged beside the selected ones: too few rows, or nearly given by "
    "them",
}


def role_in_words(feature: FeatureRole) -> str:
    """With its figures."""
    words = _ROLES[feature.role]
    if feature.role in (Role.breaks, Role.predicts_more):
        words += f" (p-value {format_p_value(feature.p_invariant)})"
    if feature.role is Role.fallback and feature.error_change > 0.0:
        lowered = format_percent(feature.error_change / (1.0 + feature.error_change))
        words += f": lowers the expected error in a new environment by {lowered}"
    if feature.role in (Role.adds_nothing, Role.too_small):
        figures = f"LR {feature.gain:.1f}, p-value {format_p_value(feature.p_gain)}"
        words += f" ({figures}; {feature.price:.1f} required)"
    if feature.role is Role.left_out and feature.error_change < 0.0:
        words += ": beside it a selected feature is not worth its price"
    if feature.role is Role.raises_error:
        words += f" by {format_percent(feature.error_change)}"
    if feature.constant_within and feature.role is not Role.constant_within:
        words += "; constant within environments"
    if feature.broken is not None:
        label = feature.broken.environment
        part = feature.broken.part
        words += f", in its {part}" if label is None else f", most in {in_quotes(label)} ({part})"
    if not np.isnan(feature.r2_change):
        words += f"; R² {feature.r2_change:+z.3f}{' without it' if feature.selected else ''}"
    return f"{words}; never challenged" if feature.never_challenged else words
