"""A decision in words: the verdict, text within 80 columns, and a small HTML fragment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from .._tools.fragments import FAINT, box, cell, paragraph, table, title
from .._tools.layout import display_width, format_subset, name_labels, printable, wrap
from ..posterior.evidence import SubsetEvidence
from ..posterior.summary import everywhere, format_count, format_p_value, format_probability, format_share
from .best_compatible import BestCompatible
from .median import Median
from .roles import MOST_OTHERS, FeatureRole, Role

if TYPE_CHECKING:
    from .decision import Decision

_MOST_SELECTED = 100
_NAME_WIDTH = 26
_CANNOT_BE_JUDGED = "cannot be judged: the rows are too few, or some of these features are nearly given by others"
UNCHALLENGED = (
    "Never challenged: no environment shifts this feature, given the others selected. The data could not have shown "
    "it to be a decoy."
)


def verdict(decision: Decision) -> str:
    return " ".join(_verdict(decision))


def _verdict(decision: Decision) -> Iterator[str]:
    posterior = decision.findings.posterior
    if posterior.n_environments == 1:
        yield (
            f"One environment cannot tell which features predict {_outcome(decision)} alike elsewhere: nothing speaks "
            f"for the selection {format_subset(decision.selected)} in another one. Add rows from at least one other "
            "environment."
        )
        return
    if decision.is_compatible:
        yield from _compatible(decision)
    else:
        yield from _not_compatible(decision)
    if len(decision.selected) == decision.findings.target.model.largest_size:
        yield from _too_few_rows(decision)


def _compatible(decision: Decision) -> Iterator[str]:
    posterior, compatible, k = decision.findings.posterior, decision.compatible, len(decision.selected)
    alike = f"alike in {everywhere(posterior)} ({_p_value(decision, decision.evidence.p_invariant)})"
    if k:
        yield f"{k:,} feature{' predicts' if k == 1 else 's predict'} {_outcome(decision)} {alike}."
    else:
        yield f"{_outcome(decision)} itself, without any feature, behaves {alike}; no feature is selected."
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


def _not_compatible(decision: Decision) -> Iterator[str]:
    compatible, chosen = decision.compatible, format_subset(decision.selected)
    if compatible.n:
        best = format_subset(decision._names(compatible.masks[0]))
        which = f"That one is {best}" if compatible.n == 1 else f"Of these, {best} predicts best"
        yield f"{_although_others_are(decision, chosen)}. {which}."
        return
    found = "is" if compatible.exhaustive else "was found that is"
    yield f"No subset of these features{decision.findings.allowed} {found} invariant: {_closest(decision)}."
    unknown = "" if decision.judged else f", and {_CANNOT_BE_JUDGED}"
    yield f"The selection {chosen} is {fallback(decision)}{unknown}; its predictions may fail in a new environment."


def _although_others_are(decision: Decision, chosen: str) -> str:
    n, level = decision.compatible.n, f"{decision.accepted.level:g}"
    reach = f"{_counted(decision)} other subset{' reaches' if n == 1 else 's reach'} p-value {level}"
    if not decision.judged:
        return f"Whether the selected features {chosen} predict {_outcome(decision)} alike {_CANNOT_BE_JUDGED}; {reach}"
    p_value = _p_value(decision, decision.evidence.p_invariant)
    alike = f"predict {_outcome(decision)} alike in {everywhere(decision.findings.posterior)} ({p_value})"
    if decision.invariant:
        return f"It is open whether the selected features {chosen} {alike}; {reach}"
    others = f"{_counted(decision)} subset{' does' if n == 1 else 's do'}"
    return f"The selected features {chosen} do not {alike}, although {others}"


def _closest(decision: Decision) -> str:
    """Of the subsets that were looked at."""
    survey, needed = decision.survey, f"{decision.accepted.level:g} is needed"
    counted = format_count(survey.n_subsets if survey.complete else len(survey.masks))
    of = f"all {counted}" if survey.complete else f"the {counted} looked at"
    if survey.closest is None:
        return f"of {of}, none comes near (every p-value is below 1e-300, and {needed})"
    closest = format_subset(decision._names(survey.masks[survey.closest]))
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


def _outcome(decision: Decision) -> str:
    return printable(decision.findings.posterior.outcome_name)


def _counted(decision: Decision) -> str:
    compatible = decision.compatible
    return f"{'' if compatible.all_scored else 'at least '}{format_count(compatible.n)}"


def _p_value(decision: Decision, value: float) -> str:
    """With as many digits as it takes to stand on the side of the levels where it belongs."""
    levels, text = np.array([decision.accepted.level, decision.findings.tolerance.lowest_level]), format_p_value(value)
    for digits in range(4, 18):
        if text.startswith("<") or ((float(text) >= levels) == (value >= levels)).all():
            break
        text = f"{value:.{digits}f}"
    return f"p-value {text}"


def header(decision: Decision) -> Iterator[tuple[str, str]]:
    """Labels and what is said under them: the verdict first; "caution", "noise" and "limit" are caveats.

    With one environment no subset is compatible with anything, nor more probable than the prior says.
    """
    posterior = decision.findings.posterior
    yield "verdict", decision.verdict
    yield "selected", f"{format_subset(decision.selected)}: {_figures(decision, decision.evidence)}"
    if posterior.n_environments > 1:
        of = f"of {format_count(posterior.n_subsets)} subsets"
        judged_by = decision.findings.judge.model.judged_by(decision.accepted)
        yield "compatible", f"{_counted(decision)} {of}, by {judged_by}"
        yield "mode", _mode(decision)
    for alarm in decision.findings.target.model.untilted.remarks(decision.mask[None]).alarms:
        yield "caution", alarm
    unmet = posterior.n_environments > 1 and not decision.compatible.n
    aside = "; here no subset is compatible" if unmet and isinstance(decision.rule, BestCompatible | Median) else ""
    yield "rule", decision.rule_says + aside
    if decision.noise is not None and decision.noise.sentence is not None:
        yield "noise", decision.noise.sentence
    if len(decision.selected) < decision.findings.target.model.largest_size:
        yield from (("limit", sentence) for sentence in _too_few_rows(decision))


def _mode(decision: Decision) -> str:
    posterior = decision.findings.posterior
    probability = f"probability {format_probability(posterior.mode_probability)}"
    if (posterior.mode_mask == decision.mask).all():
        return f"the same subset is the most probable one, {probability}"
    figures = _figures(decision, decision.mode_evidence)
    return f"most probable is {format_subset(posterior.mode)}: {probability}, {figures}"


def _figures(decision: Decision, evidence: SubsetEvidence) -> str:
    figures = [f"R² {format_share(evidence.r2)}"]
    if decision.findings.posterior.n_environments > 1 and np.isfinite(evidence.deviance):
        figures.insert(0, _p_value(decision, evidence.p_invariant))
    if not np.isnan(evidence.r2_new):
        figures.append(f"{format_share(evidence.r2_new)} in environments left out")
    return ", ".join(figures)


def said(decision: Decision, feature: FeatureRole) -> str:
    """What is said of a feature beside its name."""
    change = "" if np.isnan(feature.r2_change) else f"R² {feature.r2_change:+z.3f}"
    without = f"; {change} without it" if change else ""
    added = f": {change}" if change else ""
    match feature.role:
        case Role.required:
            said = f"required: {_found_in(decision)}{without}"
        case Role.kept:
            rises = round(feature.r2_change, 3) > 0.0
            change = f"a lower likelihood without it, though {change}" if rises else change and f"{change} without it"
            said = f"kept for prediction{f': {change}' if change else ''}"
        case Role.chosen:
            said = f"chosen by the rule{without}"
        case Role.forced:
            said = f"forced in by the prior{without}"
        case Role.breaks:
            p_value = _p_value(decision, feature.p_invariant)
            said = f"breaks invariance ({p_value}){_where(feature)}{f'; {change}' if change else ''}"
        case Role.may_break:
            p_value = _p_value(decision, feature.p_invariant)
            tails = "with normal tails, which were not looked at"
            said = f"may break invariance ({p_value} {tails}){f'; {change}' if change else ''}"
        case Role.adds_nothing:
            said = f"adds nothing worth its price{added}"
        case Role.predicts_more:
            said = f"would predict more and stay compatible ({_p_value(decision, feature.p_invariant)}){added}"
        case Role.left_out:
            said = f"left out{added}"
        case Role.not_allowed:
            said = f"not allowed beside the selected ones by the prior{added}"
        case Role.not_judged:
            said = "cannot be judged beside the selected ones: too few rows, or nearly given by them"
    return f"{said}; never challenged" if feature.never_challenged else said


def _found_in(decision: Decision) -> str:
    """Which compatible subsets hold a required feature."""
    compatible = decision.compatible
    if compatible.complete:
        return "no compatible subset lacks it"
    listed = f"{len(compatible.masks):,}"
    if len(compatible.masks) < compatible.n:
        return f"in all of the {listed} best of {_counted(decision)} compatible subsets"
    return "in the one compatible subset found" if listed == "1" else f"in all {listed} compatible subsets found"


def _where(feature: FeatureRole) -> str:
    if feature.broken is None:
        return ""
    label, part = feature.broken.environment, feature.broken.part
    return f", in its {part}" if label is None else f", most in {printable(str(label))} ({part})"


def _listed(decision: Decision) -> Iterator[tuple[str, list[FeatureRole], str | None]]:
    """Title, features and what is left unsaid, of the selected and of the others."""
    selected = [feature for feature in decision.features if feature.selected]
    others = [feature for feature in decision.features if not feature.selected]
    if selected:
        yield "Selected features", selected[:_MOST_SELECTED], _rest(selected[_MOST_SELECTED:])
    if others:
        yield "Other features", others[:MOST_OTHERS], _rest(others[MOST_OTHERS:])


def _rest(features: list[FeatureRole]) -> str | None:
    if not features:
        return None
    counts = Counter(feature.role.value for feature in features)
    return f"and {len(features):,} more: " + ", ".join(f"{role} ({n:,})" for role, n in counts.most_common())


def text_lines(decision: Decision, worded: Callable[[str], str] = str) -> Iterator[str]:
    """worded: what to make of a sentence that may name a remedy"""
    yield "Decision"
    for label, value in header(decision):
        yield from wrap(worded(value), f"  {label:<14}", " " * 16)
    for heading, features, rest in _listed(decision):
        yield from ("", heading)
        names = name_labels([feature.name for feature in features], _NAME_WIDTH)
        column = max(map(display_width, names))
        for feature, name in zip(features, names, strict=True):
            padding = " " * (column - display_width(name))
            yield from wrap(said(decision, feature), f"  {name}{padding}  ", " " * (column + 4))
        if rest is not None:
            yield from wrap(rest, "  … ", "    ")
        if any(feature.never_challenged for feature in features):
            yield from wrap(UNCHALLENGED, "  ", "  ")


def html(decision: Decision) -> str:
    parts = [title("Decision"), table(cell(label, FAINT) + cell(value) for label, value in header(decision))]
    for heading, features, rest in _listed(decision):
        names = name_labels([feature.name for feature in features], 48)
        rows = [
            cell(name, hover=feature.name) + cell(said(decision, feature))
            for feature, name in zip(features, names, strict=True)
        ]
        if rest is not None:
            rows.append(cell("…", FAINT) + cell(rest, FAINT))
        parts += [title(heading), table(rows)]
        if any(feature.never_challenged for feature in features):
            parts.append(paragraph(UNCHALLENGED))
    return box(parts)
