"""Compatible subsets, and the role of each feature given a chosen subset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from .._tools.arrays import Floats, Mask
from .._tools.json import null, to_json
from ..data.features import distinct
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError
from ..inference.enumeration import Enumeration
from ..models.base import VARIANCE, BoundModel
from ..models.gaussian import GaussianModel
from ..models.invariance_test import Tolerance, joint_p_value
from ..moments.moments import Moments
from .environments import Broken, where_it_breaks
from .predictive import PredictiveScore
from .rules import Findings

# Residuals that a survey may compute, for the tails' weight.
_MOST_RESIDUALS = 1_000_000_000
_MOST_SURVEYED, _FEWEST_SURVEYED = 8192, 200
# Other features whose breaking environment is looked for, those that predict most first.
MOST_OTHERS = 20
_AT_ONCE = 256


def never_challenged(model: BoundModel, mask: Mask, feature: int, tolerance: Tolerance) -> bool | None:
    """Whether no environment shifts a feature of the subset (p,) given the others in it: with each of its columns as
    the outcome, those others are compatible with invariance. None where that cannot be tested."""
    linear = model.by_least_squares
    if linear is None or linear.moments.n_environments < 2:
        return None
    others = mask.copy()
    others[feature] = False
    rest = linear.features.expand(others)
    own = np.arange(linear.features.starts[feature], linear.features.starts[feature + 1])
    return all(_compatible(linear, rest, int(column), tolerance) for column in own)


def _compatible(model: GaussianModel, rest: Mask, column: int, tolerance: Tolerance) -> bool:
    """Of a column as the outcome of the columns `rest` (q,)."""
    try:
        turned = model.of(_turned(model, rest, column))
    except DataError:
        # Constant in some environment, and not in all of them.
        return False
    given_rest = np.append(np.ones(rest.sum(), dtype=bool), False)
    return bool(turned.invariance_test(given_rest, tolerance).joint[0] >= tolerance.level)


def _turned(model: GaussianModel, rest: Mask, column: int) -> MultiEnvironmentData | Moments:
    """The column as the outcome of the columns `rest` and, last, of the old outcome."""
    names, outcome = model.features.columns, model.moments.outcome_name
    kept = [name for name, flag in zip(names, rest, strict=True) if flag]
    data = model.rows
    if data is None:
        moments = model.moments.of_columns((*kept, names[column], outcome))
        return replace(moments, groups={}, encoding=None).with_outcome(names[column])
    return MultiEnvironmentData(
        X=np.column_stack([data.X[:, rest], data.y]),
        y=data.X[:, column],
        environment_index=data.environment_index,
        feature_names=(*kept, outcome),
        environments=data.environments,
        outcome_name=names[column],
    )


@dataclass(frozen=True, eq=False)
class CompatibleSubsets:
    """masks (k, p) : those that are listed, the best predictor first; n : how many there are, at least
    all_scored : whether every subset was tested, so that n is exact; exhaustive : whether none was overlooked where n
    is 0; accepted : the tolerance with the level that they reach; others (m, p) : compatible ones of the posterior
    """

    masks: Mask
    n: int
    all_scored: bool
    accepted: Tolerance
    exhaustive: bool
    others: Mask

    @property
    def complete(self) -> bool:
        """Whether all of them are listed."""
        return self.all_scored and len(self.masks) == self.n

    def in_all(self) -> Mask:
        """(p,) features that every known compatible subset holds; none where no subset is listed"""
        return np.asarray(self.masks.all(axis=0) & self.others.all(axis=0) & (len(self.masks) > 0))


def compatible_subsets(findings: Findings) -> CompatibleSubsets:
    """As the predictive posterior lists them; exact engines too may stop before the worst predictors are tested."""
    posterior, predictive = findings.posterior, findings.predictive
    exhaustive = isinstance(findings.engine, Enumeration)
    if predictive is None:
        none = np.empty((0, findings.target.n_features), dtype=bool)
        return CompatibleSubsets(none, 0, exhaustive, findings.tolerance.weak, exhaustive, none)
    masks = predictive.masks[predictive.log_probabilities > -np.inf]
    n = int(predictive.diagnostics.get("subsets_compatible", len(masks)))
    all_scored = predictive.diagnostics.get("compatible_counted", False) or n == posterior.n_subsets
    judge, probable = predictive.judge, posterior.masks[:_FEWEST_SURVEYED]
    assert judge is not None
    return CompatibleSubsets(masks, n, all_scored, judge.tolerance, exhaustive, probable[judge.compatible(probable)])


@dataclass(frozen=True, eq=False)
class Survey:
    """p_invariant, r2 (k,) of k subsets, masks (k, p), out of n_subsets; r2 is NaN where it is not known."""

    masks: Mask
    p_invariant: Floats
    r2: Floats
    n_subsets: int

    @property
    def complete(self) -> bool:
        """Whether all subsets are among them; a chosen one may be outside the prior's support."""
        return len(self.masks) >= self.n_subsets


def survey(findings: Findings, chosen: Mask) -> Survey:
    """Of the chosen subset (p,) and those that the posteriors list: all subsets while these are few."""
    model, posterior, predictive = findings.target.model, findings.posterior, findings.predictive
    most = max(_FEWEST_SURVEYED, min(_MOST_SURVEYED, _MOST_RESIDUALS // model.n_rows))
    listed = [chosen[None], posterior.masks[: most // 2]]
    if predictive is not None:
        listed.append(predictive.masks[: most // 2])
    masks = np.vstack(listed)
    masks = masks[np.sort(distinct(masks)[0])]
    p_values = model.invariance_test(masks, findings.tolerance).joint
    return Survey(masks, p_values, model.r2_many(masks), posterior.n_subsets)


class Role(StrEnum):
    """Of selected features: required, kept, chosen, forced; of others: the rest."""

    required = "required"  # no compatible subset lacks it
    kept = "kept for prediction"
    chosen = "chosen"  # by the rule, into a subset that is not compatible
    forced = "forced in"  # by the prior
    breaks = "breaks invariance"  # together with the subset
    may_break = "may break invariance"  # by unequal variances alone, which unknown tails could explain
    adds_nothing = "adds nothing"  # worth its price
    predicts_more = "would predict more"  # and stay compatible, but the rule left it out
    left_out = "left out"  # of a subset that is not compatible itself
    not_allowed = "not allowed"  # by the prior
    not_judged = "not judged"  # the rows cannot decide


@dataclass(frozen=True)
class FeatureRole:
    """r2_change : of R² when this feature alone is left out of the subset, or added to it; p_invariant : of the subset
    then; never_challenged : whether no environment shifted it given the others, None outside the subset or where not
    tested; broken : where it breaks invariance, if it does"""

    name: str
    selected: bool
    role: Role
    r2_change: float
    p_invariant: float
    never_challenged: bool | None = None
    broken: Broken | None = None

    def to_plain(self) -> dict[str, Any]:
        broken = None
        if self.broken is not None:
            label, p_value, part = self.broken
            broken = {"environment": None if label is None else str(label), "part": part, "p_value": p_value}
        plain: dict[str, Any] = to_json(replace(self, broken=None), null)
        return plain | {"broken": broken}


def feature_roles(findings: Findings, chosen: Mask, compatible: CompatibleSubsets) -> tuple[FeatureRole, ...]:
    """Of all features: those of the chosen subset (p,) in their order, then the others, by how much they predict."""
    neighbours = _Neighbours(findings, chosen, compatible.accepted)
    inside, outside = np.flatnonzero(chosen), np.flatnonzero(~chosen)
    outside = outside[np.argsort(-np.nan_to_num(neighbours.r2_change[outside], nan=-np.inf), kind="stable")]
    selected = [neighbours.selected(int(j), compatible) for j in inside]
    others = [neighbours.other(int(j), rank < MOST_OTHERS) for rank, j in enumerate(outside)]
    return (*selected, *others)


class _Neighbours:
    """The subsets that differ from the chosen one (p,) by one feature each, all (p,): p_invariant, and p_mean without
    the test of variances; r2_change; weight: log p(z) − cost(z)/2 minus that of the chosen one; allowed, by the prior;
    scored, by the model."""

    def __init__(self, findings: Findings, chosen: Mask, accepted: Tolerance) -> None:
        self.findings, self.model = findings, findings.target.model
        self.chosen, self.accepted = chosen, accepted
        own = self._measured(chosen[None])
        # In parts, each of which concerns few features: models may compute what these need on demand.
        p = len(chosen)
        starts = range(0, p, _AT_ONCE)
        parts = [self._measured(chosen ^ np.eye(min(_AT_ONCE, p - k), p, k, dtype=bool)) for k in starts]
        joint, r2, weight, log_prior, log_ratio, mean = (np.concatenate(values) for values in zip(*parts, strict=True))
        self.compatible = bool(own[0][0] >= accepted.level)
        self.p_mean = mean
        self.p_invariant, self.r2_change, self.weight = joint, _change(r2, own[1]), _change(weight, own[2])
        self.allowed, self.scored = log_prior > -np.inf, log_ratio > -np.inf

    def _measured(self, masks: Mask) -> tuple[Floats, ...]:
        """p_invariant, R², log p(z) − cost(z)/2, log p(z), log Λ, p-value of equal coefficients, each (S,)"""
        log_prior = self.findings.target.prior.log_prob(masks)
        r2 = self.model.r2_many(masks)
        weight = PredictiveScore(self.model, self.accepted).log_weights(masks) + log_prior
        test = self.model.invariance_test(masks, self.accepted)
        return test.joint, r2, weight, log_prior, self.model.log_ratio_many(masks), test.mean

    def selected(self, j: int, compatible: CompatibleSubsets) -> FeatureRole:
        role = Role.kept if self.compatible else Role.chosen
        if self.findings.target.prior.forced_in[j]:
            role = Role.forced
        elif compatible.in_all()[j] and self.p_invariant[j] < compatible.accepted.level:
            role = Role.required
        return self._role(j, role, never_challenged=never_challenged(self.model, self.chosen, j, self.accepted))

    def other(self, j: int, explained: bool) -> FeatureRole:
        """explained : whether to look for the environment where it breaks invariance"""
        broken = None
        if not self.scored[j]:
            role = Role.not_judged
        elif not self.compatible:
            role = Role.left_out
        elif self.p_invariant[j] < self.accepted.level:
            role, broken = self._breaking(j, explained)
        elif not self.allowed[j]:
            role = Role.not_allowed
        else:
            role = Role.predicts_more if self.weight[j] > 0.0 else Role.adds_nothing
        return self._role(j, role, broken=broken)

    def _breaking(self, j: int, explained: bool) -> tuple[Role, Broken | None]:
        enlarged = self.chosen.copy()
        enlarged[j] = True
        unseen = _tails_unseen(self.model, enlarged)
        # What would be left of the evidence if tails explained all of the variances' differences.
        if unseen and joint_p_value(self.p_mean[j], np.ones(())) >= self.accepted.level:
            return Role.may_break, None
        broken = where_it_breaks(self.model, self.chosen, j) if explained else None
        return Role.breaks, None if unseen and broken is not None and broken.part == VARIANCE else broken

    def _role(self, j: int, role: Role, **more: Any) -> FeatureRole:
        return FeatureRole(
            name=self.findings.posterior.feature_names[j],
            selected=bool(self.chosen[j]),
            role=role,
            r2_change=float(self.r2_change[j]),
            p_invariant=float(self.p_invariant[j]) if self.scored[j] else np.nan,
            **more,
        )


def _change(values: Floats, chosen: Floats) -> Floats:
    """From that of the chosen subset (1,); NaN where it is not known"""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(values), values - chosen, np.nan)


def _tails_unseen(model: BoundModel, mask: Mask) -> bool:
    """Whether residuals of the subset (p,) count as normal because fourth moments were read of other columns only."""
    if VARIANCE not in model.compares or not isinstance(model, GaussianModel) or model.fourths is None:
        return False
    return model.fourths.places(model.features.chosen(mask).columns) is None
