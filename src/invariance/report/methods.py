"""How the result was made: settings, versions, and a paragraph on the methods with the paper to cite."""

from __future__ import annotations

import inspect
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
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
_FILE_OPTIONS = ("sep", "decimal", "encoding", "sheet", "na", "thousands")
# {what is fitted: what it is called, and what reads it}
_READERS: dict[type, tuple[str, Any]] = {
    MultiEnvironmentData: ("data", MultiEnvironmentData.from_table),
    Moments: ("moments", Moments.from_rows),
}
_ALIKE = {"()", "[]", "{}"}, {"None", "UniformPrior()"}, {"None", "Tolerance()"}


class _Name(str):
    """Of a variable"""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def typed(value: Any) -> str:
    """As it is typed: of a specification only what differs from its defaults."""
    if isinstance(value, np.generic):
        return typed(value.item())
    if is_dataclass(value) and not isinstance(value, type) and _reads_as_call(value):
        changed = (
            field for field in fields(value) if field.init and typed(getattr(value, field.name)) != _default(field)
        )
        return f"{type(value).__name__}({', '.join(f'{f.name}={typed(getattr(value, f.name))}' for f in changed)})"
    if isinstance(value, BaseEstimator):
        defaults = inspect.signature(type(value)).parameters
        settings = {
            name: typed(given)
            for name, given in value.get_params(deep=False).items()
            if name not in defaults or typed(given) != typed(defaults[name].default)
        }
        return f"{type(value).__name__}({', '.join(f'{name}={given}' for name, given in settings.items())})"
    if isinstance(value, np.ndarray):
        return typed(value.tolist())
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


def _reads_as_call(value: Any) -> bool:
    """Whether it is written by the name of its class; a spline is not."""
    return repr(value).startswith(type(value).__name__)


def _default(field: Field[Any]) -> str | None:
    if field.default is not MISSING:
        return typed(field.default)
    return None if field.default_factory is MISSING else typed(field.default_factory())


def changed_settings(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are not as by default, and that matter."""
    return {
        name: value
        for name, value in settings.items()
        if name not in NO_MATTER and not _same_lines(value, defaults.get(name))
    }


def _same_lines(value: Any, default: Any) -> bool:
    """An empty list is no tuple, and None may stand for a specification without settings, but they mean the same."""
    written = typed(value), typed(default)
    return written[0] == written[1] or any(set(written) <= alike for alike in _ALIKE)


def python_lines(subject: Subject) -> str:
    """A script, where the source of the rows is known; else the line that fits them."""
    settings = changed_settings(subject.settings, subject.defaults)
    fitted = [f"model = {_call(subject.estimator, settings)}{_fitting(subject)}"]
    used = {subject.estimator: "invariance"} | dict(_imports(settings.values()))
    read = []
    if subject.source.table:
        name, reader = _READERS[type(subject.data)]
        used |= {reader.__self__.__name__: "invariance"} | dict(_imports(subject.source.table.values()))
        remark = [f"# {subject.source.remark}"] if subject.source.remark else []
        rows, given = _rows_and_settings(subject.source.table)
        used |= {"source_of": "invariance.data.sources"} if "source_of(" in "".join(rows) else {}
        read = [*remark, *rows, f"{name} = {_call(reader.__qualname__, _reading(given, reader))}"]
    return "\n".join([*_import_lines(used), "", *read, *fitted, "print(model.summary())", ""])


def _rows_and_settings(given: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """A line that names rows which stay where they are, and how they are written; the arguments of what reads them."""
    settings = dict(given)
    if "rows" not in settings:
        return [], settings
    place = typed(settings.pop("rows"))
    form = {name: typed(settings.pop(name)) for name in _FILE_OPTIONS if name in settings}
    if form and not isinstance(settings.get("categorical", "auto"), str):
        form["words"] = typed(settings["categorical"])
    written = "".join(f", {name}={value}" for name, value in form.items())
    line = f"rows = source_of({place}{written})" if form else f"rows = {place}"
    return [line], {"rows": _Name("rows"), **settings}


def _reading(given: Mapping[str, Any], reader: Any) -> dict[str, Any]:
    parameters = inspect.signature(reader).parameters
    return {
        name: value
        for name, value in given.items()
        if name not in parameters or not _same_lines(value, parameters[name].default)
    }


def _fitting(subject: Subject) -> str:
    if isinstance(subject.data, Moments):
        return ".fit(moments)" if subject.data.second is None else ".fit(moments, rows=rows)"
    if subject.by_name:
        return ".fit(data)"
    outcome_columns = [f"{role}={role}" for role in subject.data.outcome_columns]
    columns = subject.settings.get("columns")
    by_column = columns is not None and columns.environment is not None
    labels = [] if by_column or subject.data.n_environments == 1 else ["environments=environments"]
    return f".fit({', '.join(['X', 'y', *labels, *outcome_columns])})"


def _call(name: str, arguments: Mapping[str, Any]) -> str:
    """On one line or, where that is long, an argument on each."""
    written = [f"{key}={typed(value)}" for key, value in arguments.items()]
    line = f"{name}({', '.join(written)})"
    if len(line) <= _LONGEST:
        return line
    return f"{name}(\n" + "".join(f"    {argument},\n" for argument in written) + ")"


def _imports(values: Any) -> Iterator[tuple[str, str]]:
    """(name, package) of the classes that these values are typed with."""
    for value in values:
        if isinstance(value, Mapping):
            yield from _imports(value.values())
        elif isinstance(value, list | tuple):
            yield from _imports(value)
        elif isinstance(value, PurePath):
            yield "Path", "pathlib"
        elif isinstance(value, BaseEstimator):
            yield type(value).__name__, _home(type(value).__module__, type(value).__name__)
            yield from _imports(value.get_params(deep=False).values())
        elif type(value).__module__ != "builtins" and not isinstance(value, np.generic | np.ndarray | _GENERATORS):
            written = repr(value).partition("(")[0]
            if written.isidentifier():
                yield written, _home(type(value).__module__, written)
            if is_dataclass(value):
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
    timed = predicts_of(subject.family) is Predicts.time
    like = "in which events occur at the pooled rate" if timed else "whose outcome is the pooled mean"
    rows = f"{weight:g} row{'' if weight == 1.0 else 's'}"
    return f" Each environment also has pseudo-data that weigh {rows}, {like}: they keep its fits finite."


def _reward(subject: Subject) -> str:
    reward = getattr(subject.settled, "prediction", 0.0)
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
