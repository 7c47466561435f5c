"""BIP-VI: mean-field variational inference over subsets (the paper's Algorithms 2 and 3)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit

from ..._tools.arrays import Floats, Mask
from ..._tools.parallel import ordered_map
from ..._tools.progress import ProgressBar
from ...exceptions import EngineError, SettingError, use
from ...models.base import BoundModel
from ...posterior.posterior import Posterior
from ...priors.base import BoundPrior
from ...screening import LassoScreen
from ..base import RunOptions, Target, judged
from ..modes import with_swaps
from ..tempering.engine import find_modes
from .ascent import Ascent, Cyclical, FreeSpace, Schedule, climb, log_ratios_of, measured
from .mean_field import Approximation, Elbo, MeanField, fit_mixture
from .posterior import Missed, missed_at_modes, missed_in_table, reweight, variational_posterior

Start = Literal["uninformative", "informative", "searched"]
Initial = Mapping[str, float] | ArrayLike

_STARTS = ("uninformative", "informative", "searched")
_SCREENS = ("search", "lasso")
_MOST_COMPONENTS = 8
# Up to this many free features searches are quick, and are made even if no start needs them.
_QUICK_TO_SEARCH = 100


class Prepared(NamedTuple):
    """What a run knows before it ascends.

    peaks (m, p): good subsets that the result must not miss; starts: {name: logits (f,) and its generator}
    """

    peaks: Mask
    starts: dict[str, tuple[Floats, np.random.Generator]]
    rng: np.random.Generator
    check_rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class Variational:
    """Mean-field variational inference by stochastic gradient ascent with U2G gradients.

    The defaults are the paper's simulation settings with four changes, where the published ones stall: how the
    informative start screens features (`screen`), what it expects of the others (`rest`), a third start, and the value
    of draws outside the prior's support (`infeasible`). `Variational.simulation()` and `Variational.genes()` are the
    published settings. All are compared with the subsets that searches find, which does not change their result.

    iterations, pairs : T gradient steps, each from M coupled pairs of draws
    schedule : learning rates for the objective divided by the number of rows
    starts : "uninformative" (σ₀ = min(0.9·max_size/p, 0.4) everywhere, or `inclusion` when that is given),
        "informative" (0.5 on the screened features and `rest` elsewhere; "auto" is 0.1, or less so that one feature
        outside the screen is expected) and "searched" (0.9 on the most probable subset that short tempered searches
        find; up to 16 features, that enumeration finds). No start expects more than 0.9·max_size features. The best
        ELBO wins.
    screen : "search" screens by invariance: the members of the most probable subsets that the searches find. "lasso"
        screens by prediction, as published: it loses true features whose effect other features can stand in for, needs
        the rows, and often takes longer than the rest.
    screened : number of features that pass the screen at most, if the best subset alone does not have more
    initial : starts from here instead: a mask, probabilities (p,), or {feature: probability}
    kl_analytic_probability : how often the KL term's gradient is the exact one rather than part of the draws
    infeasible : objective, per row, of a draw outside the support; "relative" is below the worst one seen inside
    leading : how many of the best iterates are measured again, with `fresh` draws, before one is chosen
    patience : stop when the best ELBO has not risen for this many iterations (None: never)
    draws : number of draws from the result that are reweighted to the posterior, and of those that look for what it
        misses: all subsets up to 16 features, the subsets that searches find and their surroundings beyond
    memory : how many scored subsets are remembered (rounded up to a power of two)
    components : 1 is the mean field. More, or "auto" (as many as the search finds modes, up to 8), is a mixture of mean
        fields, one started at each mode, with weights that maximise the ELBO.
    """

    iterations: int = 2000
    pairs: int = 20
    schedule: Schedule = field(default_factory=Cyclical)
    starts: tuple[Start, ...] = ("uninformative", "informative", "searched")
    screen: Literal["search", "lasso"] = "search"
    screened: int = 10
    initial: Initial | None = None
    inclusion: float | None = None
    rest: float | Literal["auto"] = "auto"
    kl_analytic_probability: float = 1.0
    infeasible: float | Literal["relative"] = "relative"
    leading: int = 8
    fresh: int = 1000
    patience: int | None = None
    draws: int = 4000
    memory: int = 1 << 17
    components: int | Literal["auto"] = 1

    @classmethod
    def simulation(cls, **changes: Any) -> Self:
        """The published settings of the simulation studies."""
        starts = ("uninformative", "informative")
        published: dict[str, Any] = {"starts": starts, "screen": "lasso", "infeasible": -1.0, "rest": 0.1}
        return cls(**(published | changes))

    @classmethod
    def genes(cls, **changes: Any) -> Self:
        """The published settings of the gene study; its prior is UniformPrior(max_size=200)."""
        settings: dict[str, Any] = {
            "iterations": 10_000,
            "pairs": 10,
            "schedule": Cyclical(base=0.5, maximum=10.0, steps_up=500, halve=True),
            "starts": ("uninformative",),
            "inclusion": 0.02,
            "kl_analytic_probability": 0.5,
            "infeasible": -1.0,
        }
        return cls(**(settings | changes))

    def run(self, target: Target, options: RunOptions) -> Posterior:
        started = time.perf_counter()
        space = FreeSpace(target)
        ready = self.prepared(space, options)
        with ProgressBar("variational inference", len(ready.starts) * self.iterations, options.progress) as bar:

            def ascended(start: tuple[Floats, np.random.Generator]) -> Ascent:
                climbed = climb(space, *start, self, lambda steps, elbo: bar.advance(steps, f"ELBO {elbo:.1f}"))
                return measured(space, climbed, start[1], self.fresh, space.scorer(self.memory, searching=False))

            # Starts that share a memory go one after another: what is scored together depends on what is remembered.
            n_jobs = 1 if space.shares_a_memory else options.n_jobs
            fits = dict(zip(ready.starts, ordered_map(ascended, ready.starts.values(), n_jobs), strict=True))
        return self.finished(space, ready, fits, started)

    def prepared(self, space: FreeSpace, options: RunOptions) -> Prepared:
        """Where to start from, before anything is ascended."""
        self._check()
        rng, search_rng = options.rng.spawn(2)
        modes, peaks = self._modes(space, replace(options, rng=search_rng))
        beginnings = self._beginnings(space, modes) | self._at_each(peaks, space)
        *generators, check_rng = options.rng.spawn(len(beginnings) + 1)
        starts = dict(zip(beginnings, zip(beginnings.values(), generators, strict=True), strict=True))
        return Prepared(peaks, starts, rng, check_rng)

    def finished(self, space: FreeSpace, ready: Prepared, fits: dict[str, Ascent], started: float) -> Posterior:
        """The posterior, from where each start ended."""
        target = space.target
        chosen = max(fits, key=lambda start: fits[start].elbo)
        q, elbo = self._approximation(target, fits, chosen, ready.rng)
        masks = q.sample(self.draws, ready.rng)
        log_ratios = log_ratios_of(target.model, masks)
        reweighted = reweight(masks, log_ratios, target.prior.log_prob(masks), q.log_prob(masks), keep=1000)
        missed: Missed | None = None
        outside = reweighted.outside
        if space.table.size:
            missed, outside = missed_in_table(space, q), space.table_outside()
        elif len(ready.peaks):
            missed = missed_at_modes(target, q, ready.peaks, self.draws, ready.check_rng)
        seconds = time.perf_counter() - started
        posterior = variational_posterior(target, q, elbo, fits, chosen, reweighted, missed, outside, seconds)
        return judged(target, posterior)

    def _check(self) -> None:
        for name in ("iterations", "pairs", "leading", "fresh", "draws", "memory", "screened"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name}={getattr(self, name)!r} is too small: use a whole number from 1 on.")
        if not 0.0 <= self.kl_analytic_probability <= 1.0:
            raise SettingError(f"kl_analytic_probability={self.kl_analytic_probability!r} is not a probability.")
        if self.infeasible != "relative" and not isinstance(self.infeasible, int | float):
            raise SettingError(f"infeasible={self.infeasible!r} is not known: use 'relative' or a negative number.")
        unknown = [start for start in self.starts if start not in _STARTS]
        if unknown or (not self.starts and self.initial is None):
            raise SettingError(f"starts={self.starts!r}: use some of {', '.join(map(repr, _STARTS))}.")
        if self.screen not in _SCREENS:
            raise SettingError(f"screen={self.screen!r} is not known: use 'search' or 'lasso'.")
        if self.components != "auto" and not (isinstance(self.components, int) and self.components >= 1):
            raise SettingError(f"components={self.components!r} is not known: use 'auto' or a whole number from 1 on.")

    @property
    def infeasible_value(self) -> float:
        """Objective, per row, of a draw outside the support; NaN where it is below the worst one seen inside."""
        return np.nan if self.infeasible == "relative" else float(self.infeasible)

    @property
    def _searches(self) -> bool:
        wanted = "searched" in self.starts or ("informative" in self.starts and self.screen == "search")
        return self.components != 1 or (self.initial is None and wanted)

    def _modes(self, space: FreeSpace, options: RunOptions) -> tuple[Mask, Mask]:
        """(m, p) good subsets, best first, that starts may need, and all known ones that q must not miss.

        None where no start needs a search and searching would take longer than the rest.
        """
        if not self._searches and len(space.free) > _QUICK_TO_SEARCH:
            nothing = np.zeros((0, space.target.n_features), dtype=bool)
            return nothing, nothing
        if space.table.size:
            modes = space.table_modes()
            if not len(modes):
                raise space.target.nothing_scored()
            return modes, modes
        modes = find_modes(space.target, options)
        return modes, with_swaps(space.target, modes)

    def _beginnings(self, space: FreeSpace, modes: Mask) -> dict[str, Floats]:
        """{name: logits (f,)} of each start"""
        starts: dict[str, Floats] = {}
        f, room = len(space.free), 0.9 * space.max_size
        if self.initial is not None:
            starts["initial"] = self._initial_inclusion(space.target.prior)[space.free]
        for start in () if self.initial is not None else dict.fromkeys(self.starts):
            if start == "uninformative":
                share = min(room / max(f, 1), 0.4) if self.inclusion is None else self.inclusion
                starts[start] = np.full(f, share)
            elif start == "searched":
                starts[start] = _near(modes[0, space.free])
            else:
                by_search = self.screen == "search"
                passed = _members_of(modes, self.screened) if by_search else self._lasso_screened(space.target.model)
                chosen = np.isin(space.free, passed)
                outside = max(int((~chosen).sum()), 1)
                rest = min(0.1, 1.0 / outside) if self.rest == "auto" else float(self.rest)
                starts[start] = np.where(chosen, 0.5, min(rest, max(room - 0.5 * chosen.sum(), 0.0) / outside))
        return {name: _logits(inclusion) for name, inclusion in starts.items()}

    def _at_each(self, modes: Mask, space: FreeSpace) -> dict[str, Floats]:
        """{name: logits (f,)} of a start at each of modes (m, p) that gets a component of its own"""
        wanted = {1: 0, "auto": _MOST_COMPONENTS}.get(self.components, self.components)
        return {f"mode {i + 1}": _logits(_near(mode[space.free])) for i, mode in enumerate(modes[:wanted])}

    def _initial_inclusion(self, prior: BoundPrior) -> Floats:
        names = prior.original_features
        if isinstance(self.initial, Mapping):
            unknown = [name for name in self.initial if name not in names]
            if unknown:
                raise SettingError(f"initial names a feature that is not there: {unknown[0]!r}.")
            return np.array([float(self.initial.get(name, 0.01)) for name in prior.feature_names])
        values = np.asarray(self.initial, dtype=float)
        if values.shape != (len(names),) or not ((values >= 0) & (values <= 1)).all():
            raise SettingError(f"initial must be a mask or {len(names)} probabilities, one for each feature.")
        values = values[prior.kept]
        return _near(values > 0) if np.isin(values, (0, 1)).all() else values

    def _lasso_screened(self, model: BoundModel) -> NDArray[np.intp]:
        if model.n_features <= self.screened:
            return np.arange(model.n_features)
        if model.rows is None:
            raise EngineError("the lasso screen needs the rows, which are not at hand", use(engine="vi(screen=search)"))
        return np.flatnonzero(LassoScreen(k=self.screened).screen(model.rows).kept)

    def _approximation(
        self, target: Target, fits: dict[str, Ascent], chosen: str, rng: np.random.Generator
    ) -> tuple[Approximation, Elbo]:
        fit = fits[chosen]
        q = _over_all(target, fit)
        if fit.elbo == -np.inf:
            reasons = "; ".join(target.model.outside_support(q.mode[None]))
            what = f"variational inference ended where no draw can be scored{': ' if reasons else ''}{reasons}"
            raise EngineError(what, use(engine="tempering"))
        if self.components == 1:
            return q, Elbo(fit.elbo, fit.elbo_error)
        return fit_mixture(
            _one_for_each_mode(fits, target),
            lambda masks: target.log_joint(masks, log_ratios_of(target.model, masks)),
            self.fresh,
            rng,
        )


def _members_of(modes: Mask, most: int) -> NDArray[np.intp]:
    """All members of the first of modes (m, p), then of the others until there are `most`."""
    if not len(modes):
        return np.zeros(0, dtype=np.intp)
    ranked = dict.fromkeys(int(feature) for mode in modes for feature in np.flatnonzero(mode))
    return np.array(list(ranked)[: max(most, int(modes[0].sum()))], dtype=np.intp)


def _near(mask: Mask) -> Floats:
    """Inclusion probabilities that start near a subset (f,) without excluding anything."""
    return np.where(mask, 0.9, min(0.01, 1.0 / max(len(mask), 1)))


def _logits(inclusion: Floats) -> Floats:
    return logit(np.clip(inclusion, 1e-4, 1.0 - 1e-4))


def _over_all(target: Target, fit: Ascent) -> MeanField:
    """What one start led to, over all p features."""
    return MeanField(target.expanded(fit.logits, np.inf, -np.inf), target.prior.max_size)


def _one_for_each_mode(fits: dict[str, Ascent], target: Target) -> tuple[MeanField, ...]:
    """The best of the fits that ended at the same subset."""
    best: dict[bytes, MeanField] = {}
    for fit in sorted(fits.values(), key=lambda fit: fit.elbo):
        if fit.elbo > -np.inf:
            q = _over_all(target, fit)
            best[q.mode.tobytes()] = q
    return tuple(reversed(best.values()))
