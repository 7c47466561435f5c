"""The methods of a result: settings, versions, code that reproduces it, and a paragraph."""

from __future__ import annotations

import inspect
import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from importlib.metadata import version
from itertools import accumulate
from pathlib import PurePath
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._tools.arrays import Fields, Names
from .._tools.text import format_count, in_series, printable
from .._version import __version__
from ..data.multi_environment import MultiEnvironmentData
from ..data.structure import Design
from ..decisions.decision import Decision, fallback
from ..decisions.diagnosis import Diagnosis
from ..decisions.effects import standard_errors_in_words
from ..decisions.levels import BaselineDifference
from ..inference.enumeration import Enumeration
from ..models.base import BASELINE, DISPERSION, INTERCEPT, SLOPES, VARIANCE, Level, kind_of, link_of
from ..models.free_baselines import FreeBaselineRandomDeviations, SharedNoise
from ..models.likelihood import ByLikelihood
from ..models.random_coefficients import too_small_for_free
from ..models.registry import Chosen
from ..moments.moments import Moments
from ..posterior.posterior import Posterior
from ..posterior.summary import format_percent, format_small_p_value
from ..prediction.all_features import shrinks
from .page import Block


@dataclass(frozen=True)
class Source:
    """Describe the origin of the rows.

    table : arguments of MultiEnvironmentData.from_table or Moments.from_rows
    command : as typed in a shell
    worded : how a sentence that may have remedies is written
    remark : on reading the rows again
    warned : warnings while they were read
    """

    table: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    worded: Callable[[str], str] = str
    remark: str = ""
    warned: Names = ()
    words_for_missing: Names = ()


@dataclass(frozen=True, eq=False)
class Subject:
    """Hold what a report is about.

    model : a fitted BIP; diagnosis : of the selected subset, or a sentence without one; comparison
        : of
    `invariance.compare`
    """

    model: Any
    source: Source = Source()
    diagnosis: Diagnosis | str = ""
    comparison: Any = None

    @property
    def decision(self) -> Decision:
        return self.model.decision_

    @property
    def posterior(self) -> Posterior:
        return self.decision.findings.posterior

    @property
    def data(self) -> MultiEnvironmentData | Moments:
        return self.model._data

    @property
    def family(self) -> Any:
        """Whoever chose it."""
        family = self.model._fit_settings.family
        return family.family if isinstance(family, Chosen) else family

    @property
    def settings(self) -> Fields:
        """{parameter: value} of those that matter for the result"""
        return {name: value for name, value in self.model._settings.items() if name != "progress"}

    @property
    def changed_settings(self) -> Fields:
        usual = _parameters(type(self.model))
        return {
            name: value
            for name, value in self.settings.items()
            if typed(value) not in (typed(usual.get(name)), _MEANT_BY_NONE.get(name))
        }


# Whose state cannot be typed: a name stands for them.
_GENERATORS = (
    np.random.Generator | np.random.BitGenerator | np.random.SeedSequence | np.random.RandomState
)
_LONGEST = 88
_MEANT_BY_NONE = {"prior": "UniformPrior()", "tolerance": "Tolerance()"}


def typed(value: Any, used: dict[str, str] | None = None) -> str:
    """Return a value as it is typed, of a specification only what differs from its defaults.

    used : receives {name: package} of imports
    """
    used = {} if used is None else used
    if isinstance(value, np.generic | np.ndarray):
        return typed(value.tolist(), used)
    if isinstance(value, list | tuple):
        items = ", ".join(typed(item, used) for item in value)
        return (
            f"[{items}]"
            if isinstance(value, list)
            else f"({items}{',' if len(value) == 1 else ''})"
        )
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(f"{typed(key, used)}: {typed(item, used)}" for key, item in value.items())
            + "}"
        )
    if isinstance(value, _GENERATORS):
        return "rng"
    if isinstance(value, PurePath):
        used["Path"] = "pathlib"
        return f"Path({str(value)!r})"
    written = re.sub(r"<(.*?) at 0x[0-9a-f]+>", r"<\1>", repr(value))
    name = written.partition("(")[0]
    if type(value).__module__ == "builtins" or not name.isidentifier():
        return written
    # The outermost package that has the name
    packages = list(accumulate(type(value).__module__.split("."), "{}.{}".format))
    used[name] = next(
        (package for package in packages if hasattr(sys.modules.get(package), name)), packages[-1]
    )
    # A spline is written as a call of spline().
    if name != type(value).__name__ or not (
        is_dataclass(value) or isinstance(value, BaseEstimator)
    ):
        return written
    usual = _parameters(type(value))
    if is_dataclass(value):
        usual |= {
            each.name: each.default_factory()
            for each in fields(value)
            if each.default_factory is not MISSING
        }
    given = {key: getattr(value, key) for key in usual}
    return _call(
        name,
        {key: typed(item, used) for key, item in given.items() if typed(item) != typed(usual[key])},
    )


def _parameters(kind: type) -> Fields:
    """{parameter: default}"""
    return {
        name: parameter.default for name, parameter in inspect.signature(kind).parameters.items()
    }


def python_lines(model: Any, source: Source) -> str:
    """Return a script that reproduces a fitted BIP if the source of the rows is known, else the fit
    alone."""
    subject = Subject(model, source)
    table = source.table
    used = {type(model).__name__: "invariance"}
    lines = [f"# {source.remark}"] if source.remark else []
    if table:
        moments = isinstance(subject.data, Moments)
        name, reader = (
            ("moments", Moments.from_rows) if moments else ("data", MultiEnvironmentData.from_table)
        )
        used[type(subject.data).__name__] = "invariance"
        read = {key: typed(value, used) for key, value in table.items()}
        lines.append(f"{name} = {_call(reader.__qualname__, read, _LONGEST)}")
    settings = {key: typed(value, used) for key, value in subject.changed_settings.items()}
    estimator = _call(type(model).__name__, settings, _LONGEST)
    lines.append(f"model = {estimator}.fit({', '.join(_arguments_of_fit(subject))})")
    imports = [
        f"from {package} import {', '.join(sorted(name for name in used if used[name] == package))}"
        for package in sorted(
            set(used.values()), key=lambda package: (package.startswith("invariance"), package)
        )
    ]
    return "\n".join([*imports, "", *lines, "print(model.summary())", ""])


def _arguments_of_fit(subject: Subject) -> list[str]:
    data = subject.data
    if isinstance(data, Moments):
        return ["moments"]
    if subject.model._by_name:
        return ["data"]
    columns = subject.settings.get("columns")
    by_column = columns is not None and columns.environment is not None
    labels = [] if by_column or data.n_environments == 1 else ["environments=environments"]
    weighted = data.weights is not None and (columns is None or columns.weights is None)
    return [
        "X",
        "y",
        *labels,
        *(f"{r}={r}" for r in (*data.outcome_columns, *["sample_weight"] * weighted)),
    ]


def _call(name: str, arguments: Mapping[str, str], longest: int = sys.maxsize) -> str:
    """Return a call on one line, or with an argument on each line if it is long."""
    written = [f"{key}={text}" for key, text in arguments.items()]
    line = f"{name}({', '.join(written)})"
    return (
        line
        if len(line) <= longest
        else f"{name}(\n" + "".join(f"    {each},\n" for each in written) + ")"
    )


CITATION = (
    "Wu L, Yin M, Wang Y, Cunningham JP, Blei DM. Bayesian Invariance Modeling of "
    "Multi-Environment Data. "
    "arXiv:2506.22675, 2025"
)
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib")
_PARTS = {
    INTERCEPT: "the intercept",
    SLOPES: "the coefficients",
    VARIANCE: "the variance of the noise",
    DISPERSION: "the dispersion",
    BASELINE: "the baseline hazard",
}


def methods_paragraph(subject: Subject) -> str:
    """Return the methods of a fit in words, for a paper."""
    return " ".join(filter(None, _paragraph(subject)))


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def reproduction_blocks(subject: Subject) -> Iterator[Block]:
    """Settings that are not as by default stand in the lines."""
    versions = {"invariance": __version__, "Python": platform.python_version()}
    versions |= {package: version(package) for package in _PACKAGES}
    yield Block("Versions", facts=list(versions.items()))
    shell = [("In a shell", subject.source.command)] if subject.source.command else []
    yield Block(
        "To make it again",
        code=[*shell, ("In Python", python_lines(subject.model, subject.source))],
    )


def _seed(subject: Subject) -> str:
    seed = typed(subject.settings.get("random_state"))
    told = {"None": "none was given", "rng": "a generator of numpy"}.get(seed, seed)
    by_chance = not isinstance(subject.decision.findings.engine, Enumeration)
    return f"Random seed: {told}." if by_chance else "No random numbers were used."


_RIDGE = "ridge regression, its penalty chosen by the error in environments left out"


def _paragraph(subject: Subject) -> Iterator[str]:
    decision = subject.decision
    posterior = subject.posterior
    family = subject.family
    model = decision.findings.target.model
    n = posterior.n_environments
    where = f"in {n:,} environment{'' if n == 1 else 's'}"
    where = where if decision.components is None else f"{decision.components.design.everywhere},"
    yield (
        "Bayesian invariant prediction (Wu et al., 2025), as implemented in the Python package "
        "invariance, version "
        f"{__version__}, was used to find which of {_count(posterior.n_features, 'feature')} "
        "predict "
        f"{printable(posterior.outcome_name)} in the same way {where} with "
        f"{int(posterior.counts.sum()):,} rows in all "
        f"({_fewest(posterior)})."
    )
    linked = (
        f", by maximum likelihood with the {link_of(family)} link"
        if isinstance(family, ByLikelihood)
        else ""
    )
    weights = "" if subject.data.weights is None else f" {subject.data.weights}"
    yield (f"{_missing(subject)}{weights} The model of the outcome is {posterior.model}{linked}.")
    same = in_series(_PARTS.get(part, part) for part in model.compares)
    yield f"A subset z of the features is invariant when, given z, {same} are the same everywhere."
    yield from _score(subject)
    reward = getattr(family, "prediction", 0.0)
    rewarded = f", with a reward of {reward:g} for subsets that predict well," if reward else ""
    yield (
        f"The posterior is p(z | data) ∝ p(z) Λ(z){rewarded} over "
        f"{format_count(posterior.n_subsets)} subsets; "
        f"the prior p(z) is {posterior.prior}, and the computation was by {posterior.engine}."
    )
    if n > 1:
        judged = "; ".join([model.judged_by(decision.accepted), *_tolerated(subject)])
        yield (
            f"Subsets count as compatible with invariance by this software's test of it: {judged}."
        )
        yield from _free_baselines(subject)
    yield f"The features were selected by the rule {decision.rule_says}."
    if getattr(decision.rule, "by_prediction", False):
        yield (
            "A feature is selected only if it raises twice the log-likelihood by at least "
            f"{decision.findings.score.price:.1f} for each of its columns."
        )
    if n > 1 and not decision.compatible.n:
        yield f"As no subset was compatible, the selection is {fallback(decision)}."
    predictions = decision.predictions
    yield f"Predictions are made with {subject.source.worded(decision.predictor_in_words)}"
    if not np.isnan(predictions.choice.ratio) and decision.predict_with == "auto":
        yield (
            "Each environment was left out of both fits in turn, the selection as it is; the "
            "selected features predict "
            "where the largest error of all features is more than "
            f"{predictions.choice.threshold:.2f} times theirs."
        )
    kind = predictions.resolved(decision.predict_with)
    if kind == "everything" and predictions.regressor is None and predictions.selection.linear:
        usual = (
            "the average of pooled least squares and of least squares with a random intercept "
            "of each environment"
        )
        yield f"All features predict by {_RIDGE if shrinks(subject.data) else usual}."
    if (
        kind == "selected"
        and predictions.regressor is None
        and decision.findings.level is not Level.full
    ):
        line = "the fit with common coefficients and the mean baseline"
        if predictions.selection.linear:
            line = "least squares with a random intercept of each environment"
        yield f"The selected features predict by {line}."
    if predictions.regressor is not None:
        yield f"What predicts is fitted by {typed(predictions.regressor)}."
    if decision.selected:
        errors = standard_errors_in_words(decision)
        by = f"Intervals of effects are at 95%, by {errors}, and take the selection as given."
        yield by if errors else "This model gives no intervals of effects."
    if n > 1:
        moments = isinstance(subject.data, Moments)
        errors = (
            "standard errors of normal noise"
            if moments
            else "robust standard errors (sandwich, DeLong)"
        )
        yield f"Intervals in environments left out are at 95%, by {errors}, rows as independent."
    yield f"{_seed(subject)} Reference: {CITATION}."


def _fewest(posterior: Posterior) -> str:
    low = int(posterior.counts.min())
    high = int(posterior.counts.max())
    return f"{low:,} in each" if low == high else f"{low:,} to {high:,} in each"


def _missing(subject: Subject) -> str:
    """Return how missing values were treated."""
    data = subject.data
    rows = sum(data.dropped_rows.values())
    columns = len(data.constants)
    told = "No row was left out for missing values."
    if rows:
        total = rows + int(data.counts.sum())
        told = (
            f"Rows with missing values were left out: {rows:,} of {total:,} ({rows / total:.1%})."
        )
    levels = () if data.encoding is None else sorted(data.encoding.with_missing)
    told += f" Missing values of {', '.join(levels)} are a level of their own." if levels else ""
    changed = [] if data.encoding is None else [*data.encoding.mending.notes]
    words = subject.source.words_for_missing
    if words:
        verb = "count" if len(words) > 1 else "counts"
        changed.append(f"{in_series(map(repr, words))} {verb} as missing in all columns.")
    changed += data.environment_notes
    told = " ".join([told, *(note[:1].upper() + note[1:] for note in changed)])
    return f"{told} Left out as constant: {_count(columns, 'column')}." if columns else told


def _score(subject: Subject) -> Iterator[str]:
    family = subject.family
    kind = type(subject.family).__name__
    if kind == "BayesianLinearGaussian":
        yield (
            "Λ(z) is the Bayes factor of one regression on z for all environments against one of "
            "its own in each, "
            "coefficients and variances integrated over a conjugate prior. Whether environments "
            "differ is tested by "
            "the ratio of maximised likelihoods, without that prior."
        )
        return
    components = subject.decision.components
    if components is not None:
        yield from _design_score(components.design)
        return
    level = subject.decision.findings.level
    judge = subject.posterior.judge
    of_posterior = Level.full if judge is None else judge.model.level
    stratified = "" if of_posterior is Level.full else ", with a baseline of its own in each,"
    more = "" if of_posterior is level else "; it compares baselines, too"
    if getattr(family, "deviations", "") == "random":
        yield (
            "Λ(z) is the ratio of maximised likelihoods of one fit to the rows of all "
            "environments against one whose "
            "coefficients deviate at random between them, by one distribution, given z; whether "
            "they deviate is told "
            f"by a score test with its exact moments{more}. Deviations are random, not free: "
            f"{too_small_for_free(subject.data) or 'this was asked for'}."
        )
        if not isinstance(subject.data, Moments):
            yield "The spread of the noise is compared by Levene's test, of absolute residuals."
        return
    yield (
        "Λ(z) is the ratio of maximised likelihoods of one fit to the rows of all "
        f"environments{stratified} against "
        f"separate fits to those of each, given z{more}."
    )
    if kind == "Additive":
        yield "Numeric features enter by smooth curves that are fitted to all rows."
    if getattr(family, "invariance", "") == "mean":
        yield "Each environment has a variance of its own."
    if weight := getattr(family, "pseudo_rows", 0.0):
        place = kind_of(family).pseudo_data
        yield (
            f"Each environment also has pseudo-data {place}, of weight {weight:g}, which keep "
            "its fits finite."
        )


def _design_score(design: Design) -> Iterator[str]:
    yield (
        "Λ(z) is the ratio of maximised likelihoods of one fit to all rows against one whose "
        "coefficients deviate "
        f"{design.compared}."
    )
    if design.factors:
        names = " and ".join(printable(factor.name) for factor in design.factors)
        yield f"Deviations by {names} are additive and tested by the F test."
    if design.variable is not None:
        yield (
            f"Deviations along {printable(design.variable.column)} are random, of ten cosines of "
            "its ranks, and tested "
            "by a score statistic with a gamma law of its first three moments."
        )
        if design.variable.ar:
            yield (
                f"Noise is autoregressive of order {design.variable.ar}: rows were prewhitened "
                "for each subset."
            )
    yield "The spread of the noise is compared by the same tests of absolute residuals."


def _free_baselines(subject: Subject) -> Iterator[str]:
    """Yield how effects and baselines were compared, if each environment has its own baseline."""
    decision = subject.decision
    findings = subject.decision.findings
    if findings.level is Level.full:
        return
    asked = subject.settings.get("baseline") == "free"
    why = (
        "as was asked for"
        if asked
        else "because no subset was compatible where baselines had to be the same, too"
    )
    own = "baseline" if findings.level is Level.effects else "baseline and a variance of its noise"
    yield f"Each environment has its own {own}, {why}."
    strata = kind_of(subject.family).baselines
    model = findings.target.model
    by_f = isinstance(model, SharedNoise | FreeBaselineRandomDeviations)
    test = "F test" if by_f else "likelihood ratio test"
    compared = f"{test} of separate against common coefficients"
    if isinstance(model, FreeBaselineRandomDeviations):
        compared = "score test of deviations of coefficients"
    yield f"Effects: {compared}, given {strata} by environment."
    if decision.baseline is not None:
        yield (
            f"Baselines: {test} of {strata} by environment, given common coefficients; "
            f"{_spread(decision.baseline)}."
        )


def _spread(baseline: BaselineDifference) -> str:
    by = "by restricted maximum likelihood (REML)"
    size = (
        f", standard deviation between environments {baseline.size} {by}" if baseline.size else ""
    )
    return f"p-value {format_small_p_value(baseline.p_value)}{size}"


def _tolerated(subject: Subject) -> Iterator[str]:
    decision = subject.decision
    tolerance = decision.tolerance
    model = decision.findings.target.model
    if tolerance.rho:
        limit = (
            ", those of the selected subset by up to "
            f"{format_percent(decision.effective_tolerance)}"
            if decision.tolerates_less
            else ""
        )
        yield (
            "coefficients may differ between environments by up to "
            f"{format_percent(tolerance.rho)}{limit}"
        )
    if tolerance.tau and "tau" in model.judged:
        what = (
            "the noise's standard deviation"
            if VARIANCE in model.compares
            else "the root of the dispersion"
        )
        yield f"{what} may have a relative spread of {tolerance.tau:g}"
