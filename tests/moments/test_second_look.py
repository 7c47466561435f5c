"""Rows that are read again beside their moments tell the same as rows in memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyarrow")

from row_sources import TableSource

from invariance import BIP, Moments, MultiEnvironmentData
from invariance.decisions import roles
from invariance.decisions.environments import Broken
from invariance.decisions.residual_check import residual_check
from invariance.decisions.roles import Role
from invariance.exceptions import DataError, SettingError
from invariance.models.gaussian import GaussianFromMoments
from invariance.models.gaussian_mean import MeanGaussian
from invariance.models.gaussian_walk import largest_excess_kurtosis
from invariance.models.gaussian_walk import largest_kurtosis_from_fourths as _heaviest
from invariance.moments import second_pass as second_look
from invariance.moments.least_squares import RootSum
from invariance.moments.second_pass import Rows, SampledRows, SampleSum, sampled_data
from invariance.report.pictures import Residuals, residuals_of_sample

NAMES = ["u", "v", "w", "x", "z"]
SUBSETS = np.array(list(product([False, True], repeat=len(NAMES))))


def table(collinear: bool = False, heavy: float = 3.0, n: int = 3_000) -> pd.DataFrame:
    """y = u − v + noise, of t distribution with `heavy` degrees; x is an effect of y, otherwise in each site"""
    rng = np.random.default_rng(5)
    place = rng.integers(0, 4, n)
    X = rng.standard_t(5, size=(n, len(NAMES))) * (1.0 + 0.5 * place[:, None]) + 100.0 * place[:, None]
    y = X[:, 0] - X[:, 1] + rng.standard_t(heavy, size=n)
    X[:, 3] = y * (1.0 + place) + rng.normal(size=n)
    if collinear:
        X[:, 4] = X[:, 0] + 1e-5 * rng.normal(size=n)
    return pd.DataFrame(X, columns=NAMES).assign(y=y, site=np.array(list("abcd"))[place])


def data_of(frame: pd.DataFrame) -> MultiEnvironmentData:
    return MultiEnvironmentData.from_table(frame, "y", "site")


def looked_at(frame: pd.DataFrame, resolve: bool, n_jobs: int | None = None, rows_of_a_task: int = 700) -> Moments:
    moments = Moments.from_data(data_of(frame))
    rows = Rows(moments, TableSource(frame, rows_of_a_task), "site", n_jobs, {})
    return rows.looking_at(rows.resolving() if resolve else moments, moments.columns)


@pytest.mark.parametrize("resolve", [False, True])
def test_kurtosis_of_every_subset_is_that_of_the_rows(resolve: bool) -> None:
    frame = table()
    whole, again = GaussianFromMoments(data_of(frame)), GaussianFromMoments(looked_at(frame, resolve))
    expected = whole.excess_kurtosis(SUBSETS)
    assert expected.max() > 1.0
    np.testing.assert_allclose(again.excess_kurtosis(SUBSETS), expected, rtol=1e-10)
    assert whole.data is not None
    assert _heaviest(again.moments) == pytest.approx(largest_excess_kurtosis(whole.data, whole.moments), rel=1e-10)


def test_kurtosis_of_columns_far_from_zero() -> None:
    frame = table()
    far = frame.assign(**{name: frame[name] + 1e11 for name in (*NAMES, "y")})
    near = far.assign(**{name: far[name] - 1e11 for name in (*NAMES, "y")})
    expected = GaussianFromMoments(data_of(near)).excess_kurtosis(SUBSETS)
    np.testing.assert_allclose(GaussianFromMoments(looked_at(far, False)).excess_kurtosis(SUBSETS), expected, rtol=1e-9)


def test_nearly_dependent_subsets_are_decided_as_by_rows() -> None:
    frame = table(collinear=True)
    data = data_of(frame)
    whole, again = GaussianFromMoments(data), GaussianFromMoments(looked_at(frame, True))
    alone = GaussianFromMoments(Moments.from_data(data))
    expected = whole.log_ratio_many(SUBSETS)
    assert (alone.log_ratio_many(SUBSETS) == -np.inf).sum() == 8
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(again.log_ratio_many(SUBSETS), expected, rtol=1e-8)
    np.testing.assert_allclose(again.rescore(SUBSETS), whole.rescore(SUBSETS), rtol=1e-8)
    np.testing.assert_allclose(again.excess_kurtosis(SUBSETS), whole.excess_kurtosis(SUBSETS), rtol=1e-8)
    np.testing.assert_allclose(again.left_out_r2_many(SUBSETS), whole.left_out_r2_many(SUBSETS), rtol=1e-8)
    both = SUBSETS[-1]
    np.testing.assert_allclose(again.standard_errors(both).values, whole.standard_errors(both).values, rtol=1e-7)
    one, other = again.fit(both), whole.fit(both)
    np.testing.assert_allclose(one.local_coefficients, other.local_coefficients, rtol=1e-7)
    np.testing.assert_allclose(one.local_intercepts, other.local_intercepts, rtol=1e-6)
    assert one.intercept == pytest.approx(other.intercept, rel=1e-6)


def test_the_model_of_the_mean_decides_them_too() -> None:
    frame = table(collinear=True)
    whole, again = MeanGaussian(data_of(frame)), MeanGaussian(looked_at(frame, True))
    expected = whole.log_ratio_many(SUBSETS)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(again.log_ratio_many(SUBSETS), expected, rtol=1e-7)


def test_what_was_seen_goes_with_chosen_environments_and_columns() -> None:
    frame = table(collinear=True)
    whole, again = data_of(frame).choosing(["a", "c", "d"]), looked_at(frame, True).choosing(["a", "c", "d"])
    rows, moments = GaussianFromMoments(whole), GaussianFromMoments(again)
    np.testing.assert_allclose(moments.excess_kurtosis(SUBSETS), rows.excess_kurtosis(SUBSETS), rtol=1e-8)
    np.testing.assert_allclose(moments.log_ratio_many(SUBSETS), rows.log_ratio_many(SUBSETS), rtol=1e-8)
    kept = sampled_data(again, NAMES)
    assert kept is not None
    assert kept.counts.tolist() == whole.counts.tolist()
    turned = GaussianFromMoments(again.of_columns(("w", "z", "y", "u")).with_outcome("u"))
    direct = GaussianFromMoments(
        MultiEnvironmentData.from_table(frame[frame.site != "b"][["w", "z", "y", "u", "site"]], "u", "site")
    )
    every = np.array(list(product([False, True], repeat=3)))
    np.testing.assert_allclose(turned.log_ratio_many(every), direct.log_ratio_many(every), rtol=1e-7)


def test_n_jobs_changes_no_bit() -> None:
    frame = table(collinear=True)
    one, two = looked_at(frame, True).second, looked_at(frame, True, n_jobs=2).second
    assert one is not None and two is not None  # noqa: PT018
    assert one.fourths is not None and two.fourths is not None  # noqa: PT018
    assert one.sample is not None and two.sample is not None  # noqa: PT018
    assert np.array_equal(one.fourths.products, two.fourths.products)
    assert np.array_equal(np.asarray(one.roots), np.asarray(two.roots))
    assert np.array_equal(one.sample.values, two.sample.values)


def test_heavy_tails_change_the_verdict_as_with_rows() -> None:
    frame = table(heavy=2.2)
    data = data_of(frame)
    source = TableSource(frame)
    whole, again = BIP().fit_data(data), BIP(environment="site").fit_moments(Moments.from_data(data), rows=source)
    with pytest.warns(Warning, match="do not predict"):
        alone = BIP().fit_moments(Moments.from_data(data))
    assert source.n_readings == 1
    assert whole.invariant_ and again.invariant_  # noqa: PT018
    assert not alone.invariant_
    assert again.selected_features_ == whole.selected_features_ == ("u", "v")
    np.testing.assert_allclose(again.posterior_.inclusion, whole.posterior_.inclusion, rtol=1e-9)
    np.testing.assert_allclose(again.predict_interval(frame), whole.predict_interval(frame), rtol=1e-7)
    assert str(again.diagnose()) == str(whole.diagnose())
    one, other = again.decision_.noise, whole.decision_.noise
    assert one is not None and one.shape is not None  # noqa: PT018
    assert other is not None and other.shape is not None  # noqa: PT018
    np.testing.assert_allclose(one.shape, other.shape, rtol=1e-8)
    told, silent = str(again.summary()), str(alone.summary())
    assert "the rows were read again, once" in told
    assert "rows=...) reads the rows again" in " ".join(silent.split())


def test_residuals_are_checked_in_the_sample() -> None:
    frame = table(n=300)
    data = data_of(frame)
    moments = looked_at(frame, False)
    sampled, whole = residual_check(moments, SUBSETS[24]), residual_check(data, ["u", "v"])
    assert (sampled.subset, sampled.rows, sampled.alarm) == (whole.subset, whole.rows, whole.alarm)
    assert sampled.r2 == pytest.approx(whole.r2, abs=0.05)
    assert "a sample of" not in str(sampled)
    told = str(replace(sampled, of_rows=90_000))
    assert "Of 90,000 rows a sample of 300 was looked at." in told
    with pytest.raises(SettingError, match=r"fit_moments\(moments, rows=\.\.\.\) read the rows again"):
        residual_check(Moments.from_data(data), ["u", "v"])


def test_collinear_columns_take_two_readings_and_are_diagnosed_as_with_rows() -> None:
    frame = table(collinear=True)
    data, source = data_of(frame), TableSource(frame)
    again = BIP(environment="site").fit_moments(Moments.from_data(data), rows=source)
    assert source.n_readings == 2
    whole = BIP().fit_data(data)
    both = ["u", "v", "z"]
    assert str(again.diagnose(both, leave_out=False)) == str(whole.diagnose(both, leave_out=False))
    assert "the rows were read again, twice" in str(again.summary())


def test_of_many_columns_those_of_leading_subsets_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_look, "most_columns", lambda n_environments: 4)
    frame = table()
    source = TableSource(frame)
    again = BIP(environment="site").fit_moments(Moments.from_data(data_of(frame)), rows=source)
    assert source.n_readings == 1
    assert {columns[1:] for columns in source.asked} == {("u", "v", "x", "y")}
    model = again._findings.target.model
    expected = GaussianFromMoments(data_of(frame)).excess_kurtosis(SUBSETS)
    inside = ~SUBSETS[:, [2, 4]].any(axis=1)
    np.testing.assert_allclose(model.excess_kurtosis(SUBSETS)[inside], expected[inside], rtol=1e-10)
    assert not model.excess_kurtosis(SUBSETS)[~inside].any()
    told = " ".join(str(again.summary()).split())
    assert "looked at in subsets of 3 leading features; residuals of subsets with others ('w', 'z')" in told
    assert "may break invariance (p-value <0.001 with normal tails, which were not looked at); R²" in told
    whole = BIP().fit_data(data_of(frame))
    assert again.selected_features_ == whole.selected_features_ == ("u", "v")
    assert _roles(again) == {**_roles(whole), "w": Role.may_break, "z": Role.may_break}
    assert _roles(whole)["w"] == Role.adds_nothing


def _roles(model: BIP) -> dict[str, Role]:
    return {feature.name: feature.role for feature in model.decision_.features}


@pytest.mark.parametrize("part", ["slopes", "variance"])
def test_coefficients_break_invariance_whatever_the_tails_are(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where variances seem to differ most, nothing is said of where: tails could make them seem so."""
    found = Broken("d", 0.0, part)
    monkeypatch.setattr(roles, "where_it_breaks", lambda *_: found)
    frame = table()
    moments = Moments.from_data(data_of(frame))
    again = BIP().fit_moments(Rows(moments, TableSource(frame), "site", None, {}).looking_at(moments, ["u", "v"]))
    assert again.selected_features_ == ("u", "v")
    effect = next(feature for feature in again.decision_.features if feature.name == "x")
    assert effect.role == Role.breaks
    assert effect.broken == (found if part == "slopes" else None)


def test_who_looks_at_all_tails_knows_what_breaks() -> None:
    frame = table()
    moments = Moments.from_data(data_of(frame))
    models = [BIP().fit_data(data_of(frame)), BIP(environment="site").fit_moments(moments, rows=TableSource(frame))]
    for model in models:
        assert Role.may_break not in {feature.role for feature in model.decision_.features}


def test_levels_are_made_as_the_moments_made_them() -> None:
    frame = table().drop(columns="w").assign(kind=np.array(["low", "mid", "high"] * 1_000))
    data = data_of(frame)
    again = BIP(environment="site").fit_moments(Moments.from_data(data), rows=TableSource(frame))
    whole = BIP().fit_data(data)
    masks = np.array(list(product([False, True], repeat=data.n_features)))
    expected = GaussianFromMoments(data).excess_kurtosis(masks)
    np.testing.assert_allclose(again._findings.target.model.excess_kurtosis(masks), expected, rtol=1e-9)
    assert again.selected_features_ == whole.selected_features_


def test_rows_with_missing_values_stay_out() -> None:
    frame = table()
    frame.loc[::7, "w"] = np.nan
    frame.loc[::11, "site"] = None
    with pytest.warns(Warning, match="dropped"):
        data = MultiEnvironmentData.from_table(frame, "y", "site", missing="drop")
    moments = Moments.from_data(data)
    again = Rows(moments, TableSource(frame), "site", None, {}).looking_at(moments, ["u", "v"])
    expected = GaussianFromMoments(data).excess_kurtosis(SUBSETS[24:25])
    np.testing.assert_allclose(GaussianFromMoments(again).excess_kurtosis(SUBSETS[24:25]), expected, rtol=1e-10)


def test_other_rows_are_refused() -> None:
    frame = table()
    moments = Moments.from_data(data_of(frame))
    model = BIP(environment="site")
    with pytest.raises(DataError, match=r"environment 'a' has [\d,]+ complete rows there, and [\d,]+ in the moments"):
        model.fit_moments(moments, rows=TableSource(frame.drop(index=frame.index[frame.site == "a"][0])))
    with pytest.raises(DataError, match=r"in environment 'c' other values are in 'w'\. Pass"):
        model.fit_moments(moments, rows=TableSource(frame.assign(w=1.01 * frame.w)))
    with pytest.raises(DataError, match=r"other values are in 'u', 'v'\. Pass"):
        model.fit_moments(moments, rows=TableSource(frame.assign(u=frame.v, v=frame.u)))
    shuffled = frame.groupby("site").w.transform(lambda values: values.to_numpy()[::-1])
    with pytest.raises(DataError, match=r"other values are in 'u', 'v', 'w'"):
        model.fit_moments(moments, rows=TableSource(frame.assign(w=shuffled)))


def test_what_cannot_be_read_is_refused() -> None:
    moments = Moments.from_data(data_of(table()))
    with pytest.raises(SettingError, match=r"rows= needs the name of the column .*: BIP\(environment=\.\.\.\)"):
        BIP().fit_moments(moments, rows=TableSource(table()))
    with pytest.raises(DataError, match="rows cannot be read from an int: pass a path"):
        BIP(environment="site").fit_moments(moments, rows=3)
    once = TableSource(table(collinear=True))
    once.rereadable = False  # type: ignore[misc]
    with pytest.raises(DataError, match="have to be read twice, and the table can be read once"):
        BIP(environment="site").fit_moments(Moments.from_data(data_of(table(collinear=True))), rows=once)


def _sample() -> SampledRows:
    """50 rows of each of two environments: of 3 tasks, that have 400 of each"""
    *parts, whole = [SampleSum(task, 2, 1, most=50) for task in range(4)]
    for task, part in enumerate(parts):
        for start, e in product(range(0, 400, 40), range(2)):
            values = 1_000.0 * task + np.arange(start, start + 40.0)[:, None]
            part.add(e, values, values)
        whole.merge(part)
    return whole.sample(("a",))


def test_a_sample_is_of_every_environment_and_in_order() -> None:
    sample = _sample()
    assert np.bincount(sample.places).tolist() == [50, 50]
    own = sample.values[sample.places == 0, 0]
    assert (np.diff(own) > 0.0).all()
    assert {int(value) // 1_000 for value in own} == {0, 1, 2}
    assert 12 <= np.sum(own % 1_000 >= 200) <= 38


def test_a_sample_is_always_the_same_and_another_one_of_each_task() -> None:
    values = _sample().values
    assert np.array_equal(values, _sample().values)
    assert len(np.unique(values[:, 0] % 1_000)) > 75


def test_factors_of_rows_that_come_in_pieces() -> None:
    X = np.random.default_rng(1).normal(size=(6_000, 4))
    first, later = RootSum(2, 4), RootSum(2, 4)
    for start in range(0, 6_000, 300):
        (first if start < 3_000 else later).add(1, X[start : start + 300], X[start : start + 300])
    first.merge(later)
    none, root = first.roots
    assert not none.any()
    np.testing.assert_allclose(root.T @ root, X.T @ X, rtol=1e-12, atol=1e-9)


def test_a_small_sample_draws_quantiles_and_all_rows_the_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_look, "rows_to_keep", lambda n_environments, k: 50)
    frame = table()
    data, moments = data_of(frame), looked_at(frame, False)
    fit = GaussianFromMoments(data).fit(SUBSETS[24])
    whole = Residuals.of_rows(data.y, fit.predict(data.X[:, :2]), data)
    sampled = residuals_of_sample(moments, fit)
    assert sampled is not None
    assert [len(left) for left in sampled.each] == [50] * 4
    assert (whole.largest_sample, sampled.largest_sample) == (None, 50)
    assert sampled.counts.tolist() == whole.counts.tolist()
    np.testing.assert_allclose(sampled.means, whole.means, rtol=1e-8)
    np.testing.assert_allclose(sampled.spread, whole.spread, rtol=1e-10)
    np.testing.assert_allclose(sampled.standard_errors, whole.standard_errors, rtol=1e-10)
    assert residuals_of_sample(Moments.from_data(data), fit) is None


def test_moments_that_changed_forget_what_was_seen() -> None:
    frame = table(n=400)
    moments = looked_at(frame, True)
    row = moments.of_columns(moments.columns)
    values = frame.loc[frame.site == "a", list(moments.columns)].to_numpy()[0]
    assert row.second is not None
    assert moments.without_row("a", values).second is None
    assert moments.merge(moments).second is None
