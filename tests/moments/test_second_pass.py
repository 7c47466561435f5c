"""A second pass over the rows of moments tells the same as rows in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pa = pytest.importorskip("pyarrow")

from invariance import BIP, Columns, FileFormat, Moments, MultiEnvironmentData
from invariance.data.sources import RowSource
from invariance.decisions.decision import Role
from invariance.decisions.residual_check import residual_check
from invariance.exceptions import DataError, SettingError
from invariance.models.gaussian import GaussianFromMoments
from invariance.models.gaussian_mean import MeanGaussian
from invariance.moments import second_pass
from invariance.moments.fourth_moments import most_columns
from invariance.moments.second_pass import SampledRows, SampleSum, SecondPass, sampled_data
from invariance.report.sections import EnvironmentResiduals, residuals_of_sample


@dataclass(frozen=True)
class _Part:
    table: pa.Table
    asked: list[tuple[str, ...]]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        self.asked.append(tuple(columns))
        yield from self.table.select(list(columns)).to_batches(max_chunksize=1_000)


class TableSource(RowSource):
    """asked: the columns of each reading of a task"""

    name = "the table"

    def __init__(self, frame: pd.DataFrame, rows_of_a_task: int = 2_500) -> None:
        self.table, self.size = pa.Table.from_pandas(frame, preserve_index=False), rows_of_a_task
        self.asked: list[tuple[str, ...]] = []

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    def tasks(self, environment: str, columns: Sequence[str]) -> list[Any]:
        starts = range(0, self.table.num_rows, self.size)
        return [_Part(self.table.slice(start, self.size), self.asked) for start in starts]

    @property
    def n_readings(self) -> int:
        return len(self.asked) // len(self.tasks("", ()))


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


def with_second_pass(frame: pd.DataFrame, resolve: bool, n_jobs: int | None = None) -> Moments:
    moments = Moments.from_data(data_of(frame))
    rows = SecondPass(moments, TableSource(frame, 700), "site", n_jobs, {})
    return rows.with_fourth_moments(rows.with_factors() if resolve else moments, moments.columns)


@pytest.mark.parametrize("resolve", [False, True])
def test_kurtosis_of_every_subset_is_that_of_the_rows(resolve: bool) -> None:
    frame = table()
    whole, again = GaussianFromMoments(data_of(frame)), GaussianFromMoments(with_second_pass(frame, resolve))
    expected = whole.excess_kurtosis(SUBSETS)
    assert expected.max() > 1.0
    np.testing.assert_allclose(again.excess_kurtosis(SUBSETS), expected, rtol=1e-10)


def test_kurtosis_of_columns_far_from_zero() -> None:
    frame = table()
    far = frame.assign(**{name: frame[name] + 1e11 for name in (*NAMES, "y")})
    near = far.assign(**{name: far[name] - 1e11 for name in (*NAMES, "y")})
    expected = GaussianFromMoments(data_of(near)).excess_kurtosis(SUBSETS)
    np.testing.assert_allclose(
        GaussianFromMoments(with_second_pass(far, False)).excess_kurtosis(SUBSETS), expected, rtol=1e-9
    )


def test_nearly_dependent_subsets_are_decided_as_by_rows() -> None:
    frame = table(collinear=True)
    data = data_of(frame)
    whole, again = GaussianFromMoments(data), GaussianFromMoments(with_second_pass(frame, True))
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
    means = [MeanGaussian(rows).log_ratio_many(SUBSETS) for rows in (with_second_pass(frame, True), data)]
    np.testing.assert_allclose(*means, rtol=1e-7)
    one, other = again.fit(both), whole.fit(both)
    np.testing.assert_allclose(one.local_coefficients, other.local_coefficients, rtol=1e-7)
    np.testing.assert_allclose(one.local_intercepts, other.local_intercepts, rtol=1e-6)
    assert one.intercept == pytest.approx(other.intercept, rel=1e-6)


def test_what_was_seen_goes_with_chosen_environments_and_columns() -> None:
    frame = table(collinear=True)
    whole, again = data_of(frame).choosing(["a", "c", "d"]), with_second_pass(frame, True).choosing(["a", "c", "d"])
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
    one: Any
    two: Any
    one, two = with_second_pass(frame, True).second, with_second_pass(frame, True, n_jobs=2).second
    assert np.array_equal(one.fourths.products, two.fourths.products)
    assert np.array_equal(one.roots, two.roots)
    assert np.array_equal(one.sample.values, two.sample.values)


def test_heavy_tails_change_the_verdict_as_with_rows() -> None:
    frame = table(heavy=2.2)
    data = data_of(frame)
    source = TableSource(frame)
    whole, again = BIP().fit(data), BIP(columns=Columns(environment="site")).fit(Moments.from_data(data), rows=source)
    with pytest.warns(Warning, match="do not predict"):
        alone = BIP().fit(Moments.from_data(data))
    assert source.n_readings == 1
    assert whole.invariant_ and again.invariant_  # noqa: PT018
    assert not alone.invariant_
    assert again.selected_features_ == whole.selected_features_ == ("u", "v")
    np.testing.assert_allclose(again.posterior_.inclusion, whole.posterior_.inclusion, rtol=1e-9)
    np.testing.assert_allclose(again.predict_interval(frame), whole.predict_interval(frame), rtol=1e-7)
    assert str(again.diagnose()) == str(whole.diagnose())
    shapes: list[Any] = [model.decision_.noise.shape for model in (again, whole)]
    np.testing.assert_allclose(*shapes, rtol=1e-8)
    assert again.decision_.findings.target.model.moments.second.n_readings == 1


def test_residuals_are_checked_in_the_sample() -> None:
    frame = table(n=300)
    data = data_of(frame)
    moments = with_second_pass(frame, False)
    sampled, whole = residual_check(moments, SUBSETS[24]), residual_check(data, ["u", "v"])
    assert (sampled.subset, sampled.rows, sampled.alarm) == (whole.subset, whole.rows, whole.alarm)
    assert sampled.r2 == pytest.approx(whole.r2, abs=0.05)
    with pytest.raises(SettingError, match="rows"):
        residual_check(Moments.from_data(data), ["u", "v"])


def test_collinear_columns_take_two_readings_and_are_diagnosed_as_with_rows() -> None:
    frame = table(collinear=True)
    data, source = data_of(frame), TableSource(frame)
    again = BIP(columns=Columns(environment="site")).fit(Moments.from_data(data), rows=source)
    assert source.n_readings == 2
    whole = BIP().fit(data)
    both = ["u", "v", "z"]
    assert str(again.diagnose(both, leave_out=False)) == str(whole.diagnose(both, leave_out=False))


def test_of_many_columns_those_of_leading_subsets_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_pass, "most_columns", lambda n_environments: 4)
    frame = table()
    source = TableSource(frame)
    again = BIP(columns=Columns(environment="site")).fit(Moments.from_data(data_of(frame)), rows=source)
    assert source.n_readings == 1
    assert {columns[1:] for columns in source.asked} == {("u", "v", "x", "y")}
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
    moments = Moments.from_data(data_of(frame))
    model = BIP(columns=Columns(environment="site"))
    with pytest.raises(DataError, match="environment 'a'"):
        model.fit(moments, rows=TableSource(frame.drop(index=frame.index[frame.site == "a"][0])))
    with pytest.raises(DataError, match="'c' other values are in 'w'"):
        model.fit(moments, rows=TableSource(frame.assign(w=1.01 * frame.w)))
    with pytest.raises(DataError, match="'u', 'v'"):
        model.fit(moments, rows=TableSource(frame.assign(u=frame.v, v=frame.u)))
    shuffled = frame.groupby("site").w.transform(lambda values: values.to_numpy()[::-1])
    with pytest.raises(DataError, match="'u', 'v', 'w'"):
        model.fit(moments, rows=TableSource(frame.assign(w=shuffled)))


def test_what_cannot_be_read_is_refused() -> None:
    moments = Moments.from_data(data_of(table()))
    with pytest.raises(SettingError, match="environment"):
        BIP().fit(moments, rows=TableSource(table()))
    with pytest.raises(DataError, match="int"):
        BIP(columns=Columns(environment="site")).fit(moments, rows=3)
    once = TableSource(table(collinear=True))
    once.rereadable = False  # type: ignore[misc]
    with pytest.raises(DataError, match="read twice"):
        BIP(columns=Columns(environment="site")).fit(Moments.from_data(data_of(table(collinear=True))), rows=once)


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
    assert np.array_equal(sample.values, _sample().values)
    assert len(np.unique(sample.values[:, 0] % 1_000)) > 75  # another one of each task


def test_a_small_sample_draws_quantiles_and_all_rows_the_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_pass, "_MOST_ROWS", 50)
    monkeypatch.setattr(second_pass, "_FEWEST_ROWS", 50)
    frame = table()
    data, moments = data_of(frame), with_second_pass(frame, False)
    fit = GaussianFromMoments(data).fit(SUBSETS[24])
    whole = EnvironmentResiduals.of_rows(data.y, fit.predict(data.X[:, :2]), data)
    sampled = residuals_of_sample(moments, fit)
    assert sampled is not None
    assert [len(left) for left in sampled.each] == [50] * 4
    assert sampled.counts.tolist() == whole.counts.tolist()
    np.testing.assert_allclose(sampled.means, whole.means, rtol=1e-8)
    np.testing.assert_allclose(sampled.spread, whole.spread, rtol=1e-10)
    assert residuals_of_sample(Moments.from_data(data), fit) is None


def test_merged_moments_forget_what_was_seen() -> None:
    moments = with_second_pass(table(n=400), True)
    assert moments.second is not None
    assert moments.merge(moments).second is None


def small_table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    place, kind = np.arange(240) % 4, rng.integers(0, 2, 240)
    frame = pd.DataFrame(
        {"a": rng.normal(size=240), "g": np.array(["p", "q"])[kind], "e": np.array(list("uvwx"))[place]}
    )
    return frame.assign(y=frame.a + rng.standard_t(3, size=240))


def again(moments: Moments, rows: Any, **options: Any) -> BIP:
    return BIP(progress=False, columns=Columns(environment="e")).fit(moments, rows=rows, **options)


def same_p_values(model: BIP, frame: Any, **settings: Any) -> None:
    """As rows in memory give them, which know of tails."""
    whole = BIP(progress=False).fit(MultiEnvironmentData.from_table(frame, "y", "e", **settings))
    masks = np.array([[True, False], [False, True], [True, True]])
    one, other = (fit.decision_.findings.judge.evidence(masks).p_invariant for fit in (model, whole))
    np.testing.assert_allclose(one, other, rtol=1e-8)


@pytest.fixture
def rare() -> pd.DataFrame:
    """A level that the environment x alone has"""
    frame = small_table()
    frame.loc[frame.index[frame.e == "x"][:4], "g"] = "rare"
    return frame


@pytest.mark.parametrize(
    "settings",
    [
        {"drop_environments": ["x"]},
        {"min_rows": 50},
        {"drop_environments": ["x"], "merge_environments": {"x": ["u", "v"]}},
    ],
)
def test_levels_of_environments_that_are_not_used(rare: pd.DataFrame, settings: dict[str, Any]) -> None:
    rare = rare.drop(index=rare.index[rare.e == "x"][30:])
    same_p_values(again(Moments.from_rows(rare, "y", "e", **settings), rare), rare, **settings)


def test_levels_of_rows_that_do_not_count(rare: pd.DataFrame) -> None:
    moments = Moments.from_rows(rare, "y", "e").choosing(["u", "v", "w"])
    same_p_values(again(moments, rare), rare[rare.e != "x"])
    rare.loc[rare.g == "rare", "y"] = np.nan
    with pytest.warns(Warning, match="dropped"):
        moments = Moments.from_rows(rare, "y", "e", missing="drop")
    same_p_values(again(moments, rare), rare.dropna())


def test_text_that_is_read_as_numbers() -> None:
    frame = small_table().drop(columns="g").assign(z=np.arange(240) * 7 % 9)
    text = frame.assign(z=frame.z.astype(str))
    same_p_values(again(Moments.from_rows(text, "y", "e", numeric=["z"]), text), frame)


def test_a_column_that_is_not_there_is_named() -> None:
    frame = small_table()
    moments = Moments.from_rows(frame, "y", "e")
    with pytest.raises(DataError, match="did you mean 'e'"):
        BIP(columns=Columns(environment="E")).fit(moments, rows=frame)
    for name in ("a", "g", "y"):
        with pytest.raises(DataError, match=f"column '{name}'"):
            again(moments, frame.drop(columns=name))


def test_files_are_read_again_with_their_options(tmp_path: Path) -> None:
    frame = small_table().drop(columns="g").assign(z=np.arange(240) * 7 % 9)
    options: dict[str, Any]
    path, options = tmp_path / "t.csv", {"na": ["-999"], "sep": ";", "decimal": ","}
    frame.assign(a=frame.a.where(frame.index % 9 > 0, -999)).to_csv(path, index=False, sep=";", decimal=",")
    with pytest.warns(Warning, match="dropped"):
        moments = Moments.from_rows(path, "y", "e", missing="drop", **options)
    same_p_values(again(moments, path, format=FileFormat(**options)), frame[frame.index % 9 > 0])
    with pytest.raises(DataError, match="complete rows"):
        again(moments, path, format=FileFormat(sep=";", decimal=","))
    with pytest.raises(SettingError, match="rows="):
        BIP(columns=Columns(environment="e")).fit(moments, format=FileFormat(sep=";"))


RNG = np.random.default_rng(5)
YEAR = np.repeat([2019, 2020, 2021], 40)
X = RNG.normal(size=120) + YEAR - 2020
NUMBERS = pd.DataFrame({"x": X, "y": X + RNG.normal(size=120), "year": YEAR})
WORDS = NUMBERS.assign(year=YEAR.astype(str))


@pytest.mark.parametrize(
    ("first", "second"), [(NUMBERS, WORDS), (WORDS, NUMBERS)], ids=["numbers first", "words first"]
)
@pytest.mark.parametrize("merge", [{}, {"early": [2019, 2020]}], ids=["apart", "merged"])
def test_labels_of_another_type(first: pd.DataFrame, second: pd.DataFrame, merge: dict[str, list[Any]]) -> None:
    kind = type(first["year"].tolist()[0])
    merged = {new: [kind(label) for label in labels] for new, labels in merge.items()}
    moments = Moments.from_rows(first, "y", "year", merge_environments=merged)
    model, same = (BIP(columns=Columns(environment="year")).fit(moments, rows=rows) for rows in (second, first))
    assert model.posterior_.log_probabilities.tobytes() == same.posterior_.log_probabilities.tobytes()
    assert model.new_environments().to_frame().equals(same.new_environments().to_frame())


def test_limits_of_what_is_kept() -> None:
    assert [most_columns(n) for n in (2, 10, 1_000, 1_000_000)] == [25, 25, 9, 2]
