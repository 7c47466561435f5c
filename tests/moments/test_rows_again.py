"""Rows that are read again: which of them count, how they are read, and what is said where they are others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyarrow")

from invariance import BIP, Moments, MultiEnvironmentData
from invariance.exceptions import DataError, SettingError


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    place, kind = np.arange(240) % 4, rng.integers(0, 2, 240)
    frame = pd.DataFrame(
        {"a": rng.normal(size=240), "g": np.array(["p", "q"])[kind], "e": np.array(list("uvwx"))[place]}
    )
    return frame.assign(y=frame.a + rng.standard_t(3, size=240))


def again(moments: Moments, rows: Any, **options: Any) -> BIP:
    return BIP(environment="e", progress=False).fit_moments(moments, rows=rows, **options)


def same_p_values(model: BIP, frame: Any, **settings: Any) -> None:
    """As rows in memory give them, which know of tails."""
    whole = BIP(progress=False).fit_data(MultiEnvironmentData.from_table(frame, "y", "e", **settings))
    masks = np.array([[True, False], [False, True], [True, True]])
    one, other = (fit.decision_.findings.judge.evidence(masks).p_invariant for fit in (model, whole))
    np.testing.assert_allclose(one, other, rtol=1e-8)


@pytest.fixture
def rare() -> pd.DataFrame:
    """A level that the environment x alone has"""
    frame = table()
    frame.loc[frame.index[frame.e == "x"][:4], "g"] = "rare"
    return frame


@pytest.mark.parametrize("settings", [{"drop_environments": ["x"]}, {"min_rows": 50}])
def test_levels_of_environments_that_are_not_used(rare: pd.DataFrame, settings: dict[str, Any]) -> None:
    rare = rare.drop(index=rare.index[rare.e == "x"][30:])
    same_p_values(again(Moments.from_rows(rare, "y", "e", **settings), rare), rare, **settings)


def test_levels_of_environments_that_were_not_chosen(rare: pd.DataFrame) -> None:
    moments = Moments.from_rows(rare, "y", "e").choosing(["u", "v", "w"])
    same_p_values(again(moments, rare), rare[rare.e != "x"])


def test_levels_of_rows_without_an_outcome(rare: pd.DataFrame) -> None:
    rare.loc[rare.g == "rare", "y"] = np.nan
    with pytest.warns(Warning, match="dropped"):
        moments = Moments.from_rows(rare, "y", "e", missing="drop")
    same_p_values(again(moments, rare), rare.dropna())


def test_text_that_is_read_as_numbers() -> None:
    frame = table().drop(columns="g").assign(z=np.arange(240) * 7 % 9)
    text = frame.assign(z=frame.z.astype(str))
    same_p_values(again(Moments.from_rows(text, "y", "e", numeric=["z"]), text), frame)


def test_rows_of_a_label_that_was_dropped_and_given_to_others() -> None:
    frame, settings = table(), {"drop_environments": ["x"], "merge_environments": {"x": ["u", "v"]}}
    same_p_values(again(Moments.from_rows(frame, "y", "e", **settings), frame), frame, **settings)


def test_rows_that_keep_their_label_in_a_merge() -> None:
    frame, settings = table(), {"merge_environments": {"u": ["u", "v"]}}
    same_p_values(again(Moments.from_rows(frame, "y", "e", **settings), frame), frame, **settings)


def test_a_column_that_is_not_there_is_named() -> None:
    frame = table()
    moments = Moments.from_rows(frame, "y", "e")
    with pytest.raises(DataError, match=r"BIP\(environment='E'\) names .* which the table lacks; did you mean 'e'\?"):
        BIP(environment="E").fit_moments(moments, rows=frame)
    for name in ("a", "g", "y"):
        with pytest.raises(DataError, match=rf"it lacks the column '{name}'; .*Available columns: "):
            again(moments, frame.drop(columns=name))


def test_residuals_where_nothing_is_selected() -> None:
    frame = table().assign(y=np.random.default_rng(1).normal(size=240))
    model = again(Moments.from_rows(frame, "y", "e"), frame)
    assert model.selected_features_ == ()
    told, whole = model.residual_check(), BIP().fit_data(MultiEnvironmentData.from_table(frame, "y", "e"))
    np.testing.assert_allclose(np.sort(told.mean), np.sort(whole.residual_check([]).mean), rtol=1e-10)


def test_files_are_read_again_with_their_options(tmp_path: Path) -> None:
    frame = table().drop(columns="g").assign(z=np.arange(240) * 7 % 9)
    path, options = tmp_path / "t.csv", {"na": ["-999"], "sep": ";", "decimal": ","}
    frame.assign(a=frame.a.where(frame.index % 9 > 0, -999)).to_csv(path, index=False, sep=";", decimal=",")
    with pytest.warns(Warning, match="dropped"):
        moments = Moments.from_rows(path, "y", "e", missing="drop", **options)
    same_p_values(again(moments, path, **options), frame[frame.index % 9 > 0])
    with pytest.raises(DataError, match=r"complete rows there, .* files with the same na=, decimal= and other options"):
        again(moments, path, sep=";", decimal=",")
    with pytest.raises(SettingError, match=r"sep= is for files that are read again: add rows=, or leave it out\."):
        BIP(environment="e").fit_moments(moments, sep=";")


def test_codes_are_levels_again(tmp_path: Path) -> None:
    frame = table().assign(g=np.array(["01", "02", "1"])[np.arange(240) % 7 % 3])
    frame.to_csv(tmp_path / "t.csv", index=False)
    moments = Moments.from_rows(tmp_path / "t.csv", "y", "e", categorical=["g"])
    same_p_values(again(moments, tmp_path / "t.csv"), frame, categorical=["g"])


def test_why_the_model_was_chosen() -> None:
    frame = table()
    moments = Moments.from_rows(frame, "y", "e")
    unknown = replace(moments, kind=None)
    told = [BIP().fit_moments(moments), again(moments, frame), BIP().fit_moments(unknown), again(unknown, frame)]
    assert [model.posterior_.model_reason for model in told] == [
        "y takes values that are no counts",
        "y takes values that are no counts",
        "y is known by second moments alone",
        "y is known by second and fourth moments",
    ]
