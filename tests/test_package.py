"""What importing the package costs, and that compiled code is kept between processes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import invariance


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.integration
def test_import_loads_and_compiles_nothing() -> None:
    heavy = "{'numba', 'sklearn', 'pandas', 'numpy', 'matplotlib', 'rich', 'typer'}"
    assert run(f"import sys, invariance; print({heavy} & set(sys.modules))") == "set()"


def test_every_public_name_is_there() -> None:
    for name in invariance.__all__:
        assert getattr(invariance, name) is not None
    assert {*invariance._HOMES, "__version__"} == set(invariance.__all__)
    with pytest.raises(AttributeError, match="module 'invariance' has no attribute 'Bip'"):
        _ = invariance.Bip


@pytest.mark.integration
def test_second_process_does_not_compile() -> None:
    """Fit once so that the cache is warm, then count compilations in a new process. Fewer columns need no kernel."""
    script = """
import numpy as np
from invariance import BIP
from invariance.kernels import elementary, row_residuals, subset_sums, subset_tree
rng = np.random.default_rng(0)
X, site = rng.normal(size=(120, 13)), np.arange(120) % 3
BIP().fit(X, X[:, 0] + rng.normal(size=120), environments=site)
functions = [f for m in (elementary, row_residuals, subset_sums, subset_tree)
             for f in vars(m).values() if hasattr(f, "stats")]
for kind in ("cache_misses", "cache_hits"):
    print(sum(sum(getattr(f.stats, kind).values()) for f in functions))
"""
    run(script)
    misses, hits = map(int, run(script).split())
    assert misses == 0
    assert hits > 0


def test_example_data_is_fixed() -> None:
    from invariance.datasets import make_example

    data = make_example()
    assert data.feature_names[np.flatnonzero(data.truth)[0]] == "age"
    np.testing.assert_array_equal(data.X, make_example().X)
    assert data.counts.tolist() == [150] * 4
