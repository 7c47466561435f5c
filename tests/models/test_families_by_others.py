"""Families by others declare the kind of their outcome and their link: what follows is right, or
refused by name."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binom

from benchmarks._families import GammaLog, Probit, skewed
from cli_runner import run
from invariance import BIP, BIPClassifier, MultiEnvironmentData, Tolerance, load
from invariance.exceptions import ApproximationWarning, DataError, NotInvariantWarning, SettingError
from invariance.kinds import OutcomeKind
from invariance.models.base import INVERSE_LINKS, kind_of, link_of
from invariance.models.likelihood import ByLikelihood
from invariance.models.registry import FAMILIES, MODELS, as_family


def gamma_rows() -> tuple[NDArray, NDArray, NDArray]:
    X, y, sites = skewed(6, 80, 0)
    return (
        np.column_stack([X, np.log(y) * np.random.default_rng(1).normal(size=6)[sites]]),
        y,
        sites,
    )


@pytest.fixture(scope="module")
def gamma() -> BIP:
    X, y, sites = gamma_rows()
    return BIP(GammaLog(), random_state=0).fit(X, y, environments=sites)


def test_a_gamma_family_fits_as_statsmodels_does() -> None:
    X, y, _ = skewed(3, 40, 0)
    found = GammaLog().maximise(X, y)
    model = sm.GLM(y, sm.add_constant(X), sm.families.Gamma(sm.families.links.Log()))
    fit = model.fit(tol=1e-12)
    np.testing.assert_allclose(
        np.append(found.intercept, found.coefficients), fit.params, atol=1e-7
    )
    shape = np.linspace(1.5, 3.0, 2001)
    best = max(model.loglike_mu(fit.mu, 1.0 / a) for a in shape)
    assert found.log_likelihood == pytest.approx(best, abs=1e-4)


def test_every_family_of_the_package_declares_what_its_mean_is() -> None:
    for name in set(FAMILIES) & set(MODELS) - {"auto"}:
        family: Any = as_family(name)
        assert isinstance(kind_of(family), OutcomeKind), name
        probe = np.linspace(-2.0, 2.0, 5)
        if hasattr(family, "mean"):
            np.testing.assert_allclose(
                family.mean(probe), INVERSE_LINKS[link_of(family)](probe), err_msg=name
            )


# ---------------------------------------------------------------- what follows from a link


def test_effects_are_ratios_of_means(gamma: BIP) -> None:
    decision = gamma.decision_
    assert decision.selected == ("x0",)
    coefficients = decision.coefficients()
    effects = decision.effects(by_environment=True)
    np.testing.assert_allclose(
        effects["estimate"], np.exp(effects["size"] * coefficients["estimate"])
    )
    gamma.set_params(predict_with="selected")
    pooled = gamma.predict(np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    assert effects["estimate"][0] == pytest.approx((pooled[0] / pooled[1]) ** effects["size"][0])
    gamma.set_params(predict_with="auto")


def test_intervals_of_one_width_are_refused(gamma: BIP, tmp_path: Path) -> None:
    X = np.zeros((2, 3))
    gamma.save(tmp_path / "gamma.json")
    saved = load(tmp_path / "gamma.json")
    np.testing.assert_allclose(saved.predict(X), gamma.predict(X))
    for model in (gamma, saved):
        with pytest.raises(SettingError, match="no intervals with a log link"):
            model.predict_interval(X)
        with pytest.raises(SettingError, match="no intervals with a log link"):
            model.predict(X, return_std=True)
        with pytest.raises(SettingError, match="no intervals with a log link"):
            model.new_environments().half_width(0.9)
    pd.DataFrame(X, columns=["x0", "x1", "x2"]).to_csv(tmp_path / "new.csv", index=False)
    asked = "predict", tmp_path / "gamma.json", tmp_path / "new.csv", "--out", tmp_path / "p.csv"
    assert run(*asked).exit_code == 0
    written = pd.read_csv(tmp_path / "p.csv")
    assert written.columns.tolist() == ["x0", "x1", "x2", "prediction"]
    np.testing.assert_allclose(written["prediction"], gamma.predict(X))
    assert "leave --coverage out" in run(*asked, "--coverage", "0.9").stderr


def test_the_methods_paragraph_states_what_was_done(gamma: BIP) -> None:
    told = gamma.methods_paragraph()
    assert "log link" in told
    assert "the dispersion" in told
    for wrong in (
        "least squares",
        "standard errors from",
        "variance of the noise",
        "noise's standard deviation",
    ):
        assert wrong not in told
    assert gamma.decision_.findings.target.model.compares == ("intercept", "slopes", "dispersion")


def test_baselines_without_standard_errors_have_no_standard_deviation(gamma: BIP) -> None:
    assert np.isnan(gamma.decision_.baseline.sd)
    assert gamma.decision_.baseline.size == ""
    X, y, sites = gamma_rows()
    free = BIP(GammaLog(), baseline="free", random_state=0).fit(X, y, environments=sites)
    for text in (str(gamma.decision_), gamma.methods_paragraph(), free.methods_paragraph()):
        assert "nan" not in text


def test_pages_and_pictures_name_the_ratio(
    gamma: BIP, without_pictures: None, tmp_path: Path
) -> None:
    page = gamma.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Ratio of means of y" in page
    assert "logarithms of ratios of means" in page
    assert "Difference in" not in page
    panels = gamma.plot("effects")
    assert panels["x0"].get_xscale() == "log"
    assert panels.figure.get_supxlabel().startswith("ratio of means")


def test_a_link_of_ones_own_has_no_effects(without_pictures: None, tmp_path: Path) -> None:
    X, _, sites = skewed(3, 60, 0)
    y = (X[:, 0] + np.random.default_rng(0).normal(size=180) > 0.0).astype(float)
    model = BIP(Probit(), random_state=0).fit(X, y, environments=sites)
    np.testing.assert_array_equal((model.predict(X) > 0.5), model.predict(X).round() == 1.0)
    assert model.predict(X).max() <= 1.0
    with pytest.raises(SettingError, match="probit link are neither differences nor ratios"):
        model.decision_.effects()
    with pytest.raises(SettingError, match="'probit', cannot be saved"):
        model.save(tmp_path / "probit.json")
    assert "neither differences nor ratios" in model.report(tmp_path / "page.html").read_text(
        encoding="utf-8"
    )
    assert list(model.plot("effects")) == ["effects"]


def test_a_class_by_others_is_a_class() -> None:
    X, _, sites = skewed(3, 60, 0)
    labels = np.where(X[:, 0] + np.random.default_rng(0).normal(size=180) > 0.0, "ill", "well")
    model = BIPClassifier(Probit(), random_state=0).fit(X, labels, environments=sites)
    assert model.classes_.tolist() == ["ill", "well"]
    assert set(model.new_environments().kind.figures) >= {"auc", "brier"}
    with pytest.raises(SettingError, match="does not predict a probability"):
        BIPClassifier(GammaLog()).fit(X, labels, environments=sites)


# ---------------------------------------------------------------- what is refused


def changed(**attributes: Any) -> ByLikelihood:
    return type("Changed", (GammaLog,), attributes)()


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (
            changed(kind=None),
            "Changed does not declare the kind of its outcome: add kind = 'number' or",
        ),
        (
            changed(link=None),
            "Changed does not declare the link of its outcome: add link = 'identity' or",
        ),
        (changed(kind="ordinal"), "Changed declares the unknown kind 'ordinal'"),
        (changed(kind="time"), "maximise\\(\\) is not told which times are censored"),
        (changed(link="cubic"), "Changed declares the link 'cubic': add mean()"),
        (
            changed(mean=lambda self, predictor: expit(predictor)),
            "'log', of which its mean\\(\\) is not the inverse",
        ),
    ],
    ids=["no kind", "no link", "unknown kind", "time", "unknown link", "another mean"],
)
def test_what_is_not_declared_is_refused_before_a_fit(family: Any, message: str) -> None:
    X, y, sites = skewed(3, 30, 0)
    with pytest.raises(SettingError, match=message):
        BIP(family).fit(X, y, environments=sites)


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (changed(link="identity"), "has the mean .*, as by the link 'log'"),
        (
            changed(link="probit", mean=lambda self, predictor: 0.0 * predictor - 1.0),
            "as by the link 'log'",
        ),
        (
            changed(link="cubic", mean=lambda self, predictor: np.exp(predictor) ** 3),
            "as by the link 'log'",
        ),
    ],
    ids=["fits another link", "constant mean", "another mean"],
)
def test_a_link_that_the_fit_contradicts_is_refused(family: Any, message: str) -> None:
    X, y, sites = skewed(3, 60, 0)
    with pytest.raises(SettingError, match=message):
        BIP(family).fit(X, y, environments=sites)


def shifted(intercept: float) -> ByLikelihood:
    """A family whose fit has another intercept than the largest likelihood"""

    def maximise(self: Any, X: NDArray, y: NDArray) -> Any:
        found = GammaLog.maximise(self, X, y)
        return found and found._replace(intercept=found.intercept + intercept)

    return changed(maximise=maximise)


def test_what_is_predicted_without_features_is_the_mean_or_said_to_be_none() -> None:
    X, y, sites = skewed(3, 60, 0)
    data = MultiEnvironmentData.from_arrays(X, y, sites)
    nothing = np.zeros((1, 2), dtype=bool)
    with pytest.raises(
        SettingError, match=r"is between .* mend its link, its mean\(\) or the intercept"
    ):
        shifted(10.0).bind(data)
    assert shifted(0.7).bind(data).remarks(nothing).alarms[0].startswith("Changed predicts")
    for slight in (0.0, 0.01):
        assert shifted(slight).bind(data).remarks(nothing).alarms == ()
    with pytest.warns(ApproximationWarning, match="it predicts something else"):
        decision = BIP(shifted(0.7)).fit(X, y, environments=sites).decision_
    assert "it predicts something else" in " ".join(str(decision).split())


@pytest.mark.parametrize(
    ("family", "values", "message"),
    [
        (
            changed(kind="class"),
            (0.5, 1.0, 2.0),
            "must be classes, coded as 0 and 1, and is not in 60 rows, such as 0.5",
        ),
        (
            changed(kind="count"),
            (0.5, 1.0, 2.0),
            "must be whole numbers from 0 on, and is not in 30 rows, such as 0.5",
        ),
    ],
    ids=["class", "count"],
)
def test_outcomes_of_another_kind_are_refused(
    family: Any, values: tuple[float, ...], message: str
) -> None:
    X, _, sites = skewed(3, 30, 0)
    with pytest.raises(DataError, match=message):
        BIP(family).fit(X, np.resize(values, 90), environments=sites)


def test_effects_without_intervals_say_so(gamma: BIP) -> None:
    assert set(gamma.decision_.effects()["note"]) == {"no interval"}
    assert gamma.decision_.coefficients()["lower"].isna().all()


def test_where_nothing_is_compatible_logarithms_show_how_coefficients_differ() -> None:
    """Levels of environments differ by factors, and so would coefficients of least squares to the
    outcome itself."""
    X, y, sites = skewed(5, 60, 0, 5.0)
    y = y * np.array([0.02, 0.2, 1.0, 5.0, 30.0])[sites]
    family = GammaLog()
    data = MultiEnvironmentData.from_arrays(X, y, sites)
    np.testing.assert_array_equal(family.working_outcome(data), np.log(y))
    assert family.working_outcome(dataclasses.replace(data, y=-y)).max() < 0.0
    with pytest.warns(NotInvariantWarning):
        assert "x0" in BIP(family).fit(data).selected_features_


# ---------------------------------------------------------------- small environments


def p_values(n_rows: int, seeds: int) -> NDArray:
    """Of the true subset of invariant data"""
    found = []
    for seed in range(seeds):
        X, y, sites = skewed(4, n_rows, seed)
        model = GammaLog().bind(MultiEnvironmentData.from_arrays(X[:, :1], y, sites))
        mask = np.ones((1, 1), dtype=bool)
        test = model.invariance_test(mask, Tolerance(rho=0.0, tau=0.0))
        found.append(test.joint[0])
    return np.array(found)


def test_invariant_data_in_small_environments_are_not_rejected() -> None:
    """By chi-square tails half of them were at 4 rows, a tenth at 15."""
    for n_rows in (4, 8):
        rejected = int((p_values(n_rows, 40) < 0.05).sum())
        assert rejected <= binom.ppf(0.999, 40, 0.08)


def test_a_fit_needs_a_row_more_than_it_has_parameters() -> None:
    X, y, sites = skewed(4, 5, 0)
    X = np.column_stack([X, X[:, :1] ** 2])
    model = GammaLog().bind(MultiEnvironmentData.from_arrays(X, y, sites))
    assert model.largest_size == 2
    assert model.log_ratio([True, True, False]) > -np.inf
    assert model.log_ratio([True, True, True]) == -np.inf
    with pytest.raises(
        DataError, match="the 5 rows of environment '0' are too few to fit more than 2 columns"
    ):
        model.fit([True, True, True])
    with pytest.raises(
        DataError, match="environment '0' has 5 rows, too few for subsets of 3 features"
    ):
        model.check_max_size(3)
    decision = BIP(GammaLog()).fit(X, y, environments=sites).decision_
    assert "too few to judge subsets of more than 2 features" in str(decision)


@pytest.mark.filterwarnings("ignore")
def test_few_rows_for_a_law_of_many_are_noted() -> None:
    """Where no parameter is for the scatter"""
    X, y, sites = skewed(3, 25, 0)
    died = (X[:, 0] + np.random.default_rng(0).normal(size=75) > 0.0).astype(float)
    noted = (
        "Fewer than 10 rows for each of 3 parameters: '0' (25 rows), '1' (25 rows), '2' (25 rows)"
    )
    notes = BIP(Probit()).fit(X, died, environments=sites).posterior_.notes
    assert any(note.startswith(noted) for note in notes)
    whole = np.ones((1, 2), dtype=bool)
    probit = Probit().bind(MultiEnvironmentData.from_arrays(X, died, sites))
    assert noted in probit.remarks(whole).notes[0]
    assert not any(probit.remarks(~whole))
    assert not any(GammaLog().bind(MultiEnvironmentData.from_arrays(X, y, sites)).remarks(whole))
