"""Errors of a comparison in environments left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import log_loss, mean_poisson_deviance, root_mean_squared_error

from cli_runner import run
from invariance import BIP, MultiEnvironmentData, compare
from invariance.baselines import ICP, LassoScreen, PooledRegression, Screened
from invariance.baselines.registry import default_names
from invariance.datasets import make_example
from invariance.exceptions import DataError
from invariance.kinds import CLASS, COUNT, NUMBER, TIME
from invariance.posterior.summary import display_width

EXAMPLE = make_example()
RNG = np.random.default_rng(3)
SITE = np.repeat(["a", "b", "c", "d"], 60)
X = RNG.normal(size=(240, 3)) + 0.7 * RNG.normal(size=(4, 3)).repeat(60, axis=0)
EXPOSURE = RNG.uniform(0.5, 3.0, size=240)
TIMES = RNG.exponential(np.exp(-X[:, 0]))
OUTCOMES: dict[str, tuple[Any, dict[str, Any]]] = {
    "number": (X[:, 0] + RNG.normal(size=240), {}),
    "classes": (np.where(RNG.random(240) < 1 / (1 + np.exp(-X[:, 0])), 2, 1), {}),
    "count": (RNG.poisson(EXPOSURE * np.exp(0.5 * X[:, 0])), {"exposure": EXPOSURE}),
    "time": (np.minimum(TIMES, 1.5), {"event": TIMES < 1.5}),
}
ERROR_NAMES = {
    "number": "RMSE",
    "classes": "log loss",
    "count": "Poisson deviance",
    "time": "1 − concordance",
}


def data_of(kind: str) -> MultiEnvironmentData:
    y, more = OUTCOMES[kind]
    return MultiEnvironmentData.from_arrays(X, y, SITE, **more)


def test_errors_are_those_of_the_field() -> None:
    y = np.array([0.0, 1.0, 1.0, 3.0])
    p = np.array([0.2, 0.7, 0.4, 0.9])
    e = np.array([1.0, 2.0, 0.5, 4.0])
    assert NUMBER.error(y, p) == pytest.approx(root_mean_squared_error(y, p))
    assert CLASS.error(y[:3], p[:3]) == pytest.approx(log_loss(y[:3], p[:3]))
    assert COUNT.error(y, p, exposure=e) == pytest.approx(mean_poisson_deviance(y, p * e))
    assert COUNT.error(y, 0.0 * p) == np.inf
    assert TIME.error(y, p, event=np.array([1.0, 1.0, 0.0, 1.0])) == pytest.approx(1 / 5)


def test_each_environment_is_predicted_by_what_was_fitted_without_it() -> None:
    result = compare(EXAMPLE, "BIP, Regression, Lasso", left_out=True)
    errors = result.spread("left_out")
    for e, label in enumerate(EXAMPLE.environments):
        rows = EXAMPLE.environment_index == e
        design = np.column_stack([np.ones(len(EXAMPLE.y)), EXAMPLE.X])
        beta = np.linalg.lstsq(design[~rows], EXAMPLE.y[~rows], rcond=None)[0]
        assert errors.loc["Regression", label] == pytest.approx(
            root_mean_squared_error(EXAMPLE.y[rows], design[rows] @ beta)
        )
        alone = BIP().fit(
            EXAMPLE.X[~rows], EXAMPLE.y[~rows], environments=EXAMPLE.environment_index[~rows]
        )
        assert errors.loc["BIP", label] == pytest.approx(
            root_mean_squared_error(EXAMPLE.y[rows], alone.predict(EXAMPLE.X[rows]))
        )
    summaries = ["mean_error", "worst_error", "error_ratio"]
    own = errors.loc["BIP"]
    ratio = own.mean() / errors.loc["Regression"].mean()
    assert result.loc["BIP", summaries].tolist() == pytest.approx([own.mean(), own.max(), ratio])
    assert result.loc["Regression", "error_ratio"] == 1.0
    alone = compare(EXAMPLE, "BIP", left_out=True)
    assert alone.index.tolist() == ["BIP"]
    assert alone.loc["BIP", "error_ratio"] == result.loc["BIP", "error_ratio"]
    unasked = compare(EXAMPLE, "BIP").loc["BIP"]
    assert unasked["left_out"] is None
    assert unasked[summaries].isna().all()


@pytest.mark.parametrize("kind", OUTCOMES)
def test_every_kind_of_outcome_has_its_error(kind: str) -> None:
    methods = ["BIP", "Regression", "Lasso", "Ridge", "Forest", "Boosting", "ICP"]
    result = compare(data_of(kind), methods, left_out=True)
    assert result.attrs["error"] == ERROR_NAMES[kind]
    known = ["BIP", "Regression"] if kind == "time" else methods
    if kind == "count":
        known = [name for name in methods if name != "ICP"]  # which knows of no exposure
    for name in methods:
        errors = result.spread("left_out").loc[name].to_numpy()
        assert np.isfinite(errors).all() == (name in known)
        assert (result.loc[name, "outcome"] == "failed") == (name not in known)
        # Better than no feature at all.
        if name in ("BIP", "Regression", "Ridge", "Lasso"):
            nothing = {"number": 1.4, "classes": 0.69, "count": 2.0, "time": 0.5}[kind]
            assert name not in known or errors.mean() < nothing
    as_number = result.index[result["as_number"]].tolist()
    assert as_number == (["ICP"] if kind == "classes" else [])
    lines = str(result).splitlines()
    assert max(map(display_width, lines)) <= 80
    assert any(ERROR_NAMES[kind] in line for line in lines)


def test_times_of_an_environment_that_was_seen_for_longest() -> None:
    end = np.where(SITE == "a", 3.0, 1.5)
    data = MultiEnvironmentData.from_arrays(X, np.minimum(TIMES, end), SITE, event=end > TIMES)
    assert np.isfinite(compare(data, "BIP", left_out=True).loc["BIP", "left_out"]).all()


def test_what_predicts_another_kind_has_no_error() -> None:
    methods = {"told": BIP(family="linear_gaussian"), "BIP": BIP()}
    result = compare(data_of("classes"), methods, left_out=True)
    assert np.isnan(result.loc["told", "left_out"]).all()
    assert "log loss" in result.loc["told", "notes"][-1]
    assert np.isfinite(result.loc["BIP", "mean_error"])


def test_an_environment_that_cannot_be_left_out_has_no_error() -> None:
    """Without 'a' nothing varies."""
    y = np.where(SITE == "a", RNG.integers(0, 2, 240), 0)
    result = compare(
        MultiEnvironmentData.from_arrays(X, y, SITE), "Regression, Ridge", left_out=True
    )
    content = json.loads(result.to_json())
    assert content["format"] == "invariance.comparison/3"
    for method, stored in zip(result.itertuples(), content["methods"], strict=True):
        assert np.isnan(method.left_out[0])
        assert method.mean_error == pytest.approx(method.left_out[1:].mean())
        assert stored["left_out"] == [None, *method.left_out[1:]]
        assert "'a'" in method.notes[-1]


def test_few_environments() -> None:
    half = np.isin(EXAMPLE.environment_index, (0, 1))
    two = MultiEnvironmentData.from_arrays(
        EXAMPLE.X[half], EXAMPLE.y[half], EXAMPLE.environment_index[half]
    )
    text = " ".join(str(compare(two, "BIP, Lasso", left_out=True)).split())
    assert "cannot be trusted" in text
    assert "cannot be trusted" not in " ".join(str(compare(two, "BIP, Lasso")).split())
    one = MultiEnvironmentData.from_arrays(EXAMPLE.X[:100], EXAMPLE.y[:100])
    with pytest.raises(DataError, match="there is one"):
        compare(one, "Lasso", left_out=True)


def test_a_screen_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = LassoScreen(k=3).screen(EXAMPLE)
    screen = LassoScreen.screen
    seen = []
    monkeypatch.setattr(
        LassoScreen,
        "screen",
        lambda self, data: seen.append(data.environments) or screen(self, data),
    )
    methods = {"screened": Screened(ICP(), LassoScreen(k=3)), "known": Screened(ICP(), whole)}
    screened, known = compare(EXAMPLE, methods, left_out=True)["left_out"]
    assert np.isnan(known).all()
    without = [
        tuple(other for other in EXAMPLE.environments if other != label)
        for label in EXAMPLE.environments
    ]
    assert seen == [EXAMPLE.environments, *without]
    for e, label in enumerate(EXAMPLE.environments):
        others = EXAMPLE.choosing([other for other in EXAMPLE.environments if other != label])
        model = Screened(ICP(), LassoScreen(k=3)).fit(others)
        rows = EXAMPLE.rows(e)
        error = root_mean_squared_error(EXAMPLE.y[rows], model.predict(EXAMPLE.X[rows]))
        assert screened[e] == pytest.approx(error)


def test_predictors_are_compared_by_default_where_errors_are() -> None:
    more = [name for name in default_names(5, left_out=True) if name not in default_names(5)]
    assert more == ["Ridge", "Forest", "Boosting", "Mixed", "Anchor", "V-REx"]
    told: list[float] = []
    result = compare(
        EXAMPLE, "Regression, Lasso", left_out=True, progress=lambda done, what: told.append(done)
    )
    assert (told[0], told[-1]) == (0.0, 1.0)
    again = compare(EXAMPLE, "Regression, Lasso", left_out=True)
    np.testing.assert_array_equal(result.spread("left_out"), again.spread("left_out"))


def test_command_line(tmp_path: Path) -> None:
    EXAMPLE.to_frame().to_csv(tmp_path / "rows.csv", index=False)
    file = str(tmp_path / "rows.csv")
    asked = ["--outcome", "blood_pressure", "--environment", "hospital"]
    out = run(
        "compare",
        file,
        *asked,
        "--methods",
        "Regression,ICP",
        "--left-out",
        "--json",
        str(tmp_path / "c.json"),
    )
    assert out.exit_code == 0, out.output
    stored = json.loads((tmp_path / "c.json").read_text())
    expected = compare(EXAMPLE, "Regression, ICP", left_out=True)
    assert stored["error"] == "RMSE"
    for method, wanted in zip(stored["methods"], expected.itertuples(), strict=True):
        assert method["left_out"] == pytest.approx(wanted.left_out)
        assert method["error_ratio"] == pytest.approx(wanted.error_ratio)


def test_a_report_shows_the_errors(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    model = BIP().fit(EXAMPLE)
    comparison = compare(EXAMPLE, {"all": PooledRegression()}, left_out=True)
    page = model.report(tmp_path / "report.html", comparison).read_text()
    assert "RMSE in environments left out" in page
    assert f"{comparison.loc['all', 'worst_error']:.4g}" in page
