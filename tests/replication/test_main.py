"""`python -m replication`."""

from __future__ import annotations

from pathlib import Path

import pytest

from replication import STUDIES
from replication.__main__ import main

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_study_goes_on_where_it_stopped(
    workdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "replication.identifiability.Identifiability.pictures", lambda self, results: []
    )
    arguments = ["identifiability", "--jobs", "1", "--replicates", "3"]
    assert main(arguments) == 0
    folder = workdir / "results" / "identifiability-quick"
    assert "identifiability --scale quick --replicates 3`" in (folder / "report.md").read_text()
    assert "Example 1 (truth [1,0]): 2 modes with 2 environments" in capsys.readouterr().out
    assert main([*arguments, "--seed", "4"]) == 1
    assert "seed: 0 there, 4 now" in capsys.readouterr().err
    assert (
        main(
            [
                "identifiability",
                "--scale",
                "paper",
                "--replicates",
                "4",
                "--out",
                str(folder),
                "--jobs",
                "1",
            ]
        )
        == 0
    )
    said = capsys.readouterr().out
    assert "This session did 6 replicates" in said
    assert "18 were there from before" in said


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (["--help"], 0, list(STUDIES)),
        (["theroy"], 2, ["theroy"]),
        (["theory", "--jobs", "2", "--dask", "tcp://127.0.0.1:1"], 2, ["--dask"]),
        (["genes"], 2, ["--data"]),
        (["genes-cost"], 2, ["genes-cost needs --data"]),
        (["theory", "--data", "file"], 2, ["--data"]),
        (["cost", "--count", "successful"], 2, ["--count"]),
        (["comparison-p10", "--penalties", "whole"], 2, ["--penalties"]),
        (["theory", "--methods", "BIP"], 2, ["--methods"]),
        (["cost", "--p-change", "prose"], 2, ["--p-change"]),
        (["comparison-p450", "--p-change", "verse"], 1, ["verse", "prose"]),
        (["theory", "--out", "file"], 1, ["file"]),
        (["cost", "--dask", "tcp://127.0.0.1:1"], 1, ["dask"]),
        (["genes", "--data", "nowhere.RData"], 1, ["nowhere.RData"]),
    ],
)
def test_options(
    workdir: Path,
    arguments: list[str],
    code: int,
    named: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    (workdir / "file").write_text("")
    try:
        found = main(arguments)
    except SystemExit as stopped:
        found = stopped.code
    assert found == code
    said = capsys.readouterr()
    assert all(name in said.out + said.err for name in named)


def test_an_interrupt_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("replication.runs.run_study", interrupted)
    assert main(["theory", "--out", "here"]) == 130
    assert "here" in capsys.readouterr().err
