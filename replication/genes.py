"""The yeast study: which genes, when deleted, move a target, and which of them the methods
predict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from invariance._tools.arrays import Floats, Mask
from invariance._tools.parallel import seed_number
from invariance._tools.plotting import BLUE, VERMILION
from invariance.data.checks import listing
from invariance.data.multi_environment import MultiEnvironmentData
from invariance.estimators.bip import BIP
from invariance.exceptions import (
    ApproximationWarning,
    DataError,
    EngineError,
    NotInvariantWarning,
    SettingError,
)
from invariance.inference.variational import Variational
from invariance.priors import UniformPrior

from . import COUNTS
from .genes_elsewhere import elsewhere, in_columns, in_words, laboratories_beside
from .genes_methods import (
    EMPTY_MODE,
    FAILED,
    GENE_METHODS,
    INCOMPATIBLE,
    NO_EFFECT,
    PAPER_COLUMNS,
    PAPER_PREDICTIONS,
    PUBLISHED_LIMIT,
    PUBLISHED_SAMPLES,
    REJECTED,
    UNCHECKED,
    VALIDATED,
    Split,
    Swept,
    Training,
    fingerprint,
    published_limit,
    published_max_size,
    same_samples,
    samples_of,
    training_data,
)
from .knockouts import Deletions
from .runs import (
    Cell,
    Picture,
    Row,
    Study,
    Table,
    check_methods,
    panels,
    seed_sequence,
    shared_legend,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Target = tuple[int, str]  # panel, gene

# The settings whose predictions the paper lists, and ours.
LISTED = {
    "ICP-screen": "α=0.01",
    "BIP-VI": "t=0.5",
    "BIP-screen": "t=0.5",
    "Hidden-ICP-screen": "α=0.01",
    "EILLS-screen": "γ=25",
    "BIP λ=0.1": "t=0.5",
    "BIP-predictive": "best compatible",
    "BIP-ratio": "ratio=10",
    "ICP-screen, raw": "α=0.01",
    "BIP-screen, raw": "t=0.5",
}


def agreed(
    study: Genes, results: pd.DataFrame, method: str, setting: str
) -> dict[Target, list[str]]:
    """Genes that a method predicts for each target with every seed, where the deletion of the gene
    is held out; in all folds, where it was not deleted.
    """
    chosen = results[(results["method"] == method) & (results["setting"] == setting)]
    votes: dict[Target, dict[str, float]] = {}
    splits = {
        (panel, number): study.split(panel, number)
        for panel in chosen["panel"].unique()
        for number in range(study.replicates)
    }
    n_folds = chosen["fold"].nunique()
    for row in chosen.to_dict("records"):
        split = splits[row["panel"], row["replicate"]]
        of_target = votes.setdefault((row["panel"], row["target"]), {})
        for gene in row["genes"].split():
            fold = split.fold_of(gene)
            weight = 1 / n_folds if fold is None else float(fold == row["fold"])
            of_target[gene] = of_target.get(gene, 0.0) + weight
    return {
        target: [gene for gene, vote in of_target.items() if vote > study.replicates - 1e-9]
        for target, of_target in votes.items()
    }


def validated(study: Genes, found: dict[Target, list[str]]) -> set[tuple[int, str, str]]:
    """(panel, target, gene) of the predictions that a deletion confirms."""
    return {
        (panel, target, gene)
        for (panel, target), genes in found.items()
        for gene in genes
        if study.verdict(panel, gene, target) == VALIDATED
    }


def listed_by(study: Genes, results: pd.DataFrame) -> dict[str, dict[Target, list[str]]]:
    """{method: what it predicts with every seed} for the methods whose predictions are listed."""
    return {
        name: agreed(study, results, name, setting)
        for name, setting in LISTED.items()
        if name in study.methods
    }


def correct_by_target(study: Genes, results: pd.DataFrame) -> Counter[Target]:
    """How many predictions of the listed methods a deletion confirms."""
    found = listed_by(study, results).values()
    return Counter(
        (panel, target) for genes in found for panel, target, _ in validated(study, genes)
    )


LEVEL = 0.05
_SHOWN = 0.95


def chance_law(rows: pd.DataFrame) -> Floats:
    """P(k right predictions), k = 0, 1, …, where every fit of one seed draws as many genes as it
    predicts, among those that can be checked, without replacement: a sum of independent
    hypergeometric numbers.
    """
    from scipy.signal import convolve

    fits = rows.loc[rows["checkable"] > 0, ["candidates", "effects", "checkable"]]
    laws = [_of_one_fit(*fit) for fit in fits.itertuples(index=False, name=None)] or [np.ones(1)]
    while len(laws) > 1:
        # Neighbours are added in pairs, which keeps both of about the same length.
        odd = laws[-1:] if len(laws) % 2 else []
        laws = [convolve(*pair) for pair in zip(laws[::2], laws[1::2], strict=False)] + odd
    return np.maximum(laws[0], 0.0)


@lru_cache(maxsize=4096)
def _of_one_fit(candidates: int, effects: int, drawn: int) -> Floats:
    from scipy.stats import hypergeom

    return hypergeom.pmf(np.arange(min(effects, drawn) + 1), candidates, effects, drawn)


def upper_tail(law: Floats, correct: int) -> float:
    """P(at least so many)"""
    return float(min(law[correct:].sum(), 1.0))


def central_range(law: Floats) -> tuple[int, int]:
    """The numbers between which chance lies with 95% or more, and beyond each of which with 2.5% or
    less."""
    tail = (1.0 - _SHOWN) / 2.0
    low, high = np.searchsorted(np.cumsum(law), (tail, 1.0 - tail))
    return int(low), min(int(high), len(law) - 1)


def combined(p_values: Iterable[float]) -> float:
    """One p-value for several seeds, which share their deletions: twice the mean is one under any
    dependence (Vovk and Wang 2020). NaN without any.
    """
    known = np.array([value for value in p_values if not np.isnan(value)])
    if len(known) < 2:
        return float(known[0]) if len(known) else float("nan")
    return float(min(2.0 * known.mean(), 1.0))


def by_method(table: pd.DataFrame) -> dict[str, float]:
    """{method: its p-value, adjusted for its settings by Bonferroni and for the other methods by
    Holm}; one without predictions that can be checked has 1.
    """
    settings = table.assign(p_value=table["p_value"].fillna(1.0)).groupby("method", sort=False)[
        "p_value"
    ]
    p_values = (settings.min() * settings.size()).sort_values(kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.minimum(np.maximum.accumulate(p_values.to_numpy() * factors), 1.0)
    return dict(zip(p_values.index, adjusted.tolist(), strict=True))


# The numbers of one fit, which add up over targets and folds.
NUMBERS = ("predicted", "checkable", "correct", "candidates", "effects")


def numbers_of(selected: Mask, verdicts: dict[str, NDArray[np.str_]]) -> Row:
    """Of p genes: how many are predicted, are right, have an effect; by each count, how many of the
    predicted, and of all, can be checked.
    """
    effects = verdicts[COUNTS[0]] == VALIDATED
    masks = {"predicted": selected, "correct": selected & effects, "effects": effects}
    for count, found in verdicts.items():
        known = found != UNCHECKED
        masks |= {f"checkable_{count}": selected & known, f"candidates_{count}": known}
    return {name: int(mask.sum()) for name, mask in masks.items()}


def counted(rows: pd.DataFrame, count: str) -> pd.DataFrame:
    """The rows with the numbers of one count as `checkable` and `candidates`."""
    return rows.assign(checkable=rows[f"checkable_{count}"], candidates=rows[f"candidates_{count}"])


def by_seed(rows: pd.DataFrame) -> pd.DataFrame:
    """One line for each seed: the counts over all fits, precision, recall (NaN for 0 of 0), and
    what random predictions have: the mean of their precision, its central 95%, and how probable it
    is that they are right as often.
    """
    lines = []
    for seed, chosen in rows.groupby("replicate"):
        total = {name: int(chosen[name].sum()) for name in NUMBERS}
        law = chance_law(chosen)
        low, high = central_range(law)
        checked = {
            "precision": total["correct"],
            "chance": float(law @ np.arange(len(law))),
            "chance_low": low,
            "chance_high": high,
        }
        shares = {name: _share(number, total["checkable"]) for name, number in checked.items()}
        shares["recall"] = _share(total["correct"], total["effects"])
        p_value = upper_tail(law, total["correct"]) if total["checkable"] else float("nan")
        lines.append({"seed": seed, **total, **shares, "p_value": p_value})
    return pd.DataFrame(lines)


def summary(rows: pd.DataFrame) -> Row:
    """Means over seeds with standard errors, NaN where there is no number: no prediction, no
    effect, a single seed.

    chance, chance_low, chance_high : what random predictions have in one seed; p_value : of all
        seeds together
    """
    seeds = by_seed(rows)
    return {
        "seeds": len(seeds),
        "seeds_with_predictions": int((seeds["checkable"] > 0).sum()),
        **{name: float(seeds[name].mean()) for name in NUMBERS},
        "precision": _mean(seeds["precision"]),
        "precision_error": _error(seeds["precision"]),
        "recall": _mean(seeds["recall"]),
        "recall_error": _error(seeds["recall"]),
        **{name: _mean(seeds[name]) for name in ("chance", "chance_low", "chance_high")},
        "p_value": combined(seeds["p_value"]),
    }


def undefined(line: Mapping[Any, Any]) -> str:
    """Why there is no precision."""
    return "none can be checked" if line["predicted"] else "none predicted"


def _share(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


def _mean(values: Iterable[float]) -> float:
    known = _known(values)
    return float(known.mean()) if len(known) else float("nan")


def _error(values: Iterable[float]) -> float:
    known = _known(values)
    return float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else float("nan")


def _known(values: Iterable[float]) -> np.ndarray:
    numbers = np.array(list(values), dtype=float)
    return numbers[~np.isnan(numbers)]


PROFILED = "BIP-VI"
# Methods whose ranking is shown, and what they rank by.
RANKED = {PROFILED: "inclusion probability", "BIP-ratio": "odds over prior odds"}
_TOP = 10


@dataclass(frozen=True)
class Profile:
    """The highest scores of genes for one target: (gene, mean over seeds, verdict of its
    deletion)."""

    panel: int
    target: str
    leading: tuple[tuple[str, float, str], ...]

    def first(self, verdict: str) -> str | None:
        return next((gene for gene, _, found in self.leading if found == verdict), None)


def profile_of(study: Genes, results: pd.DataFrame, method: str = PROFILED) -> Profile | None:
    """Of the paper's target, or else of the one with the most validated predictions of those whose
    scores are kept; None without the method.
    """
    if method not in study.methods:
        return None
    panel, target = _chosen(study, results)
    rows = results[(results["panel"] == panel) & (results["target"] == target)]
    rows = rows[(rows["method"] == method) & (rows["setting"] == GENE_METHODS[method].settings[0])]
    means = held_out_means(study, rows)
    leading = sorted(means.items(), key=lambda pair: -pair[1])[:_TOP]
    return Profile(
        panel,
        target,
        tuple((gene, value, study.verdict(panel, gene, target)) for gene, value in leading),
    )


def held_out_means(study: Genes, rows: pd.DataFrame) -> dict[str, float]:
    """{gene: mean of its scores for one target} over the fits that held out its deletion, over all
    where it was not deleted; over those in which it varies.
    """
    scores: dict[str, list[float]] = {}
    for row in rows.to_dict("records"):
        split = study.split(row["panel"], row["replicate"])
        for entry in row["ranking"].split():
            gene, _, score = entry.rpartition("=")
            if split.fold_of(gene) in (None, row["fold"]):
                scores.setdefault(gene, []).append(float(score))
    return {gene: float(np.mean(values)) for gene, values in scores.items()}


def _chosen(study: Genes, results: pd.DataFrame) -> Target:
    studied = set(zip(results["panel"], results["target"], strict=True))
    targets = [target for target in study.profiled if target in studied]
    published = [
        (panel, target) for panel, target in targets if target == next(iter(PAPER_PREDICTIONS))
    ]
    if published:
        return published[0]
    hits = correct_by_target(study, results)
    return max(targets, key=lambda target: hits[target])


FOLDS = 5
SWEEPS = "sweeps"
DRAWN = "genes_targets.txt"
# Of the numbers of predictions among deletions that stand in for wild types
QUIET = "_non_responsive"
_EXCERPT = 30


@dataclass(frozen=True, kw_only=True)
class Genes(Study):
    """Precision and recall of predicted genes over held-out deletions; a replicate is another split
    into blocks.

    data : path of the published file, or of panels out of it; simulated : genes of a simulated
        network instead
    observational : samples of environment one, as `load_yeast` takes it
    fingerprint : of the samples; targets : as `targets_of` takes it (None: every gene)
    methods : names out of replication.genes_methods.GENE_METHODS; folds : how many of the five
        blocks are held out
    iterations : of BIP-VI; count : out of replication.COUNTS, for verdicts, pictures and sentences;
        the rows have both
    swept : folder of the sweeps on a device that have fitted BIP-VI
    """

    choice: ClassVar[frozenset[str]] = Study.choice | {"data", "targets", "count", "folds", "swept"}
    options: ClassVar[tuple[str, ...]] = ("replicates", "seed", "targets", "folds", "methods")

    data: str | None
    simulated: int | None
    observational: str | None = None
    fingerprint: str
    targets: int | str | None
    methods: tuple[str, ...] = tuple(GENE_METHODS)
    folds: int = FOLDS
    iterations: int = 10_000
    count: str = COUNTS[0]
    swept: str | None = None

    @property
    def name(self) -> str:
        return "genes"

    @property
    def title(self) -> str:
        return "Gene deletions: predicted genes against held-out deletions"

    @property
    def source(self) -> dict[str, Any]:
        data: dict[str, Any] = (
            {"data": self.data} if self.simulated is None else {"simulated": self.simulated}
        )
        if self.observational is not None:
            data["observational"] = self.observational
        return data if self.count == COUNTS[0] else {**data, "count": self.count}

    @property
    def samples(self) -> tuple[Deletions, ...]:
        return same_samples(
            self.data, self.simulated, self.seed, self.fingerprint, self.observational
        )

    @property
    def studied(self) -> tuple[Target, ...]:
        return targets_of(self.samples, self.seed, self.targets)

    def cells(self) -> tuple[Cell, ...]:
        return tuple(
            Cell((("panel", panel), ("target", target), ("fold", fold)))
            for panel, target in self.studied
            for fold in range(self.folds)
        )

    def prepared(self, folder: Path, device: str | None, jobs: int | None) -> Genes:
        """Fit BIP-VI to all targets of a fold at once on a device, if one is named; a sweep that
        was interrupted goes on, and one that is finished is used."""
        place = folder / SWEEPS
        if device is not None:
            sweep_folds(self, place, device, jobs)
        return replace(self, swept=str(place)) if place.exists() else self

    def split(self, panel: int, number: int) -> Split:
        """The blocks of one replicate, the same for every target."""
        return _split(self.samples[panel], self.seed, number, panel)

    @property
    def profiled(self) -> tuple[tuple[int, str], ...]:
        """(panel, gene) of the targets whose scores are kept, those of the quick scale"""
        return self.studied[: _quick_targets(self.samples)]

    def fitted(self, cell: Cell, number: int) -> MultiEnvironmentData:
        """What the methods are given."""
        target = cell["target"]
        split = self.split(cell["panel"], number)
        return training_data(split.deletions, target, split.training(target, cell["fold"]))

    def verdict(self, panel: int, gene: str, target: str) -> str:
        """Validated only if the fits of every seed that hold out the deletion say so: their bands
        may differ."""
        verdicts = {
            self.split(panel, number).effects.verdict(gene, target, self.count)
            for number in range(self.replicates)
        }
        return (
            VALIDATED
            if verdicts == {VALIDATED}
            else min(verdicts - {VALIDATED}, key=_CAUTION.index)
        )

    def replicate(self, cell: Cell, number: int) -> list[Row]:
        """One row for each method and setting: numbers of predictions, seconds of the fit (the same
        one where it serves all settings), what it warned of, `genes`, the predicted ones, all where
        the report lists them and the first otherwise, and in the row of the first setting
        `ranking`, the first scores, all where the report may show a profile.
        """
        target = cell["target"]
        fold = cell["fold"]
        panel = cell["panel"]
        data = self.fitted(cell, number)
        split = self.split(panel, number)
        verdicts = split.effects.checks(target, data.feature_names, fold)
        swept = (
            None
            if self.swept is None
            else swept_target(Path(self.swept), panel, number, fold, target)
        )
        training = Training(data, self.seed_of(cell, number), self.iterations, swept)
        names = np.array(data.feature_names, dtype=object)
        quiet = _quiet(split.deletions, data.feature_names)
        rows = []
        for name in self.methods:
            method = GENE_METHODS[name]
            found, seconds, warned = method.answer(training)
            order = (
                np.arange(len(names))
                if found.score is None
                else np.argsort(-found.score, kind="stable")
            )
            ranking = ""
            if found.score is not None:
                whole = name in RANKED and (panel, target) in self.profiled
                ranked = order if whole else order[:_EXCERPT][found.score[order[:_EXCERPT]] > 0.0]
                ranking = _ranking(names[ranked], found.score[ranked])
            about = {"method": name, "note": found.note, "warned": " ".join(warned)}
            took = found.seconds or (seconds,) * len(method.settings)
            for i, (setting, selected) in enumerate(
                zip(method.settings, found.selected, strict=True)
            ):
                all_of_them = LISTED.get(name) == setting or target in PAPER_PREDICTIONS
                listed = names[order][selected[order]][: None if all_of_them else _EXCERPT]
                genes = {"genes": " ".join(listed), "ranking": "" if i else ranking}
                numbers = numbers_of(selected, verdicts)
                if quiet is not None:
                    among = {
                        count: np.where(quiet, of_all, UNCHECKED)
                        for count, of_all in verdicts.items()
                    }
                    numbers |= {
                        f"{key}{QUIET}": n for key, n in numbers_of(selected & quiet, among).items()
                    }
                rows.append({**about, "setting": setting, "seconds": took[i], **numbers, **genes})
        return rows

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        """One line for each count, method and setting: numbers per seed, precision and recall with
        standard errors over seeds, the precision of random predictions with the range of one seed,
        the p-value of the setting against them, and that of the method.
        """
        return pd.concat([self.table_of(results, count) for count in COUNTS], ignore_index=True)

    def table_of(self, results: pd.DataFrame, count: str) -> pd.DataFrame:
        """The lines of one count."""
        lines = []
        for name in self.methods:
            chosen = counted(results[results["method"] == name], count)
            for setting in GENE_METHODS[name].settings:
                line = summary(chosen[chosen["setting"] == setting])
                lines.append({"count": count, "method": name, "setting": setting, **line})
        table = pd.DataFrame(lines)
        return table.assign(method_p_value=table["method"].map(by_method(table)))

    def tables(self, results: pd.DataFrame) -> list[Table]:
        return tables_of(self, results)

    def pictures(self, results: pd.DataFrame) -> list[Picture]:
        return pictures_of(self, results)

    def reading(self, results: pd.DataFrame) -> list[str]:
        return reading_of(self, results)


def _quiet(deletions: Deletions, genes: tuple[str, ...]) -> Mask | None:
    """(p,) whether a strain that lacks the gene stands in for wild types; None if none does"""
    if deletions.non_responsive is None:
        return None
    lacking = {
        gene for gene, flag in zip(deletions.deleted, deletions.non_responsive, strict=True) if flag
    }
    return np.array([gene in lacking for gene in genes])


def _ranking(names: np.ndarray, scores: Floats) -> str:
    return " ".join(f"{name}={score:.4g}" for name, score in zip(names, scores, strict=True))


def _quick_targets(samples: tuple[Deletions, ...]) -> int:
    return 10 if len(samples) == 1 else len(samples)


@lru_cache(maxsize=128)
def _split(deletions: Deletions, seed: int, number: int, panel: int) -> Split:
    """The blocks of one replicate, the same for every target, and kept with the effects that they
    define."""
    return Split.of(
        deletions,
        FOLDS,
        np.random.default_rng(seed_sequence("genes", seed, number, panel, "blocks")),
    )


def targets_of(
    samples: tuple[Deletions, ...], seed: int, chosen: int | str | None
) -> tuple[Target, ...]:
    """The paper's ten targets ("paper"), the drawn ones ("drawn", or "drawn:100" for the first
    hundred of them), or so many of all that vary among the observational samples, the paper's first
    (None: all)."""
    if not isinstance(chosen, str):
        return _targets(samples, seed)[:chosen]
    kind, _, number = chosen.partition(":")
    if kind not in ("paper", "drawn") or (number and not (kind == "drawn" and number.isdecimal())):
        raise SettingError(
            f"targets={chosen!r} is not known: use a number, 'paper', 'drawn' or 'drawn:100'."
        )
    genes = (
        tuple(PAPER_PREDICTIONS)
        if kind == "paper"
        else drawn_targets()[: int(number) if number else None]
    )
    targets = [
        (panel, gene) for gene in genes for panel, one in enumerate(samples) if gene in one.place
    ]
    if len({gene for _, gene in targets}) < len(genes):
        found = {gene for _, gene in targets}
        raise DataError(
            f"not measured: {listing(sorted(set(genes) - found))}: choose other targets."
        )
    return tuple(targets)


@lru_cache(maxsize=1)
def drawn_targets() -> tuple[str, ...]:
    """The committed list, one gene a line"""
    return tuple(Path(__file__).with_name(DRAWN).read_text(encoding="utf-8").split())


def draw_targets(
    deletions: Deletions, number: int = 500, seed: int = 2026, deviation: float = 0.2
) -> tuple[str, ...]:
    """Genes drawn uniformly from those whose standard deviation over all samples is above a bound;
    the committed list is that of the strains without wild types."""
    spread = deletions.values.std(axis=0)
    varying = [gene for gene, one in zip(deletions.genes, spread, strict=True) if one > deviation]
    return tuple(
        np.random.default_rng(seed).choice(sorted(varying), number, replace=False).tolist()
    )


@lru_cache(maxsize=1)
def _targets(samples: tuple[Deletions, ...], seed: int) -> tuple[Target, ...]:
    """(panel, gene) for every gene that varies among the observational samples: the paper's targets
    first, then in random order, one of each panel after the other, so that any number of them is
    spread over the panels.
    """
    ranked = []
    for panel, one in enumerate(samples):
        rng = np.random.default_rng(seed_sequence("genes", seed, panel, "targets"))
        varies = np.ptp(one.values[one.observational], axis=0) > 0.0
        drawn = [one.genes[j] for j in rng.permutation(len(one.genes)) if varies[j]]
        first = [gene for gene in PAPER_PREDICTIONS if gene in drawn]
        ordered = first + [gene for gene in drawn if gene not in first]
        ranked += [(rank, panel, gene) for rank, gene in enumerate(ordered)]
    return tuple((panel, gene) for _, panel, gene in sorted(ranked, key=lambda entry: entry[:2]))


def _sweep_of(place: Path, panel: int, number: int, fold: int) -> Path:
    return place / f"panel{panel}-seed{number}-fold{fold}"


def sweep_folds(study: Genes, place: Path, device: str, jobs: int | None) -> None:
    """One sweep for each panel, seed and fold, over the samples that its fits see; resumed if it
    was interrupted."""
    from invariance.sweeps.sweep import sweep

    targets: dict[int, list[str]] = {}
    for panel, target in study.studied:
        targets.setdefault(panel, []).append(target)
    for number in range(study.replicates):
        for fold in range(study.folds):
            for panel, outcomes in targets.items():
                samples = study.samples[panel]
                rows = ~study.split(panel, number).held_out(fold)
                n_observational = int(samples.observational[rows].sum())
                smaller = min(n_observational, int(rows.sum()) - n_observational)
                model = BIP(
                    prior=UniformPrior(max_size=published_limit(smaller)),
                    engine=Variational.genes(iterations=study.iterations),
                    select="threshold",
                    deviations="free",
                )
                sweep(
                    samples.to_frame()[rows],
                    model,
                    environments="environment",
                    outcomes=outcomes,
                    perturbed="deleted",
                    allow_unmeasured=True,
                    out=_sweep_of(place, panel, number, fold),
                    n_jobs=jobs,
                    device=device,
                    random_state=seed_number(study.name, study.seed, number, panel, fold, "sweep"),
                )


def swept_target(place: Path, panel: int, number: int, fold: int, target: str) -> Swept | None:
    """What a sweep has found for a target; None if there is no such sweep, or not this target in
    it."""
    rows = _swept_rows(_sweep_of(place, panel, number, fold)).get(target)
    if rows is None:
        return None
    if rows["feature"].isna().any():
        raise EngineError(f"the sweep could not fit {target!r}: {rows['verdict'].iloc[0]}")
    inclusion = dict(zip(rows["feature"], rows["paper_inclusion"], strict=True))
    return Swept(inclusion, float(rows["seconds"].iloc[0]))


@lru_cache(maxsize=64)
def _swept_rows(folder: Path) -> dict[str, pd.DataFrame]:
    from invariance.sweeps.store import MANIFEST, read_sweep

    if not (folder / MANIFEST).exists():
        return {}
    return {str(outcome): rows for outcome, rows in read_sweep(folder).groupby("outcome")}


def at_scale(
    name: str,
    scale: str,
    data: str | None = None,
    simulated: int | None = None,
    seed: int = 0,
    observational: str | None = None,
    kind: type[Genes] = Genes,
    **changes: Any,
) -> Genes:
    samples = samples_of(data, simulated, seed, observational)
    paper = scale == "paper"
    settings: dict[str, Any] = {
        "scale": scale,
        "replicates": 3 if paper else 2,
        "targets": None if paper else _quick_targets(samples),
    }
    settings |= {
        "data": data,
        "simulated": simulated,
        "seed": seed,
        "fingerprint": fingerprint(samples),
    }
    settings |= {"observational": observational} | changes
    check_methods(settings.get("methods", ()), GENE_METHODS)
    if settings.get("count", COUNTS[0]) not in COUNTS:
        raise SettingError(
            f"count={settings['count']!r} is not known: use one of {', '.join(COUNTS)}."
        )
    return kind(**settings)


_CAUTION = (NO_EFFECT, UNCHECKED)
_VERDICT_COLORS = {VALIDATED: VERMILION, NO_EFFECT: BLUE, UNCHECKED: "0.65"}
_DOTS = (18.0, 130.0)


def pictures_of(study: Genes, results: pd.DataFrame) -> list[Picture]:
    table = study.table_of(results, study.count)
    drawn = [
        Picture(
            "precision-recall",
            "Precision and recall over held-out deletions: a dot for each setting, larger where "
            "the method predicts "
            "fewer genes, with bars of 2 standard errors over seeds. A grey bar at the same "
            "recall: the precision of "
            "as many genes drawn at random, central 95% of one seed. Dashed: the precision of "
            "predicting all of them. "
            "Marginal regression is in the text, as in the paper.",
            precision_recall(table, tuple(name for name in study.methods if name != "Marginal")),
        )
    ]
    profile = profile_of(study, results)
    if profile is not None:
        drawn.append(
            Picture(
                "profile",
                f"{profile.target}: the ten genes with the highest inclusion probabilities of "
                f"{PROFILED}, each from "
                "the fits that held out its deletion, where there is one, and what that deletion "
                "says.",
                profile_figure(profile),
            )
        )
        first, other = study.samples[0].labels
        genes = [
            gene
            for verdict in (VALIDATED, NO_EFFECT)
            if (gene := profile.first(verdict)) is not None
        ]
        if genes:
            drawn.append(
                Picture(
                    "validation",
                    f"{profile.target} against genes of its profile: {first} (×) and {other} (●) "
                    "samples, and the "
                    "deletion of the gene itself (★), which the fit did not see. Dashed: the 1% "
                    "and 99% quantiles of "
                    "the × that the fit saw. A star outside both pairs of lines validates the "
                    "gene.",
                    scatter_figure(study, profile, genes),
                )
            )
    return drawn


def precision_recall(table: pd.DataFrame, methods: tuple[str, ...]) -> Figure:
    figure, axes = panels(1, 1, 6.4, 5.2)
    ax = axes[0, 0]
    base = table["effects"].sum() / max(table["candidates"].sum(), 1)
    ax.axhline(base, color="0.5", linestyle="--", linewidth=1.0)
    for name in methods:
        rows = table[
            (table["method"] == name) & table["precision"].notna() & table["recall"].notna()
        ]
        if rows.empty:
            continue
        ax.errorbar(
            rows["recall"],
            rows["precision"],
            xerr=2 * rows["recall_error"].fillna(0.0),
            yerr=2 * rows["precision_error"].fillna(0.0),
            fmt="none",
            ecolor=GENE_METHODS[name].color,
            elinewidth=0.8,
            alpha=0.6,
        )
        ax.vlines(
            rows["recall"],
            rows["chance_low"],
            rows["chance_high"],
            color="0.75",
            linewidth=2.0,
            zorder=0,
        )
        ax.plot(
            rows["recall"],
            rows["precision"],
            color=GENE_METHODS[name].color,
            linewidth=0.7,
            alpha=0.5,
        )
        sizes = dot_sizes(rows["predicted"])
        ax.scatter(
            rows["recall"], rows["precision"], s=sizes, c=GENE_METHODS[name].color, label=name
        )
    ax.set_xlabel("recall")
    ax.set_ylabel("precision")
    ax.set_xlim(left=0.0)
    ax.set_ylim(0.0, 1.02)
    if ax.get_legend_handles_labels()[0]:
        shared_legend(figure, ax, 4)
    return figure


def dot_sizes(predicted: pd.Series) -> np.ndarray:
    """Larger for settings of one method that predict fewer genes; the smallest for a single
    setting."""
    low, high = _DOTS
    spread = predicted.max() - predicted.min()
    share = (predicted.max() - predicted) / spread if spread else 0.0 * predicted
    return (low + (high - low) * share).to_numpy()


def profile_figure(profile: Profile) -> Figure:
    figure, axes = panels(1, 1, 6.4, 3.8)
    ax = axes[0, 0]
    for verdict, color in _VERDICT_COLORS.items():
        bars = [
            (i, value) for i, (_, value, found) in enumerate(profile.leading) if found == verdict
        ]
        if bars:
            ax.bar(*zip(*bars, strict=True), color=color, label=verdict, zorder=2)
    ax.axhline(0.5, color="0.3", linestyle="--", linewidth=1.0)
    ax.set_xticks(
        range(len(profile.leading)),
        [gene for gene, _, _ in profile.leading],
        rotation=40,
        ha="right",
    )
    ax.set_ylim(0.0, 1.02)
    ax.set_ylabel("inclusion probability")
    ax.set_title(profile.target, fontsize="medium")
    shared_legend(figure, ax, len(_VERDICT_COLORS))
    return figure


def scatter_figure(study: Genes, profile: Profile, genes: list[str]) -> Figure:
    figure, axes = panels(1, len(genes), max(4.4 * len(genes), 5.6), 4.2, sharey=True)
    for ax, gene in zip(axes[0], genes, strict=True):
        _scatter(ax, study.split(profile.panel, 0), profile.target, gene)
        ax.set_title(study.verdict(profile.panel, gene, profile.target), fontsize="medium")
    axes[0, 0].set_ylabel(profile.target)
    shared_legend(figure, axes[0, 0], 3)
    return figure


def _scatter(ax: Axes, split: Split, target: str, gene: str) -> None:
    samples = split.deletions
    x = samples.place[gene]
    y = samples.place[target]
    own, perturbing = (
        np.isin(np.arange(len(samples.samples)), samples.deleting(name)) for name in (gene, target)
    )
    first, other = samples.labels
    shown = ~own & ~perturbing
    for rows, marker, color, size, label in (
        (samples.observational & shown, "x", "0.45", 22, first),
        (~samples.observational & shown, "o", BLUE, 14, other),
        (own, "*", VERMILION, 220, "its own deletion, held out"),
    ):
        ax.scatter(
            samples.values[rows, x],
            samples.values[rows, y],
            s=size,
            c=color,
            marker=marker,
            label=label,
            zorder=2,
        )
    fold = split.fold_of(gene)
    assert fold is not None
    for j, draw in ((x, ax.axvline), (y, ax.axhline)):
        for limits in split.effects.bands[fold]:
            draw(limits[j], color="0.3", linestyle="--", linewidth=0.9)
    ax.set_xlabel(gene)


MARKS = {VALIDATED: "**{}**", NO_EFFECT: "{}ˣ", UNCHECKED: "{}\\*"}
_TEN = 10


def tables_of(study: Genes, results: pd.DataFrame) -> list[Table]:
    return [
        Table(
            "Precision and recall: means over seeds ± standard errors. At random: were as many "
            "genes of each fit drawn "
            "by lot, with the central 95% of one seed. p: of being right as often by lot, with "
            "that of the method "
            "adjusted for its settings and for the other methods. Published count: a deletion "
            "without success is "
            "checked and wrong. Successful: it is left out",
            precision_table(study, results),
        ),
        *regulators_tables(study, results),
        Table(
            "Genes predicted with every seed by the fit that holds out their deletion, or by all "
            "fits where they were "
            "not deleted: **validated**, without effectˣ, cannot be checked\\*; ∅ none. Where a "
            "target is one of the paper's, its entries with its own verdicts",
            targets_table(study, results),
        ),
        *profile_tables(study, results),
        *causes_tables(study, results),
        *elsewhere_tables(study, results),
    ]


def causes_tables(study: Genes, results: pd.DataFrame) -> list[Table]:
    """How many of the validated causes of the paper's table each method and setting predicts, if
    all its targets are studied"""
    causes = {
        (target, gene)
        for target in PAPER_PREDICTIONS
        for gene, verdict in published(target, PAPER_COLUMNS[0])
        if verdict == VALIDATED
    }
    if not {target for target, _ in causes} <= set(results["target"]):
        return []
    causes = {(target, gene) for target, gene in causes if _held_out_in(study, gene, results)}
    lines = []
    for name in study.methods:
        for setting in GENE_METHODS[name].settings:
            found = agreed(study, results, name, setting)
            here = {(target, gene) for (_, target), genes in found.items() for gene in genes}
            both = sorted(target for target, gene in causes & here)
            sizes = [
                len(genes) for (_, target), genes in found.items() if target in PAPER_PREDICTIONS
            ]
            line = {
                "method": name,
                "setting": setting,
                "causes found": f"{len(both)} of {len(causes)}",
            }
            lines.append(
                line
                | {"genes a target": round(float(np.mean(sizes)), 1), "of targets": " ".join(both)}
            )
    title = (
        "Causes that the paper's first column names and a deletion validates, if a fit held out "
        "that deletion: how "
        "many are predicted with every seed by that fit, and how many genes are predicted for a "
        "target"
    )
    return [Table(title, pd.DataFrame(lines))]


def _held_out_in(study: Genes, gene: str, results: pd.DataFrame) -> bool:
    """Whether a fit of every seed held out the deletion of a gene"""
    folds = set(results["fold"])
    return all(study.split(0, number).fold_of(gene) in folds for number in range(study.replicates))


def elsewhere_tables(study: Genes, results: pd.DataFrame) -> list[Table]:
    """Leading edges on interventions that no fit has seen, if other laboratories' files lie beside
    the deletions"""
    if not laboratories_beside(study.data):
        return []
    title = (
        "Leading edges of all targets, ranked by each method's score, on interventions that no "
        "fit has seen. At "
        "random: targets drawn for the same regulators; intervals from 1,000 resamples of the "
        "regulators"
    )
    return [Table(title, in_columns(elsewhere(study, results)))]


def regulators_tables(study: Genes, results: pd.DataFrame) -> list[Table]:
    """Precision and recall apart for regulators whose strains are responsive, and for those that
    stand in for wild types; random predictions are drawn among the same regulators."""
    if f"effects{QUIET}" not in results:
        return []
    lines = []
    for name in study.methods:
        chosen = results[results["method"] == name]
        for setting in GENE_METHODS[name].settings:
            rows = chosen[chosen["setting"] == setting]
            line = {"method": name, "setting": setting}
            for label, of_kind in regulators_apart(rows):
                found = summary(counted(of_kind, study.count))
                checked = _checked(found)
                line |= {
                    f"{label}: {key}": checked[key] for key in ("checked", "precision", "at random")
                }
                line[f"{label}: recall"] = with_error(
                    found["recall"], found["recall_error"], "no effects"
                )
            lines.append(line)
    title = (
        "The same for responsive and for non-responsive regulators, each beside random "
        "predictions among them"
    )
    return [Table(title, pd.DataFrame(lines))]


def regulators_apart(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(name, rows with the numbers) of responsive regulators, and of non-responsive ones"""
    names = [name.removesuffix(QUIET) for name in rows.columns if name.endswith(QUIET)]
    quiet = rows.assign(**{name: rows[f"{name}{QUIET}"] for name in names})
    responsive = rows.assign(**{name: rows[name] - rows[f"{name}{QUIET}"] for name in names})
    return [("responsive", responsive), ("non-responsive", quiet)]


def precision_table(study: Genes, results: pd.DataFrame) -> pd.DataFrame:
    """The study's own count, and then what differs by the other."""
    lines = [
        {
            "method": line["method"],
            "setting": line["setting"],
            "predicted": round(line["predicted"], 1),
            "correct": round(line["correct"], 1),
            "recall": with_error(line["recall"], line["recall_error"], "no effects"),
            **_checked(line),
            "p of the method": f"{line['method_p_value']:.2g}",
        }
        for line in study.table_of(results, study.count).to_dict("records")
    ]
    (other,) = set(COUNTS) - {study.count}
    for shown, line in zip(lines, study.table_of(results, other).to_dict("records"), strict=True):
        shown |= {f"{name} ({other})": value for name, value in _checked(line).items()}
    return pd.DataFrame(lines)


def _checked(line: Mapping[Any, Any]) -> Row:
    low = line["chance_low"]
    high = line["chance_high"]
    return {
        "checked": round(line["checkable"], 1),
        "precision": with_error(line["precision"], line["precision_error"], undefined(line)),
        "at random": "" if np.isnan(low) else f"{line['chance']:.3f} ({low:.3f} to {high:.3f})",
        "p": "" if np.isnan(line["p_value"]) else f"{line['p_value']:.2g}",
    }


def with_error(value: float, error: float, otherwise: str) -> str:
    if np.isnan(value):
        return otherwise
    return f"{value:.3f}" if np.isnan(error) else f"{value:.3f} ± {error:.3f}"


def targets_table(study: Genes, results: pd.DataFrame) -> pd.DataFrame:
    """The paper's targets where they are there, with its entries beside ours, and then those with
    the most validated predictions, up to ten.
    """
    found = listed_by(study, results)
    hits = correct_by_target(study, results)
    all_targets = list(dict.fromkeys(zip(results["panel"], results["target"], strict=True)))
    in_order = sorted(
        all_targets, key=lambda target: (target[1] not in PAPER_PREDICTIONS, -hits[target])
    )
    lines = []
    for panel, target in in_order[:_TEN]:
        line = {"target": target if len(study.samples) == 1 else f"{target} (panel {panel})"}
        for name in found:
            verdicts = [
                (gene, study.verdict(panel, gene, target)) for gene in found[name][panel, target]
            ]
            line[f"{name} ({LISTED[name]})"] = _marked(verdicts)
        for column in PAPER_COLUMNS if target in PAPER_PREDICTIONS else ():
            line[f"the paper: {column}"] = _marked(published(target, column))
        lines.append(line)
    return pd.DataFrame(lines).fillna("")


def _marked(verdicts: list[tuple[str, str]]) -> str:
    return ", ".join(MARKS[verdict].format(gene) for gene, verdict in verdicts) or "∅"


_PAPER_MARKS = {"*": UNCHECKED, "x": NO_EFFECT}


def published(target: str, column: str) -> list[tuple[str, str]]:
    """(gene, verdict) of an entry in the paper's table"""
    entry = PAPER_PREDICTIONS[target][PAPER_COLUMNS.index(column)].split()
    return [(gene.rstrip("*x"), _PAPER_MARKS.get(gene[-1], VALIDATED)) for gene in entry]


def profile_tables(study: Genes, results: pd.DataFrame) -> list[Table]:
    """The leading genes of one target by each method that ranks them."""
    found = []
    for name, meaning in RANKED.items():
        profile = profile_of(study, results, name)
        if profile is not None:
            frame = pd.DataFrame(profile.leading, columns=["gene", meaning, "its deletion"])
            found.append(Table(f"Leading genes of {profile.target} by {name}", frame))
    return found


_NOTES = {
    EMPTY_MODE: "In {share} of the fits the empty subset is the mode of the paper's posterior "
    "with a beta-binomial "
    "prior: its members cannot be read off the mode. BIP-ratio therefore ranks genes by their "
    "odds in that "
    "posterior over those in the prior.",
    INCOMPATIBLE: "In {share} of the fits no subset is compatible with invariance: BIP-predictive "
    "predicts nothing.",
    REJECTED: "In {share} of the fits ICP accepts no subset at any level, and predicts nothing.",
}
# What the kinds of warnings say of the fits of a method.
_WARNED = {
    ApproximationWarning.__name__: "an approximation or a sampler is far from the posterior, by "
    "its own checks (Pareto "
    "k̂, share missed, replicas that disagree)",
    NotInvariantWarning.__name__: "the selected genes do not predict alike in all environments",
}


def reading_of(study: Genes, results: pd.DataFrame) -> list[str]:
    return [
        *_setting_in_words(study, results),
        *_findings_in_words(study, results),
        *_agreement_in_words(study, results),
        *(in_words(elsewhere(study, results)) if laboratories_beside(study.data) else ()),
        *_notes_in_words(study, results),
        *_warnings_in_words(study, results),
    ]


_STAND_IN = (
    "Environment one is strains that change fewer than four genes, in place of wild types, which "
    "the file does not "
    "have: each of them lacks a gene, and blocks of both environments are held out. The quantiles "
    "of an effect are "
    "those of the strains of environment one that the fit saw.",
)


def _setting_in_words(study: Genes, results: pd.DataFrame) -> list[str]:
    once = results[
        (results["method"] == study.methods[0]) & (results["setting"] == results["setting"].iloc[0])
    ]
    one = study.samples[0]
    n_first = int(one.observational.sum())
    panels = "" if len(study.samples) == 1 else f" in each of {len(study.samples)} panels"
    first, other = one.labels
    n_targets = len(once[["panel", "target"]].drop_duplicates())
    once = counted(once, study.count)
    candidates = once["candidates"].sum()
    effects = once["effects"].sum()
    said = [
        *(["A simulated network, not the yeast."] if study.data is None else []),
        f"{n_first:,} {first} and {len(one.samples) - n_first:,} {other} samples and "
        f"{len(one.genes):,} genes{panels}; "
        f"targets: {n_targets:,}; seeds: {study.replicates}; five blocks of deletions, of which "
        f"{study.folds} "
        f"{'is' if study.folds == 1 else 'are'} held out in turn.",
        *(_STAND_IN if one.non_responsive is not None else ()),
        f"Of the held-out {'' if study.count == COUNTS[0] else 'successful '}deletions, "
        f"{effects / max(candidates, 1):.3f} have an effect ({effects:,} of {candidates:,}): the "
        "deletion succeeded "
        "and the target moved. This is the precision of predicting all of them; random "
        "predictions have "
        "it only if as many are drawn in every fit, and the table has what they have with the "
        "numbers of each method.",
    ]
    limit = published_max_size(study.fitted(study.cells()[0], 0))
    if "BIP-VI" in study.methods and limit < PUBLISHED_LIMIT:
        said.append(
            f"BIP-VI's subsets have at most about {limit} genes, "
            f"{PUBLISHED_LIMIT}/{PUBLISHED_SAMPLES} of the samples "
            f"in the smaller environment of a fit, as the published limit of {PUBLISHED_LIMIT} is."
        )
    return said


def _findings_in_words(study: Genes, results: pd.DataFrame) -> list[str]:
    table = study.table_of(results, study.count)
    said = []
    checked = table[table["precision"].notna()].sort_values(
        ["method_p_value", "p_value"], kind="stable"
    )
    best = checked.drop_duplicates("method")
    for line in best[best["method_p_value"] < LEVEL].to_dict("records"):
        said.append(
            f"{line['method']} is right more often than chance, p = {line['method_p_value']:.2g} "
            "after adjusting for "
            f"its settings and the other methods; most clearly with {line['setting']}: precision "
            f"{line['precision']:.3f} where random predictions have {line['chance']:.3f}, recall "
            f"{line['recall']:.3f}."
        )
    if len(checked) and not said:
        first = best.iloc[0]
        said.append(
            "A null result: no method is shown to find genes whose deletion moves the target. The "
            "smallest p-value "
            "against random predictions, adjusted for settings and methods, is "
            f"{first['method_p_value']:.2g}, of {first['method']} ({first['p_value']:.2g} before, "
            "with "
            f"{first['setting']})."
        )
    (other,) = set(COUNTS) - {study.count}
    p_values = by_method(study.table_of(results, other))
    above = [
        f"{name} (p = {p_values[name]:.2g})" for name in study.methods if p_values[name] < LEVEL
    ]
    said.append(f"By the other count ({other}), above chance: {', '.join(above) or 'none'}.")
    silent = table[table["precision"].isna()]
    if len(silent):
        settings_of = silent.groupby("method", sort=False)["setting"]
        listed = "; ".join(f"{name} {', '.join(settings)}" for name, settings in settings_of)
        said.append(f"No prediction that can be checked: {listed}. Their precision is not defined.")
    return said


_COMPARED = ("BIP-VI", "ICP-screen")


def _agreement_in_words(study: Genes, results: pd.DataFrame) -> list[str]:
    """Correct predictions beside the paper's, and the paper's own entries"""
    said = []
    if set(_COMPARED) <= set(study.methods):
        right = {
            name: validated(study, agreed(study, results, name, LISTED[name])) for name in _COMPARED
        }
        both = right["BIP-VI"] & right["ICP-screen"]
        said.append(
            f"Correct with every seed: BIP-VI ({LISTED['BIP-VI']}) {len(right['BIP-VI'])}, "
            "ICP-screen "
            f"({LISTED['ICP-screen']}) {len(right['ICP-screen'])}, both {len(both)}. The paper "
            "has 371, 67 and 27 on "
            "the full file."
        )
    return [*said, *_against_the_paper(study, results)]


def _against_the_paper(study: Genes, results: pd.DataFrame) -> list[str]:
    """How many of the paper's entries are predicted here, and whether the deletions say of them
    what the paper says."""
    studied = set(zip(results["panel"], results["target"], strict=True))
    targets = [(panel, target) for panel, target in studied if target in PAPER_PREDICTIONS]
    if not targets:
        return [
            "None of the paper's ten targets is among these, so that its table has no counterpart "
            "here."
        ]
    said = []
    if study.folds < FOLDS:
        said.append(
            f"{study.folds} of {FOLDS} blocks are held out: genes that were deleted in the others "
            "are never listed."
        )
    for name in (name for name in _COMPARED if name in study.methods):
        found = agreed(study, results, name, LISTED[name])
        entries = {
            (panel, target, gene)
            for panel, target in targets
            for gene, _ in published(target, name)
        }
        here = {(panel, target, gene) for panel, target in targets for gene in found[panel, target]}
        said.append(
            f"{name} on the paper's targets: {len(entries)} genes in the paper, {len(here)} here, "
            f"{len(entries & here)} in both."
        )
    told = {
        (panel, target, *entry)
        for panel, target in targets
        for column in PAPER_COLUMNS
        for entry in published(target, column)
    }
    same = sum(
        study.verdict(panel, gene, target) == verdict for panel, target, gene, verdict in told
    )
    return [
        *said,
        f"The deletions say of {same} of the {len(told)} genes in the paper's table what the "
        "paper says.",
    ]


def _notes_in_words(study: Genes, results: pd.DataFrame) -> list[str]:
    fits = _fits(results)
    said = []
    for note, sentence in _NOTES.items():
        asked = fits[fits["method"].isin(fits.loc[fits["note"] == note, "method"])]
        if len(asked):
            said.append(sentence.format(share=f"{(asked['note'] == note).mean():.2f}"))
    return [*said, *failures_in_words(results)]


def failures_in_words(results: pd.DataFrame) -> list[str]:
    fits = _fits(results)
    said = []
    failed = fits[fits["note"].str.startswith(FAILED)]
    for name, count in failed.groupby("method").size().items():
        example = failed.loc[failed["method"] == name, "note"].iloc[0].removeprefix(f"{FAILED}: ")
        said.append(
            f"{name} gave no result in {count} of {(fits['method'] == name).sum()} fits, first: "
            f"{example}"
        )
    return said


def _warnings_in_words(study: Genes, results: pd.DataFrame) -> list[str]:
    fits = _fits(results)
    said = []
    for kind, meaning in _WARNED.items():
        warned = fits["warned"].map(lambda kinds, kind=kind: kind in kinds.split())
        shares = warned.groupby(fits["method"]).mean()
        listed = [
            f"{name} {shares[name]:.2f}" for name in study.methods if shares.get(name, 0.0) > 0.0
        ]
        if listed:
            said.append(f"Share of fits with a warning that {meaning}: {', '.join(listed)}.")
    return said


def _fits(results: pd.DataFrame) -> pd.DataFrame:
    """The first setting of each fit of a method"""
    return results.drop_duplicates(["panel", "target", "fold", "replicate", "method"])
