"""The process that reads tables and fits: always at hand, killed to cancel, replaced when it is gone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DIED = (
    "The process that computes has ended before its answer, perhaps for want of memory. A new one is at hand: try "
    "again, with fewer features or rows if it happens again."
)
RUNNING, DONE, FAILED, CANCELLED = "running", "done", "failed", "cancelled"


class BusyError(Exception):
    """One task at a time."""


@dataclass
class Job:
    """A task that the worker was given, as far as it is known here; error: a sentence."""

    task: str
    state: str = RUNNING
    fraction: float = 0.0
    message: str = ""
    error: str = ""
    result: dict[str, Any] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    ended: threading.Event = field(default_factory=threading.Event)

    def end(self, state: str, *, error: str = "", result: dict[str, Any] | None = None) -> None:
        self.state, self.error, self.result = state, error, result or {}
        self.ended.set()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


class Worker:
    """One process of :mod:`invariance.app.tasks`, and the job it has. Lines of JSON go to it and come back.

    It is no daemon of multiprocessing, inside which joblib would use one thread, but has a session of its own: an
    interrupt typed at the terminal does not reach it, and what it starts is killed with it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._job: Job | None = None
        self._process: subprocess.Popen[str] | None = self._started()

    @property
    def job(self) -> Job | None:
        """The latest."""
        return self._job

    def submit(self, task: str, **arguments: Any) -> Job:
        with self._lock:
            if self._job is not None and self._job.state == RUNNING:
                raise BusyError
            process = self._process = self._process or self._started()
            job = self._job = Job(task)
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps({"task": task, **arguments}) + "\n")
            process.stdin.flush()
        except OSError:
            pass  # it has just died, which its listener sees
        return job

    def cancel(self) -> None:
        """Whatever it does is given up; a new process takes its place."""
        with self._lock:
            job, process, self._process = self._job, self._process, self._started()
        _kill(process)
        if job is not None and job.state == RUNNING:
            job.end(CANCELLED)

    def close(self) -> None:
        with self._lock:
            job, process, self._process = self._job, self._process, None
        _kill(process)
        if job is not None and job.state == RUNNING:
            job.end(CANCELLED)

    def _started(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "invariance.app.tasks", str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            cwd=self._folder,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        return process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with self._lock:
                job = self._job if process is self._process else None
            if job is not None:
                _note(job, json.loads(line))
        process.wait()
        with self._lock:
            if process is not self._process:
                return
            job = self._job if self._job is not None and self._job.state == RUNNING else None
            # Not at once where it died idle: what cannot start would be started again and again.
            self._process = None if job is None else self._started()
        if job is not None:
            job.end(FAILED, error=DIED)


def _note(job: Job, event: dict[str, Any]) -> None:
    match event:
        case {"fraction": fraction, "message": message}:
            job.fraction, job.message = fraction, message
        case {"error": error}:
            job.end(FAILED, error=error)
        case {"result": result}:
            job.end(DONE, result=result)


def _kill(process: subprocess.Popen[str] | None) -> None:
    """With all that it started."""
    if process is None:
        return
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except ProcessLookupError:
        pass
    process.wait()
