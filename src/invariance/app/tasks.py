"""The tasks of the worker process: check a table, fit, or predict."""

from __future__ import annotations

import shutil
import signal
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._tools.arrays import Fields
from ..cli.inputs import begin, many_features, read_file
from ..cli.options import FileOptions, FitOptions, read_codes
from ..cli.outputs import table_arguments
from ..cli.predict import predicted
from ..data.check import examine, read_with
from ..data.checks import warnings_kept
from ..data.reading import column_names
from ..data.settings import Columns
from ..decisions.levels import level_in_words
from ..decisions.plots import save_picture
from ..estimators.bip import BIP
from ..estimators.saved import load
from ..exceptions import DataWarning, InvarianceError, Message, NotInvariantWarning
from ..report.methods import Source, python_lines
from .choices import worded

if TYPE_CHECKING:
    import pandas as pd

REPORT = "report.html"
SCRIPT = "reproduce.py"
MODEL = "model.json"
PREDICTIONS = "predictions.csv"
PICTURES = {
    "effects": "Effects in each environment, in readable units",
    "inclusion": "How probable each feature is",
    "coefficients": "Coefficients in each environment",
    "environments": "How unlike each environment is",
    "left_out": "Predictions in environments left out",
    "calibration": "Calibration in environments left out",
    "subsets": "The best subsets of features",
    "frontier": "Prediction against invariance",
}
TABLES = {kind: PICTURES[kind] for kind in ("effects", "coefficients", "inclusion", "left_out")} | {
    "subsets": "The most probable subsets of features"
}
# Codes of findings that are not about one column alone: they hold for the features that are ticked.
OF_ALL_FEATURES = ("missing", "exclusion", "refused", "stopped")
# Rows of predictions that are shown
SHOWN = 50
Tell = Callable[[float, str], None]


def look(
    tell: Tell,
    file: Path,
    written: dict[str, str],
    roles: Fields | None = None,
    exclude: Sequence[str] = (),
) -> Fields:
    """Return what `check` finds.

    written : as in `FileOptions`; roles : as in `check`; exclude : columns that do not count among
        missing
    values, but whose other findings stay
    """
    tell(0.0, "reading the table")
    source = FileOptions(**written).open(file)
    roles = roles or {}
    na = read_codes(written.get("na"))

    def attempt(settings: Mapping[str, Any]) -> None:
        begin(BIP(), read_with(source, roles, settings))

    found = examine(source, roles, Columns(na=na), attempt=attempt)
    if exclude:
        without = examine(source, roles, Columns(exclude=exclude, na=na), attempt=attempt)
        kept = (finding for finding in found.findings if finding.code not in OF_ALL_FEATURES)
        others = (finding for finding in without.findings if finding.code in OF_ALL_FEATURES)
        found = replace(found, findings=(*kept, *others), missing_values=without.missing_values)
    return {"found": found}


def fit(tell: Tell, file: Path, name: str, choices: FitOptions, folder: Path) -> Fields:
    """Fit, and leave what can be downloaded in the folder: the script calls the table by this
    name."""
    tell = Overall(tell)
    tell(0.0, "reading the table")
    with warnings_kept() as warned:
        model = choices.bip().set_params(progress=tell)
        data = read_file(file, choices)
        model.fit(data)
    words = tuple(choices.form.na)
    arguments = table_arguments(name, choices)
    source = Source(arguments, worded=worded, warned=tuple(warned), words_for_missing=words)
    model.report(folder / REPORT, source=source)
    (folder / SCRIPT).write_text(
        f"{python_lines(model, source)}model.report({REPORT!r})\n", encoding="utf-8"
    )
    tell(0.0, "saving the model")
    model.save(folder / MODEL)
    for done, kind in enumerate(PICTURES):
        tell(done / len(PICTURES), "drawing pictures")
        for ending in ("png", "svg"):
            save_picture(model.decision_, kind, folder / f"{kind}.{ending}")
    tell(0.0, "writing tables")
    for table, frame in _frames(model).items():
        frame.to_csv(folder / f"{table}.csv", index=False)
    decision = model.decision_
    notes = many_features(choices, data)
    verdict = decision.verdict
    lines = [worded(line) for line in (verdict.effects, verdict.baseline, verdict.follows) if line]
    told = {"selected": decision.selected, "verdict": decision.in_short, "lines": lines}
    level = level_in_words(decision.level, model._outcome.kind) if model.n_environments_ > 1 else ""
    return told | {"level": level, "notes": notes}


def _frames(model: BIP) -> dict[str, pd.DataFrame]:
    """Return {table: frame} for those of TABLES that exist."""
    posterior = model.posterior_
    return {
        "effects": model.decision_.effects(by_environment=True),
        "coefficients": model.decision_.coefficients(),
        "inclusion": posterior.inclusion_probabilities.rename("probability")
        .rename_axis("feature")
        .reset_index(),
        "subsets": posterior.subsets(100),
    } | ({"left_out": model.new_environments().to_frame()} if posterior.n_environments > 1 else {})


# What each stage of a fit may take of the bar that is left, and stages in other words
_SHARE = 0.3
_STAGES = {"report": "writing the report", "scoring subsets": "comparing subsets of features"}


class Overall:
    """Show one bar for all stages of a fit.

    Each stage has a share of the remaining bar, so that it never goes back.
    """

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.done = 0.0
        self.start = 0.0
        self.stage = ""

    def __call__(self, fraction: float, stage: str) -> None:
        if stage != self.stage:
            self.start = self.done
            self.stage = stage
        self.done = max(self.done, self.start + (1.0 - self.start) * _SHARE * fraction)
        self.tell(self.done, _STAGES.get(stage, stage))


def predict(
    tell: Tell, file: Path, written: dict[str, str], settings: Fields, folder: Path
) -> Fields:
    """Predictions of the model in the folder. settings : of PREDICTING"""
    tell(0.0, "predicting")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotInvariantWarning)  # said with the fit
        model = load(folder / MODEL)
    table = FileOptions(**written).open(file)
    together = settings.get("new_site") == "together"
    rows, sentences, _ = predicted(model, table, **settings | {"new_site": together})
    rows.to_csv(folder / PREDICTIONS, index=False)
    given = len(column_names(table))
    shown = rows.iloc[:SHOWN, [*range(given, rows.shape[1]), *range(given)]]
    cells = [[_cell(value) for value in row] for row in shown.itertuples(index=False)]
    return {
        "columns": list(shown.columns),
        "cells": cells,
        "n_rows": len(rows),
        "sentences": sentences,
    }


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.4g}"
    return "" if value is None or value != value else str(value)


_TASKS: dict[str, Callable[..., Fields]] = {"look": look, "fit": fit, "predict": predict}


def work(connection: Any, folder: Path) -> None:
    """Answer tasks with (fraction, message) on the way, then a result or, if it failed, a
    sentence."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the page, which ends this process

    def tell(fraction: float, message: str) -> None:
        connection.send((fraction, message))

    with suppress(EOFError, OSError):  # the page is gone
        while True:
            task, arguments = connection.recv()
            connection.send(_answer(task, arguments, tell))
    shutil.rmtree(folder, ignore_errors=True)


def _answer(task: str, arguments: Fields, tell: Tell) -> Fields | str:
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            for category in (UserWarning, RuntimeWarning):
                warnings.simplefilter("always", category)
            result = _TASKS[task](tell, **arguments)
        said = {
            _message(warning.message): issubclass(warning.category, DataWarning)
            for warning in caught
        }
        notes = [*result.get("notes", ()), *(text for text, note in said.items() if note)]
        return result | {
            "notes": notes,
            "warnings": [text for text, note in said.items() if not note],
        }
    except InvarianceError as error:
        return _message(error)
    except MemoryError:
        return "There is not enough memory for this on this machine: use fewer features or rows."
    except Exception as error:
        traceback.print_exc()
        name = type(error).__name__
        return (
            f"This is a fault of invariance, not of your table: {name}: {error}. The terminal "
            "shows more."
        )


def _message(error: Exception | str) -> str:
    """Return the message of an error with its remedies, if it has some."""
    args = getattr(error, "args", ())
    return args[0] if args and isinstance(args[0], Message) else str(error)
