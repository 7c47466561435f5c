"""What can be said of each feature, beside a chosen subset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from .._tools.arrays import Floats, Mask
from ..conditionals.base import BoundConditional
from ..conditionals.compared import VARIANCE
from ..conditionals.invariance_test import joint_p_value
from ..conditionals.tolerance import Tolerance
from .base import Findings
from .challenges import never_challenged
from .compatible import CompatibleSubsets
from .environments import Broken, where_it_breaks
from .predictive import PredictiveModel
from .without_rows import tails_unseen

# So many features outside are told in which environment they break invariance, those that predict most first.
MOST_OTHERS = 20
_AT_ONCE = 256


class Role(StrEnum):
    """In the subset: required, kept, chosen, forced. Outside: all others."""

    required = "required"  # no compatible subset lacks it
    kept = "kept for prediction"
    chosen = "chosen"  # by the rule, into a subset that is not compatible
    forced = "forced in"  # by the prior
    breaks = "breaks invariance"  # together with the subset
    may_break = "may break invariance"  # by unequal variances alone, which tails that nobody looked at could explain
    adds_nothing = "adds nothing"  # that would be worth its price
    predicts_more = "would predict more"  # and stay compatible; the rule left it out all the same
    left_out = "left out"  # of a subset that is not compatible itself
    not_allowed = "not allowed"  # by the prior
    not_judged = "not judged"  # the rows cannot decide


@dataclass(frozen=True)
class FeatureRole:
    """r2_change: of R² when this feature alone is left out of the subset, or added to it; p_invariant: of the subset
    then. never_challenged: whether no environment shifted it, given the others in the subset; None outside, and where
    that is not known. broken: where it breaks invariance, if it does."""

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
            label = self.broken.environment
            broken = {
                "environment": None if label is None else str(label),
                "part": self.broken.part,
                "p_value": self.broken.p_value,
            }
        return {
            "name": self.name,
            "selected": self.selected,
            "role": self.role.value,
            "r2_change": plain_number(self.r2_change),
            "p_invariant": plain_number(self.p_invariant),
            "never_challenged": self.never_challenged,
            "broken": broken,
        }


def plain_number(value: float) -> float | None:
    """As JSON can hold it."""
    return float(value) if np.isfinite(value) else None


def feature_roles(findings: Findings, chosen: Mask, compatible: CompatibleSubsets) -> tuple[FeatureRole, ...]:
    """Of all features: those of the chosen subset (p,) in their order, then the others, by how much they predict."""
    neighbours = _Neighbours(findings, chosen, compatible.accepted)
    inside, outside = np.flatnonzero(chosen), np.flatnonzero(~chosen)
    outside = outside[np.argsort(-np.nan_to_num(neighbours.r2_change[outside], nan=-np.inf), kind="stable")]
    selected = [_selected(findings, neighbours, compatible, int(j)) for j in inside]
    others = [_other(findings, neighbours, int(j), rank < MOST_OTHERS) for rank, j in enumerate(outside)]
    return (*selected, *others)


class _Neighbours:
    """The subsets that differ from the chosen one (p,) by one feature each, all (p,): p_invariant, and p_mean without
    the test of variances; r2_change; weight: log p(z) − cost(z)/2 minus that of the chosen one; allowed, by the prior;
    scored, by the model."""

    def __init__(self, findings: Findings, chosen: Mask, accepted: Tolerance) -> None:
        self.chosen, self.accepted = chosen, accepted
        own = _measured(findings, chosen[None], accepted)
        # In parts, each of which concerns few features: models may compute what these need on demand.
        parts = [_measured(findings, masks, accepted) for masks in _flipped(chosen)]
        joint, r2, weight, log_prior, log_ratio, mean = (np.concatenate(values) for values in zip(*parts, strict=True))
        self.compatible = bool(own[0][0] >= accepted.level)
        self.p_mean = mean
        self.p_invariant, self.r2_change, self.weight = joint, _change(r2, own[1]), _change(weight, own[2])
        self.allowed, self.scored = log_prior > -np.inf, log_ratio > -np.inf


def _flipped(chosen: Mask) -> Iterator[Mask]:
    """(k, p) the subsets after each feature in turn is added or left out"""
    for start in range(0, len(chosen), _AT_ONCE):
        flipped = np.arange(start, min(start + _AT_ONCE, len(chosen)))
        masks = np.repeat(chosen[None], len(flipped), axis=0)
        masks[np.arange(len(flipped)), flipped] ^= True
        yield masks


def _measured(findings: Findings, masks: Mask, accepted: Tolerance) -> tuple[Floats, ...]:
    """p_invariant, R², log p(z) − cost(z)/2, log p(z), log Λ, p-value of equal coefficients, each (S,)"""
    model, log_prior = findings.target.model, findings.target.prior.log_prob(masks)
    r2 = model.r2_many(masks)
    weight = PredictiveModel(model, accepted).log_weights(masks) + log_prior
    test = model.invariance_test(masks, accepted)
    return test.joint, r2, weight, log_prior, model.log_ratio_many(masks), test.mean


def _change(values: Floats, chosen: Floats) -> Floats:
    """From that of the chosen subset (1,); NaN where it is not known"""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(values), values - chosen, np.nan)


def _selected(findings: Findings, neighbours: _Neighbours, compatible: CompatibleSubsets, j: int) -> FeatureRole:
    role = Role.kept if neighbours.compatible else Role.chosen
    if findings.target.prior.forced_in[j]:
        role = Role.forced
    elif compatible.in_all()[j] and neighbours.p_invariant[j] < compatible.accepted.level:
        role = Role.required
    unmoved = never_challenged(findings.target.model, neighbours.chosen, j, neighbours.accepted)
    return _role(findings, neighbours, j, role, never_challenged=unmoved)


def _other(findings: Findings, neighbours: _Neighbours, j: int, explained: bool) -> FeatureRole:
    broken = None
    if not neighbours.scored[j]:
        role = Role.not_judged
    elif not neighbours.compatible:
        role = Role.left_out
    elif neighbours.p_invariant[j] < neighbours.accepted.level:
        role, broken = _breaking(findings.target.model, neighbours, j, explained)
    elif not neighbours.allowed[j]:
        role = Role.not_allowed
    else:
        role = Role.predicts_more if neighbours.weight[j] > 0.0 else Role.adds_nothing
    return _role(findings, neighbours, j, role, broken=broken)


def _breaking(model: BoundConditional, neighbours: _Neighbours, j: int, explained: bool) -> tuple[Role, Broken | None]:
    beside = neighbours.chosen.copy()
    beside[j] = True
    unseen = tails_unseen(model, beside)
    # What would be left of the evidence if tails explained all of the variances' differences.
    if unseen and joint_p_value(neighbours.p_mean[j], np.ones(())) >= neighbours.accepted.level:
        return Role.may_break, None
    broken = where_it_breaks(model, neighbours.chosen, j) if explained else None
    return Role.breaks, None if unseen and broken is not None and broken.part == VARIANCE else broken


def _role(findings: Findings, neighbours: _Neighbours, j: int, role: Role, **more: Any) -> FeatureRole:
    return FeatureRole(
        name=findings.posterior.feature_names[j],
        selected=bool(neighbours.chosen[j]),
        role=role,
        r2_change=float(neighbours.r2_change[j]),
        p_invariant=float(neighbours.p_invariant[j]) if neighbours.scored[j] else np.nan,
        **more,
    )
