"""Deviations along a variable, of crossed factors and in sequences, against plain algebra with N ×
N matrices."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import f as f_law
from scipy.stats import kstest, ncf, pearson3, rankdata

from invariance import BIP, LinearGaussian, MultiEnvironmentData, Tolerance, along
from invariance.models import invariance_test
from invariance.models.invariance_test import joint_p_value
from invariance.models.varying_coefficients import StructuredDeviations

MASK = np.array([[True, False, True]])


def table(seed: int = 0, n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 20.0, 0.1] + [5.0, -3.0, 100.0]
    y = 2.0 * X[:, 0] - 10.0 * X[:, 2] + rng.normal(size=n)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    return frame.assign(
        year=rng.integers(1980, 2000, n),
        hospital=rng.integers(0, 4, n).astype(str),
        shift=rng.choice(["d", "n"], n),
    )


def bound(environment, frame: pd.DataFrame | None = None, **fit) -> StructuredDeviations:
    frame = table() if frame is None else frame
    used = [name for name in frame.columns if name in "abc"]
    data = MultiEnvironmentData.from_table(frame, "y", environment, features=used, **fit)
    model = LinearGaussian().bind(data)
    assert isinstance(model, StructuredDeviations)
    return model


def dense_cosines(values: np.ndarray) -> np.ndarray:
    u = (rankdata(values) - 0.5) / len(values)
    b = np.arange(1, 11)
    return np.sqrt(2.0) * np.cos(np.pi * np.outer(u, b)) / b / np.sqrt(np.sum(1.0 / b**2))


def off(*columns: np.ndarray) -> np.ndarray:
    """(N, N) projection onto what is orthogonal to the columns"""
    X = np.column_stack(columns)
    left, values, _ = np.linalg.svd(X / np.linalg.norm(X, axis=0), full_matrices=False)
    basis = left[:, values > 1e-7 * values[0]]
    return np.eye(len(X)) - basis @ basis.T


def dense_z(W: np.ndarray, B: np.ndarray) -> np.ndarray:
    root = np.linalg.cholesky(W.T @ W / len(W))
    WT = W @ np.linalg.inv(root).T / np.sqrt(W.shape[1])
    return np.hstack([column[:, None] * B for column in WT.T])


def dense_score(y: np.ndarray, fixed: np.ndarray, Z: np.ndarray, share: float) -> float:
    """p-value: rows whitened by the N × N covariance first, then everything else swept out"""
    values, vectors = np.linalg.eigh(np.eye(len(y)) + share * Z @ Z.T)
    white = vectors / np.sqrt(values) @ vectors.T
    M = off(white @ fixed)
    e = M @ white @ y
    A = M @ white @ Z
    v = np.trace(M)
    C = A.T @ A
    Q = np.sum((A.T @ e) ** 2) / (e @ e)
    t = [np.trace(np.linalg.matrix_power(C, j)) for j in (1, 2, 3)]
    mean = t[0] / v
    second = (t[0] ** 2 + 2.0 * t[1]) / (v * (v + 2.0))
    third = (t[0] ** 3 + 6.0 * t[0] * t[1] + 8.0 * t[2]) / (v * (v + 2.0) * (v + 4.0))
    sd = np.sqrt(second - mean**2)
    skew = (third - 3.0 * mean * second + 2.0 * mean**3) / sd**3
    return float(pearson3(skew).sf((Q - mean) / sd))


def design_of(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = frame[["a", "c"]].to_numpy()
    y = frame["y"].to_numpy()
    return (
        np.column_stack([np.ones(len(X)), X - X.mean(axis=0)]),
        dense_cosines(frame["year"]),
        y - y.mean(),
    )


def test_along_agrees_with_dense_algebra():
    frame = table()
    model = bound(along("year"))
    (W, B, y), tolerance = design_of(frame), Tolerance(rho=0.3)
    Z = dense_z(W, B)
    n = len(frame)
    rss = y @ off(W) @ y
    total = np.sum((y - y.mean()) ** 2)
    share = min(0.02, 0.3**2 * (total / rss - 1.0))
    test = model.invariance_test(MASK, tolerance)
    exact = model.invariance_test(MASK, Tolerance(0.0, 0.0))
    assert test.mean[0] == pytest.approx(dense_score(y, W, Z, share), abs=1e-9)
    assert exact.mean[0] == pytest.approx(dense_score(y, W, Z, 0.0), abs=1e-9)
    sizes = np.abs(off(W) @ y)
    tolerated = 0.1**2 * sizes.mean() ** 2 / sizes.var()
    assert test.spread[0] == pytest.approx(dense_score(sizes, W[:, :1], B, tolerated), abs=1e-9)
    assert test.joint[0] == pytest.approx(float(joint_p_value(test.mean, test.spread)[0]))
    assert np.isnan(test.each[0])
    assert model.gain_many(MASK)[0] == pytest.approx(0.5 * n * np.log(total / rss), rel=1e-9)
    assert model.r2_many(MASK)[0] == pytest.approx(1.0 - rss / total, rel=1e-9)


def dense_log_ratio(y: np.ndarray, fixed: np.ndarray, Z: np.ndarray) -> float:
    def likelihood(log_share: float) -> float:
        V = np.eye(len(y)) + np.exp(log_share) * Z @ Z.T
        inverse = np.linalg.inv(V)
        left = (
            inverse
            - inverse @ fixed @ np.linalg.pinv(fixed.T @ inverse @ fixed) @ fixed.T @ inverse
        )
        return -0.5 * len(y) * np.log(y @ left @ y / len(y)) - 0.5 * np.linalg.slogdet(V)[1]

    best = max(
        -minimize_scalar(lambda t: -likelihood(t), bounds=ends).fun
        for ends in [(-12, -4), (-4, 1), (1, 7)]
    )
    return min(0.0, -0.5 * len(y) * np.log(y @ off(fixed) @ y / len(y)) - best)


@pytest.mark.parametrize("drift", [0.0, 0.1])
def test_the_likelihood_ratio_of_deviations_along_is_the_largest_one(drift):
    frame = table()
    frame["y"] += drift * (frame["year"] - 1990) * (frame["a"] - 5.0)
    W, B, y = design_of(frame)
    expected = dense_log_ratio(y, W, dense_z(W, B))
    assert bound(along("year"), frame).log_ratio_many(MASK)[0] == pytest.approx(expected, abs=1e-7)
    assert (expected < -1.0) == (drift > 0.0)


def dummies(values: pd.Series) -> np.ndarray:
    return pd.get_dummies(values).to_numpy(float)


def times(W: np.ndarray, D: np.ndarray) -> np.ndarray:
    return np.hstack([column[:, None] * D for column in W.T])


@pytest.mark.parametrize("with_year", [False, True])
def test_crossed_factors_and_a_variable_beside_labels_agree_with_dense_algebra(with_year):
    frame = table()
    frame.loc[frame["hospital"] == "3", "a"] = 5.0  # constant there: a column that the others give
    (W, B, y), n = design_of(frame), len(frame)
    parts = [dummies(frame[name]) for name in ("hospital", "shift")]
    fixed = np.hstack([W, *(times(W, D) for D in parts)])
    full = y @ off(fixed) @ y
    pooled = y @ off(W) @ y
    total = np.sum((y - y.mean()) ** 2)
    rank = np.linalg.matrix_rank(fixed, rtol=1e-9)
    tolerance = Tolerance(rho=0.3)
    between = rank - 3
    left = n - rank
    allowed = min(0.02 * n, 0.3**2 * n * (total / pooled - 1.0))
    p_factors = ncf(between, left, allowed).sf((pooled - full) / between / (full / left))
    model = bound(
        ["hospital", "shift", along("year")] if with_year else ["hospital", "shift"], frame
    )
    test = model.invariance_test(MASK, tolerance)
    Z = dense_z(W, B)
    p_along = dense_score(y, fixed, Z, allowed / n)
    expected = float(joint_p_value(p_factors, p_along)) if with_year else p_factors
    assert test.mean[0] == pytest.approx(expected, abs=1e-8)
    sizes = np.abs(off(W) @ y)
    ones = np.hstack([np.ones((n, 1)), *parts])
    left_over = sizes @ off(ones) @ sizes
    around = n * sizes.var()
    rank = np.linalg.matrix_rank(ones)
    tolerated = n * 0.1**2 * sizes.mean() ** 2 / sizes.var()
    p_sizes = ncf(rank - 1, n - rank, tolerated).sf(
        (around - left_over) / (rank - 1) / (left_over / (n - rank))
    )
    if with_year:
        p_sizes = float(joint_p_value(p_sizes, dense_score(sizes, ones, B, tolerated / n)))
    assert test.spread[0] == pytest.approx(p_sizes, abs=1e-8)
    log_ratio = 0.5 * n * np.log(full / pooled) + (
        dense_log_ratio(y, fixed, Z) if with_year else 0.0
    )
    assert model.log_ratio_many(MASK)[0] == pytest.approx(
        log_ratio, abs=1e-7 if with_year else 1e-9
    )
    if not with_year:
        null = model.null_many(MASK)
        draws = f_law(between, left).rvs(200_000, random_state=0)
        deviances = n * np.log1p(draws * between / left)
        assert -2.0 * null.expected[0] == pytest.approx(deviances.mean(), rel=5e-3)
        assert 4.0 * null.variance[0] == pytest.approx(deviances.var(), rel=2e-2)


def test_compatible_subsets_are_those_that_pass_whatever_the_threads():
    frame = table()
    frame["b"] = (frame["y"] - frame["y"].mean()) * np.where(
        frame["year"] < 1990, 2.0, 0.5
    ) + frame["b"] / 20.0
    masks = np.array(np.meshgrid(*[[False, True]] * 3)).reshape(3, -1).T
    model = bound(along("year"), frame)
    threaded = bound(along("year"), frame)
    threaded.n_jobs = 2
    many = np.tile(masks, (8, 1))
    np.testing.assert_array_equal(model.log_ratio_many(masks), threaded.log_ratio_many(many)[:8])
    for tolerance in (Tolerance(), Tolerance.strict()):
        passed = model.compatible(masks, tolerance)
        np.testing.assert_array_equal(
            passed, model.invariance_test(masks, tolerance).joint >= tolerance.level
        )
        assert 0 < passed.sum() < 8


def test_luck_does_not_narrow_the_difference(monkeypatch):
    models = (bound(along("year"), table(seed)) for seed in range(20))
    model = next(m for m in models if m.invariance_test(MASK, Tolerance(0.0, 0.0)).mean[0] > 0.9)
    high = model.difference(MASK).high[0]
    monkeypatch.setattr(invariance_test, "LUCKY", 0.0)
    assert model.difference(MASK).high[0] < high


def test_each_factor_is_tested_given_the_other():
    frame = table()
    model = bound(["hospital", "shift", along("year")], frame)
    tolerance = Tolerance(0.0, 0.0)
    (W, B, y), n = design_of(frame), len(frame)
    parts = {name: times(W, dummies(frame[name])) for name in ("hospital", "shift")}
    fixed = np.hstack([W, *parts.values()])
    full = y @ off(fixed) @ y
    rank = np.linalg.matrix_rank(fixed)
    found = {test.name: test for test in model.component_tests(MASK[0], tolerance)}
    for name, other in (("hospital", "shift"), ("shift", "hospital")):
        less = np.hstack([W, parts[other]])
        rss = y @ off(less) @ y
        degrees = rank - np.linalg.matrix_rank(less)
        expected = f_law(degrees, n - rank).sf((rss - full) / degrees / (full / (n - rank)))
        assert found[name].p_value == found[name].p_exact == pytest.approx(expected, abs=1e-9)
    assert found["year"].p_exact == pytest.approx(
        dense_score(y, fixed, dense_z(W, B), 0.0), abs=1e-9
    )


def test_curves_are_those_of_a_mixed_model_and_show_which_coefficient_changes():
    frame = table()
    frame["y"] += 0.3 * (frame["year"] - 1990) * (frame["a"] - 5.0)
    (W, B, y), model = design_of(frame), bound(along("year"), frame)
    curves, (found,), n = model.curves(MASK[0], points=len(frame)), model.swept(MASK), len(frame)
    assert curves.columns == ("", "a", "c")
    assert np.argmin(curves.p_values) == 1
    assert curves.p_values[1] < 1e-4 < curves.p_values[2]
    Z = dense_z(W, B)
    inverse = np.linalg.inv(np.eye(n) + found.share * Z @ Z.T)
    beta = np.linalg.solve(W.T @ inverse @ W, W.T @ inverse @ y)
    u = found.share * Z.T @ inverse @ (y - W @ beta)
    turn = np.linalg.inv(np.linalg.cholesky(W.T @ W / n)).T / np.sqrt(3.0)
    order = np.argsort(frame["year"].to_numpy(), kind="stable")
    expected = beta + np.einsum("gi,rb,ib->rg", turn, B[order], u.reshape(3, 10))
    np.testing.assert_allclose(
        curves.estimates - [frame["y"].mean(), 0.0, 0.0], expected, rtol=1e-7, atol=1e-8
    )
    np.testing.assert_allclose(curves.common - [frame["y"].mean(), 0.0, 0.0], beta, rtol=1e-7)
    v = np.linalg.inv(np.block([[W.T @ W, W.T @ Z], [Z.T @ W, Z.T @ Z + np.eye(30) / found.share]]))
    weights = np.hstack([np.eye(3)[1], np.kron(turn[1], B[order[0]])])
    left = y @ y - np.hstack([W, Z]).T @ y @ v @ np.hstack([W, Z]).T @ y
    assert curves.errors[0, 1] ** 2 == pytest.approx(
        weights @ v @ weights * left / (n - 3), rel=1e-7
    )
    assert (curves.estimates[-1, 1] - curves.estimates[0, 1]) > 4.0


def sequences(
    seed: int, a: tuple[float, float], n_units: int = 4, length: int = 60
) -> pd.DataFrame:
    """Rows in no order, with noise and features that depend on the two rows before"""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(length + 50, n_units, 3))
    for t in range(2, len(noise)):
        noise[t] += a[0] * noise[t - 1] + a[1] * noise[t - 2]
    noise = noise[50:].reshape(-1, 3)
    time, unit = np.divmod(np.arange(len(noise)), n_units)
    frame = pd.DataFrame({"a": noise[:, 0], "c": noise[:, 1], "b": rng.normal(size=len(noise))})
    return frame.assign(y=noise[:, 0] + noise[:, 2], year=time, unit=unit).sample(
        frac=1.0, random_state=seed
    )


def test_sequences_are_prewhitened_by_what_two_rounds_of_residuals_say():
    frame = sequences(1, (0.6, 0.2)).sort_values(["unit", "year"], ignore_index=True)
    model = bound(along("year", ar=2, within="unit"), frame.sample(frac=1.0, random_state=3))
    columns = np.column_stack(
        [np.ones(len(frame)), frame[["a", "b"]] - frame[["a", "b"]].mean(), frame["y"]]
    )
    rows = np.flatnonzero(frame["year"] > 1)
    mask = np.array([[name in "ab" for name in model.feature_names]])

    def lagged(values: np.ndarray) -> list[np.ndarray]:
        return [values[rows - lag] for lag in range(3)]

    def filtered(values: np.ndarray) -> np.ndarray:
        return sum(c * part for c, part in zip(coefficients, lagged(values), strict=True))

    coefficients = np.array([1.0, 0.0, 0.0])
    for _ in range(2):
        white = filtered(columns)
        beta = np.linalg.lstsq(white[:, :-1], white[:, -1])[0]
        now, *before = lagged(columns[:, -1] - columns[:, :-1] @ beta)
        coefficients[1:] = -np.linalg.lstsq(np.column_stack(before), now)[0]
    white = filtered(columns)
    B = dense_cosines(frame["year"])
    beta = np.linalg.lstsq(white[:, :-1], white[:, -1])[0]
    W = columns[:, :-1]
    y = white[:, -1]
    turn = np.linalg.inv(np.linalg.cholesky(W[rows].T @ W[rows] / len(rows))).T / np.sqrt(3.0)
    Z = filtered(times(W @ turn, B))
    Z *= np.sqrt(len(rows) / np.sum(Z**2))
    signal = 0.1**2 * np.expm1(2.0 * model.gain_many(mask)[0] / len(rows))
    tolerant = model.invariance_test(mask, Tolerance()).mean[0]
    assert tolerant == pytest.approx(dense_score(y, white[:, :-1], Z, min(0.02, signal)), abs=1e-9)
    exact = model.invariance_test(mask, Tolerance(0.0, 0.0))
    assert exact.mean[0] == pytest.approx(dense_score(y, white[:, :-1], Z, 0.0), abs=1e-9)
    sizes = np.abs(y - white[:, :-1] @ beta)
    assert exact.spread[0] == pytest.approx(
        dense_score(sizes, np.ones((len(rows), 1)), B[rows], 0.0), abs=1e-9
    )
    fit = model.fit(mask[0])
    np.testing.assert_allclose(fit.coefficients[np.argsort(fit.columns)], beta[1:], rtol=1e-9)
    means = frame[list(fit.columns)].mean().to_numpy()
    assert means @ fit.coefficients + fit.intercept == pytest.approx(frame["y"].mean(), abs=1e-9)
    line = np.linalg.lstsq(columns[:, :-1], columns[:, -1])[0]
    predicting = model.line(mask[0])
    np.testing.assert_allclose(
        predicting.coefficients[np.argsort(predicting.columns)], line[1:], rtol=1e-9
    )


def test_sequences_without_features():
    frame = sequences(2, (0.7, 0.0))
    noise = frame.assign(y=frame["y"] - frame["a"])
    model = BIP().fit(
        MultiEnvironmentData.from_table(noise, "y", along("year", ar=2, within="unit"), ["b"])
    )
    assert model.selected_features_ == ()
    assert model.intercept_ == pytest.approx(noise["y"].mean(), abs=0.5)
    # Blocks are compared after prewhitening: none stands out.
    assert not model.diagnose().unlike


def test_rows_that_are_gone_break_sequences():
    frame = sequences(1, (0.6, 0.2)).sort_values(["unit", "year"], ignore_index=True)
    frame.loc[[10, 70], "a"] = np.nan
    with pytest.warns(UserWarning, match="dropped 2"):
        model = bound(along("year", ar=2, within="unit"), frame, missing="drop")
    # Two rows of each unit are the first ones; a row that is gone also takes the two that follow
    # it.
    assert model.n_windows == len(frame) - 2 * 4 - 2 * 3


@pytest.mark.slow
@pytest.mark.parametrize("a", [(0.0, 0.0), (0.6, 0.2), (0.9, 0.0)])
def test_prewhitened_p_values_have_the_right_size(a):
    environment = along("year", ar=2, within="unit")
    tests = [
        bound(environment, sequences(seed, a)).invariance_test(MASK, Tolerance(0.0, 0.0))
        for seed in range(300)
    ]
    assert 0.02 < np.mean([test.mean[0] < 0.05 for test in tests]) < 0.09
    assert 0.02 < np.mean([test.joint[0] < 0.05 for test in tests]) < 0.09


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment", [along("year"), ["hospital", "shift"], ["hospital", along("year")]]
)
def test_exact_p_values_are_uniform_where_nothing_differs(environment):
    p_values = [
        [*bound(environment, table(seed)).invariance_test(MASK, Tolerance(0.0, 0.0))[:2], 0.0]
        for seed in range(400)
    ]
    mean, spread = np.array([[p[0][0], p[1][0]] for p in p_values]).T
    assert kstest(mean, "uniform").pvalue > 1e-3
    assert 0.02 < np.mean(spread < 0.05) < 0.09


def test_difference_along_is_where_the_score_test_has_its_tails():
    frame = table()
    frame["y"] += 0.15 * (frame["year"] - 1990) * (frame["a"] - 5.0)
    (W, B, y), model = design_of(frame), bound(along("year"), frame)
    estimate, low, high = (float(values[0]) for values in model.difference(MASK))
    assert 0.0 < low < estimate < high
    Z = dense_z(W, B)
    n = len(frame)
    signal = n * (np.sum(y**2) / (y @ off(W) @ y) - 1.0)
    shares = [value**2 * signal / n for value in (low, high)]
    assert [dense_score(y, W, Z, share) for share in shares] == pytest.approx(
        [0.05, 0.95], abs=1e-6
    )
