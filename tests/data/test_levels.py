"""Levels: what counts as one, in which order they come, and what they must not be."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, Columns, Moments, MultiEnvironmentData
from invariance.data.columns import as_text
from invariance.exceptions import DataError, DataWarning, SettingError
from patients import patients

from_table = MultiEnvironmentData.from_table
TABLE = patients(12)[["age", "drugs", "pressure", "hospital"]]
N = len(TABLE)
ASKED = {"outcome": "pressure", "environment": "hospital"}


def failing(phrase: str, error: type[Exception] = DataError) -> Any:
    return pytest.raises(error, match=re.escape(phrase))


def save(table: pd.DataFrame, folder: Path, name: str = "t.csv") -> Path:
    table.to_csv(folder / name, index=False)
    return folder / name


# ---------------------------------------------------------------- one level, written in several ways


@pytest.mark.parametrize(
    ("written", "levels"),
    [
        (["1.0", "2.0", "3.0"], ["2", "3"]),
        (["1.50", "2.00", "10"], ["2", "10"]),
        (["1e1", "-0.25", "20"], ["10", "20"]),
        (["TRUE", "FALSE", "TRUE"], ["True"]),
        (["true", "false", "true"], ["True"]),
        (["12345678901234567", "12345678901234568", "3"], ["12345678901234567", "12345678901234568"]),
    ],
)
def test_a_file_and_its_frame_have_the_same_levels(tmp_path: Path, written: list[str], levels: list[str]) -> None:
    path = save(TABLE.assign(code=np.resize(written, N)), tmp_path)
    data = from_table(path, **ASKED, categorical=["code"])
    assert [name for name in data.features.columns if "code" in name] == [f"code={level}" for level in levels]
    frame = pd.read_csv(path)
    assert from_table(frame, **ASKED, categorical=["code"]).encoding == data.encoding
    assert Moments.from_rows(path, **ASKED, categorical=["code"]).encoding == data.encoding
    model = BIP().fit(data)
    np.testing.assert_array_equal(model.predict(frame), model.predict(data.to_frame()))


@pytest.mark.parametrize("code", ["01", "+1", "1.", ".5", "1_000", "nan", "x1", "1e", "٣", "yes", "True story"])
def test_text_that_is_no_plain_number_stays(code: str) -> None:
    assert as_text(code) == code


def test_text_that_differs_is_not_made_one_level_in_silence(tmp_path: Path) -> None:
    table = TABLE.assign(code=np.resize(["250.0", "250.00", "v1"], N))
    phrase = "column 'code': '250.0' and '250.00' are the same number or truth value. Write them in the same way"
    with failing(phrase):
        from_table(table, **ASKED, categorical=["code"])
    path = save(table, tmp_path)
    with failing(phrase):
        Moments.from_rows(path, **ASKED, categorical=["code"])


# ---------------------------------------------------------------- levels that tell environments apart

WARDS = TABLE["hospital"] + np.resize(["1", "2"], N)


@pytest.mark.parametrize("ward", [TABLE["hospital"], WARDS], ids=["the label itself", "nested"])
def test_levels_of_one_environment_each(tmp_path: Path, ward: pd.Series) -> None:
    table = TABLE.assign(ward=ward, sex=np.resize(["f", "m"], N))
    phrase = r"each level of 'ward' occurs in one environment only.*exclude=\['ward'\]"
    path = save(table, tmp_path)
    for give in (
        lambda: from_table(table, **ASKED),
        lambda: from_table(path, **ASKED),
        lambda: Moments.from_rows(path, **ASKED),
    ):
        with pytest.warns(DataWarning, match=phrase) as caught:
            give()
        assert len(caught) == 1
    with pytest.warns(DataWarning, match=r"each level of 'ward', 'twin' .*exclude=\['ward', 'twin'\]"):
        BIP().fit(table[["age", "ward"]].assign(twin=ward), table["pressure"], environments=table["hospital"])


@pytest.mark.parametrize("shared", [False, True])
def test_a_level_that_two_environments_share_is_enough(shared: bool) -> None:
    """And one environment has nothing to tell apart."""
    table = TABLE.assign(ward=WARDS.replace({"bb1": "aa1"}) if shared else WARDS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MultiEnvironmentData.from_arrays(
            table[["age", "ward"]], table["pressure"], table["hospital"] if shared else None
        )


# ---------------------------------------------------------------- levels that the user lists

DOSES = TABLE.assign(dose=np.resize(["low", "high", "mid", "high"], N))
STATED = {"dose": ["mid", "none", "low", "high"]}


def test_listed_levels_come_in_their_order() -> None:
    with pytest.warns(DataWarning, match="from their features: 'dose=none'"):
        data = from_table(DOSES, **ASKED, categorical=STATED)
    assert [name for name in data.features.columns if "dose" in name] == ["dose=low", "dose=high"]
    assert data.notes == ("dose: 3 levels, compared with 'mid'.",)
    np.testing.assert_array_equal(data.X[:, -2:], np.column_stack([DOSES["dose"] == "low", DOSES["dose"] == "high"]))
    assert data.to_frame()["dose"].astype(str).tolist() == DOSES["dose"].tolist()


def test_levels_that_are_not_listed(tmp_path: Path) -> None:
    phrase = "column 'dose' has levels that are not listed: 'low' (12 rows), 'mid' (12 rows)."
    for table in (DOSES, save(DOSES, tmp_path)):
        with failing(phrase):
            from_table(table, **ASKED, categorical={"dose": ["high"]})


@pytest.mark.parametrize("listed", [STATED["dose"], ["mid", "high", "low", "none"], ["high", "low", "mid", "none"]])
def test_a_listed_level_that_no_row_had_is_unknown(listed: list[str]) -> None:
    with pytest.warns(DataWarning, match="'dose=none'"):
        model = BIP().fit(from_table(DOSES, **ASKED, categorical={"dose": listed}))
    strange = DOSES.assign(dose=np.where(DOSES.index < 2, "none", DOSES["dose"]))
    with failing("levels that the training data lack: column 'dose' has 'none' (2 rows)."):
        model.predict(strange)
    np.testing.assert_array_equal(model.predict(DOSES[2:]), model.predict(DOSES)[2:])
    model.set_params(columns=Columns(handle_unknown="ignore"))
    with pytest.warns(DataWarning, match=f"count as the reference level, {listed[0]!r} of 'dose'"):
        assert model.predict(strange)[0] == model.predict(DOSES.assign(dose=listed[0]))[0]


def test_a_reference_that_no_row_has_is_told() -> None:
    with pytest.warns(DataWarning, match="no row has 'none', with which the levels of 'dose' are compared"):
        data = from_table(DOSES, **ASKED, categorical={"dose": ["none", "low", "mid", "high"]})
    assert data.notes == ("dose: 3 levels, compared with 'none', which no row has.",)
    model = BIP().fit(data)
    usual = BIP().fit(from_table(DOSES, **ASKED))
    np.testing.assert_allclose(model.posterior_.inclusion, usual.posterior_.inclusion, rtol=1e-9)


@pytest.mark.parametrize(
    ("listed", "phrase"),
    [
        ("high", "categorical={'dose': ['a', 'b']}"),
        (3, "categorical={'dose': ['a', 'b']}"),
        ([], "no list of different levels"),
        (["1", 1.0], "no list of different levels"),
    ],
)
def test_lists_of_levels_that_are_none(listed: Any, phrase: str) -> None:
    with failing(phrase, SettingError):
        from_table(DOSES, **ASKED, categorical={"dose": listed})
    with failing("'dosis' is not among the feature columns; did you mean 'dose'?"):
        from_table(DOSES, **ASKED, categorical={"dosis": ["a"]})


# ---------------------------------------------------------------- decisions at their edges
