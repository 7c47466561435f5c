"""The gene study: who is fitted, what is validated, and how that is counted."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from gene_samples import GENES, QUICK_METHODS, regulated, small_samples

from invariance.baselines import EILLS, ICP, HiddenICP
from invariance.exceptions import DataError, EngineError
from invariance.screening import LassoScreen
from replication import genes_methods as genes_source
from replication import make_study
from replication.genes import (
    Genes,
    agreed,
    by_seed,
    cost_table,
    held_out_means,
    precision_table,
    profile_of,
    profile_tables,
    summary,
    targets_table,
    undefined,
    validated,
)
from replication.genes_methods import (
    EMPTY_MODE,
    GENE_METHODS,
    INCOMPATIBLE,
    LEVELS,
    NO_EFFECT,
    PENALTIES,
    THRESHOLDS,
    UNCHECKED,
    VALIDATED,
    Effects,
    Predicted,
    Split,
    Timed,
    Training,
    published_max_size,
    training_data,
)
from replication.runs import Cell, run_study

# ---------------------------------------------------------------- protocol


def test_blocks_hold_every_deleted_gene_once() -> None:
    samples = small_samples()
    split = Split.of(samples, 3, np.random.default_rng(1))
    assert (split.block[:100] == -1).all()
    of_gene = {gene: {int(split.block[row]) for row in samples.deleting(gene)} for gene in "abcdz"}
    assert all(len(blocks) == 1 for blocks in of_gene.values())  # d, too, which has two samples
    sizes = np.bincount([block for blocks in of_gene.values() for block in blocks])
    assert sorted(sizes) == [1, 2, 2]
    assert {gene: split.fold_of(gene) for gene in of_gene} == {gene: min(blocks) for gene, blocks in of_gene.items()}
    assert split.fold_of("e") is None
    others = [Split.of(samples, 3, np.random.default_rng(seed)).block.tolist() for seed in range(5)]
    assert len({tuple(block) for block in others}) > 1
    with pytest.raises(DataError, match="5 deleted genes cannot be split into 6 blocks"):
        Split.of(samples, 6, np.random.default_rng(1))


@pytest.mark.parametrize("target", GENES)
def test_no_fit_sees_what_validates_it(target: str) -> None:
    samples = small_samples()
    split = Split.of(samples, 3, np.random.default_rng(2))
    seen_held_out = np.zeros(len(samples.samples), dtype=int)
    for fold in range(3):
        training, held_out = split.training(target, fold), split.held_out(fold)
        assert not (training & held_out).any()
        assert training[samples.wild_type].all()
        assert not training[samples.deleting(target)].any()
        left = ~training & ~held_out
        assert set(np.flatnonzero(left)) <= set(samples.deleting(target))
        seen_held_out += held_out
    assert (seen_held_out == ~samples.wild_type).all()


def test_training_data_are_the_training_samples() -> None:
    samples = small_samples()
    split = Split.of(samples, 3, np.random.default_rng(2))
    rows = split.training("c", 1)
    data = training_data(samples, "c", rows)
    np.testing.assert_array_equal(data.X, samples.values[rows][:, [0, 1, 3, 4]])
    np.testing.assert_array_equal(data.y, samples.values[rows, 2])
    assert (data.feature_names, data.outcome_name) == (("a", "b", "d", "e"), "c")
    assert data.environments == ("wild type", "deletion")
    assert data.counts.tolist() == [100, int(rows.sum()) - 100]
    values = samples.values.copy()
    values[:, 3] = 1.0
    constant = replace(samples, values=values)
    assert training_data(constant, "c", rows).feature_names == ("a", "b", "e")
    with pytest.raises(DataError, match="the target 'd' is constant in the"):
        training_data(constant, "d", rows)


def test_effects_by_hand() -> None:
    effects = Effects.of(small_samples())
    np.testing.assert_allclose(effects.high, 0.98, atol=1e-12)
    np.testing.assert_allclose(effects.low, -0.98, atol=1e-12)
    assert dict(zip(effects.deleted, effects.successful, strict=True)) == {
        "a": True,
        "b": True,
        "c": False,
        "d": True,
        "z": False,
    }
    by_hand = {
        ("a", "b"): VALIDATED,
        ("a", "c"): VALIDATED,
        ("a", "d"): NO_EFFECT,
        ("a", "e"): NO_EFFECT,
        ("b", "c"): VALIDATED,
        ("b", "a"): NO_EFFECT,
        ("c", "a"): UNCHECKED,  # its deletion did not succeed
        ("d", "a"): VALIDATED,
        ("d", "b"): NO_EFFECT,
        ("z", "a"): UNCHECKED,
        ("e", "a"): UNCHECKED,
    }
    assert {pair: effects.verdict(*pair) for pair in by_hand} == by_hand


def test_only_held_out_deletions_check() -> None:
    samples = small_samples()
    effects = Effects.of(samples)
    rows = np.isin(np.array(samples.deleted, dtype=object), ["a", "c", "d"])
    candidates, moved = effects.checks("b", ("a", "c", "d", "e"), rows)
    assert candidates.tolist() == [True, False, True, False]
    assert moved.tolist() == [True, False, False, False]
    none = np.zeros(len(rows), dtype=bool)
    assert [mask.any() for mask in effects.checks("b", ("a", "c", "d", "e"), none)] == [False, False]


# ---------------------------------------------------------------- metrics


def rows_of(*counts: tuple[int, ...]) -> pd.DataFrame:
    names = ("replicate", "predicted", "checkable", "correct", "candidates", "effects")
    return pd.DataFrame(counts, columns=list(names))


def test_precision_and_recall_by_hand() -> None:
    rows = rows_of((0, 5, 4, 3, 10, 5), (0, 2, 1, 0, 4, 1), (1, 4, 4, 2, 10, 5), (1, 0, 0, 0, 4, 1))
    seeds = by_seed(rows)
    assert seeds["precision"].tolist() == [3 / 5, 2 / 4]
    assert seeds["recall"].tolist() == [3 / 6, 2 / 6]
    assert seeds["chance"].tolist() == pytest.approx([(4 * 5 / 10 + 1 / 4) / 5, 0.5])
    line = summary(rows)
    assert (line["seeds"], line["seeds_with_predictions"]) == (2, 2)
    assert line["precision"] == pytest.approx(0.55)
    assert line["precision_error"] == pytest.approx(0.05)  # (.6 - .5) / √2 / √2
    assert line["recall"] == pytest.approx(5 / 12)
    assert line["recall_error"] == pytest.approx(1 / 12)
    assert (line["predicted"], line["checkable"], line["correct"]) == (5.5, 4.5, 2.5)


def test_nothing_predicted_has_no_precision() -> None:
    line = summary(rows_of((0, 0, 0, 0, 10, 5), (1, 0, 0, 0, 10, 5)))
    assert np.isnan([line["precision"], line["precision_error"], line["chance_low"], line["chance_high"]]).all()
    assert line["recall"] == 0.0
    assert np.isnan(line["p_value"])
    assert undefined(line) == "none predicted"
    unchecked = summary(rows_of((0, 3, 0, 0, 10, 5)))
    assert undefined(unchecked) == "none can be checked"
    assert np.isnan(unchecked["recall_error"])
    assert np.isnan(summary(rows_of((0, 3, 2, 0, 4, 0)))["recall"])


def test_a_seed_without_predictions_does_not_dilute_the_others() -> None:
    line = summary(rows_of((0, 5, 5, 5, 10, 5), (1, 0, 0, 0, 10, 5)))
    assert (line["precision"], line["seeds_with_predictions"]) == (1.0, 1)
    assert line["p_value"] == pytest.approx(1 / 252)
    assert np.isnan(line["precision_error"])


# ---------------------------------------------------------------- methods


@pytest.fixture(scope="module")
def training() -> Training:
    samples = regulated(n_genes=14, wild_types=80)
    split = Split.of(samples, 5, np.random.default_rng(0))
    fold = split.fold_of("g1")
    assert fold is not None
    return Training(training_data(samples, "g2", split.training("g2", fold)), 3, 300)


@pytest.fixture(scope="module")
def answers(training: Training) -> dict[str, Timed[Predicted]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: method.answer(training) for name, method in GENE_METHODS.items()}


def test_every_method_answers(training: Training, answers: dict[str, Timed[Predicted]]) -> None:
    p = training.data.n_features
    for name, method in GENE_METHODS.items():
        found, seconds, _ = answers[name]
        assert not found.note.startswith("failed"), (name, found.note)
        assert found.selected.shape == (len(method.settings), p)
        assert found.selected.dtype == bool
        assert found.score is None or found.score.shape == (p,)
        assert seconds >= (training.lasso.seconds if method.shares == "lasso" else 0.0)


def test_thresholds_of_one_fit_are_nested(answers: dict[str, Timed[Predicted]]) -> None:
    for name in ("BIP-VI", "BIP-screen", "BIP λ=0.1", "BIP-ratio"):
        found = answers[name].value
        assert (found.selected[:-1] >= found.selected[1:]).all()
        assert found.score is not None
        if name != "BIP-ratio":
            np.testing.assert_array_equal(found.selected, found.score >= np.array(THRESHOLDS)[:, None])


def screened(training: Training, method: object) -> np.ndarray:
    kept = LassoScreen(cv=5, random_state=training.seed).screen(training.data).kept
    reduced = training.data.narrowed(kept)
    selected = np.zeros(training.data.n_features, dtype=bool)
    selected[kept] = method.fit(reduced).support_  # type: ignore[attr-defined]
    return selected


def test_one_fit_serves_all_levels_as_separate_fits_do(
    training: Training, answers: dict[str, Timed[Predicted]]
) -> None:
    for i, alpha in enumerate(LEVELS):
        icp, hidden = ICP(alpha=alpha, progress=False), HiddenICP(alpha=alpha)
        np.testing.assert_array_equal(answers["ICP-screen"].value.selected[i], screened(training, icp))
        np.testing.assert_array_equal(answers["Hidden-ICP-screen"].value.selected[i], screened(training, hidden))
    for i, gamma in enumerate(PENALTIES):
        eills = EILLS(gamma=gamma, progress=False)
        np.testing.assert_array_equal(answers["EILLS-screen"].value.selected[i], screened(training, eills))


def test_levels_at_which_icp_accepts_nothing_select_nothing(training: Training) -> None:
    # The largest p-value of a subset is between two of the levels.
    data = training.data
    shifted = Training(replace(data, y=data.y + 0.3 * (data.environment_index == 1)), 3, 10)
    found = GENE_METHODS["ICP-screen"].answer(shifted).value.selected
    outcomes = []
    for i, alpha in enumerate(LEVELS):
        model = ICP(alpha=alpha, progress=False)
        np.testing.assert_array_equal(found[i], screened(shifted, model))
        outcomes.append(model.outcome_)
    assert outcomes == ["selected", "selected", "selected", "rejected", "rejected"]


def test_published_limit_in_proportion(training: Training) -> None:
    def limit(*counts: int) -> int:
        n = sum(counts)
        environments = np.repeat(np.arange(len(counts)), counts)
        return published_max_size(replace(training.data, X=np.zeros((n, 1)), environment_index=environments))

    assert limit(262, 1183) == 200
    assert limit(300, 1183) == 200
    assert limit(76, 39) == 29
    assert limit(131, 131) == 100


def test_a_method_that_fails_predicts_nothing_and_says_so(training: Training) -> None:
    def fails(given: Training) -> None:
        raise EngineError("no luck")

    method = replace(GENE_METHODS["BIP-VI"], predict=fails)
    found = method.answer(training).value
    assert found.note == "failed: no luck"
    assert found.selected.shape == (5, training.data.n_features)
    assert not found.selected.any()


def test_no_compatible_subset_is_no_prediction(training: Training) -> None:
    data = training.data.narrowed(np.arange(training.data.n_features) < 4)
    y = data.y * np.where(data.environment_index == 1, 40.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = GENE_METHODS["BIP-predictive"].answer(Training(replace(data, y=y), 3, 10)).value
    assert found.note == INCOMPATIBLE
    assert not found.selected.any()


def test_ratio_is_odds_over_prior_odds(training: Training, answers: dict[str, Timed[Predicted]]) -> None:
    model = training.sparse.value
    found = answers["BIP-ratio"].value
    p = training.data.n_features
    largest = min(20, published_max_size(training.data), p)
    before = largest / 2 / p  # all sizes up to the largest are equally probable
    after = np.minimum(model.inclusion_probabilities_, 1 - 1e-12)
    np.testing.assert_allclose(found.score, after / (1 - after) / (before / (1 - before)), rtol=1e-9)
    assert (found.note == EMPTY_MODE) == (not model.posterior_.mode_mask.any())


# ---------------------------------------------------------------- the study


def test_targets_are_spread_and_the_papers_come_first(on) -> None:
    first, second = regulated(0, 6), regulated(1, 6)
    renamed = replace(second, genes=("YLL020C", "h1", "YMR103C", "h3", "h4", "h5"))
    study = on(first, renamed)
    cells = study.cells()
    assert len(cells) == 2 * 6 * 5
    targets = list(dict.fromkeys((cell["panel"], cell["target"]) for cell in cells))
    assert [panel for panel, _ in targets] == [0, 1] * 6
    assert [target for panel, target in targets if panel == 1][:2] == ["YMR103C", "YLL020C"]
    fewer = on(first, renamed, targets=3).cells()
    assert fewer == cells[:15]
    assert study.identity() == on(first, renamed, targets=3).identity()
    flat = first.values.copy()
    flat[first.wild_type, 2] = 0.0
    assert "g2" not in {cell["target"] for cell in on(replace(first, values=flat)).cells()}


def test_rows_count_what_the_fold_holds_out(on) -> None:
    samples = regulated(n_genes=12)
    study = on(samples, methods=("Lasso", "ICP-screen"))
    effects = Effects.of(samples)
    split = study.split(0, 1)
    total = 0
    for fold in range(5):
        cell = Cell((("panel", 0), ("target", "g2"), ("fold", fold)))
        rows = study.replicate(cell, 1)
        assert [(row["method"], row["setting"]) for row in rows] == [
            ("Lasso", "5 folds"),
            *(("ICP-screen", f"α={alpha:g}") for alpha in LEVELS),
        ]
        held_out = {gene for gene in samples.genes if split.fold_of(gene) == fold and gene != "g2"}
        verdicts = {gene: effects.verdict(gene, "g2") for gene in held_out}
        lasso = rows[0]
        chosen = set(lasso["genes"].split())
        assert lasso["predicted"] == len(chosen)
        assert lasso["candidates"] == sum(verdict != UNCHECKED for verdict in verdicts.values())
        assert lasso["correct"] == sum(verdicts.get(gene) == VALIDATED for gene in chosen)
        assert lasso["checkable"] == sum(verdicts.get(gene, UNCHECKED) != UNCHECKED for gene in chosen)
        total += lasso["effects"]
        assert "g2" not in chosen
    assert total == sum(effects.verdict(gene, "g2") == VALIDATED for gene in samples.genes if gene != "g2")
    assert total >= 2  # g0 and g1 drive it


def made_up(genes_of: dict[tuple[int, int], str], ranking: str = "") -> pd.DataFrame:
    """Rows of one method for target g2; genes_of: {(seed, fold): predicted genes}"""
    return pd.DataFrame(
        [
            {
                **{"panel": 0, "target": "g2", "fold": fold, "replicate": seed, "method": "BIP-VI", "setting": "t=0.5"},
                **{"genes": found, "ranking": ranking, "note": "", "seconds": 1.0},
                **dict.fromkeys(("predicted", "checkable", "correct", "candidates", "effects"), 0),
            }
            for (seed, fold), found in genes_of.items()
        ]
    )


def test_predictions_agree_where_their_deletion_is_held_out(on) -> None:
    samples = regulated(n_genes=12)
    never = replace(samples, deleted=tuple("other" if gene == "g5" else gene for gene in samples.deleted))
    study = on(never, methods=("BIP-VI",))
    fold_of = [{gene: study.split(0, seed).fold_of(gene) for gene in ("g1", "g3")} for seed in range(2)]
    found = {(seed, fold): "g5" for seed in range(2) for fold in range(5)}
    for seed in range(2):
        found[seed, fold_of[seed]["g1"]] += " g1"
    found[0, fold_of[0]["g3"]] += " g3"
    for fold in range(5):  # seen in training only: g3's own fold of the second seed is the one that counts
        if fold != fold_of[1]["g3"]:
            found[1, fold] += " g3"
    results = made_up(found)
    chosen = agreed(study, results, "BIP-VI", "t=0.5")
    assert {target: sorted(names) for target, names in chosen.items()} == {(0, "g2"): ["g1", "g5"]}
    assert validated(study, chosen) == {(0, "g2", "g1")}
    found[1, 4] = found[1, 4].replace("g5", "")
    assert sorted(agreed(study, made_up(found), "BIP-VI", "t=0.5")[0, "g2"]) == ["g1"]
    table = targets_table(study, results)
    assert table["target"].tolist() == ["g2"]
    assert sorted(table["BIP-VI (t=0.5)"][0].split(", ")) == ["**g1**", "g5\\*"]


def test_means_of_held_out_scores(on) -> None:
    samples = regulated(n_genes=10)
    never = replace(samples, deleted=tuple("other" if gene == "g5" else gene for gene in samples.deleted))
    study = on(never, methods=("BIP-VI",))
    results = made_up({(seed, fold): "" for seed in range(2) for fold in range(5)}, "g1=0.5 g5=0.2")
    own = (results["replicate"] == 1) & (results["fold"] == study.split(0, 1).fold_of("g1"))
    results.loc[own, "ranking"] = "g1=1 g5=0.2"
    assert held_out_means(study, results) == pytest.approx({"g1": 0.75, "g5": 0.2})
    profile = profile_of(study, results)
    assert profile is not None
    assert [(gene, verdict) for gene, _, verdict in profile.leading] == [("g1", VALIDATED), ("g5", UNCHECKED)]
    assert profile.first(NO_EFFECT) is None
    assert profile.first(VALIDATED) == "g1"
    (table,) = profile_tables(study, results)
    assert table.title == "Leading genes of g2 by BIP-VI"
    assert table.frame["inclusion probability"].tolist() == pytest.approx([0.75, 0.2])


def test_a_study_end_to_end(on, tmp_path: Path) -> None:
    study = on(regulated(n_genes=8), targets=1, replicates=1, methods=("BIP-VI", *QUICK_METHODS), iterations=50)
    run = run_study(study, tmp_path, jobs=1, progress=False)
    assert len(run.results) == 5 * (5 + 5 + 1 + 1)
    table = study.table(run.results)
    assert len(table) == 12
    for line in table.to_dict("records"):
        chosen = run.results[(run.results["method"] == line["method"]) & (run.results["setting"] == line["setting"])]
        totals = chosen.groupby("replicate")[["correct", "checkable"]].sum()
        shares = (totals["correct"] / totals["checkable"]).dropna()
        assert line["precision"] == pytest.approx(shares.mean(), nan_ok=True)
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "python -m replication genes --scale quick --simulated 1" in report
    assert "the precision of predicting all of them" in report
    assert "as the published limit of 200 is" in report
    assert "nan" not in report.replace("nano", "")
    assert {"precision-recall.png", "profile.png"} <= {file.name for file in tmp_path.iterdir()}
    assert precision_table(study, run.results)["method"].nunique() == 4
    assert cost_table(study, run.results)["method"].tolist() == list(study.methods)
    before = (tmp_path / "rows.jsonl").read_bytes()
    again = run_study(study, tmp_path, jobs=1, progress=False)
    assert again.n_now == 0
    assert (tmp_path / "rows.jsonl").read_bytes() == before


# ---------------------------------------------------------------- sources


def test_simulated_samples_have_the_published_proportions() -> None:
    study = make_study("genes", simulated=100, seed=3)
    assert isinstance(study, Genes)
    (samples,) = study.samples
    assert (samples.wild_type.sum(), (~samples.wild_type).sum(), len(samples.genes)) == (262, 24, 100)
    assert study.source == {"simulated": 100}
    assert study.fingerprint != make_study("genes", simulated=100, seed=4).settings()["fingerprint"]
    paper = make_study("genes", "paper", simulated=100, seed=3)
    assert (paper.replicates, len(paper.cells())) == (3, 500)
    assert (study.replicates, len(study.cells())) == (2, 50)


def test_panels_are_studied_side_by_side(tmp_path: Path) -> None:
    panels = [regulated(seed, n_genes=6, wild_types=9) for seed in range(2)]
    position = [[-1 if gene is None else one.place[gene] for gene in one.deleted] for one in panels]
    np.savez(
        tmp_path / "panels_nodes.npz",
        X=np.array([one.values for one in panels]),
        samples=np.array([one.samples for one in panels]),
        genes=np.array([one.genes for one in panels]),
        is_obs=np.array([one.wild_type for one in panels]),
        ko_index=np.array(position),
        labels=np.zeros((2, 6, 6), dtype=np.int8),
    )
    for path in (tmp_path, tmp_path / "panels_nodes.npz"):
        study = make_study("genes", data=str(path))
        assert isinstance(study, Genes)
        assert len(study.samples) == 2
        np.testing.assert_array_equal(study.samples[1].values, panels[1].values)
        assert len(study.cells()) == 2 * 5
        assert study.source == {"data": str(path)}


def test_another_file_at_the_same_path_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = (regulated(0),)
    expected = genes_source.fingerprint(samples)
    assert expected == genes_source.fingerprint((regulated(0),))
    monkeypatch.setattr(genes_source, "samples_of", lambda *source: (regulated(1),))
    with pytest.raises(EngineError, match="the file 'x' differ"):
        genes_source.same_samples("x", None, 0, expected)
    monkeypatch.setattr(genes_source, "samples_of", lambda *source: samples)
    assert genes_source.same_samples("x", None, 0, expected) is samples
    renamed = replace(samples[0], genes=tuple(reversed(samples[0].genes)))
    assert genes_source.fingerprint((renamed,)) != expected
