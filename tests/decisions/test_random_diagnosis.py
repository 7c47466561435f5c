"""The diagnosis of many small environments, whose coefficients deviate at random."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from invariance import BIP, LinearGaussian, MultiEnvironmentData


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


def test_random_deviations_are_chosen_for_small_environments(model: BIP) -> None:
    assert "random deviations" in model.decision_.findings.target.model.kind


def test_coefficients_of_environments_are_those_of_the_mixed_model(model: BIP) -> None:
    diagnosis = model.diagnose(["x0", "x1"])
    own, found = diagnosis.own, LinearGaussian(deviations="random").bind(DATA).blups(["x0", "x1"])
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
    X, labels = rng.normal(size=(120, 2)), np.repeat(list("abc"), 40)
    diagnosis = BIP(progress=False).fit(X, X[:, 0] + rng.normal(size=120), environments=labels).diagnose()
    assert diagnosis.own is None
    assert diagnosis.to_dict()["own_coefficients"] is None


def test_where_nothing_deviates_no_coefficient_is_shown() -> None:
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(120, 2)), np.repeat(np.arange(30), 4)
    y = X[:, 0] + rng.normal(size=120)
    y -= np.array([y[labels == e].mean() - X[labels == e, 0].mean() for e in range(30)])[labels]
    model = BIP(progress=False).fit(X, y, environments=labels)
    diagnosis = model.diagnose(["x0"])
    assert diagnosis.own is not None
    assert diagnosis.own.share == 0.0
    assert "explain 0.0% of the noise" in str(diagnosis) or "explain 0% of the noise" in str(diagnosis)
    assert "farthest from the usual" not in str(diagnosis)


def test_pictures_show_the_environments_that_deviate_most() -> None:
    pytest.importorskip("matplotlib")
    import matplotlib.pyplot as plt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BIP(progress=False).fit(schools(60))
    for kind in ("coefficients", "environments"):
        axes = np.ravel(model.plot(kind))
        names = [tick.get_text() for tick in axes[0].get_yticklabels()]
        assert len(names) == 40
        assert "school 007" in names
        plt.close("all")
