"""Compatible subsets, and the role of each feature given a chosen subset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

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
from ..posterior.summary import format_count
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
    given_rest = np.append(np.ones(rest.sum(), dtype=bool), False)
    for column in range(linear.features.starts[feature], linear.features.starts[feature + 1]):
        try:
            turned = linear.of(_turned(linear, rest, column))
        except DataError:
            # Constant in some environment, and not in all of them.
            return False
        if not turned.invariance_test(given_rest, tolerance).joint[0] >= tolerance.level:
            return False
    return True


def _turned(model: GaussianModel, rest: Mask, column: int) -> MultiEnvironmentData | Moments:
    """The column as the outcome of the columns `rest` and, last, of the old outcome."""
    names, outcome, data = model.features.columns, model.moments.outcome_name, model.data
    kept = tuple(name for name, flag in zip(names, rest, strict=True) if flag)
    if data is None:
        moments = model.moments.of_columns((*kept, names[column], outcome))
        return replace(moments, groups={}, encoding=None).with_outcome(names[column])
    X, labels = np.column_stack([data.X[:, rest], data.y]), data.environments
    return MultiEnvironmentData(X, data.X[:, column], data.environment_index, (*kept, outcome), labels, names[column])


@dataclass(frozen=True, eq=False)
class CompatibleSubsets:
    """masks (k, p) : those that are listed, the best predictor first; n : how many there are, at least
    all_scored : whether every subset was tested, so that n is exact; accepted : the tolerance with the level that they
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
    """As the predictive posterior lists them; exact engines too may stop before the worst predictors are tested."""
    posterior, predictive = findings.posterior, findings.predictive
    if predictive is None:
        none = np.zeros((0, findings.target.n_features), dtype=bool)
        exhaustive = isinstance(findings.engine, Enumeration)
        return CompatibleSubsets(none, 0, exhaustive, findings.tolerance.weak, np.zeros(none.shape[1], dtype=bool))
    masks, judge, probable = predictive.masks, predictive.judge, posterior.masks[:_FEWEST_SURVEYED]
    assert judge is not None
    n = int(predictive.diagnostics.get("subsets_compatible", len(masks)))
    all_scored = predictive.diagnostics.get("compatible_counted", False) or n == posterior.n_subsets
    in_all = np.asarray(masks.all(axis=0) & probable[judge.compatible(probable)].all(axis=0))
    return CompatibleSubsets(masks, n, all_scored, judge.tolerance, in_all)


class Survey(NamedTuple):
    """masks (k, p); p_invariant, r2 (k,), the latter NaN where it is not known; complete: whether these are all
    subsets"""

    masks: Mask
    p_invariant: Floats
    r2: Floats
    complete: bool


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
    return Survey(masks, p_values, model.r2_many(masks), len(masks) >= posterior.n_subsets)


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
        plain: dict[str, Any] = to_json(replace(self, broken=None), null)
        if self.broken is not None:
            label, p_value, part = self.broken
            environment = None if label is None else str(label)
            plain["broken"] = {"environment": environment, "part": part, "p_value": p_value}
        return plain


class _Figures(NamedTuple):
    """Of S subsets, (S,) each. p_mean: without the test of variances; weight: log p(z) − cost(z)/2."""

    p_invariant: Floats
    p_mean: Floats
    r2: Floats
    weight: Floats
    log_prior: Floats
    log_ratio: Floats


def _figures(findings: Findings, masks: Mask, accepted: Tolerance) -> _Figures:
    model, log_prior = findings.target.model, findings.target.prior.log_prob(masks)
    test, weight = model.invariance_test(masks, accepted), PredictiveScore(model, accepted).log_weights(masks)
    r2, log_ratio = model.r2_many(masks), model.log_ratio_many(masks)
    return _Figures(test.joint, test.mean, r2, weight + log_prior, log_prior, log_ratio)


def feature_roles(findings: Findings, chosen: Mask, compatible: CompatibleSubsets) -> tuple[FeatureRole, ...]:
    """Of all features: those of the chosen subset (p,) in their order, then the others, by how much they predict."""
    model, prior, accepted, p = findings.target.model, findings.target.prior, compatible.accepted, len(chosen)
    own = _figures(findings, chosen[None], accepted)
    # In parts, each of which concerns few features: models may compute what these need on demand.
    flips = [chosen ^ np.eye(min(_AT_ONCE, p - k), p, k, dtype=bool) for k in range(0, p, _AT_ONCE)]
    parts = [_figures(findings, masks, accepted) for masks in flips]
    flipped = _Figures(*(np.concatenate(values) for values in zip(*parts, strict=True)))
    with np.errstate(invalid="ignore"):
        r2_change = np.where(np.isfinite(flipped.r2), flipped.r2 - own.r2, np.nan)
        gains = flipped.weight - own.weight > 0.0
    holds, breaks = bool(own.p_invariant[0] >= accepted.level), flipped.p_invariant < accepted.level
    scored, in_all = flipped.log_ratio > -np.inf, compatible.in_all
    outside = np.flatnonzero(~chosen)
    outside = outside[np.argsort(-np.nan_to_num(r2_change[outside], nan=-np.inf), kind="stable")]
    roles = []
    for rank, j in enumerate((*np.flatnonzero(chosen), *outside), -int(chosen.sum())):
        challenged, broken = None, None
        if chosen[j]:
            role = Role.kept if holds else Role.chosen
            if prior.forced_in[j]:
                role = Role.forced
            elif in_all[j] and breaks[j]:
                role = Role.required
            challenged = never_challenged(model, chosen, j, accepted)
        elif not scored[j]:
            role = Role.not_judged
        elif not holds:
            role = Role.left_out
        elif breaks[j]:
            role, enlarged = Role.breaks, chosen | (np.arange(p) == j)
            unseen = _tails_unseen(model, enlarged)
            # What would be left of the evidence if tails explained all of the variances' differences.
            if unseen and joint_p_value(flipped.p_mean[j], np.ones(())) >= accepted.level:
                role = Role.may_break
            elif rank < MOST_OTHERS:
                broken = where_it_breaks(model, enlarged)
                broken = None if unseen and broken is not None and broken.part == VARIANCE else broken
        elif flipped.log_prior[j] == -np.inf:
            role = Role.not_allowed
        else:
            role = Role.predicts_more if gains[j] else Role.adds_nothing
        p_value = float(flipped.p_invariant[j]) if scored[j] else np.nan
        name = findings.posterior.feature_names[j]
        roles.append(FeatureRole(name, bool(chosen[j]), role, float(r2_change[j]), p_value, challenged, broken))
    return tuple(roles)


def _tails_unseen(model: BoundModel, mask: Mask) -> bool:
    """Whether residuals of the subset (p,) count as normal because fourth moments were read of other columns only."""
    if VARIANCE not in model.compares or not isinstance(model, GaussianModel) or model.fourths is None:
        return False
    return model.fourths.places(model.features.chosen(mask).columns) is None
