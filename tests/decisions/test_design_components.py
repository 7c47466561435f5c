"""What is said of environments along a variable and of crossed factors, drawn, saved and predicted
by it."""

import json

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy.special import fdtrc

from invariance import BIP, LinearGaussian, MultiEnvironmentData, Tolerance, along, compare, load
from invariance.decisions.components import change_of, components_of
from invariance.decisions.decision import Grade
from invariance.exceptions import (
    ApproximationWarning,
    NotInvariantWarning,
    PredictionWarning,
    SettingError,
)
from invariance.models.varying_coefficients import Curves

matplotlib.use("Agg")
pytestmark = pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")


def drifting(n: int = 400) -> pd.DataFrame:
    """The effect of a fades after 1990; b is stable."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"a": rng.normal(size=n), "b": rng.normal(size=n), "year": 1980 + 20 * np.arange(n) // n}
    )
    slope = np.where(frame["year"] < 1990, 2.0, 0.5)
    return frame.assign(y=slope * frame["a"] + frame["b"] + rng.normal(size=n))


@pytest.fixture(scope="module")
def model() -> BIP:
    frame = drifting()
    with pytest.warns(NotInvariantWarning):
        return BIP().fit(frame[["a", "year"]], frame["y"], along("year"))


def test_the_change_along_the_variable_is_told_drawn_and_written(model, tmp_path):
    decision = model.decision_
    assert decision.verdict.grade is Grade.differ
    change = decision.components.change
    assert (change.column, change.how) in {("a", "weaker"), ("a", "stronger")}
    assert change.p_value < 1e-6
    assert ("weaker" if change.first > "1990" else "stronger") == change.how
    assert change.told("y") in str(decision.verdict)
    plain = json.loads(json.dumps(decision.to_plain()))
    assert plain["components"]["tests"][0]["along"] is True
    assert len(plain["along"]["values"]) == len(plain["along"]["estimates"])
    _, slope = decision.plot("along").values()
    drawn = slope.lines[0].get_ydata()
    assert drawn[0] - drawn[-1] > 1.0
    assert [text.get_text() for text in slope.get_xticklabels()] == ["1980", "1999"]
    assert "along year" in str(model.summary())
    page = model.report(tmp_path / "page.html").read_text()
    assert "ten cosines" in page


def test_rows_outside_the_range_have_no_intervals(model, tmp_path):
    X = pd.DataFrame({"a": [0.0, 1.0, 1.0], "year": [1985.0, 2010.0, np.nan]})
    model.save(tmp_path / "model.json")
    for fitted in (model, load(tmp_path / "model.json")):
        with pytest.warns(PredictionWarning, match="2 of 3 rows lie outside 1980 to 1999"):
            ends = fitted.predict_interval(X)
        assert np.isnan(ends).tolist() == [[False, False], [True, True], [True, True]]
        with pytest.warns(PredictionWarning, match="1980 to 1999"):
            assert np.isfinite(fitted.predict(X)).all()
        assert np.isfinite(fitted.predict_interval(X[["a"]])).all()


@pytest.mark.parametrize(
    ("coefficient", "curve", "how"),
    [
        (1.0, [1.0, 1.0, 0.4], "weaker"),
        (-1.0, [-1.5, -1.0, -1.0], "stronger"),
        (0.3, [0.3, -0.5, 0.3], "of the other sign"),
    ],
)
def test_the_third_that_is_farthest_away_is_named(coefficient, curve, how):
    estimates = np.column_stack([np.zeros(9), np.repeat(curve, 3)])
    p_values = np.array([0.5, 0.01])
    zeros = np.zeros_like(estimates)
    curves = Curves(
        ("", "x"), np.arange(9.0), estimates, zeros, np.array([0.0, coefficient]), p_values
    )
    data = MultiEnvironmentData.from_table(drifting(), "y", along("year"))
    change = change_of(curves, data.design)
    place = int(np.argmax(np.abs(np.array(curve) - coefficient)))
    assert (change.how, change.first, change.last) == (how, str(3 * place), str(3 * place + 2))


def crossed(kind: str, n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"a": rng.normal(size=n), "hospital": rng.integers(0, 5, n), "year": rng.integers(0, 4, n)}
    )
    level = 2.0 * (frame["hospital"] == 2) if kind == "hospital" else 0.0
    sign = (
        0.8 * np.where(frame["hospital"] % 2 == frame["year"] % 2, 1.0, -1.0)
        if kind == "cell"
        else 0.0
    )
    return frame.assign(y=frame["a"] * (1.5 + sign) + level + rng.normal(size=n))


def test_the_factor_that_differs_is_named_and_the_other_is_not(tmp_path):
    model = BIP().fit(
        crossed("hospital")[["a", "hospital", "year"]],
        crossed("hospital")["y"],
        ["hospital", "year"],
    )
    components = model.decision_.components
    assert {test.name: test.p_exact < 0.05 for test in components.tests} == {
        "hospital": True,
        "year": False,
    }
    assert "by hospital, not by year" in str(model.decision_.verdict)
    assert components.cells.n_cells == 20
    assert "20 cells of hospital" in model.report(tmp_path / "page.html").read_text(
        encoding="utf-8"
    )
    X = crossed("hospital")[["a"]].head(3)
    by_default = model.predict_interval(X)
    years = model.predict_interval(X, new="year")
    np.testing.assert_array_equal(model.predict_interval(X, new="hospital"), by_default)
    assert (np.ptp(years, axis=1) < np.ptp(by_default, axis=1)).all()
    for name in ("town", "a"):
        with pytest.raises(SettingError, match=f"new='{name}'"):
            model.predict_interval(X, new=name)


@pytest.mark.parametrize("names", [["hospital", "ward"], ["ward", "hospital"]])
def test_a_factor_is_tested_without_those_nested_in_it(names):
    """As in a nested analysis of variance: sums of squares one after the other, over the residual
    of all factors."""
    frame = crossed("hospital").assign(year=0)
    frame["ward"] = 3 * frame["hospital"] + np.random.default_rng(0).integers(0, 3, len(frame))
    data = MultiEnvironmentData.from_table(frame, "y", names, exclude=["year"])
    components = components_of(LinearGaussian().bind(data), np.array([True]), Tolerance())
    assert data.design.nested == [("ward", "hospital")]
    assert components.differing == "by hospital, not by ward"
    assert components.cells is None
    assert (
        "but hospital without ward, which is nested in it"
        in dict(components.facts("y"))["components"]
    )
    line = np.column_stack([np.ones(len(frame)), frame["a"]])
    left = []
    ranks = []
    for groups in (np.zeros(len(frame)), frame["hospital"], frame["ward"]):
        columns = np.column_stack(
            [line * np.asarray(groups == group)[:, None] for group in np.unique(groups)]
        )
        left.append(np.sum((frame["y"] - columns @ np.linalg.lstsq(columns, frame["y"])[0]) ** 2))
        ranks.append(columns.shape[1])
    noise = left[2] / (len(frame) - ranks[2])
    for step, name in enumerate(["hospital", "ward"]):
        extra = ranks[step + 1] - ranks[step]
        p_value = fdtrc(extra, len(frame) - ranks[2], (left[step] - left[step + 1]) / extra / noise)
        assert next(
            test.p_exact for test in components.tests if test.name == name
        ) == pytest.approx(p_value, rel=1e-6)


def test_factors_that_cannot_be_told_apart_are_joined_by_or():
    """The second factor is the first one in all but three rows: each explains little given the
    other."""
    frame = crossed("hospital", 200)
    frame["twin"] = frame["hospital"].where(
        ~frame.index.isin(frame.index[frame["hospital"] == 0][:3]), 1
    )
    data = MultiEnvironmentData.from_table(frame, "y", ["hospital", "twin"], exclude=["year"])
    components = components_of(LinearGaussian().bind(data), np.array([True]), Tolerance())
    assert min(test.p_exact for test in components.tests) > 0.05
    assert components.differing == "by hospital or by twin"


def test_cells_show_what_no_factor_shows():
    data = MultiEnvironmentData.from_table(crossed("cell"), "y", ["hospital", "year"])
    components = components_of(LinearGaussian().bind(data), np.array([True]), Tolerance())
    assert components.cells.p_exact < 1e-6
    assert min(test.p_exact for test in components.tests) > 0.01
    assert "cells" in dict(components.facts("y"))


def test_other_methods_say_what_they_were_given():
    data = MultiEnvironmentData.from_table(drifting(), "y", along("year"))
    compared = compare(data, ["BIP", "ICP", "Lasso"], left_out=True)
    labelled = {
        name: any("5 blocks of year, as labels" in note for note in notes)
        for name, notes in compared["notes"].items()
    }
    assert labelled == {"BIP": False, "ICP": True, "Lasso": False}
    assert np.isfinite(compared.loc["BIP", "mean_error"])


def series(a: float, n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    noise = rng.normal(size=n)
    for t in range(1, n):
        noise[t] += a * noise[t - 1]
    frame = pd.DataFrame(
        {"x": rng.normal(size=n), "date": pd.date_range("2000-01-31", periods=n, freq="ME")}
    )
    return frame.assign(y=frame["x"] + noise, site=np.repeat(["p", "q", "r"], n // 3)).sample(
        frac=1.0, random_state=0
    )


def ways(frame: pd.DataFrame, path) -> dict:
    frame.to_csv(path, index=False)
    indexed = frame.set_index("date")
    return {
        "index": lambda: BIP().fit(indexed[["x"]], indexed["y"], indexed["site"]),
        "period": lambda: BIP().fit(
            indexed[["x"]].set_axis(indexed.index.to_period("M")),
            indexed["y"].to_numpy(),
            indexed["site"].to_numpy(),
        ),
        "table": lambda: BIP().fit(
            MultiEnvironmentData.from_table(frame, "y", "site", exclude=["date"])
        ),
        "file": lambda: BIP().fit(
            MultiEnvironmentData.from_table(path, "y", "site", exclude=["date"])
        ),
        "variable": lambda: BIP().fit(
            MultiEnvironmentData.from_table(frame, "y", along("date"), ["x"])
        ),
    }


@pytest.mark.parametrize("way", ["index", "period", "table", "file", "variable"])
def test_autocorrelated_residuals_raise_an_alarm(way, tmp_path, recwarn):
    with pytest.warns(ApproximationWarning, match="ar=2"):
        model = ways(series(0.7), tmp_path / "table.csv")[way]()
    found = model.decision_.autocorrelation
    assert 0.5 < found.correlation < 0.8
    assert any(
        label == "caution" and "along(" in text for label, text in model.decision_.sections[0].facts
    )
    assert model.decision_.to_plain()["autocorrelation"]["n"] == found.n
    recwarn.clear()
    quiet = ways(series(0.0), tmp_path / "table.csv")[way]()
    assert not quiet.decision_.autocorrelation.alarms
    assert not [
        warning for warning in recwarn if issubclass(warning.category, ApproximationWarning)
    ]


def test_a_sequence_that_is_accounted_for_raises_none():
    data = MultiEnvironmentData.from_table(series(0.7), "y", along("date", ar=2), ["x"])
    model = BIP().fit(data)
    assert model.decision_.autocorrelation is None
    assert model.selected_features_ == ("x",)
    assert model.decision_.coefficients()["estimate"].iloc[0] == pytest.approx(1.0, abs=0.15)


def test_a_note_near_a_unit_root_names_the_subset_whose_residuals_these_are():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=200))
    frame = pd.DataFrame({"walk": walk, "t": np.arange(200), "y": walk + rng.normal(size=200)})
    bound = LinearGaussian().bind(MultiEnvironmentData.from_table(frame, "y", along("t", ar=2)))
    (told,) = bound.remarks([[False]]).notes
    assert told.startswith("given {}, ")
    assert not bound.remarks([[True]]).notes


def test_factors_that_take_most_rows_are_a_caution():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(240, 4)), columns=list("abcd")).assign(
        y=rng.normal(size=240)
    )
    frame["site"], frame["year"] = np.repeat(np.arange(30), 8), np.tile(np.arange(8), 30)
    data = MultiEnvironmentData.from_table(frame, "y", ["site", "year"])
    model = LinearGaussian().bind(data)
    assert "185 of 240 rows" in model.remarks(np.ones(4, dtype=bool)).alarms[0]
    assert not model.remarks(np.array([True, False, False, False])).alarms
