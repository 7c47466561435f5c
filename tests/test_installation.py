"""A wheel, built of a source distribution and installed in an environment of its own."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks._installed import ROOT, built_wheel, installed

pytest.importorskip("hatchling", reason="needs pip install 'invariant-prediction[test]'")
from hatchling.builders.wheel import WheelBuilder

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        sys.platform != "linux",
        reason="takes the right to write from the administrator, as on Linux",
    ),
]
# A fit, and some of other kinds; functions that have to be compiled are told.
FIT = """
import numpy as np
from numba.core import event

class Listener(event.Listener):
    def on_start(self, compiled):
        print("COMPILED", compiled.data["dispatcher"].py_func.__qualname__)

    def on_end(self, compiled): ...

event.register("numba:compile", Listener())
from invariance import BIP, BIPClassifier, BIPSurvival
from invariance.datasets import make_example

print(BIP().fit(make_example()).selected_features_)
"""
FURTHER = """
rng, site = np.random.default_rng(0), np.arange(240) % 4
X = rng.normal(size=(240, 30))
y = X[:, 0] + rng.normal(size=240)
BIP(engine="tempering", random_state=0).fit(X, y, environments=site)
BIPClassifier().fit(X[:, :5], y > 0, environments=site)
BIPSurvival().fit(X[:, :5], np.exp(y), environments=site, event=y < 2)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its package cannot be written to."""
    folder = tmp_path_factory.mktemp("installation")
    wheel = built_wheel(folder)
    assert wheel.name.startswith("invariant_prediction-")
    assert not wheel.name.endswith("-any.whl")
    found = installed(wheel, folder / "environment")
    for path in found.parents[1].glob("lib/python*/site-packages/**/"):
        path.chmod(0o555)
    return found


def start(python: Path, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Without a home, and without an administrator's right to write everywhere."""

    def drop_right_to_write() -> None:
        ctypes.CDLL(None).prctl(24, 1)  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE

    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [str(python), *arguments]
    return subprocess.Popen(
        command, env=environment, cwd=folder, text=True, preexec_fn=drop_right_to_write, **pipes
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "rounds"),
    [(1, 1), (8, 1), (2, 20), (8, 20)],
    ids=["one", "eight", *2 * ["rounds"]],
)
def test_a_read_only_installation_compiles_nothing(
    python: Path, tmp_path: Path, processes: int, rounds: int
) -> None:
    """And warns of nothing. All kinds of fits by one process; the first of them by several that
    start at once."""
    lines = ["-W", "error::UserWarning", "-c", FIT + (FURTHER if processes == 1 else "")]
    for _ in range(rounds):
        started = [start(python, tmp_path, *lines) for _ in range(processes)]
        for process in started:
            assert process.communicate(timeout=600) == ("('age', 'exercise', 'smoking')\n", "")
            assert process.returncode == 0


@pytest.mark.slow
def test_the_command_and_the_name(python: Path, tmp_path: Path) -> None:
    """And what cannot be written to stays as it is."""
    lines = (
        "import invariance, importlib.metadata as m; print(invariance.__file__, "
        "m.version('invariant-prediction'))"
    )
    file, version = start(python, tmp_path, "-c", lines).communicate()[0].split()
    assert Path(file).is_relative_to(python.parents[1])
    command = start(python, tmp_path, str(python.with_name("invariance")), "--version")
    assert command.communicate()[0] == f"invariance {version}\n"
    writes = f"open({str(Path(file).with_name('new'))!r}, 'w')"
    assert "PermissionError" in start(python, tmp_path, "-c", writes).communicate()[1]


@pytest.mark.parametrize("why", ["asked for", "compiling fails"])
def test_a_wheel_for_all_machines(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        assert command[-2:] == ["warmup", "--all"]
        return subprocess.CompletedProcess(command, int(why == "compiling fails"))

    monkeypatch.setattr(subprocess, "run", fails)
    monkeypatch.setenv("HATCH_BUILD_NO_HOOKS", str(why == "asked for").lower())
    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    assert wheel.endswith("-py3-none-any.whl")
    files = zipfile.ZipFile(wheel).namelist()
    assert "invariance/kernels/compiled.py" in files
    assert not [file for file in files if "__pycache__" in file]
