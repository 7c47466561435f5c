"""The gene study: what its rows keep, and what the report makes of it."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from gene_samples import regulated

from invariance import BIP, BetaBinomialPrior, LinearGaussian
from invariance.baselines import ICP
from invariance.exceptions import ApproximationWarning
from invariance.screening import LassoFit
from replication.genes import agreed, held_out_means, profile_of
from replication.genes_methods import (
    GENE_METHODS,
    THRESHOLDS,
    Predicted,
    Split,
    Timed,
    Training,
    published_max_size,
    training_data,
)
from replication.runs import Cell

MANY = 36


def all_of(training: Training) -> Predicted:
    """Predicts every gene, with scores that fall slowly from 0.95 in the order of the columns."""
    score = np.linspace(0.95, 0.6, training.data.n_features)
    return Predicted(score[None] >= np.array(THRESHOLDS)[:, None], score)


@pytest.fixture
def predicting_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(GENE_METHODS, "BIP-VI", replace(GENE_METHODS["BIP-VI"], predict=all_of))


def rows_of(study, target: str) -> pd.DataFrame:
    lines = []
    for seed in range(study.replicates):
        for fold in range(5):
            about = {"panel": 0, "target": target, "fold": fold}
            lines += [{**about, "replicate": seed, **row} for row in study.replicate(Cell(tuple(about.items())), seed)]
    return pd.DataFrame(lines)


def test_no_predicted_gene_is_lost(on, predicting_all) -> None:
    study = on(regulated(n_genes=MANY), methods=("BIP-VI",))
    _, target = study.profiled[0]
    results = rows_of(study, target)
    others = set(study.samples[0].genes) - {target}
    assert set(agreed(study, results, "BIP-VI", "t=0.5")[0, target]) == others
    listed = results[results["setting"] == "t=0.5"]
    assert (listed["genes"].str.split().map(len) == listed["predicted"]).all()


def test_a_profile_has_the_mean_of_every_score(on, predicting_all) -> None:
    study = on(regulated(n_genes=MANY), methods=("BIP-VI",))
    _, target = study.profiled[0]
    results = rows_of(study, target)
    others = [gene for gene in study.samples[0].genes if gene != target]
    first = results[results["setting"] == "t=0.5"]
    expected = dict(zip(others, np.linspace(0.95, 0.6, MANY - 1), strict=True))
    assert held_out_means(study, first) == pytest.approx(expected, rel=1e-3)
    profile = profile_of(study, results)
    assert profile is not None
    assert [gene for gene, _, _ in profile.leading] == others[:10]
    assert (results.loc[results["setting"] != "t=0.5", "ranking"] == "").all()


def test_scores_are_kept_of_the_targets_that_can_be_profiled(on, predicting_all) -> None:
    study = on(regulated(n_genes=12), methods=("BIP-VI",))
    assert len(study.profiled) == 10
    assert study.profiled == on(regulated(n_genes=12), methods=("BIP-VI",), targets=2).profiled
    left = next(gene for gene in study.samples[0].genes if (0, gene) not in study.profiled)
    (_, kept), *_ = study.profiled
    for target, shown in ((kept, True), (left, False)):
        row = study.replicate(Cell((("panel", 0), ("target", target), ("fold", 0))), 0)[0]
        assert bool(row["ranking"]) == shown


# ---------------------------------------------------------------- warnings


def test_warnings_of_a_fit_are_kept_and_said(on, monkeypatch: pytest.MonkeyPatch) -> None:
    def doubtful(training: Training) -> Predicted:
        warnings.warn("poor", ApproximationWarning, stacklevel=1)
        warnings.warn("poor again", ApproximationWarning, stacklevel=1)
        warnings.warn("not ours", DeprecationWarning, stacklevel=1)
        return all_of(training)

    monkeypatch.setitem(GENE_METHODS, "BIP-VI", replace(GENE_METHODS["BIP-VI"], predict=doubtful))
    study = on(regulated(n_genes=12), methods=("BIP-VI", "Marginal"))
    _, target = study.profiled[0]
    results = rows_of(study, target)
    assert set(results.loc[results["method"] == "BIP-VI", "warned"]) == {"ApproximationWarning"}
    assert set(results.loc[results["method"] == "Marginal", "warned"]) == {""}
    results.loc[results["fold"] > 0, "warned"] = ""
    said = [line for line in study.reading(results) if line.startswith("Share of fits with a warning")]
    assert len(said) == 1
    assert "far from the posterior" in said[0]
    assert said[0].endswith(": BIP-VI 0.20.")
    earlier = results.drop(columns="warned")
    assert not any("warning" in line for line in study.reading(earlier))


def test_a_shared_fit_warns_for_all_who_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(_fitted(), 3, 10)
    model = training.bip("exact", training.favouring_few)

    def disagreeing(self: Training, *settings: object) -> BIP:
        warnings.warn("replicas", ApproximationWarning, stacklevel=1)
        return model

    monkeypatch.setattr(Training, "bip", disagreeing)
    for name in ("BIP-predictive", "BIP-ratio"):
        assert "ApproximationWarning" in GENE_METHODS[name].answer(training).warned
    assert "ApproximationWarning" not in GENE_METHODS["Lasso"].answer(training).warned


# ---------------------------------------------------------------- settings


def _fitted():
    samples = regulated(n_genes=14, wild_types=80)
    split = Split.of(samples, 5, np.random.default_rng(0))
    return training_data(samples, "g2", split.training("g2", 0))


def test_the_reward_is_a_tenth() -> None:
    training = Training(_fitted(), 3, 10)
    found = GENE_METHODS["BIP λ=0.1"].answer(training).value
    prior = BetaBinomialPrior(max_size=min(20, published_max_size(training.data)))
    model = BIP(LinearGaussian(prediction=0.1), prior, "tempering", "mode", random_state=3, progress=False)
    np.testing.assert_array_equal(found.score, model.fit(training.data).inclusion_probabilities_)


def test_ten_genes_pass_the_screen() -> None:
    training = Training(_fitted(), 3, 10)
    training.__dict__["lasso"] = Timed(LassoFit(np.arange(13.0) + 1.0, 0.0), 0.0)
    screened = training.behind_screen(ICP(progress=False))
    assert screened.screened_features_ == training.data.feature_names[3:]
    assert len(screened.screened_features_) == 10
