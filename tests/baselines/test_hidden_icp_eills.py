"""Hidden-ICP and EILLS against their authors' code and against their formulas."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from invariance.baselines import EILLS, HiddenICP
from invariance.exceptions import DataWarning
from reference_data import load_reference, needs_reference, reference_files


def simulated(
    n: int = 80, E: int = 3, p: int = 5, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    env = np.repeat(np.arange(E), n)
    X = rng.normal(size=(n * E, p)) * (1 + env[:, None]) + env[:, None]
    return X, X[:, 0] - X[:, 1] + rng.normal(size=n * E), env


def exact_losses(
    X: np.ndarray, y: np.ndarray, env: np.ndarray, gamma: float, center: bool
) -> np.ndarray:
    """(2**p,) EILLS losses by the formula, in extended precision where the platform has it."""
    X = X.astype(np.longdouble)
    y = y.astype(np.longdouble)
    if center:
        X = X - X.mean(axis=0)
        y = y - y.mean()
    groups = [(X[env == e], y[env == e]) for e in dict.fromkeys(env.tolist())]
    sigma = np.array([A.T @ A / len(b) for A, b in groups])
    cross = np.array([A.T @ b / len(b) for A, b in groups])
    losses = np.zeros(1 << X.shape[1], np.longdouble)
    for code in range(1, len(losses)):
        z = [j for j in range(X.shape[1]) if code >> j & 1]
        s = sigma[:, z][:, :, z]
        c = cross[:, z]
        A = (s + gamma * s @ s).mean(axis=0)
        b = (c + gamma * np.einsum("eij,ej->ei", s, c)).mean(axis=0)
        losses[code] = (gamma * (c**2).sum() / len(c) - _quadratic(A, b)) / 2
    return losses


def _quadratic(A: np.ndarray, b: np.ndarray) -> np.longdouble:
    """b' A^-1 b by elimination; numpy's solvers know no extended precision."""
    A = A.copy()
    b = b.copy()
    total = np.longdouble(0)
    for i in range(len(b)):
        total += b[i] ** 2 / A[i, i]
        factor = A[i + 1 :, i] / A[i, i]
        b[i + 1 :] -= factor * b[i]
        A[i + 1 :, i + 1 :] -= np.outer(factor, A[i, i + 1 :])
    return total


@needs_reference
@pytest.mark.parametrize("name", reference_files())
@pytest.mark.parametrize("intercept", [False, True])
def test_hidden_icp_agrees_with_r(name: str, intercept: bool) -> None:
    reference = load_reference(name)
    r = reference.results["R"][f"hiddenICP_intercept{str(intercept).upper()}"]
    model = HiddenICP(intercept=intercept).fit(*reference.fit_arguments)
    np.testing.assert_allclose(
        model.effects_, r["betahat"], rtol=1e-7, atol=1e-7 * np.abs(r["betahat"]).max()
    )
    np.testing.assert_allclose(model.p_values_, r["pvalues"], atol=1e-7)
    # R exchanges the ends where the contrasts contradict each other; here such an interval stays
    # visibly empty. The widest intervals have seven digits: another type of processor gives another
    # eighth one.
    scale = 1e-6 * np.abs(r["ConfInt"]).max()
    np.testing.assert_allclose(model.confidence_intervals_.max(axis=1), r["ConfInt"][0], atol=scale)
    np.testing.assert_allclose(model.confidence_intervals_.min(axis=1), r["ConfInt"][1], atol=scale)


@pytest.mark.parametrize("mean", [0.0, 50.0, 1e9])
def test_hidden_icp_with_an_intercept_is_safe_against_units_and_large_means(mean: float) -> None:
    """Adding the mean rounds the data; it is compared with the rounded data at zero."""
    X, y, env = simulated()
    far = X + mean
    y_far = y - mean
    units = 2.0 ** np.array([-60, 0, 20, 100, 1])  # which round nothing
    shifted = HiddenICP(intercept=True).fit(far * units, y_far, env)
    plain = HiddenICP(intercept=True).fit(far - mean, y_far + mean, env)
    np.testing.assert_allclose(shifted.effects_ * units, plain.effects_, rtol=1e-8)
    np.testing.assert_allclose(shifted.p_values_, plain.p_values_, rtol=1e-6, atol=1e-12)
    scaled = shifted.confidence_intervals_ * units[:, None]
    np.testing.assert_allclose(scaled, plain.confidence_intervals_, rtol=1e-8)


# Where A's condition number passes 1e12, the authors' code decides by rounding.
DECIDED_BY_ROUNDING = {
    ("p10_n200_E2", False),
    ("p10_n200_E5", False),
    ("p10_n50_E2", False),
    ("p10_n50_E2", True),
}


@needs_reference
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("name", reference_files())
def test_eills_finds_the_minimiser(name: str, center: bool) -> None:
    reference = load_reference(name)
    theirs = reference.results["eills_center" if center else "eills_raw"]
    model = EILLS(center=center).fit(*reference.fit_arguments)
    chosen = int(model.support_ @ (1 << np.arange(10)))
    reference_code = sum(1 << j for j in theirs["selected"])
    if (name, center) in DECIDED_BY_ROUNDING:
        losses = exact_losses(*reference.fit_arguments, 36.0, center)
        assert chosen == int(np.argmin(losses))
        assert 0 < losses[reference_code] - losses[chosen] < 2e-3
    else:
        assert reference_code == chosen
        np.testing.assert_allclose(model.coef_, theirs["coef"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("center", [False, True])
def test_every_eills_loss_equals_the_formula(center: bool) -> None:
    X, y, env = simulated()
    model = EILLS(gamma=7.0, center=center).fit(X, y, env)
    np.testing.assert_allclose(
        model.losses_, exact_losses(X, y, env, 7.0, center).astype(float), rtol=1e-9
    )
    assert model.losses_[0] == 0.0


def test_eills_size_limit_and_threads() -> None:
    X, y, env = simulated(n=20, p=14)
    full = EILLS().fit(X, y, env)
    np.testing.assert_array_equal(full.losses_, EILLS(n_jobs=2).fit(X, y, env).losses_)
    limited = EILLS(max_size=2).fit(X, y, env)
    assert len(limited.losses_) == 1 + 14 + 91
    assert limited.support_.sum() <= 2


def test_centred_eills_ignores_shifts_that_change_the_raw_one() -> None:
    X, y, env = simulated()
    here = EILLS().fit(X, y, env)
    there = EILLS().fit(X, y + 100, env)
    np.testing.assert_allclose(here.coef_, there.coef_, rtol=1e-9)
    assert there.intercept_ == pytest.approx(here.intercept_ + 100)
    np.testing.assert_allclose(there.predict(X), here.predict(X) + 100)
    raw = EILLS(center=False).fit(X, y + 100, env)
    assert raw.intercept_ == 0.0
    assert not np.allclose(raw.coef_, here.coef_)


def test_eills_leaves_collinear_subsets_out_by_name() -> None:
    X, y, env = simulated()
    with pytest.warns(DataWarning, match=r"16 of 64.*'x0', 'x5'"):
        doubled = EILLS().fit(np.column_stack([X, X[:, 0]]), y, env)
    assert doubled.n_unscored_ == 16
    np.testing.assert_allclose(np.nanmin(doubled.losses_), EILLS().fit(X, y, env).losses_.min())


@pytest.mark.parametrize("shift", [1e3, 1e8])
def test_hidden_icp_with_an_intercept_is_safe_against_shifts_of_single_environments(
    shift: float,
) -> None:
    """Effects by exact arithmetic: the equations of two environments in fractions."""
    rng = np.random.default_rng(3)
    environment = np.repeat([0, 1], 60)
    X = rng.normal(size=(120, 2)) * (1 + 2 * environment)[:, None] + shift * environment[
        :, None
    ] * [1.0, 0.3]
    y = X[:, 0] + rng.normal(size=120)
    rows = [
        [Fraction(1), Fraction(a), Fraction(b), Fraction(c)] for (a, b), c in zip(X, y, strict=True)
    ]

    def moment(e: int, i: int, j: int) -> Fraction:
        chosen = [row for row, label in zip(rows, environment, strict=True) if label == e]
        return sum((row[i] * row[j] for row in chosen), Fraction(0)) / len(chosen)

    def determinant(columns: list[int]) -> Fraction:
        first, second, third = equations[:, columns]
        return first @ np.cross(second, third)

    equations = np.array(
        [[moment(0, i, j) - moment(1, i, j) for j in range(4)] for i in range(3)], dtype=object
    )
    expected = [
        float(determinant(replaced) / determinant([0, 1, 2])) for replaced in ([0, 3, 2], [0, 1, 3])
    ]
    effects = HiddenICP(intercept=True).fit(X, y, environments=environment).effects_
    np.testing.assert_allclose(effects, expected, rtol=1e-6, atol=1e-6)


def test_eills_predicts_classes_by_logistic_regression_on_its_selection() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    site = np.repeat(list("abc"), 100)
    died = rng.random(300) < 1.0 / (1.0 + np.exp(2.0 - 3.0 * X[:, 0]))
    model = EILLS(progress=False).fit(X, died, site)
    assert model.support_.any()
    assert model.predict(X).mean() == pytest.approx(died.mean(), abs=0.01)
