"""Every command that README and documentation print runs exactly as it is printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd
import pytest

from cli_runner import run
from invariance.datasets import make_example

ROOT = Path(__file__).parent.parent
PAGES = sorted(page.relative_to(ROOT) for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")))
# What waits for a browser, and what sets up a machine or the project itself.
EXEMPT = ("invariance app", "pip install", "python -m pip install", "python -m venv", "make ", "git clone", "cd ")
# What takes hours, a cluster, a GPU, or data that are not ours: it must get as far as the work itself.
STARTED = re.compile(r"invariance study |--device cuda|--dask ")
# A block, or a command with an argument and an option inside a sentence; without them it is the name of a command.
PRINTED = r"^```(?P<kind>[^\n]*)\n(?P<block>.*?)^```$|`(?P<inline>invariance\s+\w+\s+[^-`][^`]*--[^`]*)`"
SHELLS = ("console", "bash", "sh", "shell")
OF_A_SHELL = re.compile(r"[|<>;&]")


class StartedError(Exception):
    """The work of a command that is only started."""


def printed(text: str) -> Iterator[str]:
    """The commands of a page in their order, continued lines as they are."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    for match in re.finditer(PRINTED, text, re.MULTILINE | re.DOTALL):
        if match["inline"] is not None:
            yield " ".join(match["inline"].split())
            continue
        lines = match["block"].replace("\\\n", "\\\0").splitlines()
        if any(line.startswith("$ ") for line in lines):
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        elif match["kind"].strip() not in SHELLS:
            lines = [line for line in lines if line.startswith("invariance ")]
        yield from (line.replace("\0", "\n") for line in lines if line.strip() and not line.startswith("#"))


COMMANDS = {page: list(printed((ROOT / page).read_text(encoding="utf-8"))) for page in PAGES}


def test_commands_are_found() -> None:
    assert any(line.startswith("invariance predict") for line in COMMANDS[Path("README.md")])
    assert list(printed("```console\n$ a \\\n  b\nout\n```\ntext `invariance fit x --y z` and `invariance fit`")) == [
        "a \\\n  b",
        "invariance fit x --y z",
    ]


def write_tables(folder: Path) -> None:
    """The files that pages speak of: those of `invariance demo --csv`, patients with times, and deleted genes."""
    example = make_example().to_frame()
    rng = np.random.default_rng(0)
    times = 1.0 + rng.exponential(100, len(example)).round(1)
    patients = example.assign(days=times, died=(rng.random(len(example)) < 0.5).astype(int))
    for name in ("patients.csv", "table.csv", "data.csv"):
        example.to_csv(folder / name, index=False)
    for name in ("new.csv", "new_patients.csv"):
        example[:20].to_csv(folder / name, index=False)
    genes = pd.DataFrame(rng.normal(size=(60, 5)), columns=[f"g{j}" for j in range(5)])
    genes.assign(kind=["wild", "deleted"] * 30, deleted=[None, "g1"] * 30).to_parquet(folder / "genes.parquet")
    (folder / "times").mkdir()
    site = patients["hospital"].to_numpy()
    patients.drop(columns=["hospital", "blood_pressure"]).assign(site=site).to_csv(
        folder / "times" / "patients.csv", index=False
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", [page for page, found in COMMANDS.items() if found], ids=str)
def test_printed_commands(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tables(tmp_path)
    for line in COMMANDS[page]:
        if line.startswith(EXEMPT):
            continue
        monkeypatch.chdir(tmp_path / "times" if "--event" in line else tmp_path)
        if STARTED.search(line):
            start(line, monkeypatch)
        elif OF_A_SHELL.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", line)):
            in_a_shell(line)
        else:
            name, *arguments = words(line)
            assert name == "invariance", f"{page} prints a command that this test cannot run: {line}"
            result = run(*arguments)
            assert result.exit_code == 0, f"{page}: {line}\n{result.stderr}"


def words(line: str) -> list[str]:
    return shlex.split(line.replace("\\\n", " "), comments=True)


def start(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def reached(*arguments: object, **options: object) -> NoReturn:
        raise StartedError

    with monkeypatch.context() as patch:
        for work in ("studies.runner.run_study", "sweeps.sweep.run_sweep"):
            patch.setattr(f"invariance.{work}", reached)
        if "--data " in line:  # of others, which the study would read
            patch.setattr("invariance.studies.make_study", reached)
        result = run(*words(line)[1:])
    assert isinstance(result.exception, StartedError), f"{line}\n{result.stderr}"


def in_a_shell(line: str) -> None:
    program = f'invariance() {{ {shlex.quote(sys.executable)} -m invariance "$@"; }}\n'
    done = subprocess.run(["bash", "-c", program + line], env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode == 0, f"{line}\n{done.stderr}"
