"""The decision of a fit: which features to use, whether they are invariant, and the role of each feature."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from .._tools.arrays import Floats, Mask
from .._tools.json import null, to_json
from .._tools.text import format_subset, printable
from ..data.columns import free_name
from ..exceptions import SettingError
from ..models.base import BoundModel
from ..models.invariance_test import Tolerance
from ..models.regression import RegressionModel
from ..moments.moments import Moments
from ..posterior.posterior import SubsetEvidence
from ..posterior.summary import Summary, everywhere, format_count, format_p_value, format_probability, format_share
from .environments import moments_of
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
from .sections import Section, as_html, as_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_MOST_SELECTED = 100
_CANNOT_BE_JUDGED = "cannot be judged: the rows are too few, or some of these features are nearly given by others"
UNCHALLENGED = (
    "Never challenged: no environment shifts this feature, given the others selected. The data could not have shown "
    "it to be a decoy."
)


@dataclass(frozen=True, eq=False, repr=False)
class Decision:
    """The subset (p,) that a rule chose; `str()` tells it within 80 columns, notebooks show it as HTML."""

    findings: Findings
    mask: Mask
    rule: Rule

    @cached_property
    def selected(self) -> tuple[str, ...]:
        return self.names(self.mask)

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
        return tuple(_sections(self))

    def coefficients(self, coverage: float = 0.95) -> pd.DataFrame:
        """Of the chosen subset, with intervals: one row for each column and environment, and for the pool of all.

        Columns: column, environment ("pooled" for the pool), estimate, lower, upper, note. NaN where a column is
        constant or a combination of others, which the note says, as it does where a coefficient stands for such a
        column too.
        """
        return coefficient_table(self.findings.target.model, self.mask, coverage)

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

    def names(self, mask: Mask) -> tuple[str, ...]:
        """Of the features of a subset (p,)."""
        return tuple(name for name, flag in zip(self.findings.posterior.feature_names, mask, strict=True) if flag)

    def __str__(self) -> str:
        return as_text(self.sections)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self.sections)


@dataclass(frozen=True, repr=False)
class FitSummary:
    """The decision, then the posterior; worded : how a sentence that may carry remedies is written."""

    decision: Decision
    posterior: Summary
    worded: Callable[[str], str] = str

    def __str__(self) -> str:
        return f"{as_text(self.decision.sections, self.worded)}\n\n{self.posterior}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.decision._repr_html_() + self.posterior._repr_html_()


def _verdict(decision: Decision) -> Iterator[str]:
    posterior, outcome = decision.findings.posterior, printable(decision.findings.posterior.outcome_name)
    if posterior.n_environments == 1:
        yield (
            f"One environment cannot tell which features predict {outcome} alike elsewhere: nothing speaks for the "
            f"selection {format_subset(decision.selected)} in another one. Add rows from at least one other "
            "environment."
        )
        return
    yield from _compatible(decision, outcome) if decision.is_compatible else _not_compatible(decision, outcome)
    if len(decision.selected) == decision.findings.target.model.largest_size:
        yield from _too_few_rows(decision)


def _compatible(decision: Decision, outcome: str) -> Iterator[str]:
    posterior, compatible, k = decision.findings.posterior, decision.compatible, len(decision.selected)
    alike = f"alike in {everywhere(posterior)} ({_p_value(decision, decision.evidence.p_invariant)})"
    if k:
        yield f"{k:,} feature{' predicts' if k == 1 else 's predict'} {outcome} {alike}."
    else:
        yield f"{outcome} itself, without any feature, behaves {alike}; no feature is selected."
    usual = decision.findings.tolerance.level
    if decision.accepted.level < usual:
        found = "reaches" if compatible.exhaustive else "was found that reaches"
        passed = f"from {decision.accepted.level:g} on they pass here"
        yield f"No subset{decision.findings.allowed} {found} p-value {usual:g}: {passed}."
    if compatible.n == posterior.n_subsets > 1:
        yield (
            f"But nothing speaks against any other subset either: all {format_count(compatible.n)} are compatible with "
            "invariance. The environments differ too little, or have too few rows, to tell subsets apart."
        )


def _not_compatible(decision: Decision, outcome: str) -> Iterator[str]:
    compatible, chosen, n = decision.compatible, format_subset(decision.selected), decision.compatible.n
    if not n:
        found = "is" if compatible.exhaustive else "was found that is"
        yield f"No subset of these features{decision.findings.allowed} {found} invariant: {_closest(decision)}."
        unknown = "" if decision.judged else f", and {_CANNOT_BE_JUDGED}"
        yield f"The selection {chosen} is {fallback(decision)}{unknown}; its predictions may fail in a new environment."
        return
    reach = f"{counted(decision)} other subset{' reaches' if n == 1 else 's reach'} p-value {decision.accepted.level:g}"
    p_value = _p_value(decision, decision.evidence.p_invariant)
    alike = f"predict {outcome} alike in {everywhere(decision.findings.posterior)} ({p_value})"
    if not decision.judged:
        yield f"Whether the selected features {chosen} predict {outcome} alike {_CANNOT_BE_JUDGED}; {reach}."
    elif decision.invariant:
        yield f"It is open whether the selected features {chosen} {alike}; {reach}."
    else:
        others = f"{counted(decision)} subset{' does' if n == 1 else 's do'}"
        yield f"The selected features {chosen} do not {alike}, although {others}."
    best = format_subset(decision.names(compatible.masks[0]))
    yield f"That one is {best}." if n == 1 else f"Of these, {best} predicts best."


def _closest(decision: Decision) -> str:
    survey, needed = decision.survey, f"{decision.accepted.level:g} is needed"
    n = format_count(survey.n_subsets if survey.complete else len(survey.masks))
    of = f"all {n}" if survey.complete else f"the {n} looked at"
    if survey.closest is None:
        return f"of {of}, none comes near (every p-value is below 1e-300, and {needed})"
    closest = format_subset(decision.names(survey.masks[survey.closest]))
    p_value = _p_value(decision, float(survey.p_invariant[survey.closest]))
    if survey.n_subsets == 1:
        return f"the only one is {closest} ({p_value}, and {needed})"
    return f"of {of}, {closest} is closest ({p_value}, and {needed})"


def fallback(decision: Decision) -> str:
    """Which rule chose where nothing is compatible."""
    if not isinstance(decision.rule, BestCompatible | Median):
        return "what the rule chose all the same"
    if decision.findings.target.model.random_effects_risk_many(decision.mask[None]) is None:
        return "the most probable subset"
    return "that of the random-effects rule, which expects the least error from it in a new environment"


def _too_few_rows(decision: Decision) -> Iterator[str]:
    """Where it is the rows that limit the size of subsets."""
    posterior, target = decision.findings.posterior, decision.findings.target
    largest = target.model.largest_size
    if largest < posterior.n_features and target.prior.max_size >= largest:
        smallest = int(np.argmin(posterior.counts))
        yield (
            f"The data are too few to judge subsets of more than {largest:,} feature{'' if largest == 1 else 's'}: the "
            f"smallest environment, {printable(str(posterior.environments[smallest]))}, has "
            f"{posterior.counts[smallest]:,} rows."
        )


def counted(decision: Decision) -> str:
    """How many subsets are compatible."""
    compatible = decision.compatible
    return f"{'' if compatible.all_scored else 'at least '}{format_count(compatible.n)}"


def _p_value(decision: Decision, value: float) -> str:
    """With as many digits as it takes to stand on the side of the levels where it belongs."""
    levels, text = np.array([decision.accepted.level, decision.findings.tolerance.lowest_level]), format_p_value(value)
    for digits in range(4, 18):
        if text.startswith(("<", "–")) or ((float(text) >= levels) == (value >= levels)).all():
            break
        text = f"{value:.{digits}f}"
    return f"p-value {text}"


def _sections(decision: Decision) -> Iterator[Section]:
    yield Section("Decision", facts=tuple(_facts(decision)), label_width=12)
    selected = [feature for feature in decision.features if feature.selected]
    others = [feature for feature in decision.features if not feature.selected]
    for title, features, most in (
        ("Selected features", selected, _MOST_SELECTED),
        ("Other features", others, MOST_OTHERS),
    ):
        if features:
            facts = tuple((feature.name, described(decision, feature)) for feature in features[:most])
            yield Section(title, facts=facts, notes=tuple(_remarks(features, most)))


def _remarks(features: list[FeatureRole], most: int) -> Iterator[str]:
    rest = features[most:]
    if rest:
        roles = Counter(feature.role.value for feature in rest)
        yield f"… and {len(rest):,} more: " + ", ".join(f"{role} ({n:,})" for role, n in roles.most_common())
    if any(feature.never_challenged for feature in features[:most]):
        yield UNCHALLENGED


def _facts(decision: Decision) -> Iterator[tuple[str, str]]:
    """With one environment no subset is compatible with anything, nor more probable than the prior says."""
    posterior, model = decision.findings.posterior, decision.findings.target.model
    several = posterior.n_environments > 1
    yield "verdict", decision.verdict
    yield "selected", f"{format_subset(decision.selected)}: {_figures(decision, decision.evidence)}"
    if several:
        judged_by = decision.findings.judge.model.judged_by(decision.accepted)
        yield "compatible", f"{counted(decision)} of {format_count(posterior.n_subsets)} subsets, by {judged_by}"
        probability = f"probability {format_probability(posterior.mode_probability)}"
        if (posterior.mode_mask == decision.mask).all():
            yield "mode", f"the same subset is the most probable one, {probability}"
        else:
            figures = _figures(decision, decision.mode_evidence)
            yield "mode", f"most probable is {format_subset(posterior.mode)}: {probability}, {figures}"
    yield from (("caution", alarm) for alarm in model.untilted.remarks(decision.mask[None]).alarms)
    unmet = several and not decision.compatible.n and isinstance(decision.rule, BestCompatible | Median)
    yield "rule", decision.rule_says + ("; here no subset is compatible" if unmet else "")
    if decision.noise is not None and decision.noise.sentence is not None:
        yield "noise", decision.noise.sentence
    if len(decision.selected) < model.largest_size:
        yield from (("limit", sentence) for sentence in _too_few_rows(decision))


def _figures(decision: Decision, evidence: SubsetEvidence) -> str:
    figures = [f"R² {format_share(evidence.r2)}"]
    if decision.findings.posterior.n_environments > 1 and np.isfinite(evidence.deviance):
        figures.insert(0, _p_value(decision, evidence.p_invariant))
    if not np.isnan(evidence.r2_new):
        figures.append(f"{format_share(evidence.r2_new)} in environments left out")
    return ", ".join(figures)


def described(decision: Decision, feature: FeatureRole) -> str:
    """The role of a feature, with its figures."""
    change = "" if np.isnan(feature.r2_change) else f"R² {feature.r2_change:+z.3f}"
    without, added, also = (f"; {change} without it", f": {change}", f"; {change}") if change else ("", "", "")
    p_value = _p_value(decision, feature.p_invariant) if np.isfinite(feature.p_invariant) else ""
    match feature.role:
        case Role.required:
            said = f"required: {_found_in(decision)}{without}"
        case Role.kept if round(feature.r2_change, 3) > 0.0:
            said = f"kept for prediction: a lower likelihood without it, though {change}"
        case Role.kept:
            said = f"kept for prediction{f'{added} without it' if change else ''}"
        case Role.chosen:
            said = f"chosen by the rule{without}"
        case Role.forced:
            said = f"forced in by the prior{without}"
        case Role.breaks:
            said = f"breaks invariance ({p_value}){_where(feature)}{also}"
        case Role.may_break:
            said = f"may break invariance ({p_value} with normal tails, which were not looked at){also}"
        case Role.adds_nothing:
            said = f"adds nothing worth its price{added}"
        case Role.predicts_more:
            said = f"would predict more and stay compatible ({p_value}){added}"
        case Role.left_out:
            said = f"left out{added}"
        case Role.not_allowed:
            said = f"not allowed beside the selected ones by the prior{added}"
        case Role.not_judged:
            said = "cannot be judged beside the selected ones: too few rows, or nearly given by them"
    return f"{said}; never challenged" if feature.never_challenged else said


def _found_in(decision: Decision) -> str:
    """Which compatible subsets hold a required feature."""
    compatible, listed = decision.compatible, len(decision.compatible.masks)
    if compatible.complete:
        return "no compatible subset lacks it"
    if listed < compatible.n:
        return f"in all of the {listed:,} best of {counted(decision)} compatible subsets"
    return "in the one compatible subset found" if listed == 1 else f"in all {listed:,} compatible subsets found"


def _where(feature: FeatureRole) -> str:
    if feature.broken is None:
        return ""
    label, _, part = feature.broken
    return f", in its {part}" if label is None else f", most in {printable(str(label))} ({part})"


CONSTANT, NOT_IDENTIFIED, TOO_FEW_ROWS = "constant", "not identified", "too few rows"
STANDS_FOR = "stands for "
# Shares of unit columns below this are rounding.
_NO_SHARE = 1e-5


def coefficient_table(model: BoundModel, mask: Mask, coverage: float) -> pd.DataFrame:
    """Of the subset (p,), the pooled fit first; lower and upper are NaN where the model has no standard errors."""
    import pandas as pd

    if not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
        raise SettingError(f"coverage={coverage!r} is not possible: use a number between 0 and 1, such as 0.95.")
    fit, errors, labels = model.fit(mask), model.standard_errors(mask), model.describe().environments
    pooled = free_name("pooled", [label for label in labels if isinstance(label, str)])
    estimates = np.vstack([fit.coefficients, fit.local_coefficients])
    margins = np.full(estimates.shape, np.nan)
    freedom = np.full(len(estimates), np.nan)
    if errors is not None:
        pooled_first = [-1, *range(len(labels))]
        values, freedom = errors.values[pooled_first], errors.freedom[pooled_first]
        margins = t.ppf(0.5 + coverage / 2.0, np.where(freedom > 0.0, freedom, np.nan))[:, None] * values
        estimates = np.where(np.isnan(values), np.nan, estimates)
    return pd.DataFrame(
        {
            "column": [name for _ in estimates for name in fit.columns],
            "environment": pd.Series([label for label in (pooled, *labels) for _ in fit.columns], dtype=object),
            "estimate": estimates.ravel(),
            "lower": (estimates - margins).ravel(),
            "upper": (estimates + margins).ravel(),
            "note": pd.Series(list(_notes(fit.columns, estimates, freedom, _moments(model, mask))), dtype=object),
        }
    )


def _moments(model: BoundModel, mask: Mask) -> Moments | None:
    """Of the columns of the subset; None where there are none or the model holds no data."""
    if not mask.any():
        return None
    if isinstance(model, RegressionModel):
        return Moments.from_data(model.data.narrowed(mask))
    linear = model.by_least_squares
    return None if linear is None else moments_of(linear, mask)


def _pool_first(moments: Moments) -> tuple[Mask, Floats]:
    """Which of the k columns vary (E + 1, k), and their centred products (E + 1, k, k)."""
    columns, groups = moments.feature_columns, [-1, *range(moments.n_environments)]
    return moments.varies[groups][:, columns], moments.scatter[groups][:, columns[:, None], columns]


def _notes(columns: tuple[str, ...], estimates: Floats, freedom: Floats, moments: Moments | None) -> Iterator[str]:
    """One for each entry of estimates (E + 1, k), row by row."""
    if moments is None:
        yield from np.where(np.isnan(estimates), NOT_IDENTIFIED, "").ravel().tolist()
        return
    for values, left, varies, products in zip(estimates, freedom, *_pool_first(moments), strict=True):
        unknown = np.isnan(values)
        stands_for = _stands_for(products, np.flatnonzero(varies & ~unknown), np.flatnonzero(varies & unknown))
        for j in range(len(columns)):
            others = [columns[c] for c in stands_for.get(j, ())]
            if not unknown[j]:
                yield f"{STANDS_FOR}{', '.join(others)} too" if others else ""
            elif not varies[j]:
                yield CONSTANT
            else:
                yield TOO_FEW_ROWS if left <= 0.0 else NOT_IDENTIFIED


def _stands_for(products: Floats, known: NDArray[np.intp], given: NDArray[np.intp]) -> dict[int, list[int]]:
    """Of the known columns, those in which one that they give takes part: {known: [given, ...]}."""
    if not len(known) or not len(given):
        return {}
    scale = np.sqrt(np.diagonal(products))
    used = np.append(known, given)
    unit = products[np.ix_(used, used)] / np.outer(scale[used], scale[used])
    shares = np.linalg.lstsq(unit[: len(known), : len(known)], unit[: len(known), len(known) :], rcond=None)[0]
    takes_part = np.abs(shares) > _NO_SHARE
    return {int(j): given[row].tolist() for j, row in zip(known, takes_part, strict=True)}
