"""What one run of the page knows: its folder, its worker, the table, the choices and the fit."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from .choices import Choices
from .worker import DONE, RUNNING, BusyError, Job, Worker

# Of the latest fits so many can still be read and downloaded.
MOST_RUNS = 5


@dataclass
class Table:
    """name: as it came; file: where it is kept, if need be under a plainer name; written: how, where it does not show,
    as the fields of `FileOptions`; found: what `understand` tells of it; id: of this reading of it"""

    name: str
    file: Path
    written: dict[str, str]
    found: dict[str, Any]
    id: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def names(self) -> list[str]:
        return [column["name"] for column in self.found["columns"]]


@dataclass
class Run:
    """A fit: of what, what was chosen, and how far it is; folder: where its report and its script are"""

    table: Table
    choices: Choices
    job: Job
    folder: Path

    @property
    def id(self) -> str:
        return self.folder.name


class Session:
    """One table and one fit at a time. runs: the latest fits by their ids, the newest last; form: the fields as they
    were last sent; notice: said once, on the next page."""

    def __init__(self, folder: Path, worker: Worker) -> None:
        self.folder = folder
        self.worker = worker
        self.table: Table | None = None
        self.runs: dict[str, Run] = {}
        self.form: list[tuple[str, str]] = []
        self.notice = ""

    @property
    def running(self) -> Run | None:
        return next((run for run in self.runs.values() if run.job.state == RUNNING), None)

    @property
    def latest(self) -> Run | None:
        return next(reversed(self.runs.values()), None)

    @property
    def result(self) -> Run | None:
        """The latest that has ended well."""
        return next((run for run in reversed(self.runs.values()) if run.job.state == DONE), None)

    def keep(self, table: Table) -> None:
        """In the place of the one before, of which nothing but reports is left."""
        if self.table is not None and self.table.file != table.file:
            discard(self.table.file)
        self.table, self.form = table, []

    def look(self, file: Path, written: dict[str, str]) -> Job:
        """Read a table; raises BusyError while a fit is running."""
        self._make_way()
        return self.worker.submit("look", file=str(file), written=written)

    def start(self, table: Table, choices: Choices) -> Run:
        """Fit; raises BusyError while another fit is running."""
        if self.running is not None:
            raise BusyError
        self._make_way()
        folder = Path(mkdtemp(dir=self.folder))
        choices = replace(choices, written=table.written)
        arguments = {"file": str(table.file), "name": table.name, "choices": vars(choices), "folder": str(folder)}
        run = Run(table, choices, self.worker.submit("fit", **arguments), folder)
        self.runs[run.id] = run
        for old in list(self.runs.values())[:-MOST_RUNS]:
            shutil.rmtree(self.runs.pop(old.id).folder, ignore_errors=True)
        return run

    def _make_way(self) -> None:
        """A table that is still being read is given up; a fit is not."""
        job = self.worker.job
        if job is not None and job.task == "look" and job.state == RUNNING:
            self.worker.cancel()

    def take_notice(self) -> str:
        notice, self.notice = self.notice, ""
        return notice


def discard(file: Path) -> None:
    """A table, with the folder that was made for it."""
    shutil.rmtree(file.parent, ignore_errors=True)


@contextmanager
def open_session() -> Iterator[Session]:
    """With a folder that is nobody else's (0700); both are gone after the block."""
    folder = Path(mkdtemp(prefix="invariance-"))
    try:
        worker = Worker(folder)
        try:
            yield Session(folder, worker)
        finally:
            worker.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
