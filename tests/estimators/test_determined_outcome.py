"""An outcome that features give exactly is refused by their names, by whatever way the data
come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cli_runner import fails, run
from invariance import (
    BIP,
    Additive,
    BayesianLinearGaussian,
    Columns,
    InclusionPrior,
    LinearGaussian,
    Moments,
    MultiEnvironmentData,
    UniformPrior,
    sweep,
)
from invariance.exceptions import DataError, DataWarning, WrongTypeError, use

SITES = np.repeat(["a", "b", "c", "d"], 50)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 5)) + 0.7 * RNG.normal(size=(4, 5)).repeat(50, axis=0)
NOISE = RNG.normal(size=200)
OUTCOMES: dict[str, tuple[np.ndarray, str, list[Any]]] = {
    "copy": (X[:, 0].copy(), "'x0' determines .* in every environment,", [use(exclude=["x0"])]),
    "other units": (
        2.0 * X[:, 0] + 1e6,
        "'x0' determines .* in every environment,",
        [use(exclude=["x0"])],
    ),
    "two": (
        X[:, 0] - 2.0 * X[:, 3],
        "'x0', 'x3' together determine .* in (every environment|all rows together),",
        [use(exclude=["x0"]), use(exclude=["x3"])],
    ),
    "other slopes": (
        X[:, 0] * np.repeat([1.0, 2.0, 3.0, 4.0], 50),
        "'x0' determines .* in every environment, by coefficients that differ,",
        [use(exclude=["x0"])],
    ),
    "two in one environment": (
        X[:, 0] + X[:, 1] + NOISE * (SITES != "b"),
        "'x0', 'x1' together determine .* in environment 'b',",
        [use(exclude=["x0"]), use(exclude=["x1"]), use(drop_environments=["b"])],
    ),
    "all environments but one": (
        X[:, 0] + NOISE * (SITES == "b"),
        "'x0' determines .* in environment 'a', 'c', 'd',",
        [use(exclude=["x0"])],
    ),
    "one environment": (
        X[:, 0] + NOISE * (SITES != "b"),
        "'x0' determines .* in environment 'b',",
        [use(exclude=["x0"]), use(drop_environments=["b"])],
    ),
}


def as_given(y: np.ndarray, by_moments: bool) -> MultiEnvironmentData | Moments:
    data = MultiEnvironmentData.from_arrays(X, y, SITES)
    return Moments.from_data(data) if by_moments else data


@pytest.mark.parametrize("by_moments", [False, True])
@pytest.mark.parametrize("name", list(OUTCOMES))
def test_the_features_the_place_and_the_remedies_are_named(name: str, by_moments: bool) -> None:
    y, told, remedies = OUTCOMES[name]
    with pytest.raises(DataError, match=told) as caught:
        BIP(LinearGaussian(), progress=False).fit(as_given(y, by_moments))
    assert list(caught.value.args[0].remedies) == remedies
    assert ("second moments" in f"{caught.value}") == by_moments


@pytest.mark.parametrize("n_features", [80, 300])
def test_few_of_more_features_than_rows_are_found(n_features: int) -> None:
    """Environments have 50 rows, all together 200."""
    many = np.random.default_rng(3).normal(size=(200, n_features))
    y = many[:, 0] + many[:, 1] - many[:, 2]
    for outcome, place in (
        (y, "every environment"),
        (y + NOISE * (SITES != "b"), "environment 'b'"),
    ):
        with pytest.raises(
            DataError,
            match=f"'x0', 'x1', 'x2' together determine the outcome 'y' exactly in {place},",
        ):
            BIP(progress=False).fit(many, outcome, environments=SITES)


def test_levels_that_give_the_outcome_are_one_feature() -> None:
    """Rows with the same levels are no repeated rows."""
    ward = np.random.default_rng(4).choice(["p", "q", "r"], 200)
    y = np.select([ward == "p", ward == "q"], [1.0, 2.5], -1.0)
    frame = pd.DataFrame(X[:, :2], columns=["x0", "x1"]).assign(ward=ward)
    for table in (frame, frame[["ward"]]):
        with pytest.raises(
            DataError, match=r"^'ward' determines the outcome 'y' exactly in every environment,"
        ):
            BIP(progress=False).fit(table, y, environments=SITES)


def test_environments_without_fits_of_their_own_are_told_of() -> None:
    y = OUTCOMES["one environment"][0]
    with pytest.warns(
        DataWarning, match="^'x0' determines the outcome 'y' exactly in environment 'b': "
    ):
        BIP(deviations="random", progress=False).fit(X, y, environments=SITES)


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
def test_the_advice_works_as_typed() -> None:
    frame = pd.DataFrame(X, columns=list("pqrst"))
    y = OUTCOMES["one environment"][0]
    model = BIP(progress=False)
    arrays = MultiEnvironmentData.from_arrays
    of_arrays = (
        r"from_arrays\(..., exclude=\['x0'\]\) or MultiE.*from_arrays\(..., "
        r"drop_environments=\['b'\]\)"
    )
    with pytest.raises(DataError, match=of_arrays):
        model.fit(X, y, environments=SITES)
    assert "x0" not in model.fit(arrays(X, y, SITES, exclude=["x0"])).selected_features_
    assert model.fit(arrays(X, y, SITES, drop_environments=["b"])).selected_features_ == ("x0",)
    with pytest.raises(DataError, match=r"use columns=Columns\(exclude=\['p'\]\) or"):
        model.fit(frame, y, environments=SITES)
    model = BIP(columns=Columns(exclude=["p"]), progress=False).fit(frame, y, environments=SITES)
    assert "p" not in model.selected_features_
    with pytest.raises(
        WrongTypeError, match=r"exclude=\.\.\.\) and a data frame, or MultiEnvironmentData"
    ):
        model.fit(frame, y, environments=SITES, exclude=["p"])


@pytest.mark.parametrize("few", [1, 0])
def test_environments_of_which_too_few_would_be_left_are_not_to_be_dropped(few: int) -> None:
    y = np.repeat([1.0, 2.0, 3.0, 4.0], 50) + NOISE * (SITES == "b") * few
    with pytest.raises(DataError, match=f"it varies in {few} environments") as caught:
        BIP(LinearGaussian(), progress=False).fit(X, y, environments=SITES)
    assert "drop_environments" not in f"{caught.value}"


@pytest.mark.parametrize(
    "family",
    [
        LinearGaussian("mean"),
        LinearGaussian(deviations="random"),
        BayesianLinearGaussian(),
        Additive(),
    ],
)
def test_every_family_of_numbers_refuses(family: Any) -> None:
    with pytest.raises(
        DataError, match="'x0' determines the outcome 'y' exactly in every environment,"
    ):
        BIP(family, progress=False).fit(X, OUTCOMES["copy"][0], environments=SITES)


def test_a_sum_that_differs_between_environments_is_rejected_and_no_answer() -> None:
    """x5 is made of the outcome and its cause, and gives it back together with that, by another
    intercept in each."""
    y = X[:, 0] + NOISE
    made = np.column_stack([X, y + X[:, 0] + 5.0 * np.repeat([0.0, 1.0, 2.0, 3.0], 50)])
    told = (
        "'x0', 'x5' together determine the outcome 'y' exactly in every environment, by "
        "coefficients that differ"
    )
    with pytest.warns(DataWarning, match=told):
        model = BIP(progress=False).fit(made, y, environments=SITES)
    assert model.support_.tolist() == [True, *[False] * 5]
    assert model.invariant_


def test_strong_signals_and_dependent_features_are_none() -> None:
    """Rows decide what second moments cannot; features that give each other do not give the
    outcome."""
    for y in (X[:, 0] + 1e-9 * NOISE, X[:, 0] + 1e-6 * NOISE):
        model = BIP(progress=False).fit(X, y, environments=SITES)
        assert model.support_.tolist() == [True, False, False, False, False]
        assert model.invariant_
    dependent = np.column_stack([X, X[:, 0] - X[:, 1]])
    data = MultiEnvironmentData.from_arrays(dependent, X[:, 2] + NOISE, SITES)
    for each in (data, Moments.from_data(data)):
        assert BIP(progress=False).fit(each).support_.tolist() == [
            False,
            False,
            True,
            False,
            False,
            False,
        ]


def test_few_rows_give_no_feature_away() -> None:
    """A fit of three columns of one feature to four rows is exact, and says nothing."""
    rng = np.random.default_rng(1)
    sites = np.repeat(["a", "b", "c"], [4, 40, 40])
    frame = pd.DataFrame(rng.normal(size=(84, 4)), columns=["p1", "p2", "p3", "q"]).assign(
        site=sites
    )
    frame["y"] = frame["q"] + rng.normal(size=84)
    data = MultiEnvironmentData.from_table(frame, "y", "site", groups={"p": ["p1", "p2", "p3"]})
    one = UniformPrior(max_size=1)
    assert BIP(prior=one, deviations="free", progress=False).fit(data).decision_.selected == ("q",)


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
def test_repeated_rows_are_no_more_rows() -> None:
    """Weights make thirty rows of ten, to which nine columns can be fitted exactly."""
    rng = np.random.default_rng(2)
    sites = np.repeat(["a", "b"], 5)
    few = rng.normal(size=(10, 9))
    y = rng.normal(size=10)
    prior = UniformPrior(max_size=9)
    model = BIP(LinearGaussian(), prior=prior, deviations="free", progress=False)
    assert (
        model.fit(few, y, environments=sites, sample_weight=np.full(10, 3)).posterior_.n_subsets
        == 512
    )


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
def test_in_one_environment_it_is_a_warning() -> None:
    with pytest.warns(
        DataWarning, match="'x0' determines the outcome 'y' exactly in all rows together"
    ):
        BIP(progress=False).fit(X, OUTCOMES["copy"][0])


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
def test_what_the_prior_rules_out_is_not_refused() -> None:
    copy = OUTCOMES["copy"][0]
    two = OUTCOMES["two"][0]
    assert (
        not BIP(prior=InclusionPrior({"x0": 0.0}), progress=False)
        .fit(X, copy, environments=SITES)
        .support_[0]
    )
    assert (
        BIP(prior=UniformPrior(max_size=1), progress=False)
        .fit(X, two, environments=SITES)
        .support_.sum()
        <= 1
    )


@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore:'a' is constant within each")
def test_environments_of_one_row_are_no_division_by_zero() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=8)})
    assert BIP(progress=False).fit(
        frame, rng.normal(size=8), environments=np.arange(8)
    ).support_.tolist() == [False]


@pytest.mark.filterwarnings("ignore:2 of 6 outcomes could not be fitted")
def test_tables_files_and_sweeps_refuse_too(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=list("pqrst")).assign(y=OUTCOMES["copy"][0], site=SITES)
    with pytest.raises(DataError, match="'p' determines the outcome 'y' exactly"):
        BIP(columns=Columns(environment="site"), progress=False).fit(
            frame.drop(columns="y"), frame["y"]
        )
    frame.to_csv(tmp_path / "rows.csv", index=False)
    command = "fit", tmp_path / "rows.csv", "--outcome", "y", "--environment", "site"
    for more in ((), ("--stream",)):
        told = fails(*command, *more, "--quiet")
        assert "'p' determines the outcome 'y'" in told
        assert "use --exclude p" in told
    assert run(*command, "--exclude", "p").exit_code == 0
    found = sweep(frame, environments="site").set_index("outcome")["verdict"]
    for outcome, other in (("y", "p"), ("p", "y")):
        assert (
            f"'{other}' determines the outcome '{outcome}' to the digits of second moments"
            in found[outcome]
        )
