"""Names of columns, however odd, as they are typed in a shell; and what a shell is told about settings."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from invariance.data.chunks import read_chunks

from cli_runner import fails, run
from invariance import MultiEnvironmentData
from invariance.cli.advice import for_command_line
from invariance.cli.options import read_names, write_names
from invariance.exceptions import DataError

ASKED = ["--outcome", "y", "--environment", "site"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, []),
        ("", []),
        (" , ", []),
        ("a", ["a"]),
        ("a, b c ,d", ["a", "b c", "d"]),
        ('"region, of origin", b', ["region, of origin", "b"]),
        ('" date ",b', [" date ", "b"]),
        ('5" pipe,b', ['5" pipe', "b"]),
        ('"say ""so"", then",b', ['say "so", then', "b"]),
        ('"half,b', ['"half', "b"]),
        ('"a" b,c', ['"a" b', "c"]),
        ("a,,b,", ["a", "b"]),
    ],
)
def test_names_in_an_argument(text: str | None, names: list[str]) -> None:
    assert read_names(text) == names


@given(st.lists(st.text(alphabet="ab,\"' \\[]\n", min_size=1), min_size=1))
def test_names_come_back(names: list[str]) -> None:
    assert read_names(write_names(names)) == names
    said = for_command_line(f"leave it out with exclude={names!r}, or mend it.")
    (option,) = re.findall(r"--exclude (.*), or mend it\.$", said, re.DOTALL)
    assert read_names(*shlex.split(option)) == names


def with_column(name: str, values: list[str]) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=30), name: np.resize(values, 30), "site": np.repeat(["n", "s"], 15)})
    return table.assign(y=table["a"] + rng.normal(size=30))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["region, of origin", " date ", 'it\'s "so"', '"quoted"', "a\\b", "a,b", "--x"])
@pytest.mark.parametrize("option", ["--exclude", "--categorical"])
def test_advice_about_odd_names_works_as_typed(workdir: Path, name: str, option: str) -> None:
    with_column(name, [f"n{i}" for i in range(30)]).to_parquet("odd.parquet")
    said = fails("fit", "odd.parquet", *ASKED)
    remedy = re.search(rf"{option} (?:.*?)(?=, or take|\.$)", said)
    assert remedy
    assert "=[" not in said
    assert run("fit", "odd.parquet", *ASKED, *shlex.split(remedy[0])).exit_code == 0


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (("--exclude", "a", "--exclude", "b"), "--exclude is given more than once: write one list, --exclude a,b,c."),
        (
            ("--merge", "a+b=c", "--merge", "d+e=f"),
            "--merge is given more than once: write one list, --merge a+b=c,d+e=f.",
        ),
        (("--outcome", "b"), "--outcome is given more than once: give it once."),
    ],
)
def test_no_option_is_lost(options: tuple[str, ...], advice: str) -> None:
    assert advice in fails("fit", "table.csv", "--outcome", "a", "--environment", "site", *options)


def test_flags_may_be_repeated(workdir: Path) -> None:
    pd.DataFrame({"a": np.arange(20.0) % 7, "y": np.arange(20.0) % 3, "site": ["u", "v"] * 10}).to_csv("t.csv")
    assert run("fit", "t.csv", "--outcome", "y", "--environment", "site", "--strict", "--strict").exit_code == 0


def test_settings_in_the_words_of_a_shell(workdir: Path) -> None:
    with_column("dose", ["1", "2", "?"]).to_csv("t.csv", index=False)
    said = fails("fit", "t.csv", *ASKED, "--numeric", "dose")
    advice = "Mend such values, or take 'dose' out of --numeric."
    assert said == f"error: column 'dose' is in --numeric, but '?' is not a number. {advice}"
    both = fails("fit", "t.csv", *ASKED, "--numeric", "dose", "--categorical", "dose")
    assert both == "error: 'dose' is both in --categorical and in --numeric: name it in one of them."


def test_remedies_do_not_contradict_what_is_said_already() -> None:
    """A column of numeric= can neither be excluded nor have levels while it is there; without it the advice works."""
    table = with_column("dose", ["1", "2", "?"]).assign(id=[f"p{i}" for i in range(30)], wave=np.full(30, 1j))
    with pytest.raises(DataError) as caught:
        MultiEnvironmentData.from_table(table, "y", "site", numeric=["dose", "wave"])
    assert str(caught.value) == (
        "column 'dose' is in numeric=, but '?' is not a number; column 'id' is not numeric but has 30 different values "
        "in 30 rows (for example 'p0'); column 'wave' is in numeric=, but 1j is not a number. Leave 'id' out with "
        "exclude=['id'], or take values as levels with categorical=['id']. Mend such values, or take 'dose', 'wave' "
        "out of numeric=."
    )
    with pytest.raises(DataError, match=r"or take values as levels with categorical=\['dose', 'id'\]\.$"):
        MultiEnvironmentData.from_table(table, "y", "site")


def test_a_later_value_that_is_not_a_number(tmp_path: Path) -> None:
    table = with_column("dose", ["1"]).assign(dose=["1", "2"] * 14 + ["?", "3"])
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError) as caught:
        list(read_chunks(tmp_path / "t.csv", "y", "site", numeric=["dose"], rows_per_chunk=10))
    assert str(caught.value) == (
        "column 'dose' is in numeric=, but '?' is not a number. Mend such values, or take 'dose' out of numeric=."
    )
    table.assign(dose=["True", "False"] * 14 + ["?", "?"]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match="holds numbers, or true and false, in the first rows of the file, and other"):
        list(read_chunks(tmp_path / "t.csv", "y", "site", rows_per_chunk=10))
