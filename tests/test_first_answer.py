"""The first answer after an installation: small problems do not wait for a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.integration

LISTENING = """
import sys
from numba.core import event

class Listener(event.Listener):
    def on_start(self, compiled):
        print("COMPILED", compiled.data["dispatcher"].py_func.__qualname__)

    def on_end(self, compiled): ...

event.register("numba:compile", Listener())
"""
ESTIMATOR = """
import matplotlib
matplotlib.use("Agg")
import pandas as pd
from invariance import BIP
from invariance.posterior.plots import plot_inclusion

table = pd.read_csv(sys.argv[1])
model = BIP().fit(table.drop(columns=["y", "site"]), table["y"], environments=table["site"])
print(model.summary(), model.diagnose())
plot_inclusion(model.posterior_)
for kind in ("environments", "coefficients", "frontier", "subsets"):
    model.plot(kind)
model.predict(table.drop(columns=["y", "site"]))
"""
COMMAND = """
from invariance.cli.main import app

app(["fit", sys.argv[1], "--outcome", "y", "--environment", "site"])
"""


def messy_table() -> pd.DataFrame:
    """Twelve columns and an outcome in four sites, some of them dependent on others."""
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(4), 60)
    X = rng.normal(size=(240, 12)) + rng.normal(size=(4, 12))[site]
    y = X[:, 0] - X[:, 1] + rng.normal(size=240)
    X[:, 2] = y * np.array([1.0, -1.0, 0.5, 2.0])[site] + rng.normal(size=240)
    X[:, 10] = X[:, 8] + X[:, 9]
    X[site == 0, 11] = 1.0
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(12)]).assign(y=y)
    return table.assign(site=np.array(list("abcd"))[site])


@pytest.mark.parametrize("face", [ESTIMATOR, COMMAND], ids=["estimator", "command line"])
def test_a_small_problem_compiles_nothing(tmp_path: Path, face: str):
    table = tmp_path / "table.csv"
    messy_table().to_csv(table, index=False)
    (tmp_path / "run.py").write_text(LISTENING + face)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "run.py", str(table)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "x0" in done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith("COMPILED")] == []


def test_a_command_ends_without_looking_for_garbage() -> None:
    lines = """
import atexit, gc, sys
atexit.register(lambda: print(gc.get_freeze_count() > 0))
sys.argv = ["invariance", "--version"]
from invariance.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"
