"""Effects in readable units, beside statsmodels where the likelihood is the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import t

from invariance import BIP, BIPSurvival, Columns, Logistic, Moments, Poisson, spline
from invariance.datasets import make_example
from invariance.decisions.effects import standard_errors_in_words, units_of

DATA = make_example()
NAMES = ["age", "exercise", "smoking"]
X = pd.DataFrame(DATA.X, columns=list(DATA.feature_names))[NAMES]
SITE = np.array(DATA.environments, dtype=object)[DATA.environment_index]
SCORE = (DATA.y - DATA.y.mean()) / DATA.y.std()
HOURS = np.random.default_rng(0).uniform(1.0, 9.0, len(X))
pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.usefixtures("brief")]


def check(model: BIP, found: object, names: list[str]) -> None:
    """Estimates and ends of pooled effects against a fit of statsmodels, its intervals with our quantile of t."""
    effects = model.decision_.effects().query("environment == 'pooled'").set_index("column")
    assert list(effects.index) == names
    freedom = len(X) - len(names) - 1
    for name, row in effects.iterrows():
        estimate, error = found.params[name] * row["size"], found.bse[name] * row["size"]
        assert np.log(row["estimate"]) == pytest.approx(estimate, abs=1e-6)
        margin = t.ppf(0.975, freedom) * error
        assert np.log(row[["lower", "upper"]].astype(float)).tolist() == pytest.approx(
            [estimate - margin, estimate + margin], abs=1e-5 * max(1.0, abs(estimate))
        )


def test_odds_ratios_are_those_of_statsmodels() -> None:
    y = (np.random.default_rng(1).random(len(X)) < 1.0 / (1.0 + np.exp(-SCORE))).astype(int)
    model = BIP(Logistic()).fit(X, y, environments=SITE)
    check(model, sm.Logit(y, sm.add_constant(X[list(model.decision_.columns)])).fit(disp=0, tol=1e-12), NAMES)


def test_rate_ratios_are_those_of_statsmodels() -> None:
    counts = np.random.default_rng(2).poisson(HOURS * np.exp(0.5 * SCORE))
    model = BIP(Poisson()).fit(X, counts, environments=SITE, exposure=HOURS)
    family = sm.families.Poisson()
    check(model, sm.GLM(counts, sm.add_constant(X), family=family, exposure=HOURS).fit(tol=1e-12), NAMES)


def test_hazard_ratios_are_those_of_a_poisson_regression_on_split_rows() -> None:
    times = np.exp(-SCORE)
    end = np.quantile(times, 0.8)
    seen, event = np.minimum(times, end), times <= end
    model = BIPSurvival().fit(X, seen, environments=SITE, event=event)
    fit = model.decision_.findings.target.model.fit(model.decision_.mask, local=False)
    starts = fit.baseline.starts
    stops = np.append(starts[1:], np.inf)
    parts = [
        X.assign(interval=k, exposure=np.minimum(seen, stop) - start, event=event & (seen <= stop))[seen > start]
        for k, (start, stop) in enumerate(zip(starts, stops, strict=True))
    ]
    rows = pd.concat(parts)
    assert rows["event"].sum() == event.sum()
    design = pd.concat([rows[NAMES], pd.get_dummies(rows["interval"], prefix="interval", dtype=float)], axis=1)
    found = sm.GLM(rows["event"].astype(float), design, family=sm.families.Poisson(), exposure=rows["exposure"])
    fitted = found.fit(tol=1e-12)
    check_survival(model, fitted)


def check_survival(model: BIP, found: object) -> None:
    effects = model.decision_.effects().query("environment == 'pooled'").set_index("column")
    assert list(effects.index) == NAMES
    for name, row in effects.iterrows():
        assert np.log(row["estimate"]) == pytest.approx(found.params[name] * row["size"], abs=1e-6)
        width = np.log(row["upper"] / row["lower"]) / 2.0 / row["size"]
        assert width / found.bse[name] == pytest.approx(1.963, abs=2e-3)


def test_differences_are_those_of_least_squares_with_its_intervals() -> None:
    model = BIP().fit(X, DATA.y, environments=SITE)
    found = sm.OLS(DATA.y, sm.add_constant(X)).fit()
    effects = model.decision_.effects().query("environment == 'pooled'").set_index("column")
    for name, row in effects.iterrows():
        ends = (found.conf_int().loc[name] * row["size"]).tolist()
        assert row[["estimate", "lower", "upper"]].tolist() == pytest.approx([found.params[name] * row["size"], *ends])
    of_moments = BIP().fit(Moments.from_data(model._data)).decision_.effects()
    assert of_moments["size"].tolist() == model.decision_.effects()["size"].tolist()
    np.testing.assert_allclose(of_moments["estimate"], model.decision_.effects()["estimate"], rtol=1e-8)


def test_what_separates_the_classes_has_the_effect_of_pseudo_data() -> None:
    y = (X["age"] > X["age"].median()).astype(int)
    decision = BIP().fit(X, y, environments=SITE).decision_
    assert decision.selected == ("age",)
    effects, coefficients = decision.effects().iloc[0], decision.coefficients().iloc[0]
    assert np.log(effects["estimate"]) == pytest.approx(coefficients["estimate"] * effects["size"])
    assert "no maximum" in standard_errors_in_words(decision)


def test_units_are_read_at_a_glance() -> None:
    rng = np.random.default_rng(3)
    values = {
        "age": 55 + 12 * rng.normal(size=900),
        "dose": 0.031 * rng.normal(size=900),
        "sex": rng.integers(1, 3, 900),
    }
    table = pd.DataFrame(values).assign(ward=rng.choice(["b", "a", "c"], 900), bmi=26 + 4 * rng.normal(size=900))
    y = table["age"] / 10 + (table["ward"] == "c") + table["bmi"] + rng.normal(size=900)
    model = BIP(columns=Columns(groups=[spline("bmi", knots=4)])).fit(table, y, environments=SITE)
    units = units_of(model._data)
    assert (units["age"].text, units["age"].size) == ("per 10", 10.0)
    assert (units["dose"].text, units["dose"].size) == ("per 0.02", 0.02)
    assert units["sex"] == (1.0, "2 against 1")
    assert units["ward=c"] == (1.0, "c against a")
    assert units["bmi"].text == ""
    effects = model.decision_.effects()
    assert "bmi" not in set(effects["feature"])
    assert "bmi" in model.decision_.selected
