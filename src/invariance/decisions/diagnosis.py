"""The diagnosis of environments: which one violates invariance, and the fit without it."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.stats import t as student

from .._tools.arrays import Fields, Floats, Labels, Mask, Names
from .._tools.json import null, to_json, written
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.sections import Rendered, Section, by_environment, shown_first
from .._tools.text import (
    COLUMNS,
    display_width,
    format_subset,
    in_quotes,
    name_labels,
    printable,
    shorten,
)
from ..data.checks import largest_size
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, EngineError, Message, SettingError, use
from ..inference.enumeration import Enumeration
from ..models.base import BASELINE, DISPERSION, INTERCEPT, SLOPES, VARIANCE, BoundModel, Level
from ..models.gaussian import GaussianModel
from ..models.invariance_test import Tolerance
from ..models.random_coefficients import GaussianRandomDeviations
from ..models.regression import RegressionModel
from ..moments.moments import Moments
from ..posterior.posterior import Judge, Posterior, SubsetEvidence
from ..posterior.summary import format_difference, format_p_value, format_percent, format_share
from ..posterior.summary import format_small_p_value as format_p
from .decision import compatible_subsets, grade_of, p_values_in_words
from .environments import (
    ComparedEnvironments,
    Deviation,
    EnvironmentTest,
    WorstEnvironment,
    compared_model,
    environment_tests,
    worst_environment,
)
from .levels import Grade, Heterogeneity, heterogeneity_of
from .pipeline import Data, Findings, FitSettings
from .selection_error import ChanceSelection

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FORMAT = "invariance.diagnosis/3"
LeaveOut = bool | Literal["auto"]
# p-value below which an environment is at odds with a subset, and gain in R² that matters.
SURE = 0.01
GAIN = 0.02


# ---------------------------------------------------------------- without each environment


@dataclass(frozen=True, eq=False)
class Refit:
    """The fit without one environment.

    inclusion, predictive_inclusion : (p,) NaN for features that are constant then
    selected : by the rule of the fit; best : the best compatible subset, with its R² and p-value
        then, p_against_best, that of the environment, and best_p_with, that of the subset in all
        environments; None and NaN where no subset is compatible
    """

    inclusion: Floats
    predictive_inclusion: Floats
    selected: Names | None = None
    best: Names | None = None
    best_r2: float = float("nan")
    best_p_invariant: float = float("nan")
    p_against_best: float = float("nan")
    best_p_with: float = float("nan")


@dataclass(frozen=True, eq=False)
class WithoutEnvironment:
    """p_invariant, p_exact, r2 : of the diagnosed subset in all other environments, NaN where these
    cannot be fitted;
    refit : None where none was made"""

    environment: Hashable
    p_invariant: float
    p_exact: float
    r2: float
    refit: Refit | None

    @property
    def best_r2(self) -> float:
        return -np.inf if self.refit is None else self.refit.best_r2


def without_each(
    settings: FitSettings,
    findings: Findings,
    source: Data,
    mask: Mask,
    refit: bool,
    progress: ProgressMode,
    asked: Sequence[int],
) -> tuple[WithoutEnvironment, ...]:
    """The evidence of a subset (p,) without each environment of the source that is asked for, by
    its place, and, if `refit`, the whole fit."""
    labels = findings.posterior.environments
    names = np.array(findings.posterior.feature_names, dtype=object)
    found = []
    with (
        ProgressBar("without each environment", len(asked), progress) as bar,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        for e, label in ((e, labels[e]) for e in asked):
            bar.advance(0, str(label))
            try:
                data = source.choosing([other for other in labels if other != label])
                again = None
                if refit:
                    others = settings.of_paper(settings.target(data), False).at_level(
                        findings.level
                    )
                    if others is None:
                        raise DataError(
                            "a feature that is forced in is constant in each of these environments."
                        )
                    model = others.target.model
                    again = _refit(settings, findings, others, e)
                else:
                    model = settings.family.bind(data).at_level(findings.level)
                left = np.isin(np.array(model.feature_names, dtype=object), names[mask])
                evidence = (
                    Judge(model, settings.tolerance).evidence(left[None], elsewhere=False).one()
                )
                found.append(
                    WithoutEnvironment(
                        label, evidence.p_invariant, evidence.p_exact, evidence.r2, again
                    )
                )
            except (DataError, EngineError):
                found.append(WithoutEnvironment(label, np.nan, np.nan, np.nan, None))
            bar.advance()
    return tuple(found)


def _source(rows: MultiEnvironmentData | None, moments: Moments, mask: Mask, refit: bool) -> Data:
    """Without refits the features of the subset alone, and one that varies in most environments:
    one must be left."""
    if refit:
        return moments if rows is None else rows
    kept = mask.copy()
    kept[np.argmax((moments.varying_widths[:-1] > 0).sum(axis=0))] = True
    if rows is not None:
        return rows.narrowed(kept)
    return moments.of_columns((*moments.features.chosen(kept).columns, moments.outcome_name))


def _refit(settings: FitSettings, findings: Findings, others: Findings, e: int) -> Refit:
    """others : without the environment at place e"""
    names = np.array(findings.posterior.feature_names, dtype=object)

    def inclusion(posterior: Posterior | None) -> Floats:
        values = np.full(len(names), np.nan)
        if posterior is not None:
            values[np.isin(names, posterior.feature_names)] = posterior.inclusion
        return values

    predictive = others.predictive
    both = inclusion(others.posterior), inclusion(predictive)
    if predictive is None:
        return Refit(*both)
    evidence = others.judge.evidence(predictive.mode_mask[None], elsewhere=False).one()
    selected = others.posterior.names_of(settings.rule.select(others))
    best = np.isin(names, predictive.mode)
    tested = environment_tests(findings.target.model, best).deviation(e)
    p_against = np.nan if tested is None else tested.p_value
    p_with = float(findings.judge.model.invariance_test(best[None], findings.tolerance).joint[0])
    return Refit(
        *both, selected, predictive.mode, evidence.r2, evidence.p_invariant, p_against, p_with
    )


# ---------------------------------------------------------------- what small environments cost; own
# coefficients


@dataclass(frozen=True)
class Sites:
    """Hold the limits that small environments set.

    largest : largest size of a subset for which every environment has enough rows; without :
        {held-out
    environment: the same for the others}; enough_rows : smallest min_rows with which two
    environments or more remain and subsets may contain all features
    """

    largest: int
    without: Mapping[Hashable, int]
    enough_rows: int | None


def sites_of(moments: Moments) -> Sites:
    counts = moments.counts
    widths = moments.varying_widths[:-1]

    def largest(kept: Mask) -> int:
        return largest_size(counts[kept], widths[kept])

    without = {
        label: largest(np.arange(len(counts)) != e) for e, label in enumerate(moments.environments)
    }
    possible = (int(n) for n in np.unique(counts) if (counts >= n).sum() > 1)
    enough = (n for n in possible if largest(counts >= n) == moments.n_features)
    return Sites(moments.largest_size, without, next(enough, None))


@dataclass(frozen=True, eq=False)
class OwnCoefficients:
    """Hold the coefficients of each of E environments, for random deviations.

    names : OWN_MEAN, the expectation at the means of its features, and k columns; estimates,
        margins :
    (E, 1 + k), half of 95% intervals; usual : (E, 1 + k) by the common coefficients; NaN for
    columns that are constant there; share : of the variance of the noise that deviations explain
    """

    names: Names
    estimates: Floats
    margins: Floats
    usual: Floats
    share: float

    @classmethod
    def of(cls, model: BoundModel, mask: Mask) -> OwnCoefficients | None:
        """None of models without random deviations, and of subsets (p,) that cannot be fitted"""
        if not isinstance(model, GaussianRandomDeviations) or not model.log_ratio(mask) > -np.inf:
            return None
        found = model.blups(mask)
        fit = model.fit(mask)
        margins = (
            student.ppf(0.975, found.freedom)
            * np.column_stack([found.level_errors, found.errors])[:-1]
        )
        usual = np.column_stack(
            [found.usual[:-1], np.broadcast_to(fit.coefficients, fit.local_coefficients.shape)]
        )
        estimates = np.column_stack([found.levels[:-1], fit.local_coefficients])
        return cls((OWN_MEAN, *fit.columns), estimates, margins, usual, found.share)

    def content(self, tests: Sequence[EnvironmentTest]) -> list[Fields]:
        """A row for each environment and name"""
        ends = {"lower": self.estimates - self.margins, "upper": self.estimates + self.margins}
        figures = {"estimate": self.estimates, **ends, "usual": self.usual}
        return [
            {"environment": str(test.environment), "name": name}
            | {key: of[e, j] for key, of in figures.items()}
            for e, test in enumerate(tests)
            for j, name in enumerate(self.names)
        ]


# ---------------------------------------------------------------- the diagnosis


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis(Rendered, ComparedEnvironments):
    """Show how each environment of a fit deviates from the others, given one subset.

    It prints as text and shows as HTML; `to_dict` has its values.

    Attributes
    ----------
    subset : tuple of str
        Names of the features.
    outcome_name : str
        Name of the outcome.
    tests : tuple of EnvironmentTest
        Test of each environment against all others.
    parts : tuple of str
        Parameters that are tested.
    feature_names : tuple of str
        Names of all p features.
    evidence : Evidence
        Evidence on the subset; NaN if it cannot be fitted in every environment.
    unjudged : str
        Why it cannot be fitted, or "".
    tolerance : Tolerance
        Tolerance with the level that subsets had to reach.
    whole : Deviation or None
        All environments against one common fit.
    nothing_compatible : bool
        Whether no subset is compatible with invariance.
    all_scored : bool
        Whether all subsets were scored.
    left_out : tuple of WithoutEnvironment
        Results without each of three environments or more.
    refitted : bool
        Whether these are whole fits.
    inclusion, predictive_inclusion : ndarray of shape (p,)
        Inclusion probabilities of the whole fit; the latter NaN if no subset is compatible.
    sites : Sites
        Limits that small environments set.
    judged_by : str
        The level in words.
    allowed : str
        Subsets that the prior excludes, in words.
    own : OwnCoefficients or None
        Coefficients of each environment, for random deviations.
    level : Level
        Level of invariance. Below "full" environments have their own baselines, which are not
        compared.
    heterogeneity : Heterogeneity
        Whether the effects are the same.
    alarm : bool
        Whether no subset is compatible, or an environment's p-value is below 0.05/E and
        coefficients differ by more than the tolerance.
    grade : Grade
        Grade of the subset, as in a verdict.
    named : label or None
        The environment behind an alarm: the one that deviates most or, if no subset is compatible,
        the one without which the best subset is. None for two environments that cannot be
        distinguished.
    """

    feature_names: Names
    evidence: SubsetEvidence
    unjudged: str
    tolerance: Tolerance
    whole: Deviation | None
    nothing_compatible: bool
    all_scored: bool
    left_out: tuple[WithoutEnvironment, ...]
    refitted: bool
    inclusion: Floats
    predictive_inclusion: Floats
    sites: Sites
    judged_by: str
    allowed: str
    own: OwnCoefficients | None
    level: Level
    heterogeneity: Heterogeneity

    @property
    def p_invariant(self) -> float:
        return self.evidence.p_invariant

    @property
    def r2(self) -> float:
        return self.evidence.r2

    @property
    def worst(self) -> WorstEnvironment | None:
        """Return the environment with the smallest p-value.

        Returns
        -------
        WorstEnvironment or None
            Its label, p-value and the parameters that deviate.
        """
        return worst_environment(self.tests)

    @property
    def unlike(self) -> Labels:
        """Environments whose p-value is below the threshold."""
        decided = ((test.environment, test.deviation) for test in self.tests)
        return tuple(
            label
            for label, found in decided
            if found is not None and found.p_value < self.threshold
        )

    @property
    def compatible(self) -> bool:
        """Return whether the subset is compatible with invariance."""
        return self.p_invariant >= self.tolerance.level

    @property
    def without_worst(self) -> tuple[float, float] | None:
        """p-values of approximate and of exact invariance of the subset without the environment
        that deviates most, if one does significantly."""
        label = self.worst.environment if self.worst is not None and self.unlike else None
        each = (
            (left.p_invariant, left.p_exact) for left in self.left_out if left.environment == label
        )
        return next(each, None)

    @property
    def grade(self) -> Grade:
        if np.isnan(self.p_invariant):
            return Grade.open
        grade = grade_of(
            self.evidence, self.tolerance, self.worst if self.unlike else None, self.without_worst
        )
        return self.heterogeneity.qualifying(grade, self.tolerance)

    @property
    def alarm(self) -> bool:
        return self.nothing_compatible or (bool(self.unlike) and self.grade is not Grade.alike)

    @property
    def freed_by(self) -> WithoutEnvironment | None:
        """Return the environment without which the best subset is compatible, if none is with it.

        The subset must predict, and the environment must deviate from its fit.
        """
        freeing = [left for left in self.left_out if left.best_r2 > GAIN and self._at_odds(left)]
        return (
            max(freeing, key=lambda left: left.best_r2, default=None)
            if self.nothing_compatible
            else None
        )

    @property
    def decisive(self) -> tuple[WithoutEnvironment, ...]:
        """Return environments whose exclusion makes a better predictor compatible.

        Without such an environment a subset is compatible that predicts better than the diagnosed
        one, and with it the subset is not: the environment acts on the outcome, or it alone shows
        that a feature is not invariant.

        Returns
        -------
        tuple of WithoutEnvironment
            The largest gain first; empty if no subset is compatible.
        """
        if self.nothing_compatible:
            return ()
        better = [
            left for left in self.left_out if left.best_r2 - left.r2 > GAIN and self._at_odds(left)
        ]
        return tuple(sorted(better, key=lambda left: left.r2 - left.best_r2))

    def _at_odds(self, left: WithoutEnvironment) -> bool:
        """Return whether the best subset without an environment is compatible only without it.

        The environment must deviate from the others in the fit of that subset.
        """
        refit = left.refit
        level = self.tolerance.level
        if refit is None or not refit.best_p_invariant >= level > refit.best_p_with:
            return False
        return refit.p_against_best < SURE / self.n_environments

    @property
    def named(self) -> Hashable | None:
        if not self.alarm:
            return None
        if self.freed_by is not None and self.grade is not Grade.but_for:
            return self.freed_by.environment
        return None if self.worst is None else self.worst.environment

    def influence(self, predictive: bool = True) -> pd.DataFrame:
        """Return the change of each inclusion probability if an environment is excluded.

        Parameters
        ----------
        predictive : bool, default=True
            Whether to use the predictive posterior, or the paper's.

        Returns
        -------
        DataFrame of shape (E, p)
            NaN if a change is not known.
        """
        import pandas as pd

        name = "predictive_inclusion" if predictive else "inclusion"
        refits = {left.environment: left.refit for left in self.left_out if left.refit is not None}
        changes = {
            label: getattr(refit, name) - getattr(self, name) for label, refit in refits.items()
        }
        return pd.DataFrame.from_dict(changes, orient="index", columns=list(self.feature_names))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw −log₁₀ p of each environment and parameter as bars.

        Parameters
        ----------
        ax : Axes, default=None
            Axes to draw on. None makes a new figure.

        Returns
        -------
        Axes
            The axes.
        """
        from .plots import plot_environments

        return plot_environments(self, ax)

    @property
    def sections(self) -> Iterator[Section]:
        title = f"Environments of {printable(self.outcome_name)} given {format_subset(self.subset)}"
        yield Section(title, tuple(_verdict(self)))
        yield _tests(self)
        if self.own is not None:
            yield _own_section(self.own, self.tests)
        if self.left_out:
            yield _left_out_section(self)
        if self.sites.without and self.sites.largest < len(self.feature_names):
            yield Section("Small environments", tuple(_small_environments(self)))

    def to_dict(self, luck: ChanceSelection | None = None) -> Fields:
        """Return the diagnosis as values that JSON can hold.

        Parameters
        ----------
        luck : ChanceSelection, default=None
            Chance of a wrong selection, if it was computed.

        Returns
        -------
        dict
            Values; undefined numbers are None.
        """
        same = (
            "alarm",
            "grade",
            "threshold",
            "nothing_compatible",
            "p_invariant",
            "r2",
            "evidence",
            "tolerance",
        )
        more = "inclusion", "predictive_inclusion", "level"
        content: Fields = {"format": FORMAT} | {
            name: getattr(self, name) for name in (*same, *more)
        }
        content |= {
            "outcome": self.outcome_name,
            "subset": self.subset,
            "named": None if self.named is None else str(self.named),
            "decisive": [str(left.environment) for left in self.decisive],
            "unjudged": self.unjudged or None,
            "all_environments": self.whole,
            "environments": [
                {
                    "environment": str(test.environment),
                    "rows": test.rows,
                    "against_the_rest": test.deviation,
                }
                for test in self.tests
            ],
            "features": self.feature_names,
            "left_out": [
                vars(left) | {"environment": str(left.environment)} for left in self.left_out
            ],
            "sites": {"largest_subset": self.sites.largest, "largest_without": self.sites.without},
            "own_coefficients": None if self.own is None else self.own.content(self.tests),
            "luck": luck,
        }
        plain: Fields = to_json(content, null)
        return plain

    def to_json(self, path: str | Path | None = None, luck: ChanceSelection | None = None) -> str:
        """Return strict JSON of `to_dict`, and write it to a file if a path is given.

        Parameters
        ----------
        path : str or Path, default=None
            File to write.
        luck : ChanceSelection, default=None
            Chance of a wrong selection, if it was computed.

        Returns
        -------
        str
            JSON text.
        """
        return written(self.to_dict(luck), path)


def diagnose(
    settings: FitSettings,
    findings: Findings,
    mask: Mask,
    leave_out: LeaveOut = "auto",
    progress: ProgressMode = "auto",
) -> Diagnosis:
    """Return the diagnosis of a subset (p,).

    leave_out : whether to fit again without each environment. "auto" does if all subsets are scored
        and that
    takes seconds; otherwise it tests the subset alone, and of many environments with random
    deviations holds out those that deviate most.
    """
    if leave_out not in (True, False, "auto"):
        raise SettingError(
            f"leave_out={leave_out!r} is not known", use(leave_out=True), use(leave_out="auto")
        )
    posterior = findings.posterior
    predictive = findings.predictive
    judge = findings.judge
    tests = environment_tests(findings.target.model, mask)
    evidence = judge.evidence(mask[None], elsewhere=False).one()
    model = compared_model(findings.target.model)
    assert model is not None
    full = model.at_level(Level.full)
    assert isinstance(full, RegressionModel | GaussianModel)
    moments = Moments.from_data(full.data) if isinstance(full, RegressionModel) else full.moments
    each = tests.each()
    random = isinstance(model, GaussianRandomDeviations)
    asked, others = shown_first(list(map(_p_value, each)))
    few = findings.cheap_without_each and not (random and others)
    refit = isinstance(findings.engine, Enumeration) and few if leave_out == "auto" else leave_out
    if leave_out is True or not random:
        asked = list(range(len(each)))
    enough = posterior.n_environments > 2
    compatible = compatible_subsets(findings)
    source = _source(full.data, moments, mask, refit)
    return Diagnosis(
        subset=posterior.names_of(mask),
        outcome_name=posterior.outcome_name,
        feature_names=posterior.feature_names,
        evidence=evidence,
        unjudged="; ".join(judge.model.outside_support(mask[None])),
        tolerance=compatible.accepted,
        whole=tests.deviation(None),
        tests=each,
        nothing_compatible=predictive is None,
        all_scored=compatible.all_scored,
        left_out=without_each(settings, findings, source, mask, refit, progress, asked)
        if enough
        else (),
        refitted=refit and enough,
        inclusion=posterior.inclusion,
        predictive_inclusion=np.full(len(mask), np.nan)
        if predictive is None
        else predictive.inclusion,
        sites=Sites(model.largest_size, {}, None) if random else sites_of(moments),
        judged_by=findings.target.model.judged_by(compatible.accepted),
        allowed=findings.allowed,
        own=OwnCoefficients.of(model, mask),
        level=findings.level,
        heterogeneity=heterogeneity_of(judge.model, mask, compatible.accepted),
        parts=findings.target.model.compares,
    )


# ---------------------------------------------------------------- in words

_DIFFER = {
    INTERCEPT: "the intercept differs",
    SLOPES: "the slopes differ",
    VARIANCE: "the noise's variance differs",
    DISPERSION: "the dispersion differs",
    BASELINE: "the shape of the baseline hazard differs",
}
_LONGEST_LABEL = 20
# Width of the columns between the label and the subset, in the table of fits without an
# environment.
_FIGURES = 32
_MOST_CHANGES = 5
_LEAST_CHANGE = 0.1
_MOST_DECISIVE = 2
_MOST_OWN = 12
OWN_MEAN = "its mean"
T_BY_ENVIRONMENT = "T = −2 log Λ by environment"
_OWN_BASELINES = "Each environment has its own baseline: intercepts are not compared."
NOT_REFITTED = Message(
    "the selection was not repeated without each environment", use(leave_out=True)
)


def _verdict(diagnosis: Diagnosis) -> Iterator[str]:
    worst = diagnosis.worst
    subset = format_subset(diagnosis.subset)
    grade = diagnosis.grade
    outcome = printable(diagnosis.outcome_name)
    n = diagnosis.n_environments
    breaks = None if grade is Grade.but_for else diagnosis.freed_by
    if diagnosis.nothing_compatible:
        found = "is compatible" if diagnosis.all_scored else "was found that is compatible"
        yield (
            f"No subset of the features{diagnosis.allowed} {found} with invariance "
            f"({diagnosis.judged_by})."
        )
    if worst is None:
        undecided = diagnosis.unjudged or "fits to their rows cannot be decided"
        yield f"The environments cannot be compared given {subset}: {undecided}."
        return
    if breaks is not None and breaks.refit is not None:
        refit = breaks.refit
        best = format_subset(breaks.refit.best or ())
        figures = (
            f"p-value of invariance {format_p(refit.best_p_invariant)}, R² "
            f"{format_share(refit.best_r2, 2)}"
        )
        yield (
            f"Environment {in_quotes(diagnosis.named)} breaks it: without it {best} predicts "
            f"{outcome} alike in the "
            f"other {n - 1} ({figures}), and it is at odds with them (p-value "
            f"{format_p(refit.p_against_best)})."
        )
    if diagnosis.unlike and (breaks is None or breaks.environment != worst.environment):
        yield f"Given {subset}, {_who_is_unlike(diagnosis, worst)}."
    elif not diagnosis.unlike and breaks is None:
        among = "" if all(test.deviation for test in diagnosis.tests) else " that can be compared"
        p_value = (
            f"the smallest p-value is {format_p(worst.p_value)}, not below "
            f"{diagnosis.threshold:.2g}"
        )
        yield f"No environment{among} stands out given {subset}: {p_value}."
    if diagnosis.unjudged:
        yield (
            f"Whether {subset} is compatible with invariance cannot be judged: "
            f"{diagnosis.unjudged}."
        )
    elif not diagnosis.nothing_compatible or grade is Grade.but_for:
        compatible = "compatible" if diagnosis.compatible else "not compatible"
        judged = f"{p_values_in_words(diagnosis.evidence)}, {diagnosis.judged_by}"
        what = "invariance" if diagnosis.level is Level.full else "invariance of effects"
        yield f"The subset is {compatible} with {what} ({judged})."
    if grade is Grade.but_for and diagnosis.without_worst is not None:
        p_value, exact = map(format_p_value, diagnosis.without_worst)
        so = "no difference is found" if diagnosis.compatible else "it is compatible"
        yield f"Without {in_quotes(worst.environment)} {so} (p-value {p_value}, exact {exact})."
    for left in diagnosis.decisive[:_MOST_DECISIVE]:
        assert left.refit is not None
        p_values = (
            f"p-value {format_p_value(left.refit.best_p_invariant)}, with it "
            f"{format_p(left.refit.best_p_with)}"
        )
        r2 = f"R² {format_share(left.best_r2, 2)} instead of {format_share(left.r2, 2)}"
        best = format_subset(left.refit.best or ())
        yield (
            f"Without {in_quotes(left.environment)} {best} is compatible ({p_values}) and "
            f"predicts better ({r2})."
        )
    if diagnosis.named is not None or diagnosis.decisive:
        yield (
            "Nothing was left out: an environment may be unlike the others because it acts on the "
            "outcome itself, or "
            "because it alone shows what is not invariant."
        )


def _who_is_unlike(diagnosis: Diagnosis, worst: WorstEnvironment) -> str:
    label = worst.environment
    n_unlike = len(diagnosis.unlike)
    which = (
        f"{n_unlike:,} of {diagnosis.n_environments:,} environments are unlike the rest, most "
        f"{in_quotes(label)}"
    )
    if label is None:
        which = "the two environments differ"
    elif n_unlike == 1 or diagnosis.grade is Grade.but_for:
        which = f"environment {in_quotes(label)} is unlike the others"
    found = (
        f"{which}: {_DIFFER[worst.part]} most (p-value {format_p(worst.p_value)}, below "
        f"{diagnosis.threshold:.2g})"
    )
    if diagnosis.grade is Grade.but_for and n_unlike > 1:
        return (
            f"{found}; also below it: {n_unlike - 1:,} more, against rows that include "
            f"{in_quotes(label)}"
        )
    if diagnosis.grade is not Grade.alike:
        return found
    size = f"coefficients differ by {format_difference(diagnosis.evidence)}"
    return f"{found}, but not clearly more than is tolerated: {size}"


def _tests(diagnosis: Diagnosis) -> Section:
    together = EnvironmentTest(
        "all together", sum(test.rows for test in diagnosis.tests), diagnosis.whole
    )
    places, notes = shown_first([_p_value(test) for test in diagnosis.tests])
    tests = (*(diagnosis.tests[e] for e in places), together)
    rows = []
    for test in tests:
        found = test.deviation
        figures = ["–"] * (3 + len(diagnosis.parts))
        if found is not None:
            parts = (format_p(found.parts[name].p_value) for name in diagnosis.parts)
            expected = (
                "–" if np.isnan(found.expected_deviance) else f"{found.expected_deviance:.1f}"
            )
            figures = [f"{found.deviance:.1f}", expected, format_p(found.p_value), *parts]
        rows.append((f"{test.rows:,}", *figures))
    sentence = (
        "Each against the rows of all others together, by all parts (Bonferroni's rule) and, in "
        "the last columns, by "
        "each. P-values are of exact invariance."
    )
    head = "rows", "T", "expected", "p-value", *diagnosis.parts
    table = by_environment(head, [test.environment for test in tests], rows)
    sentences = (sentence,) if diagnosis.level is Level.full else (sentence, _OWN_BASELINES)
    return Section(T_BY_ENVIRONMENT, sentences, table=table, notes=notes)


def _p_value(test: EnvironmentTest) -> float:
    return np.nan if test.deviation is None else test.deviation.p_value


def _own_section(own: OwnCoefficients, tests: tuple[EnvironmentTest, ...]) -> Section:
    """Return the section of the largest deviations, in units of their margins."""
    far = np.nan_to_num(np.abs(own.estimates - own.usual) / own.margins)
    order = np.argsort(-far, axis=None, kind="stable")[: min(_MOST_OWN, np.count_nonzero(far))]
    labels = name_labels([str(test.environment) for test in tests], _LONGEST_LABEL)
    rows = []
    for e, j in zip(*np.unravel_index(order, far.shape), strict=True):
        estimate = own.estimates[e, j]
        margin = own.margins[e, j]
        interval = f"[{estimate - margin:z.3g}, {estimate + margin:z.3g}]"
        name = shorten(own.names[j], _LONGEST_LABEL)
        rows.append((labels[e], name, f"{estimate:z.3g}", interval, f"{own.usual[e, j]:z.3g}"))
    sentences = (
        f"Deviations explain {format_percent(own.share)} of the noise. Coefficients of each "
        "environment are predicted "
        "from its rows and from how all deviate, with 95% intervals. Its mean is what is expected "
        "at the means of its "
        "features; usual is by the coefficients of all.",
    )
    notes = (
        (f"… the {len(rows)} farthest from the usual, of {np.isfinite(own.estimates).sum():,}.",)
        if rows
        else ()
    )
    table = (("environment", "of", "own", "interval", "usual"), *rows) if rows else ()
    return Section(
        "Coefficients of environments", sentences, table=table, notes=notes, text_columns=(0, 1)
    )


def _left_out_section(diagnosis: Diagnosis) -> Section:
    known = {test.environment: _p_value(test) for test in diagnosis.tests}
    places, notes = shown_first([known[left.environment] for left in diagnosis.left_out])
    shown = [diagnosis.left_out[place] for place in places]
    labels = name_labels([str(left.environment) for left in shown], _LONGEST_LABEL)
    width = COLUMNS - max(map(display_width, ("without", *labels))) - _FIGURES
    rows = [("without", "p_inv", "exact", "R²", "selected then")]
    for label, left in zip(labels, shown, strict=True):
        then = "cannot be fitted"
        if left.refit is not None:
            chosen = left.refit.selected
            then = "nothing compatible" if chosen is None else format_subset(chosen, width)
        rows.append(
            (label, format_p(left.p_invariant), format_p(left.p_exact), format_share(left.r2), then)
        )
    more = _inclusion_changes(diagnosis) if diagnosis.refitted else NOT_REFITTED
    table = tuple(row if diagnosis.refitted else row[:-1] for row in rows)
    sentences = f"p_inv and R² are of {format_subset(diagnosis.subset)}.", more
    if n_not_asked := diagnosis.n_environments - len(diagnosis.left_out):
        notes = (f"… {n_not_asked:,} environments, which deviate less, were not left out.",)
    return Section(
        "Without each environment", sentences, table=table, notes=notes, text_columns=(0, 4)
    )


def _inclusion_changes(diagnosis: Diagnosis) -> str:
    """The largest changes of inclusion probabilities."""
    predictive = not np.isnan(diagnosis.predictive_inclusion).all()
    values = np.nan_to_num(diagnosis.influence(predictive).to_numpy())
    order = np.argsort(-np.abs(values), axis=None, kind="stable")[:_MOST_CHANGES]
    labels = [in_quotes(left.environment) for left in diagnosis.left_out]
    each = [
        f"{printable(diagnosis.feature_names[j])} {values[e, j]:+.2f} without {labels[e]}"
        for e, j in zip(*np.unravel_index(order, values.shape), strict=True)
        if abs(values[e, j]) >= _LEAST_CHANGE
    ]
    kind = "predictive" if predictive else "paper's"
    if not each:
        return f"No inclusion probability ({kind} posterior) changes by {_LEAST_CHANGE:g} or more."
    return f"Inclusion probabilities ({kind} posterior) that change most: {'; '.join(each)}."


def _small_environments(diagnosis: Diagnosis) -> Iterator[str]:
    sites = diagnosis.sites
    p = len(diagnosis.feature_names)
    yield (
        f"Subsets hold at most {sites.largest} of {p} features: a fit needs two rows more than "
        "columns that vary, in "
        "every environment."
    )
    for label, largest in sorted(sites.without.items(), key=lambda item: -item[1]):
        if largest > sites.largest:
            yield f"Without {in_quotes(label)} they may hold {largest}."
    if sites.enough_rows is not None:
        small = [test.rows for test in diagnosis.tests if test.rows < sites.enough_rows]
        left_out = f"{len(small)} of {diagnosis.n_environments} environments ({sum(small):,} rows)"
        yield Message(f"Without {left_out} they may hold all {p}", use(min_rows=sites.enough_rows))
