"""What the worker process does: tasks come as lines of JSON on standard input, answers go to standard output."""

from __future__ import annotations

import json
import os
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
from typing import Any

from ...exceptions import DataError, InvarianceError
from ..cli.advice import for_command_line

_BETWEEN_REPORTS = 0.1
_ATTEMPTS, _BETWEEN_ATTEMPTS = 50, 0.1

Tell = Callable[[float, str], None]


def look(tell: Tell, file: str, written: dict[str, str]) -> dict[str, Any]:
    from ..cli.inputs import FileOptions
    from ..cli.streaming import too_large
    from .understanding import understand

    tell(0.0, "reading the table")
    options = FileOptions(**written)
    crowded = too_large(Path(file), options)
    if crowded is not None:
        raise DataError(f"{crowded} The command line reads it in pieces.")
    return understand(options.open(Path(file)))


def fit(tell: Tell, file: str, name: str, choices: dict[str, Any], folder: str) -> dict[str, Any]:
    """Fit, and leave the report and the script, which calls the file by this name, in the folder."""
    from ..cli.inputs import notes
    from .choices import Choices
    from .script import REPORT, SCRIPT, script

    chosen = Choices(**choices)
    model = chosen.model().set_params(progress=tell)
    tell(0.0, "reading the table")
    data = chosen.table().read(Path(file), chosen.outcome, chosen.environment)
    model.fit_data(data)
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

    from ...estimators import bip  # noqa: F401  # so that it is at hand when the first task comes

    while True:
        task = tasks.get()
        try:
            with _warnings_kept() as said:
                result = TASKS[task.pop("task")](_telling(answer), **task)
            answer(result=result | {"warnings": said})
        except InvarianceError as error:
            answer(error=for_command_line(str(error)))
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
    said += dict.fromkeys(for_command_line(str(warning.message)) for warning in caught)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
