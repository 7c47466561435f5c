"""A random intercept, anchor regression and V-REx: against the same fits to rows, statsmodels and
ivmodels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from invariance.baselines import (
    Anchor,
    PooledRegression,
    RandomIntercept,
    Screened,
    StabilizedRegression,
    VREx,
)
from invariance.exceptions import DataError, DataWarning, PredictionWarning, SettingError

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def rows(n_environments: int = 6, far: float = 0.0) -> Rows:
    """Means of features, intercepts and noise that differ between environments, all features `far`
    from 0."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(n_environments), rng.integers(15, 40, n_environments))
    X = rng.normal(size=(len(labels), 3)) + rng.normal(size=(n_environments, 3))[labels] + far
    y = X @ [1.0, -0.5, 0.3] + 2.0 + 0.8 * rng.normal(size=n_environments)[labels]
    return X, y + (0.5 + 0.2 * labels) * rng.normal(size=len(labels)), labels


def line_of(model: Any) -> np.ndarray:
    return np.append(model.coef_, model.intercept_)


def dense_anchor(rows: Rows, gamma: float) -> np.ndarray:
    """The fit to rows whose environments' means were multiplied by √γ, after centring."""
    X, y, labels = rows
    values = np.column_stack([X, y])
    centred = values - values.mean(axis=0)
    means = np.array([centred[labels == label].mean(axis=0) for label in labels])
    moved = (centred + (np.sqrt(gamma) - 1.0) * means) * (np.ptp(values, axis=0) > 0.0)
    b = np.linalg.lstsq(moved[:, :-1], moved[:, -1], rcond=None)[0]
    return np.append(b, y.mean() - X.mean(axis=0) @ b)


def dense_vrex(rows: Rows, penalty: float) -> np.ndarray:
    X, y, labels = rows
    design = np.column_stack([X, np.ones(len(y))])
    scale = y.var()

    def objective(line: np.ndarray) -> float:
        squares = (y - design @ line) ** 2 / scale
        risks = np.array([squares[labels == label].mean() for label in np.unique(labels)])
        return float(risks.mean() + penalty * risks.var())

    varying = np.append(np.ptp(X, axis=0) > 0.0, True)
    design = design[:, varying]
    found = np.zeros(len(varying))
    start = np.linalg.lstsq(design, y, rcond=None)[0]
    for _ in range(3):
        start = minimize(
            objective, start, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-15}
        ).x
    found[varying] = start
    return found


def test_a_random_intercept_is_the_mixed_model_of_statsmodels() -> None:
    mixed = pytest.importorskip("statsmodels.regression.mixed_linear_model")
    X, y, labels = rows()
    model = RandomIntercept().fit(X, y, labels)
    found = mixed.MixedLM(y, np.column_stack([X, np.ones(len(y))]), labels).fit(
        method="powell", ftol=1e-14
    )
    np.testing.assert_allclose(line_of(model), found.fe_params, atol=1e-6)
    assert model.noise_ == pytest.approx(found.scale, rel=1e-6)
    assert model.ratio_ == pytest.approx(float(found.cov_re[0, 0]) / found.scale, rel=1e-6)
    effects = [float(effect.iloc[0]) for effect in found.random_effects.values()]
    np.testing.assert_allclose(list(model.effects_.values()), effects, atol=1e-6)
    assert model.support_.all()


def test_rows_of_fitted_environments_get_their_intercepts() -> None:
    X, y, labels = rows()
    table = pd.DataFrame(X, columns=list("abc")).assign(site=[f"s{label}" for label in labels])
    model = RandomIntercept().fit(table, y, environments="site")
    fixed = model.predict(table)
    np.testing.assert_allclose(fixed, X @ model.coef_ + model.intercept_)
    effects = np.array(list(model.effects_.values()))
    np.testing.assert_array_equal(
        model.predict(table, environments="site"), fixed + effects[labels]
    )
    backwards = table["site"][::-1]
    np.testing.assert_array_equal(
        model.predict(table, environments=backwards), fixed + effects[labels]
    )
    assert np.std(y - model.predict(table, environments="site")) < 0.8 * np.std(y - fixed)
    some = ["s1", "new", "s0", None, "new"]
    with pytest.warns(PredictionWarning, match=r"'new' \(2 rows\), 'missing label' \(1 row\)"):
        found = model.predict(table[:5], environments=some)
    np.testing.assert_allclose(
        found - fixed[:5], [effects[1], 0.0, effects[0], 0.0, 0.0], atol=1e-12
    )
    numbers = RandomIntercept().fit(X, y, labels)
    np.testing.assert_array_equal(
        numbers.predict(X[:1], ["3"]), numbers.predict(X[:1], np.array([3]))
    )


@pytest.mark.parametrize(
    ("labels", "named"), [(["s0"], "1 row"), ("sites", "'site'"), ([["s0"]], "hashable")]
)
def test_labels_that_are_none(labels: Any, named: str) -> None:
    X, y, codes = rows()
    table = pd.DataFrame(X, columns=list("abc")).assign(site=codes)
    model = RandomIntercept().fit(table, y, environments="site")
    with pytest.raises(DataError, match=named):
        model.predict(table[: len(labels) if labels == [["s0"]] else None], environments=labels)


# ivmodels 0.10.0, ivmodels.models.anchor_regression.AnchorRegression(gamma).fit(X, y,
# Z=indicators[:, 1:])
IVMODELS = {
    0.1: [1.0051197124380382, -0.5701711198661891, 0.18497392254000647, 1.5036936239166676],
    5.0: [1.407902391201967, -0.9607155312803995, 0.29705388967806995, 1.5802576458540103],
    300.0: [1.749286117933912, -1.0134867247740529, 0.4256238750764655, 1.69098719946714],
}


@pytest.mark.parametrize("gamma", IVMODELS)
def test_anchor_regression_is_that_of_ivmodels(gamma: float) -> None:
    model = Anchor(gamma=gamma).fit(*rows())
    np.testing.assert_allclose(line_of(model), IVMODELS[gamma], rtol=1e-9)
    assert (model.gamma_, model.left_out_errors_) == (gamma, {})


@pytest.mark.parametrize("far", [0.0, 1e6])
@pytest.mark.parametrize("gamma", [0.0, 1.0, 30.0])
def test_anchor_regression_of_rows(gamma: float, far: float) -> None:
    model = Anchor(gamma=gamma).fit(*rows(far=far))
    np.testing.assert_allclose(model.coef_, dense_anchor(rows(far=far), gamma)[:-1], rtol=1e-7)
    assert gamma != 1.0 or model.predict(rows(far=far)[0]).mean() == pytest.approx(
        rows(far=far)[1].mean(), abs=1e-6
    )


@pytest.mark.parametrize("penalty", [0.0, 1.0, 200.0])
def test_v_rex_is_the_minimum_over_lines_of_rows(penalty: float) -> None:
    X, y, labels = rows()
    model = VREx(penalty=penalty).fit(X, y, labels)
    np.testing.assert_allclose(line_of(model), dense_vrex((X, y, labels), penalty), rtol=1e-6)
    other = VREx(penalty=penalty).fit(X * [1e3, 1.0, 1e-3] + 5.0, 100.0 * y, labels)
    np.testing.assert_allclose(other.coef_ / 100.0 * [1e3, 1.0, 1e-3], model.coef_, rtol=1e-6)


@pytest.mark.parametrize(("method", "dense"), [(Anchor, dense_anchor), (VREx, dense_vrex)])
def test_the_weight_is_that_of_the_least_error_in_environments_left_out(
    method: Any, dense: Any
) -> None:
    X, y, labels = rows()
    X[:, 2] = np.where(labels == 2, X[:, 2], 0.1)  # constant where that environment is left out
    model = method().fit(X, y, labels)
    tried = model.left_out_errors_
    chosen = model.gamma_ if method is Anchor else model.penalty_
    for weight in list(tried)[1:3]:
        squares = []
        for e in range(6):
            own = labels == e
            line = dense((X[~own], y[~own], labels[~own]), weight)
            squares.append(np.mean((y[own] - X[own] @ line[:-1] - line[-1]) ** 2))
        assert tried[weight] == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-6)
    assert chosen == min(tried, key=tried.__getitem__)
    np.testing.assert_array_equal(line_of(model), line_of(method(chosen).fit(X, y, labels)))


@pytest.mark.parametrize(
    ("method", "penalised"), [(Anchor, Anchor(gamma=9.0)), (VREx, VREx(penalty=9.0))]
)
def test_two_environments_choose_nothing(method: Any, penalised: Any) -> None:
    with pytest.warns(DataWarning, match="takes three"):
        model = method().fit(*rows(2))
    assert model.left_out_errors_ == {}
    plain = Anchor(gamma=1.0) if method is Anchor else VREx(penalty=0.0)
    np.testing.assert_array_equal(line_of(model), line_of(plain.fit(*rows(2))))
    assert np.abs(line_of(model) - line_of(penalised.fit(*rows(2)))).max() > 0.01


@pytest.mark.parametrize("method", [RandomIntercept(), Anchor(), VREx()])
def test_columns_that_depend_on_each_other_change_no_prediction(method: Any) -> None:
    X, y, labels = rows()
    alone = method.fit(X, y, labels).predict(X)
    doubled = np.column_stack([X, X[:, 0] - 2.0 * X[:, 1], X[:, 2]])
    np.testing.assert_allclose(method.fit(doubled, y, labels).predict(doubled), alone, rtol=1e-6)


@pytest.mark.parametrize(
    ("method", "given", "error", "named"),
    [
        (Anchor(gamma=-1.0), rows(), SettingError, "gamma"),
        (Anchor(gamma=np.inf), rows(), SettingError, "gamma"),
        (VREx(penalty=np.nan), rows(), SettingError, "penalty"),
        (
            RandomIntercept(),
            [np.eye(6), np.arange(6.0) ** 2, [0, 0, 0, 1, 1, 1]],
            DataError,
            r"Screened\(RandomInter",
        ),
    ],
)
def test_refusals(method: Any, given: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        method.fit(*given)


def test_behind_a_screen_they_keep_their_coefficients() -> None:
    X, y, labels = rows()
    noise = np.random.default_rng(1).normal(size=(len(y), 40))
    model = Screened(Anchor(gamma=30.0)).fit(np.column_stack([X, noise]), y, labels)
    kept = np.column_stack([X, noise])[:, model.screened_]
    np.testing.assert_allclose(
        model.coef_[model.screened_], dense_anchor((kept, y, labels), 30.0)[:-1], rtol=1e-7
    )
    assert (
        np.abs(
            model.coef_ - PooledRegression().fit(np.column_stack([X, noise]), y, labels).coef_
        ).max()
        > 0.1
    )


@pytest.mark.parametrize("method", [RandomIntercept(), Anchor(), VREx(), StabilizedRegression()])
def test_outcomes_that_are_no_numbers_are_refused(method: Any) -> None:
    X, y, labels = rows()
    with pytest.raises(DataError, match=type(method).__name__):
        method.fit(X, (y > 2.0).astype(float), labels)
    with pytest.raises(DataError, match=type(method).__name__):
        method.fit(X, np.random.default_rng(0).poisson(3.0, len(y)), labels)
