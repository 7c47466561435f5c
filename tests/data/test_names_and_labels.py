"""No column is lost to a name, and no two environments look alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli_runner import run
from invariance import MultiEnvironmentData
from invariance.exceptions import DataError
from invariance.moments import Moments

X = np.column_stack([np.arange(6.0), [2.0, 7, 1, 8, 2, 8]])
Y = np.array([0.5, 1, 4, 2, 3, 9])
SITES = list("aaabbb")


@pytest.mark.parametrize(
    ("features", "outcome", "columns"),
    [
        (["x", "environment"], "y", ["x", "environment", "y", "environment_"]),
        (["environment_", "environment"], "y", ["environment_", "environment", "y", "environment__"]),
        (["x", "y"], "y", ["x", "y", "y_", "environment"]),
        (["x", "z"], "environment", ["x", "z", "environment", "environment_"]),
    ],
)
def test_a_table_keeps_every_column(features: list[str], outcome: str, columns: list[str]) -> None:
    data = MultiEnvironmentData.from_arrays(X, Y, SITES, feature_names=features, outcome_name=outcome)
    table = data.to_frame()
    assert table.columns.tolist() == columns
    np.testing.assert_array_equal(table[columns[:2]], X)
    np.testing.assert_array_equal(table[columns[2]], Y)
    assert table[columns[3]].tolist() == SITES
    again = MultiEnvironmentData.from_table(table, columns[2], columns[3])
    np.testing.assert_array_equal(again.X, X)


ALIKE = [
    ("a", "a "),
    ("a", "a\N{NO-BREAK SPACE}"),
    ("new york", "new\N{NO-BREAK SPACE}york"),
    ("new york", "new  york"),
    ("a", "\N{ZERO WIDTH SPACE}a"),
    ("caf\N{LATIN SMALL LETTER E WITH ACUTE}", "cafe\N{COMBINING ACUTE ACCENT}"),
    (1, "1"),
    (1, "1 "),
]


@pytest.mark.parametrize(("first", "second"), ALIKE)
def test_labels_that_look_alike_are_an_error(first: object, second: object) -> None:
    with pytest.raises(DataError, match="look alike") as caught:
        MultiEnvironmentData.from_arrays(X, Y, [first] * 3 + [second] * 3)
    message = str(caught.value)
    assert f"{first!a} and {second!a}" in message
    assert f"{first!a}" != f"{second!a}"


@pytest.mark.parametrize(
    ("first", "second"), [("a", "A"), ("a b", "ab"), ("a", "b"), (1, 1.5), ("x2", "x²"), (("a ",), ("a",))]
)
def test_labels_that_look_different_are_different(first: object, second: object) -> None:
    labels = [first] * 3 + [second] * 3
    data = MultiEnvironmentData.from_arrays(X, Y, labels)
    assert data.environments == (first, second)
    assert data.counts.tolist() == [3, 3]


def write(path: Path, labels: list[str]) -> Path:
    pd.DataFrame({"x": X[:, 1], "y": Y, "site": labels}).to_csv(path, index=False)
    return path


def test_labels_in_text_files(tmp_path: Path) -> None:
    labels = ["01"] * 3 + ["1"] * 3 + ["2.5"] * 3 + ["k"] * 3
    path = tmp_path / "t.csv"
    pd.DataFrame({"x": np.sin(np.arange(12)), "y": np.cos(np.arange(12)), "site": labels}).to_csv(path, index=False)
    for read in (MultiEnvironmentData.from_table, Moments.from_rows):
        assert read(path, "y", "site").environments == ("01", 1, 2.5, "k")


def test_labels_of_a_file(workdir: Path) -> None:
    path = write(workdir / "t.csv", ["a", "a", "a", "a ", "a ", "a "])
    phrase = "environment column 'site': the labels 'a' and 'a ' look alike"
    for read in (MultiEnvironmentData.from_table, Moments.from_rows):
        with pytest.raises(DataError, match=phrase):
            read(path, "y", "site")
    done = run("fit", "t.csv", "--outcome", "y", "--environment", "site")
    assert done.exit_code != 0
    assert phrase in " ".join(done.output.split())
