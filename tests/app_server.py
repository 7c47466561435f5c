"""The local page as its own process, as people start it."""

from __future__ import annotations

import html
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass
class RunningApp:
    process: subprocess.Popen[str]
    address: str
    temporary: Path

    @property
    def folder(self) -> Path:
        """Of the session."""
        (folder,) = self.temporary.glob("invariance-*")
        return folder

    @property
    def worker(self) -> int:
        """The process of the page that computes."""
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        started = [pid for file in children for pid in file.read_text().split()]
        (worker,) = (
            int(pid)
            for pid in started
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        return worker

    def end(self, number: int = signal.SIGTERM) -> str:
        """What it prints after a signal; it must end by itself."""
        self.process.send_signal(number)
        return self.process.communicate(timeout=600)[0]


@contextmanager
def running_app(temporary: Path, *arguments: str) -> Iterator[RunningApp]:
    """With `temporary` as the place of temporary files, on one core: a fit that is to go on does so
    on any machine."""
    for needed in ("starlette", "uvicorn", "jinja2", "python_multipart"):
        pytest.importorskip(needed, reason="needs pip install 'invariant-prediction[app]'")
    command = [sys.executable, "-m", "invariance", "app", "--no-browser", *arguments]
    env = {
        **os.environ,
        "TMPDIR": str(temporary),
        "PYTHONUNBUFFERED": "1",
        "LOKY_MAX_CPU_COUNT": "1",
    }
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
    )
    assert process.stdout is not None
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            found = re.search(r"http://127\.0\.0\.1:\d+/[\w-]+/", line)
            if found:
                break
        else:
            pytest.fail(f"no address: {''.join(lines)}")
        yield RunningApp(process, found[0], temporary)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=600)


def wait_until(what: object, seconds: float = 600.0) -> None:
    """Until the function gives something true."""
    end = time.monotonic() + seconds
    while not what():  # type: ignore[operator]
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.05)


def notice(answer: Any) -> str:
    """What a page warns of."""
    found = re.search(r'<div class="notice" role="alert"><p>(.*?)</p>', answer.text, re.DOTALL)
    return html.unescape(found[1]) if found else ""


def bring(client: Any, content: bytes | str, name: str = "table.csv", **form: str) -> Any:
    return client.post("table", files={"file": (name, content)}, data=form)


def table_id(answer: Any) -> str:
    return re.search(r'name="table" value="(\w+)"', answer.text)[1]
