"""Diagnoses where something cannot be fitted, or where the weak level decides."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from invariance import BIP, Moments, MultiEnvironmentData
from invariance.decisions.diagnosis import LeftOut, Refit, sites_of
from invariance.decisions.environments import Deviation, EnvironmentTest, Part, most_deviating
from invariance.decisions.rules import Threshold
from invariance.decisions.sections import format_r2
from invariance.exceptions import FileError
from invariance.models.base import IN_MEAN, VARIANCE

PARTS = (*IN_MEAN, VARIANCE)
pytestmark = pytest.mark.filterwarnings("ignore")


def words(diagnosis: object) -> str:
    return " ".join(str(diagnosis).split())


def one_short_site(n_short: int = 4) -> BIP:
    """Four features, and fewer rows in 'a' than a fit of all of them needs."""
    rng = np.random.default_rng(0)
    labels = np.repeat(list("abc"), [n_short, 60, 60])
    X = rng.normal(size=(len(labels), 4))
    return BIP(progress=False).fit(X, X.sum(axis=1) + rng.normal(size=len(labels)), environments=labels)


def weakly_invariant() -> BIP:
    """Two environments that differ a little: no subset reaches level 0.2, and some reach 0.02."""
    rng = np.random.default_rng(3)
    labels = np.repeat(list("ab"), 50)
    X = rng.normal(size=(100, 2))
    return BIP(progress=False).fit(X, X[:, 0] + 0.5 * (labels == "b") + rng.normal(size=100), environments=labels)


def test_a_subset_that_cannot_be_fitted_everywhere_is_not_judged(tmp_path: Path) -> None:
    diagnosis = one_short_site().diagnose(["x0", "x1", "x2", "x3"])
    assert np.isnan([diagnosis.p_invariant, diagnosis.r2]).all()
    assert "cannot be judged: environment 'a' has 4 rows, too few to fit more than 2 features" in words(diagnosis)
    assert "not compatible" not in words(diagnosis)
    assert "nan" not in words(diagnosis)
    diagnosis.to_json(tmp_path / "d.json")
    content = json.loads((tmp_path / "d.json").read_text())
    assert content["p_invariant"] is None
    assert content["unjudged"] == diagnosis.unjudged


def test_a_subset_that_can_be_fitted_is_judged() -> None:
    diagnosis = one_short_site().diagnose(["x0", "x1"])
    assert diagnosis.unjudged == ""
    assert "compatible with invariance (p-value" in words(diagnosis)


def test_selected_features_that_cannot_be_judged_are_not_called_improbable() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(90, 2))
    data = MultiEnvironmentData.from_arrays(
        np.column_stack([x, x.sum(axis=1)]), x[:, 0] + rng.normal(size=90), np.repeat(list("abc"), 30).tolist()
    )
    model = BIP(select=Threshold(0.0), progress=False)
    with pytest.warns(UserWarning, match=r"\{x0, x1, x2\} are invariant together cannot be judged: 'x0', 'x1', 'x2'"):
        model.fit(Moments.from_data(data))
    assert not model.invariant_


def test_the_level_that_decided_the_fit_decides_the_diagnosis() -> None:
    model = weakly_invariant()
    diagnosis = model.diagnose()
    level, weak = model.predictive_.judge.tolerance.level, model._findings.tolerance.lowest_level
    assert model.invariant_
    assert level == weak < diagnosis.p_invariant < model._findings.tolerance.level
    assert diagnosis.tolerance.level == level
    assert "The subset is compatible with invariance (p-value of approximate invariance" in words(diagnosis)
    assert f"at level {level:g}" in words(diagnosis)


def test_the_usual_level_decides_where_it_is_reached() -> None:
    model = one_short_site()
    assert model.predictive_.judge.tolerance.level == 0.2
    assert model.diagnose().tolerance.level == 0.2


def test_where_nothing_is_compatible_the_weak_level_is_named() -> None:
    rng = np.random.default_rng(2)
    labels = np.repeat(list("abc"), 60)
    x = rng.normal(size=(180, 2))
    y = x[:, 0] + 4.0 * (labels == "c") - 4.0 * (labels == "b") + rng.normal(size=180)
    model = BIP(progress=False).fit(x, y, environments=labels)
    assert model.predictive_ is None
    said = (
        "No subset of the features is compatible with invariance (invariance up to delta 0.02, tau 0.1 at level 0.02)."
    )
    assert said in words(model.diagnose())


@pytest.mark.parametrize("leave_out", [False, True])
@pytest.mark.parametrize("with_rows", [True, False])
def test_an_environment_without_which_nothing_can_be_fitted(leave_out: bool, with_rows: bool) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(list("abc"), 30)
    x = np.where(labels == "a", rng.normal(size=90), 0.0)[:, None]
    data = MultiEnvironmentData.from_arrays(x, x[:, 0] + rng.normal(size=90), labels.tolist())
    model = BIP(progress=False)
    model = model.fit(data) if with_rows else model.fit(Moments.from_data(data))
    diagnosis = model.diagnose(leave_out=leave_out)
    first, *others = diagnosis.left_out
    assert np.isnan([first.p_invariant, first.r2]).all()
    assert first.refit is None
    assert np.isfinite([left.r2 for left in others]).all()
    assert ("cannot be fitted" in words(diagnosis)) == leave_out
    assert "nan" not in words(diagnosis)


def test_the_site_that_limits_subsets_is_the_one_that_cannot_fit_more() -> None:
    """'a' has fewer rows than 'b' and needs none for the features that are constant there."""
    rng = np.random.default_rng(0)
    labels = np.repeat(list("abcd"), [4, 6, 60, 60])
    X = rng.normal(size=(130, 8))
    X[:4, 1:] = 0.0
    data = MultiEnvironmentData.from_arrays(X, X[:, 0] + rng.normal(size=130), labels.tolist())
    sites = sites_of(Moments.from_data(data))
    assert (sites.binding.environment, sites.binding.largest, sites.largest) == ("b", 4, 4)
    assert "in every environment, and 'b' has 6." in words(BIP(progress=False).fit(data).diagnose(leave_out=False))


def test_one_environment_is_not_enough_for_all_features() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(list("ab"), [5, 60])
    X = rng.normal(size=(65, 8))
    assert (
        sites_of(Moments.from_data(MultiEnvironmentData.from_arrays(X, X[:, 0], labels.tolist()))).enough_rows is None
    )


def test_ties_of_p_values_that_vanish_are_broken_by_the_deviance() -> None:
    def tested(label: str, deviance: float) -> EnvironmentTest:
        parts = {name: Part(deviance / 3.0, 0.0) for name in PARTS}
        return EnvironmentTest(label, 50, Deviation(deviance, 3.0, 2.0, 0.0, 0.0, parts))

    worst = most_deviating((tested("a", 3000.0), tested("b", 9000.0), tested("c", 5000.0)))
    assert worst is not None
    assert worst.environment == "b"


@pytest.mark.parametrize("nothing_compatible", [True, False])
def test_an_environment_like_the_others_is_neither_named_nor_decisive(nothing_compatible: bool) -> None:
    whole = replace(one_short_site(40).diagnose(), nothing_compatible=nothing_compatible)

    def with_p(p_against_best: float) -> tuple:
        refit = Refit(np.zeros(4), np.zeros(4), ("x0",), ("x0",), 0.95, 0.5, p_against_best)
        diagnosis = replace(whole, left_out=(LeftOut("a", 0.5, 0.1, refit),))
        return diagnosis.freed_by is not None, len(diagnosis.decisive)

    assert with_p(0.01 / 3 * 1.01) == (False, 0)
    assert with_p(0.01 / 3 * 0.99) == ((True, 0) if nothing_compatible else (False, 1))


def test_figures_that_round_to_zero_have_no_sign() -> None:
    assert [format_r2(value) for value in (-1e-5, 0.1234, -0.5, np.nan)] == ["0.000", "0.123", "-0.500", "–"]
    assert format_r2(-0.001, 2) == "0.00"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot write .*there is no folder"):
        weakly_invariant().diagnose().to_json(tmp_path / "nowhere" / "d.json")
