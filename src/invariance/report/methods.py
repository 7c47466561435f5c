"""How the result was made: settings, versions, and a paragraph on the methods with the paper to cite."""

from __future__ import annotations

import inspect
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._tools.text import printable
from .._version import __version__
from ..data.multi_environment import MultiEnvironmentData
from ..decisions.decision import fallback
from ..inference.enumeration import Enumeration
from ..models.base import BASELINE, DISPERSION, INTERCEPT, SLOPES, VARIANCE, Predicts, predicts_of
from ..moments.moments import Moments
from ..posterior.summary import format_count
from .page import Cell, Code, Column, Facts, Heading, Part, name, prose, table
from .subject import Subject

# What changes nothing of a result.
NO_MATTER = ("progress",)
# Whose state cannot be typed: a name stands for them.
_GENERATORS = np.random.Generator | np.random.BitGenerator | np.random.SeedSequence | np.random.RandomState
_LONGEST = 88
_MEANT_BY_NONE = {"prior": "UniformPrior()", "tolerance": "Tolerance()"}


def typed(value: Any) -> str:
    """As it is typed: of a specification only what differs from its defaults."""
    if isinstance(value, np.generic | np.ndarray):
        return typed(value.tolist())
    if isinstance(value, BaseEstimator):
        return value.__repr__(N_CHAR_MAX=1_000_000)
    # A spline is written as a call of spline().
    if is_dataclass(value) and not isinstance(value, type) and repr(value).startswith(type(value).__name__):
        given = {field.name: typed(getattr(value, field.name)) for field in fields(value) if _differs(value, field)}
        return _call(type(value).__name__, given)
    if isinstance(value, list):
        return f"[{', '.join(map(typed, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(typed, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{typed(key)}: {typed(item)}" for key, item in value.items()) + "}"
    if isinstance(value, _GENERATORS):
        return "rng"
    if isinstance(value, PurePath):
        return f"Path({str(value)!r})"
    return re.sub(r"<(.*?) at 0x[0-9a-f]+>", r"<\1>", repr(value))


def _differs(specification: Any, field: Field[Any]) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return field.init and typed(getattr(specification, field.name)) != typed(default)


def changed_settings(subject: Subject) -> dict[str, Any]:
    """Those that are not as by default, and that matter."""
    usual = {name: given.default for name, given in inspect.signature(subject.estimator).parameters.items()}
    return {
        name: value
        for name, value in subject.settings.items()
        if name not in NO_MATTER and typed(value) not in (typed(usual.get(name)), _MEANT_BY_NONE.get(name))
    }


def python_lines(subject: Subject) -> str:
    """A script, where the source of the rows is known; else the line that fits them."""
    settings, table = changed_settings(subject), subject.source.table
    used = {subject.estimator.__name__: "invariance"} | dict(_imports([*settings.values(), *table.values()]))
    read = []
    if table:
        moments = isinstance(subject.data, Moments)
        name, reader = ("moments", Moments.from_rows) if moments else ("data", MultiEnvironmentData.from_table)
        used |= {type(subject.data).__name__: "invariance"}
        read = [f"# {subject.source.remark}"] if subject.source.remark else []
        read.append(f"{name} = {_call(reader.__qualname__, _typed_all(table), _LONGEST)}")
    estimator = _call(subject.estimator.__name__, _typed_all(settings), _LONGEST)
    fitted = f"model = {estimator}.fit({', '.join(_fitted_to(subject))})"
    return "\n".join([*_import_lines(used), "", *read, fitted, "print(model.summary())", ""])


def _fitted_to(subject: Subject) -> list[str]:
    """Arguments of fit"""
    if isinstance(subject.data, Moments):
        if subject.data.second is None:
            return ["moments"]
        table = subject.source.table
        again = {"rows": "rows", "environments": "environments"} | {
            argument: typed(table[name])
            for argument, name in (("rows", "rows"), ("environments", "environment"), ("format", "form"))
            if name in table
        }
        return ["moments", *(f"{name}={text}" for name, text in again.items())]
    if subject.by_name:
        return ["data"]
    columns = subject.settings.get("columns")
    by_column = columns is not None and columns.environment is not None
    labels = [] if by_column or subject.data.n_environments == 1 else ["environments=environments"]
    return ["X", "y", *labels, *(f"{role}={role}" for role in subject.data.outcome_columns)]


def _typed_all(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: typed(value) for name, value in values.items()}


def _call(name: str, arguments: Mapping[str, str], longest: int = sys.maxsize) -> str:
    """On one line or, where that is long, an argument on each."""
    written = [f"{key}={text}" for key, text in arguments.items()]
    line = f"{name}({', '.join(written)})"
    return line if len(line) <= longest else f"{name}(\n" + "".join(f"    {each},\n" for each in written) + ")"


def _imports(values: Any) -> Iterator[tuple[str, str]]:
    """(name, package) of the classes that these values are typed with."""
    for value in values:
        if isinstance(value, Mapping):
            yield from _imports(value.values())
        elif isinstance(value, list | tuple):
            yield from _imports(value)
        elif isinstance(value, PurePath):
            yield "Path", "pathlib"
        elif type(value).__module__ != "builtins" and not isinstance(value, np.generic | np.ndarray | _GENERATORS):
            written = repr(value).partition("(")[0]
            if written.isidentifier():
                yield written, _home(type(value).__module__, written)
            if isinstance(value, BaseEstimator):
                yield from _imports(value.get_params(deep=False).values())
            elif is_dataclass(value):
                yield from _imports(getattr(value, field.name) for field in fields(value))


def _home(module: str, name: str) -> str:
    """The outermost package that has the name."""
    parts = module.split(".")
    packages = [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
    return next((package for package in packages if hasattr(sys.modules.get(package), name)), module)


def _import_lines(used: Mapping[str, str]) -> list[str]:
    packages = sorted(set(used.values()), key=lambda package: (package.partition(".")[0] == "invariance", package))
    return [f"from {package} import {', '.join(sorted(n for n in used if used[n] == package))}" for package in packages]


AUTHORS = "Luhuan Wu, Mingzhang Yin, Yixin Wang, John P. Cunningham and David M. Blei"
PAPER = "Bayesian Invariance Modeling of Multi-Environment Data"
_PACKAGES = ("numpy", "scipy", "sklearn", "numba", "matplotlib")
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
    yield from prose([f"{AUTHORS}: {PAPER}.", f"Software: invariance {__version__}."])
    yield Heading("Settings")
    changed = changed_settings(subject)
    yield table(
        "Settings",
        [Column(title, number=False) for title in ("Setting", "Value", "As by default")],
        (
            (name(key), Cell(printable(typed(value))), Cell("no" if key in changed else "yes"))
            for key, value in subject.settings.items()
            if key not in NO_MATTER
        ),
        titled=True,
    )
    yield Heading("Engine, seed and versions")
    yield Facts(tuple(_facts(subject)))
    yield Heading("To make it again")
    if subject.source.command:
        yield Code("In a shell", subject.source.command)
    yield Code("In Python", python_lines(subject))


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
    kind = type(subject.chosen_family).__name__
    if kind == "BayesianLinearGaussian":
        return (
            "Λ(z) is the Bayes factor of one regression on z for all environments against one of its own in each, "
            "coefficients and variances integrated over a conjugate prior. Whether environments differ is tested by "
            "the ratio of maximised likelihoods, without that prior."
        )
    fits = "one fit to the rows of all environments against separate fits to those of each"
    curves = " Numeric features enter by smooth curves that are fitted to all rows." if kind == "Additive" else ""
    own = (
        " Each environment has a variance of its own."
        if getattr(subject.chosen_family, "invariance", "") == "mean"
        else ""
    )
    return f"Λ(z) is the ratio of maximised likelihoods of {fits}, given z.{curves}{own}{_pseudo_rows(subject)}"


def _pseudo_rows(subject: Subject) -> str:
    weight = getattr(subject.chosen_family, "pseudo_rows", 0.0)
    if not weight:
        return ""
    timed = predicts_of(subject.family) is Predicts.time
    like = "in which events occur at the pooled rate" if timed else "whose outcome is the pooled mean"
    rows = f"{weight:g} row{'' if weight == 1.0 else 's'}"
    return f" Each environment also has pseudo-data that weigh {rows}, {like}: they keep its fits finite."


def _reward(subject: Subject) -> str:
    reward = getattr(subject.chosen_family, "prediction", 0.0)
    return f", with a reward of {reward:g} for subsets that predict well," if reward else ""


def _tolerated(subject: Subject) -> str:
    tolerance, model, told = subject.decision.findings.tolerance, subject.decision.findings.target.model, []
    if tolerance.delta and predicts_of(subject.family) is not Predicts.number:
        added = model.tolerated(tolerance) / subject.posterior.counts.sum()
        told.append(f"differences between environments may add {added:g} for each row to −2 log Λ(z)")
    elif tolerance.delta:
        told.append(f"coefficients that differ may explain a share {tolerance.delta:g} of the residual variance")
    if tolerance.tau and VARIANCE in model.compares:
        told.append(f"the noise's standard deviation may have a relative spread of {tolerance.tau:g}")
    return f"; {', and '.join(told)}" if told else ""


def _facts(subject: Subject) -> Iterator[tuple[str, str]]:
    seed = typed(subject.settings.get("random_state"))
    told = {"None": "none was given", "rng": "a generator of numpy"}.get(seed, seed)
    exact = isinstance(subject.decision.findings.engine, Enumeration)
    yield "Engine", subject.posterior.engine
    yield "Seed", f"{told}; the engine draws nothing" if exact else told
    yield "invariance", __version__
    yield "Python", platform.python_version()
    for package in _PACKAGES:
        if find_spec(package) is not None:
            yield package, version({"sklearn": "scikit-learn"}.get(package, package))
