"""The lines of Python that make a fit again."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..data.multi_environment import MultiEnvironmentData
from ..moments.moments import Moments
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
        if name not in NO_MATTER and not _same(value, defaults.get(name))
    }


def _same(value: Any, default: Any) -> bool:
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
        used |= {"source_of": "invariance.sources.opening"} if "source_of(" in "".join(rows) else {}
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
        if name not in parameters or not _same(value, parameters[name].default)
    }


def _fitting(subject: Subject) -> str:
    if isinstance(subject.data, Moments):
        return ".fit_moments(moments)" if subject.data.second is None else ".fit_moments(moments, rows=rows)"
    if subject.by_name:
        return ".fit_data(data)"
    beside = [f"{role}={role}" for role in subject.data.beside]
    by_column = subject.settings.get("environment") is not None
    labels = [] if by_column or subject.data.n_environments == 1 else ["environments=environments"]
    return f".fit({', '.join(['X', 'y', *labels, *beside])})"


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
