"""Sweeps over outcomes whose baselines differ between environments: verdicts, levels, and what is
shared."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, BetaBinomialPrior, Moments, MultiEnvironmentData, read_sweep, sweep
from invariance.exceptions import DataError, SettingError
from invariance.models.free_baselines import FreeBaselineGaussian
from invariance.models.gaussian import GaussianFromMoments
from invariance.models.invariance_test import Tolerance
from invariance.sweeps.data import check_processes, read_sweep_data
from invariance.sweeps.sweep import run_sweep
from shifted_sites import own_baselines

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
PRIOR = BetaBinomialPrior(max_size=4)


def table() -> pd.DataFrame:
    """y has baselines of its own; z = x0 + noise is the same in all sites."""
    frame = own_baselines().to_frame()
    return frame.assign(z=frame["x0"] + np.random.default_rng(1).normal(size=len(frame)))


def of(found: pd.DataFrame, outcome: str, column: str) -> Any:
    (value,) = found.loc[found["outcome"] == outcome, column].unique()
    return value


def test_outcomes_have_the_level_of_a_fit_by_hand() -> None:
    found = sweep(table(), BIP(prior=PRIOR), environments="site", outcomes=["y", "z", "x2"])
    for outcome, one in found.groupby("outcome"):
        data = MultiEnvironmentData.from_table(table(), outcome, "site")
        decision = BIP(prior=PRIOR).fit(Moments.from_data(data)).decision_
        assert of(found, outcome, "level") == decision.level
        assert set(one["feature"][one["selected"]]) == set(decision.selected)
        figures = one.iloc[0][["p_invariant", "r2"]].astype(float)
        np.testing.assert_allclose(
            figures, [decision.evidence.p_invariant, decision.evidence.r2], atol=1e-9
        )
        expected = decision.posterior.inclusion_probabilities
        np.testing.assert_allclose(
            one.set_index("feature")["inclusion"], expected[one["feature"]], atol=1e-9
        )
    assert of(found, "y", "level") == "effects"
    assert of(found, "y", "verdict") == "effects invariant"
    assert of(found, "z", "level") == "full"
    assert of(found, "z", "verdict") == "invariant"


@pytest.mark.parametrize(
    ("settings", "level", "verdict"),
    [
        ({"baseline": "shared"}, "none", "not invariant"),
        ({"baseline": "free"}, "effects", "effects invariant"),
        ({"tolerance": Tolerance(level=0.99)}, "effects", "effects weakly invariant"),
        ({"select": "mode"}, "none", "not invariant"),
    ],
)
def test_baselines_are_as_the_model_says(
    settings: dict[str, Any], level: str, verdict: str
) -> None:
    found = sweep(table(), BIP(prior=PRIOR, **settings), environments="site", outcomes=["y"])
    assert (of(found, "y", "level"), of(found, "y", "verdict")) == (level, verdict)
    assert "by construction" not in of(found, "y", "notes")


def test_a_rule_by_probability_and_free_baselines_are_refused_at_once() -> None:
    with pytest.raises(SettingError, match="baseline='shared'"):
        sweep(table(), BIP(select="mode", baseline="free"), environments="site")


def test_levels_are_counted_and_kept(tmp_path: Path) -> None:
    data = read_sweep_data(table(), "site")
    run = run_sweep(data, None, ["y", "z"], tmp_path / "s", None, 1, None, 0, False)
    told = json.loads(run.to_json())
    assert (told["format"], told["levels"]) == ("invariance.sweep/2", {"full": 1, "effects": 1})
    assert told["verdicts"] == {"invariant": 1, "effects invariant": 1}
    assert "Of 1 outcome effects alone" in " ".join(str(run).split())
    pairs = next(section.table for section in run.sections if section.title.startswith("Strongest"))
    assert {row[0] for row in pairs[1:]} == {"y", "z"}
    assert of(read_sweep(tmp_path / "s"), "y", "level") == "effects"


@pytest.mark.integration
def test_processes_and_outcomes_share_moments_within_environments() -> None:
    data = read_sweep_data(table(), "site")
    one, two = (
        run_sweep(data, None, ["y", "z", "x0"], None, None, n, None, 0, False).results
        for n in (1, 2)
    )
    pd.testing.assert_frame_equal(
        one.drop(columns="seconds"), two.drop(columns="seconds"), check_exact=True
    )


def test_other_outcomes_share_what_is_within_environments() -> None:
    moments = read_sweep_data(table(), "site").moments
    within = moments.within
    turned = moments.with_outcome("y")
    model = FreeBaselineGaussian(GaussianFromMoments(turned))
    assert model.moments.scatter is within.scatter
    assert model.moments.outcome_name == "y"
    alone = MultiEnvironmentData.from_table(table(), "y", "site")
    expected = FreeBaselineGaussian(GaussianFromMoments(Moments.from_data(alone)))
    columns = [turned.columns.index(name) for name in expected.moments.columns]
    found = within.scatter[np.ix_(range(6), columns, columns)]
    np.testing.assert_allclose(found, expected.moments.scatter, rtol=1e-12)


def test_rows_that_perturb_an_outcome_are_left_out_at_every_level() -> None:
    rows = table()
    rows.loc[::7, "y"] += 9.0
    whom = np.where(np.arange(len(rows)) % 7 == 0, "y", None)
    model = BIP(prior=PRIOR)
    found = sweep(rows, model, environments="site", outcomes=["y"], perturbed=whom.tolist())
    left = sweep(rows[pd.isna(whom)], model, environments="site", outcomes=["y"])
    assert of(found, "y", "level") == "effects"
    for name in ("inclusion", "p_invariant", "r2"):
        np.testing.assert_allclose(found[name], left[name], atol=1e-9)


def test_memory_of_free_baselines_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    data = read_sweep_data(table(), "site")
    bytes_of = data.moments.scatter.nbytes
    for processes, needed in ((1, bytes_of), (2, 3 * bytes_of)):
        monkeypatch.setattr("invariance.models.gaussian.free_bytes", partial(int, needed))
        check_processes(data, processes, True)
        monkeypatch.setattr("invariance.models.gaussian.free_bytes", partial(int, needed - 1))
        with pytest.raises(DataError, match="baseline='shared'"):
            check_processes(data, processes, True)
        check_processes(data, 1)


def test_an_edge_is_tested_with_shared_baselines() -> None:
    """The empty set is invariant where baselines are free: p-values there would find no edge."""
    shared, found = (
        sweep(
            table(), BIP(prior=PRIOR, baseline=baseline), environments="site", outcomes=["y", "z"]
        )
        for baseline in ("shared", "auto")
    )
    np.testing.assert_array_equal(
        *(each.sort_values(["outcome", "feature"])["p_edge"] for each in (shared, found))
    )
    assert found.loc[found["outcome"] == "y", "p_edge"].isna().all()
    assert found.loc[found["outcome"] == "z", "p_edge"].notna().all()
