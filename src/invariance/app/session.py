"""What one run of the page knows: its folder, its worker, the table, the choices and the fits."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from starlette.datastructures import ImmutableMultiDict

from ..cli.options import FitOptions
from .worker import DONE, RUNNING, Job, Worker

Fields = ImmutableMultiDict[str, str]


@dataclass
class Table:
    """name : as it came; file : where it is kept, if need be under a plainer name; written : how, where it does not
    show, as the fields of `FileOptions`; found : what `understand` tells of it; id : of this reading of it"""

    name: str
    file: Path
    written: dict[str, str]
    found: dict[str, Any]
    id: str = field(default_factory=lambda: secrets.token_hex(8))


@dataclass
class Run:
    """A fit; folder : of its report and its script"""

    table: Table
    choices: FitOptions
    job: Job
    folder: Path

    @property
    def id(self) -> str:
        return self.folder.name


class Session:
    """One table and one fit at a time. runs : all fits by their ids, the newest last; form : the fields as they were
    last sent; notice : said once, on the next page"""

    def __init__(self, folder: Path, worker: Worker) -> None:
        self.folder = folder
        self.worker = worker
        self.table: Table | None = None
        self.runs: dict[str, Run] = {}
        self.form = Fields()
        self.notice = ""

    def latest(self, *states: str) -> Run | None:
        """The latest fit, in one of these states if there are any."""
        return next((run for run in reversed(self.runs.values()) if not states or run.job.state in states), None)

    @property
    def running(self) -> Run | None:
        return self.latest(RUNNING)

    @property
    def result(self) -> Run | None:
        return self.latest(DONE)

    def keep(self, table: Table) -> None:
        """In the place of the one before, of which nothing but reports is left."""
        if self.table is not None and self.table.file != table.file:
            discard(self.table.file)
        self.table, self.form = table, Fields()

    def start(self, table: Table, choices: FitOptions) -> Run:
        """Raises BusyError while another fit is running."""
        folder = Path(mkdtemp(dir=self.folder))
        job = self.worker.submit("fit", file=table.file, name=table.name, choices=choices, folder=folder)
        run = self.runs[folder.name] = Run(table, choices, job, folder)
        return run

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
