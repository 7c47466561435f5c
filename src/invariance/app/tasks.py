"""What the worker process does: read a table and tell what is in it, or fit."""

from __future__ import annotations

import re
import shutil
import signal
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..cli.console import for_shell, said_by
from ..cli.inputs import default_notes, read_file
from ..cli.options import FileOptions, FitOptions
from ..cli.outputs import table_arguments
from ..data.columns import Choices, RawTable, as_frame, doubtful
from ..data.labels import label_of
from ..data.outcomes import OutcomeKind, outcome_kind
from ..data.reading import PARQUET, TableFile, column_names, read_columns
from ..exceptions import DataError, InvarianceError
from ..models.registry import FAMILY_OF_KIND
from ..report.methods import Source, python_lines

if TYPE_CHECKING:
    import pandas as pd

    from .._tools.arrays import Floats

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


# A column with more different values is not shown as environments.
MOST_GROUPS = 200
_EXAMPLES = 3
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})([T ].*)?", re.ASCII)
_MOSTLY = 0.9
# So many different values show whether a column holds dates.
_DATES_LOOKED_AT = 300
_ID = re.compile(r"(?i:(^|[\W_])(id|no|nr|number|index|key|code|row|mrn|uid))$|[IU]D$")
_FEWEST_IDS = 10


def understand(file: TableFile) -> dict[str, Any]:
    """{"rows": N, "columns": [...]}, see `_column`."""
    names = column_names(file)
    if not names:
        raise DataError(f"{file.name} has no columns with a name. It needs an outcome, an environment and features.")
    table = read_columns(file, names)
    if len(table) == 0:
        raise DataError(f"{file.name} has a header but no rows.")
    written = read_columns(file, names, as_text=names) if file.kind != PARQUET else table
    raw = RawTable.of_frame(as_frame(table), names, Choices())
    return {"rows": len(table), "columns": [_column(table[name], written[name], raw) for name in names]}


def _column(values: pd.Series[Any], written: pd.Series[Any], raw: RawTable) -> dict[str, Any]:
    """values as they are read, written as they stand in a file of text.
    kind, examples, missing (rows), n_values: for people to see; groups: [[label, rows], ...] if there are not too many;
    doubt: why it is better no feature, or nothing; as_outcome: the model it would have and why, or nothing"""
    name = str(values.name)
    counts = written.astype(str).where(written.notna()).value_counts(sort=False)
    numbers, n_values = raw.values[:, raw.names.index(name)], len(counts)
    texts = [str(text) for text in counts.index[:_DATES_LOOKED_AT]]
    dates = len(texts) > 0 and sum(_DATE.fullmatch(text) is not None for text in texts) >= _MOSTLY * len(texts)
    groups: dict[Any, int] = {}  # as environments
    for label, n in zip(map(label_of, counts.index), counts, strict=True) if n_values <= MOST_GROUPS else ():
        groups[label] = groups.get(label, 0) + int(n)
    kind, doubt = _kind_and_doubt(name, numbers, raw, n_values, dates)
    return {
        "name": name,
        "kind": kind,
        "examples": [str(value) for value in counts.index[:_EXAMPLES]],
        "missing": int(written.isna().sum()),
        "n_values": n_values,
        "groups": [[label, n] for label, n in groups.items()],
        "doubt": for_shell(doubt),
        "as_outcome": _as_outcome(name, numbers, raw),
    }


def _kind_and_doubt(name: str, numbers: Floats, raw: RawTable, n_values: int, dates: bool) -> tuple[str, str]:
    one = "has one value only" if n_values == 1 else ""
    if n_values == 0:
        return "empty", "has no values"
    if dates:
        return "dates", one or "looks like dates, which are no features as they are"
    if name in raw.refused:
        return "text", one or raw.refused[name].reason
    if name in raw.levels:
        refusal = doubtful(name, raw.levels[name], len(numbers))
        return "text", one or ("" if refusal is None else refusal.reason)
    present = numbers[~np.isnan(numbers)]
    kind = "whole numbers" if (present == np.rint(present)).all() else "numbers"
    ids = "looks like an ID or a row number: no two rows share a value" if _are_ids(name, numbers) else ""
    return "0 and 1" if n_values == 2 and set(present) == {0.0, 1.0} else kind, one or ids


def _are_ids(name: str, numbers: Floats) -> bool:
    """Whole numbers, all different, that are called so or leave out none."""
    different = len(np.unique(numbers)) == len(numbers) >= _FEWEST_IDS and not np.isnan(numbers).any()
    named = _ID.search(name) is not None or np.ptp(numbers) == len(numbers) - 1
    return different and named and bool((numbers == np.rint(numbers)).all())


def _as_outcome(name: str, numbers: Floats, raw: RawTable) -> list[str]:
    present, classes = numbers[~np.isnan(numbers)], raw.levels[name].texts if name in raw.levels else None
    if name in raw.refused or len(present) == 0 or (classes is not None and len(classes) != 2):
        return []
    return _model(outcome_kind(present, name, classes=None if classes is None else (classes[0], classes[1])))


def with_outcome_columns(outcome: str, event: str | None, exposure: str | None) -> list[str]:
    """As `as_outcome` of a column, where another one comes with it."""
    return _model(outcome_kind(np.empty(0), outcome, event, exposure))


def _model(kind: OutcomeKind) -> list[str]:
    return [FAMILY_OF_KIND[kind.kind].replace("_", " ").replace("gaussian", "Gaussian"), kind.reason]
