"""Which environment breaks the invariance of a subset, what each of them does to the result, and what would help."""

from __future__ import annotations

import html
import json
import math
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask
from .._tools.files import write_text
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.text import COLUMNS, display_width, format_subset, name_labels, printable, wrap
from ..data.checks import largest_size
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, EngineError, FileError, SettingError
from ..inference.enumeration import Enumeration
from ..models.base import BASELINE, DISPERSION, INTERCEPT, SLOPES, VARIANCE
from ..models.gaussian import GaussianModel
from ..models.invariance_test import Tolerance
from ..models.regression import RegressionModel
from ..moments.moments import Moments
from ..posterior.posterior import Judge, Posterior
from .environments import Broken, Compared, ComparedEnvironments, Deviation, comparable, most_deviating
from .roles import compatible_subsets
from .rules import Findings
from .search import Search

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from .environments import EnvironmentTest


@dataclass(frozen=True, eq=False)
class Refit:
    """The fit without one environment.

    inclusion, predictive_inclusion : (p,) of the posterior and of the predictive posterior; NaN for features that are
        constant without the environment, and of the latter where no subset is compatible
    selected : the features that the rule of the fit selects; None where no subset is compatible with invariance
    best : the best compatible one, if there is one; best_r2, best_p_invariant: of it, without the environment
    p_against_best : p-value of the environment against the others, in the fit of `best`
    """

    inclusion: Floats
    predictive_inclusion: Floats
    selected: tuple[str, ...] | None = None
    best: tuple[str, ...] | None = None
    best_r2: float = float("nan")
    best_p_invariant: float = float("nan")
    p_against_best: float = float("nan")


@dataclass(frozen=True, eq=False)
class LeftOut:
    """p_invariant, r2 : of the diagnosed subset in all other environments, NaN where these alone cannot be fitted;
    refit : None where none was made"""

    environment: Hashable
    p_invariant: float
    r2: float
    refit: Refit | None


class LeavingOut:
    """Fits without one environment each; of a subset (p,), its evidence."""

    def __init__(self, search: Search, findings: Findings, compared: Compared, mask: Mask) -> None:
        self._search, self._findings, self._mask, self._compared = search, findings, mask, compared
        self._names = np.array(compared.model.feature_names, dtype=object)

    def each(self, refit: bool, progress: ProgressMode) -> tuple[LeftOut, ...]:
        return tuple(self._each(refit, progress))

    def _each(self, refit: bool, progress: ProgressMode) -> Iterator[LeftOut]:
        labels = self._compared.moments.environments
        with ProgressBar("without each environment", len(labels), progress) as bar, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for e, label in enumerate(labels):
                bar.advance(0, str(label))
                try:
                    left = self._without(e, refit)
                except (DataError, EngineError):
                    left = LeftOut(label, np.nan, np.nan, None)
                yield left
                bar.advance()

    def _without(self, e: int, refit: bool) -> LeftOut:
        labels = self._compared.moments.environments
        source = self._source if refit else self._narrow_source
        data = source.choosing([label for other, label in enumerate(labels) if other != e])
        findings = self._search.findings(data, False) if refit else None
        model = self._search.family.bind(data) if findings is None else findings.target.model
        evidence = Judge(model, self._search.tolerance).evidence(self._over(model.feature_names)[None]).one()
        return LeftOut(
            labels[e],
            evidence.p_invariant,
            evidence.r2,
            None if findings is None else self._described(e, findings),
        )

    @cached_property
    def _source(self) -> MultiEnvironmentData | Moments:
        return self._compared.moments if self._compared.rows is None else self._compared.rows

    @cached_property
    def _narrow_source(self) -> MultiEnvironmentData | Moments:
        """With the features of the subset alone, and one that varies in most environments, so that one is left."""
        moments = self._compared.moments
        kept = self._mask.copy()
        kept[np.argmax((moments.varying_widths[:-1] > 0).sum(axis=0))] = True
        if self._compared.rows is not None:
            return self._compared.rows.narrowed(kept)
        return moments.of_columns((*moments.features.chosen(kept).columns, moments.outcome_name))

    def _described(self, e: int, findings: Findings) -> Refit:
        predictive = findings.predictive
        inclusion = self._inclusion(findings.posterior), self._inclusion(predictive)
        if predictive is None:
            return Refit(*inclusion)
        evidence = findings.judge.evidence(predictive.mode_mask[None]).one()
        selected = np.array(predictive.feature_names, dtype=object)[self._search.rule.select(findings)]
        tested = self._compared.tests(np.isin(self._names, predictive.mode)).against_the_rest(e).deviation
        p_against = np.nan if tested is None else tested.p_value
        figures = evidence.r2, evidence.p_invariant, p_against
        return Refit(*inclusion, tuple(selected), predictive.mode, *figures)

    def _inclusion(self, posterior: Posterior | None) -> Floats:
        """(p,) over the features of the whole data"""
        values = np.full(len(self._names), np.nan)
        if posterior is not None:
            values[np.isin(self._names, posterior.feature_names)] = posterior.inclusion
        return values

    def _over(self, names: tuple[str, ...]) -> Mask:
        """The subset among the features that are left"""
        return np.isin(np.array(names, dtype=object), self._names[self._mask])


SHIFT = 2.0
_MOST_SUBSETS = 10
# Of the first one's probability, in what a subset must have to count as leading.
_LEADING = 0.01
# Share of the noise's standard deviation by which predictions must come apart to be worth an experiment.
_VISIBLE = 0.1


@dataclass(frozen=True, eq=False)
class Leading:
    """subsets: names of k subsets; probabilities (k,); changes (k, p): how much each expects the outcome to change when
    a feature alone is moved by two standard deviations and all others stay; noise: standard deviation of the outcome
    around the pooled fit of the first."""

    subsets: tuple[tuple[str, ...], ...]
    probabilities: Floats
    changes: Floats
    noise: float


@dataclass(frozen=True)
class Experiment:
    """Moving a feature alone: by how much the leading subsets' predictions then disagree (their standard deviation,
    weighted by probability, in units of the outcome), and the subset and change at either end."""

    feature: str
    disagreement: float
    lowest: tuple[tuple[str, ...], float]
    highest: tuple[tuple[str, ...], float]


def leading_subsets(model: GaussianModel | RegressionModel, posterior: Posterior) -> Leading:
    """The most probable subsets of a posterior, each with at least a hundredth of the first one's probability."""
    log_probabilities = posterior.log_probabilities[:_MOST_SUBSETS]
    kept = np.flatnonzero(log_probabilities >= log_probabilities[0] + np.log(_LEADING))
    masks, probabilities = posterior.masks[kept], np.exp(log_probabilities[kept])
    names = np.array(posterior.feature_names, dtype=object)
    changes = np.array([_feature_changes(model, mask) for mask in masks])
    return Leading(tuple(tuple(names[mask]) for mask in masks), probabilities, changes, _noise(model, masks[0]))


def _noise(model: GaussianModel | RegressionModel, mask: Mask) -> float:
    if isinstance(model, RegressionModel):
        data = model.data
        return float(np.std(data.y - model.fit(mask, local=False).predict(data.X[:, data.features.expand(mask)])))
    residuals = model.residuals(mask[None])
    return float(np.sqrt(residuals.rss[0, -1] / residuals.freedom[0, -1]))


def _feature_changes(model: GaussianModel | RegressionModel, mask: Mask) -> Floats:
    """(p,) expected change of the outcome per shift, from a row in the middle of all; of a feature of several columns,
    its size when these move together as they vary."""
    features, fit = model.features, model.fit(mask, local=False)
    coefficients = np.zeros(features.n_columns)
    coefficients[features.expand(mask)] = fit.coefficients
    middle = 0.0
    if isinstance(model, RegressionModel):
        middle = fit.intercept + float(model.data.X.mean(axis=0) @ coefficients)
    changes = np.zeros(features.n_features)
    for j in np.flatnonzero(mask):
        own = np.arange(features.starts[j], features.starts[j + 1])
        size = np.sqrt(coefficients[own] @ _covariance(model, own) @ coefficients[own])
        moved = SHIFT * (np.copysign(size, coefficients[own[0]]) if len(own) == 1 else size)
        changes[j] = float(np.diff(fit.mean(np.array([middle, middle + moved])))[0])
    return changes


def _covariance(model: GaussianModel | RegressionModel, columns: NDArray[np.intp]) -> Floats:
    """Over all rows, of columns of the features."""
    if model.rows is not None and (isinstance(model, RegressionModel) or not model.moments.scatter.size):
        return np.atleast_2d(np.cov(model.rows.X[:, columns], rowvar=False, bias=True))
    assert not isinstance(model, RegressionModel)
    places = model.moments.feature_columns[columns]
    return model.moments.scatter[-1][np.ix_(places, places)] / model.moments.n_rows


def experiments(leading: Leading, names: tuple[str, ...]) -> tuple[Experiment, ...]:
    """Features by how much moving them tells the leading subsets apart, the best first; those that would not are left
    out."""
    if len(leading.subsets) < 2:
        return ()
    weights = leading.probabilities / leading.probabilities.sum()
    spread = np.sqrt(weights @ (leading.changes - weights @ leading.changes) ** 2)
    order = np.argsort(-spread, kind="stable")
    return tuple(
        _experiment(leading, names[j], int(j), float(spread[j])) for j in order if spread[j] > _VISIBLE * leading.noise
    )


def _experiment(leading: Leading, name: str, j: int, disagreement: float) -> Experiment:
    low, high = int(np.argmin(leading.changes[:, j])), int(np.argmax(leading.changes[:, j]))
    ends = [(leading.subsets[k], float(leading.changes[k, j])) for k in (low, high)]
    return Experiment(name, disagreement, ends[0], ends[1])


@dataclass(frozen=True)
class Site:
    """largest : most features of a subset that this environment has rows enough for; largest_without : if it were left
    out, by all others"""

    environment: Hashable
    rows: int
    largest: int
    largest_without: int


@dataclass(frozen=True)
class Sites:
    """largest : most features of a subset, out of n_features, that every environment has rows enough for
    enough_rows : fewest rows of an environment with which subsets may hold all features, if two environments or more
        have them
    """

    largest: int
    n_features: int
    each: tuple[Site, ...]
    enough_rows: int | None

    @property
    def capped(self) -> bool:
        return self.largest < self.n_features

    @property
    def costly(self) -> tuple[Site, ...]:
        """Environments without which subsets may be larger, the one that frees most first."""
        freeing = [site for site in self.each if site.largest_without > self.largest]
        return tuple(sorted(freeing, key=lambda site: (-site.largest_without, site.rows)))

    @property
    def binding(self) -> Site:
        """The one that subsets cannot be larger for."""
        return min(self.each, key=lambda site: (site.largest, site.rows))


def sites_of(moments: Moments) -> Sites:
    counts, widths = moments.counts, moments.varying_widths[:-1]
    everywhere = range(moments.n_environments)
    alone = [largest_size(counts[[e]], widths[[e]]) for e in everywhere]
    without = [largest_size(np.delete(counts, e), np.delete(widths, e, axis=0)) for e in everywhere]
    labels = moments.environments
    each = (Site(labels[e], int(counts[e]), alone[e], without[e]) for e in everywhere)
    return Sites(moments.largest_size, moments.n_features, tuple(each), _enough_rows(moments))


def _enough_rows(moments: Moments) -> int | None:
    for fewest in np.unique(moments.counts):
        kept = moments.counts >= fewest
        widths = moments.varying_widths[:-1][kept]
        if kept.sum() > 1 and largest_size(moments.counts[kept], widths) == moments.n_features:
            return int(fewest)
    return None


SURE, GAIN = 0.01, 0.02
LeaveOut = bool | Literal["auto"]


@dataclass(frozen=True, eq=False)
class Diagnosis(ComparedEnvironments):
    """What is known of the environments of a fit, for one subset; `print` it, or see `to_dict`.

    subset : names; p_invariant, r2 : of it, in all environments; NaN where it cannot be fitted to each of them, and
        then `unjudged` says why, in words
    tolerance : with the level that subsets had to reach: the weak one where none reaches the usual one
    whole : all environments against one common fit; tests : each against the others
    nothing_compatible : whether no subset at all is compatible with invariance, up to the tolerance
    alarm : whether the smallest p-value of an environment is below 0.05/E, or nothing is compatible
    named : the environment that breaks it, if there is an alarm: where nothing is compatible, the one without which
        the best subset is, else the one with the smallest p-value. None without an alarm, and of two environments.
    decisive : environments that alone speak against a subset that predicts better: no alarm, and good to know
    left_out : the fit without each environment, of three or more; refitted : whether whole fits were made for it
    inclusion, predictive_inclusion : (p,) of the fit to all environments, the latter NaN if nothing is compatible
    leading, experiments : the most probable compatible subsets, and which features to move to tell them apart
    sites : what small environments cost
    allowed : that the prior rules subsets out, in words, where it does
    judged_by : the tolerance in words; parts : in what environments are compared
    """

    feature_names: tuple[str, ...]
    p_invariant: float
    r2: float
    unjudged: str
    tolerance: Tolerance
    whole: Deviation | None
    nothing_compatible: bool
    left_out: tuple[LeftOut, ...]
    refitted: bool
    inclusion: Floats
    predictive_inclusion: Floats
    leading: Leading
    experiments: tuple[Experiment, ...]
    sites: Sites
    judged_by: str
    allowed: str

    @property
    def worst(self) -> Broken | None:
        """The environment with the smallest p-value."""
        return most_deviating(self.tests)

    @property
    def stands_out(self) -> bool:
        """Whether some environment's p-value is below the threshold."""
        return self.worst is not None and self.worst.p_value < self.threshold

    @property
    def alarm(self) -> bool:
        return self.nothing_compatible or self.stands_out

    @property
    def freed_by(self) -> LeftOut | None:
        """Where nothing is compatible: the environment without which the best subset is, if that predicts anything and
        the environment is at odds with it."""
        if not self.nothing_compatible:
            return None
        freeing = [left for left in self.left_out if _best_r2(left) > GAIN and self._at_odds(left)]
        return max(freeing, key=_best_r2, default=None)

    @property
    def decisive(self) -> tuple[LeftOut, ...]:
        """Where some subset is compatible: environments without which one that predicts better than the diagnosed one
        is, the largest gain first. Such an environment either acts on the outcome, or alone unmasks a feature."""
        if self.nothing_compatible:
            return ()
        better = [left for left in self.left_out if _best_r2(left) - left.r2 > GAIN and self._at_odds(left)]
        return tuple(sorted(better, key=lambda left: left.r2 - _best_r2(left)))

    def _at_odds(self, left: LeftOut) -> bool:
        """Whether an environment is unlike the others in the fit of the best subset without it."""
        return left.refit is not None and left.refit.p_against_best < SURE / self.n_environments

    @property
    def named(self) -> Hashable | None:
        if not self.alarm:
            return None
        if self.freed_by is not None:
            return self.freed_by.environment
        return None if self.worst is None else self.worst.environment

    def influence(self, predictive: bool = True) -> pd.DataFrame:
        """Change of each inclusion probability when an environment is left out: environments × features.

        Of the predictive posterior, or of the paper's. NaN where it is not known.
        """
        import pandas as pd

        whole = self.predictive_inclusion if predictive else self.inclusion
        changes = {
            left.environment: (left.refit.predictive_inclusion if predictive else left.refit.inclusion) - whole
            for left in self.left_out
            if left.refit is not None
        }
        return pd.DataFrame.from_dict(changes, orient="index", columns=list(self.feature_names))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars of −log₁₀ p for each environment and part."""
        from .plots import plot_environments

        return plot_environments(self, ax)

    def __str__(self) -> str:
        pass

        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        pass

        return as_html(self)

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON can hold."""
        pass

        return as_plain(self)

    def to_json(self, path: str | Path) -> None:
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False)
        try:
            write_text(Path(path).expanduser(), text + "\n")
        except OSError as error:
            raise FileError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def _best_r2(left: LeftOut) -> float:
    return -np.inf if left.refit is None else left.refit.best_r2


def diagnose(
    search: Search, findings: Findings, mask: Mask, leave_out: LeaveOut = "auto", progress: ProgressMode = "auto"
) -> Diagnosis:
    """The diagnosis of a subset (p,). leave_out: whether to fit again without each environment; "auto" does where all
    subsets are scored, and otherwise judges the subset alone."""
    if leave_out not in (True, False, "auto"):
        raise SettingError(f"leave_out={leave_out!r} is not known: use True, False or 'auto'.")
    compared, posterior = comparable(findings.target.model), findings.posterior
    model = compared.model
    tests, predictive = compared.tests(mask), findings.predictive
    evidence = findings.judge.evidence(mask[None]).one()
    refit = isinstance(findings.engine, Enumeration) if leave_out == "auto" else leave_out
    enough, accepted = compared.n_environments > 2, compatible_subsets(findings).accepted
    leading = leading_subsets(model, posterior if predictive is None else predictive)
    return Diagnosis(
        subset=tuple(_names(model.feature_names, mask)),
        outcome_name=posterior.outcome_name,
        feature_names=model.feature_names,
        p_invariant=evidence.p_invariant,
        r2=evidence.r2,
        unjudged=_why_unjudged(findings, mask),
        tolerance=accepted,
        whole=tests.all_environments(),
        tests=tests.each(),
        nothing_compatible=predictive is None,
        left_out=LeavingOut(search, findings, compared, mask).each(refit, progress) if enough else (),
        refitted=refit and enough,
        inclusion=posterior.inclusion,
        predictive_inclusion=np.full(len(mask), np.nan) if predictive is None else predictive.inclusion,
        leading=leading,
        experiments=experiments(leading, model.feature_names),
        sites=sites_of(compared.moments),
        judged_by=compared.asked.judged_by(accepted),
        allowed=findings.allowed,
        parts=compared.asked.compares,
    )


def _why_unjudged(findings: Findings, mask: Mask) -> str:
    """Why a subset (p,) is outside the support; empty where it is inside."""
    outside = findings.judge.model.unsupported(mask[None])
    return "; ".join(outside.reasons) if outside.count else ""


def _names(names: tuple[str, ...], mask: Mask) -> Iterator[str]:
    return (name for name, flag in zip(names, mask, strict=True) if flag)


def as_plain(diagnosis: Diagnosis) -> dict[str, Any]:
    named = diagnosis.named
    return {
        "outcome": diagnosis.outcome_name,
        "subset": list(diagnosis.subset),
        "alarm": diagnosis.alarm,
        "named": None if named is None else _label(named),
        "decisive": [_label(left.environment) for left in diagnosis.decisive],
        "threshold": diagnosis.threshold,
        "nothing_compatible": diagnosis.nothing_compatible,
        "p_invariant": _plain(diagnosis.p_invariant),
        "r2": _plain(diagnosis.r2),
        "unjudged": diagnosis.unjudged or None,
        "tolerance": _plain(diagnosis.tolerance),
        "all_environments": _plain(diagnosis.whole),
        "environments": [
            {"environment": _label(test.environment), "rows": test.rows, "against_the_rest": _plain(test.deviation)}
            for test in diagnosis.tests
        ],
        "features": list(diagnosis.feature_names),
        "inclusion": _plain(diagnosis.inclusion),
        "predictive_inclusion": _plain(diagnosis.predictive_inclusion),
        "left_out": [
            {
                "environment": _label(left.environment),
                "p_invariant": _plain(left.p_invariant),
                "r2": _plain(left.r2),
                "refit": _plain(left.refit),
            }
            for left in diagnosis.left_out
        ],
        "leading_subsets": _plain(diagnosis.leading),
        "experiments": _plain(diagnosis.experiments),
        "sites": {
            "largest_subset": diagnosis.sites.largest,
            "largest_without": {_label(site.environment): site.largest_without for site in diagnosis.sites.each},
        },
    }


def _label(label: Hashable) -> str:
    return str(label)


def _plain(value: Any) -> Any:
    """Numbers, text, lists and dictionaries; None for what is not a finite number."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


_DIFFER = {
    INTERCEPT: "the intercept differs",
    SLOPES: "the slopes differ",
    VARIANCE: "the noise's variance differs",
    DISPERSION: "the dispersion differs",
    BASELINE: "the shape of the baseline hazard differs",
}
_PLURAL = {part: part if part == SLOPES else f"{part}s" for part in _DIFFER}
_LONGEST_LABEL = 20
# Of the table of fits without an environment: the columns between its label and the subset.
_FIGURES = 22
_MOST_CHANGES = 5
_MOST_EXPERIMENTS = 3
_MOST_DECISIVE = 2
_LEAST_CHANGE = 0.1
T_BY_ENVIRONMENT = "T = −2 log Λ by environment"
NOT_REFITTED = "No fit was made again: with leave_out=True all is selected anew without each environment."


@dataclass(frozen=True)
class DiagnosisSection:
    """A title, sentences, and a table (its first row the head) whose first column is text and the others numbers, as
    `text_columns` says of further ones."""

    title: str
    sentences: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()
    text_columns: tuple[int, ...] = (0,)


def as_text(diagnosis: Diagnosis, worded: Callable[[str], str] = str) -> str:
    """worded: what to make of a sentence that may name a remedy"""
    return text_of(sections(diagnosis), worded)


def as_html(diagnosis: Diagnosis) -> str:
    return html_of(sections(diagnosis))


def text_of(told: Iterable[DiagnosisSection], worded: Callable[[str], str] = str) -> str:
    return "\n\n".join("\n".join(section_lines(section, worded)) for section in told)


def html_of(told: Iterable[DiagnosisSection]) -> str:
    return "<div>" + "".join(map(section_html, told)) + "</div>"


def format_p(p_value: float | None) -> str:
    """Two digits; "–" where nothing was tested."""
    if p_value is None or np.isnan(p_value):
        return "–"
    return "<1e-300" if p_value < 1e-300 else f"{p_value:.2g}" if p_value < 0.001 else f"{p_value:.3f}"


def format_r2(value: float, digits: int = 3) -> str:
    """So many digits, without the sign of what rounds to 0; "–" where nothing could be fitted."""
    return "–" if np.isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}"


def sections(diagnosis: Diagnosis) -> Iterator[DiagnosisSection]:
    title = f"Environments of {printable(diagnosis.outcome_name)} given {format_subset(diagnosis.subset)}"
    yield DiagnosisSection(title, tuple(_verdict(diagnosis)))
    yield _tests(diagnosis)
    if diagnosis.left_out:
        yield _without_each(diagnosis)
    yield DiagnosisSection("What would tell the leading subsets apart", tuple(_experiments(diagnosis)))
    if diagnosis.sites.capped:
        yield DiagnosisSection("Small environments", tuple(_sites(diagnosis)))


def _verdict(diagnosis: Diagnosis) -> Iterator[str]:
    worst, n, subset = diagnosis.worst, diagnosis.n_environments, format_subset(diagnosis.subset)
    tested = "invariance" if diagnosis.judged_by.startswith("exact") else "approximate invariance"
    judged = f"p-value of {tested} {format_p(diagnosis.p_invariant)}, {diagnosis.judged_by}"
    if diagnosis.nothing_compatible:
        yield f"No subset of the features{diagnosis.allowed} is compatible with invariance ({diagnosis.judged_by})."
    if worst is None:
        undecided = diagnosis.unjudged or "fits to their rows cannot be decided"
        yield f"The environments cannot be compared given {subset}: {undecided}."
        return
    freed = diagnosis.freed_by
    refit = None if freed is None else freed.refit
    if refit is not None and refit.best is not None:
        yield (
            f"Environment {diagnosis.named!r} breaks it: without it {format_subset(refit.best)} predicts "
            f"{printable(diagnosis.outcome_name)} alike in the other {n - 1} (p-value of {tested} "
            f"{format_p(refit.best_p_invariant)}, R² {format_r2(refit.best_r2, 2)}), and it is at odds with them "
            f"(p-value {format_p(refit.p_against_best)})."
        )
    elif diagnosis.stands_out:
        told = f"p-value {format_p(worst.p_value)}, below {diagnosis.threshold:.2g}"
        if worst.environment is None:
            yield f"Given {subset}, the two environments differ: {_DIFFER[worst.part]} most ({told})."
        else:
            where = f"environment {worst.environment!r} is unlike the others"
            yield f"Given {subset}, {where}: {_DIFFER[worst.part]} most ({told})."
    else:
        smallest = "" if worst.environment is None else f", that of {worst.environment!r},"
        yield (
            f"No environment stands out given {subset}: the smallest p-value{smallest} is "
            f"{format_p(worst.p_value)}, not below {diagnosis.threshold:.2g}."
        )
    if diagnosis.unjudged:
        yield f"Whether {subset} is compatible with invariance cannot be judged: {diagnosis.unjudged}."
    elif not diagnosis.nothing_compatible:
        compatible = diagnosis.p_invariant >= diagnosis.tolerance.level
        yield f"The subset is {'' if compatible else 'not '}compatible with invariance ({judged})."
    for left in diagnosis.decisive[:_MOST_DECISIVE]:
        if left.refit is not None and left.refit.best is not None:
            yield (
                f"Without {left.environment!r} {format_subset(left.refit.best)} is compatible and predicts better (R² "
                f"{format_r2(left.refit.best_r2, 2)} instead of {format_r2(left.r2, 2)}); this environment alone "
                "speaks against it."
            )
    if diagnosis.named is not None or diagnosis.decisive:
        yield (
            "Nothing was left out: an environment may be unlike the others because it acts on the outcome itself, or "
            "because it alone shows what is not invariant."
        )


def _tests(diagnosis: Diagnosis) -> DiagnosisSection:
    head = ("rows", "T", "expected", "p-value", *diagnosis.parts)
    figures = [head, *(_figures(test, diagnosis.parts) for test in diagnosis.tests)]
    taken = sum(2 + max(map(display_width, column)) for column in zip(*figures, strict=True))
    width = min(_LONGEST_LABEL, COLUMNS - 2 - taken)
    labels = "environment", *name_labels([str(test.environment) for test in diagnosis.tests], width)
    rows = tuple((label, *row) for label, row in zip(labels, figures, strict=True))
    sentences = ["Each against the rows of all others together; the last columns are p-values of its parts."]
    found = [test.deviation for test in diagnosis.tests if test.deviation is not None]
    if any(deviation.p_value != deviation.p_gaussian for deviation in found):
        sentences.append("The p-value is that of the parts together, by Fisher's rule, not that of T.")
    if diagnosis.whole is not None:
        whole = diagnosis.whole
        shares = " + ".join(
            f"{_PLURAL[name]} {part.deviance:.1f} (p {format_p(part.p_value)})"
            for name, part in whole.parts.items()
            if name in diagnosis.parts
        )
        noise = " with normal noise" if VARIANCE in diagnosis.parts else ""
        sentences.append(
            f"All together: T = {whole.deviance:.1f} = {shares}; {whole.expected_deviance:.1f} ± "
            f"{whole.deviance_sd:.1f} is expected of an invariant subset{noise}."
        )
    return DiagnosisSection(T_BY_ENVIRONMENT, tuple(sentences), rows)


def _figures(test: EnvironmentTest, compared: tuple[str, ...]) -> tuple[str, ...]:
    found = test.deviation
    if found is None:
        return (f"{test.rows:,}", *["–"] * (3 + len(compared)))
    parts = (format_p(found.parts[name].p_value) for name in compared)
    deviance = f"{found.deviance:.1f}", f"{found.expected_deviance:.1f}"
    return f"{test.rows:,}", *deviance, format_p(found.p_value), *parts


def _without_each(diagnosis: Diagnosis) -> DiagnosisSection:
    labels = name_labels([str(left.environment) for left in diagnosis.left_out], _LONGEST_LABEL)
    head = ("without", "p_inv", "R²", *(("selected then",) if diagnosis.refitted else ()))
    width = COLUMNS - max(map(display_width, ("without", *labels))) - _FIGURES
    rows = [
        (
            label,
            format_p(left.p_invariant),
            format_r2(left.r2),
            *(_then(left.refit, width) if diagnosis.refitted else ()),
        )
        for label, left in zip(labels, diagnosis.left_out, strict=True)
    ]
    sentences = [f"p_inv and R² are of {format_subset(diagnosis.subset)} in the other environments."]
    if diagnosis.refitted:
        sentences += _described_changes(diagnosis)
    else:
        sentences.append(NOT_REFITTED)
    return DiagnosisSection("Without each environment", tuple(sentences), (head, *rows), (0, 3))


def _then(refit: Refit | None, width: int) -> tuple[str]:
    if refit is None:
        return ("cannot be fitted",)
    if refit.selected is None:
        return ("nothing compatible",)
    return (format_subset(refit.selected, width),)


def _described_changes(diagnosis: Diagnosis) -> Iterator[str]:
    """The largest changes of inclusion probabilities in one sentence."""
    predictive = not np.isnan(diagnosis.predictive_inclusion).all()
    values = np.nan_to_num(diagnosis.influence(predictive).to_numpy())
    kind = "predictive" if predictive else "paper's"
    order = np.argsort(-np.abs(values), axis=None, kind="stable")[:_MOST_CHANGES]
    told = [
        f"{printable(diagnosis.feature_names[j])} {values[e, j]:+.2f} without {diagnosis.left_out[e].environment!r}"
        for e, j in zip(*np.unravel_index(order, values.shape), strict=True)
        if abs(values[e, j]) >= _LEAST_CHANGE
    ]
    if told:
        yield f"Inclusion probabilities ({kind} posterior) that change most: {'; '.join(told)}."
    else:
        yield f"No inclusion probability ({kind} posterior) changes by {_LEAST_CHANGE:g} or more."


def _experiments(diagnosis: Diagnosis) -> Iterator[str]:
    kind = "most probable" if diagnosis.nothing_compatible else "leading compatible"
    n = len(diagnosis.leading.subsets)
    if n < 2:
        yield f"There is one {kind} subset only, {format_subset(diagnosis.leading.subsets[0])}."
        return
    if not diagnosis.experiments:
        yield f"No feature, moved alone by {SHIFT:g} standard deviations, would tell the {n} {kind} subsets apart."
        return
    for found in diagnosis.experiments[:_MOST_EXPERIMENTS]:
        (low, down), (high, up) = found.lowest, found.highest
        yield (
            f"Move {printable(found.feature)} alone by {SHIFT:g} standard deviations: what the {n} {kind} subsets then "
            f"predict scatters by {found.disagreement:.2g}, {found.disagreement / diagnosis.leading.noise:.1f} times "
            f"the noise, from {down:+.2g} by {format_subset(low)} to {up:+.2g} by {format_subset(high)}."
        )


def _sites(diagnosis: Diagnosis) -> Iterator[str]:
    sites, binding = diagnosis.sites, diagnosis.sites.binding
    yield (
        f"Subsets hold at most {sites.largest} of {sites.n_features} features: a fit needs two rows more than columns "
        f"that vary, in every environment, and {binding.environment!r} has {binding.rows}."
    )
    n_rows = sum(site.rows for site in sites.each)
    for site in sites.costly:
        yield (
            f"Without {site.environment!r} ({site.rows:,} of {n_rows:,} rows) they may hold {site.largest_without}; it "
            "can be left out or merged with a similar one."
        )
    if sites.enough_rows is not None:
        small = [site for site in sites.each if site.rows < sites.enough_rows]
        gone = sum(site.rows for site in small)
        yield (
            f"With min_rows={sites.enough_rows}, which leaves out {len(small)} of {len(sites.each)} environments "
            f"({gone:,} of {n_rows:,} rows), they may hold all {sites.n_features}."
        )


def section_lines(section: DiagnosisSection, worded: Callable[[str], str] = str) -> Iterator[str]:
    yield from wrap(section.title)
    for sentence in section.sentences:
        yield from wrap(worded(sentence), "  ", "  ")
    if not section.table:
        return
    yield ""
    widths = [max(map(display_width, column)) for column in zip(*section.table, strict=True)]
    for row in section.table:
        cells = [
            _padded(cell, width, j in section.text_columns)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield ("  " + "  ".join(cells)).rstrip()


def _padded(cell: str, width: int, left: bool) -> str:
    blanks = " " * (width - display_width(cell))
    return cell + blanks if left else blanks + cell


def section_html(section: DiagnosisSection) -> str:
    parts = [f"<h4>{html.escape(section.title)}</h4>"]
    parts += [f"<p>{html.escape(sentence)}</p>" for sentence in section.sentences]
    if section.table:
        head, *rows = section.table
        parts += ["<table>", _html_row(head, "th", section.text_columns)]
        parts += [*(_html_row(row, "td", section.text_columns) for row in rows), "</table>"]
    return "".join(parts)


def _html_row(cells: Sequence[str], tag: str, text_columns: Sequence[int]) -> str:
    def cell(j: int, text: str) -> str:
        side = "left" if j in text_columns else "right"
        return f'<{tag} style="text-align:{side}">{html.escape(text)}</{tag}>'

    return "<tr>" + "".join(cell(j, text) for j, text in enumerate(cells)) + "</tr>"
