"""The demo writes what `fit` and `predict` need, and what it advises then works as printed."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from cli_runner import fails, run
from invariance.baselines.comparison import named_methods
from invariance.cli.options import PlotKind
from invariance.datasets import make_new_hospital
from invariance.exceptions import SettingError
from invariance.inference.registry import parse_engine
from invariance.models.registry import parse_family


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_what_it_advises_works_as_printed() -> None:
    said = run("demo", "--csv", "my rows.csv", "--new-csv", "new.csv").stdout
    assert all(len(line) <= 80 for line in said.splitlines())
    assert "Saved a hospital that the fit has not seen to new.csv" in said
    fit, predict = said.split("Now try\n")[1].replace("\\\n", " ").splitlines()
    assert run(*shlex.split(fit)[1:]).exit_code == 0
    assert "Predicted blood_pressure for 150 rows of new.csv" in run(*shlex.split(predict)[1:]).stdout.replace("'", "")
    pd.testing.assert_frame_equal(pd.read_csv("new.csv"), make_new_hospital().to_frame(), check_exact=True)


def test_without_new_rows_nothing_is_said_of_them() -> None:
    said = run("demo", "--csv", "patients.csv").stdout
    assert said.endswith("  invariance fit patients.csv --outcome blood_pressure --environment hospital\n")
    assert [path.name for path in Path().iterdir()] == ["patients.csv"]


def test_refused_before_the_computation() -> None:
    assert "cannot write a table as 'new.txt'" in fails("demo", "--new-csv", "new.txt")
    assert "the same file is named twice" in fails("demo", "--csv", "a.csv", "--new-csv", "a.csv")
    assert not any(Path().iterdir())


@pytest.mark.parametrize("kind", PlotKind)
def test_the_help_says_what_each_picture_shows(kind: PlotKind) -> None:
    text = " ".join(run("demo", "--help").stdout.split())
    assert kind.value in text.split("Of what:")[1].split("--csv")[0]


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_family, "logistic(foo=1)", "logistic has no setting 'foo'. It has "),
        (parse_family, "auto(foo=1)", "auto has no setting 'foo'. It has none."),
        (parse_engine, "tempering(foo=1)", "tempering has no setting 'foo'. It has "),
        (lambda text: named_methods(text, 3), "foo", "no method is named 'foo'. Known are "),
    ],
)
def test_sentences_end_before_the_next_begins(parse: Callable[[str], object], text: str, message: str) -> None:
    with pytest.raises(SettingError) as error:
        parse(text)
    assert message in str(error.value)
