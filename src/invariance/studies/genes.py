"""The yeast study: which genes, when deleted, move a target, and which of them the methods predict."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from .._tools.arrays import Floats
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import SettingError
from ..simulation.knockouts import Deletions
from .base import Cell, Picture, Row, Study, Table, seed_sequence
from .genes_agreement import LISTED
from .genes_chance import by_method
from .genes_methods import GENE_METHODS, Training
from .genes_metrics import counts_of, summary
from .genes_profile import RANKED
from .genes_protocol import PAPER_TARGETS, Effects, Split, training_data
from .genes_source import fingerprint, same_samples, samples_of

FOLDS = 5
_EXCERPT = 20


@dataclass(frozen=True, kw_only=True)
class Genes(Study):
    """Precision and recall of predicted genes over held-out deletions; a replicate is another split into blocks.

    data : path of the published file, or of panels out of it; simulated : genes of a simulated network instead
    fingerprint : of the samples; targets : how many, spread over the panels (None: every gene)
    methods : names out of invariance.studies.genes_methods.GENE_METHODS
    iterations : of BIP-VI
    """

    choice: ClassVar[frozenset[str]] = Study.choice | {"data", "targets"}

    data: str | None
    simulated: int | None
    fingerprint: str
    targets: int | None
    methods: tuple[str, ...] = tuple(GENE_METHODS)
    iterations: int = 10_000

    @property
    def name(self) -> str:
        return "genes"

    @property
    def title(self) -> str:
        return "Gene deletions: predicted genes against held-out deletions"

    @property
    def source(self) -> dict[str, Any]:
        return {"data": self.data} if self.simulated is None else {"simulated": self.simulated}

    @property
    def samples(self) -> tuple[Deletions, ...]:
        return same_samples(self.data, self.simulated, self.seed, self.fingerprint)

    def cells(self) -> tuple[Cell, ...]:
        return tuple(
            Cell((("panel", panel), ("target", target), ("fold", fold)))
            for panel, target in _targets(self.samples, self.seed)[: self.targets]
            for fold in range(FOLDS)
        )

    def split(self, panel: int, number: int) -> Split:
        """The blocks of one replicate, the same for every target."""
        rng = np.random.default_rng(seed_sequence(self.name, self.seed, number, panel, "blocks"))
        return Split.of(self.samples[panel], FOLDS, rng)

    @property
    def profiled(self) -> tuple[tuple[int, str], ...]:
        """(panel, gene) of the targets whose scores are kept, those of the quick scale"""
        return _targets(self.samples, self.seed)[: _quick_targets(self.samples)]

    def fitted(self, cell: Cell, number: int) -> MultiEnvironmentData:
        """What the methods are given."""
        target, split = cell["target"], self.split(cell["panel"], number)
        return training_data(split.deletions, target, split.training(target, cell["fold"]))

    def effects(self, panel: int) -> Effects:
        return _effects(self.samples)[panel]

    def replicate(self, cell: Cell, number: int) -> list[Row]:
        """One row for each method and setting: counts of predictions, seconds of the fit (all settings together where
        one fit serves them), what it warned of, `genes`, the predicted ones, all where the report lists them and the
        first otherwise, and in the row of the first setting `ranking`, the scores where the report may show a profile.
        """
        target, fold, panel = cell["target"], cell["fold"], cell["panel"]
        data = self.fitted(cell, number)
        checks = self.effects(panel).checks(target, data.feature_names, self.split(panel, number).held_out(fold))
        training = Training(data, self.seed_of(cell, number), self.iterations)
        names = np.array(data.feature_names, dtype=object)
        rows = []
        for name in self.methods:
            method = GENE_METHODS[name]
            found, seconds, warned = method.answer(training)
            order = np.arange(len(names)) if found.score is None else np.argsort(-found.score, kind="stable")
            shown = name in RANKED and (panel, target) in self.profiled
            ranking = _ranking(names[order], found.score[order]) if shown and found.score is not None else ""
            about = {"method": name, "seconds": seconds, "note": found.note, "warned": " ".join(warned)}
            for i, (setting, selected) in enumerate(zip(method.settings, found.selected, strict=True)):
                listed = names[order][selected[order]][: None if LISTED.get(name) == setting else _EXCERPT]
                genes = {"genes": " ".join(listed), "ranking": "" if i else ranking}
                rows.append({**about, "setting": setting, **counts_of(selected, *checks), **genes})
        return rows

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        """One line for each method and setting: counts per seed, precision and recall with standard errors over seeds,
        the precision of random predictions with the range of one seed, the p-value of the setting against them, and
        that of the method.
        """
        lines = []
        for name in self.methods:
            chosen = results[results["method"] == name]
            for setting in GENE_METHODS[name].settings:
                line = summary(chosen[chosen["setting"] == setting])
                lines.append({"method": name, "setting": setting, **line})
        table = pd.DataFrame(lines)
        return table.assign(method_p_value=table["method"].map(by_method(table)))

    def tables(self, results: pd.DataFrame) -> list[Table]:
        from .genes_tables import tables_of

        return tables_of(self, results)

    def pictures(self, results: pd.DataFrame) -> list[Picture]:
        from .genes_figures import pictures_of

        return pictures_of(self, results)

    def reading(self, results: pd.DataFrame) -> list[str]:
        from .genes_words import reading_of

        return reading_of(self, results)


def _ranking(names: np.ndarray, scores: Floats) -> str:
    return " ".join(f"{name}={score:.4g}" for name, score in zip(names, scores, strict=True))


def _quick_targets(samples: tuple[Deletions, ...]) -> int:
    return 10 if len(samples) == 1 else len(samples)


@lru_cache(maxsize=1)
def _effects(samples: tuple[Deletions, ...]) -> tuple[Effects, ...]:
    return tuple(Effects.of(one) for one in samples)


@lru_cache(maxsize=1)
def _targets(samples: tuple[Deletions, ...], seed: int) -> tuple[tuple[int, str], ...]:
    """(panel, gene) for every gene that varies among wild types: the paper's targets first, then in random order, one
    of each panel after the other, so that any number of them is spread over the panels.
    """
    ranked = []
    for panel, one in enumerate(samples):
        rng = np.random.default_rng(seed_sequence("genes", seed, panel, "targets"))
        varies = np.ptp(one.values[one.wild_type], axis=0) > 0.0
        drawn = [one.genes[j] for j in rng.permutation(len(one.genes)) if varies[j]]
        first = [gene for gene in PAPER_TARGETS if gene in drawn]
        ordered = first + [gene for gene in drawn if gene not in first]
        ranked += [(rank, panel, gene) for rank, gene in enumerate(ordered)]
    return tuple((panel, gene) for _, panel, gene in sorted(ranked, key=lambda entry: entry[:2]))


def at_scale(
    name: str, scale: str, data: str | None = None, simulated: int | None = None, seed: int = 0, **changes: Any
) -> Genes:
    samples = samples_of(data, simulated, seed)
    paper = scale == "paper"
    settings: dict[str, Any] = {
        "scale": scale,
        "replicates": 3 if paper else 2,
        "targets": None if paper else _quick_targets(samples),
    }
    settings |= {"data": data, "simulated": simulated, "seed": seed, "fingerprint": fingerprint(samples)}
    settings |= changes
    for method in settings.get("methods", ()):
        if method not in GENE_METHODS:
            raise SettingError(f"no method is named {method!r}: use some of {', '.join(GENE_METHODS)}.")
    return Genes(**settings)
