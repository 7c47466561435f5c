"""The state of one run of the page: folder, table, choices and fits; and the worker process."""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from .._tools.arrays import Fields
from ..cli.options import FitOptions
from ..data.check import DataCheck
from .choices import Form
from .tasks import work

DIED = (
    "The process that computes has ended before its answer, perhaps for want of memory: try "
    "fewer features or rows."
)
RUNNING = "running"
DONE = "done"
FAILED = "failed"
CANCELLED = "cancelled"
_SPAWN = get_context("spawn")


class BusyError(Exception):
    """One fit at a time."""


@dataclass
class Job:
    """Describe a task of the worker; error : a sentence."""

    task: str
    state: str = RUNNING
    fraction: float = 0.0
    message: str = ""
    error: str = ""
    result: Fields = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    ended: threading.Event = field(default_factory=threading.Event)

    def end(self, state: str, *, error: str = "", result: Fields | None = None) -> None:
        """End the job; only the first end counts."""
        if not self.ended.is_set():
            self.state = state
            self.error = error
            self.result = result or {}
            self.ended.set()

    def listen(self, connection: Any) -> None:
        """Follow the messages of the process until the end."""
        try:
            while self.state == RUNNING:
                match connection.recv():
                    case float(fraction), str(message):
                        self.fraction = fraction
                        self.message = message
                    case str(error):
                        self.end(FAILED, error=error)
                    case result:
                        self.end(DONE, result=result)
        except (EOFError, OSError):
            self.end(FAILED, error=DIED)


class Worker:
    """One process of `invariance.app.tasks`, and its latest job; no daemon, in which joblib would
    use one thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.job: Job | None = None
        self._start()

    def _start(self) -> None:
        self._connection, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=work, args=(theirs, self._folder))
        self._process.start()
        theirs.close()

    def submit(self, task: str, **arguments: Any) -> Job:
        """Submit a task; reading a table is cancelled by it, a fit is not."""
        if self.job is not None and self.job.state == RUNNING:
            if self.job.task == "fit":
                raise BusyError
            self.cancel()
        if not self._process.is_alive():
            self._start()
        self.job = job = Job(task)
        threading.Thread(target=job.listen, args=(self._connection,), daemon=True).start()
        with suppress(OSError):  # it has just died, which the job learns
            self._connection.send((task, arguments))
        return job

    def cancel(self) -> None:
        self.close()
        self._start()

    def close(self) -> None:
        if self.job is not None:
            self.job.end(CANCELLED)
        self._process.kill()
        self._process.join()


@dataclass
class Table:
    """Describe a table.

    name : as it was sent; file : its path; written : fields of `FileOptions` that were stated;
    settings : of PREDICTING; result : of `tasks.look` or `tasks.predict`, empty if `error` has the
        reason;
    id : of this reading
    """

    name: str
    file: Path
    written: dict[str, str]
    settings: dict[str, str] = field(default_factory=dict)
    result: Fields = field(default_factory=dict)
    error: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def found(self) -> DataCheck:
        return self.result["found"]

    @property
    def columns(self) -> list[str]:
        return [column.name for column in self.found.columns] if self.result else []


@dataclass
class Run:
    """Describe a fit.

    folder : its files can be downloaded; second : the table that was predicted last
    """

    id: str
    table: Table
    choices: FitOptions
    job: Job
    folder: Path
    second: Table | None = None


@dataclass
class Session:
    """One table and one fit at a time. runs : all fits by their ids, the newest last; form : the
    choices; problem : why they could not be fitted, until they are fitted again; notice : said
    once, on the next page"""

    folder: Path
    worker: Worker
    table: Table | None = None
    runs: dict[str, Run] = field(default_factory=dict)
    form: Form = field(default_factory=Form)
    problem: str = ""
    notice: str = ""

    def latest(self, state: str | None = None) -> Run | None:
        """Return the latest fit, in this state if one is given."""
        return next(
            (run for run in reversed(self.runs.values()) if state in (None, run.job.state)), None
        )

    @property
    def read(self) -> Table | None:
        """Return the table, if it could be read."""
        return self.table if self.table is not None and self.table.result else None

    def keep(self, table: Table) -> None:
        """Replace the table; of the previous one only reports remain.

        Choices stay for the same columns.
        """
        before = self.table
        if before is not None and before.file != table.file:
            discard(before.file)
            self.problem = ""
        if before is None or before.file != table.file or before.columns != table.columns:
            self.form = Form()
        self.table = table

    def start(self, table: Table, choices: FitOptions) -> Run:
        """Raises BusyError while another fit is running."""
        folder = Path(mkdtemp(dir=self.folder))
        job = self.worker.submit(
            "fit", file=table.file, name=table.name, choices=choices, folder=folder
        )
        self.problem = ""
        run = self.runs[folder.name] = Run(folder.name, table, choices, job, folder)
        return run

    def take_notice(self) -> str:
        notice = self.notice
        self.notice = ""
        return notice


def discard(file: Path) -> None:
    """Delete a table, with the folder that was made for it."""
    shutil.rmtree(file.parent, ignore_errors=True)


@contextmanager
def open_session() -> Iterator[Session]:
    """Open a session with a private folder (0700); both are deleted after the block."""
    with TemporaryDirectory(prefix="invariance-", ignore_cleanup_errors=True) as folder:
        worker = Worker(Path(folder))
        try:
            yield Session(Path(folder), worker)
        finally:
            worker.close()
