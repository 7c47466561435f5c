"""A second pass over the rows of moments tells the same as rows in memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from invariance import BIP, Columns, FileFormat, Moments, MultiEnvironmentData
from invariance.data import sources
from invariance.data.sources import RowTask, TableSource
from invariance.decisions.decision import Role
from invariance.decisions.residual_check import residual_check
from invariance.exceptions import DataError, SettingError
from invariance.models.gaussian import GaussianFromMoments
from invariance.models.gaussian_mean import MeanGaussian
from invariance.moments import fourth_moments, second_pass
from invariance.moments.fourth_moments import most_columns
from invariance.moments.second_pass import SecondPass, sampled_data


class Rows(TableSource):
    """asked: the columns of each reading"""

    def __init__(self, frame: pd.DataFrame) -> None:
        super().__init__(frame, "the table")
        self.asked: list[tuple[str, ...]] = []

    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        self.asked.append(tuple(columns))
        return super().tasks(environment, columns)


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


def moments_of(frame: pd.DataFrame) -> Moments:
    return Moments.from_data(data_of(frame))


def with_second_pass(frame: pd.DataFrame, resolve: bool, n_jobs: int | None = None) -> Moments:
    moments = moments_of(frame)
    rows = SecondPass(moments, Rows(frame), "site", n_jobs, {})
    return rows.with_fourth_moments(rows.with_factors() if resolve else moments, moments.columns)


@pytest.mark.parametrize(("resolve", "far"), [(False, 0.0), (True, 0.0), (False, 1e11)])
def test_kurtosis_of_every_subset_is_that_of_the_rows(resolve: bool, far: float) -> None:
    frame = table()
    moved = frame.assign(**{name: frame[name] + far for name in (*NAMES, "y")})
    near = moved.assign(**{name: moved[name] - far for name in (*NAMES, "y")})
    whole = GaussianFromMoments(data_of(near))
    again = GaussianFromMoments(with_second_pass(moved, resolve))
    expected = whole.excess_kurtosis(SUBSETS)
    assert expected.max() > 1.0
    np.testing.assert_allclose(
        again.excess_kurtosis(SUBSETS), expected, rtol=1e-9 if far else 1e-10
    )


def test_nearly_dependent_subsets_are_decided_as_by_rows() -> None:
    frame = table(collinear=True)
    data = data_of(frame)
    moments = with_second_pass(frame, True)
    whole = GaussianFromMoments(data)
    again = GaussianFromMoments(moments)
    assert (GaussianFromMoments(moments_of(frame)).log_ratio_many(SUBSETS) == -np.inf).sum() == 8
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
    fits = again.fit(both), whole.fit(both)
    for name, rtol in (
        ("local_coefficients", 1e-7),
        ("local_intercepts", 1e-6),
        ("intercept", 1e-6),
    ):
        np.testing.assert_allclose(*(getattr(fit, name) for fit in fits), rtol=rtol)


def test_what_was_seen_goes_with_chosen_environments_and_columns() -> None:
    frame = table(collinear=True)
    whole = data_of(frame).choosing(["a", "c", "d"])
    again = with_second_pass(frame, True).choosing(["a", "c", "d"])
    rows = GaussianFromMoments(whole)
    moments = GaussianFromMoments(again)
    np.testing.assert_allclose(
        moments.excess_kurtosis(SUBSETS), rows.excess_kurtosis(SUBSETS), rtol=1e-8
    )
    np.testing.assert_allclose(
        moments.log_ratio_many(SUBSETS), rows.log_ratio_many(SUBSETS), rtol=1e-8
    )
    kept = sampled_data(again, NAMES)
    assert kept is not None
    assert kept.counts.tolist() == whole.counts.tolist()
    turned = GaussianFromMoments(again.of_columns(("w", "z", "y", "u")).with_outcome("u"))
    direct = GaussianFromMoments(
        MultiEnvironmentData.from_table(
            frame[frame.site != "b"][["w", "z", "y", "u", "site"]], "u", "site"
        )
    )
    every = np.array(list(product([False, True], repeat=3)))
    np.testing.assert_allclose(
        turned.log_ratio_many(every), direct.log_ratio_many(every), rtol=1e-7
    )


def test_n_jobs_changes_no_bit() -> None:
    frame = table(collinear=True)
    one, two = (cast(Any, with_second_pass(frame, True, n_jobs).second) for n_jobs in (None, 2))
    assert np.array_equal(one.fourths.products, two.fourths.products)
    assert np.array_equal(one.roots, two.roots)
    assert np.array_equal(one.sample.values, two.sample.values)


@pytest.fixture
def sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fourth powers of about 1,000 rows, of 300 of an environment at least"""
    monkeypatch.setattr(fourth_moments, "_SAMPLED_ROWS", 1_000)
    monkeypatch.setattr(fourth_moments, "_FEWEST_SAMPLED", 300)
    monkeypatch.setattr(second_pass, "_MOST_ROWS", 50)


@pytest.mark.usefixtures("sampling")
def test_sampled_rows_do_not_depend_on_batches_or_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table()
    one, two = (cast(Any, with_second_pass(frame, False, n_jobs).second) for n_jobs in (None, 2))
    assert np.array_equal(one.fourths.products, two.fourths.products)
    monkeypatch.setattr(sources, "_BATCH_ROWS", 37)
    small = cast(Any, with_second_pass(frame, False).second)
    np.testing.assert_allclose(small.fourths.products, one.fourths.products, atol=1e-12 / 750)
    np.testing.assert_allclose(small.fourths.sampled, one.fourths.sampled)
    assert np.array_equal(small.sample.values, one.sample.values)


@pytest.mark.usefixtures("sampling")
@pytest.mark.parametrize(("heavy", "error"), [(1e9, 0.35), (4.0, 1.0), (2.2, 60.0)])
def test_a_sample_of_rows_tells_the_tails_of_all(heavy: float, error: float) -> None:
    """Of 20,000 rows, sorted by the outcome; heavy ones come from few rows, which are all taken."""
    frame = table(heavy=heavy, n=20_000).sort_values("y")
    moments = with_second_pass(frame, False)
    fourths = cast(Any, moments.second).fourths
    np.testing.assert_allclose(fourths.sampled, [300] * 4, rtol=0.2)
    expected = GaussianFromMoments(data_of(frame)).excess_kurtosis(SUBSETS)
    found = GaussianFromMoments(moments).excess_kurtosis(SUBSETS)
    np.testing.assert_allclose(found, expected, atol=error, rtol=0.1)


def test_few_rows_are_all_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table()
    counts = data_of(frame).counts
    for most, fewest, taken in ((3_000, 1, counts), (1, 3_000, counts), (1_500, 1, counts / 2)):
        monkeypatch.setattr(fourth_moments, "_SAMPLED_ROWS", most)
        monkeypatch.setattr(fourth_moments, "_FEWEST_SAMPLED", fewest)
        np.testing.assert_allclose(
            cast(Any, with_second_pass(frame, False).second).fourths.sampled, taken, rtol=0.15
        )


@pytest.mark.usefixtures("sampling")
def test_a_sample_of_rows_counts_as_so_many() -> None:
    frame = table(heavy=1e9, n=20_000)
    high = frame.u > frame.groupby("site").u.transform("mean")
    uneven = frame.assign(
        y=np.where(high, 2.0, 1.0) * (frame.y - frame.u + frame.v) + frame.u - frame.v
    )
    for rows, even in ((frame, True), (uneven, False)):
        model = clone(SITES).fit(moments_of(rows), rows=rows)
        shape = cast(Any, model.decision_.noise).shape
        assert {"u", "v"} <= set(model.selected_features_)
        assert shape.p_even > 0.01 if even else shape.p_even < 1e-3
        assert abs(shape.excess_kurtosis) < 0.5 or not even
        assert any("sample of about 1,2" in note for note in model.posterior_.notes)


@pytest.mark.usefixtures("sampling")
def test_any_other_row_is_refused() -> None:
    frame = table()
    for row in range(5):
        other = frame.copy()
        other.loc[row, "w"] += 0.1
        with pytest.raises(DataError, match="other values are in 'w'"):
            SecondPass(moments_of(frame), Rows(other), "site", None, {}).with_fourth_moments(
                moments_of(frame), NAMES
            )


def test_factors_keep_the_digits_of_columns() -> None:
    frame = table()
    frame["z"] = frame.u + 1e-3 * np.random.default_rng(1).normal(size=len(frame))
    whole = GaussianFromMoments(data_of(frame))
    again = GaussianFromMoments(with_second_pass(frame, False))
    fits = (model.fit(SUBSETS[-1]).local_coefficients for model in (again, whole))
    np.testing.assert_allclose(*fits, rtol=1e-11)
    np.testing.assert_allclose(
        *(model.standard_errors(SUBSETS[-1]).values for model in (again, whole)), rtol=1e-11
    )


SITES = BIP(progress=False, columns=Columns(environment="site"))


def test_heavy_tails_change_the_verdict_as_with_rows() -> None:
    frame = table(heavy=2.4)
    data = data_of(frame)
    source = Rows(frame)
    whole = BIP().fit(data)
    again = clone(SITES).fit(Moments.from_data(data), rows=source)
    with pytest.warns(Warning, match="baselines and noise may differ"):
        alone = BIP().fit(Moments.from_data(data))
    assert len(source.asked) == 1
    assert whole.invariant_ and again.invariant_  # noqa: PT018
    assert not alone.invariant_
    assert again.selected_features_ == whole.selected_features_ == ("u", "v")
    np.testing.assert_allclose(again.posterior_.inclusion, whole.posterior_.inclusion, rtol=1e-9)
    np.testing.assert_allclose(
        again.predict_interval(frame), whole.predict_interval(frame), rtol=1e-7
    )
    assert str(again.diagnose()) == str(whole.diagnose())
    shapes: list[Any] = [model.decision_.noise.shape for model in (again, whole)]
    np.testing.assert_allclose(*shapes, rtol=1e-8)
    assert again.decision_.findings.target.model.moments.second.n_readings == 1


def test_residuals_are_checked_in_the_sample() -> None:
    frame = table(n=300)
    data = data_of(frame)
    moments = with_second_pass(frame, False)
    sampled = residual_check(moments, SUBSETS[24])
    whole = residual_check(data, ["u", "v"])
    assert (sampled.subset, sampled.rows, sampled.alarm) == (whole.subset, whole.rows, whole.alarm)
    assert sampled.r2 == pytest.approx(whole.r2, abs=0.05)
    with pytest.raises(SettingError, match="rows"):
        residual_check(Moments.from_data(data), ["u", "v"])


def test_collinear_columns_take_two_readings_and_are_diagnosed_as_with_rows() -> None:
    frame = table(collinear=True)
    source = Rows(frame)
    both = ["u", "v", "z"]
    again = clone(SITES).fit(moments_of(frame), rows=source)
    whole = BIP().fit(data_of(frame))
    assert len(source.asked) == 2
    assert str(again.diagnose(both, leave_out=False)) == str(whole.diagnose(both, leave_out=False))


def test_of_many_columns_those_of_leading_subsets_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_pass, "most_columns", lambda n_environments: 4)
    frame = table()
    source = Rows(frame)
    again = clone(SITES).fit(moments_of(frame), rows=source)
    assert source.asked == [("u", "v", "x", "y")]
    model = again.decision_.findings.target.model
    expected = GaussianFromMoments(data_of(frame)).excess_kurtosis(SUBSETS)
    inside = ~SUBSETS[:, [2, 4]].any(axis=1)
    np.testing.assert_allclose(model.excess_kurtosis(SUBSETS)[inside], expected[inside], rtol=1e-10)
    assert not model.excess_kurtosis(SUBSETS)[~inside].any()
    whole = BIP().fit(data_of(frame))
    assert again.selected_features_ == whole.selected_features_ == ("u", "v")
    assert _roles(again) == {**_roles(whole), "w": Role.may_break, "z": Role.may_break}
    assert _roles(whole)["w"] == Role.adds_nothing


def _roles(model: BIP) -> dict[str, Role]:
    return {feature.name: feature.role for feature in model.decision_.features}


def test_other_rows_are_refused() -> None:
    frame = table()
    shuffled = frame.groupby("site").w.transform(lambda values: values.to_numpy()[::-1])
    for other, told in (
        (frame.drop(index=frame.index[frame.site == "a"][0]), "environment 'a'"),
        (frame.assign(w=1.01 * frame.w), "'c' other values are in 'w'"),
        (frame.assign(u=frame.v, v=frame.u), "'u', 'v'"),
        (frame.assign(w=shuffled), "'u', 'v', 'w'"),
    ):
        with pytest.raises(DataError, match=told):
            clone(SITES).fit(moments_of(frame), rows=Rows(other))


def test_what_cannot_be_read_is_refused() -> None:
    moments = moments_of(table())
    with pytest.raises(SettingError, match="environment"):
        BIP().fit(moments, rows=Rows(table()))
    with pytest.raises(DataError, match="int"):
        clone(SITES).fit(moments, rows=3)
    once = Rows(table(collinear=True))
    once.rereadable = False  # type: ignore[misc]
    with pytest.raises(DataError, match="read twice"):
        clone(SITES).fit(moments_of(table(collinear=True)), rows=once)


def test_a_sample_is_of_every_environment_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_pass, "_MOST_ROWS", 50)
    monkeypatch.setattr(second_pass, "_FEWEST_ROWS", 50)
    frame = table()
    frame["w"] = np.arange(3_000.0)
    drawn = cast(Any, with_second_pass(frame, False).second).sample
    assert np.bincount(drawn.places).tolist() == [50] * 4
    numbers = drawn.values[:, drawn.columns.index("w")]
    assert (np.diff(numbers[drawn.places == 0]) > 0.0).all()
    assert 60 <= np.sum(numbers >= 1_500) <= 140
    assert len(np.unique(numbers % 700)) > 160  # another one of each task of 700 rows
    again = cast(Any, with_second_pass(frame, False).second).sample
    assert np.array_equal(drawn.values, again.values)


def test_merged_moments_forget_what_was_seen() -> None:
    moments = with_second_pass(table(n=400), True)
    assert moments.second is not None
    assert moments.merge(moments).second is None


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


def same_p_values(
    moments: Moments,
    rows: Any,
    frame: pd.DataFrame,
    format: FileFormat | None = None,
    **settings: Any,
) -> None:
    """As rows in memory give them, which know of tails."""
    again = clone(SITES).fit(moments, rows=rows, format=format)
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
    same_p_values(Moments.from_rows(rare, "y", "site", **settings), rare, rare, **settings)


def test_levels_of_rows_that_do_not_count(rare: pd.DataFrame) -> None:
    same_p_values(
        Moments.from_rows(rare, "y", "site").choosing(["u", "v", "w"]), rare, rare[rare.site != "x"]
    )
    rare.loc[rare.g == "rare", "y"] = np.nan
    with pytest.warns(Warning, match="dropped"):
        moments = Moments.from_rows(rare, "y", "site", missing="drop")
    same_p_values(moments, rare, rare.dropna())


def test_text_that_is_read_as_numbers() -> None:
    frame = small_table().drop(columns="g")
    text = frame.assign(z=frame.z.astype(str))
    same_p_values(Moments.from_rows(text, "y", "site", numeric=["z"]), text, frame)


def test_a_column_that_is_not_there_is_named() -> None:
    frame = small_table()
    moments = Moments.from_rows(frame, "y", "site")
    with pytest.raises(DataError, match="did you mean 'site'"):
        BIP(columns=Columns(environment="Site")).fit(moments, rows=frame)
    for name in ("a", "g", "y"):
        with pytest.raises(DataError, match=f"column '{name}'"):
            clone(SITES).fit(moments, rows=frame.drop(columns=name))


def test_files_are_read_again_with_their_options(tmp_path: Path) -> None:
    frame = small_table().drop(columns="g")
    path = tmp_path / "t.csv"
    options: dict[str, Any] = {"na": ["-999"], "sep": ";", "decimal": ","}
    frame.assign(a=frame.a.where(frame.index % 9 > 0, -999)).to_csv(
        path, index=False, sep=";", decimal=","
    )
    with pytest.warns(Warning, match="dropped"):
        moments = Moments.from_rows(path, "y", "site", missing="drop", **options)
    same_p_values(moments, path, frame[frame.index % 9 > 0], FileFormat(**options))
    with pytest.raises(DataError, match="complete rows"):
        clone(SITES).fit(moments, rows=path, format=FileFormat(sep=";", decimal=","))
    with pytest.raises(SettingError, match="rows="):
        clone(SITES).fit(moments, format=FileFormat(sep=";"))


@pytest.mark.parametrize("first", [int, str])
@pytest.mark.parametrize("merge", [{}, {"early": [2019, 2020]}], ids=["apart", "merged"])
def test_labels_of_another_type(first: type, merge: dict[str, list[Any]]) -> None:
    frame = small_table().assign(site=np.resize([2019, 2020, 2021], 240))
    frames = {kind: frame.assign(site=frame.site.astype(kind)) for kind in (int, str)}
    merged = {new: [first(label) for label in labels] for new, labels in merge.items()}
    moments = Moments.from_rows(frames[first], "y", "site", merge_environments=merged)
    one, other = (clone(SITES).fit(moments, rows=rows) for rows in frames.values())
    assert (
        one.posterior_.log_probabilities.tobytes() == other.posterior_.log_probabilities.tobytes()
    )
    assert one.new_environments().to_frame().equals(other.new_environments().to_frame())


def test_limits_of_what_is_kept() -> None:
    assert [most_columns(n) for n in (2, 10, 1_000, 1_000_000)] == [25, 25, 9, 2]
