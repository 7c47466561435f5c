"""Where compiled code is kept, and when it is compiled again."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
import warnings
from pathlib import Path
from types import ModuleType

import numba
import numpy as np
import pytest

from invariance.exceptions import InvarianceWarning
from invariance.kernels import compiled

HELPER = (
    "from invariance.kernels.compiled import kernel\n\n\n@kernel\ndef twice(x):\n    return 2 * x\n"
)
MAIN = (
    HELPER.replace("twice", "shifted")
    .replace("2 * x", "twice(x) + 1")
    .replace("\n\n\n", "\nfrom .helper import twice\n")
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files of kernels, one of which calls the other; code is kept in a folder of this test
    alone."""
    folder = tmp_path / "toy"
    folder.mkdir()
    for name, text in (("__init__", ""), ("helper", HELPER), ("main", MAIN)):
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(compiled, "_KERNELS", folder)
    monkeypatch.setattr(compiled, "_CARRIED", folder / "__pycache__")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return folder


def imported() -> ModuleType:
    """The package as a new process finds it."""
    for name in [name for name in sys.modules if name.split(".")[0] == "toy"]:
        del sys.modules[name]
    compiled._source.cache_clear()
    compiled._stamp.cache_clear()
    compiled._warn_that_nothing_is_kept.cache_clear()
    importlib.invalidate_caches()
    return importlib.import_module("toy.main")


def answers(values: tuple[float, ...] = (3,)) -> tuple[list[float], int]:
    """What the kernel says, and how often it was compiled for that."""
    function = imported().shifted
    return [function(value) for value in values], sum(function.stats.cache_misses.values())


def test_code_is_read_again(package: Path) -> None:
    assert answers((3, 0.5)) == ([7, 2.0], 2)
    assert answers((0.5, 3)) == ([2.0, 7], 0)


def test_a_change_in_another_file_is_seen(package: Path) -> None:
    """Code made before it is removed."""
    assert answers() == ([7], 1)
    (package / "helper.py").write_text(HELPER.replace("2 * x", "5 * x"))
    assert answers() == ([16], 1)
    assert len(list(package.glob("__pycache__/main.*.nbc"))) == 1


@pytest.mark.parametrize("other", ["numba", "numpy", "python"])
def test_other_versions_compile(package: Path, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    assert answers() == ([7], 1)
    place, name = {"numba": (numba, "__version__"), "numpy": (np, "__version__")}.get(
        other, (sys.implementation, "cache_tag")
    )
    with monkeypatch.context() as changed:
        changed.setattr(place, name, "other")
        assert answers() == ([7], 1)
    assert answers() == ([7], 0)


@pytest.mark.parametrize("keep", [0, 100])
def test_damaged_code_is_compiled_again(package: Path, keep: int) -> None:
    assert answers() == ([7], 1)
    for file in package.glob("__pycache__/*.nbc"):
        file.write_bytes(file.read_bytes()[:keep])
    assert answers() == ([7], 1)
    assert answers() == ([7], 0)


def test_folders_in_turn(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is named; a package that cannot be written to is read; then the home; one
    warning without any."""
    blocked = tmp_path / "blocked"
    named = tmp_path / "named"
    blocked.write_text("a file, where nobody can make a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(named))
    assert answers() == ([7], 1)
    assert len(list(named.iterdir())) == 1  # the helper is a part of it
    named.rename(package / "__pycache__")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(blocked))
    assert answers() == ([7], 0)

    monkeypatch.setattr(compiled, "_CARRIED", blocked)
    with pytest.warns(InvarianceWarning, match="NUMBA_CACHE_DIR") as said:
        assert answers((3, 0.5)) == ([7, 2.0], 2)
    assert len(said) == 1
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert answers() == ([7], 1)
    assert answers() == ([7], 0)
    assert list((tmp_path / "home").rglob("*.nbc"))


def test_no_folder_is_made_for_users_without_a_home(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", str)
    assert compiled._folders() == [package / "__pycache__"]


def check_both(order: tuple[float, ...]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert answers(order)[0] == [2 * value + 1 for value in order]


@pytest.mark.parametrize(
    ("processes", "rounds"),
    [(2, 2), (8, 1), *(pytest.param(n, 20, marks=pytest.mark.slow) for n in (2, 8))],
)
def test_processes_that_start_at_once(package: Path, processes: int, rounds: int) -> None:
    """Each compiles for two types in another order, or reads what others have compiled."""
    imported()
    fork = multiprocessing.get_context("fork")
    for _ in range(rounds):
        for file in package.glob("__pycache__/*.nbc"):
            file.unlink()
        orders = [(3, 0.5), (0.5, 3)] * (processes // 2)
        started = [fork.Process(target=check_both, args=(order,)) for order in orders]
        for process in started:
            process.start()
        for process in started:
            process.join()
        assert [process.exitcode for process in started] == [0] * processes
        assert len(list(package.glob("__pycache__/*.nbc"))) == 2
