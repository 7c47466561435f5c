"""What the numbers of the gene study say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from ..exceptions import ApproximationWarning, NotInvariantWarning
from .genes_agreement import LISTED, agreed, validated
from .genes_chance import LEVEL
from .genes_methods import (
    EMPTY_MODE,
    FAILED,
    INCOMPATIBLE,
    PUBLISHED_LIMIT,
    PUBLISHED_SAMPLES,
    REJECTED,
    published_max_size,
)

if TYPE_CHECKING:
    from .genes import Genes

_NOTES = {
    EMPTY_MODE: "In {share} of the fits the empty subset is the mode of the paper's posterior with a beta-binomial "
    "prior: its members cannot be read off the mode. BIP-ratio therefore ranks genes by their odds in that "
    "posterior over those in the prior.",
    INCOMPATIBLE: "In {share} of the fits no subset is compatible with invariance: BIP-predictive predicts nothing.",
    REJECTED: "In {share} of the fits ICP accepts no subset at any level, and predicts nothing.",
}
# What the kinds of warnings say of the fits of a method.
_WARNED = {
    ApproximationWarning.__name__: "the approximation is far from the posterior, by its own checks (Pareto k̂ above "
    "0.7, probability that it misses or cannot score)",
    ApproximationWarning.__name__: "the replicas of the sampler disagree",
    NotInvariantWarning.__name__: "the selected genes do not predict alike in all environments",
}


def reading_of(study: Genes, results: pd.DataFrame) -> list[str]:
    return [
        *_setting_in_words(study, results),
        *_findings_in_words(study, results),
        *_agreement_in_words(study, results),
        *_notes_in_words(study, results),
        *_warnings_in_words(study, results),
    ]


def _setting_in_words(study: Genes, results: pd.DataFrame) -> list[str]:
    once = results[(results["method"] == study.methods[0]) & (results["setting"] == results["setting"].iloc[0])]
    one = study.samples[0]
    wild = int(one.wild_type.sum())
    panels = "" if len(study.samples) == 1 else f" in each of {len(study.samples)} panels"
    n_targets = len(once[["panel", "target"]].drop_duplicates())
    candidates, effects = once["candidates"].sum(), once["effects"].sum()
    said = [
        f"{wild:,} wild types, {len(one.samples) - wild:,} deletions and {len(one.genes):,} genes{panels}; "
        f"targets: {n_targets:,}; seeds: {study.replicates}; five blocks of deletions, each held out once.",
        f"Of the held-out deletions that can be checked, {effects / max(candidates, 1):.3f} move the target "
        f"({effects:,} of {candidates:,}). This is the precision of predicting all of them; random predictions have "
        "it only if as many are drawn in every fit, and the table has what they have with the numbers of each method.",
    ]
    limit = published_max_size(study.fitted(study.cells()[0], 0))
    if "BIP-VI" in study.methods and limit < PUBLISHED_LIMIT:
        said.append(
            f"BIP-VI's subsets have at most about {limit} genes, {PUBLISHED_LIMIT}/{PUBLISHED_SAMPLES} of the samples "
            f"in the smaller environment of a fit, as the published limit of {PUBLISHED_LIMIT} is."
        )
    return said


def _findings_in_words(study: Genes, results: pd.DataFrame) -> list[str]:
    table = study.table(results)
    said = []
    checked = table[table["precision"].notna()].sort_values(["method_p_value", "p_value"], kind="stable")
    best = checked.drop_duplicates("method")
    for line in best[best["method_p_value"] < LEVEL].to_dict("records"):
        said.append(
            f"{line['method']} is right more often than chance, p = {line['method_p_value']:.2g} after adjusting for "
            f"its settings and the other methods; most clearly with {line['setting']}: precision "
            f"{line['precision']:.3f} where random predictions have {line['chance']:.3f}, recall {line['recall']:.3f}."
        )
    if len(checked) and not said:
        first = best.iloc[0]
        said.append(
            "A null result: no method is shown to find genes whose deletion moves the target. The smallest p-value "
            "against random predictions, adjusted for settings and methods, is "
            f"{first['method_p_value']:.2g}, of {first['method']} ({first['p_value']:.2g} before, with "
            f"{first['setting']})."
        )
    silent = table[table["precision"].isna()]
    if len(silent):
        by_method = silent.groupby("method", sort=False)["setting"]
        listed = "; ".join(f"{name} {', '.join(settings)}" for name, settings in by_method)
        said.append(f"No prediction that can be checked: {listed}. Their precision is not defined.")
    return said


def _agreement_in_words(study: Genes, results: pd.DataFrame) -> list[str]:
    if not {"BIP-VI", "ICP-screen"} <= set(study.methods):
        return []
    right = {name: validated(study, agreed(study, results, name, LISTED[name])) for name in ("BIP-VI", "ICP-screen")}
    both = right["BIP-VI"] & right["ICP-screen"]
    return [
        f"Correct with every seed: BIP-VI ({LISTED['BIP-VI']}) {len(right['BIP-VI'])}, ICP-screen "
        f"({LISTED['ICP-screen']}) {len(right['ICP-screen'])}, both {len(both)}. The paper has 371, 67 and 27 on the "
        "full file."
    ]


def _notes_in_words(study: Genes, results: pd.DataFrame) -> list[str]:
    fits = _fits(results)
    said = []
    for note, sentence in _NOTES.items():
        asked = fits[fits["method"].isin(fits.loc[fits["note"] == note, "method"])]
        if len(asked):
            said.append(sentence.format(share=f"{(asked['note'] == note).mean():.2f}"))
    failed = fits[fits["note"].str.startswith(FAILED)]
    for name, count in failed.groupby("method").size().items():
        example = failed.loc[failed["method"] == name, "note"].iloc[0].removeprefix(f"{FAILED}: ")
        said.append(f"{name} gave no result in {count} of {(fits['method'] == name).sum()} fits, first: {example}")
    return said


def _warnings_in_words(study: Genes, results: pd.DataFrame) -> list[str]:
    # Rows of an earlier version do not tell.
    fits = _fits(results).reindex(columns=["method", "warned"]).dropna()
    said = []
    for kind, meaning in _WARNED.items():
        warned = fits["warned"].map(lambda kinds, kind=kind: kind in kinds.split())
        shares = warned.groupby(fits["method"]).mean()
        listed = [f"{name} {shares[name]:.2f}" for name in study.methods if shares.get(name, 0.0) > 0.0]
        if listed:
            said.append(f"Share of fits with a warning that {meaning}: {', '.join(listed)}.")
    return said


def _fits(results: pd.DataFrame) -> pd.DataFrame:
    """The first setting of each fit of a method"""
    return results.drop_duplicates(["panel", "target", "fold", "replicate", "method"])
