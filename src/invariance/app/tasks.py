"""What the worker process does: tasks come as lines of JSON on standard input, answers go to standard output."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from ..cli.remedies import for_shell, said_by
from ..data.columns import Choices, RawTable, as_frame, doubtful
from ..data.outcomes import OutcomeKind, outcome_kind
from ..data.reading import PARQUET, TableFile, column_names, parse_label, read_columns
from ..exceptions import DataError, InvarianceError
from ..models.registry import FAMILY_OF_KIND

if TYPE_CHECKING:
    import pandas as pd

    from .._tools.arrays import Floats

_BETWEEN_REPORTS = 0.1
_ATTEMPTS, _BETWEEN_ATTEMPTS = 50, 0.1

Tell = Callable[[float, str], None]


def look(tell: Tell, file: str, written: dict[str, str]) -> dict[str, Any]:
    from ..cli.inputs import too_large
    from ..cli.options import FileOptions

    tell(0.0, "reading the table")
    options = FileOptions(**written)
    crowded = too_large(Path(file), options)
    if crowded is not None:
        raise DataError(f"{crowded} The command line reads it in pieces.")
    return understand(options.open(Path(file)))


def fit(tell: Tell, file: str, name: str, choices: dict[str, Any], folder: str) -> dict[str, Any]:
    """Fit, and leave the report and the script, which calls the file by this name, in the folder."""
    from ..cli.inputs import notes, read_file
    from .choices import REPORT, SCRIPT, Choices, script

    chosen = Choices(**choices)
    model = chosen.model().set_params(progress=tell)
    tell(0.0, "reading the table")
    data = read_file(Path(file), chosen.outcome, chosen.environment, chosen.table())
    model.fit(data)
    tell(1.0, "writing the report")
    model.report(Path(folder, REPORT))
    Path(folder, SCRIPT).write_text(script(name, chosen), encoding="utf-8")
    return {"verdict": model.decision_.verdict, "notes": notes(model, chosen.settings(), data)}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {"look": look, "fit": fit}


def main(folder: Path) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not be taken for answers
    tasks: SimpleQueue[dict[str, Any]] = SimpleQueue()
    end = _End(folder)
    threading.Thread(target=_receive, args=(tasks, end), daemon=True).start()

    one_at_a_time = threading.Lock()

    def answer(**event: Any) -> None:
        with one_at_a_time:
            try:
                answers.write(json.dumps(event) + "\n")
                answers.flush()
            except OSError:  # nobody listens; an error would end this process before its files are gone
                end()

    while True:
        task = tasks.get()
        try:
            with _warnings_kept() as said:
                result = TASKS[task.pop("task")](_telling(answer), **task)
            answer(result=result | {"warnings": said})
        except InvarianceError as error:
            answer(error=said_by(error))
        except MemoryError:
            answer(error="There is not enough memory for this on this machine: use fewer features or rows.")
        except Exception as error:
            with suppress(OSError):
                traceback.print_exc()
            name = type(error).__name__
            answer(error=f"This is a fault of invariance, not of your table: {name}: {error}. The terminal shows more.")


def _receive(tasks: SimpleQueue[dict[str, Any]], end: Callable[[], None]) -> None:
    """Until the page is gone, however it ended."""
    for line in sys.stdin:
        tasks.put(json.loads(line))
    end()


class _End:
    """Of this process, whatever it does, and of the files of a page that is gone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._once = threading.Lock()

    def __call__(self) -> None:
        self._once.acquire()  # for good: whoever comes second waits for the end
        for _ in range(_ATTEMPTS):
            shutil.rmtree(self._folder, ignore_errors=True)
            if not self._folder.exists():
                break
            time.sleep(_BETWEEN_ATTEMPTS)  # a fit has just written there
        os._exit(0)


def _telling(answer: Callable[..., None]) -> Tell:
    """Tells of every new stage, and of progress a few times a second."""
    last: list[Any] = [0.0, None]

    def tell(fraction: float, message: str) -> None:
        now = time.monotonic()
        if message != last[1] or now - last[0] > _BETWEEN_REPORTS:
            last[:] = now, message
            answer(fraction=fraction, message=message)

    return tell


@contextmanager
def _warnings_kept() -> Iterator[list[str]]:
    """The sentences of the warnings inside the block, each once, when it is left."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        for category in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", category)
        yield said
    said += dict.fromkeys(said_by(w.message) if isinstance(w.message, Warning) else w.message for w in caught)


# A column with more different values is not shown as environments.
MOST_GROUPS = 200
_EXAMPLES = 3
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})([T ].*)?", re.ASCII)
_MANY_DECIMALS = re.compile(r"[+-]?\d+\.\d{5,}(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_MOSTLY = 0.9
# So many different values show whether a column holds dates.
_DATES_LOOKED_AT = 300
# PatientID is two words, patient_id too.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ID_WORD = re.compile(
    r"id|no|nr|number|index|key|code|row|mrn|uid|"
    r"(pat|patient|subj|subject|usubj|case|person|participant|sample|record|study|visit|user)(id|no|nr|number)"
)
_FEWEST_IDS = 10


def understand(file: TableFile) -> dict[str, Any]:
    """{"rows": N, "columns": [...]}, all of it as JSON has it; see `_column`."""
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
    doubt: why it is better no feature, or nothing; as_outcome: the model it would have and why, or nothing
    """
    name = str(values.name)
    counts = written.astype(str).where(written.notna()).value_counts(sort=False)
    numbers = raw.values[:, raw.names.index(name)]
    n_values = len(counts)
    dates = _are_dates(counts.index[:_DATES_LOOKED_AT])
    return {
        "name": name,
        "kind": "dates" if dates else _kind(name, numbers, raw, n_values),
        "examples": [_short(value) for value in counts.index[:_EXAMPLES]],
        "missing": int(written.isna().sum()),
        "n_values": n_values,
        "groups": _groups(counts) if n_values <= MOST_GROUPS else [],
        "doubt": for_shell(_doubt(name, numbers, raw, n_values, dates)),
        "as_outcome": _as_outcome(name, numbers, raw),
    }


def _groups(counts: pd.Series[int]) -> list[list[Any]]:
    """As environments they would be, in which 1 and 1.0 are the same."""
    rows: dict[Any, list[Any]] = {}
    for text, n in counts.items():
        rows.setdefault(parse_label(str(text)), [str(text), 0])[1] += int(n)
    return list(rows.values())


def _kind(name: str, numbers: Floats, raw: RawTable, n_values: int) -> str:
    if n_values == 0:
        return "empty"
    if name in raw.levels or name in raw.refused:
        return "text"
    present = numbers[~np.isnan(numbers)]
    if n_values == 2 and set(present) == {0.0, 1.0}:
        return "0 and 1"
    return "whole numbers" if (present == np.rint(present)).all() else "numbers"


def _short(text: object) -> str:
    """Of a number with many decimals some of them."""
    written = str(text)
    return f"{float(written):.5g}" if _MANY_DECIMALS.fullmatch(written) else written


def _doubt(name: str, numbers: Floats, raw: RawTable, n_values: int, dates: bool) -> str:
    if n_values == 0:
        return "has no values"
    if n_values == 1:
        return "has one value only"
    if dates:
        return "looks like dates, which are no features as they are"
    if name in raw.refused:
        return raw.refused[name].reason
    if name in raw.levels:
        refusal = doubtful(name, raw.levels[name], len(numbers))
        return "" if refusal is None else refusal.reason
    return "looks like an ID or a row number: no two rows share a value" if _are_ids(name, numbers) else ""


def _are_dates(texts: Any) -> bool:
    return len(texts) > 0 and sum(_DATE.fullmatch(str(text)) is not None for text in texts) >= _MOSTLY * len(texts)


def _are_ids(name: str, numbers: Floats) -> bool:
    """Whole numbers, all different, that are called so or leave out none."""
    if len(numbers) < _FEWEST_IDS or np.isnan(numbers).any() or (numbers != np.rint(numbers)).any():
        return False
    if len(np.unique(numbers)) < len(numbers):
        return False
    words = (word.lower() for word in _WORD.findall(name))
    return any(map(_ID_WORD.fullmatch, words)) or np.ptp(numbers) == len(numbers) - 1


def _as_outcome(name: str, numbers: Floats, raw: RawTable) -> list[str]:
    present = numbers[~np.isnan(numbers)]
    if name in raw.refused or len(present) == 0:
        return []
    classes = raw.levels[name].texts if name in raw.levels else None
    if classes is not None and len(classes) != 2:
        return []
    return _model(outcome_kind(present, name, classes=None if classes is None else (classes[0], classes[1])))


def with_beside(outcome: str, event: str | None, exposure: str | None) -> list[str]:
    """As `as_outcome` of a column, where another one comes with it."""
    return _model(outcome_kind(np.empty(0), outcome, event, exposure))


def _model(kind: OutcomeKind) -> list[str]:
    return [FAMILY_OF_KIND[kind.kind].replace("_", " ").replace("gaussian", "Gaussian"), kind.reason]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
