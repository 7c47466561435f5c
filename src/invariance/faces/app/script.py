"""The Python lines that give the same posterior as the page did."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ..._version import __version__
from ..cli.names import read_names
from .choices import Choices

REPORT, SCRIPT = "report.html", "reproduce.py"


def script(file: str, choices: Choices) -> str:
    """For a table of this name in the folder where the script is run."""
    from ...data.multi_environment import MultiEnvironmentData

    usual = inspect.signature(MultiEnvironmentData.from_table).parameters
    reading = choices.table().reading()
    # An empty list says as much as an empty tuple.
    stated = {k: v for k, v in reading.items() if v != usual[k].default and (v or usual[k].default)}
    arguments = {"outcome": choices.outcome, "environment": choices.environment, **stated}
    settings = _settings(choices)
    classes = {type(value) for value in settings.values() if type(value).__module__.startswith("invariance.")}
    imported = sorted({"BIP", "MultiEnvironmentData", *(kind.__name__ for kind in classes)})
    lines = [
        f"# What the page of invariance {__version__} did with {file!r}: run this in the folder of that file.",
        f"from invariance import {', '.join(imported)}",
        *(["from invariance.data.table_file import TableFile"] if choices.written else []),
        "",
        "data = MultiEnvironmentData.from_table(",
        f"    {_opened(file, choices.written)},",
        *(f"    {name}={value!r}," for name, value in arguments.items()),
        ")",
        f"model = BIP({', '.join(f'{name}={value!r}' for name, value in settings.items())})",
        "model.fit_data(data)",
        "print(model.summary())",
        f"model.report({REPORT!r})",
    ]
    return "\n".join(lines) + "\n"


def _opened(file: str, written: Mapping[str, str]) -> str:
    if not written:
        return repr(file)
    stated = {name: read_names(value) if name == "na" else value for name, value in written.items()}
    return f"TableFile.of({', '.join([repr(file), *(f'{name}={value!r}' for name, value in stated.items())])})"


def _settings(choices: Choices) -> dict[str, Any]:
    """Those in which the model differs from BIP()."""
    from ...estimators.bip import BIP

    usual, given = BIP().get_params(deep=False), choices.model().get_params(deep=False)
    return {name: value for name, value in given.items() if value != usual[name]}
