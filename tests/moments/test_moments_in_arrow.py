"""Moments that are stored and shipped as Arrow tables."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arrow_rows import assert_same_bits
from invariance import BIP, Moments, MultiEnvironmentData, spline
from invariance.datasets import make_example
from invariance.exceptions import DataError, DataWarning


def through_parquet(table: pa.Table, folder: Path) -> pa.Table:
    pq.write_table(table, folder / "moments.parquet")
    return pq.read_table(folder / "moments.parquet")


def through_ipc(table: pa.Table, folder: Path) -> pa.Table:
    with pa.ipc.new_file(folder / "moments.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=1)
    with pa.ipc.open_file(folder / "moments.arrow") as file:
        return file.read_all()


TRIPS: list[Callable[[pa.Table, Path], pa.Table]] = [
    lambda table, _: table,
    through_parquet,
    through_ipc,
]


def messy() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 90
    frame = pd.DataFrame(
        rng.normal(size=(n, 3)) * [1.0, 1e-9, 1e9] + [1e9, 0.0, -1e3],
        columns=["far", "small", "wide"],
    )
    frame["ward"] = rng.choice(["day", "night", "ünder"], n)
    frame["always"] = 0.1
    frame["y"] = frame["wide"] / 1e9 + rng.normal(size=n)
    frame["site"] = np.repeat(["a", "b", "c"], n // 3)
    frame.loc[[3, 40], "small"] = np.nan
    frame.loc[[5], "site"] = None
    return frame


def moments_of_messy(groups: Any = None) -> Moments:
    with pytest.warns(DataWarning):
        data = MultiEnvironmentData.from_table(messy(), "y", "site", missing="drop", groups=groups)
    return Moments.from_data(data)


@pytest.mark.parametrize("trip", TRIPS)
def test_every_bit_comes_back(trip: Callable[[pa.Table, Path], pa.Table], tmp_path: Path) -> None:
    moments = moments_of_messy()
    assert moments.encoding is not None
    assert moments.constants
    assert None in moments.dropped_rows
    back = Moments.from_arrow(trip(moments.to_arrow(), tmp_path))
    assert_same_bits(moments, back)
    assert back.losses == moments.losses
    assert back.notes == moments.notes


def test_all_that_is_known_comes_back() -> None:
    table = make_example().to_frame().assign(ward=["day", "night", "day"] * 300)
    with pytest.warns(DataWarning, match="ward=late"):
        listed = Moments.from_rows(
            table, "blood_pressure", "hospital", categorical={"ward": ["night", "late", "day"]}
        )
    assert listed.encoding is not None
    assert listed.encoding.of_levels["ward"].absent == {"late"}
    curved = moments_of_messy({"both": ["far", "small"], "wide": spline("wide", knots=4)})
    noted = replace(moments_of_messy(), environment_notes=("left out: 'd' (2 rows).",))
    for moments in (replace(listed, sample=None), curved, noted):
        assert_same_bits(moments, Moments.from_arrow(moments.to_arrow()))


LABELS: list[list[Hashable]] = [
    ["a", 1, 2.5, False],
    [1.0, "1.0 ", "true", None],
    ["inf", -3, 2**70, 0.5],
    [
        dt.date(2020, 2, 29),
        dt.datetime(2020, 2, 29, 1, 2, 3, 4),
        pd.Timestamp("2020-02-28 00:00:00.000000001"),
        "2020",
    ],
    [("a", (1, dt.date(2020, 1, 1))), ("a",), "b", "c"],
    [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), np.int64(7), np.float64(0.1), '"a"\n{}'],
]


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("trip", TRIPS[:2])
def test_labels_keep_their_types(labels: list[Hashable], trip: Any, tmp_path: Path) -> None:
    labels = [*labels, "fifth", "sixth"]
    moments = replace(Moments.from_data(make_example()), environments=tuple(labels))
    back = Moments.from_arrow(trip(moments.to_arrow(), tmp_path))
    assert back.environments == tuple(labels)
    plain = [
        type(label.item()) if isinstance(label, np.generic) else type(label) for label in labels
    ]
    assert [type(label) for label in back.environments] == plain


def test_sites_are_merged_after_the_trip(tmp_path: Path) -> None:
    table = make_example().to_frame()
    parts = []
    for hospital, rows in table.groupby("hospital", sort=False):
        part = Moments.from_rows(rows, "blood_pressure", "hospital", partial=True)
        parts.append(Moments.from_arrow(through_parquet(part.to_arrow(), tmp_path)))
        assert parts[-1].environments == (hospital,)
    together = reduce(Moments.merge, parts).checked()
    whole = Moments.from_rows(table, "blood_pressure", "hospital")
    assert_same_bits(together, replace(whole, sample=None))
    assert BIP(progress=False).fit(together).selected_features_ == ("age", "exercise", "smoking")


def test_other_tables_are_refused() -> None:
    table = Moments.from_data(make_example()).to_arrow()
    frame = make_example().to_frame()
    renamed = table.set_column(0, "label", pa.array(list("123456")))
    for other, told in (
        (pa.concat_tables([table, table]), "12 rows for 6"),
        (table.slice(1), "5 rows for 6"),
        (table.slice(6), "0 rows for 6"),
        (pa.concat_tables([table, renamed]), "12 rows for 6"),
        (frame, "DataFrame"),
        (pa.table(frame), "no table of moments"),
        (table.replace_schema_metadata(None), "no table of moments"),
        (retold(table, format="invariance.moments/2", version="9.1"), "invariance 9.1"),
        (table.replace_schema_metadata({"invariance": "[]"}), "damaged"),
        (table.replace_schema_metadata({"invariance": "NaN"}), "damaged"),
    ):
        with pytest.raises(DataError, match=told):
            Moments.from_arrow(other)


def retold(table: pa.Table, **changes: Any) -> pa.Table:
    told = {**json.loads(table.schema.metadata[b"invariance"]), **changes}
    return table.replace_schema_metadata({"invariance": json.dumps(told)})


def test_damage_is_found() -> None:
    table = Moments.from_data(make_example()).to_arrow()
    d = len(table["centre"][0])
    kinds = {name: table.schema.field(name).type for name in table.column_names}
    damaged = [(table.drop_columns(["rest"]), "rest"), (retold(table, outcome="nothing"), "")]
    for name, row, told in (
        ("label", "[1]", ""),
        ("centre", [0.0] * (d - 1), f"centre should have {d} numbers"),
        ("rest", [float("nan")] * d, "no rows can have"),
        ("scatter", None, "scatter should have"),
        ("maximum", [-1e9] * d, "no rows can have"),
        ("scatter", [-1.0] * len(table["scatter"][0]), "no rows can have"),
    ):
        values = pa.array([row, *table[name].to_pylist()[1:]], kinds[name])
        damaged.append((table.set_column(table.column_names.index(name), name, values), told))
    for other, told in damaged:
        with pytest.raises(DataError, match=f"damaged .*{told}"):
            Moments.from_arrow(other)


def test_what_cannot_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = Moments.from_data(make_example())
    with pytest.raises(
        DataError, match=r"the label frozenset\({'d'}\) .* type frozenset cannot be stored: use"
    ):
        replace(moments, environments=("a", "b", "c", frozenset("d"))).to_arrow()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"invariant-prediction\[parquet\]"):
        moments.to_arrow()
