"""What the worker process does: read a table and tell what is in it, or fit."""

from __future__ import annotations

import shutil
import signal
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..cli.console import said_by
from ..cli.inputs import default_notes, read_file
from ..cli.options import FileOptions, FitOptions
from ..cli.outputs import table_arguments
from ..data.findings import check
from ..data.outcomes import OutcomeKind, outcome_kind
from ..data.reading import TableFile
from ..exceptions import InvarianceError
from ..models.registry import FAMILY_OF_KIND
from ..report.methods import Source, python_lines

REPORT, SCRIPT = "report.html", "reproduce.py"
Tell = Callable[[float, str], None]


def look(tell: Tell, file: Path, written: dict[str, str]) -> dict[str, Any]:
    """written : how the file is written, as `FileOptions` has it"""
    tell(0.0, "reading the table")
    return understand(FileOptions(**written).open(file))


def fit(tell: Tell, file: Path, name: str, choices: FitOptions, folder: Path) -> dict[str, Any]:
    """Fit, and leave the report and the script, which calls the file by this name, in the folder."""
    tell(0.0, "reading the table")
    model, data = choices.bip().set_params(progress=tell), read_file(file, choices)
    model.fit(data)
    tell(1.0, "writing the report")
    source = Source(table_arguments(name, choices))
    model.report(folder / REPORT, source=source)
    (folder / SCRIPT).write_text(f"{python_lines(model, source)}model.report({REPORT!r})\n", encoding="utf-8")
    return {"notes": default_notes(model, choices, data)}


_TASKS: dict[str, Callable[..., dict[str, Any]]] = {"look": look, "fit": fit}


def work(connection: Any, folder: Path) -> None:
    """Answer tasks with (fraction, message) on the way, then a result or, where it failed, a sentence."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the page, which ends this process

    def tell(fraction: float, message: str) -> None:
        connection.send((fraction, message))

    with suppress(EOFError, OSError):  # the page is gone
        while True:
            task, arguments = connection.recv()
            connection.send(_answer(task, arguments, tell))
    shutil.rmtree(folder, ignore_errors=True)


def _answer(task: str, arguments: dict[str, Any], tell: Tell) -> dict[str, Any] | str:
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            for category in (UserWarning, RuntimeWarning):
                warnings.simplefilter("always", category)
            result = _TASKS[task](tell, **arguments)
        return result | {"warnings": list(dict.fromkeys(said_by(warning.message) for warning in caught))}
    except InvarianceError as error:
        return said_by(error)
    except MemoryError:
        return "There is not enough memory for this on this machine: use fewer features or rows."
    except Exception as error:
        traceback.print_exc()
        name = type(error).__name__
        return f"This is a fault of invariance, not of your table: {name}: {error}. The terminal shows more."


# Findings that speak against a column as a feature
_DOUBTS = "constant", "identifier", "dates", "text", "words", "numbers_as_text", "objects", "detection_limit"


def understand(file: TableFile) -> dict[str, Any]:
    """{"rows": N, "columns": [...]}, each column as `ColumnLook` has it; doubt: why it is better no feature, or "";
    as_outcome: the model it would have and why, or nothing"""
    found = check(file)
    doubts = {finding.column: finding.what for finding in found.findings if finding.code in _DOUBTS}
    columns = [
        vars(column)
        | {"examples": list(column.examples), "groups": [[label, n] for label, n in column.groups]}
        | {"doubt": doubts.get(column.name, "").removeprefix(f"{column.name!r} ").removesuffix(".")}
        | {"as_outcome": [] if column.as_outcome is None else _model(column.as_outcome)}
        for column in found.columns
    ]
    return {"rows": found.n_rows, "columns": columns}


def with_outcome_columns(outcome: str, event: str | None, exposure: str | None) -> list[str]:
    """As `as_outcome` of a column, where another one comes with it."""
    return _model(outcome_kind(np.empty(0), outcome, event, exposure))


def _model(kind: OutcomeKind) -> list[str]:
    return [FAMILY_OF_KIND[kind.kind].replace("_", " ").replace("gaussian", "Gaussian"), kind.reason]
