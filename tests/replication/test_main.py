"""`python -m replication`."""

from __future__ import annotations

from pathlib import Path

import pytest

from replication import STUDIES
from replication.__main__ import main


@pytest.fixture(autouse=True)
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_study_goes_on_where_it_stopped(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["identifiability", "--jobs", "1", "--replicates", "3"]
    assert main(arguments) == 0
    folder = workdir / "results" / "identifiability-quick"
    assert "identifiability --scale quick --replicates 3`" in (folder / "report.md").read_text()
    assert "Example 1 (truth [1,0]): 2 modes with 2 environments" in capsys.readouterr().out
    assert main(arguments) == 0
    assert "18 were there from before" in capsys.readouterr().out
    assert main([*arguments, "--seed", "4"]) == 1
    assert "seed: 0 there, 4 now" in capsys.readouterr().err
    assert main(["identifiability", "--scale", "paper", "--replicates", "4", "--out", str(folder), "--jobs", "1"]) == 0
    assert "This session did 6 replicates" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["theroy"], "theroy"),
        (["theory", "--scale", "huge"], "huge"),
        (["theory", "--jobs", "2", "--dask", "tcp://127.0.0.1:1"], "--dask"),
        (["genes"], "--data"),
        (["genes", "--data", "file", "--simulated", "60"], "--simulated"),
        (["theory", "--data", "file"], "--data"),
        (["cost", "--simulated", "60"], "--simulated"),
    ],
)
def test_wrong_options(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["theory", "--out", "file"], "file"),
        (["cost", "--dask", "tcp://127.0.0.1:1"], "dask"),
        (["genes", "--data", "nowhere.RData"], "nowhere.RData"),
    ],
)
def test_what_cannot_be_run(
    workdir: Path, arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (workdir / "file").write_text("")
    assert main(arguments) == 1
    assert named in capsys.readouterr().err


def test_genes_of_a_simulated_network(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from replication import genes

    usual = genes.at_scale
    monkeypatch.setattr(
        genes, "at_scale", lambda *given, **changes: usual(*given, **changes, methods=("Lasso",), targets=1)
    )
    assert main(["genes", "--simulated", "60", "--jobs", "1", "--replicates", "1", "--seed", "2"]) == 0
    report = (workdir / "results" / "genes-quick" / "report.md").read_text()
    assert "`python -m replication genes --scale quick --simulated 60 --replicates 1 --seed 2`" in report


def test_an_interrupt_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("replication.runs.run_study", interrupted)
    assert main(["theory", "--out", "here"]) == 130
    assert "here" in capsys.readouterr().err


def test_help_names_every_study(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in STUDIES)
