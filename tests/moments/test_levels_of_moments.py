"""Levels of invariance from second moments, from streams and with a second pass: the same as by
rows in memory."""

from __future__ import annotations

from dataclasses import astuple, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cli_runner import run
from invariance import BIP, LinearGaussian, Moments, MultiEnvironmentData, Tolerance
from invariance.decisions.decision import Decision
from invariance.models.base import Level
from shifted_sites import own_baselines

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def table(growing: float = 1.0, tails: float | None = None) -> pd.DataFrame:
    """Sites have baselines of their own; the noise of the last is larger, or that of all has heavy
    tails."""
    frame = own_baselines(5, 120).to_frame()
    rng = np.random.default_rng(0)
    frame.loc[frame["site"] == "s4", "y"] += (growing - 1.0) * rng.normal(size=120)
    if tails is not None:
        frame["y"] += rng.standard_t(tails, size=len(frame))
    return frame


CASES: dict[str, tuple[pd.DataFrame, dict[str, Any], str]] = {
    "effects": (table(), {}, "effects"),
    "free": (table(), {"baseline": "free"}, "effects"),
    "noise free": (table(growing=5.0), {}, "effects, noise free"),
    "heavy tails": (table(tails=3.0), {}, "effects"),
    "random": (table(), {"deviations": "random"}, "effects"),
}


def in_parts(frame: pd.DataFrame, folder: Path) -> str:
    for k in range(4):
        frame.iloc[k::4].to_parquet(folder / f"part-{k}.parquet", index=False)
    return str(folder / "*.parquet")


def assert_same(found: Decision, expected: Decision, level: str) -> None:
    assert found.level == expected.level == level
    assert found.selected == expected.selected == ("x0", "x1")
    assert (found.heterogeneity.grade, found.in_short) == (
        expected.heterogeneity.grade,
        expected.in_short,
    )
    for name in ("heterogeneity", "baseline", "evidence"):
        one, other = (astuple(getattr(each, name)) for each in (found, expected))
        numbers = [[value for value in each if isinstance(value, float)] for each in (one, other)]
        np.testing.assert_allclose(*numbers, **CLOSE)
    np.testing.assert_allclose(found.posterior.inclusion, expected.posterior.inclusion, **CLOSE)
    np.testing.assert_allclose(found.prediction.selected, expected.prediction.selected, **CLOSE)
    estimates = (
        each.coefficients()[["estimate", "lower", "upper"]].to_numpy() for each in (found, expected)
    )
    np.testing.assert_allclose(*estimates, **CLOSE)


@pytest.mark.parametrize("case", CASES)
def test_a_stream_has_the_level_of_moments_in_memory(case: str, tmp_path: Path) -> None:
    frame, settings, level = CASES[case]
    data = MultiEnvironmentData.from_table(frame, "y", "site")
    streamed = replace(Moments.from_rows(in_parts(frame, tmp_path), "y", "site"), sample=None)
    found, expected = (
        BIP(**settings).fit(moments).decision_ for moments in (streamed, Moments.from_data(data))
    )
    assert_same(found, expected, level)


@pytest.mark.parametrize("case", [case for case in CASES if case != "random"])
def test_moments_with_a_sample_have_the_level_of_rows(case: str, tmp_path: Path) -> None:
    frame, settings, level = CASES[case]
    rows = in_parts(frame, tmp_path)
    whole = BIP(**settings).fit(MultiEnvironmentData.from_table(frame, "y", "site"))
    again = BIP(**settings).fit(Moments.from_rows(rows, "y", "site"))
    assert_same(again.decision_, whole.decision_, level)
    assert str(again.diagnose()) == str(whole.diagnose())
    new = frame.drop(columns=["y", "site"])
    np.testing.assert_allclose(again.predict(new), whole.predict(new), rtol=1e-7)
    np.testing.assert_allclose(again.predict_interval(new), whole.predict_interval(new), rtol=1e-6)


def test_nearly_dependent_columns_are_decided_as_by_rows_at_every_level() -> None:
    frame = table()
    rng = np.random.default_rng(1)
    frame.insert(0, "copy", frame["x0"] + 1e-5 * rng.normal(size=len(frame)))
    data = MultiEnvironmentData.from_table(frame, "y", "site")
    again = BIP().fit(Moments.from_rows(frame, "y", "site"))
    masks = np.array(list(product([False, True], repeat=5)))
    full = [
        each.decision_.findings.target.model.at_level(Level.full)
        for each in (BIP().fit(data), again)
    ]
    for level in Level:
        by_rows, by_moments = (model.at_level(level) for model in full)
        np.testing.assert_allclose(
            by_moments.log_ratio_many(masks), by_rows.log_ratio_many(masks), rtol=1e-8
        )
        np.testing.assert_allclose(
            by_moments.gain_many(masks), by_rows.gain_many(masks), rtol=1e-8, atol=1e-9
        )


def test_a_level_that_one_environment_lacks_is_known_within_environments() -> None:
    """The dummies of the others add up to 1 there: without the rows, too, a category is no
    collinear feature."""
    frame = table()
    kind = np.random.default_rng(2).choice(["a", "b", "c"], len(frame))
    kind[(frame["site"] == "s1") & (kind == "a")] = "b"
    frame = frame.assign(kind=kind, y=frame["y"] + 2.0 * (kind == "b") - (kind == "c"))
    data = MultiEnvironmentData.from_table(frame, "y", "site")
    masks = np.array(list(product([False, True], repeat=5)))
    for level in Level:
        rows, alone = (
            LinearGaussian().bind(each).at_level(level) for each in (data, Moments.from_data(data))
        )
        np.testing.assert_allclose(alone.log_ratio_many(masks), rows.log_ratio_many(masks), **CLOSE)
        np.testing.assert_array_equal(alone.null_many(masks).degrees, rows.null_many(masks).degrees)
        (p_rows, p_alone) = (
            model.invariance_test(masks, Tolerance.strict()).each for model in (rows, alone)
        )
        np.testing.assert_allclose(p_alone, p_rows, **CLOSE)
    decision = BIP().fit(Moments.from_data(data)).decision_
    assert (decision.level, decision.selected) == ("effects", ("x0", "x1", "kind"))


@pytest.mark.parametrize("options", [["--stream"], ["--no-stream"]])
def test_a_command_that_streams_has_the_same_level(options: list[str], tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    table().to_csv(file, index=False)
    result = run("fit", file, "-o", "y", "-e", "site", "--json", tmp_path / "fit.json", *options)
    assert result.exit_code == 0, result.stderr
    found = pd.read_json(tmp_path / "fit.json", typ="series")["decision"]
    expected = BIP().fit(MultiEnvironmentData.from_table(table(), "y", "site")).decision_
    assert (found["level"], tuple(found["selected"])) == ("effects", expected.selected)
    assert found["heterogeneity"]["p_value"] == pytest.approx(
        expected.heterogeneity.p_value, rel=1e-9
    )
    assert found["baseline"]["sd"] == pytest.approx(expected.baseline.sd, rel=1e-6)
