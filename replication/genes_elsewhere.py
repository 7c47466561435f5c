"""Edges of the gene study on interventions that no fit has seen: held-out deletions, and other
laboratories'.

An edge is a pair (regulator, target). Edges of a method are ranked by its score, the mean over its
fits, and the leading ones are compared with as many targets drawn at random for the same
regulators: a method that only finds regulators with many targets has a ratio of 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from invariance._tools.arrays import Floats, Mask
from invariance.exceptions import DataError

from .genes_methods import UNCHECKED, VALIDATED
from .knockouts import Deletions

if TYPE_CHECKING:
    from .genes import Genes

INDUCTION = "induction.npz"
KNOCKOUTS = "knockouts_hu.npz"
# A knock-out of Hu et al. has an effect below this p-value.
LARGEST_P_VALUE = 0.05
LEADING = (50, 100, 500)
COLUMNS = [
    "checked on",
    "method",
    "top",
    "edges",
    "regulators",
    "precision",
    "chance",
    "ratio",
    "low",
    "high",
]
COLUMNS += ["signs", "signs_agree"]
RESAMPLES = 1000
_QUANTILES = (0.025, 0.975)


# {(seed, fold, regulator): whether the fit held out the regulator's deletion}
HeldOut = Mapping[tuple[int, int, str], bool]


@dataclass(frozen=True, eq=False)
class Interventions:
    """What interventions on regulators did to genes.

    effect : (R, d) change of each gene; known : (R, d) measured; moved : (R, d) an effect was
        called
    sign : 1 if the intervention raises the regulator, -1 if it removes it
    """

    name: str
    regulators: tuple[str, ...]
    genes: tuple[str, ...]
    effect: Floats
    known: Mask
    moved: Mask
    sign: int


def load_induction(folder: Path) -> Interventions:
    """Induction of transcription factors (Hackett et al. 2020): an effect is a change that was
    called, and several experiments of one factor are averaged."""
    effect, induced, genes = _arrays(
        folder / INDUCTION, ("log2_shrunken_10_to_45_min", "induced", "genes")
    )
    regulators = tuple(dict.fromkeys(induced.tolist()))
    known = np.zeros((len(regulators), len(genes)), dtype=bool)
    moved = known.copy()
    mean = np.zeros(known.shape)
    for i, name in enumerate(regulators):
        of_factor = effect[induced == name].astype(float)
        measured = ~np.isnan(of_factor)
        known[i] = measured.any(axis=0)
        mean[i] = np.where(measured, of_factor, 0.0).sum(axis=0) / np.maximum(
            measured.sum(axis=0), 1
        )
        moved[i] = known[i] & (mean[i] != 0.0)
    return Interventions(
        "induction (Hackett et al. 2020)", regulators, tuple(genes.tolist()), mean, known, moved, 1
    )


def load_knockouts(folder: Path) -> Interventions:
    """Knock-outs of another laboratory (Hu et al. 2007, as reanalysed by Reimand et al. 2010)."""
    arrays = _arrays(folder / KNOCKOUTS, ("effect", "p_value", "deleted", "genes"))
    effect, p_value, deleted, genes = arrays
    known = ~np.isnan(effect) & ~np.isnan(p_value)
    regulators = tuple(deleted.tolist())
    if len(set(regulators)) < len(regulators):
        raise DataError(f"{KNOCKOUTS} has a regulator twice: average its rows.")
    moved = known & (p_value < LARGEST_P_VALUE)
    effects = np.where(known, effect, 0.0).astype(float)
    name = "knock-outs (Hu et al. 2007)"
    return Interventions(name, regulators, tuple(genes.tolist()), effects, known, moved, -1)


def _arrays(file: Path, names: Sequence[str]) -> list[NDArray]:
    try:
        with np.load(file, allow_pickle=False) as archive:
            return [archive[name] for name in names]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{file.name} cannot be read: {error}. Is the file whole?") from error


def laboratories_beside(data: str | None) -> tuple[Interventions, ...]:
    """Those whose files lie in the folder of the deletions"""
    if data is None:
        return ()
    place = Path(data).expanduser()
    folder = place if place.is_dir() else place.parent
    files = {INDUCTION: load_induction, KNOCKOUTS: load_knockouts}
    return tuple(load(folder) for file, load in files.items() if (folder / file).exists())


def ranked_edges(
    results: pd.DataFrame, method: str, held_out: Mapping[tuple[int, int, str], bool] | None = None
) -> pd.DataFrame:
    """(regulator, target, score): the mean of a method's scores over its fits, 0 where a fit has
    none.

    held_out : given, only fits count that held out the regulator's deletion
    """
    rows = results[results["method"] == method].drop_duplicates(
        ["panel", "target", "fold", "replicate"]
    )
    fits = rows.groupby("target").size()
    total: dict[tuple[str, str], float] = {}
    counted: dict[tuple[str, str], int] = {}
    for row in rows.to_dict("records"):
        for entry in row["ranking"].split():
            regulator, _, score = entry.rpartition("=")
            if held_out is None or held_out.get((row["replicate"], row["fold"], regulator), False):
                edge = regulator, row["target"]
                total[edge] = total.get(edge, 0.0) + float(score)
                counted[edge] = counted.get(edge, 0) + 1
    lines = [
        (*edge, value / (fits[edge[1]] if held_out is None else counted[edge]))
        for edge, value in total.items()
    ]
    return pd.DataFrame(lines, columns=["regulator", "target", "score"])


def association(deletions: Deletions, edges: pd.DataFrame) -> NDArray[np.int_]:
    """Sign of the correlation of regulator and target in all samples that lack neither."""
    signs = []
    for regulator, target in zip(edges["regulator"], edges["target"], strict=True):
        kept = np.full(len(deletions.samples), True)
        kept[deletions.deleting(regulator)] = False
        kept[deletions.deleting(target)] = False
        pair = deletions.values[kept][:, [deletions.place[regulator], deletions.place[target]]]
        signs.append(int(np.sign(np.corrcoef(pair, rowvar=False)[0, 1])))
    return np.array(signs, dtype=int)


def checked(edges: pd.DataFrame, what: Interventions, targets: Sequence[str]) -> pd.DataFrame:
    """The edges whose regulator and target were measured, strongest first, with whether the target
    moved, its effect, and the share of the regulator's other targets that moved; ties are in the
    order of the names."""
    row = {name: i for i, name in enumerate(what.regulators)}
    column = {name: j for j, name in enumerate(what.genes)}
    places = np.array([column[name] for name in targets if name in column])
    lines = []
    for regulator, target, score in zip(
        edges["regulator"], edges["target"], edges["score"], strict=True
    ):
        i = row.get(regulator)
        j = column.get(target)
        if score <= 0.0 or i is None or j is None or not what.known[i, j]:
            continue
        others = places[(places != column.get(regulator, -1)) & what.known[i, places]]
        chance = float(what.moved[i, others].mean())
        lines.append(
            (regulator, target, score, bool(what.moved[i, j]), float(what.effect[i, j]), chance)
        )
    found = pd.DataFrame(
        lines, columns=["regulator", "target", "score", "moved", "effect", "chance"]
    )
    return found.sort_values(
        ["score", "regulator", "target"], ascending=[False, True, True], ignore_index=True
    )


def over_chance(leading: pd.DataFrame, seed: int = 0) -> dict[str, float]:
    """Precision, what targets drawn at random for the same regulators have, and their ratio with a
    95% interval by resampling regulators."""
    by_regulator = leading.groupby("regulator")[["moved", "chance"]].sum().to_numpy(dtype=float)
    n = len(by_regulator)
    weights = np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=RESAMPLES)
    hits, expected = (weights @ by_regulator).T
    # Without a target that moved there is nothing to compare with.
    possible = expected > 0.0
    low, high = (
        np.quantile(hits[possible] / expected[possible], _QUANTILES)
        if possible.any()
        else (np.nan, np.nan)
    )
    chance = leading["chance"].sum()
    ratio = leading["moved"].sum() / chance if chance else np.nan
    return {
        "edges": len(leading),
        "regulators": n,
        "precision": float(leading["moved"].mean()),
        "chance": float(leading["chance"].mean()),
        "ratio": float(ratio),
        "low": float(low),
        "high": float(high),
    }


def held_out_deletions(study: Genes, panel: int, number: int) -> Interventions:
    """The deletions of the study themselves, by the bands of one seed."""
    effects = study.split(panel, number).effects
    deletions = study.samples[panel]
    targets = [gene for _, gene in study.studied]
    verdicts = np.array(
        [
            [effects.verdict(gene, target, study.count) for target in targets]
            for gene in effects.deleted
        ]
    )
    change = np.array(
        [deletions.values[deletions.deleting(gene)].mean(axis=0) for gene in effects.deleted]
    )
    place = [deletions.place[target] for target in targets]
    name = "held-out deletions"
    moved = verdicts == VALIDATED
    return Interventions(
        name, effects.deleted, tuple(targets), change[:, place], verdicts != UNCHECKED, moved, -1
    )


def elsewhere(study: Genes, results: pd.DataFrame) -> pd.DataFrame:
    """One line for each source of interventions, method and number of leading edges: precision over
    chance, and the share of the targets that moved as the association says."""
    targets = [gene for _, gene in study.studied]
    deletions = study.samples[0]
    held_out = {
        (number, fold, gene): study.split(0, number).fold_of(gene) == fold
        for number in range(study.replicates)
        for fold in range(study.folds)
        for gene in set(deletions.deleted)
        if gene is not None
    }
    sources: list[tuple[Interventions, HeldOut | None]] = [
        (held_out_deletions(study, 0, 0), held_out)
    ]
    sources += [(one, None) for one in laboratories_beside(study.data)]
    lines = []
    for what, only in sources:
        for method in study.methods:
            found = checked(ranked_edges(results, method, only), what, targets)
            for k in LEADING:
                leading = found[:k]
                # With fewer edges than the step before there is nothing new to say.
                if len(leading) == 0 or (
                    k > LEADING[0] and len(found) <= LEADING[LEADING.index(k) - 1]
                ):
                    continue
                line = {"checked on": what.name, "method": method, "top": k, **over_chance(leading)}
                hits = leading[leading["moved"]]
                expected = what.sign * association(deletions, hits)
                agree = np.sign(hits["effect"].to_numpy()) == expected
                lines.append(
                    line
                    | {
                        "signs": len(hits),
                        "signs_agree": float(agree.mean()) if len(hits) else np.nan,
                    }
                )
    return pd.DataFrame(lines, columns=COLUMNS)


def in_columns(table: pd.DataFrame) -> pd.DataFrame:
    """The same for reading"""
    lines = table.to_dict("records")
    ratio = [f"{line['ratio']:.2f} ({line['low']:.2f} to {line['high']:.2f})" for line in lines]
    signs = [
        "" if not line["signs"] else f"{line['signs_agree']:.2f} of {line['signs']}"
        for line in lines
    ]
    return pd.DataFrame(
        {
            "checked on": table["checked on"],
            "method": table["method"],
            "leading edges": table["edges"],
            "regulators": table["regulators"],
            "precision": table["precision"].round(3),
            "at random": table["chance"].round(3),
            "over chance (95%)": ratio,
            "signs agree": signs,
        }
    )


def in_words(table: pd.DataFrame) -> list[str]:
    """What the leading edges of each source come to"""
    said = []
    for source in dict.fromkeys(table["checked on"].tolist()):
        lines = table[table["checked on"] == source]
        above = lines[lines["low"] > 1.0]
        best = above.sort_values("top", kind="stable").drop_duplicates("method")
        if best.empty:
            said.append(
                f"Checked on {source}: a null result, no method's edges are shown to be above "
                "chance."
            )
            continue
        listed = "; ".join(
            f"{line.method} {line.ratio:.2f} ({line.low:.2f} to {line.high:.2f}, {line.edges} "
            "edges)"
            for line in best.itertuples()
        )
        silent = [name for name in lines["method"].unique() if name not in set(best["method"])]
        rest = f" Not shown to be above it: {', '.join(silent)}." if silent else ""
        counted = f"{len(above)} of {len(lines)} intervals are above 1"
        said.append(
            f"Checked on {source}, precision of leading edges over chance ({counted}): "
            f"{listed}.{rest}"
        )
    return said
