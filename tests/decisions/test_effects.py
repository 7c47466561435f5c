"""Effects in readable units, beside statsmodels where the likelihood is the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import t

from decision_cases import Fixed, made
from invariance import (
    BIP,
    BIPSurvival,
    Columns,
    Logistic,
    Moments,
    MultiEnvironmentData,
    Poisson,
    spline,
)
from invariance._tools.sections import as_text
from invariance._tools.text import display_width
from invariance.datasets import make_example
from invariance.decisions.effects import effect_section, standard_errors_in_words, units_of
from invariance.decisions.heterogeneity import heterogeneity
from meta_analysis_twins import meta_analysis, prediction_interval

DATA = make_example()
NAMES = ["age", "exercise", "smoking"]
X = pd.DataFrame(DATA.X, columns=list(DATA.feature_names))[NAMES]
SITE = np.array(DATA.environments, dtype=object)[DATA.environment_index]
SCORE = (DATA.y - DATA.y.mean()) / DATA.y.std()
HOURS = np.random.default_rng(0).uniform(1.0, 9.0, len(X))
pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.usefixtures("brief")]


def check(model: BIP, found: object, names: list[str]) -> None:
    """Estimates and ends of pooled effects against a fit of statsmodels, its intervals with our
    quantile of t."""
    effects = model.decision_.effects().query("environment == 'pooled'").set_index("column")
    assert list(effects.index) == names
    freedom = len(X) - len(names) - 1
    for name, row in effects.iterrows():
        estimate = found.params[name] * row["size"]
        error = found.bse[name] * row["size"]
        assert np.log(row["estimate"]) == pytest.approx(estimate, abs=1e-6)
        margin = t.ppf(0.975, freedom) * error
        assert np.log(row[["lower", "upper"]].astype(float)).tolist() == pytest.approx(
            [estimate - margin, estimate + margin], abs=1e-5 * max(1.0, abs(estimate))
        )


def test_odds_ratios_are_those_of_statsmodels() -> None:
    y = (np.random.default_rng(1).random(len(X)) < 1.0 / (1.0 + np.exp(-SCORE))).astype(int)
    model = BIP(Logistic()).fit(X, y, environments=SITE)
    check(
        model,
        sm.Logit(y, sm.add_constant(X[list(model.decision_.columns)])).fit(disp=0, tol=1e-12),
        NAMES,
    )


def test_rate_ratios_are_those_of_statsmodels() -> None:
    counts = np.random.default_rng(2).poisson(HOURS * np.exp(0.5 * SCORE))
    model = BIP(Poisson()).fit(X, counts, environments=SITE, exposure=HOURS)
    family = sm.families.Poisson()
    check(
        model,
        sm.GLM(counts, sm.add_constant(X), family=family, exposure=HOURS).fit(tol=1e-12),
        NAMES,
    )


def test_hazard_ratios_are_those_of_a_poisson_regression_on_split_rows() -> None:
    times = np.exp(-SCORE)
    end = np.quantile(times, 0.8)
    seen = np.minimum(times, end)
    event = times <= end
    model = BIPSurvival().fit(X, seen, environments=SITE, event=event)
    fit = model.decision_.findings.target.model.fit(model.decision_.mask, local=False)
    starts = fit.baseline.starts
    stops = np.append(starts[1:], np.inf)
    parts = [
        X.assign(interval=k, exposure=np.minimum(seen, stop) - start, event=event & (seen <= stop))[
            seen > start
        ]
        for k, (start, stop) in enumerate(zip(starts, stops, strict=True))
    ]
    rows = pd.concat(parts)
    assert rows["event"].sum() == event.sum()
    design = pd.concat(
        [rows[NAMES], pd.get_dummies(rows["interval"], prefix="interval", dtype=float)], axis=1
    )
    found = sm.GLM(
        rows["event"].astype(float), design, family=sm.families.Poisson(), exposure=rows["exposure"]
    )
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
        assert row[["estimate", "lower", "upper"]].tolist() == pytest.approx(
            [found.params[name] * row["size"], *ends]
        )
    of_moments = BIP().fit(Moments.from_data(model._data)).decision_.effects()
    assert of_moments["size"].tolist() == model.decision_.effects()["size"].tolist()
    np.testing.assert_allclose(
        of_moments["estimate"], model.decision_.effects()["estimate"], rtol=1e-8
    )


def test_what_separates_the_classes_has_the_effect_of_pseudo_data() -> None:
    y = (X["age"] > X["age"].median()).astype(int)
    model = BIP().fit(X, y, environments=SITE)
    decision = model.decision_
    assert decision.selected == ("age",)
    effects = decision.effects().iloc[0]
    coefficients = decision.coefficients().iloc[0]
    assert np.log(effects["estimate"]) == pytest.approx(coefficients["estimate"] * effects["size"])
    assert coefficients["estimate"] == pytest.approx(model.coef_[0])
    assert effects["infinite"]
    assert coefficients["infinite"]
    assert "no maximum" in standard_errors_in_words(decision)


# ---------------------------------------------------------------- environments


def logistic() -> tuple[BIP, np.ndarray]:
    y = (np.random.default_rng(1).random(len(X)) < 1.0 / (1.0 + np.exp(-SCORE))).astype(int)
    return BIP(Logistic(), select=Fixed((True, True, True))).fit(X, y, environments=SITE), y


def test_effects_of_environments_are_those_of_statsmodels_and_their_spread_that_of_its_twin() -> (
    None
):
    model, y = logistic()
    decision = model.decision_
    table = decision.effects(by_environment=True).set_index(["column", "environment"])
    pd.testing.assert_frame_equal(
        decision.effects(), decision.effects(by_environment=True).iloc[:3], check_dtype=False
    )
    estimates = np.empty((6, 3))
    errors = np.empty((6, 3))
    freedom = np.empty(6)
    for e, label in enumerate(model.environments_):
        rows = label == SITE
        fit = sm.Logit(y[rows], sm.add_constant(X[rows])).fit(disp=0, tol=1e-14)
        estimates[e], errors[e], freedom[e] = fit.params[NAMES], fit.bse[NAMES], fit.df_resid
        margins = t.ppf(0.975, fit.df_resid) * errors[e]
        for j, name in enumerate(NAMES):
            own = table.loc[name, label]
            size = own["size"]
            ends = (estimates[e, j] - margins[j], estimates[e, j] + margins[j])
            assert np.log(own["estimate"]) == pytest.approx(size * estimates[e, j], abs=1e-6)
            assert own["standard_error"] == pytest.approx(size * errors[e, j], rel=1e-5)
            assert np.log([own["lower"], own["upper"]]) == pytest.approx(
                size * np.array(ends), abs=1e-4
            )
            assert np.isnan(
                own[["tau", "i2", "p_interaction", "prediction_lower"]].astype(float)
            ).all()
            assert not own["infinite"]
    for j, name in enumerate(NAMES):
        pooled = table.loc[name, "pooled"]
        twin = meta_analysis(estimates[:, j], errors[:, j])
        size = pooled["size"]
        assert pooled["tau"] / size == pytest.approx(np.sqrt(twin.tau2), abs=1e-5)
        assert pooled["i2"] == pytest.approx(twin.i2, abs=1e-5)
        expected = size * np.array(prediction_interval(twin, 6))
        assert np.log([pooled["prediction_lower"], pooled["prediction_upper"]]) == pytest.approx(
            expected, abs=1e-4
        )
        p_value = heterogeneity(estimates[:, j], errors[:, j], freedom).p_value[0]
        assert pooled["p_interaction"] == pytest.approx(p_value, rel=1e-4)
    wide, narrow = (decision.effects(coverage) for coverage in (0.99, 0.5))
    for lower, upper in (("lower", "upper"), ("prediction_lower", "prediction_upper")):
        assert (wide[lower] < narrow[lower]).all()
        assert (wide[upper] > narrow[upper]).all()


def test_what_pseudo_data_shrink_is_not_printed() -> None:
    model, y = logistic()
    decision = model.decision_
    plain = sm.Logit(y, sm.add_constant(X)).fit(disp=0, tol=1e-14).params[NAMES]
    coefficients = decision.coefficients().iloc[:3]["estimate"]
    np.testing.assert_allclose(coefficients, plain, atol=1e-8)
    assert np.abs(model.coef_ / plain - 1.0).min() > 1e-3
    np.testing.assert_allclose(
        model.coef_, decision.findings.target.model.fit(decision.mask).coefficients, rtol=1e-9
    )


def test_environments_without_a_finite_estimate_do_not_count() -> None:
    """Sites without events, and without smokers among these; a linear programme finds them."""
    _, y = logistic()
    smokes = (X["smoking"] > X["smoking"].quantile(0.7)).astype(float)
    table = X[["age", "exercise"]].assign(smokes=smokes)
    y[(SITE == "coast") | (SITE == "west") & (smokes == 1.0)] = 0
    model = BIP(Logistic(), select=Fixed((True, True, True))).fit(table, y, environments=SITE)
    effects = model.decision_.effects(by_environment=True).set_index(["environment", "column"])
    infinite = effects.index[effects["infinite"]].tolist()
    assert infinite == [
        ("west", "smokes"),
        *(("coast", name) for name in ("age", "exercise", "smokes")),
    ]
    assert (effects["note"] != "").to_numpy().tolist() == effects["infinite"].tolist()
    assert effects["estimate"].notna().all()
    penalised = model.decision_.findings.target.model.fit(model.decision_.mask).local_coefficients
    west = model.environments_.index("west")
    assert np.log(effects.loc[("west", "smokes"), "estimate"]) == pytest.approx(penalised[west, 2])
    for column in table:
        own = effects.xs(column, level="column").drop("pooled")
        kept = own[~own["infinite"]]
        twin = meta_analysis(np.log(kept["estimate"].to_numpy()), kept["standard_error"].to_numpy())
        pooled = effects.loc[("pooled", column)]
        assert (pooled["tau"], pooled["i2"]) == pytest.approx(
            (np.sqrt(twin.tau2), twin.i2), abs=1e-5
        )
        expected = prediction_interval(twin, len(kept))
        assert np.log([pooled["prediction_lower"], pooled["prediction_upper"]]) == pytest.approx(
            expected, abs=1e-4
        )
    section = effect_section(model.decision_)
    assert section is not None
    assert "'coast' (all)" in section.notes[-1]
    assert "'west' (smokes)" in section.notes[-1]


def test_environments_in_which_columns_stand_for_each_other_do_not_count() -> None:
    data = made(n=30)
    columns = data.X.copy()
    columns[data.environment_index == 1, 1] = 2.0 * columns[data.environment_index == 1, 0]
    columns[data.environment_index == 2, 0] = 1.0
    model = BIP(select=Fixed((True, True, False, False))).fit(replace(data, X=columns))
    found = model.decision_.between_environments
    assert found is not None
    assert found.n_environments.tolist() == [2.0, 3.0]
    kept = (
        model.decision_.effects(by_environment=True).set_index(["column", "environment"]).loc["b"]
    )
    rows = kept.loc[["site 0", "site 2", "site 3"]]
    twin = meta_analysis(
        *(rows[name].to_numpy() / rows["size"] for name in ("estimate", "standard_error"))
    )
    assert found.tau[1] == pytest.approx(np.sqrt(twin.tau2), abs=1e-6)


def test_small_environments_are_compared_by_their_own_least_squares() -> None:
    """With the noise of all, and not by the coefficients that are predicted for them, which are
    shrunken."""
    rng = np.random.default_rng(0)
    where = np.repeat(np.arange(30), 6)
    columns = rng.normal(size=(180, 2))
    y = (
        columns @ [1.0, -1.0]
        + 0.8 * rng.normal(size=30)[where] * columns[:, 0]
        + rng.normal(size=180)
    )
    model = BIP(deviations="random", select=Fixed((True, True))).fit(columns, y, environments=where)
    estimates = np.empty((30, 2))
    unscaled = np.empty((30, 2))
    squares = 0.0
    for e in range(30):
        fit = sm.OLS(y[where == e], sm.add_constant(columns[where == e])).fit()
        estimates[e] = fit.params[1:]
        squares = squares + fit.ssr
        unscaled[e] = np.sqrt(np.diag(fit.normalized_cov_params))[1:]
    errors = unscaled * np.sqrt(squares / 90.0)
    effects = model.decision_.effects()
    for j in range(2):
        twin = meta_analysis(estimates[:, j], errors[:, j])
        row = effects.iloc[j]
        assert row["tau"] / row["size"] == pytest.approx(np.sqrt(twin.tau2), abs=1e-5)
        expected = row["size"] * np.array(prediction_interval(twin, 30))
        assert row[["prediction_lower", "prediction_upper"]].tolist() == pytest.approx(
            expected.tolist(), abs=1e-5
        )
    assert effects["tau"][0] > 3 * effects["tau"][1]


def test_environments_that_are_not_one_label_have_no_spread() -> None:
    data = made(n_environments=6, n=40)
    table = pd.DataFrame(data.X[:, :2], columns=["a", "b"]).assign(y=data.y)
    table["site"] = data.environment_index % 3
    table["year"] = data.environment_index // 3
    model = BIP().fit(MultiEnvironmentData.from_table(table, "y", ["site", "year"]))
    assert model.decision_.between_environments is None
    assert (
        model.decision_.effects()[["tau", "i2", "p_interaction", "prediction_upper"]]
        .isna()
        .all()
        .all()
    )
    alone = BIP().fit(X, DATA.y)
    effects = alone.decision_.effects()
    assert effects["tau"].isna().all()
    assert effects["estimate"].notna().all()
    three = BIP().fit(made(n_environments=3)).decision_.effects()
    assert three["tau"].notna().all()
    assert three["prediction_lower"].isna().all()


# ---------------------------------------------------------------- one estimate everywhere


@pytest.mark.parametrize("kind", ["number", "class", "count"])
def test_intervals_of_effects_that_differ_are_said_to_be_too_short(kind: str) -> None:
    """95% intervals of the mean effect over environments cover 0.2-0.6 then."""
    rng = np.random.default_rng(1)
    site = np.repeat(["a", "b", "c"], 200)
    X = rng.normal(size=(600, 2))
    signal = X[:, 0] * np.repeat([0.3, 1.0, 1.7], 200) - X[:, 1]
    draws = {
        "number": lambda: signal + rng.normal(size=600),
        "class": lambda: (rng.random(600) < 1.0 / (1.0 + np.exp(-signal))).astype(float),
        "count": lambda: rng.poisson(np.exp(0.5 * signal)).astype(float),
    }
    data = MultiEnvironmentData.from_arrays(X, draws[kind](), site)
    section = effect_section(BIP(select=Fixed((True, True)), progress=False).fit(data).decision_)
    (note,) = section.notes
    assert "x0 differ (p below 0.05)" in note
    remedy = "deviations='random'" if kind == "number" else "the estimates of each environment"
    assert remedy in note
    if kind == "number":
        again = BIP(select=Fixed((True, True)), deviations="random", progress=False).fit(data)
        assert effect_section(again.decision_).notes == ()


def test_tables_text_json_and_pictures_have_the_same_numbers() -> None:
    model, _ = logistic()
    decision = model.decision_
    effects = decision.effects(by_environment=True)
    coefficients = decision.coefficients()
    plain = decision.to_plain()
    np.testing.assert_array_equal(
        effects["estimate"], np.exp(coefficients["estimate"] * effects["size"])
    )
    for table, records in ((effects, plain["effects"]), (coefficients, plain["coefficients"])):
        assert [record["column"] for record in records] == table["column"].tolist()
        for name in ("estimate", "lower", "upper"):
            assert [record[name] for record in records] == table[name].tolist()
    section = effect_section(decision)
    assert section is not None
    head, *rows = section.table
    for row, (_, effect) in zip(rows, effects.iloc[:3].iterrows(), strict=True):
        told = dict(zip(head, row, strict=True))
        assert float(told["ratio"]) == pytest.approx(effect["estimate"], abs=0.0051)
        assert [float(end) for end in told["95% interval"].split("–")] == pytest.approx(
            effect[["lower", "upper"]].tolist(), abs=0.0051
        )
        assert told["I²"] == f"{effect['i2']:.0%}"
        assert float(told["τ"]) == pytest.approx(effect["tau"], rel=0.05)
    assert max(map(display_width, as_text([section]).splitlines())) <= 80
    panels = decision.plot("effects")
    for name, panel in panels.items():
        own = effects[effects["column"] == name]
        np.testing.assert_array_equal(
            panel.containers[0].lines[0].get_xdata(), own["estimate"].to_numpy()[1:]
        )


def test_printing_fits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = logistic()
    assert str(model.decision_)

    def fitted(*arguments: object) -> None:
        raise AssertionError("a fit")

    bound = type(model.decision_.findings.target.model)
    for name in ("estimates", "own_estimates", "fit", "standard_errors", "scores"):
        monkeypatch.setattr(bound, name, fitted)
    assert effect_section(model.decision_) is not None
    assert len(model.decision_.effects(0.9, by_environment=True)) == 21
    model.decision_.plot("effects")


def test_without_features_there_are_no_effects() -> None:
    noise = np.random.default_rng(0).normal(size=len(X))
    decision = BIP().fit(X, noise, environments=SITE).decision_
    assert decision.selected == ()
    assert effect_section(decision) is None
    effects = decision.effects(by_environment=True)
    assert (len(effects), decision.to_plain()["effects"]) == (0, [])
    assert "p_interaction" in effects


def test_long_names_fit_a_terminal() -> None:
    names = [
        "systolic blood pressure at admission",
        "systolic blood pressure at discharge",
        "smoking",
    ]
    table = X.set_axis(names, axis=1)
    table[names[0]] *= 1e4
    decision = (
        BIP(select=Fixed((True, True, True))).fit(table, 1e6 * DATA.y, environments=SITE).decision_
    )
    section = effect_section(decision)
    assert section is not None
    assert max(map(display_width, as_text([section]).splitlines())) <= 80
    assert len({label for label, _ in section.facts}) == 3
    narrow = (
        BIP(select=Fixed((True, True, True)))
        .fit(X.set_axis(names, axis=1), DATA.y, environments=SITE)
        .decision_
    )
    section = effect_section(narrow)
    assert section is not None
    assert max(map(display_width, as_text([section]).splitlines())) <= 80
    assert len({row[0] for row in section.table}) == 4


def test_units_are_read_at_a_glance() -> None:
    rng = np.random.default_rng(3)
    values = {
        "age": 55 + 12 * rng.normal(size=900),
        "dose": 0.031 * rng.normal(size=900),
        "sex": rng.integers(1, 3, 900),
    }
    table = pd.DataFrame(values).assign(
        ward=rng.choice(["b", "a", "c"], 900), bmi=26 + 4 * rng.normal(size=900)
    )
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
