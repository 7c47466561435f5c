"""How the result was made: settings, versions, and a paragraph on the methods with the paper to cite."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .._tools.layout import printable
from .._version import __version__
from ..conditionals.compared import BASELINE, DISPERSION, INTERCEPT, SLOPES, VARIANCE
from ..conditionals.predicts import Predicts, predicts_of
from ..decisions.words import fallback
from ..inference.enumeration import Enumeration
from ..posterior.summary import format_count
from .lines import NO_MATTER, changed_settings, python_lines, typed
from .parts import Cell, Code, Column, Facts, Heading, Part, name, prose, table
from .subject import Subject

AUTHORS = "Luhuan Wu, Mingzhang Yin, Yixin Wang, John P. Cunningham and David M. Blei"
PAPER = "Bayesian Invariance Modeling of Multi-Environment Data"
CITATION = f"{AUTHORS}: {PAPER}."
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib")
_PARTS = {
    INTERCEPT: "the intercept",
    SLOPES: "the coefficients",
    VARIANCE: "the variance of the noise",
    DISPERSION: "the dispersion",
    BASELINE: "the baseline hazard",
}


def method_parts(subject: Subject) -> Iterator[Part]:
    yield Heading("Methods, in a paragraph")
    yield from prose([" ".join(_paragraph(subject))])
    yield Heading("To cite")
    yield from prose([CITATION, f"Software: invariance {__version__}."])
    yield Heading("Settings")
    columns = [Column("Setting", number=False), Column("Value", number=False), Column("As by default", number=False)]
    yield table(
        "Settings",
        columns,
        (_setting(subject, *item) for item in subject.settings.items() if item[0] not in NO_MATTER),
        titled=True,
    )
    yield Heading("Engine, seed and versions")
    yield Facts(tuple(_facts(subject)))
    yield Heading("To make it again")
    yield from _again(subject)


def _paragraph(subject: Subject) -> Iterator[str]:
    decision, posterior = subject.decision, subject.posterior
    model, n = decision.findings.target.model, posterior.n_environments
    yield (
        f"Bayesian invariant prediction (Wu et al.) was used to find which of {posterior.n_features:,} features "
        f"predict {printable(posterior.outcome_name)} in the same way in {n:,} environment{'' if n == 1 else 's'} with "
        f"{int(posterior.counts.sum()):,} rows in all. The model of the outcome is {posterior.model}."
    )
    yield f"A subset z of the features is invariant when, given z, {_same(model.compares)} the same everywhere."
    yield _score(subject)
    yield (
        f"The posterior is p(z | data) ∝ p(z) Λ(z){_reward(subject)} over {format_count(posterior.n_subsets)} subsets; "
        f"the prior p(z) is {posterior.prior}, and the computation was by {posterior.engine}."
    )
    if n > 1:
        judged = model.judged_by(decision.accepted)
        yield (
            f"Subsets count as compatible with invariance by this software's test of it: {judged}{_tolerated(subject)}."
        )
    yield f"The features were selected by the rule {decision.rule_says}."
    if n > 1 and not decision.compatible.n:
        yield f"As no subset was compatible, the selection is {fallback(decision)}."


def _same(parts: tuple[str, ...]) -> str:
    told = [_PARTS.get(part, part) for part in parts]
    return f"{', '.join(told[:-1])} and {told[-1]} are"


def _score(subject: Subject) -> str:
    kind = type(subject.settled).__name__
    if kind == "BayesianLinearGaussian":
        return (
            "Λ(z) is the Bayes factor of one regression on z for all environments against one of its own in each, "
            "coefficients and variances integrated over a conjugate prior. Whether environments differ is tested by "
            "the ratio of maximised likelihoods, without that prior."
        )
    fits = "one fit to the rows of all environments against separate fits to those of each"
    curves = " Numeric features enter by smooth curves that are fitted to all rows." if kind == "Additive" else ""
    own = " Each environment has a variance of its own." if getattr(subject.settled, "invariance", "") == "mean" else ""
    return f"Λ(z) is the ratio of maximised likelihoods of {fits}, given z.{curves}{own}{_pseudo_rows(subject)}"


def _pseudo_rows(subject: Subject) -> str:
    weight = getattr(subject.settled, "pseudo_rows", 0.0)
    if not weight:
        return ""
    timed = predicts_of(subject.conditional) is Predicts.time
    like = "in which events occur at the pooled rate" if timed else "whose outcome is the pooled mean"
    rows = f"{weight:g} row{'' if weight == 1.0 else 's'}"
    return f" Each environment also has pseudo-data that weigh {rows}, {like}: they keep its fits finite."


def _reward(subject: Subject) -> str:
    reward = getattr(subject.settled, "prediction", 0.0)
    return f", with a reward of {reward:g} for subsets that predict well," if reward else ""


def _tolerated(subject: Subject) -> str:
    tolerance, model, told = subject.decision.findings.tolerance, subject.decision.findings.target.model, []
    if tolerance.delta and predicts_of(subject.conditional) is not Predicts.number:
        added = model.tolerated(tolerance) / subject.posterior.counts.sum()
        told.append(f"differences between environments may add {added:g} for each row to −2 log Λ(z)")
    elif tolerance.delta:
        told.append(f"coefficients that differ may explain a share {tolerance.delta:g} of the residual variance")
    if tolerance.tau and VARIANCE in model.compares:
        told.append(f"the noise's standard deviation may have a relative spread of {tolerance.tau:g}")
    return f"; {', and '.join(told)}" if told else ""


def _setting(subject: Subject, key: str, value: Any) -> tuple[Cell, Cell, Cell]:
    changed = changed_settings({key: value}, subject.defaults)
    return name(key), Cell(printable(typed(value))), Cell("no" if changed else "yes")


def _facts(subject: Subject) -> Iterator[tuple[str, str]]:
    findings = subject.decision.findings
    yield "Engine", subject.posterior.engine
    yield "Seed", _seed(subject.settings.get("random_state"), isinstance(findings.engine, Enumeration))
    yield "invariance", __version__
    yield "Python", platform.python_version()
    for package in _PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue


def _seed(given: Any, exact: bool) -> str:
    told = "none was given" if given is None else typed(given) if typed(given) != "rng" else "a generator of numpy"
    return f"{told}; the engine draws nothing" if exact else told


def _again(subject: Subject) -> Iterator[Part]:
    if subject.source.command:
        yield Code("In a shell", subject.source.command)
    yield Code("In Python", python_lines(subject))
