"""The causes in the paper's table of yeast genes, each by one fit that has not seen its deletion,
on a processor.

python benchmarks/gene_causes.py --data FOLDER --out rows.jsonl
python benchmarks/gene_causes.py --data FOLDER --out rows.jsonl --methods BIP-predictive "BIP λ=0.1"
    BIP-ratio

`python -m replication genes --targets paper` fits five folds of each target. Here each of the ten
targets has one fold, which holds out the deletion of the gene in the paper's first column. What is
finished in the file is not done again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

from _harness import header
from replication import make_study
from replication.genes import LISTED, MARKS, Genes, published
from replication.genes_methods import GENE_METHODS, PAPER_COLUMNS, PAPER_PREDICTIONS
from replication.runs import Cell


def fitted(study: Genes, target: str, seed: int) -> dict[str, object]:
    """Rows of one target: those of `Genes.replicate`, by the fold that holds out its cause"""
    ((cause, _),) = published(target, PAPER_COLUMNS[0])
    fold = study.split(0, seed).fold_of(cause)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = study.replicate(Cell((("panel", 0), ("target", target), ("fold", fold))), seed)
    seconds = time.perf_counter() - started
    return {
        "target": target,
        "cause": cause,
        "fold": fold,
        "seed": seed,
        "seconds": seconds,
        "rows": rows,
    }


def shown(study: Genes, entry: dict, method: str) -> str:
    """Genes that are predicted at the setting of the table, with a mark if this fit has held out
    their deletion"""
    setting = LISTED.get(method, GENE_METHODS[method].settings[0])
    (row,) = [row for row in entry["rows"] if (row["method"], row["setting"]) == (method, setting)]
    split = study.split(0, entry["seed"])
    names = []
    for gene in row["genes"].split():
        fold = split.fold_of(gene)
        seen = fold is not None and fold != entry["fold"]
        names.append(
            f"({gene})"
            if seen
            else MARKS[split.effects.verdict(gene, entry["target"])].format(gene)
        )
    return ", ".join(names) or "∅"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="folder of deletions.npz")
    parser.add_argument("--out", type=Path, required=True, help="file of finished targets")
    parser.add_argument("--methods", nargs="+", default=["BIP-VI"])
    parser.add_argument("--iterations", type=int, default=10_000, help="of BIP-VI")
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    header("Causes in the paper's table of yeast genes, by fits that have not seen their deletion")
    asked = {"data": given.data, "targets": "paper", "methods": tuple(given.methods)}
    study = make_study("genes", replicates=given.seeds, iterations=given.iterations, **asked)
    assert isinstance(study, Genes)
    lines = given.out.read_text(encoding="utf-8").splitlines() if given.out.exists() else []
    known = [json.loads(line) for line in lines]
    of_these = [
        entry for entry in known if {row["method"] for row in entry["rows"]} >= set(given.methods)
    ]
    done = {(entry["target"], entry["seed"]): entry for entry in of_these}
    print("(gene): its deletion was seen by the fit, so that it is not checked")
    for seed in range(given.seeds):
        for target in PAPER_PREDICTIONS:
            entry = done.get((target, seed))
            if entry is None:
                entry = fitted(study, target, seed)
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")
            for method in given.methods:
                listed = shown(study, entry, method)
                print(
                    f"{target} seed {seed}, cause {entry['cause']}, {method}: {listed} "
                    f"({entry['seconds']:.0f} s)",
                    flush=True,
                )
