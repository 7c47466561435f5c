"""What non-responsive strains change as environment one, on genes of the yeast file whose wild
types are at hand.

python benchmarks/gene_environments.py --panels FOLDER --deletions FOLDER

The panels have 76 wild types each, of 50 genes; deletions.npz has the strains, for the same genes.
Compared are quantiles, verdicts of deletions and predictions of the same targets: wild types
against non-responsive strains as environment one, with responsive strains as environment two and
the same blocks held out.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from _harness import header
from replication.genes_methods import GENE_METHODS, VALIDATED, Split, Training, training_data
from replication.knockouts import Deletions
from replication.yeast import load_yeast, load_yeast_panels

METHODS = {
    "BIP-screen": "t=0.5",
    "ICP-screen": "α=0.01",
    "Hidden-ICP-screen": "α=0.01",
    "EILLS-screen": "γ=25",
    "Lasso": "5 folds",
}
KINDS = ("wild types", "non-responsive", "as few")
BLOCKS = 5


@dataclass(frozen=True, eq=False)
class Kinds:
    """The genes of a panel with each kind of environment one: its wild types, all non-responsive
    strains, and so few of these that a fit sees as many as wild types. Environment two is the
    responsive strains, the same ones held out."""

    splits: tuple[Split, ...]

    @classmethod
    def of(cls, panel: Deletions, strains: Deletions, seed: int) -> Kinds:
        columns = [strains.place[gene] for gene in panel.genes]
        rng = np.random.default_rng(seed)
        quiet = strains.observational
        wild = panel.wild_type
        stand_in = Deletions(
            strains.values[:, columns], panel.genes, strains.samples, strains.deleted, quiet
        )
        whole = Split.of(stand_in, BLOCKS, rng)
        n_few = round(wild.sum() * BLOCKS / (BLOCKS - 1))
        few = np.sort(
            [*np.flatnonzero(~quiet), *rng.choice(np.flatnonzero(quiet), n_few, replace=False)]
        )
        fewer = _rows(stand_in, few)
        responsive = _rows(stand_in, np.flatnonzero(~quiet))
        published = Deletions(
            np.vstack([panel.values[wild], responsive.values]),
            panel.genes,
            (*np.array(panel.samples)[wild], *responsive.samples),
            (*[None] * int(wild.sum()), *responsive.deleted),
        )
        of_wild_types = np.concatenate([np.full(wild.sum(), -1), whole.block[~quiet]])
        return cls((Split(published, of_wild_types), whole, Split(fewer, whole.block[few])))

    def verdicts(self) -> pd.DataFrame:
        """One row for each responsive strain of a gene of the panel and each other gene, one column
        for each kind"""
        first = self.splits[0]
        genes = first.deletions.genes
        lines = [
            [split.effects.verdict(gene, target) for split in self.splits]
            for gene in first.effects.deleted
            if gene in genes
            for target in genes
            if target != gene
        ]
        return pd.DataFrame(lines, columns=list(KINDS))

    def widths(self) -> pd.DataFrame:
        """(genes, kinds) width between the quantiles over that of wild types, median over folds"""
        each = [
            np.median(
                [np.subtract(*split.effects.bands[fold][::-1]) for fold in range(BLOCKS)], axis=0
            )
            for split in self.splits
        ]
        return pd.DataFrame(
            {kind: width / each[0] for kind, width in zip(KINDS, each, strict=True)}
        )

    def predictions(self, target: str, seed: int) -> pd.DataFrame:
        """Of each fold, method and kind: genes predicted, in common with wild types, checked and
        validated, by the quantiles of that kind"""
        lines = []
        for fold in range(BLOCKS):
            found: dict[str, set[str]] = {}
            for kind, split in zip(KINDS, self.splits, strict=True):
                data = training_data(split.deletions, target, split.training(target, fold))
                training = Training(data, seed, 0)
                for name, setting in METHODS.items():
                    method = GENE_METHODS[name]
                    chosen = method.answer(training).value.selected[method.settings.index(setting)]
                    genes = {
                        gene for gene, flag in zip(data.feature_names, chosen, strict=True) if flag
                    }
                    held_out = [gene for gene in genes if self.splits[0].fold_of(gene) == fold]
                    told = [split.effects.verdict(gene, target) for gene in held_out]
                    found.setdefault(name, genes)  # of wild types, the first kind
                    line = {"method": name, "environment one": kind, "predicted": len(genes)}
                    line |= {"as with wild types": len(genes & found[name]), "checked": len(told)}
                    lines.append(line | {"validated": told.count(VALIDATED)})
        return pd.DataFrame(lines)


def _rows(samples: Deletions, rows: np.ndarray) -> Deletions:
    deleted = tuple(samples.deleted[row] for row in rows)
    names = tuple(samples.samples[row] for row in rows)
    quiet = None if samples.non_responsive is None else samples.non_responsive[rows]
    return Deletions(samples.values[rows], samples.genes, names, deleted, quiet)


def one_panel(
    panel: Deletions, strains: Deletions, targets: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    kinds = Kinds.of(panel, strains, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [kinds.predictions(target, seed) for target in panel.genes[:targets]]
    return kinds.verdicts(), kinds.widths(), pd.concat(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--panels", required=True, help="folder of panels_nodes.npz")
    parser.add_argument("--deletions", required=True, help="folder of deletions.npz")
    parser.add_argument("--targets", type=int, default=1, help="targets of each panel")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    header("Environment one of the yeast study: wild types or non-responsive strains")
    strains = load_yeast(given.deletions)
    panels = load_yeast_panels(given.panels)
    work = (delayed(one_panel)(panel, strains, given.targets, given.seed) for panel in panels)
    verdicts, widths, predictions = map(pd.concat, zip(*Parallel(given.jobs)(work), strict=True))
    genes = {gene for panel in panels for gene in panel.genes}
    print(
        f"{len(genes)} genes in {len(panels)} panels; targets of each: {given.targets}; {BLOCKS} "
        "folds, one seed"
    )
    print("\nwidth from the 1% to the 99% quantile, over that of wild types: quartiles over genes")
    print(widths.quantile([0.25, 0.5, 0.75]).round(2).to_string())
    moved = verdicts == VALIDATED
    print(
        f"\n{len(verdicts):,} pairs of a responsive strain and a gene of its panel: share with an "
        "effect, and with the"
    )
    print(
        "same verdict as by wild types; of effects by wild types, the share that is one by this "
        "kind, too"
    )
    for kind in KINDS:
        same = (moved[kind] == moved[KINDS[0]]).mean()
        kept = moved.loc[moved[KINDS[0]], kind].mean()
        print(f"  {kind:16} {moved[kind].mean():.3f} {same:.3f} {kept:.3f}")
    print()
    print(predictions.groupby(["method", "environment one"], sort=False).sum().to_string())
