"""Every study end to end on a tiny scale, what it writes, and how methods are scored."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from invariance import BIP
from invariance.baselines import ICP
from invariance.decisions.pipeline import FitSettings
from invariance.exceptions import EngineError, SettingError
from invariance.inference.base import Target
from invariance.screening import LassoScreen
from invariance.simulation import p10
from replication import SCALES, STUDIES, make_study
from replication.assumptions import curved
from replication.comparison import REDRAWN, Comparison
from replication.cost import PAPER, POINTS, timed
from replication.heterogeneity import mu_min
from replication.methods import (
    METHODS,
    PENALTIES,
    SCREENS,
    TimedScreening,
    coverage,
    exact_discovery,
    fit_and_score,
    precision,
    rate,
    recall,
    two_starts,
    variational_rows,
)
from replication.runs import Study, StudyRun, mean_band, run_study
from replication.simulators import p450, theory

pytestmark = pytest.mark.integration

TINY: dict[str, dict[str, Any]] = {
    "theory": {"replicates": 2, "sizes": (10, 50), "environments": (1, 2, 5)},
    "identifiability": {"replicates": 2, "n": 50},
    "assumptions": {"replicates": 6, "sizes": (10, 200)},
    "comparison-p10": {
        **{"replicates": 1, "sizes": (50, 100), "environments": (2, 5), "strengths": (0.5, 1.0)},
        "methods": ("Oracle", "BIP", "ICP", "EILLS", "Hidden-ICP", "Regression"),
    },
    "comparison-p450": {
        **{"replicates": 1, "sizes": (50,), "environments": (5,), "strengths": (1.0,)},
        "methods": (
            "Oracle",
            "BIP-screen",
            "ICP-screen",
            "EILLS-screen",
            "Hidden-ICP-screen",
            "BIP-screen (raw)",
        ),
    },
    "cost": {
        "replicates": 1,
        "strengths": (1.0,),
        "points": ((10, 50, 5), (10, 200, 2)),
        "methods": ("BIP", "ICP"),
    },
    "genes": {
        **{"simulated": 30, "targets": 1, "replicates": 1, "iterations": 50},
        "methods": ("BIP-VI", "ICP-screen", "Lasso"),
    },
    "genes-cost": {"simulated": 30, "targets": 2, "replicates": 1, "iterations": 50},
}
PICTURES = {
    "theory": {"posterior", "heterogeneity", "bound", "process"},
    "identifiability": {"posterior"},
    "assumptions": {"posterior"},
    "comparison-p10": {"rates", "rates-by-n", "posterior"},
    "comparison-p450": {"rates", "posterior"},
    "cost": {"seconds"},
    "genes": {"precision-recall", "profile", "validation"},
    "genes-cost": set(),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, StudyRun]:
    folder = tmp_path_factory.mktemp("studies")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("replication.runs._DPI", 40)
        patch.setattr("invariance.decisions.predictive._STEPS", 30)
        return {
            name: run_study(make_study(name, **TINY[name]), folder / name, jobs=1)
            for name in STUDIES
        }


@pytest.mark.parametrize("name", STUDIES)
def test_folder_and_report(runs: dict[str, StudyRun], name: str) -> None:
    run = runs[name]
    pictures = {f"{picture}.{kind}" for picture in PICTURES[name] for kind in ("png", "svg")}
    others = {"results.csv", "summary.csv", "report.md", "rows.jsonl", "settings.json", ".lock"}
    assert {file.name for file in run.folder.iterdir()} == pictures | others
    report = (run.folder / "report.md").read_text()
    assert report.startswith(f"# {run.study.title}\n")
    said = [
        "## Numbers",
        "## Cost",
        "- numpy ",
        "- seed: 0",
        f"`python -m replication {name} --scale quick",
    ]
    said += [f"]({picture}.png)" for picture in PICTURES[name]]
    said += [f"- {sentence}" for sentence in run.study.reading(run.results)]
    assert [part for part in said if part not in report] == []
    assert " nan" not in report


@pytest.mark.parametrize(("name", "scale"), list(itertools.product(STUDIES, SCALES)))
def test_scales(name: str, scale: str) -> None:
    study = make_study(name, scale, **({"simulated": 60} if name.startswith("genes") else {}))
    assert isinstance(study, Study)
    assert (study.name, study.scale) == (name, scale)
    keys = [cell.key for cell in study.cells()]
    assert len(set(keys)) == len(keys)
    replicates = {
        "theory": 1000,
        "identifiability": 1000,
        "assumptions": 400,
        "cost": 3,
        "genes": 3,
        "genes-cost": 3,
    }
    assert (study.replicates == replicates.get(name, 100)) == (scale == "paper")
    if isinstance(study, Comparison):
        # The paper has 400 data sets for each n and E, over all strengths.
        assert len(study.strengths) * make_study(name, "paper").replicates == 400
        assert any("tempering" in method for method in study.methods) == (scale == "quick")


def test_theory_rows_agree_with_the_estimator(runs: dict[str, StudyRun]) -> None:
    study = runs["theory"].study
    results = runs["theory"].results
    assert (results.loc[results["E"] == 1, "posterior"] == 1 / 8).all()
    for cell in study.cells()[3:]:
        model = theory(cell["E"], cell["strength"], study.rng(cell, 1))
        data = model.sample(50, study.rng(cell, 1, 50))
        expected = BIP(progress=False).fit(data).posterior_.probability(model.truth)
        row = results.query(
            "E == @cell['E'] and strength == @cell['strength'] and replicate == 1 and n == 50"
        )
        assert row["posterior"].item() == pytest.approx(expected, rel=1e-9)
        assert row["mu_min"].item() == mu_min(model)
        b = 8 * math.exp(-0.5 * 50 * cell["E"] * mu_min(model))
        assert row["bound"].item() == pytest.approx(b / (1 + b), rel=1e-12)
        assert row["mu_exact"].item() <= mu_min(model) + 0.1


def test_rates_are_those_of_models_with_one_invariant_subset(runs: dict[str, StudyRun]) -> None:
    study = runs["theory"].study
    results = runs["theory"].results
    table = study.rates(results)
    assert table["models"].sum() == ((results["mu_min"] > 1e-9) & (results["E"] > 1)).sum()
    np.testing.assert_allclose(table["TV"], 1 - table["posterior"], atol=1e-9)
    line = table[(table["strength"] == "1") & (table["E"] == 5) & (table["n"] == 50)].iloc[0]
    rows = results.query("E == 5 and n == 50 and strength == 1")
    assert line["TV > bound"] == (1 - rows["posterior"] > rows["bound"]).mean()
    assert line["μ_n not at z*"] == (rows["mu_n"] < 0).mean()


def test_identifiability_rows_are_posteriors(runs: dict[str, StudyRun]) -> None:
    rows = runs["identifiability"].results[["z00", "z10", "z01", "z11"]]
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-12)
    table = runs["identifiability"].study.table(runs["identifiability"].results)
    assert table.loc[table["is_truth"], "subset"].tolist() == [
        "[1,0]",
        "[1,0]",
        "[1,1]",
        "[1,1]",
        "[1,0]",
        "[1,0]",
    ]


def test_the_posterior_goes_to_the_most_nearly_invariant_subsets(runs: dict[str, StudyRun]) -> None:
    results = runs["assumptions"].results.query("n == 200").set_index("case")
    assert (results["nearest"][results["gap"] > 0.02] > 0.99).all()
    assert (results.loc["prior", "truth"] == 0.0).all()
    assert (results.loc[["invariance", "model"], "mu_truth"] > 1e-3).all()
    assert (results.loc["none", "mu_truth"] < 1e-9).all()
    two = results.loc["uniqueness"]
    assert (two["nearest"] > 0.999).all()
    assert (two["truth"] < 0.95).all()


def test_moments_of_a_curved_outcome_are_those_of_draws() -> None:
    model = theory(2, 1.0, np.random.default_rng(3))
    model = replace(model, variances=100.0 * model.variances)
    data = model.sample(40_000, np.random.default_rng(0))
    means, factors = curved(model, int(np.flatnonzero(model.truth)[0]), 0.5)
    rows = np.column_stack([data.X, data.y + 0.5 * data.X[:, model.truth][:, 0] ** 2])
    for e in range(2):
        own = rows[data.environment_index == e]
        np.testing.assert_allclose(own.mean(axis=0), means[e], atol=0.1)
        np.testing.assert_allclose(np.cov(own.T), factors[e] @ factors[e].T, rtol=0.05, atol=0.1)


def test_comparison_table(runs: dict[str, StudyRun]) -> None:
    run = runs["comparison-p10"]
    results = run.results
    table = run.study.table(run.results)
    assert len(results) == 2 * 2 * 2 * len(TINY["comparison-p10"]["methods"])
    for _, line in table.iterrows():
        chosen = results[(results["method"] == line["method"]) & (results["E"] == line["E"])]
        chosen = chosen if line["n"] == "all" else chosen[chosen["n"] == int(line["n"])]
        assert line["data_sets"] == len(chosen)
        assert line["exact"] == chosen["exact"].mean()
        assert line["exact_low"] <= line["exact"] <= line["exact_high"]
        assert line["covered"] == chosen["covered"].mean()
        assert line["empty"] == (chosen["outcome"] == "empty").mean()
    assert results.groupby(["n", "E", "strength"])["mu_min"].nunique().max() == 1


def test_screened_comparison(runs: dict[str, StudyRun]) -> None:
    results = runs["comparison-p450"].results
    assert results["mu_min"].isna().all()
    assert (results["screened_true"] <= results["true_size"]).all()
    assert (results.loc[results["method"].str.contains("-screen"), "size"] <= 10).all()


def test_readings_share_starts_and_select_as_the_estimator_does() -> None:
    rng = np.random.default_rng(3)
    data = p450(5, rng, p=40).sample(100, rng)
    shared = {screen: TimedScreening.of(data, METHODS, screen) for screen in SCREENS}
    names = [
        "BIP-VI",
        *(two_starts(screen, penalty).name for screen in SCREENS for penalty in PENALTIES),
    ]
    rows = variational_rows(data, names, 7, shared)
    assert list(rows) == names
    with pytest.raises(SettingError, match="number of rows"):
        fit_and_score(two_starts("raw", "whole").name, data, 7, None)
    for name in (name for name in names if METHODS[name].penalty != "whole"):
        alone = fit_and_score(name, data, 7, shared[METHODS[name].screen or "raw"])
        for figure in ("outcome", "exact", "covered", "size", "posterior"):
            assert rows[name][figure] == alone[figure], (name, figure)


def test_readings_are_options_of_the_study() -> None:
    study = make_study("comparison-p450", "paper")
    assert {
        "BIP-VI-two-starts",
        "BIP-VI-two-starts (standardised)",
        "BIP-screen",
        "BIP-screen (raw)",
    } <= set(study.methods)
    study = make_study("comparison-p450", "paper", penalties=("per-row", "whole"), screens=("raw",))
    climbing = [name for name in study.methods if name.startswith("BIP-VI-two-starts")]
    assert climbing == ["BIP-VI-two-starts (per-row)", "BIP-VI-two-starts (whole)"]
    assert "BIP-screen" not in study.methods
    for wrong in ({"penalties": ("per-col",)}, {"screens": ("cooked",)}, {"p_change": "verse"}):
        with pytest.raises(SettingError, match=r"per-col|cooked|verse"):
            make_study("comparison-p450", **wrong)


def test_the_prose_keeps_the_coefficients_that_the_list_draws_anew() -> None:
    """Shares of the drawn parameter are one less the other's, and so are the coefficients that
    change."""
    for name, bounds in REDRAWN.items():
        changed = []
        for seed in range(20):
            model = p10(2, np.random.default_rng(seed), strength=1.0, p_change=bounds)
            first, second = model.coefficients[:, :-1]
            known = first != 0
            changed.append((first[known] != second[known]).mean())
        low, high = bounds
        assert low < np.mean(changed) < high, name
    assert np.add(REDRAWN["list"], REDRAWN["prose"][::-1]).tolist() == [1.0, 1.0]


def test_cost_table(runs: dict[str, StudyRun]) -> None:
    run = runs["cost"]
    table = run.study.table(run.results)
    assert run.workers == "1 process"
    for line in table.itertuples():
        chosen = run.results[(run.results["method"] == line.method) & (run.results["n"] == line.n)]
        assert line.seconds == chosen["seconds"].median()
    assert table.loc[(table["method"] == "ICP") & (table["n"] == 200), "paper"].item() == 2.60
    assert all(len(values) == len(POINTS) for values in PAPER.values())


def test_the_papers_seconds_stand_beside_its_own_configuration() -> None:
    study = make_study("cost")
    assert study.methods[:2] == ("BIP-VI-two-starts", "BIP-VI")
    rows = [
        dict(cell.values) | {"method": name, "seconds": 1.0}
        for cell in study.cells()
        for name in study.methods
    ]
    table = study.table(pd.DataFrame(rows)).set_index(["method", "p", "n"])["paper"]
    assert table["BIP-VI-two-starts", 450, 200] == 11.43
    assert table["BIP-VI"].isna().all()
    assert METHODS["BIP-VI-two-starts"].build(0).engine.starts == ("uninformative", "informative")
    with pytest.raises(SettingError, match="BIP-VI-fast"):
        make_study("cost", methods=("BIP-VI-fast",))


@pytest.mark.parametrize("name", ["BIP", "BIP-screen", "BIP-VI-two-starts"])
def test_seconds_of_bip_end_with_the_posterior(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the paper does not have is not timed: no verdict, no predictor."""
    rng = np.random.default_rng(1)
    data = p10(3, rng).sample(50, rng)
    shared = TimedScreening(LassoScreen(k=4).screen(data), 1e9)
    seen = []

    def findings(self: FitSettings, target: Target, progress: object) -> None:
        seen.append(target.n_features)

    monkeypatch.setattr(FitSettings, "findings", findings)
    monkeypatch.setattr(BIP, "fit", lambda self, data: 1 / 0)
    row = timed(name, data, 0, shared)
    assert (row["outcome"], seen) == ("posterior", [4 if name == "BIP-screen" else 10])
    assert (row["seconds"] >= 1e9) == (name == "BIP-screen")


def test_seconds_of_any_method_with_450_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a screen where there is such a method: this was a KeyError for the published
    BIP-VI."""
    asked = []

    def fit(name: str, *rest: object) -> dict[str, Any]:
        asked.append(name)
        return {"seconds": 1.0, "outcome": "failed"}

    monkeypatch.setattr("replication.cost.timed", fit)
    monkeypatch.setattr(TimedScreening, "of", lambda data, names: None)
    study = make_study(
        "cost", points=((450, 50, 2),), methods=("BIP-VI-two-starts", "BIP-VI", "ICP", "Oracle")
    )
    rows = study.replicate(study.cells()[0], 0)
    assert asked[-4:] == ["BIP-VI-two-starts", "BIP-VI", "ICP-screen", "Oracle"]
    assert [row["method"] for row in rows] == list(study.methods)
    results = pd.DataFrame([dict(study.cells()[0].values) | row for row in rows])
    assert all("No result in 1 of 1 fits" in said for said in study.reading(results))


def test_every_method_is_scored() -> None:
    rng = np.random.default_rng(5)
    data = p10(10, rng, strength=1.0).sample(100, rng)
    shared = TimedScreening.of(data, METHODS)
    rows = {
        name: fit_and_score(name, data, 0, shared)
        for name in METHODS
        if METHODS[name].penalty != "whole"
    }
    for name, row in rows.items():
        assert row["outcome"] in ("selected", "empty", "rejected")
        assert row["exact"] <= row["covered"]
        assert np.isnan(row["posterior"]) == (not name.startswith("BIP"))
        if name in ("Oracle", "BIP", "ICP", "BIP-screen", "ICP-screen"):
            assert row["exact"], name
    # With ten features everything passes the screen.
    assert rows["BIP-screen"]["posterior"] == pytest.approx(rows["BIP"]["posterior"], rel=1e-12)


def test_a_method_without_an_answer_covers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    data = p10(3, rng).sample(50, rng)

    def refuses(self: ICP, data: object) -> None:
        raise EngineError("too much")

    with monkeypatch.context() as patch:
        patch.setattr(ICP, "fit", refuses)
        row = fit_and_score("ICP", data, 0, None)
    names = ("outcome", "exact", "covered", "size", "note")
    assert [row[name] for name in names] == ["failed", False, False, 0, "too much"]
    # Two environments with outcomes on different lines through every feature: no subset is
    # invariant.
    data.y[data.environment_index == 1] *= 50.0
    data.y[data.environment_index == 2] += 500.0 * rng.standard_normal(50)
    row = fit_and_score("ICP", data, 0, None)
    assert (row["outcome"], row["covered"]) == ("rejected", False)


def test_a_truth_that_the_screen_lost_has_posterior_zero() -> None:
    rng = np.random.default_rng(0)
    data = p450(2, rng, strength=0.5, p=60).sample(50, rng)
    shared: Any = TimedScreening.of(data, ("BIP-screen",))
    assert (data.truth & ~shared.screening.kept).any()
    assert fit_and_score("BIP-screen", data, 0, shared)["posterior"] == 0.0
    assert np.isnan(fit_and_score("ICP-screen", data, 0, shared)["posterior"])


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=8))
def test_scores_agree_with_sets(pairs: list[tuple[bool, bool]]) -> None:
    masks = tuple(zip(*pairs, strict=True))
    selected, truth = ({j for j, member in enumerate(mask) if member} for mask in masks)
    assert exact_discovery(*masks) == (selected == truth)
    assert coverage(*masks) == (selected <= truth)
    both = len(selected & truth)
    assert precision(*masks) == pytest.approx(
        both / len(selected) if selected else math.nan, nan_ok=True
    )
    assert recall(*masks) == pytest.approx(both / len(truth) if truth else math.nan, nan_ok=True)
    assert not exact_discovery(*masks, rejected=True)
    assert not coverage(*masks, rejected=True)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    # Newcombe (1998), Statistics in Medicine 17:857-872, table I, method 3
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_rates_have_the_published_wilson_interval(
    successes: int, n: int, low: float, high: float
) -> None:
    found = rate(np.arange(n) < successes)
    assert (found.mean, found.low, found.high) == pytest.approx(
        (successes / n, low, high), abs=5e-5
    )


def test_mean_band() -> None:
    values = [0.2, 0.4, 0.9]
    half = 1.959964 * np.std(values, ddof=1) / np.sqrt(3)
    assert mean_band(values, high=0.7) == pytest.approx((0.5, 0.5 - half, 0.7))
    assert mean_band([0.3]) == (0.3, 0.3, 0.3)
