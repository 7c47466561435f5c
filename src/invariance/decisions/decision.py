"""What a person reads after a fit: which features to use, how sure that is, and what can be said of each feature."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, t

from .._tools.arrays import Floats, Mask
from .._tools.html import FAINT, box, cell, paragraph, table, title
from .._tools.text import display_width, format_subset, name_labels, printable, wrap
from ..data.columns import free_name
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import SettingError
from ..models.base import BoundModel, Fit
from ..models.gaussian import GaussianModel
from ..models.invariance_test import Tolerance
from ..models.regression import RegressionModel
from ..moments.fourth_moments import FourthMoments
from ..moments.moments import Moments
from ..posterior.posterior import SubsetEvidence
from ..posterior.summary import Summary, everywhere, format_count, format_p_value, format_probability, format_share
from .environments import moments_of
from .roles import (
    MOST_OTHERS,
    CompatibleSubsets,
    FeatureRole,
    Role,
    Survey,
    compatible_subsets,
    feature_roles,
    plain_number,
    survey,
)
from .rules import RULES, BestCompatible, Findings, Median, Rule

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

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


CONSTANT, NOT_IDENTIFIED, TOO_FEW_ROWS = "constant", "not identified", "too few rows"
STANDS_FOR = "stands for "
# Shares of unit columns below this are rounding.
_NO_SHARE = 1e-5


def coefficient_table(model: BoundModel, mask: Mask, coverage: float) -> pd.DataFrame:
    """Of the subset (p,): column, environment, estimate, lower, upper, note; the pooled fit comes first.

    NaN where a column is constant or adds nothing to the others, which the note tells; lower and upper also where the
    model does not know how sure it is. A coefficient may stand for a column that adds nothing too: the note says so.
    """
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
    """Of the columns of the subset; None where there are none or the model does not show its data."""
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


# Tails that matter: so much excess kurtosis, and so many standard errors above 0.
_HEAVY, _ERRORS = 1.0, 4.0
# A spread that depends on features: so surely, and by such a share of how squared residuals vary.
_SURE, _SHARE = 1e-3, 0.02
# Share of a sum of squares that is no more than rounding.
_ROUNDING = 1e-13
BY_MEAN = "judge with family='linear_gaussian_mean'"


class Shape(NamedTuple):
    """excess_kurtosis of the residuals, 0 of normal noise; share_explained: what the columns of the subset and their
    squares explain of the squared residuals; p_even: the p-value that this is chance (Koenker's test)."""

    excess_kurtosis: float
    share_explained: float
    p_even: float


@dataclass(frozen=True)
class NoiseChecks:
    """Of the residuals of each environment's own fit of a subset.

    selected : names; n_rows; shape : of the residuals in units of their environment, None without the rows
    deviations : {environment: standard deviation}; p_spread, p_mean : p-values for approximate invariance of the
        noise's scale, NaN where that is not compared, and of the coefficients; level : they must reach
    """

    selected: tuple[str, ...]
    n_rows: int
    shape: Shape | None
    deviations: Mapping[Hashable, float]
    p_spread: float
    p_mean: float
    level: float

    @property
    def compares_spread(self) -> bool:
        return not np.isnan(self.p_spread)

    @property
    def heavy_tails(self) -> bool:
        return self.shape is not None and self.shape.excess_kurtosis > max(_HEAVY, _ERRORS * (24 / self.n_rows) ** 0.5)

    @property
    def depends_on_features(self) -> bool:
        return self.shape is not None and self.shape.p_even < _SURE and self.shape.share_explained > _SHARE

    @property
    def differs_alone(self) -> bool:
        """Whether it is the noise's scale that speaks against the subset, and not its coefficients."""
        return self.p_spread < self.level <= self.p_mean

    @property
    def sentence(self) -> str | None:
        """What was found, and what to choose; None where it does not matter."""
        found = list(self._found())
        if not found:
            return None
        told = f"the residuals {', '.join(found[:-1])}{' and ' if len(found) > 1 else ''}{found[-1]}"
        return f"{told}: {BY_MEAN if self.compares_spread else 'p-values may be too small'}."

    def to_plain(self) -> dict[str, Any]:
        """As values that JSON can hold; the shape is None without the rows."""
        return {
            "excess_kurtosis": None if self.shape is None else self.shape.excess_kurtosis,
            "p_even": None if self.shape is None else self.shape.p_even,
            "standard_deviations": {str(label): value for label, value in self.deviations.items()},
            "sentence": self.sentence,
        }

    def _found(self) -> Iterator[str]:
        if self.heavy_tails and self.compares_spread and self.shape is not None:
            yield f"have heavy tails (excess kurtosis {self.shape.excess_kurtosis:.1f})"
        if self.depends_on_features:
            yield f"spread unequally over the values of {format_subset(self.selected, 60)}"
        if self.differs_alone:
            quiet, loud = (pick(self.deviations, key=lambda e: self.deviations[e]) for pick in (min, max))
            yield (
                f"spread unequally between environments (standard deviation {self.deviations[quiet]:.3g} in "
                f"{printable(str(quiet))}, {self.deviations[loud]:.3g} in {printable(str(loud))})"
            )


def noise_checks(model: BoundModel, mask: Mask, tolerance: Tolerance) -> NoiseChecks | None:
    """Of a subset (p,) under a linear model by least squares; None for others, with one environment, and where the
    subset cannot be fitted. Curves have none: no model of the mean alone is at hand that would keep them."""
    linear = None if model.makes_curves else model.by_least_squares
    if linear is None or linear.moments.n_environments < 2 or not linear.log_ratio_many(mask[None])[0] > -np.inf:
        return None
    fits, test = linear.residuals(mask[None]), linear.invariance_test(mask[None], tolerance)
    deviations = np.sqrt(fits.rss[0, :-1] / fits.freedom[0, :-1])
    return NoiseChecks(
        selected=tuple(name for name, flag in zip(linear.feature_names, mask, strict=True) if flag),
        n_rows=linear.n_rows,
        shape=_shape_of(linear, mask),
        deviations=dict(zip(linear.moments.environments, deviations.tolist(), strict=True)),
        p_spread=float(test.spread[0]),
        p_mean=float(test.mean[0]),
        level=tolerance.lowest_level,
    )


def _shape_of(model: GaussianModel, mask: Mask) -> Shape | None:
    """None without the rows, or what a second look at them told of the columns of the subset."""
    if model.rows is not None:
        return _shape(model.rows, mask, model.fit(mask))
    columns = (*model.features.chosen(mask).columns, model.moments.outcome_name)
    places = None if model.fourths is None else model.fourths.places(columns)
    if model.fourths is None or places is None:
        return None
    return _shape_from_fourths(model.fourths, places, np.nan_to_num(model.fit(mask).local_coefficients))


def _shape_from_fourths(fourths: FourthMoments, places: NDArray[np.intp], slopes: Floats) -> Shape:
    """places (k + 1,): of the columns and the outcome; slopes (E, k): of each environment's own fit"""
    units, k = np.eye(len(fourths.columns)), len(places) - 1
    sums = np.zeros((2 * k + 2, 2 * k + 2))
    for e, own in enumerate(slopes):
        functions = fourths.functions(e)
        squared = functions.square(np.append(-own, 1.0) @ units[places])
        squared /= functions.sums([functions.one, squared])[0, 1] / fourths.counts[e]
        columns = units[places[:-1]]
        each = [functions.one, *map(functions.linear, columns), *map(functions.square, columns), squared]
        sums += functions.sums(each)
    n_rows = sums[0, 0]
    centred = sums - np.outer(sums[0], sums[0]) / n_rows
    share, degrees = _explained_by_products(centred[1:, 1:], np.diagonal(sums)[1:])
    return Shape(float(sums[-1, -1] / n_rows) - 3.0, share, float(chi2.sf(n_rows * share, degrees)))


def _explained_by_products(products: Floats, squares: Floats) -> tuple[float, int]:
    """As `_explained`, of the last column, from centred products; squares: before they were centred."""
    spread = np.sqrt(np.maximum(np.diagonal(products), 0.0))
    varying = np.flatnonzero(spread[:-1] > _ROUNDING * np.sqrt(squares[:-1]))
    if not len(varying):
        return 0.0, 1
    gram = products[np.ix_(varying, varying)] / np.outer(spread[varying], spread[varying])
    cross = products[varying, -1] / spread[varying]
    values, vectors = np.linalg.eigh(gram)
    kept = values > _ROUNDING * values[-1]
    along = vectors[:, kept].T @ cross
    return float(along**2 @ (1.0 / values[kept]) / products[-1, -1]), int(kept.sum())


def _shape(data: MultiEnvironmentData, mask: Mask, fit: Fit) -> Shape:
    residuals, columns = np.empty(data.n_rows), data.X[:, data.features.expand(mask)].copy()
    for e in range(data.n_environments):
        rows = data.rows(e)
        missed = data.y[rows] - fit.local_intercepts[e] - columns[rows] @ np.nan_to_num(fit.local_coefficients[e])
        residuals[rows] = missed / np.sqrt(np.mean(missed**2))
        columns[rows] -= columns[rows].mean(axis=0)
    squares = residuals**2
    share, degrees = _explained(np.column_stack([columns, columns**2]), squares)
    return Shape(float(np.mean(squares**2)) - 3.0, share, float(chi2.sf(data.n_rows * share, degrees)))


def _explained(X: Floats, y: Floats) -> tuple[float, int]:
    """Share of the variance of y that the columns of X (N, k) explain, and their rank."""
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0))[:, spread > 0.0] / spread[spread > 0.0]
    if not X.shape[1]:
        return 0.0, 1
    deviations = y - y.mean()
    slopes, _, rank, _ = np.linalg.lstsq(X, deviations, rcond=1e-10)
    missed = deviations - X @ slopes
    return float(1.0 - missed @ missed / (deviations @ deviations)), int(rank)


@dataclass(frozen=True, eq=False, repr=False)
class Decision:
    """The subset (p,) that a rule chose; `str()` tells it within 80 columns, notebooks show it as HTML.

    findings : what it was chosen from; mask : the chosen subset (p,); rule : that chose it
    """

    findings: Findings
    mask: Mask
    rule: Rule

    @cached_property
    def selected(self) -> tuple[str, ...]:
        """Names of the chosen features."""
        return self._names(self.mask)

    @cached_property
    def evidence(self) -> SubsetEvidence:
        """What the data say about the chosen subset."""
        return self.findings.judge.evidence(self.mask[None]).one()

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
    def mode_evidence(self) -> SubsetEvidence:
        """What the data say about the most probable subset of the paper's posterior."""
        return self.findings.judge.evidence(self.findings.posterior.mode_mask[None]).one()

    @cached_property
    def compatible(self) -> CompatibleSubsets:
        return compatible_subsets(self.findings)

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
        """What the rule does, in a few words."""
        name = RULES.class_names.get(type(self.rule).__name__)
        if name is None:
            return repr(self.rule)
        settings = ", ".join(f"{key} {value:g}" for key, value in vars(self.rule).items())
        return f"{name}: {RULES.members[name].help}{f' ({settings})' if settings else ''}"

    @property
    def verdict(self) -> str:
        """One or two sentences: whether the chosen features predict alike everywhere."""
        pass

        return verdict(self)

    def coefficients(self, coverage: float = 0.95) -> pd.DataFrame:
        """Of the chosen subset, with intervals: one row for each column and environment, and for the pool of all.

        Columns: column, environment ("pooled" for the pool), estimate, lower, upper, note. NaN where a column is
        constant or a combination of others, which the note says, as it does where a coefficient stands for such a
        column too.
        """
        pass

        return coefficient_table(self.findings.target.model, self.mask, coverage)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the chosen features, to which the coefficients belong."""
        return self.findings.target.model.features.chosen(self.mask).columns

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
            "tolerance": asdict(self.findings.tolerance),
            "evidence": _plain(self.evidence),
            "compatible": {
                "subsets": compatible.n,
                "all_scored": compatible.all_scored,
                "level": compatible.accepted.level,
            },
            "most_probable": {
                "subset": list(posterior.mode),
                "probability": posterior.mode_probability,
                "evidence": _plain(self.mode_evidence),
            },
            "noise": None if self.noise is None else self.noise.to_plain(),
            "features": [feature.to_plain() for feature in self.features],
            "coefficients": coefficients.to_dict("records"),
        }

    def __str__(self) -> str:
        pass

        return "\n".join(text_lines(self))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        pass

        return html(self)

    def _names(self, mask: Mask) -> tuple[str, ...]:
        names = self.findings.posterior.feature_names
        return tuple(name for name, flag in zip(names, mask, strict=True) if flag)


@dataclass(frozen=True)
class FitSummary:
    """The decision, then the posterior that it rests on; `str()` gives the text, notebooks show the HTML.

    worded : what to make of a sentence of the decision that may name a remedy
    """

    decision: Decision
    posterior: Summary
    worded: Callable[[str], str] = str

    def __str__(self) -> str:
        pass

        decision = "\n".join(text_lines(self.decision, self.worded))
        return f"{decision}\n\n{self.posterior}"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.decision._repr_html_() + self.posterior._repr_html_()


def _plain(evidence: SubsetEvidence) -> dict[str, float | None]:
    return {name: plain_number(value) for name, value in asdict(evidence).items()}
