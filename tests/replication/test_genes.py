"""The gene study: who is fitted, what is validated, how that is counted, against chance, and in the
report."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import BetaBinomialPrior, LinearGaussian, read_sweep
from invariance.baselines import EILLS, ICP, HiddenICP
from invariance.exceptions import ApproximationWarning, DataError, EngineError, SettingError
from invariance.screening import LassoFit, LassoScreen
from replication import COUNTS, genes, genes_cost, genes_methods, make_study
from replication.genes import Genes, chance_law, summary
from replication.genes_methods import (
    GENE_METHODS,
    LEVELS,
    NO_EFFECT,
    THRESHOLDS,
    UNCHECKED,
    VALIDATED,
    Effects,
    Predicted,
    Split,
    Timed,
    Training,
)
from replication.knockouts import Deletions
from replication.runs import Cell, run_study
from replication.yeast import load_yeast

pytestmark = pytest.mark.integration


# 100 wild types between -1 and 1, then deletions. Outside the band: a in a's own sample, with b and
# c moved by it; b in its own, with c moved; c stays where it was in its own; d is deleted in two
# samples, in one of which it moves, so that the mean does, and a moves too; the deleted gene z is
# not measured; e is never deleted.
WILD = np.linspace(-1.0, 1.0, 100)[:, None] * np.array([1.0, -1.0, 1.0, -1.0, 1.0])
DELETED = {
    "a": [-5.0, 3.0, -3.0, 0.0, 0.0],
    "b": [0.1, -5.0, 2.0, 0.2, 0.0],
    "c": [4.0, 0.0, 0.5, 0.0, 0.0],
    "d": [6.0, 0.0, 0.0, -6.0, 0.0],
    "d (again)": [0.0, 0.0, 0.0, 0.0, 0.0],
    "z": [9.0, 9.0, 9.0, 9.0, 9.0],
}
SAMPLES = Deletions(
    np.vstack([WILD, *DELETED.values()]),
    tuple("abcde"),
    (*(f"wt {i}" for i in range(100)), *DELETED),
    (*[None] * 100, *(name[0] for name in DELETED)),
)
SPLIT = Split.of(SAMPLES, 3, np.random.default_rng(2))


def regulated(seed: int = 0, n_genes: int = 12, wild_types: int = 80) -> Deletions:
    """The first gene drives the second, the second the third; every gene is deleted once, to -6."""
    values = np.random.default_rng(seed).normal(size=(wild_types + n_genes, n_genes))
    for j in range(n_genes):
        if 1 <= j <= 2:
            values[:, j] = 0.9 * values[:, j - 1] + 0.3 * values[:, j]
        values[wild_types + j, j] = -6.0
    names = tuple(f"g{j}" for j in range(n_genes))
    return Deletions(
        values, names, tuple(f"s{i}" for i in range(len(values))), (*[None] * wild_types, *names)
    )


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch):
    """make(samples, **changes): the study of samples in place of a file"""

    def make(*samples: object, **changes: object) -> Genes:
        monkeypatch.setattr(genes, "samples_of", lambda *source: samples)
        monkeypatch.setattr(genes, "same_samples", lambda *source: samples)
        settings = {"methods": ("ICP-screen", "Lasso"), "replicates": 2} | changes
        name = settings.pop("name", "genes")
        targets = {} if name == "genes-cost" else {"targets": None}
        study = make_study(name, simulated=1, **(targets | settings))
        assert isinstance(study, Genes)
        return study

    return make


def test_blocks_hold_every_deleted_gene_once() -> None:
    assert (SPLIT.block[:100] == -1).all()
    of_gene = {gene: {int(SPLIT.block[row]) for row in SAMPLES.deleting(gene)} for gene in "abcdz"}
    assert all(len(blocks) == 1 for blocks in of_gene.values())  # d, too, which has two samples
    sizes = np.bincount([block for blocks in of_gene.values() for block in blocks])
    assert sorted(sizes) == [1, 2, 2]
    assert {gene: SPLIT.fold_of(gene) for gene in of_gene} == {
        gene: min(blocks) for gene, blocks in of_gene.items()
    }
    assert SPLIT.fold_of("e") is None
    with pytest.raises(DataError, match="5 deleted genes cannot be split into 6 blocks"):
        Split.of(SAMPLES, 6, np.random.default_rng(1))


@pytest.mark.parametrize("target", "abcde")
def test_no_fit_sees_what_validates_it(target: str) -> None:
    held_out = np.array([SPLIT.held_out(fold) for fold in range(3)])
    training = np.array([SPLIT.training(target, fold) for fold in range(3)])
    assert (held_out.sum(axis=0) == ~SAMPLES.wild_type).all()
    assert not (training & held_out).any()
    assert training[:, SAMPLES.wild_type].all()
    assert not training[:, SAMPLES.deleting(target)].any()
    assert set(np.nonzero(~training & ~held_out)[1]) <= set(SAMPLES.deleting(target))


def test_training_data_are_the_training_samples() -> None:
    rows = SPLIT.training("c", 1)
    data = genes_methods.training_data(SAMPLES, "c", rows)
    np.testing.assert_array_equal(data.X, SAMPLES.values[rows][:, [0, 1, 3, 4]])
    np.testing.assert_array_equal(data.y, SAMPLES.values[rows, 2])
    assert (data.feature_names, data.outcome_name) == (("a", "b", "d", "e"), "c")
    assert data.environments == ("wild type", "deletion")
    assert data.counts.tolist() == [100, int(rows.sum()) - 100]
    constant = replace(SAMPLES, values=np.where(np.arange(5) == 3, 1.0, SAMPLES.values))
    assert genes_methods.training_data(constant, "c", rows).feature_names == ("a", "b", "e")
    with pytest.raises(DataError, match="the target 'd' is constant in the"):
        genes_methods.training_data(constant, "d", rows)


def test_effects_by_hand() -> None:
    effects = Effects.of(SPLIT)
    for low, high in effects.bands.values():
        np.testing.assert_allclose(high, 0.98, atol=1e-12)
        np.testing.assert_allclose(low, -0.98, atol=1e-12)
    successful = dict(zip(effects.deleted, effects.successful, strict=True))
    assert successful == {"a": True, "b": True, "c": False, "d": True, "z": False}
    # The deletion of c did not succeed, though a moved; e was never deleted.
    by_hand = {VALIDATED: "ab ac bc da", NO_EFFECT: "ad ae ba db", UNCHECKED: "ea"}
    for verdict, pairs in by_hand.items():
        assert {effects.verdict(*pair, count) for pair in pairs.split() for count in COUNTS} == {
            verdict
        }
    assert effects.verdict("c", "a") == effects.verdict("c", "a", "published") == NO_EFFECT
    assert effects.verdict("c", "a", "successful") == UNCHECKED


def without_wild_types(seed: int = 0, n_genes: int = 12, n_quiet: int = 60) -> Deletions:
    """Strains that each lack one gene, of which the first n_quiet are non-responsive; g0 drives g1,
    g1 drives g2."""
    values = np.random.default_rng(seed).normal(size=(n_quiet + n_genes, n_genes))
    for j in (1, 2):
        values[:, j] = 0.9 * values[:, j - 1] + 0.3 * values[:, j]
    names = tuple(f"g{j}" for j in range(n_genes))
    # A gene of the panel is also missing in one of the non-responsive strains.
    deleted = ("g5", *(f"other{i}" for i in range(1, n_quiet)), *names)
    for row, gene in enumerate(deleted):
        if gene in names:
            values[row, names.index(gene)] = -6.0
    samples = tuple(f"s{i}" for i in range(len(values)))
    return Deletions(values, names, samples, deleted, np.arange(len(values)) < n_quiet)


def test_bands_come_from_the_training_rows_of_environment_one() -> None:
    """With strains in place of wild types: held-out strains, and those that lack the gene, define
    no band."""
    samples = without_wild_types()
    split = Split.of(samples, 5, np.random.default_rng(0))
    assert (split.block >= 0).all()
    assert samples.environments[[0, -1]].tolist() == ["non-responsive", "responsive"]
    for fold, (low, high) in split.effects.bands.items():
        for j, gene in enumerate(samples.genes):
            rows = samples.non_responsive & (split.block != fold)
            rows[samples.deleting(gene)] = False
            expected = np.quantile(samples.values[rows, j], [0.01, 0.99])
            assert [low[j], high[j]] == pytest.approx(expected)
    for gene in samples.genes:
        fold = split.fold_of(gene)
        level = samples.values[samples.deleting(gene)].mean(axis=0)
        low, high = split.effects.bands[fold]
        moved = (level < low) | (level > high)
        for j, target in enumerate(samples.genes):
            validated = bool(moved[samples.place[gene]] and moved[j])
            assert (split.effects.verdict(gene, target) == VALIDATED) == validated


def test_regulators_apart_add_up(on) -> None:
    samples = without_wild_types()
    study = on(samples, methods=("Lasso", "Marginal"), replicates=1)
    cells = [cell for cell in study.cells() if cell["target"] == "g2"]
    results = pd.DataFrame(
        [dict(c.values) | {"replicate": 0} | row for c in cells for row in study.replicate(c, 0)]
    )
    (_, responsive), (_, quiet) = genes.regulators_apart(results)
    for name in ("predicted", "correct", "effects", "checkable_published", "candidates_published"):
        assert (responsive[name] + quiet[name] == results[name]).all()
    # Of the genes that are features of a fit, g5 alone is missing in a non-responsive strain, too.
    assert quiet["candidates_published"].sum() == 2
    assert quiet["candidates_published"].max() == 1
    (table,) = genes.regulators_tables(study, results)
    assert table.frame["method"].tolist() == ["Lasso", "Marginal"]
    assert "Environment one is strains" in " ".join(study.reading(results))
    assert (
        genes.regulators_tables(on(regulated()), results.drop(columns="effects_non_responsive"))
        == []
    )


def test_targets_of_the_paper_and_drawn_ones() -> None:
    names = genes.drawn_targets()
    assert (len(names), len(set(names))) == (500, 500)
    shape = SimpleNamespace(place=dict.fromkeys([*names, *genes_methods.PAPER_PREDICTIONS], 0))
    assert genes.targets_of((shape,), 0, "paper") == tuple(
        (0, name) for name in genes_methods.PAPER_PREDICTIONS
    )
    assert genes.targets_of((shape,), 0, "drawn:3") == tuple((0, name) for name in names[:3])
    assert len(genes.targets_of((shape,), 0, "drawn")) == 500
    for wrong in ("paper:3", "drawn:x", "all"):
        with pytest.raises(SettingError, match="'drawn:100'"):
            genes.targets_of((shape,), 0, wrong)
    with pytest.raises(DataError, match="not measured: "):
        genes.targets_of((regulated(),), 0, "paper")


STRAINS = Path(__file__).resolve().parents[3] / "shared" / "data" / "yeast_deletions"
needs_strains = pytest.mark.skipif(
    not STRAINS.is_dir(), reason="the yeast deletions are not at hand"
)


@needs_strains
def test_the_drawn_targets_are_those_of_the_file() -> None:
    assert genes.draw_targets(load_yeast(STRAINS)) == genes.drawn_targets()


@needs_strains
def test_the_strains_say_of_the_papers_ten_causes_what_the_paper_says() -> None:
    """Nine of ten have an effect when they are deleted, one has none."""
    study = make_study(
        "genes", data=str(STRAINS), targets="paper", replicates=1, methods=("Marginal",)
    )
    column = genes_methods.PAPER_COLUMNS[0]
    told = {
        target: genes.published(target, column)[0] for target in genes_methods.PAPER_PREDICTIONS
    }
    assert {
        target: (gene, study.verdict(0, gene, target)) for target, (gene, _) in told.items()
    } == told


def test_a_sweep_answers_for_the_variational_method(on, tmp_path: Path) -> None:
    """Inclusion probabilities of a sweep on the same samples as the fits, wherever it ran."""
    pytest.importorskip("torch")
    study = on(
        without_wild_types(), methods=("BIP-VI",), targets=3, folds=2, replicates=1, iterations=60
    )
    run = run_study(study, tmp_path / "a", device="cpu", progress=False)
    assert sorted(folder.name for folder in (tmp_path / "a" / genes.SWEEPS).iterdir()) == [
        "panel0-seed0-fold0",
        "panel0-seed0-fold1",
    ]
    rows = run.results[run.results["setting"] == "t=0.5"]
    assert len(rows) == 6
    for row in rows.to_dict("records"):
        table = read_sweep(tmp_path / "a" / genes.SWEEPS / f"panel0-seed0-fold{row['fold']}")
        of_target = table[table["outcome"] == row["target"]]
        assert set(row["genes"].split()) == set(
            of_target.loc[of_target["inclusion"] >= 0.5, "feature"]
        )
        assert row["seconds"] == of_target["seconds"].iloc[0]
    assert study.identity() == run.study.identity()


def test_parts_with_some_methods_are_joined(on, tmp_path: Path) -> None:
    samples = without_wild_types()
    both = ("Lasso", "Marginal")
    whole = run_study(
        on(samples, methods=both, targets=2, replicates=1), tmp_path / "whole", progress=False
    )
    for name in both:
        run_study(
            on(samples, methods=(name,), targets=2, replicates=1), tmp_path / name, progress=False
        )
    study = on(samples, methods=both, targets=2, replicates=1)
    parts = [tmp_path / name for name in both]
    joined = run_study(study, tmp_path / "joined", parts=parts, progress=False)
    assert (joined.n_now, joined.n_before) == (0, 10)
    columns = [name for name in whole.results if name != "seconds"]
    key = ["panel", "target", "fold", "replicate", "method", "setting"]
    expected = whole.results[columns].sort_values(key, ignore_index=True)
    pd.testing.assert_frame_equal(
        joined.results[columns].sort_values(key, ignore_index=True), expected
    )
    other = run_study(
        on(samples, methods=both, targets=2, replicates=1, seed=3),
        tmp_path / "other",
        progress=False,
    )
    with pytest.raises(EngineError, match="of another study, by its seed"):
        run_study(study, tmp_path / "joined", parts=[other.folder], progress=False)


def test_a_deletion_without_success_is_checked_and_wrong(
    on, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the paper's appendix; the named alternative leaves it out, which can only raise the
    precision."""
    samples = regulated()
    for gene in (
        3,
        4,
    ):  # among the wild types, where their own deletions leave them; the target moves all the same
        samples.values[80 + gene, [gene, 2]] = 0.0, 9.0
    monkeypatch.setitem(GENE_METHODS, "Lasso", replace(GENE_METHODS["Lasso"], predict=every_gene))
    study = on(samples, methods=("Lasso",), replicates=1)
    cells = [Cell((("panel", 0), ("target", "g2"), ("fold", fold))) for fold in range(5)]
    results = pd.DataFrame(
        [dict(c.values) | {"replicate": 0} | row for c in cells for row in study.replicate(c, 0)]
    )
    n_effects = sum(
        study.split(0, 0).effects.verdict(gene, "g2") == VALIDATED
        for gene in samples.genes
        if gene != "g2"
    )
    assert n_effects >= 2
    table = study.table(results).set_index("count")
    assert (
        table["checkable"].to_dict()
        == table["candidates"].to_dict()
        == {"published": 11, "successful": 9}
    )
    assert (table["correct"] == n_effects).all()
    assert table["precision"].to_dict() == pytest.approx(
        {"published": n_effects / 11, "successful": n_effects / 9}
    )
    assert (table["recall"] == 1.0).all()
    assert table["chance"].to_dict() == pytest.approx(table["precision"].to_dict())
    shown = genes.precision_table(study, results).iloc[0]
    assert (shown["checked"], shown["checked (successful)"]) == (11, 9)
    assert (shown["precision"], shown["precision (successful)"]) == (
        f"{n_effects / 11:.3f}",
        f"{n_effects / 9:.3f}",
    )
    other = on(samples, methods=("Lasso",), replicates=1, count="successful")
    assert (study.verdict(0, "g3", "g2"), other.verdict(0, "g3", "g2")) == (NO_EFFECT, UNCHECKED)
    assert other.identity() == study.identity()  # a finished folder serves both
    assert other.source == {"simulated": 1, "count": "successful"}
    assert genes.precision_table(other, results)["precision"][0] == shown["precision (successful)"]
    with pytest.raises(SettingError, match="count='ours'"):
        on(samples, count="ours")


def every_gene(training: Training) -> Predicted:
    return Predicted(np.full((1, training.data.n_features), True))


def rows_of(*counts: tuple[int, ...]) -> pd.DataFrame:
    names = ("replicate", "predicted", "checkable", "correct", "candidates", "effects")
    return pd.DataFrame(counts, columns=list(names))


def test_precision_and_recall_by_hand() -> None:
    rows = rows_of((0, 5, 4, 3, 10, 5), (0, 2, 1, 0, 4, 1), (1, 4, 4, 2, 10, 5), (1, 0, 0, 0, 4, 1))
    seeds = genes.by_seed(rows)
    assert seeds["precision"].tolist() == [3 / 5, 2 / 4]
    assert seeds["recall"].tolist() == [3 / 6, 2 / 6]
    assert seeds["chance"].tolist() == pytest.approx([(4 * 5 / 10 + 1 / 4) / 5, 0.5])
    line = summary(rows)
    expected = {
        "seeds": 2,
        "seeds_with_predictions": 2,
        "predicted": 5.5,
        "checkable": 4.5,
        "correct": 2.5,
    }
    rates = {"precision": 0.55, "precision_error": 0.05, "recall": 5 / 12, "recall_error": 1 / 12}
    assert {name: line[name] for name in expected | rates} == pytest.approx(expected | rates)
    # A seed without predictions has no precision, and does not dilute that of the others.
    line = summary(rows_of((0, 5, 5, 5, 10, 5), (1, 0, 0, 0, 10, 5)))
    assert (line["precision"], line["recall"], line["seeds_with_predictions"]) == (1.0, 0.5, 1)
    assert np.isnan(line["precision_error"])
    for counts, why in (
        ((0, 0, 0, 0, 10, 5), "none predicted"),
        ((0, 3, 0, 0, 10, 5), "none can be checked"),
    ):
        line = summary(rows_of(counts))
        assert np.isnan(
            [line[name] for name in ("precision", "chance_low", "chance_high", "p_value")]
        ).all()
        assert genes.undefined(line) == why
    assert np.isnan(summary(rows_of((0, 3, 2, 0, 4, 0)))["recall"])


@pytest.fixture(scope="module")
def training() -> Training:
    samples = regulated(n_genes=14, wild_types=80)
    split = Split.of(samples, 5, np.random.default_rng(0))
    fold = split.fold_of("g1")
    assert fold is not None
    return Training(genes_methods.training_data(samples, "g2", split.training("g2", fold)), 3, 300)


# Seconds that no work of a test takes
LONG = 1e9


@pytest.fixture(scope="module")
def answers(training: Training) -> dict[str, Timed[Predicted]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        training.__dict__["lasso"] = training.lasso._replace(seconds=LONG)
        return {name: method.answer(training) for name, method in GENE_METHODS.items()}


def test_every_method_answers(training: Training, answers: dict[str, Timed[Predicted]]) -> None:
    p = training.data.n_features
    for name, method in GENE_METHODS.items():
        found, seconds, _ = answers[name]
        assert not found.note.startswith("failed"), (name, found.note)
        assert found.selected.shape == (len(method.settings), p)
        assert found.selected.dtype == bool
        assert (seconds >= LONG) == (method.shares == "lasso")
        if method.settings[0] == "t=0.5":
            np.testing.assert_array_equal(
                found.selected, found.score >= np.array(THRESHOLDS)[:, None]
            )

    def fails(given: Training) -> None:
        raise EngineError("no luck")

    found = replace(GENE_METHODS["BIP-VI"], predict=fails).answer(training).value
    assert found.note == "failed: no luck"
    assert found.selected.shape == (5, p)
    assert not found.selected.any()


def screened(training: Training, method: object) -> np.ndarray:
    kept = LassoScreen(cv=5, random_state=training.seed).screen(training.data).kept
    reduced = training.data.narrowed(kept)
    selected = np.zeros(training.data.n_features, dtype=bool)
    selected[kept] = method.fit(reduced).support_  # type: ignore[attr-defined]
    return selected


def test_one_fit_serves_all_levels_as_separate_fits_do(
    training: Training, answers: dict[str, Timed[Predicted]]
) -> None:
    data = training.data
    # The largest p-value of a subset is between two of the levels.
    shifted = Training(replace(data, y=data.y + 0.3 * (data.environment_index == 1)), 3, 10)
    rejected = GENE_METHODS["ICP-screen"].answer(shifted).value.selected
    outcomes = []
    for i, alpha in enumerate(LEVELS):
        icp = ICP(alpha=alpha, progress=False)
        hidden = HiddenICP(alpha=alpha)
        np.testing.assert_array_equal(
            answers["ICP-screen"].value.selected[i], screened(training, icp)
        )
        np.testing.assert_array_equal(
            answers["Hidden-ICP-screen"].value.selected[i], screened(training, hidden)
        )
        np.testing.assert_array_equal(rejected[i], screened(shifted, icp))
        outcomes.append(icp.outcome_)
    assert outcomes == ["selected", "selected", "selected", "rejected", "rejected"]
    for i, gamma in enumerate(genes_methods.PENALTIES):
        eills = EILLS(gamma=gamma, progress=False)
        np.testing.assert_array_equal(
            answers["EILLS-screen"].value.selected[i], screened(training, eills)
        )


@pytest.mark.filterwarnings("ignore")
def test_no_compatible_subset_is_no_prediction(training: Training) -> None:
    data = training.data.narrowed(np.arange(training.data.n_features) < 4)
    y = data.y * np.where(data.environment_index == 1, 40.0, 1.0)
    found = GENE_METHODS["BIP-predictive"].answer(Training(replace(data, y=y), 3, 10)).value
    assert found.note == genes_methods.INCOMPATIBLE
    assert not found.selected.any()


def test_ratio_is_odds_over_prior_odds(
    training: Training, answers: dict[str, Timed[Predicted]]
) -> None:
    model = training.sparse.value
    found = answers["BIP-ratio"].value
    p = training.data.n_features
    largest = min(20, genes_methods.published_max_size(training.data), p)
    before = largest / 2 / p  # all sizes up to the largest are equally probable
    after = np.minimum(model.inclusion_probabilities_, 1 - 1e-12)
    np.testing.assert_allclose(
        found.score, after / (1 - after) / (before / (1 - before)), rtol=1e-9
    )
    assert (found.note == genes_methods.EMPTY_MODE) == (not model.posterior_.mode_mask.any())


def test_targets_are_spread_and_the_papers_come_first(on) -> None:
    first = regulated(0, 6)
    second = regulated(1, 6)
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
    first.values[first.wild_type, 2] = 0.0
    assert "g2" not in {cell["target"] for cell in on(first).cells()}


def test_rows_count_what_the_fold_holds_out(on) -> None:
    samples = regulated()
    study = on(samples, methods=("Lasso", "ICP-screen"))
    effects = study.split(0, 1).effects
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
        assert lasso["candidates_published"] == sum(
            verdict != UNCHECKED for verdict in verdicts.values()
        )
        assert lasso["correct"] == sum(verdicts.get(gene) == VALIDATED for gene in chosen)
        assert lasso["checkable_published"] == sum(
            verdicts.get(gene, UNCHECKED) != UNCHECKED for gene in chosen
        )
        total += lasso["effects"]
        assert "g2" not in chosen
    assert total == sum(
        effects.verdict(gene, "g2") == VALIDATED for gene in samples.genes if gene != "g2"
    )
    assert total >= 2  # g0 and g1 drive it


def without_g5(n_genes: int) -> Deletions:
    samples = regulated(n_genes=n_genes)
    return replace(
        samples, deleted=tuple("other" if gene == "g5" else gene for gene in samples.deleted)
    )


def made_up(genes_of: dict[tuple[int, int], str], ranking: str = "") -> pd.DataFrame:
    """Rows of one method for target g2; genes_of: {(seed, fold): predicted genes}"""
    about = {
        "panel": 0,
        "target": "g2",
        "method": "BIP-VI",
        "setting": "t=0.5",
        "note": "",
        "seconds": 1.0,
    }
    about |= dict.fromkeys(("predicted", "correct", "effects"), 0)
    about |= {f"{name}_{count}": 0 for name in ("checkable", "candidates") for count in COUNTS}
    rows = [(seed, fold, found, ranking) for (seed, fold), found in genes_of.items()]
    return pd.DataFrame(rows, columns=["replicate", "fold", "genes", "ranking"]).assign(**about)


def test_predictions_agree_where_their_deletion_is_held_out(on) -> None:
    study = on(without_g5(12), methods=("BIP-VI",))
    fold_of = [
        {gene: study.split(0, seed).fold_of(gene) for gene in ("g1", "g3")} for seed in range(2)
    ]
    found = {(seed, fold): "g5" for seed in range(2) for fold in range(5)}
    for seed in range(2):
        found[seed, fold_of[seed]["g1"]] += " g1"
    found[0, fold_of[0]["g3"]] += " g3"
    for fold in range(
        5
    ):  # seen in training only: g3's own fold of the second seed is the one that counts
        if fold != fold_of[1]["g3"]:
            found[1, fold] += " g3"
    results = made_up(found)
    chosen = genes.agreed(study, results, "BIP-VI", "t=0.5")
    assert {target: sorted(names) for target, names in chosen.items()} == {(0, "g2"): ["g1", "g5"]}
    assert genes.validated(study, chosen) == {(0, "g2", "g1")}
    found[1, 4] = found[1, 4].replace("g5", "")
    assert sorted(genes.agreed(study, made_up(found), "BIP-VI", "t=0.5")[0, "g2"]) == ["g1"]
    table = genes.targets_table(study, results)
    assert table["target"].tolist() == ["g2"]
    assert sorted(table["BIP-VI (t=0.5)"][0].split(", ")) == ["**g1**", "g5\\*"]


def test_the_papers_entries_stand_beside_ours(on) -> None:
    samples = without_g5(12)
    names = {"g2": "YBR126C", "g1": "YDR074W", "g5": "YGR008C", "g3": "YKL035W"}
    renamed = {
        "genes": tuple(names.get(gene, gene) for gene in samples.genes),
        "deleted": tuple(names.get(gene, gene) for gene in samples.deleted),
    }
    study = on(replace(samples, **renamed), methods=("BIP-VI", "ICP-screen"))
    found = made_up({(seed, fold): "YDR074W YGR008C" for seed in range(2) for fold in range(5)})
    found = found.assign(target="YBR126C")
    results = pd.concat([found, found.assign(method="ICP-screen", setting="α=0.01", genes="")])
    (line,) = genes.targets_table(study, results).to_dict("records")
    assert line == {
        "target": "YBR126C",
        "ICP-screen (α=0.01)": "∅",
        "BIP-VI (t=0.5)": "**YDR074W**, YGR008C\\*",
        "the paper: Meinshausen et al. 2016": "**YDR074W**",
        "the paper: ICP-screen": "∅",
        "the paper: BIP-VI": "YGR008C\\*, YKL035W\\*, **YDR074W**",
    }
    said = genes._against_the_paper(study, results)
    assert said[0] == "BIP-VI on the paper's targets: 3 genes in the paper, 2 here, 2 in both."
    assert said[1] == "ICP-screen on the paper's targets: 0 genes in the paper, 0 here, 0 in both."
    assert (
        "of 2 of the 3 genes" in said[2]
    )  # YKL035W was not deleted in the published file, and is here
    elsewhere = genes.targets_table(on(without_g5(12), methods=("BIP-VI",)), made_up({(0, 0): ""}))
    assert not [column for column in elsewhere if "paper" in column]


def test_causes_count_if_a_fit_held_out_their_deletion(on, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer folds a cause whose deletion every fit has seen can neither be found nor
    missed."""
    monkeypatch.setattr(genes, "PAPER_PREDICTIONS", {"g2": ("g1", "", "g1"), "g1": ("g0", "", "")})
    study = on(regulated(), methods=("Lasso",), replicates=1)
    split = study.split(0, 0)
    own = {gene: split.fold_of(gene) for gene in ("g0", "g1")}
    rows = [("g2", fold, "g1 g5") for fold in range(5)] + [
        ("g1", fold, "g0" * (fold != own["g0"])) for fold in range(5)
    ]
    results = pd.DataFrame(rows, columns=["target", "fold", "genes"])
    results = results.assign(panel=0, replicate=0, method="Lasso", setting="5 folds")
    (line,) = genes.causes_tables(study, results)[0].frame.to_dict("records")
    assert (line["causes found"], line["of targets"]) == (
        "1 of 2",
        "g2",
    )  # g0 only by fits that have seen its deletion
    assert own["g0"] != own["g1"]
    (line,) = genes.causes_tables(study, results[results["fold"] == own["g1"]])[0].frame.to_dict(
        "records"
    )
    assert line["causes found"] == "1 of 1"
    assert genes.causes_tables(study, results[results["target"] == "g2"]) == []
    said = genes._against_the_paper(replace(study, folds=1), results)
    assert (
        said[0]
        == "1 of 5 blocks are held out: genes that were deleted in the others are never listed."
    )
    assert (
        said[1] == "The deletions say of 2 of the 2 genes in the paper's table what the paper says."
    )


def test_the_paper_is_compared_whichever_methods_there_are(
    on, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(genes, "PAPER_PREDICTIONS", {"g2": ("g1", "g1", "")})
    study = on(regulated(), methods=("ICP-screen",), replicates=1)
    results = pd.DataFrame(
        [("g2", fold, "g1") for fold in range(5)], columns=["target", "fold", "genes"]
    )
    results = results.assign(panel=0, replicate=0, method="ICP-screen", setting="α=0.01")
    said = genes._agreement_in_words(study, results)
    assert said[0] == "ICP-screen on the paper's targets: 1 genes in the paper, 1 here, 1 in both."
    assert "1 of the 1 genes" in said[1]


def test_sources_with_wild_types_take_no_other_environment_one(tmp_path: Path) -> None:
    """Nothing that was asked for is ignored."""
    with pytest.raises(SettingError, match="a simulated network has wild types"):
        make_study("genes", simulated=60, observational="non-responsive")
    (tmp_path / "panels_nodes.npz").touch()
    with pytest.raises(SettingError, match=r"panels_nodes\.npz has wild types"):
        make_study("genes", data=str(tmp_path), observational="non-responsive")


def test_the_papers_table_is_whole() -> None:
    entries = [
        genes.published(t, c)
        for t in genes_methods.PAPER_PREDICTIONS
        for c in genes_methods.PAPER_COLUMNS
    ]
    verdicts = [verdict for entry in entries for _, verdict in entry]
    assert (len(entries), entries.count([])) == (30, 5)
    assert [verdicts.count(verdict) for verdict in (VALIDATED, NO_EFFECT, UNCHECKED)] == [23, 1, 10]
    assert genes.published("YLR170C", "Meinshausen et al. 2016") == [("YJL115W", NO_EFFECT)]


def test_seconds_over_targets_and_seeds_in_one_fold(on, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(genes_cost, "_warm_up", lambda *arguments: None)
    # A clock that doubles whenever it is read: the screen takes 2 s (from 2 to 4), what is timed
    # after it 2^k s.
    clock = SimpleNamespace(perf_counter=iter(2.0 ** np.arange(100)).__next__)
    monkeypatch.setattr("replication.genes_methods.time", clock)
    study = on(
        regulated(n_genes=14),
        name="genes-cost",
        replicates=3,
        methods=("ICP-screen", "EILLS-screen", "Lasso"),
    )
    assert [(cell["panel"], cell["fold"]) for cell in study.cells()] == [(0, 0)] * 10
    rows = study.replicate(study.cells()[0], 0)
    own = np.log2([row["seconds"] - 2.0 for row in rows if row["method"] == "EILLS-screen"])
    assert len(own) == 5
    assert (np.diff(own) > 0).all()  # each γ has its own seconds,
    assert (
        own % 1 == 0
    ).all()  # from one reading of the clock to the next, and those of the screen
    assert len({row["seconds"] for row in rows if row["method"] == "ICP-screen"}) == 1
    lines = [
        dict(cell.values)
        | row
        | {"replicate": number, "seconds": cell["target"].count("1") + number + 1.0}
        for cell in study.cells()[:2]
        for number in range(3)
        for row in rows
    ]
    table = study.table(pd.DataFrame(lines)).set_index("method")
    assert table.index.tolist() == [
        "ICP-screen",
        *(f"EILLS-screen γ={g:g}" for g in (1, 25, 50, 75, 100)),
        "Lasso",
    ]
    seconds = pd.Series([line["seconds"] for line in lines if line["method"] == "Lasso"])
    assert (table["runs"] == 6).all()
    assert table.loc["Lasso", ["seconds", "error", "paper"]].tolist() == pytest.approx(
        [seconds.mean(), seconds.std() / np.sqrt(6), 8.7]
    )
    assert table.loc["ICP-screen", ["paper", "paper_error"]].tolist() == [11.0, 1.2]
    assert table["log10_sets"].iloc[0] == pytest.approx(np.log10(1024))
    with pytest.raises(SettingError, match="BIP-ratio"):
        make_study("genes-cost", simulated=100, methods=("BIP-ratio",))


def test_the_number_of_candidate_sets_is_the_published_one(training: Training) -> None:
    published = replace(
        training.data,
        X=np.zeros((600, 6169)),
        y=np.zeros(600),
        environment_index=np.repeat([0, 1], 300),
        feature_names=tuple(f"g{j}" for j in range(6169)),
    )
    sets = {name: genes_cost.candidate_sets(name, published) for name in genes_cost.METHODS}
    assert round(np.log10(float(sets.pop("BIP-VI") // 10**300)) + 300) == 382
    assert sets == {
        "Marginal": 6169,
        "Lasso": 0,
        **dict.fromkeys(("BIP-screen", "ICP-screen", "Hidden-ICP-screen", "EILLS-screen"), 1024),
    }


def test_means_of_held_out_scores(on) -> None:
    study = on(without_g5(10), methods=("BIP-VI",))
    results = made_up({(seed, fold): "" for seed in range(2) for fold in range(5)}, "g1=0.5 g5=0.2")
    own = (results["replicate"] == 1) & (results["fold"] == study.split(0, 1).fold_of("g1"))
    results.loc[own, "ranking"] = "g1=1 g5=0.2"
    assert genes.held_out_means(study, results) == pytest.approx({"g1": 0.75, "g5": 0.2})
    (table,) = genes.profile_tables(study, results)
    assert table.title == "Leading genes of g2 by BIP-VI"
    assert table.frame["inclusion probability"].tolist() == pytest.approx([0.75, 0.2])
    assert table.frame["its deletion"].tolist() == [VALIDATED, UNCHECKED]


def test_simulated_samples_have_the_published_proportions() -> None:
    study = make_study("genes", simulated=100, seed=3)
    assert isinstance(study, Genes)
    (samples,) = study.samples
    assert (samples.wild_type.sum(), (~samples.wild_type).sum(), len(samples.genes)) == (
        262,
        24,
        100,
    )
    assert study.source == {"simulated": 100}
    assert len(study.cells()) == 50
    assert len(make_study("genes", "paper", simulated=100, seed=3).cells()) == 500


def test_another_file_at_the_same_path_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = (regulated(0),)
    expected = genes_methods.fingerprint(samples)
    assert expected == genes_methods.fingerprint((regulated(0),))
    monkeypatch.setattr(genes_methods, "samples_of", lambda *source: (regulated(1),))
    with pytest.raises(EngineError, match="the file 'x' differ"):
        genes_methods.same_samples("x", None, 0, expected)
    monkeypatch.setattr(genes_methods, "samples_of", lambda *source: samples)
    assert genes_methods.same_samples("x", None, 0, expected) is samples
    renamed = replace(samples[0], genes=tuple(reversed(samples[0].genes)))
    assert genes_methods.fingerprint((renamed,)) != expected


# (replicate, predicted, checkable, correct, candidates, effects)
FITS = ((0, 3, 3, 0, 6, 4), (0, 2, 2, 0, 5, 1), (0, 4, 4, 0, 6, 2))


def test_the_law_of_chance_is_that_of_all_choices() -> None:
    """By listing every choice of every fit."""
    law = chance_law(rows_of(*FITS))
    totals = np.zeros(1, dtype=int)
    for _, drawn, _, _, candidates, effects in FITS:
        right = [
            sum(gene < effects for gene in chosen)
            for chosen in combinations(range(candidates), drawn)
        ]
        totals = np.add.outer(totals, right).ravel()
    expected = np.bincount(totals) / len(totals)
    np.testing.assert_allclose(law[: len(expected)], expected, atol=1e-12)
    assert law[len(expected) :].sum() == pytest.approx(0.0, abs=1e-12)
    assert genes.upper_tail(law, 4) == pytest.approx(expected[4:].sum())
    assert genes.upper_tail(law, 0) == 1.0
    assert chance_law(rows_of((0, 0, 0, 0, 5, 2))).tolist() == [1.0]


def test_the_range_of_chance_is_the_central_one() -> None:
    law = chance_law(rows_of(*FITS * 10))
    low, high = genes.central_range(law)
    assert law[low : high + 1].sum() >= 0.95
    assert law[:low].sum() < 0.025 <= law[: low + 1].sum()
    assert law[high + 1 :].sum() <= 0.025 < law[high:].sum()


def test_seeds_are_not_counted_as_independent() -> None:
    assert genes.combined([0.01, 0.03]) == pytest.approx(0.04)
    assert genes.combined([0.9, 0.8]) == 1.0
    assert genes.combined([0.02]) == 0.02
    assert genes.combined([np.nan, 0.02]) == 0.02
    assert np.isnan(genes.combined([np.nan]))
    one = rows_of(*FITS * 5, (0, 0, 0, 25, 0, 0))
    twice = pd.concat([one, one.assign(replicate=1)])
    assert summary(twice)["p_value"] == pytest.approx(2 * summary(one)["p_value"])
    assert summary(one)["p_value"] == pytest.approx(genes.upper_tail(chance_law(one), 25))
    assert (
        summary(twice)["chance_high"]
        == summary(one)["chance_high"]
        == genes.central_range(chance_law(one))[1] / 45
    )


def test_methods_are_adjusted_for_settings_and_for_each_other() -> None:
    table = pd.DataFrame(
        {"method": list("aaabcd"), "p_value": [0.5, 0.004, np.nan, 0.02, 0.001, np.nan]}
    )
    # c: 4 · .001; a: 3 settings · .004 · 3; b: 2 · .02, and not below that of a; d has predicted
    # nothing.
    assert genes.by_method(table) == pytest.approx({"c": 0.004, "a": 0.036, "b": 0.04, "d": 1.0})
    swapped = table.assign(p_value=[0.5, 0.005, 0.9, 0.0151, 0.001, 1.0])
    assert genes.by_method(swapped)["b"] == genes.by_method(swapped)["a"] == pytest.approx(0.045)


def results_of(lasso: tuple[int, int], marginal: tuple[int, int], note: str) -> pd.DataFrame:
    """So many of nine predictions are right in the first and in each other fold of two seeds."""
    about = {
        "panel": 0,
        "target": "g2",
        "note": note,
        "warned": "",
        "genes": "",
        "ranking": "",
        "seconds": 1.0,
    }
    about |= {"predicted": 9, "effects": 4}
    about |= {
        f"{name}_{count}": n
        for name, n in (("checkable", 9), ("candidates", 20))
        for count in COUNTS
    }
    rows = [
        (name, setting, seed, fold, correct[fold > 0])
        for name, setting, correct in (
            ("Lasso", "5 folds", lasso),
            ("Marginal", "p<0.05", marginal),
        )
        for seed, fold in product(range(2), range(5))
    ]
    return pd.DataFrame(rows, columns=["method", "setting", "replicate", "fold", "correct"]).assign(
        **about
    )


@pytest.mark.parametrize(
    ("lasso", "marginal", "above"),
    [((2, 2), (2, 2), []), ((2, 3), (2, 2), []), ((2, 2), (4, 4), ["Marginal"])],
)
def test_methods_above_chance_are_named(on, lasso: Any, marginal: Any, above: list[str]) -> None:
    """A small p-value of one of several methods is not enough; without one above chance it is a
    null result."""
    study = on(regulated(), methods=("Lasso", "Marginal"))
    results = results_of(lasso, marginal, "failed: at once")
    table = study.table_of(results, "published").set_index("method")
    assert (
        table["method_p_value"]["Marginal"]
        == pytest.approx(min(2 * table["p_value"]["Marginal"], 1.0))
        or not above
    )
    assert [name for name in table.index if table["method_p_value"][name] < 0.05] == above
    assert (table["p_value"]["Lasso"] < 0.05) == (lasso == (2, 3))
    said = " ".join(study.reading(results))
    assert ("A null result" in said) == (not above)
    assert [
        name for name in table.index if f"{name} is right more often than chance" in said
    ] == above
    assert "Lasso gave no result in 10 of 10 fits, first: at once" in said
    if above:
        assert "precision 0.444 where random predictions have 0.200, recall 1.000." in said
    shown = genes.precision_table(study, results)
    assert shown["p"].tolist() == [f"{p:.2g}" for p in table["p_value"]]


MANY = 36


def all_of(training: Training) -> Predicted:
    """Predicts every gene, with scores that fall slowly from 0.95 in the order of the columns."""
    score = np.linspace(0.95, 0.6, training.data.n_features)
    return Predicted(score[None] >= np.array(THRESHOLDS)[:, None], score)


def all_rows(study: Genes) -> tuple[str, pd.DataFrame]:
    """The profiled target, and the rows of all its folds."""
    _, target = study.profiled[0]
    cells = [Cell((("panel", 0), ("target", target), ("fold", fold))) for fold in range(5)]
    numbers = range(study.replicates)
    lines = [
        dict(c.values) | {"replicate": n} | row
        for n in numbers
        for c in cells
        for row in study.replicate(c, n)
    ]
    return target, pd.DataFrame(lines)


def test_no_predicted_gene_is_lost_and_a_profile_has_the_mean_of_every_score(
    on, monkeypatch
) -> None:
    monkeypatch.setitem(GENE_METHODS, "BIP-VI", replace(GENE_METHODS["BIP-VI"], predict=all_of))
    study = on(regulated(n_genes=MANY), methods=("BIP-VI",))
    target, results = all_rows(study)
    others = [gene for gene in study.samples[0].genes if gene != target]
    assert set(genes.agreed(study, results, "BIP-VI", "t=0.5")[0, target]) == set(others)
    first = results[results["setting"] == "t=0.5"]
    assert (first["genes"].str.split().map(len) == first["predicted"]).all()
    expected = dict(zip(others, np.linspace(0.95, 0.6, MANY - 1), strict=True))
    assert genes.held_out_means(study, first) == pytest.approx(expected, rel=1e-3)
    assert [gene for gene, _, _ in genes.profile_of(study, results).leading] == others[:10]
    assert (results.loc[results["setting"] != "t=0.5", "ranking"] == "").all()


def test_warnings_of_a_fit_are_kept_and_said(on, monkeypatch: pytest.MonkeyPatch) -> None:
    def doubtful(training: Training) -> Predicted:
        warnings.warn("poor", ApproximationWarning, stacklevel=1)
        warnings.warn("poor again", ApproximationWarning, stacklevel=1)
        warnings.warn("not ours", DeprecationWarning, stacklevel=1)
        return all_of(training)

    monkeypatch.setitem(GENE_METHODS, "BIP-VI", replace(GENE_METHODS["BIP-VI"], predict=doubtful))
    study = on(regulated(), methods=("BIP-VI", "Marginal"))
    _, results = all_rows(study)
    assert set(results.loc[results["method"] == "BIP-VI", "warned"]) == {"ApproximationWarning"}
    assert set(results.loc[results["method"] == "Marginal", "warned"]) == {""}
    results.loc[results["fold"] > 0, "warned"] = ""
    said = [
        line for line in study.reading(results) if line.startswith("Share of fits with a warning")
    ]
    assert len(said) == 1
    assert said[0].endswith(": BIP-VI 0.20.")


def test_the_reward_and_the_priors_limit(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(Training, "bip", lambda self, *settings: asked.append(settings) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        GENE_METHODS["BIP λ=0.1"].answer(training)
    limit = int(training.data.counts.min()) * 200 // 262
    assert asked == [
        ("tempering", BetaBinomialPrior(max_size=limit), LinearGaussian(prediction=0.1))
    ]
    many = replace(training.data, X=np.zeros((600, 1)), environment_index=np.repeat([0, 1], 300))
    assert genes_methods.published_max_size(many) == 200


def test_ten_genes_pass_the_screen(training: Training) -> None:
    training = replace(training)
    training.__dict__["lasso"] = Timed(
        LassoFit(np.arange(13.0) + 1.0, 0.0), 0.0, ("ApproximationWarning",)
    )
    assert "ApproximationWarning" in GENE_METHODS["ICP-screen"].answer(training).warned
    screened = training.behind_screen(ICP(progress=False))
    assert screened.screened_features_ == training.data.feature_names[3:]
    assert len(screened.screened_features_) == 10
