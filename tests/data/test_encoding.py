"""From the columns of a table to those of a model: levels, groups, splines, and what cannot be
used."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from invariance import BIP, Columns, MultiEnvironmentData, spline
from invariance.data.basis import SplineBasis
from invariance.decisions import Threshold
from invariance.exceptions import DataError, DataWarning
from invariance.moments import Moments
from patients import LEVELS, patients

from_table = MultiEnvironmentData.from_table
TABLE = patients(12)
N = len(TABLE)
SHORT = TABLE[["age", "drugs", "pressure", "hospital"]]
FRAMES = pytest.mark.parametrize(
    "convert", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"]
)
ASKED = {"outcome": "pressure", "environment": "hospital"}


def failing(phrase: str, error: type[Exception] = DataError) -> Any:
    return pytest.raises(error, match=re.escape(phrase))


def column(data: MultiEnvironmentData, name: str) -> np.ndarray:
    return data.X[:, data.features.columns.index(name)]


# ---------------------------------------------------------------- levels


@FRAMES
def test_text_becomes_dummies_of_one_feature(convert: Callable[[pd.DataFrame], Any]) -> None:
    data = from_table(convert(TABLE), **ASKED)
    assert data.feature_names == ("sex", "age", "smoking", "region", "drugs")
    assert data.original_features == data.feature_names
    others = ["region=east", "region=north", "region=south", "region=west"]
    assert list(data.features.columns) == [
        "sex=m",
        "age",
        "smoking=former",
        "smoking=never",
        *others,
        "drugs",
    ]
    for name in ("sex=m", "smoking=former", "smoking=never", *others):
        raw, level = name.split("=")
        np.testing.assert_array_equal(column(data, name), TABLE[raw] == level)
    np.testing.assert_array_equal(column(data, "age"), TABLE["age"])
    assert data.notes == (
        "sex: 2 levels, compared with 'f'; smoking: 3 levels, compared with 'current'; "
        "region: 5 levels, compared with 'centre'.",
    )
    assert data.losses == ()
    assert data.X.flags.c_contiguous


@pytest.mark.parametrize(
    "convert",
    [
        lambda t: t.astype({"smoking": pd.CategoricalDtype(["zero", *LEVELS["smoking"]])}),
        lambda t: t.astype(
            {"smoking": pd.CategoricalDtype(["zero", *LEVELS["smoking"]], ordered=True)}
        ),
        lambda t: pl.from_pandas(t).with_columns(
            pl.col("smoking").cast(pl.Enum(["zero", *LEVELS["smoking"]]))
        ),
    ],
    ids=["category", "ordered", "enum"],
)
def test_a_type_with_an_order_gives_the_reference(convert: Callable[[pd.DataFrame], Any]) -> None:
    data = from_table(convert(TABLE), **ASKED, features=["smoking", "age"])
    assert data.features.columns == ("smoking=former", "smoking=current", "age")
    assert data.notes == ("smoking: 3 levels, compared with 'never'.",)


@FRAMES
def test_numbers_that_are_codes(convert: Callable[[pd.DataFrame], Any]) -> None:
    table = TABLE.assign(postcode=np.resize([90210, 10, 9], N))[
        ["postcode", "age", "pressure", "hospital"]
    ]
    data = from_table(convert(table), **ASKED, categorical=["postcode"])
    assert data.features.columns == ("postcode=10", "postcode=90210", "age")
    floats = from_table(
        convert(table.astype({"postcode": float})), **ASKED, categorical=["postcode"]
    )
    assert floats.encoding == data.encoding
    arrays = MultiEnvironmentData.from_arrays(
        table[["postcode", "age"]].to_numpy(),
        table["pressure"],
        table["hospital"],
        categorical=["x0"],
    )
    np.testing.assert_array_equal(arrays.X, data.X)


@FRAMES
def test_text_that_is_numbers(convert: Callable[[pd.DataFrame], Any]) -> None:
    table = TABLE.assign(dose=np.resize(["1.5", "2", "1e1"], N))[
        ["dose", "age", "pressure", "hospital"]
    ]
    with failing("exclude=['dose'] or numeric=['dose'] or categorical=['dose']"):
        from_table(convert(table), **ASKED)
    data = from_table(convert(table), **ASKED, numeric=["dose"])
    np.testing.assert_array_equal(column(data, "dose"), np.resize([1.5, 2.0, 10.0], N))
    assert data.encoding is None
    levels = from_table(convert(table), **ASKED, categorical=["dose"])
    assert levels.features.columns == ("dose=2", "dose=1e1", "age")


def test_a_single_level_is_a_constant_feature() -> None:
    with pytest.warns(
        DataWarning, match="dropped features that are constant over all rows: 'country'"
    ):
        data = from_table(TABLE.assign(country="x"), **ASKED)
    assert data.dropped_features == ("country",)
    assert data.dropped_positions == (5,)
    assert "country" not in " ".join(data.notes)


# ---------------------------------------------------------------- groups and splines


def test_a_group_takes_the_place_of_its_first_column() -> None:
    values = np.random.default_rng(0).normal(size=(N, 4))
    table = pd.DataFrame(values, columns=list("abcd")).assign(**TABLE[["pressure", "hospital"]])
    data = from_table(table, **ASKED, groups={"bd": ["d", "b"]})
    assert data.feature_names == ("a", "bd", "c")
    assert data.features.columns == ("a", "d", "b", "c")
    np.testing.assert_array_equal(data.X, values[:, [0, 3, 1, 2]])
    arrays = MultiEnvironmentData.from_arrays(
        values, TABLE["pressure"], TABLE["hospital"], groups={"g": ["x3", "x1"]}
    )
    np.testing.assert_array_equal(arrays.X, data.X)
    assert arrays.feature_names == ("x0", "g", "x2")


def test_a_constant_column_leaves_its_group() -> None:
    table = TABLE.assign(k=1.0, k2=2.0)
    groups = {"body": ["age", "k"], "nothing": ["k2"]}
    with pytest.warns(DataWarning) as caught:
        data = from_table(table, **ASKED, features=["age", "drugs", "k", "k2"], groups=groups)
    assert tuple(str(warning.message) for warning in caught) == data.losses
    assert data.feature_names == ("body", "drugs")
    assert data.features.columns == ("age", "drugs")
    assert data.dropped_columns == ("k",)
    assert data.features.groups == {"body": ("age",)}


@pytest.mark.parametrize("knots", [3, 4, 7])
@pytest.mark.parametrize(
    "groups", [lambda term: [term], lambda term: {"age": term}, lambda term: {"age": [term]}]
)
def test_splines(knots: int, groups: Callable[[Any], Any]) -> None:
    data = from_table(
        TABLE, **ASKED, features=["age", "drugs"], groups=groups(spline("age", knots=knots))
    )
    assert data.feature_names == ("age", "drugs")
    assert data.features.widths.tolist() == [knots - 1, 1]
    places = np.quantile(TABLE["age"], np.linspace(0.05, 0.95, knots))
    np.testing.assert_allclose(
        data.X[:, :-1], SplineBasis("age", tuple(places)).encode(TABLE["age"].to_numpy())
    )
    assert data.notes[0].startswith("age: natural cubic spline with knots at ")


def test_splines_need_values_that_differ() -> None:
    table = TABLE.assign(age=np.resize([1.0, 2, 3, 4, 5, 6, 6, 6, 6, 6, 6], N))
    with failing("use groups=[spline('age', knots=3)]."):
        from_table(table, **ASKED, groups=[spline("age", knots=6)])
    assert from_table(table, **ASKED, groups=[spline("age", knots=3)]).features.widths[1] == 2
    with failing("Use the column as it is."):
        from_table(
            table.assign(age=np.resize([0.0, 1.0], N)), **ASKED, groups=[spline("age", knots=4)]
        )
    with failing("spline('sex') needs numbers, but 'sex' holds levels: leave it out of groups=."):
        from_table(table, **ASKED, groups=[spline("sex")])


# ---------------------------------------------------------------- what cannot be used


@pytest.mark.parametrize("levels", [N // 2, N // 2 + 1])
def test_how_many_levels_are_too_many(levels: int) -> None:
    table = TABLE.assign(site=np.resize([f"s{i}" for i in range(levels)], N))
    if levels > N / 2:
        with failing("column 'site' is not numeric but has 25 different values in 48 rows"):
            from_table(table, **ASKED)
    assert from_table(table, **ASKED, categorical=["site"]).features.widths[-1] == levels - 1


def test_names_that_two_columns_would_have() -> None:
    with failing("columns 'sex' and 'sex=m' both make a column 'sex=m': rename one of them."):
        from_table(TABLE.assign(**{"sex=m": TABLE["age"]}), **ASKED)
    hostile = TABLE.assign(a=np.resize(["b=c", "d"], N), **{"a=b": np.resize(["c", "b"], N)})
    data = from_table(hostile, **ASKED, features=["a", "a=b"])
    assert data.features.columns == ("a=d", "a=b=c")
    with failing("columns 'a' and 'a=b' both make a column 'a=b=c': rename one of them."):
        from_table(hostile.replace({"a": {"d": "a"}}), **ASKED, features=["a", "a=b"])
    with failing("columns 'sex=m' and 'sex' both make a column 'sex=m'"):
        from_table(TABLE.rename(columns={"pressure": "sex=m"}), "sex=m", "hospital")


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        ({"exclude": "age"}, "exclude='age' is a single string: use exclude=['age']."),
        (
            {"exclude": ["agee"]},
            "exclude: 'agee' is not among the feature columns; did you mean 'age'?",
        ),
        ({"exclude": ["pressure"]}, "exclude: 'pressure' is not among the feature columns;"),
        (
            {"exclude": ["age"], "features": ["age"]},
            "exclude=['age'] leaves no feature column: leave one in.",
        ),
        ({"categorical": "age"}, "categorical='age' is a single string: use categorical=['age']."),
        ({"categorical": None}, "categorical=None"),
        ({"categorical": {"sex": "high"}}, "categorical={'sex': ['a', 'b']}"),
        ({"categorical": {"sex": ["1", 1.0]}}, "no list of different levels"),
        (
            {"categorical": {"sexx": ["a"]}},
            "'sexx' is not among the feature columns; did you mean 'sex'?",
        ),
        (
            {"numeric": ["Age"]},
            "numeric: 'Age' is not among the feature columns; did you mean 'age'?",
        ),
        (
            {"numeric": ["sex"], "categorical": ["sex"]},
            "'sex' is both in categorical= and in numeric=: name it in one",
        ),
        ({"groups": ["age"]}, "groups={'region': ['r1', 'r2']} or groups=[spline('age', knots=4)]"),
        ({"groups": {"g": "age"}}, "groups={'g': ['a', 'b']}"),
        ({"groups": {"g": []}}, "groups: 'g' is [], no list of columns"),
        (
            {"groups": {"g": ["agee"]}},
            "groups: 'g': 'agee' is not among the feature columns; did you mean 'age'?",
        ),
        ({"groups": {"g": ["age"], "h": ["age"]}}, "groups: column 'age' is named twice"),
        ({"groups": {"sex": ["age", "drugs"]}}, "groups: 'sex' is also a column"),
        (
            {"groups": {"pressure": ["age"]}},
            "groups: 'pressure' is the name of another column: choose another name",
        ),
        ({"groups": [spline("age"), spline("age", 5)]}, "groups: column 'age' is named twice"),
    ],
)
def test_wishes_that_cannot_be_met(arguments: dict[str, Any], phrase: str) -> None:
    with failing(phrase, ValueError):
        from_table(TABLE, **{**ASKED, **arguments})


# ---------------------------------------------------------------- written back, and read in parts


def test_back_to_a_table() -> None:
    groups = {"age": spline("age"), "both": ["drugs", "extra"]}
    table = TABLE.assign(extra=np.random.default_rng(1).normal(size=N))
    data = from_table(table, **ASKED, groups=groups)
    back = data.to_frame()
    assert back.columns.tolist() == [
        "sex",
        "age",
        "smoking",
        "region",
        "drugs",
        "extra",
        "pressure",
        "hospital",
    ]
    pd.testing.assert_frame_equal(back.astype(dict.fromkeys(LEVELS, "str")), table[back.columns])
    again = from_table(back, **ASKED, groups=groups)
    assert again.encoding == data.encoding
    np.testing.assert_array_equal(again.X, data.X)
    narrow = data.narrowed(np.array([True, False, True, False, False])).to_frame()
    assert narrow.columns.tolist() == [
        "sex=m",
        "smoking=former",
        "smoking=never",
        "pressure",
        "hospital",
    ]


@FRAMES
def test_new_names_and_fewer_columns(convert: Callable[[pd.DataFrame], Any]) -> None:
    frame = convert(TABLE[["sex", "age", "drugs"]])
    names = ["gender", "years", "pills"]
    how: dict[str, Any] = {"feature_names": names, "exclude": ["years"]}
    data = MultiEnvironmentData.from_arrays(frame, TABLE["pressure"], TABLE["hospital"], **how)
    assert data.features.columns == ("gender=m", "pills")
    np.testing.assert_array_equal(column(data, "pills"), TABLE["drugs"])
    arrays = MultiEnvironmentData.from_arrays(
        TABLE[["age", "drugs"]].to_numpy(), TABLE["pressure"], TABLE["hospital"], exclude=["x0"]
    )
    assert arrays.feature_names == ("x1",)
    np.testing.assert_array_equal(arrays.X[:, 0], TABLE["drugs"])


def test_numbers_are_not_copied() -> None:
    X = np.random.default_rng(0).normal(size=(N, 3))
    data = MultiEnvironmentData.from_arrays(X, TABLE["pressure"], TABLE["hospital"])
    assert data.X is X
    assert data.encoding is None


def save(table: pd.DataFrame, folder: Path, name: str = "t.csv") -> Path:
    table.to_csv(folder / name, index=False)
    return folder / name


@pytest.mark.parametrize(
    "written", [["1.5", "2.5", "x"], ["01", "1", "x"], ["TRUE", "FALSE", "x"], ["1e1", "10", "3"]]
)
def test_levels_stay_as_they_are_written(tmp_path: Path, written: list[str]) -> None:
    table = SHORT.assign(code=np.resize(written, N))
    for rows in (table, save(table, tmp_path)):
        for read in (from_table, Moments.from_rows):
            encoding = read(rows, **ASKED, categorical=["code"]).encoding
            assert encoding is not None
            assert set(encoding.of_levels["code"].levels) == set(written)


# ---------------------------------------------------------------- levels that tell environments
# apart

WARDS = SHORT["hospital"] + np.resize(["1", "2"], N)


@pytest.mark.parametrize("ward", [SHORT["hospital"], WARDS], ids=["the label itself", "nested"])
def test_levels_of_one_environment_each(tmp_path: Path, ward: pd.Series) -> None:
    table = SHORT.assign(ward=ward, sex=np.resize(["f", "m"], N))
    phrase = r"each level of 'ward' occurs in one environment only.*exclude=\['ward'\]"
    for read in (from_table, Moments.from_rows):
        with pytest.warns(DataWarning, match=phrase) as caught:
            read(save(table, tmp_path), **ASKED)
        assert len(caught) == 1


@pytest.mark.parametrize("shared", [False, True])
def test_a_level_that_two_environments_share_is_enough(shared: bool) -> None:
    """And one environment has nothing to tell apart."""
    table = SHORT.assign(ward=WARDS.replace({"bb1": "aa1"}) if shared else WARDS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MultiEnvironmentData.from_arrays(
            table[["age", "ward"]], table["pressure"], table["hospital"] if shared else None
        )


# ---------------------------------------------------------------- levels that the user lists

DOSES = SHORT.assign(dose=np.resize(["low", "high", "mid", "high"], N))
STATED = {"dose": ["mid", "none", "low", "high"]}


def test_listed_levels_come_in_their_order() -> None:
    with pytest.warns(DataWarning, match="from their features: 'dose=none'"):
        data = from_table(DOSES, **ASKED, categorical=STATED)
    assert [name for name in data.features.columns if "dose" in name] == ["dose=low", "dose=high"]
    assert data.notes == ("dose: 3 levels, compared with 'mid'.",)
    np.testing.assert_array_equal(
        data.X[:, -2:], np.column_stack([DOSES["dose"] == "low", DOSES["dose"] == "high"])
    )
    assert data.to_frame()["dose"].astype(str).tolist() == DOSES["dose"].tolist()
    absent = from_table(DOSES, **ASKED, categorical={"dose": ["none", "low", "mid", "high"]})
    assert absent.notes == ("dose: 3 levels, compared with 'none', which no row has.",)


def test_levels_that_are_not_listed(tmp_path: Path) -> None:
    for table in (DOSES, save(DOSES, tmp_path)):
        for read in (from_table, Moments.from_rows):
            with failing("column 'dose' has levels that are not listed: 'low', 'mid'."):
                read(table, **ASKED, categorical={"dose": ["high"]})


@pytest.mark.parametrize(
    "listed", [STATED["dose"], ["mid", "high", "low", "none"], ["high", "low", "mid", "none"]]
)
def test_a_listed_level_that_no_row_had_is_unknown(listed: list[str]) -> None:
    with pytest.warns(DataWarning, match="'dose=none'"):
        model = BIP(select=Threshold(0.0)).fit(
            from_table(DOSES, **ASKED, categorical={"dose": listed})
        )
    strange = DOSES.assign(dose=np.where(DOSES.index < 2, "none", DOSES["dose"]))
    with failing("levels that the training data lack: column 'dose' has 'none' (2 rows)."):
        model.predict(strange)
    np.testing.assert_array_equal(model.predict(DOSES[2:]), model.predict(DOSES)[2:])
    model.set_params(columns=Columns(handle_unknown="ignore"))
    with pytest.warns(DataWarning, match=f"count as the reference level, {listed[0]!r} of 'dose'"):
        assert model.predict(strange)[0] == model.predict(DOSES.assign(dose=listed[0]))[0]
