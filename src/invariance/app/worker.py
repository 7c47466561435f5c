"""The process that reads tables and fits: killed to cancel, replaced when it is gone."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from .tasks import work

DIED = (
    "The process that computes has ended before its answer, perhaps for want of memory. A new one is at hand: try "
    "again, with fewer features or rows if it happens again."
)
RUNNING, DONE, FAILED, CANCELLED = "running", "done", "failed", "cancelled"
_SPAWN = get_context("spawn")


class BusyError(Exception):
    """One fit at a time."""


@dataclass
class Job:
    """A task of the worker; error : a sentence"""

    task: str
    state: str = RUNNING
    fraction: float = 0.0
    message: str = ""
    error: str = ""
    result: dict[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    ended: threading.Event = field(default_factory=threading.Event)

    def end(self, state: str, *, error: str = "", result: dict[str, Any] | None = None) -> None:
        """The first end counts."""
        if not self.ended.is_set():
            self.state, self.error, self.result = state, error, result or {}
            self.ended.set()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def listen(self, connection: Any) -> None:
        """Follow what the process tells, until the end."""
        try:
            while self.state == RUNNING:
                match connection.recv():
                    case float(fraction), str(message):
                        self.fraction, self.message = fraction, message
                    case str(error):
                        self.end(FAILED, error=error)
                    case result:
                        self.end(DONE, result=result)
        except (EOFError, OSError):
            self.end(FAILED, error=DIED)


class Worker:
    """One process of `invariance.app.tasks`, and its latest job. It is no daemon, in which joblib would use one
    thread."""

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
        """A table that is still being read is given up; a fit is not."""
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
