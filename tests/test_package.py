"""What importing the package costs, that compiled code is kept between processes, and that small problems need none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import invariance


def run(*arguments: str, **options: Any) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.integration
def test_import_loads_and_compiles_nothing() -> None:
    heavy = "{'numba', 'sklearn', 'pandas', 'numpy', 'matplotlib', 'rich', 'typer'}"
    assert run("-c", f"import sys, invariance; print({heavy} & set(sys.modules))") == "set()"


def test_every_public_name_is_there() -> None:
    for name in invariance.__all__:
        assert getattr(invariance, name) is not None
    assert {*invariance._HOMES, "__version__"} == set(invariance.__all__)
    with pytest.raises(AttributeError, match="module 'invariance' has no attribute 'Bip'"):
        _ = invariance.Bip


@pytest.mark.integration
def test_second_process_does_not_compile() -> None:
    """Fit once so that the cache is warm, then count compilations in a new process. Fewer columns need no kernel."""
    fit = """
import numpy as np
from invariance import BIP
rng = np.random.default_rng(0)
X, site = rng.normal(size=(120, 13)), np.arange(120) % 3
BIP().fit(X, X[:, 0] + rng.normal(size=120), environments=site)
"""
    count = """
from invariance.kernels import elementary, row_residuals, subset_sums, subset_tree
modules = elementary, row_residuals, subset_sums, subset_tree
functions = [f for module in modules for f in vars(module).values() if hasattr(f, "stats")]
for kind in ("cache_misses", "cache_hits"):
    print(sum(sum(getattr(f.stats, kind).values()) for f in functions))
"""
    exec(fit, {})
    misses, hits = map(int, run("-c", fit + count).split())
    assert misses == 0 < hits


# ---- the first answer after an installation

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


@pytest.mark.integration
def test_a_small_problem_compiles_nothing(tmp_path: Path) -> None:
    """By the estimator and by the command line, in one process."""
    table = tmp_path / "table.csv"
    messy_table().to_csv(table, index=False)
    (tmp_path / "run.py").write_text(LISTENING + ESTIMATOR + COMMAND)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONWARNINGS": "ignore"}
    printed = run(str(tmp_path / "run.py"), str(table), env=environment)
    assert printed.count("verdict  ") == 2
    assert "COMPILED" not in printed


@pytest.mark.integration
def test_a_command_ends_without_looking_for_garbage() -> None:
    lines = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0))\n"
    lines += "from invariance.__main__ import main; main()"
    assert run("-c", lines, "--version").splitlines()[-1] == "True"
