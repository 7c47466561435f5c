"""What non-responsive strains change as environment one, on genes of the yeast file whose wild types are at hand.

python benchmarks/gene_environments.py --panels FOLDER --deletions FOLDER

The panels have 76 wild types each, of 50 genes; deletions.npz has the strains, for the same genes. Compared are
quantiles, verdicts of deletions and predictions of the same targets: wild types against non-responsive strains as
environment one, with responsive strains as environment two and the same blocks held out.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from _harness import header
from replication.genes_methods import GENE_METHODS, NO_EFFECT, VALIDATED, Split, Training, training_data
from replication.knockouts import Deletions
from replication.yeast import load_yeast, load_yeast_panels

METHODS = {
    "BIP-screen": "t=0.5",
    "ICP-screen": "α=0.01",
    "Hidden-ICP-screen": "α=0.01",
    "EILLS-screen": "γ=25",
    "Lasso": "5 folds",
}
KINDS = ("wild types", "non-responsive")
BLOCKS = 5


@dataclass(frozen=True, eq=False)
class Pair:
    """The strains of the genes of a panel, with each kind of environment one; the same genes are in the same block."""

    splits: tuple[Split, Split]

    @classmethod
    def of(cls, panel: Deletions, strains: Deletions, seed: int) -> Pair:
        columns = [strains.place[gene] for gene in panel.genes]
        wild = panel.wild_type
        quiet = strains.observational
        values = strains.values[:, columns]
        deleted = np.array(strains.deleted, dtype=object)
        names = np.array(strains.samples, dtype=object)
        stand_in = Deletions(values, panel.genes, strains.samples, strains.deleted, quiet)
        rows = np.vstack([panel.values[wild], values[~quiet]])
        samples = (*np.array(panel.samples)[wild], *names[~quiet])
        published = Deletions(rows, panel.genes, samples, (*[None] * int(wild.sum()), *deleted[~quiet]))
        split = Split.of(stand_in, BLOCKS, np.random.default_rng(seed))
        of_wild_types = np.full(int(wild.sum()), -1)
        return cls((Split(published, np.concatenate([of_wild_types, split.block[~quiet]])), split))

    def pairs(self) -> pd.DataFrame:
        """Verdicts on each deletion of a responsive strain and each gene of the panel, by each kind"""
        first, second = self.splits
        lines = []
        for gene in first.effects.deleted:
            for target in first.deletions.genes:
                if gene != target:
                    lines.append([split.effects.verdict(gene, target) for split in (first, second)])
        return pd.DataFrame(lines, columns=list(KINDS))

    def widths(self) -> np.ndarray:
        """(genes,) width of the band of non-responsive strains over that of wild types, median over folds"""
        each = []
        for fold in range(BLOCKS):
            low, high = zip(*(split.effects.bands[fold] for split in self.splits), strict=True)
            each.append((high[1] - low[1]) / (high[0] - low[0]))
        return np.median(each, axis=0)

    def predictions(self, target: str, seed: int) -> pd.DataFrame:
        """Of each method and fold: genes that are predicted, and of those held out the verdicts of both kinds"""
        lines = []
        for fold in range(BLOCKS):
            found = []
            for split in self.splits:
                data = training_data(split.deletions, target, split.training(target, fold))
                training, of_methods = Training(data, seed, 0), {}
                for name, setting in METHODS.items():
                    method = GENE_METHODS[name]
                    chosen = method.answer(training).value.selected[method.settings.index(setting)]
                    of_methods[name] = {gene for gene, flag in zip(data.feature_names, chosen, strict=True) if flag}
                found.append(of_methods)
            for name in METHODS:
                line = {"method": name, "both": len(found[0][name] & found[1][name])}
                for kind, split, of_methods in zip(KINDS, self.splits, found, strict=True):
                    told = [
                        split.effects.verdict(gene, target) for gene in of_methods[name] if self._held_out(gene, fold)
                    ]
                    line[kind] = len(of_methods[name])
                    line[f"{kind}: checked"] = sum(verdict in (VALIDATED, NO_EFFECT) for verdict in told)
                    line[f"{kind}: validated"] = told.count(VALIDATED)
                lines.append(line)
        return pd.DataFrame(lines)

    def _held_out(self, gene: str, fold: int) -> bool:
        """Whether the fit of a fold has not seen the deletion, which is of a responsive strain"""
        return self.splits[0].fold_of(gene) == fold


def one_panel(
    panel: Deletions, strains: Deletions, targets: int, seed: int
) -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame]:
    pair = Pair.of(panel, strains, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [pair.predictions(target, seed) for target in panel.genes[:targets]]
    return pair.pairs(), pair.widths(), pd.concat(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--panels", required=True, help="folder of panels_nodes.npz")
    parser.add_argument("--deletions", required=True, help="folder of deletions.npz")
    parser.add_argument("--targets", type=int, default=2, help="targets of each panel")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    header("Environment one of the yeast study: wild types or non-responsive strains")
    strains, panels = load_yeast(given.deletions), load_yeast_panels(given.panels)
    work = (delayed(one_panel)(panel, strains, given.targets, given.seed) for panel in panels)
    verdicts, widths, predictions = zip(*Parallel(given.jobs)(work), strict=True)
    genes = {gene for panel in panels for gene in panel.genes}
    width = np.concatenate(widths)
    print(f"{len(genes)} genes in {len(panels)} panels; {given.targets} targets of each, {BLOCKS} folds, one seed")
    quartiles = np.quantile(width, [0.25, 0.5, 0.75])
    print("width of 1%-99%, non-responsive over wild types, quartiles:", " ".join(f"{q:.2f}" for q in quartiles))
    table = pd.concat(verdicts)
    moved = table == VALIDATED
    print(f"pairs: {len(table):,}; an effect by " + ", ".join(f"{kind} {moved[kind].mean():.3f}" for kind in KINDS))
    both = (moved[KINDS[0]] & moved[KINDS[1]]).mean()
    agree = (table[KINDS[0]] == table[KINDS[1]]).mean()
    print(f"by both {both:.3f}; the same verdict {agree:.3f}")
    total = pd.concat(predictions).groupby("method", sort=False).sum()
    print(total.to_string())
