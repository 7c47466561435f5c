"""The diagnosis of many small environments, whose coefficients deviate at random."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from invariance import BIP, Columns, LinearGaussian, MultiEnvironmentData, load
from invariance.decisions.plots import Panels


def schools(n: int = 30, rogue: int | None = 7) -> MultiEnvironmentData:
    """x0 counts alike everywhere, but in one school; x1 is constant in each; x2 is noise"""
    rng = np.random.default_rng(1)
    counts = rng.integers(3, 16, n)
    counts[7] = 15
    place = np.repeat(np.arange(n), counts)
    X = rng.normal(size=(len(place), 3))
    X[:, 1] = rng.normal(size=n)[place]
    slope = np.where(place == rogue, -2.0, 1.0)
    y = slope * X[:, 0] + X[:, 1] + rng.normal(size=len(place)) + 0.2 * rng.normal(size=n)[place]
    return MultiEnvironmentData.from_arrays(X, y, [f"school {k:03d}" for k in place])


DATA = schools()


@pytest.fixture(scope="module")
def model() -> BIP:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BIP(progress=False).fit(DATA)


def test_coefficients_of_environments_are_those_of_the_mixed_model(model: BIP) -> None:
    diagnosis = model.diagnose(["x0", "x1"])
    own = diagnosis.own
    found = LinearGaussian(deviations="random").bind(DATA).blups(["x0", "x1"])
    assert own is not None
    assert own.names[1:] == ("x0", "x1")
    assert_allclose(own.estimates[:, 0], found.levels[:-1])
    assert_allclose(own.estimates[:, 1], found.coefficients[:-1, 0])
    assert np.isnan(own.estimates[:, 2]).all()  # x1 is constant in every school
    assert own.estimates[7, 1] + own.margins[7, 1] < own.usual[7, 1]
    text = str(diagnosis)
    assert "Small environments" not in text
    table = text.partition("Coefficients of environments")[2].partition("Without each")[0]
    first = next(line for line in table.splitlines() if "school" in line)
    assert "school 007" in first
    assert "x0" in first
    assert len(text.splitlines()) < 90


def test_all_is_in_the_dictionary(model: BIP) -> None:
    plain = json.loads(json.dumps(model.diagnose(["x0", "x1"]).to_dict(), allow_nan=False))
    assert len(plain["environments"]) == 30
    rows = plain["own_coefficients"]
    assert len(rows) == 30 * 3
    assert {row["estimate"] for row in rows if row["name"] == "x1"} == {None}
    assert rows[1]["lower"] < rows[1]["estimate"] < rows[1]["upper"]
    assert plain["named"] == "school 007"


def test_many_environments_are_left_out_only_where_asked(model: BIP) -> None:
    diagnosis = model.diagnose(["x0", "x1"])
    assert len(diagnosis.left_out) == 12
    assert not diagnosis.refitted
    assert diagnosis.left_out[0].environment == "school 007"
    asked = model.diagnose(["x0", "x1"], leave_out=True)
    assert asked.refitted
    assert len(asked.left_out) == 30
    assert_allclose(asked.left_out[7].p_invariant, diagnosis.left_out[0].p_invariant, rtol=1e-9)


def test_free_deviations_have_no_predicted_coefficients() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    labels = np.repeat(list("abc"), 40)
    diagnosis = (
        BIP(progress=False).fit(X, X[:, 0] + rng.normal(size=120), environments=labels).diagnose()
    )
    assert diagnosis.own is None
    assert diagnosis.to_dict()["own_coefficients"] is None


def test_where_nothing_deviates_no_coefficient_is_shown() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    labels = np.repeat(np.arange(30), 4)
    y = X[:, 0] + rng.normal(size=120)
    y -= np.array([y[labels == e].mean() - X[labels == e, 0].mean() for e in range(30)])[labels]
    model = BIP(progress=False).fit(X, y, environments=labels)
    diagnosis = model.diagnose(["x0"])
    assert diagnosis.own is not None
    assert diagnosis.own.share == 0.0
    assert "explain 0.0% of the noise" in str(diagnosis) or "explain 0% of the noise" in str(
        diagnosis
    )
    assert "farthest from the usual" not in str(diagnosis)


def test_pictures_show_the_environments_that_deviate_most() -> None:
    pytest.importorskip("matplotlib")
    import matplotlib.pyplot as plt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BIP(progress=False).fit(schools(60))
    for kind in ("coefficients", "environments"):
        drawn = model.plot(kind)
        first = next(iter(drawn.values())) if isinstance(drawn, Panels) else drawn
        names = [tick.get_text() for tick in first.get_yticklabels()]
        assert len(names) == 40
        assert "school 007" in names
        plt.close("all")


def _edge(name: str) -> MultiEnvironmentData:
    """Tables at which fits of their own in each environment would break"""
    rng = np.random.default_rng(5)
    counts = {"two": (30, 25), "one large": (200, 1, 2, 3, 4), "single rows": (1,) * 40}.get(
        name, (4, 6, 3, 9, 5, 7, 8, 2)
    )
    place = np.repeat(np.arange(len(counts)), counts)
    frame = pd.DataFrame(rng.normal(size=(len(place), 3)), columns=["a", "b", "c"]).assign(
        site=place
    )
    frame["y"] = frame["a"] + rng.normal(size=len(place))
    if name == "copies":
        frame["copy"] = 3.0 * frame["a"] - 1.0
    if name == "constant inside":
        frame["sector"] = np.where(place % 2 == 0, "public", "private")
    if name == "levels":
        frame["ward"] = rng.choice(["red", "green", "blue"], len(place))
    if name == "flat outcome":
        frame.loc[place == 2, "y"] = 1.5
    if name == "missing":
        frame.loc[[0, 5, 11], "b"] = np.nan
    return MultiEnvironmentData.from_table(frame, "y", "site", missing="drop")


EDGES = (
    *(
        "two",
        "one large",
        "single rows",
        "copies",
        "constant inside",
        "levels",
        "flat outcome",
        "missing",
    ),
)


@pytest.mark.filterwarnings("ignore::invariance.exceptions.InvarianceWarning")
@pytest.mark.parametrize("name", EDGES)
def test_edges_are_fitted_told_and_predicted(name: str, tmp_path: Path) -> None:
    data = _edge(name)
    model = BIP(deviations="random", progress=False).fit(data)
    assert {"a", "copy"}.intersection(model.decision_.selected)
    assert "nan" not in f"{model.summary()} {model.diagnose()}".replace("(nan)", "").split()
    table = data.to_frame().drop(columns=["y", "site"])
    low, high = model.predict_interval(table).T
    assert (low < high).all()
    known = model.predict(table, environments=data.to_frame()["site"])
    assert np.isfinite(known).all()
    model.save(tmp_path / "model.json")
    np.testing.assert_array_equal(
        load(tmp_path / "model.json").predict_interval(table), np.column_stack([low, high])
    )
    left = data.choosing([label for label in data.environments if label != data.environments[-1]])
    if left.n_environments > 1:
        BIP(deviations="random", progress=False).fit(left)


def test_reference_levels_change_no_verdict() -> None:
    frame = _edge("levels").to_frame()
    found = []
    for first in ("red", "green", "blue"):
        order = [first, *(level for level in ("red", "green", "blue") if level != first)]
        data = MultiEnvironmentData.from_table(
            frame, "y", "site", columns=Columns(categorical={"ward": order})
        )
        model = BIP(deviations="random", progress=False).fit(data)
        found.append(
            (
                model.inclusion_probabilities_.tolist(),
                model.decision_.evidence.p_invariant,
                model.predict(frame),
            )
        )
        own = model.predict(frame, environments=frame["site"])
        found[-1] += (own, model.predict_interval(frame))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert_allclose(one, two, rtol=1e-7)
