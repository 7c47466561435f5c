"""What one run of the page knows: its folder, its worker, the table, the choices and the fit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from .choices import Choices
from .worker import RUNNING, Job, Worker


@dataclass
class Table:
    """file: under the name it came with; written: how, where it does not show, as the fields of `FileOptions`; found:
    what `understand` tells of it"""

    file: Path
    written: dict[str, str]
    found: dict[str, Any]

    @property
    def names(self) -> list[str]:
        return [column["name"] for column in self.found["columns"]]


@dataclass
class Run:
    """A fit: what was chosen, and how far it is; folder: where its report and its script are"""

    choices: Choices
    job: Job
    folder: Path


class Session:
    """One table and one fit at a time. form: the fields as they were last sent; notice: said once, on the next page."""

    def __init__(self, folder: Path, worker: Worker) -> None:
        self.folder = folder
        self.worker = worker
        self.table: Table | None = None
        self.run: Run | None = None
        self.form: list[tuple[str, str]] = []
        self.notice = ""

    def keep(self, table: Table) -> None:
        """In the place of the one before, of which nothing is left."""
        if self.table is not None:
            shutil.rmtree(self.table.file.parent, ignore_errors=True)
        self.table, self.run, self.form = table, None, []

    def look(self, file: Path, written: dict[str, str]) -> Job:
        """Read a table; raises BusyError while a fit is running."""
        self._make_way()
        return self.worker.submit("look", file=str(file), written=written)

    def start(self, table: Table, choices: Choices) -> None:
        """Fit; raises BusyError while another fit is running."""
        self._make_way()
        folder = Path(mkdtemp(dir=self.folder))
        choices = replace(choices, written=table.written)
        arguments = {"file": str(table.file), "choices": vars(choices), "folder": str(folder)}
        self.run = Run(choices, self.worker.submit("fit", **arguments), folder)

    def _make_way(self) -> None:
        """A table that is still being read is given up; a fit is not."""
        job = self.worker.job
        if job is not None and job.task == "look" and job.state == RUNNING:
            self.worker.cancel()

    def take_notice(self) -> str:
        notice, self.notice = self.notice, ""
        return notice


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
