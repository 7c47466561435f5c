"""The methods that the studies compare: one line each, with how it is drawn, and one way to fit and
score them all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest

from invariance._tools.arrays import Mask
from invariance._tools.names import RuleName
from invariance._tools.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION
from invariance.baselines.base import Screened
from invariance.baselines.registry import METHODS as KNOWN
from invariance.data.multi_environment import MultiEnvironmentData
from invariance.decisions.pipeline import FitSettings
from invariance.estimators.bip import BIP
from invariance.estimators.selector import EnvironmentSelector
from invariance.exceptions import EngineError, SettingError
from invariance.inference.base import Engine, RunOptions
from invariance.inference.mean_field import Ascent, FreeSpace, MeanField, climb, measured
from invariance.inference.tempering import Tempering
from invariance.inference.variational import Variational
from invariance.priors import UniformPrior
from invariance.screening import LassoScreen, Screening

from .runs import Row


def exact_discovery(selected: ArrayLike, truth: ArrayLike, rejected: bool = False) -> bool:
    """Whether the selected features (p,) are exactly the true ones (p,); False for a method that
    rejected its model."""
    chosen, true = _masks(selected, truth)
    return not rejected and bool((chosen == true).all())


def coverage(selected: ArrayLike, truth: ArrayLike, rejected: bool = False) -> bool:
    """Whether every selected feature is a true one, as it is for an empty selection.

    `rejected` says that the method found no subset acceptable (ICP's "model rejected"): that is no
    answer, and False, where an accepted empty subset is True.
    """
    chosen, true = _masks(selected, truth)
    return not rejected and not (chosen & ~true).any()


def precision(selected: ArrayLike, truth: ArrayLike) -> float:
    """Share of the selected features that are true; nan when none is selected, since no claim was
    made."""
    chosen, true = _masks(selected, truth)
    return _share(chosen & true, chosen)


def recall(selected: ArrayLike, truth: ArrayLike) -> float:
    """Share of the true features that are selected; nan when there is no true feature to find."""
    chosen, true = _masks(selected, truth)
    return _share(chosen & true, true)


@dataclass(frozen=True)
class Rate:
    """The share of n trials that succeeded, and its Wilson interval."""

    mean: float
    low: float
    high: float
    n: int


def rate(outcomes: ArrayLike, level: float = 0.95) -> Rate:
    """Share of True (or 1) among outcomes that are each True or False (1 or 0), with its Wilson
    interval."""
    values = np.asarray(outcomes)
    interval = binomtest(int(values.sum()), len(values)).proportion_ci(level, method="wilson")
    return Rate(float(values.mean()), float(interval.low), float(interval.high), len(values))


def _masks(selected: ArrayLike, truth: ArrayLike) -> tuple[Mask, Mask]:
    return np.asarray(selected, dtype=bool), np.asarray(truth, dtype=bool)


def _share(part: Mask, whole: Mask) -> float:
    return float(part.sum() / whole.sum()) if whole.any() else float("nan")


# The paper's limit on the size of a subset where it uses variational inference; with fewer features
# it does not bind.
MAX_SIZE = 20


# Readings of what the paper leaves open with 450 features. SCREENS: whether the Lasso's features
# get standard deviation 1 first. PENALTIES: the objective, per row, of a draw outside the prior's
# support, for N rows.
SCREENS = {"standardised": True, "raw": False}
PENALTIES: dict[str, Callable[[int], Any]] = {
    "below-worst": lambda n_rows: "relative",
    "per-row": lambda n_rows: -1.0,
    "whole": lambda n_rows: -1.0 / n_rows,
}


@dataclass(frozen=True)
class Method:
    """build(seed) makes the unfitted estimator; color and dashes are those of its line

    screen : of SCREENS, for a method behind one or for the informative start; penalty : of
        PENALTIES, for the methods
    that climb from starts of the paper
    """

    name: str
    build: Callable[[int], EnvironmentSelector]
    color: str
    dashes: str = "-"
    screen: str | None = None
    penalty: str | None = None


def _known(name: str, color: str, dashes: str = "-", **settings: Any) -> Method:
    """A method of every comparison; it draws nothing at random."""
    screen = "standardised" if name.endswith("-screen") else None
    return Method(name, lambda seed: KNOWN[name].build(**settings), color, dashes, screen)


def _raw(method: Method) -> Method:
    """The same behind a Lasso on features as they are."""

    def build(seed: int) -> EnvironmentSelector:
        return method.build(seed).set_params(screen=LassoScreen(standardize=False))

    return Method(f"{method.name} (raw)", build, method.color, ":", "raw")


def _with_engine(seed: int, engine: Engine, select: RuleName = "mode") -> BIP:
    prior = UniformPrior(max_size=MAX_SIZE)
    return BIP(
        engine=engine,
        deviations="free",
        prior=prior,
        select=select,
        random_state=seed,
        progress=False,
    )


def two_starts(screen: str = "raw", penalty: str = "below-worst") -> Method:
    """BIP-VI from the two starts of the paper."""
    said = [text for text, usual in ((screen, "raw"), (penalty, "below-worst")) if text != usual]
    name = f"BIP-VI-two-starts ({', '.join(said)})" if said else "BIP-VI-two-starts"
    dashes = ":" if penalty == "below-worst" else "-."

    def build(seed: int) -> EnvironmentSelector:
        lasso = "lasso" if SCREENS[screen] else "raw_lasso"
        if penalty == "whole":
            raise SettingError(
                f"{name} depends on the number of rows: it is a reading of comparison-p450 only."
            )
        infeasible = PENALTIES[penalty](0)
        return _with_engine(seed, Variational.simulation(screen=lasso, infeasible=infeasible))

    return Method(name, build, SKY, dashes, screen, penalty)


_SCREENED = (
    _known("BIP-screen", BLUE, engine="exact", select="mode", progress=False),
    _known("ICP-screen", VERMILION, progress=False),
    _known("EILLS-screen", GREEN, progress=False),
    _known("Hidden-ICP-screen", PURPLE),
)
_RAW = tuple(map(_raw, _SCREENED))
SCREENED, RAW = (tuple(method.name for method in methods) for methods in (_SCREENED, _RAW))
METHODS = {
    method.name: method
    for method in (
        _known("Oracle", BLACK, "--"),
        _known("BIP", BLUE, engine="exact", select="mode", progress=False),
        Method(
            "BIP-predictive",
            lambda seed: BIP(engine="exact", deviations="free", progress=False),
            BLUE,
            ":",
        ),
        Method("BIP-VI", lambda seed: _with_engine(seed, Variational()), SKY),
        *(two_starts(screen, penalty) for penalty in PENALTIES for screen in SCREENS),
        Method("BIP-tempering", lambda seed: _with_engine(seed, Tempering()), BLUE, "-."),
        Method(
            "BIP-tempering-predictive",
            lambda seed: _with_engine(seed, Tempering(), "predictive"),
            BLUE,
            ":",
        ),
        _known("ICP", VERMILION, progress=False),
        _known("EILLS", GREEN, progress=False),
        _known("Hidden-ICP", PURPLE),
        Method(
            "Hidden-ICP (intercept)",
            lambda seed: KNOWN["Hidden-ICP"].build(intercept=True),
            PURPLE,
            ":",
        ),
        _known("Regression", ORANGE),
        *_SCREENED,
        *_RAW,
    )
}


@dataclass(frozen=True, eq=False)
class TimedScreening:
    """One screening that several methods share, and the seconds of the processor that it took."""

    screening: Screening
    seconds: float

    @classmethod
    def of(
        cls, data: MultiEnvironmentData, methods: Iterable[str], screen: str = "standardised"
    ) -> Self | None:
        """None if no method is behind this screen."""
        if not any(METHODS[name].screen == screen for name in methods):
            return None
        started = time.process_time()
        screening = LassoScreen(standardize=SCREENS[screen]).screen(data)
        return cls(screening, time.process_time() - started)


class _Passed(Variational):
    """Two starts, of which the informative one has these features (p,)."""

    kept: Mask

    def _passed(self, *_: Any) -> ArrayLike:
        return np.flatnonzero(self.kept)


def variational_rows(
    data: MultiEnvironmentData,
    names: Sequence[str],
    seed: int,
    shared: Mapping[str, TimedScreening],
) -> dict[str, Row]:
    """Rows as of `fit_and_score` of "BIP-VI" and of its readings with two starts, which climb from
    each start once.

    The selection is that of the estimator; the verdict on it and the search for what q misses are
    dropped.
    """
    truth = data.truth
    assert truth is not None
    target = FitSettings.of(_with_engine(seed, Variational()), np.random.default_rng(seed)).target(
        data
    )
    space = FreeSpace(target)
    climbed: dict[tuple[str, ...], tuple[Ascent, float]] = {}
    rows = {}
    for name in names:
        screen = METHODS[name].screen
        penalty = METHODS[name].penalty
        started = time.process_time()
        before = 0.0
        engine = Variational()
        if screen is not None and penalty is not None:
            engine = _Passed.simulation(infeasible=PENALTIES[penalty](data.n_rows))
            object.__setattr__(engine, "kept", shared[screen].screening.kept)
            before = shared[screen].seconds
        ready = engine.prepare(space, RunOptions(rng=np.random.default_rng(seed), progress=False))
        seconds = before + time.process_time() - started
        fits = []
        for start, (logits, rng) in ready.starts.items():
            key = (
                start,
                penalty or "below-worst",
                *((screen or "search",) if start == "informative" else ()),
            )
            if key not in climbed:
                started = time.process_time()
                scorer = space.scorer(engine.memory, searching=False)
                fit = measured(space, climb(space, logits, rng, engine), rng, engine.fresh, scorer)
                climbed[key] = fit, time.process_time() - started
            fits.append(climbed[key][0])
            seconds += climbed[key][1]
        best = max(fits, key=lambda fit: fit.elbo)
        q = MeanField(target.expanded(best.logits, np.inf, -np.inf), target.prior.max_size)
        outcome = "failed" if best.elbo == -np.inf else "selected" if q.mode.any() else "empty"
        posterior = (
            float("nan") if outcome == "failed" else float(np.exp(q.log_prob(truth[None])[0]))
        )
        rows[name] = _row(name, outcome, q.mode, truth, posterior, seconds)
    return rows


def fit_and_score(
    name: str, data: MultiEnvironmentData, seed: int, shared: TimedScreening | None
) -> Row:
    """How one method fares on simulated data.

    method; outcome: "selected", "empty", "rejected" (ICP accepts no subset) or "failed" (it gave an
    error); exact, covered: bool; size: of the selected subset; precision, recall; posterior: at the
    truth, nan where the method has none; seconds: of the processor for the fit, with the screening
    if there is one; note: the error.
    """
    model = METHODS[name].build(seed)
    truth = data.truth
    assert truth is not None
    before = 0.0
    if isinstance(model, Screened) and shared is not None:
        model.set_params(screen=shared.screening)
        before = shared.seconds
    started = time.process_time()
    try:
        model.fit(data)
    except (ValueError, EngineError, np.linalg.LinAlgError) as error:
        selected = np.zeros_like(truth)
        outcome = "failed"
        note = str(error)
    else:
        selected = model.support_
        outcome = _outcome(model)
        note = ""
    seconds = before + time.process_time() - started
    posterior = float("nan") if outcome == "failed" else _posterior_at(model, truth)
    return _row(name, outcome, selected, truth, posterior, seconds, note)


def _row(
    name: str,
    outcome: str,
    selected: Mask,
    truth: Mask,
    posterior: float,
    seconds: float,
    note: str = "",
) -> Row:
    no_answer = outcome in ("rejected", "failed")
    if no_answer:
        selected = np.zeros_like(truth)
    return {
        "method": name,
        "outcome": outcome,
        "exact": exact_discovery(selected, truth, rejected=no_answer),
        "covered": coverage(selected, truth, rejected=no_answer),
        "size": int(selected.sum()),
        "precision": precision(selected, truth),
        "recall": recall(selected, truth),
        "posterior": posterior,
        "seconds": seconds,
        "note": note,
    }


def _outcome(model: EnvironmentSelector) -> str:
    inner: Any = model.estimator_ if isinstance(model, Screened) else model
    return str(getattr(inner, "outcome_", "selected" if model.support_.any() else "empty"))


def _posterior_at(model: EnvironmentSelector, truth: Any) -> float:
    """0 where a screen has left out a true feature: no subset that it allows is the truth."""
    if isinstance(model, Screened):
        if (truth & ~model.screened_).any():
            return 0.0 if hasattr(model.estimator_, "posterior_") else float("nan")
        return _posterior_at(model.estimator_, truth[model.screened_])
    if isinstance(model, BIP) and model.select == "predictive":
        return 0.0 if model.predictive_ is None else model.predictive_.probability(truth)
    posterior = getattr(model, "posterior_", None)
    return float("nan") if posterior is None else float(posterior.probability(truth))
