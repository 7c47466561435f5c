"""The decision of a fit: which features to use, whether they are invariant, and the role of each feature."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t

from .._tools.arrays import Mask
from .._tools.json import null, to_json
from .._tools.sections import Rendered, Section, as_text
from .._tools.text import format_subset, printable
from ..data.columns import free_name
from ..exceptions import SettingError
from ..models.invariance_test import Tolerance
from ..posterior.posterior import SubsetEvidence
from ..posterior.summary import Summary, everywhere, format_count, format_p_value, format_probability, format_share
from .noise import NoiseChecks, noise_checks
from .roles import (
    MOST_OTHERS,
    CompatibleSubsets,
    FeatureRole,
    Role,
    Survey,
    compatible_subsets,
    feature_roles,
    survey,
)
from .rules import RULES, BestCompatible, Findings, Median, Rule

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_MOST_SELECTED = 100
UNCHALLENGED = (
    "Never challenged: no environment shifts this feature, given the others selected. The data could not have shown "
    "it to be a decoy."
)


@dataclass(frozen=True, eq=False, repr=False)
class Decision(Rendered):
    """The subset (p,) that a rule chose."""

    findings: Findings
    mask: Mask
    rule: Rule

    @cached_property
    def selected(self) -> tuple[str, ...]:
        return self.findings.posterior.names_of(self.mask)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the chosen features, to which the coefficients belong."""
        return self.findings.target.model.features.chosen(self.mask).columns

    @cached_property
    def evidence(self) -> SubsetEvidence:
        """Of the chosen subset."""
        return self.findings.judge.evidence(self.mask[None]).one()

    @cached_property
    def mode_evidence(self) -> SubsetEvidence:
        """Of the most probable subset of the paper's posterior."""
        return self.findings.judge.evidence(self.findings.posterior.mode_mask[None]).one()

    @cached_property
    def compatible(self) -> CompatibleSubsets:
        return compatible_subsets(self.findings)

    @property
    def accepted(self) -> Tolerance:
        """With the level that subsets had to reach: the weak one where none reaches the usual one."""
        return self.compatible.accepted

    @property
    def invariant(self) -> bool:
        """Whether the data leave it open that the chosen subset is invariant."""
        return self.evidence.p_invariant >= self.findings.tolerance.lowest_level

    @property
    def judged(self) -> bool:
        """Whether the rows suffice to judge the chosen subset."""
        return bool(np.isfinite(self.evidence.deviance))

    @property
    def is_compatible(self) -> bool:
        """Whether the chosen subset is one of the compatible ones, whose level may be higher."""
        return self.evidence.p_invariant >= self.accepted.level

    @cached_property
    def noise(self) -> NoiseChecks | None:
        """Checks of the chosen subset's residuals; None where there are none to make."""
        return noise_checks(self.findings.judge.model, self.mask, self.findings.tolerance)

    @cached_property
    def features(self) -> tuple[FeatureRole, ...]:
        """The chosen features in their order, then the others, by how much they would add to R²."""
        return feature_roles(self.findings, self.mask, self.compatible)

    @cached_property
    def survey(self) -> Survey:
        """p-values and R² of the chosen subset and of those that the posteriors list."""
        return survey(self.findings, self.mask)

    @property
    def rule_says(self) -> str:
        name = RULES.class_names.get(type(self.rule).__name__)
        if name is None:
            return repr(self.rule)
        settings = ", ".join(f"{key} {value:g}" for key, value in vars(self.rule).items())
        return f"{name}: {RULES.members[name].help}{f' ({settings})' if settings else ''}"

    @property
    def verdict(self) -> str:
        """One or two sentences: whether the chosen features predict alike everywhere."""
        return " ".join(_verdict(self))

    @property
    def sections(self) -> tuple[Section, ...]:
        """What text and HTML show: the facts, the selected features and the others."""
        sections = [Section("Decision", facts=tuple(_facts(self)), label_width=12)]
        for title, selected, most in (("Selected", True, _MOST_SELECTED), ("Other", False, MOST_OTHERS)):
            features = [feature for feature in self.features if feature.selected is selected]
            shown, rest = features[:most], Counter(feature.role.value for feature in features[most:])
            notes = [UNCHALLENGED] if any(feature.never_challenged for feature in shown) else []
            if rest:
                roles = ", ".join(f"{role} ({n:,})" for role, n in rest.most_common())
                notes.insert(0, f"… and {len(features) - most:,} more: {roles}")
            if features:
                facts = tuple((feature.name, role_in_words(feature)) for feature in shown)
                sections.append(Section(f"{title} features", facts=facts, notes=tuple(notes)))
        return tuple(sections)

    def coefficients(self, coverage: float = 0.95) -> pd.DataFrame:
        """Of the chosen subset, with intervals: one row for each column and environment, and for the pool of all.

        Columns: column, environment ("pooled" for the pool), estimate, lower, upper, note. NaN where a column is
        constant or a combination of others, which the note says.
        """
        import pandas as pd

        if not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
            raise SettingError(f"coverage={coverage!r} is not possible: use a number between 0 and 1, such as 0.95.")
        model, labels = self.findings.target.model, self.findings.posterior.environments
        fit, errors = model.fit(self.mask), model.standard_errors(self.mask)
        pooled = free_name("pooled", [label for label in labels if isinstance(label, str)])
        estimates = np.vstack([fit.coefficients, fit.local_coefficients])
        notes = np.where(np.isnan(estimates), "constant", "")
        margins = np.full(estimates.shape, np.nan)
        if errors is not None:
            pooled_first = [-1, *range(len(labels))]
            values, freedom = errors.values[pooled_first], errors.freedom[pooled_first, None]
            unknown = np.where(freedom > 0.0, "not identified", "too few rows")
            notes = np.where(np.isnan(values) & (notes == ""), unknown, notes)
            margins = t.ppf(0.5 + coverage / 2.0, np.where(freedom > 0.0, freedom, np.nan)) * values
            estimates = np.where(np.isnan(values), np.nan, estimates)
        return pd.DataFrame(
            {
                "column": [name for _ in estimates for name in fit.columns],
                "environment": pd.Series([label for label in (pooled, *labels) for _ in fit.columns], dtype=object),
                "estimate": estimates.ravel(),
                "lower": (estimates - margins).ravel(),
                "upper": (estimates + margins).ravel(),
                "note": pd.Series(notes.ravel().tolist(), dtype=object),
            }
        )

    def plot(self, kind: str = "inclusion", ax: Axes | None = None, top: int | None = None) -> Any:
        """Draw the `top` of one kind, on axes or on a new figure, which notebooks show; returns the axes, an array of
        them where there are several. kind: "inclusion", "subsets", "coefficients", "environments" or "frontier"."""
        from .plots import plot

        return plot(self, kind, ax, top)

    def to_plain(self) -> dict[str, Any]:
        """As values that JSON can hold; numbers that are not known are None."""
        posterior, compatible = self.findings.posterior, self.compatible
        coefficients = self.coefficients().replace({np.nan: None})
        coefficients["environment"] = [str(label) for label in coefficients["environment"]]
        return {
            "verdict": self.verdict,
            "invariant": self.invariant if posterior.n_environments > 1 else None,
            "selected": list(self.selected),
            "rule": self.rule_says,
            "tolerance": to_json(self.findings.tolerance),
            "evidence": to_json(self.evidence, null),
            "compatible": {
                "subsets": compatible.n,
                "all_scored": compatible.all_scored,
                "level": compatible.accepted.level,
            },
            "most_probable": {
                "subset": list(posterior.mode),
                "probability": posterior.mode_probability,
                "evidence": to_json(self.mode_evidence, null),
            },
            "noise": None if self.noise is None else self.noise.to_plain(),
            "features": [feature.to_plain() for feature in self.features],
            "coefficients": coefficients.to_dict("records"),
        }


@dataclass(frozen=True, repr=False)
class FitSummary(Rendered):
    """The decision, then the posterior; worded : how a sentence that may carry remedies is written."""

    decision: Decision
    posterior: Summary
    worded: Callable[[str], str] = str

    @property
    def sections(self) -> tuple[Section, ...]:
        return *self.decision.sections, *self.posterior.sections

    def __str__(self) -> str:
        return as_text(self.sections, self.worded)

    __repr__ = __str__


def _verdict(decision: Decision) -> Iterator[str]:
    posterior, outcome = decision.findings.posterior, printable(decision.findings.posterior.outcome_name)
    compatible, chosen = decision.compatible, format_subset(decision.selected)
    alike = f"alike in {everywhere(posterior)} (p-value {format_p_value(decision.evidence.p_invariant)})"
    if posterior.n_environments == 1:
        yield (
            f"One environment cannot tell which features predict {outcome} alike elsewhere: nothing speaks for the "
            f"selection {chosen} in another one. Add rows from at least one other environment."
        )
    elif decision.is_compatible:
        k = len(decision.selected)
        if k:
            yield f"{k:,} feature{' predicts' if k == 1 else 's predict'} {outcome} {alike}."
        else:
            yield f"{outcome} itself, without any feature, behaves {alike}; no feature is selected."
        if decision.accepted.level < decision.findings.tolerance.level:
            levels = f"{decision.findings.tolerance.level:g}: from {decision.accepted.level:g} on they pass here"
            yield f"No subset{decision.findings.allowed} reaches p-value {levels}."
        if compatible.n == posterior.n_subsets > 1:
            yield (
                f"But nothing speaks against any other subset either: all {format_count(compatible.n)} are compatible "
                "with invariance. The environments differ too little, or have too few rows, to tell subsets apart."
            )
    elif not compatible.n:
        found = "is" if compatible.all_scored else "was found that is"
        yield f"No subset of these features{decision.findings.allowed} {found} invariant: {_closest(decision)}."
        yield f"The selection {chosen} is {fallback(decision)}; its predictions may fail in a new environment."
    else:
        if not decision.judged:
            yield f"The rows cannot judge whether the selected features {chosen} predict {outcome} alike."
        elif decision.invariant:
            yield f"It is open whether the selected features {chosen} predict {outcome} {alike}."
        else:
            yield f"The selected features {chosen} do not predict {outcome} {alike}."
        best = format_subset(posterior.names_of(compatible.masks[0]))
        yield f"Subsets that reach p-value {decision.accepted.level:g}: {compatible}; {best} predicts best."


def _closest(decision: Decision) -> str:
    survey = decision.survey
    best = int(np.argmax(survey.p_invariant))
    tested = f"of {'all' if survey.complete else 'the'} {format_count(len(survey.masks))} tested"
    closest = format_subset(decision.findings.posterior.names_of(survey.masks[best]))
    p_value = f"p-value {format_p_value(float(survey.p_invariant[best]))}, and {decision.accepted.level:g} is needed"
    return f"{tested}, {closest} is closest ({p_value})"


def fallback(decision: Decision) -> str:
    """Which rule chose where nothing is compatible."""
    if not isinstance(decision.rule, BestCompatible | Median):
        return "what the rule chose all the same"
    if decision.findings.target.model.random_effects_risk_many(decision.mask[None]) is None:
        return "the most probable subset"
    return "that of the random-effects rule, which expects the least error from it in a new environment"


def _facts(decision: Decision) -> Iterator[tuple[str, str]]:
    """With one environment no subset is compatible with anything, nor more probable than the prior says."""
    posterior, target = decision.findings.posterior, decision.findings.target
    yield "verdict", decision.verdict
    yield "selected", f"{format_subset(decision.selected)}: {_figures(decision, decision.evidence)}"
    if posterior.n_environments > 1:
        judged_by = decision.findings.judge.model.judged_by(decision.accepted)
        yield "compatible", f"{decision.compatible} of {format_count(posterior.n_subsets)} subsets, by {judged_by}"
        probability = f"probability {format_probability(posterior.mode_probability)}"
        if (posterior.mode_mask == decision.mask).all():
            yield "mode", f"the same subset is the most probable one, {probability}"
        else:
            figures = _figures(decision, decision.mode_evidence)
            yield "mode", f"most probable is {format_subset(posterior.mode)}: {probability}, {figures}"
    yield from (("caution", alarm) for alarm in target.model.untilted.remarks(decision.mask[None]).alarms)
    yield "rule", decision.rule_says
    if decision.noise is not None and decision.noise.sentence is not None:
        yield "noise", decision.noise.sentence
    largest = target.model.largest_size
    if largest < posterior.n_features and target.prior.max_size >= largest:
        smallest = int(np.argmin(posterior.counts))
        few = f"{printable(str(posterior.environments[smallest]))} has {posterior.counts[smallest]:,}"
        yield "limit", f"the rows are too few to judge subsets of more than {largest:,} features: {few}."


def _figures(decision: Decision, evidence: SubsetEvidence) -> str:
    figures = [f"R² {format_share(evidence.r2)}"]
    if decision.findings.posterior.n_environments > 1 and np.isfinite(evidence.deviance):
        figures.insert(0, f"p-value {format_p_value(evidence.p_invariant)}")
    if not np.isnan(evidence.r2_new):
        figures.append(f"{format_share(evidence.r2_new)} in environments left out")
    return ", ".join(figures)


_ROLES = {
    Role.required: "required: in every compatible subset listed",
    Role.kept: "kept for prediction",
    Role.chosen: "chosen by the rule",
    Role.forced: "forced in by the prior",
    Role.breaks: "breaks invariance",
    Role.may_break: "may break invariance, unless tails, which were not looked at, are heavy",
    Role.adds_nothing: "adds nothing worth its price",
    Role.predicts_more: "would predict more and stay compatible",
    Role.left_out: "left out",
    Role.not_allowed: "not allowed beside the selected ones by the prior",
    Role.not_judged: "cannot be judged beside the selected ones: too few rows, or nearly given by them",
}


def role_in_words(feature: FeatureRole) -> str:
    """With its figures."""
    words = _ROLES[feature.role]
    if feature.role in (Role.breaks, Role.may_break, Role.predicts_more):
        words += f" (p-value {format_p_value(feature.p_invariant)})"
    if feature.broken is not None:
        label, _, part = feature.broken
        words += f", in its {part}" if label is None else f", most in {printable(str(label))} ({part})"
    if not np.isnan(feature.r2_change):
        words += f"; R² {feature.r2_change:+z.3f}{' without it' if feature.selected else ''}"
    return f"{words}; never challenged" if feature.never_challenged else words
