"""The benchmark of two revisions."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def revisions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import revisions

    yield revisions
    for name in ("revisions", "_harness"):
        sys.modules.pop(name, None)


class Scripted:
    """A revision that answers the same at every call, and says when it was asked."""

    def __init__(self, name: str, answer: list[float] | str, asked: list[str]) -> None:
        self._name = name
        self._answer = answer
        self._asked = asked

    def ask(self, operation: str) -> None:
        self._asked.append(self._name)

    def answer(self) -> list[float] | str:
        return self._answer


def test_revisions_take_turns_and_their_times_are_divided(revisions):
    asked: list[str] = []
    base = Scripted("base", [0.2, 0.1, 0.4], asked)
    now = Scripted("now", [0.2, 0.4, 0.8], asked)
    found = revisions.compared(base, now, "fit", 2)
    assert asked == ["base", "now", "now", "base", "base", "now"]
    assert revisions.cells("fit", found) == ("fit", "100.0", "200.0", "2.00", "2.00")


def test_what_one_revision_cannot_do_is_reported(revisions):
    asked: list[str] = []
    found = revisions.compared(
        Scripted("base", "TypeError", asked), Scripted("now", [0.1], asked), "fit", 3
    )
    assert revisions.cells("fit", found) == ("fit", "TypeError", "100.0", "", "")
    assert asked == ["base", "now", "now", "now", "now"]


@pytest.mark.integration
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a git checkout")
def test_the_last_commit_beside_this_checkout():
    command = [
        sys.executable,
        "benchmarks/revisions.py",
        "HEAD",
        "--features",
        "4",
        "--rounds",
        "1",
    ]
    done = subprocess.run(
        [*command, "--only", "import"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (row,) = (line for line in done.stdout.splitlines() if line.startswith("| import"))
    assert np.isfinite([float(cell) for cell in row.split("|")[2:6]]).all()
