"""What importing the package costs, and that compiled code is kept between processes."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import invariance


def run(*arguments: str, **options: Any) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=600, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.integration
def test_import_loads_and_compiles_nothing() -> None:
    heavy = "{'numba', 'sklearn', 'pandas', 'numpy', 'matplotlib', 'rich', 'typer'}"
    assert run("-c", f"import sys, invariance; print({heavy} & set(sys.modules))") == "set()"


def test_every_public_name_is_there() -> None:
    for name in invariance.__all__:
        assert getattr(invariance, name) is not None
    assert set(dir(invariance)) == set(invariance.__all__)
    completed = {name for name in vars(invariance) if not name.startswith("_")}
    modules = {path.stem for path in Path(invariance.__file__).parent.iterdir()}
    assert completed - modules == {*invariance.__all__} - modules - {"__version__"}
    with pytest.raises(AttributeError, match="Bip"):
        _ = invariance.Bip


def test_messages_name_the_extra_that_brings_what_is_needed() -> None:
    extras = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
    found = set()
    for path in Path(invariance.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        found |= set(
            re.findall(r"(\w+)(?:\}|\w)?: pip install 'invariant-prediction\[(\w+)\]'", text)
        )
    assert len(found) > 7
    brought = {extra: " ".join(names) for extra, names in extras.items()}
    named = {"PyTorch": "torch", "Parquet": "pyarrow", "name": "starlette", "Dask": "dask"}
    assert {pair for pair in found if named.get(pair[0], pair[0]) not in brought[pair[1]]} == set()


@pytest.mark.integration
def test_second_process_does_not_compile() -> None:
    """Fit once so that the cache is warm, then count compilations in a new process."""
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


@pytest.mark.integration
@pytest.mark.integration
def test_sizes_of_files_need_no_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("src/invariance", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "src/invariance/__init__.py").write_text("import what_is_not_installed\n")
    monkeypatch.setattr(sys, "argv", ["size.py", str(tmp_path)])
    with pytest.raises(SystemExit, match="No module named 'what_is_not_installed'"):
        runpy.run_path("scripts/size.py", run_name="__main__")
    assert (
        "package, syntax nodes                                      3\n" in capsys.readouterr().out
    )


def test_no_generated_example_has_a_deadline() -> None:
    assert settings.default.deadline is None


def test_a_command_ends_without_looking_for_garbage() -> None:
    lines = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0))\n"
    lines += "from invariance.__main__ import main; main()"
    assert run("-c", lines, "--version").splitlines()[-1] == "True"
