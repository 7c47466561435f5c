"""Rows of one new site predicted together, and models adapted to a site: against a prototype's
reference outputs, plain NumPy, and what must hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import invariance
from invariance import BIP, BIPClassifier, BIPSurvival, MultiEnvironmentData, along
from invariance.exceptions import DataError, SettingError
from invariance.prediction.new_site import site_adaptation, site_training
from invariance.prediction.recalibration import Prior, recalibrated
from new_site_twins import Sites, adapted, together
from reference_data import REFERENCE, needs_reference
from shifted_sites import DATA, as_table, fitted

CASES = ("c0", "c1", "c2")
# The prototype's search for the variance of intercepts stops elsewhere.
SEARCH = 1e-3
NEW = np.random.default_rng(5).normal(0.3, 0.8, (60, DATA.X.shape[1]))


def reference(case: str) -> dict[str, np.ndarray]:
    with np.load(REFERENCE / "new_site.npz") as arrays:
        return {
            name.removeprefix(f"{case}_"): arrays[name]
            for name in arrays.files
            if name.startswith(f"{case}_")
        }


def reference_sites(arrays: dict[str, np.ndarray]) -> tuple[MultiEnvironmentData, tuple[str, ...]]:
    data = MultiEnvironmentData.from_arrays(arrays["X"], arrays["y"], arrays["env"])
    return data, tuple(np.array(data.features.columns)[arrays["selected"]])


@needs_reference
@pytest.mark.parametrize("case", CASES)
def test_site_prediction_agrees_with_the_reference(case):
    arrays = reference(case)
    predicted, *weights = site_training(*reference_sites(arrays)).predict(arrays["X_new"])
    np.testing.assert_allclose(weights, arrays["site_w_lambda"], rtol=SEARCH)
    np.testing.assert_allclose(predicted, arrays["site_prediction"], atol=SEARCH)


@needs_reference
@pytest.mark.parametrize("case", CASES)
def test_adaptation_agrees_with_the_reference(case):
    arrays = reference(case)
    new = arrays["X_new"]
    line = site_adaptation(*reference_sites(arrays)).adapted(new[:20], arrays["y_new"][:20], new)
    rows = np.insert(new[20:] - line.centre, 0, 1.0, axis=1)
    variance = line.noise + np.einsum("ni,ij,nj->n", rows, line.covariance, rows)
    predicted = new[20:] @ line.coefficients + line.intercept
    np.testing.assert_allclose(predicted, arrays["adapted_prediction"], atol=5e-5)
    np.testing.assert_allclose(variance, arrays["adapted_variance"], rtol=5e-5)
    assert line.freedom == arrays["adapted_df"]


@pytest.fixture(scope="module")
def few_sites() -> tuple[MultiEnvironmentData, Sites, np.ndarray]:
    """Four sites of 15 to 40 rows, of four features the first two selected, and rows of a fifth"""
    rng = np.random.default_rng(14)
    label = np.repeat(np.arange(4), (15, 25, 30, 40))
    X = rng.normal(size=(len(label), 4)) + rng.normal(size=(4, 4))[label]
    y = X[:, 0] - X[:, 1] + rng.normal(size=len(label)) + 0.5 * rng.normal(size=4)[label]
    X[:, 2] += y * rng.uniform(-1.0, 1.0, 4)[label]
    data = MultiEnvironmentData.from_arrays(X, y, label)
    selected = np.array([True, True, False, False])
    standard = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    return data, Sites(*standard, label, selected), rng.normal(0.5, 1.0, (30, 4))


def test_site_prediction_agrees_with_a_twin_by_rows(few_sites):
    data, sites, new = few_sites
    predicted, *weights = site_training(data, ("x0", "x1")).predict(new)
    standard = (new - data.X.mean(axis=0)) / data.X.std(axis=0)
    expected, *expected_weights = together(sites, standard)
    assert max(weights) < 0.7
    np.testing.assert_allclose(weights, expected_weights, rtol=1e-5)
    np.testing.assert_allclose(predicted, data.y.mean() + data.y.std() * expected, atol=1e-5)


def test_adaptation_agrees_with_a_twin_by_rows(few_sites):
    data, sites, new = few_sites
    mean, scale = data.X.mean(axis=0), data.X.std(axis=0)
    y = 1.0 + new[:8, 0] + np.random.default_rng(1).normal(size=8)
    line = site_adaptation(data, ("x0", "x1")).adapted(new[:8], y, new)
    expected, noise, variance = adapted(
        sites, (new - mean) / scale, (y - data.y.mean()) / data.y.std()
    )
    unit = data.y.std()
    np.testing.assert_allclose(line.coefficients, unit * expected[1:] / scale, atol=1e-5)
    predicted = data.y.mean() + unit * (expected[0] + (new - mean) / scale @ expected[1:])
    np.testing.assert_allclose(new @ line.coefficients + line.intercept, predicted, atol=1e-5)
    assert line.noise == pytest.approx(unit**2 * noise, rel=1e-5)
    assert line.covariance[0, 0] == pytest.approx(unit**2 * variance, rel=1e-4)


@pytest.fixture(scope="module")
def model() -> BIP:
    return fitted()


@pytest.fixture(scope="module")
def outcomes() -> np.ndarray:
    rng = np.random.default_rng(8)
    return NEW[:, 0] - NEW[:, 1] + 3.0 + 0.5 * rng.normal(size=len(NEW))


def test_units_do_not_matter(model, outcomes):
    scale = np.array([10.0, 0.1, -3.0, 1e3, 1.0, 2.0])[: DATA.X.shape[1]]
    other = BIP().fit(DATA.X * scale + 5.0, 7.0 * DATA.y - 1.0, environments=DATA.environment_index)
    together = model.predict_site(NEW)
    np.testing.assert_allclose(
        other.predict_site(NEW * scale + 5.0).prediction, 7.0 * together.prediction - 1.0, rtol=1e-7
    )
    adapted = model.adapt(NEW[:12], outcomes[:12]).predict(NEW)
    again = other.adapt(NEW[:12] * scale + 5.0, 7.0 * outcomes[:12] - 1.0)
    np.testing.assert_allclose(
        again.predict(NEW * scale + 5.0), 7.0 * adapted - 1.0, rtol=1e-6, atol=1e-6
    )


def test_site_prediction_averages_the_two_lines_at_the_mean_of_the_rows(model):
    together = model.predict_site(NEW)
    training = model._new_sites().adaptation.training
    standard = training.standard(NEW)
    x = standard.mean(axis=0)
    weight = together.weight_of_all
    mean = weight * training.all_features.at(x) + (1 - weight) * training.selected.at(x)
    expected = training.outcome_centre + training.outcome_scale * mean
    assert together.prediction.mean() == pytest.approx(expected)
    assert f"{weight:.0%} by all features" in together.sentence


@pytest.mark.parametrize("rows", [1, 9])
def test_few_rows_are_predicted_one_by_one(model, rows):
    together = model.predict_site(NEW[:rows])
    np.testing.assert_array_equal(together.prediction, model.predict(NEW[:rows]))
    assert together.weight_of_all is None
    assert "10" in together.sentence


def test_two_training_environments_predict_rows_one_by_one():
    few = DATA.choosing(DATA.environments[:2])
    model = BIP().fit(few)
    table = as_table(NEW)
    together = model.predict_site(table)
    np.testing.assert_array_equal(together.prediction, model.predict(table))
    assert "fewer than 3" in together.sentence


def test_many_labelled_rows_outweigh_the_training_sites(outcomes, model):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4_000, NEW.shape[1])) * NEW.std(axis=0) + NEW.mean(axis=0)
    y = 2.0 + X @ np.arange(1.0, X.shape[1] + 1.0) + 0.1 * rng.normal(size=len(X))
    adapted = model.adapt(X, y)
    np.testing.assert_allclose(
        adapted.predict(NEW), 2.0 + NEW @ np.arange(1.0, 1.0 + NEW.shape[1]), atol=0.1
    )


def test_below_five_labels_the_site_gets_an_intercept_as_a_mixed_model_predicts_it(model, outcomes):
    mixed = model._new_sites().mixed
    adapted = model.adapt(NEW[:3], outcomes[:3])
    left = outcomes[:3] - mixed.intercept - NEW[:3] @ mixed.coefficients
    shift = mixed.ratio * 3.0 / (1.0 + mixed.ratio * 3.0) * left.mean()
    np.testing.assert_allclose(
        adapted.predict(NEW), mixed.intercept + NEW @ mixed.coefficients + shift
    )


def test_the_model_that_is_adapted_stays_as_it_was(model, outcomes):
    before = model.predict(NEW)
    adapted = model.adapt(NEW[:20], outcomes[:20], NEW[20:])
    np.testing.assert_array_equal(model.predict(NEW), before)
    assert model.adaptation_ is None
    assert "20 rows" in adapted.adaptation_
    with pytest.raises(SettingError, match="adapted to one site"):
        adapted.new_environments()


def test_a_new_fit_forgets_the_site(outcomes):
    adapted = fitted().adapt(NEW[:20], outcomes[:20])
    again = adapted.fit(DATA)
    np.testing.assert_array_equal(again.predict(as_table(NEW)), fitted().predict(NEW))


def test_saved_models_predict_and_adapt_alike(model, outcomes, tmp_path):
    model.save(tmp_path / "model.json")
    saved = invariance.load(tmp_path / "model.json")
    here = model.predict_site(NEW)
    there = saved.predict_site(NEW)
    np.testing.assert_array_equal(there.prediction, here.prediction)
    np.testing.assert_array_equal(there.interval, here.interval)
    adapted = model.adapt(NEW[:20], outcomes[:20], NEW[20:])
    saved.adapt(NEW[:20], outcomes[:20], NEW[20:]).save(tmp_path / "site.json")
    loaded = invariance.load(tmp_path / "site.json")
    np.testing.assert_array_equal(loaded.predict_interval(NEW), adapted.predict_interval(NEW))
    assert loaded.adaptation_ == adapted.adaptation_
    adapted.save(tmp_path / "direct.json")
    direct = invariance.load(tmp_path / "direct.json")
    np.testing.assert_array_equal(direct.predict(NEW), adapted.predict(NEW))


def test_a_coverage_above_one_is_refused(model):
    with pytest.raises(SettingError, match="between 0 and 1"):
        model.predict_site(NEW, coverage=1.5)


def test_blocks_along_a_variable_are_not_sites():
    when = np.linspace(0.0, 1.0, len(DATA.y))
    table = as_table(DATA.X).assign(when=when)
    model = BIP().fit(table, DATA.y, environments=along("when"))
    together = model.predict_site(as_table(NEW).assign(when=0.5))
    assert together.weight_of_all is None
    assert "not one label" in together.sentence


def test_missing_outcomes_are_refused(model, outcomes):
    gaps = outcomes[:6].copy()
    gaps[2] = np.nan
    with pytest.raises(DataError, match="missing in 1 row of 6"):
        model.adapt(NEW[:6], gaps)


def test_a_regressor_is_not_adapted(outcomes):
    from sklearn.linear_model import Ridge

    model = BIP(regressor=Ridge()).fit(DATA)
    with pytest.raises(SettingError, match="regressor"):
        model.adapt(as_table(NEW[:6]), outcomes[:6])
    assert "a regressor predicts" in model.predict_site(as_table(NEW)).sentence


# ---------------------------------------------------------------- classes, counts, times


def test_recalibration_is_the_mode_of_the_posterior():
    rng = np.random.default_rng(0)
    eta = rng.normal(size=200)
    y = (rng.random(200) < expit(1.0 + 0.5 * eta)).astype(float)
    prior = Prior(np.array([0.1, 0.9]), np.array([0.3, 0.2]))

    def log_posterior(a: float, s: float) -> float:
        linear = a + 0.2 + s * (eta - 0.2)
        fit = (y * linear - np.log1p(np.exp(linear))).sum()
        return fit - 0.5 * (a - 0.1) ** 2 / 0.3 - 0.5 * (s - 0.9) ** 2 / 0.2

    a, s = recalibrated(eta, y, None, prior, 0.2)
    best = log_posterior(a, s)
    for step in (0.01, -0.01):
        assert log_posterior(a + step, s) < best
        assert log_posterior(a, s + step) < best


@pytest.fixture(scope="module")
def sites() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, labels, and the linear predictor with baselines of their own"""
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(8), 150)
    X = rng.normal(size=(len(label), 4))
    return X, label, X[:, 0] - X[:, 1] + rng.normal(size=8)[label]


def test_classes_are_recalibrated_to_the_site(sites, tmp_path):
    X, label, eta = sites
    rng = np.random.default_rng(1)
    y = np.where(rng.random(len(eta)) < expit(eta), "yes", "no")
    model = BIPClassifier().fit(X, y, environments=label)
    new = rng.normal(size=(2_000, 4))
    truth = expit(new[:, 0] - new[:, 1] + 2.0)
    seen = np.where(rng.random(len(new)) < truth, "yes", "no")
    adapted = model.adapt(new[:500], seen[:500], new[500:])
    before = np.abs(model.predict_proba(new)[:, 1] - truth).mean()
    after = np.abs(adapted.predict_proba(new)[:, 1] - truth).mean()
    assert after < 0.5 * before
    model.save(tmp_path / "model.json")
    saved = invariance.load(tmp_path / "model.json").adapt(new[:500], seen[:500], new[500:])
    np.testing.assert_array_equal(saved.predict_proba(new), adapted.predict_proba(new))
    assert "only numbers" in model.predict_site(new).sentence


def test_counts_and_times_are_recalibrated_to_the_site(sites):
    X, label, eta = sites
    rng = np.random.default_rng(2)
    new = rng.normal(size=(1_500, 4))
    linear = new[:, 0] - new[:, 1] + 1.5
    counts = BIP(family="poisson").fit(X, rng.poisson(np.exp(0.4 * eta)), environments=label)
    seen = rng.poisson(np.exp(0.4 * linear))
    adapted = counts.adapt(new[:400], seen[:400])
    truth = np.exp(0.4 * linear)
    assert (
        np.abs(adapted.predict(new) / truth - 1).mean()
        < 0.5 * np.abs(counts.predict(new) / truth - 1).mean()
    )
    times = BIPSurvival().fit(
        X, rng.exponential(np.exp(-eta)), environments=label, event=np.ones(len(eta))
    )
    seen_times = rng.exponential(np.exp(-linear))
    nearer = times.adapt(new[:400], seen_times[:400], event=np.ones(400))
    alive = np.exp(-0.1 * np.exp(linear))
    error = [
        np.abs(one.predict_survival(new, [0.1])[:, 0] - alive).mean() for one in (times, nearer)
    ]
    assert error[1] < 0.6 * error[0]
