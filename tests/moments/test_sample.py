"""The sample of rows that moments carry: the rows themselves where these are few."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from invariance import BIP, Columns, Moments, MultiEnvironmentData
from invariance.data import sources
from invariance.decisions.residual_check import residual_check
from invariance.exceptions import SettingError
from invariance.models.gaussian import GaussianFromMoments
from invariance.models.gaussian_mean import MeanGaussian
from invariance.moments import sample as sampling
from invariance.moments.sample import RowSample


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "TASK_BYTES", 8 * 7 * 700)
    monkeypatch.setattr(sources, "TASK_ROWS_PER_COLUMN", 0)


NAMES = ["u", "v", "w", "x", "z"]
SUBSETS = np.array(list(product([False, True], repeat=len(NAMES))))


def table(collinear: bool = False, heavy: float = 3.0, n: int = 3_000) -> pd.DataFrame:
    """y = u − v + noise, of t distribution with `heavy` degrees; x is an effect of y, otherwise in
    each site"""
    rng = np.random.default_rng(5)
    place = rng.integers(0, 4, n)
    X = (
        rng.standard_t(5, size=(n, len(NAMES))) * (1.0 + 0.5 * place[:, None])
        + 100.0 * place[:, None]
    )
    y = X[:, 0] - X[:, 1] + rng.standard_t(heavy, size=n)
    X[:, 3] = y * (1.0 + place) + rng.normal(size=n)
    if collinear:
        X[:, 4] = X[:, 0] + 1e-5 * rng.normal(size=n)
    return pd.DataFrame(X, columns=NAMES).assign(y=y, site=np.array(list("abcd"))[place])


def data_of(frame: pd.DataFrame) -> MultiEnvironmentData:
    return MultiEnvironmentData.from_table(frame, "y", "site")


def read(frame: pd.DataFrame, n_jobs: int | None = None, **settings: Any) -> Moments:
    return Moments.from_rows(frame, "y", "site", n_jobs=n_jobs, progress=False, **settings)


def sample_of(moments: Moments) -> RowSample:
    assert moments.sample is not None
    return moments.sample


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 rows of each of four environments"""
    monkeypatch.setattr(sampling, "MAX_ROWS", 1_200)
    monkeypatch.setattr("invariance.moments.accumulator.MAX_ROWS", 200)


@pytest.mark.parametrize("far", [0.0, 1e11])
def test_kurtosis_of_every_subset_is_that_of_the_rows(far: float) -> None:
    frame = table()
    moved = frame.assign(**{name: frame[name] + far for name in (*NAMES, "y")})
    expected = GaussianFromMoments(data_of(moved)).excess_kurtosis(SUBSETS)
    found = GaussianFromMoments(read(moved)).excess_kurtosis(SUBSETS)
    assert expected.max() > 1.0
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_nearly_dependent_subsets_are_decided_as_by_rows() -> None:
    frame = table(collinear=True)
    data = data_of(frame)
    moments = read(frame)
    whole = GaussianFromMoments(data)
    again = GaussianFromMoments(moments)
    alone = GaussianFromMoments(Moments.from_data(data))
    assert (alone.log_ratio_many(SUBSETS) == -np.inf).sum() == 8
    assert np.isfinite(whole.log_ratio_many(SUBSETS)).all()
    for ability in ("log_ratio_many", "rescore", "excess_kurtosis", "left_out_r2_many"):
        one, other = (getattr(model, ability)(SUBSETS) for model in (again, whole))
        np.testing.assert_allclose(one, other, rtol=1e-8, err_msg=ability)
    means = [MeanGaussian(rows).log_ratio_many(SUBSETS) for rows in (moments, data)]
    np.testing.assert_allclose(*means, rtol=1e-7)
    both = SUBSETS[-1]
    np.testing.assert_allclose(
        again.standard_errors(both).values, whole.standard_errors(both).values, rtol=1e-7
    )


def test_the_sample_goes_with_chosen_environments_and_columns() -> None:
    frame = table(collinear=True)
    whole = data_of(frame).choosing(["a", "c", "d"])
    again = read(frame).choosing(["a", "c", "d"])
    rows = GaussianFromMoments(whole)
    moments = GaussianFromMoments(again)
    np.testing.assert_allclose(
        moments.excess_kurtosis(SUBSETS), rows.excess_kurtosis(SUBSETS), rtol=1e-8
    )
    np.testing.assert_allclose(
        moments.log_ratio_many(SUBSETS), rows.log_ratio_many(SUBSETS), rtol=1e-8
    )
    kept = again.all_rows
    assert kept is not None
    assert kept.counts.tolist() == [
        whole.counts[whole.environments.index(e)] for e in again.environments
    ]
    turned = GaussianFromMoments(again.of_columns(("w", "z", "y", "u")).with_outcome("u"))
    direct = GaussianFromMoments(
        MultiEnvironmentData.from_table(
            frame[frame.site != "b"][["w", "z", "y", "u", "site"]], "u", "site"
        )
    )
    every = np.array(list(product([False, True], repeat=3)))
    np.testing.assert_allclose(
        turned.log_ratio_many(every), direct.log_ratio_many(every), rtol=1e-6
    )


@pytest.mark.usefixtures("bounded")
def test_sampled_rows_do_not_depend_on_batches_or_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table(n=9_000)
    one, two, four = (read(frame, n_jobs) for n_jobs in (None, 2, 4))
    assert one.all_rows is None
    assert sample_of(one).n_rows == 1_200
    monkeypatch.setattr(sources, "_BATCH_ROWS", 37)
    for other in (two, four, read(frame), read(frame, 2)):
        assert np.array_equal(sample_of(other).values, sample_of(one).values)
        assert np.array_equal(sample_of(other).keys, sample_of(one).keys)


@pytest.mark.usefixtures("bounded")
def test_merging_is_associative() -> None:
    """Levels, environments and bounds that only some parts have do not matter."""
    frame = table(n=4_000).assign(g=np.resize([*"ppqqr"], 4_000))
    frame.loc[:1_000, "g"] = "p"
    frame = frame.drop(index=frame.index[:2_000][frame.site[:2_000] == "d"])
    parts = [
        read(frame[start : start + 900], partial=True, categorical={"g": ["p", "q", "r"]})
        for start in range(0, len(frame), 900)
    ]
    left = parts[0].merge(parts[1]).merge(parts[2]).merge(parts[3])
    right = parts[0].merge(parts[1].merge(parts[2].merge(parts[3])))
    for name in ("places", "keys", "values", "size"):
        one, other = (getattr(sample_of(each), name) for each in (left, right))
        assert np.array_equal(one, other), name


def test_rows_are_kept_equally_of_environments_that_have_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampling, "MAX_ROWS", 1_000)
    rng = np.random.default_rng(0)
    places = rng.permutation(np.repeat([0, 1, 2, 3], [100, 300, 2_000, 5_000]))
    keys = rng.random(len(places), dtype=np.float32)
    rows = RowSample(places, keys, np.arange(len(places), dtype=float)[:, None])
    found = rows.bounded()
    assert np.bincount(found.places).tolist() == [100, 300, 300, 300]
    assert (np.diff(found.values[found.places == 3, 0]) > 0.0).all()
    smallest = np.sort(keys[places == 2])[299]
    assert found.keys[found.places == 2].max() == smallest
    monkeypatch.setattr(sampling, "MAX_ROWS", 100)
    assert np.bincount(rows.bounded().places).tolist() == [50] * 4
    monkeypatch.setattr(sampling, "MAX_NUMBERS", 0)
    assert np.bincount(found.bounded().places).tolist() == [50] * 4


@pytest.mark.usefixtures("bounded")
def test_a_sample_of_rows_tells_the_tails_of_all() -> None:
    """Of 20,000 rows, sorted by the outcome; environments count by their rows, and not by how many
    of them were sampled."""
    frame = table(heavy=1e9, n=20_000).sort_values("y")
    noisy = frame.site == "a"
    frame.loc[noisy, "y"] += 4.0 * np.random.default_rng(1).normal(size=noisy.sum())
    frame = frame.drop(index=frame.index[noisy & (np.arange(len(frame)) % 10 > 0)])
    expected = GaussianFromMoments(data_of(frame)).excess_kurtosis(SUBSETS[24:25])
    found = GaussianFromMoments(read(frame)).excess_kurtosis(SUBSETS[24:25])
    assert expected[0] > 5.0
    np.testing.assert_allclose(found, expected, rtol=0.3)


SITES = BIP(progress=False, columns=Columns(environment="site"))


@pytest.mark.usefixtures("bounded")
def test_a_sample_of_rows_counts_as_so_many() -> None:
    frame = table(heavy=1e9, n=20_000)
    high = frame.u > frame.groupby("site").u.transform("mean")
    uneven = frame.assign(
        y=np.where(high, 2.0, 1.0) * (frame.y - frame.u + frame.v) + frame.u - frame.v
    )
    for rows, even in ((frame, True), (uneven, False)):
        model = clone(SITES).fit(read(rows))
        shape: Any = model.decision_.noise.shape
        assert {"u", "v"} <= set(model.selected_features_)
        assert shape.p_even > 0.01 if even else shape.p_even < 1e-3
        assert abs(shape.excess_kurtosis) < 0.5 or not even
        assert any("sample of 1,200 of 20,000 rows" in note for note in model.posterior_.notes)


def test_heavy_tails_change_the_verdict_as_with_rows() -> None:
    frame = table(heavy=2.4)
    data = data_of(frame)
    whole = BIP().fit(data)
    again = clone(SITES).fit(read(frame))
    with pytest.warns(Warning, match="baselines and noise may differ"):
        alone = BIP().fit(Moments.from_data(data))
    assert whole.invariant_
    assert again.invariant_
    assert not alone.invariant_
    assert again.selected_features_ == whole.selected_features_ == ("u", "v")
    np.testing.assert_allclose(again.posterior_.inclusion, whole.posterior_.inclusion, rtol=1e-9)
    np.testing.assert_allclose(
        again.predict_interval(frame), whole.predict_interval(frame), rtol=1e-7
    )
    shapes: list[Any] = [model.decision_.noise.shape for model in (again, whole)]
    np.testing.assert_allclose(*shapes, rtol=1e-8)
    assert not any("tails" in note for note in again.posterior_.notes)
    assert any("second moments alone" in note for note in alone.posterior_.notes)


def test_residuals_are_checked_in_the_sample() -> None:
    frame = table(n=300)
    data = data_of(frame)
    sampled = residual_check(read(frame), SUBSETS[24])
    whole = residual_check(data, ["u", "v"])
    assert (sampled.subset, sampled.alarm) == (whole.subset, whole.alarm)
    assert sorted(sampled.rows) == sorted(whole.rows)
    assert sampled.r2 == pytest.approx(whole.r2, abs=0.05)
    with pytest.raises(SettingError, match="rows"):
        residual_check(Moments.from_data(data), ["u", "v"])


@pytest.mark.usefixtures("bounded")
def test_intervals_rest_on_the_sample() -> None:
    frame = table(heavy=2.4, n=20_000)
    data = data_of(frame)
    new = frame[:5]
    exact, sampled, normal = (
        np.ptp(BIP(progress=False).fit(rows).predict_interval(new), axis=1)[0]
        for rows in (data, read(frame), Moments.from_data(data))
    )
    assert sampled == pytest.approx(exact, rel=0.2)
    assert sampled != exact
    assert normal not in (exact, sampled)


def test_collinear_columns_are_diagnosed_as_with_rows() -> None:
    frame = table(collinear=True).sort_values("site", kind="stable")
    both = ["u", "v", "z"]
    again = clone(SITES).fit(read(frame))
    whole = BIP().fit(data_of(frame))
    assert str(again.diagnose(both, leave_out=False)) == str(whole.diagnose(both, leave_out=False))


@pytest.mark.usefixtures("bounded")
def test_a_sample_is_of_every_environment_and_in_order() -> None:
    frame = table(n=9_000)
    frame["w"] = np.arange(9_000.0)
    drawn = read(frame)
    numbers = sample_of(drawn).values[:, drawn.columns.index("w")]
    assert np.bincount(sample_of(drawn).places).tolist() == [300] * 4
    assert (np.diff(numbers[sample_of(drawn).places == 0]) > 0.0).all()
    assert 500 <= np.sum(numbers >= 4_500) <= 700
    assert len(np.unique(numbers % 700)) > 500  # other ones of each task of 700 rows


def test_moments_that_hold_no_rows() -> None:
    moments = read(table(n=400))
    assert moments.all_rows is not None
    assert Moments.from_arrow(moments.to_arrow()).sample is None
    alone = Moments.from_data(data_of(table(n=400)))
    assert alone.sample is None
    assert moments.merge(alone).sample is None
    assert alone.merge(moments).sample is None


def small_table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 240)
    n = np.arange(240)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=240),
            "g": np.array(["p", "q"])[kind],
            "site": np.resize(list("uvwx"), 240),
        }
    )
    return frame.assign(y=frame.a + rng.standard_t(3, size=240), z=n * 7 % 9)


def same_p_values(moments: Moments, frame: pd.DataFrame, **settings: Any) -> None:
    """As rows in memory give them, which know of tails."""
    again = clone(SITES).fit(moments)
    whole = BIP(progress=False).fit(MultiEnvironmentData.from_table(frame, "y", "site", **settings))
    masks = np.array(list(product([False, True], repeat=moments.n_features)))[1:]
    one, other = (
        fit.decision_.findings.judge.evidence(masks).p_invariant for fit in (again, whole)
    )
    np.testing.assert_allclose(one, other, rtol=1e-8)


@pytest.fixture
def rare() -> pd.DataFrame:
    """A level that the environment x alone has"""
    frame = small_table().drop(columns="z")
    frame.loc[frame.index[frame.site == "x"][:4], "g"] = "rare"
    return frame


@pytest.mark.parametrize(
    "settings",
    [
        {"drop_environments": ["x"]},
        {"min_rows": 50},
        {"merge_environments": {"few": ["u", "x"]}},
        {"drop_environments": ["x"], "merge_environments": {"x": ["u", "v"]}},
    ],
)
def test_levels_of_environments_that_are_not_used(
    rare: pd.DataFrame, settings: dict[str, Any]
) -> None:
    rare = rare.drop(index=rare.index[rare.site == "x"][30:])
    same_p_values(read(rare, **settings), rare, **settings)


def test_levels_of_rows_that_do_not_count(rare: pd.DataFrame) -> None:
    same_p_values(read(rare).choosing(["u", "v", "w"]), rare[rare.site != "x"])
    rare.loc[rare.g == "rare", "y"] = np.nan
    with pytest.warns(Warning, match="dropped"):
        moments = read(rare, missing="drop")
    same_p_values(moments, rare.dropna())


def test_text_that_is_read_as_numbers() -> None:
    frame = small_table().drop(columns="g")
    text = frame.assign(z=frame.z.astype(str))
    same_p_values(read(text, numeric=["z"]), frame)
