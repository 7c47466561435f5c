"""The methods of the gene study: one fit for all settings of a method where one can serve them."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from invariance import exceptions
from invariance._tools.arrays import Floats, Integers, Mask
from invariance._tools.names import EngineName, FamilyName
from invariance._tools.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, YELLOW
from invariance.baselines.base import Screened
from invariance.baselines.eills import EILLS
from invariance.baselines.icp import ICP, HiddenICP
from invariance.baselines.regression import MarginalSelection, marginal_tests
from invariance.data.multi_environment import MultiEnvironmentData
from invariance.estimators.bip import BIP
from invariance.estimators.selector import EnvironmentSelector
from invariance.exceptions import DataError, EngineError, SettingError
from invariance.inference.base import Engine
from invariance.inference.variational import Variational
from invariance.models.base import Family
from invariance.models.gaussian import LinearGaussian
from invariance.priors import BetaBinomialPrior, Prior, UniformPrior
from invariance.screening import LassoFit, cross_validated_lasso, screening_of

from . import COUNTS
from .knockouts import Deletions

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
LEVELS = (0.001, 0.005, 0.01, 0.05, 0.1)
PENALTIES = (1.0, 25.0, 50.0, 75.0, 100.0)
# How much higher the odds of a gene are after the data than before.
RATIOS = (3.0, 10.0, 30.0, 100.0)
REWARD = 0.1
# The published limit is 200 genes where the smaller environment has 262 samples: fewer samples,
# fewer genes.
PUBLISHED_LIMIT = 200
PUBLISHED_SAMPLES = 262
SCREENED = 10
_FOLDS = 5
_FEW = 20
GREY = "#808080"
BROWN = "#8c564b"

FAILED = "failed"
EMPTY_MODE = "the most probable subset is the empty one"
INCOMPATIBLE = "no subset is compatible with invariance"
REJECTED = "no subset is accepted"

T = TypeVar("T")
Screen = Literal["lasso", "raw_lasso"]


class Swept(NamedTuple):
    """inclusion : {gene: probability}, of the genes that the sweep has kept; the others are below
    all thresholds"""

    inclusion: Mapping[str, float]
    seconds: float


class Timed(NamedTuple, Generic[T]):
    """warned : the kinds of this package's warnings that the work gave, each once"""

    value: T
    seconds: float
    warned: tuple[str, ...] = ()

    @classmethod
    def of(cls, work: Callable[[], T]) -> Timed[T]:
        started = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = work()
        kinds = {
            one.category.__name__
            for one in caught
            if one.category.__module__ == exceptions.__name__
        }
        return cls(value, time.perf_counter() - started, tuple(sorted(kinds)))


@dataclass(frozen=True, eq=False)
class Training:
    """What the methods are given: the data, a seed, the iterations of BIP-VI, and fits that several
    of them share.

    swept : inclusion probabilities and seconds of BIP-VI for this target, if a sweep on a device
        has fitted it
    """

    data: MultiEnvironmentData
    seed: int
    iterations: int
    swept: Swept | None = None

    @cached_property
    def lasso(self) -> Timed[LassoFit]:
        return Timed.of(lambda: cross_validated_lasso(self.data, _FOLDS, random_state=self.seed))

    @cached_property
    def raw_lasso(self) -> Timed[LassoFit]:
        """The same of columns as they are, in which a gene that varies more is penalised less."""
        return Timed.of(
            lambda: cross_validated_lasso(
                self.data, _FOLDS, standardize=False, random_state=self.seed
            )
        )

    @cached_property
    def sparse(self) -> Timed[BIP]:
        """The paper's posterior with a prior that favours few genes."""
        return Timed.of(lambda: self.bip("tempering", self.favouring_few))

    @property
    def favouring_few(self) -> Prior:
        return BetaBinomialPrior(max_size=min(_FEW, published_max_size(self.data)))

    def bip(
        self,
        engine: EngineName | Engine,
        prior: Prior,
        family: FamilyName | Family = "linear_gaussian",
    ) -> BIP:
        model = BIP(
            family, prior, engine, "mode", random_state=self.seed, deviations="free", progress=False
        )
        return model.fit(self.data)

    def behind_screen(self, method: EnvironmentSelector, screen: Screen = "lasso") -> Screened:
        lasso: Timed[LassoFit] = getattr(self, screen)
        return Screened(method, screening_of(self.data, lasso.value, SCREENED)).fit(self.data)


@dataclass(frozen=True, eq=False)
class Predicted:
    """What a method says about p genes.

    selected : (settings, p); score : (p,) what the genes are ranked by: inclusion probability or
        odds, −log10 p, the number of penalties with which EILLS selects, or the size of a
        coefficient; None where there is no ranking
    note : what was out of the ordinary; seconds : of each setting, where each has a fit of its own
    """

    selected: Mask
    score: Floats | None = None
    note: str = ""
    seconds: tuple[float, ...] = ()


@dataclass(frozen=True)
class GeneMethod:
    """settings : the hyper-parameters, in words; shares : the fit that it has in common with other
    methods
    paper : mean and standard error of its seconds in the paper's table, with those of the screen
    separate : each setting has a fit of its own
    """

    name: str
    settings: tuple[str, ...]
    predict: Callable[[Training], Predicted]
    color: str
    shares: Literal["lasso", "raw_lasso", "sparse"] | None = None
    paper: tuple[float, float] | None = None
    separate: bool = False

    def answer(self, training: Training) -> Timed[Predicted]:
        """The prediction, of nothing where the method fails, and its seconds and warnings, with
        those of the fit that it shares.
        """
        shared: Timed[object] = Timed(None, 0.0)
        started = time.perf_counter()
        try:
            if self.shares is not None:
                shared = getattr(training, self.shares)
                started = time.perf_counter()
            found = Timed.of(lambda: self.predict(training))
        except (ValueError, EngineError, np.linalg.LinAlgError) as error:
            nothing = np.zeros((len(self.settings), training.data.n_features), dtype=bool)
            found = Timed(
                Predicted(nothing, note=f"{FAILED}: {error}"), time.perf_counter() - started
            )
        warned = tuple(sorted({*shared.warned, *found.warned}))
        each = tuple(shared.seconds + own for own in found.value.seconds)
        return Timed(replace(found.value, seconds=each), shared.seconds + found.seconds, warned)


def published_max_size(data: MultiEnvironmentData) -> int:
    """BIP-VI's limit, in the published proportion to the samples of the smaller environment."""
    return published_limit(int(data.counts.min()))


def published_limit(n_smaller: int) -> int:
    return min(PUBLISHED_LIMIT, max(1, n_smaller * PUBLISHED_LIMIT // PUBLISHED_SAMPLES))


def _above(score: Floats, thresholds: tuple[float, ...]) -> Predicted:
    return Predicted(score[None] >= np.array(thresholds)[:, None], score)


def published_prior(data: MultiEnvironmentData) -> Prior:
    return UniformPrior(max_size=published_max_size(data))


def _variational(training: Training) -> Predicted:
    if training.swept is not None:
        inclusion, seconds = training.swept
        score = np.array([inclusion.get(gene, 0.0) for gene in training.data.feature_names])
        return replace(_above(score, THRESHOLDS), seconds=(seconds,) * len(THRESHOLDS))
    model = training.bip(
        Variational.genes(iterations=training.iterations), published_prior(training.data)
    )
    return _above(model.inclusion_probabilities_, THRESHOLDS)


def _exact_on_screened(training: Training, screen: Screen = "lasso") -> Predicted:
    model = training.behind_screen(
        BIP(engine="exact", select="mode", deviations="free", progress=False), screen
    )
    return _above(np.nan_to_num(model.inclusion_probabilities_), THRESHOLDS)


def _rewarded(training: Training) -> Predicted:
    model = training.bip("tempering", training.favouring_few, LinearGaussian(prediction=REWARD))
    return _above(model.inclusion_probabilities_, THRESHOLDS)


def _predictive(training: Training) -> Predicted:
    """The best predictor among the compatible subsets; where there is none, nothing is claimed."""
    predictive = training.sparse.value.predictive_
    if predictive is None:
        return Predicted(np.zeros((1, training.data.n_features), dtype=bool), note=INCOMPATIBLE)
    return Predicted(predictive.mode_mask[None], predictive.inclusion)


def _against_prior(training: Training) -> Predicted:
    """Odds of a gene in the paper's posterior over those in its prior."""
    model = training.sparse.value
    prior = training.favouring_few.bind(training.data.feature_names).inclusion_probabilities()
    found = _above(_odds(model.inclusion_probabilities_) / _odds(prior), RATIOS)
    return replace(found, note="" if model.posterior_.mode_mask.any() else EMPTY_MODE)


def _odds(probability: Floats) -> Floats:
    bounded = np.minimum(probability, 1.0 - 1e-12)
    return bounded / (1.0 - bounded)


def _icp(training: Training, screen: Screen = "lasso") -> Predicted:
    """A gene is selected at a level where some subset is accepted and none of those lacks the
    gene."""
    model = training.behind_screen(ICP(alpha=min(LEVELS), progress=False), screen)
    largest = float(np.nanmax(model.estimator_.subset_p_values_))
    selected = np.array([(model.p_values_ <= alpha) & (largest > alpha) for alpha in LEVELS])
    rejected = largest <= min(LEVELS)
    score = np.zeros(len(model.p_values_)) if rejected else _evidence(model.p_values_)
    return Predicted(selected, score, note=REJECTED if rejected else "")


def _evidence(p_values: Floats) -> Floats:
    """−log10 p, 0 where there is no p-value"""
    return -np.log10(np.clip(np.nan_to_num(p_values, nan=1.0), 1e-300, 1.0))


def _hidden_icp(training: Training, screen: Screen = "lasso") -> Predicted:
    p_values = training.behind_screen(HiddenICP(), screen).p_values_
    return Predicted(np.array([p_values <= alpha for alpha in LEVELS]), _evidence(p_values))


def _eills(training: Training, screen: Screen = "lasso") -> Predicted:
    """One fit for each γ."""
    selected = []
    seconds = []
    for gamma in PENALTIES:
        started = time.perf_counter()
        selected.append(training.behind_screen(EILLS(gamma=gamma, progress=False), screen).support_)
        seconds.append(time.perf_counter() - started)
    chosen = np.array(selected)
    return Predicted(chosen, chosen.sum(axis=0).astype(float), seconds=tuple(seconds))


def _lasso(training: Training, screen: Screen = "lasso") -> Predicted:
    lasso: Timed[LassoFit] = getattr(training, screen)
    # For an outcome of deviation 1, so that genes of several targets can be ranked together
    size = np.abs(lasso.value.coefficients) / training.data.y.std()
    return Predicted(size[None] > 0.0, size)


def _marginal(training: Training) -> Predicted:
    correlations, p_values = marginal_tests(training.data)
    return Predicted(p_values[None] < MarginalSelection().alpha, np.abs(correlations))


def _raw(predict: Callable[[Training, Screen], Predicted]) -> Callable[[Training], Predicted]:
    """The same method behind a screen by a Lasso of columns as they are"""
    return lambda training: predict(training, "raw_lasso")


def _named(symbol: str, values: tuple[float, ...]) -> tuple[str, ...]:
    return tuple(f"{symbol}={value:g}" for value in values)


GENE_METHODS = {
    method.name: method
    for method in (
        GeneMethod("BIP-VI", _named("t", THRESHOLDS), _variational, SKY, paper=(348.7, 17.2)),
        GeneMethod(
            "BIP-screen", _named("t", THRESHOLDS), _exact_on_screened, BLUE, "lasso", (9.2, 1.2)
        ),
        GeneMethod("ICP-screen", _named("α", LEVELS), _icp, VERMILION, "lasso", (11.0, 1.2)),
        GeneMethod(
            "Hidden-ICP-screen", _named("α", LEVELS), _hidden_icp, PURPLE, "lasso", (8.7, 1.2)
        ),
        GeneMethod(
            "EILLS-screen",
            _named("γ", PENALTIES),
            _eills,
            GREEN,
            "lasso",
            (9.0, 1.2),
            separate=True,
        ),
        GeneMethod("Marginal", ("p<0.05",), _marginal, YELLOW, paper=(0.13, 0.01)),
        GeneMethod("Lasso", ("5 folds",), _lasso, ORANGE, "lasso"),
        GeneMethod("BIP-predictive", ("best compatible",), _predictive, BLACK, "sparse"),
        GeneMethod("BIP λ=0.1", _named("t", THRESHOLDS), _rewarded, GREY),
        GeneMethod("BIP-ratio", _named("ratio", RATIOS), _against_prior, BROWN, "sparse"),
        GeneMethod(
            "BIP-screen, raw", _named("t", THRESHOLDS), _raw(_exact_on_screened), BLUE, "raw_lasso"
        ),
        GeneMethod("ICP-screen, raw", _named("α", LEVELS), _raw(_icp), VERMILION, "raw_lasso"),
        GeneMethod(
            "Hidden-ICP-screen, raw", _named("α", LEVELS), _raw(_hidden_icp), PURPLE, "raw_lasso"
        ),
        GeneMethod(
            "EILLS-screen, raw",
            _named("γ", PENALTIES),
            _raw(_eills),
            GREEN,
            "raw_lasso",
            separate=True,
        ),
        GeneMethod("Lasso, raw", ("5 folds",), _raw(_lasso), ORANGE, "raw_lasso"),
    )
}
PAPER_METHODS = (
    "BIP-VI",
    "BIP-screen",
    "ICP-screen",
    "Hidden-ICP-screen",
    "EILLS-screen",
    "Lasso",
    "Marginal",
)

# The paper's table of ten targets, of which the first has the paper's picture: what its columns
# predict. * cannot be checked, x has no effect, all others are validated.
PAPER_COLUMNS = ("Meinshausen et al. 2016", "ICP-screen", "BIP-VI")
PAPER_PREDICTIONS = {
    "YMR103C": ("YMR104C", "YMR104C", "YMR104C YHR209W*"),
    "YMR321C": ("YPL273W", "YPL273W", "YPL273W"),
    "YCL042W": ("YCL040W", "YCL040W", "YCL040W"),
    "YLL020C": ("YLL019C", "YLL019C", "YLL019C"),
    "YPL240C": ("YMR186W", "YMR186W", "YMR186W"),
    "YBR126C": ("YDR074W", "", "YGR008C* YKL035W* YDR074W"),
    "YMR173W-A": ("YMR173W", "YMR173W YOL100W*", "YMR173W"),
    "YGR264C": ("YGR162W", "", ""),
    "YJL077C": ("YOR027W", "", "YLL026W* YOR027W YFL010W-A*"),
    "YLR170C": ("YJL115Wx", "YDR322C-A* YDR180W* YJL184W* YLR438C-A*", ""),
}
# Outside these quantiles among wild types a gene has moved.
BAND = (0.01, 0.99)
VALIDATED = "validated"
NO_EFFECT = "no effect"
UNCHECKED = "cannot be checked"


@dataclass(frozen=True, eq=False)
class Split:
    """Deletions in blocks, each of which is held out once. block : (n,) of every sample, -1 for
    wild types."""

    deletions: Deletions
    block: Integers

    @classmethod
    def of(cls, deletions: Deletions, n_blocks: int, rng: np.random.Generator) -> Split:
        """Blocks of nearly equal numbers of deleted genes; all samples that lack a gene are in one
        block."""
        genes = sorted({gene for gene in deletions.deleted if gene is not None})
        if len(genes) < n_blocks:
            raise DataError(f"{len(genes)} deleted genes cannot be split into {n_blocks} blocks.")
        block_of: dict[str | None, int] = {None: -1}
        block_of |= {
            genes[place]: i % n_blocks for i, place in enumerate(rng.permutation(len(genes)))
        }
        return cls(deletions, np.array([block_of[gene] for gene in deletions.deleted]))

    def held_out(self, fold: int) -> Mask:
        """(n,) the samples that no fit of this fold sees"""
        return self.block == fold

    def training(self, target: str, fold: int) -> Mask:
        """(n,) all wild types and the other blocks, without samples that perturb the target"""
        chosen = ~self.held_out(fold)
        chosen[self.deletions.deleting(target)] = False
        return chosen

    def fold_of(self, gene: str) -> int | None:
        """The fold that holds out the deletion of a gene; None where it was not deleted."""
        rows = self.deletions.deleting(gene)
        return int(self.block[rows[0]]) if len(rows) else None

    @cached_property
    def effects(self) -> Effects:
        return Effects.of(self)


def training_data(deletions: Deletions, target: str, rows: Mask) -> MultiEnvironmentData:
    """The target as outcome of all other genes that vary in these samples, in two environments."""
    values = deletions.values[rows]
    used = np.ptp(values, axis=0) > 0.0
    place = deletions.place[target]
    if not used[place]:
        raise DataError(
            f"the target {target!r} is constant in the {len(values)} samples that it is fitted to."
        )
    used[place] = False
    names = tuple(gene for gene, flag in zip(deletions.genes, used, strict=True) if flag)
    return MultiEnvironmentData.from_arrays(
        values[:, used],
        values[:, place],
        deletions.environments[rows],
        feature_names=names,
        outcome_name=target,
    )


@dataclass(frozen=True, eq=False)
class Effects:
    """What each deletion did, by the fits that hold it out.

    bands : {fold: (low (d,), high (d,))}, the band of each gene among the observational samples
        that the fold's fits see, without those that lack the gene
    deleted : D genes, each once; moved : (D, d) whether the deletion of a gene took another outside
        its band, by the mean where several samples lack that gene
    """

    split: Split
    bands: dict[int, tuple[Floats, Floats]]
    deleted: tuple[str, ...]
    moved: Mask

    @classmethod
    def of(cls, split: Split) -> Effects:
        deletions = split.deletions
        deleted = tuple(dict.fromkeys(gene for gene in deletions.deleted if gene is not None))
        present = deletions.values.copy()
        for gene in deleted:
            if gene in deletions.place:
                present[deletions.deleting(gene), deletions.place[gene]] = np.nan
        bands: dict[int, tuple[Floats, Floats]] = {}
        for fold in sorted({*split.block[split.block >= 0].tolist()}):
            seen = present[deletions.observational & ~split.held_out(fold)]
            bands[fold] = tuple(np.nanquantile(seen, BAND, axis=0))
        moved = np.empty((len(deleted), len(deletions.genes)), dtype=bool)
        for i, gene in enumerate(deleted):
            rows = deletions.deleting(gene)
            low, high = bands[int(split.block[rows[0]])]
            level = deletions.values[rows].mean(axis=0)
            moved[i] = (level < low) | (level > high)
        return cls(split, bands, deleted, moved)

    @cached_property
    def successful(self) -> Mask:
        """(D,) whether the deleted gene itself left its band; never where it is not measured"""
        place = self.split.deletions.place
        return np.array(
            [gene in place and self.moved[i, place[gene]] for i, gene in enumerate(self.deleted)]
        )

    @cached_property
    def _row(self) -> dict[str, int]:
        return {gene: i for i, gene in enumerate(self.deleted)}

    def verdict(self, gene: str, target: str, count: str = COUNTS[0]) -> str:
        """What the deletion of a gene says about it as a cause of the target. One that did not
        succeed has no effect, as in the paper, or with count="successful" says nothing.
        """
        row = self._row.get(gene)
        if row is None:
            return UNCHECKED
        if self.successful[row]:
            return VALIDATED if self.moved[row, self.split.deletions.place[target]] else NO_EFFECT
        return UNCHECKED if count == "successful" else NO_EFFECT

    def checks(
        self, target: str, features: tuple[str, ...], fold: int
    ) -> dict[str, NDArray[np.str_]]:
        """{count: verdicts (p,) on the features, by the deletions that this fold holds out}"""
        held_out = self.split.held_out(fold)
        lacking = {
            gene for gene, flag in zip(self.split.deletions.deleted, held_out, strict=True) if flag
        }
        return {
            count: np.array(
                [
                    self.verdict(gene, target, count) if gene in lacking else UNCHECKED
                    for gene in features
                ]
            )
            for count in COUNTS
        }


# Of the published file.
WILD_TYPES = 262
DELETIONS = 1479
GENES = 6170
NEEDED = (
    f"the study 'genes' needs the yeast deletions of Kemmeren et al. (2014), {WILD_TYPES} wild "
    f"types and {DELETIONS:,} "
    f"deletions of {GENES:,} genes, from https://deleteome.holstegelab.nl (Kemmeren.RData, its "
    "HDF5 form, the text "
    "files, or deletions.npz without wild types), which is not downloaded"
)
_DIGITS = 16


@lru_cache(maxsize=1)
def samples_of(
    data: str | None, simulated: int | None, seed: int, observational: str | None = None
) -> tuple[Deletions, ...]:
    """The sets of samples that are studied side by side, each with its own genes: one, or the
    panels of an excerpt."""
    if (data is None) == (simulated is None):
        raise SettingError(
            f"{NEEDED}: name it, data='Kemmeren.RData', or simulate a network, simulated=600."
        )
    if simulated is not None:
        from .knockouts import knockouts

        _check_wild_types("a simulated network", observational)
        deletions = max(round(simulated * DELETIONS / GENES), 1)
        return (
            knockouts(
                simulated, WILD_TYPES, deletions, pairs=min(10, simulated // 20), seed=seed
            ).data,
        )
    from .yeast import PANELS, load_yeast, load_yeast_panels

    assert data is not None
    path = Path(data).expanduser()
    if path.name == PANELS or (path / PANELS).exists():
        _check_wild_types(PANELS, observational)
        return load_yeast_panels(path)
    return (load_yeast(path, observational=observational),)


def _check_wild_types(source: str, observational: str | None) -> None:
    if observational not in (None, "wild-types"):
        raise SettingError(
            f"{source} has wild types as environment one: leave observational={observational!r} "
            "out."
        )


@lru_cache(maxsize=1)
def fingerprint(samples: tuple[Deletions, ...]) -> str:
    """Tells whether two sources hold the same numbers and names."""
    digest = hashlib.sha256()
    for one in samples:
        digest.update(one.values.tobytes())
        digest.update(repr((one.genes, one.deleted)).encode())
        if one.non_responsive is not None:
            digest.update(one.non_responsive.tobytes())
    return digest.hexdigest()[:_DIGITS]


def same_samples(
    data: str | None,
    simulated: int | None,
    seed: int,
    expected: str,
    observational: str | None = None,
) -> tuple[Deletions, ...]:
    """As `samples_of`, on a machine that may have another file at that path."""
    samples = samples_of(data, simulated, seed, observational)
    if fingerprint(samples) != expected:
        where = "the simulated samples" if data is None else f"the file {data!r}"
        raise EngineError(
            f"{where} differ between the machines of this study: use the same file and versions "
            "on all."
        )
    return samples
