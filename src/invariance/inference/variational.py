"""BIP-VI: mean-field variational inference over subsets.

The approximation q_φ(z) = Π_j Bernoulli(z_j | sigmoid(φ_j)) maximises the evidence lower bound

    E_q[log p(z) + Σ_e Σ_i log g(y_ei | x_ei^z) / p_e(y_ei | x_ei^z) − log q_φ(z)]

(equation 8 and Algorithms 2 and 3 of the paper, Wu et al. 2025, arXiv:2506.22675). Draws of q are
then reweighted to the posterior, and searched for what q misses.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit, logsumexp

from .._tools.arrays import Fields, Floats, Mask, Rng
from .._tools.parallel import ordered_map
from .._tools.progress import ProgressBar
from .._tools.text import format_subset
from ..data.checks import warn
from ..data.features import distinct
from ..exceptions import ApproximationWarning, EngineError, Message, SettingError, use
from ..kernels.subset_sums import weighted_shares
from ..models.base import BoundModel, check_choice, check_whole_number
from ..posterior.posterior import Posterior, SubsetSource
from ..screening import LassoScreen
from .base import (
    RESCORED,
    RunOptions,
    Target,
    common_fields,
    rescore_leading,
    smallest,
    support_notes,
    with_remarks,
)
from .mean_field import Ascent, Cyclical, FreeSpace, MeanField, Mixture, climb, measured
from .mode_search import MISSED_SHARE, around, find_modes, with_swaps

Start = Literal["uninformative", "informative", "searched"]

_STARTS: tuple[Start, ...] = get_args(Start)
_QUICK_TO_SEARCH = 100  # free features: up to so many are searched even if no start needs it
_REWEIGHTED = 1000
_N_LISTED = 200
_MUCH_OF_THE_POSTERIOR = 0.05  # of the posterior
_FEW_SUBSETS = 1 << 24
_AT_LEAST = "log evidence at least"
_WEIGHED = (
    "`reweighted` weighs draws from the approximation by the posterior ({:.0f} effective draws)."
)
_UNSEARCHED = (
    "no search for subsets was made: whether the approximation misses probable ones is not known."
)
POOR_PARETO_K = 0.7
_FEWEST_IN_TAIL = 5
_TIE = 1e-9  # between log weights of draws of one subset, up to rounding
_NEGLIGIBLE = 0.01  # share of the weight with which a few draws above all others do no harm


class Prepared(NamedTuple):
    """peaks (m, p): good subsets that the result must not miss; starts: {name: logits (f,) and its
    generator}"""

    peaks: Mask
    starts: dict[str, tuple[Floats, Rng]]
    rng: Rng
    check_rng: Rng


@dataclass(frozen=True, eq=False)
class Variational:
    """Approximate the posterior by mean-field variational inference (BIP-VI).

    Stochastic gradient ascent with U2G gradients, the paper's Algorithms 2 and 3. The defaults are
    the paper's except for `screen`, `rest`, a third start and `infeasible`, with which the
    published settings stall. The published settings are `Variational.simulation()`
    ("vi-simulation") and `Variational.genes()` ("vi-genes").

    Parameters
    ----------
    iterations : int, default=2000
        Number T of gradient steps.
    pairs : int, default=20
        Number M of coupled pairs of draws in each step.
    schedule : Cyclical, default=Cyclical()
        Learning rates, for the objective divided by the number of rows.
    starts : tuple of str, default=("uninformative", "informative", "searched")
        Starting points, of which the best ELBO wins. "uninformative" has the same inclusion
        probability everywhere, `inclusion` or min(0.9·max_size/p, 0.4). "informative" has 0.5 for
        the screened features and `rest` elsewhere, lowered if more than 0.9·max_size features would
        be expected. "searched" has 0.9 for the most probable subset that searches find.
    screen : {"search", "lasso", "raw_lasso"}, default="search"
        Screen for "informative". "search" takes the members of the most probable subsets of the
        searches. "lasso", with standardised features, needs the rows and loses true features whose
        effect others can represent. "raw_lasso" does not standardise.
    screened : int, default=10
        Largest number of features that pass the screen, unless the best subset alone has more.
    inclusion : float, default=None
        Inclusion probability of the uninformative start. None is min(0.9·max_size/p, 0.4).
    rest : float or "auto", default="auto"
        Inclusion probability outside the screen. "auto" is 0.1, or less so that one such feature is
        expected.
    kl_analytic_probability : float, default=1.0
        Probability that a step uses the exact gradient of the KL term, and not its estimate from
        the draws.
    infeasible : float or "relative", default="relative"
        Objective, for each row, of a draw outside the support. "relative" is below the worst value
        seen inside.
    leading : int, default=8
        Number of the best iterates that are evaluated again before one is selected.
    fresh : int, default=1000
        Number of draws for these evaluations.
    draws : int, default=4000
        Number of draws that are reweighted to the posterior, and of draws that search for what the
        result misses.
    memory : int, default=131072
        Number of scored subsets that are remembered, rounded up to a power of two.

    See Also
    --------
    Tempering : Sample the posterior, without a variational approximation.

    Notes
    -----
    In all settings, also the published ones, four things differ from the paper's text:

    - q is restricted to the support of the prior and normalised there. Probabilities, the mode and
      the reported ELBO are those of the restricted q; the paper reports the product of Bernoulli
      distributions.
    - The iterate is selected among the last one and the `leading` ones by their noisy ELBO minus
      two standard errors, by an ELBO computed with `fresh` draws. The paper takes the iterate with
      the highest training ELBO.
    - The objective is E_q[log Λ] − KL(q ‖ p), divided by the number of rows; the supplement prints
      a plus before KL.
    - The gradient ascent is without momentum, as in the paper's algorithm. The call that the paper
      quotes for its learning rates also cycles a momentum between 0.8 and 0.9 by default.

    References
    ----------
    Wu, L., Yin, M., Wang, Y., Cunningham, J. P. and Blei, D. M. (2025), Bayesian invariance
    modeling of multi-environment data, equation 8 and Algorithms 2 and 3, arXiv:2506.22675.

    Yin, M., Ho, N., Yan, B., Qian, X. and Zhou, M. (2020), Probabilistic best subset selection via
    gradient-based optimization, arXiv:2006.06448.

    Smith, L. N. (2017), Cyclical learning rates for training neural networks, IEEE Winter
    Conference on Applications of Computer Vision, arXiv:1506.01186.

    Examples
    --------
    >>> from invariance import BIP, Variational
    >>> from invariance.datasets import make_example
    >>> engine = Variational(iterations=200)
    >>> BIP(engine=engine, random_state=0).fit(make_example()).selected_features_
    ('age', 'exercise', 'smoking')
    """

    iterations: int = 2000
    pairs: int = 20
    schedule: Cyclical = field(default_factory=Cyclical)
    starts: tuple[Start, ...] = _STARTS
    screen: Literal["search", "lasso", "raw_lasso"] = "search"
    screened: int = 10
    inclusion: float | None = None
    rest: float | Literal["auto"] = "auto"
    kl_analytic_probability: float = 1.0
    infeasible: float | Literal["relative"] = "relative"
    leading: int = 8
    fresh: int = 1000
    draws: int = 4000
    memory: int = 1 << 17

    @classmethod
    def simulation(cls, **changes: Any) -> Self:
        """Return the published settings of the simulation studies.

        Their prior is `UniformPrior(max_size=20)` for 450 features.

        Parameters
        ----------
        **changes : Any
            Parameters with other values.

        Returns
        -------
        Self
            The engine.

        Notes
        -----
        The value 0.1 of `rest` is lowered with many features: to 0.0295 with 450. Three settings
        are one of several readings of the text: −1 for a draw outside the support is for each row
        (`infeasible=-1 / n_rows`: for the whole objective); the Lasso uses standardised features
        (`screen="raw_lasso"`: not); the lowest learning rate is 1, as in the text, and not 0.5 as
        in the quoted call. With `infeasible="relative", screen="raw_lasso"` the pattern of the
        paper's figure for 450 features appears. The notes of the class apply.
        """
        published: Fields = {
            "starts": ("uninformative", "informative"),
            "screen": "lasso",
            "infeasible": -1.0,
            "rest": 0.1,
        }
        return cls(**published | changes)

    @classmethod
    def genes(cls, **changes: Any) -> Self:
        """Return the published settings of the gene study.

        Their prior is `UniformPrior(max_size=200)`.

        Parameters
        ----------
        **changes : Any
            Parameters with other values.

        Returns
        -------
        Self
            The engine.

        Notes
        -----
        The objective −1 of a draw outside the support is for each row, one of several readings. The
        notes of the class apply.
        """
        published: Fields = {
            "iterations": 10_000,
            "pairs": 10,
            "schedule": Cyclical(base=0.5, maximum=10.0, steps_up=500, halve=True),
            "infeasible": -1.0,
            "starts": ("uninformative",),
            "inclusion": 0.02,
            "kl_analytic_probability": 0.5,
        }
        return cls(**published | changes)

    def run(self, target: Target, options: RunOptions) -> Posterior:
        started = time.perf_counter()
        space = FreeSpace(target)
        ready = self.prepare(space, options)
        with ProgressBar(
            "variational inference", len(ready.starts) * self.iterations, options.progress
        ) as bar:

            def ascend(start: tuple[Floats, Rng]) -> Ascent:
                climbed = climb(space, *start, self, bar.advance)
                return measured(
                    space, climbed, start[1], self.fresh, space.scorer(self.memory, searching=False)
                )

            # Starts that share a memory go one after another: what is scored together depends on
            # what is remembered.
            n_jobs = 1 if space.shares_a_memory else options.n_jobs
            fits = dict(
                zip(ready.starts, ordered_map(ascend, ready.starts.values(), n_jobs), strict=True)
            )
        return self.finish(space, ready, fits, started)

    def prepare(self, space: FreeSpace, options: RunOptions) -> Prepared:
        """Return the starting points, before any ascent."""
        self._check()
        rng, search_rng = options.rng.spawn(2)
        modes, peaks = self._modes(space, replace(options, rng=search_rng))
        starts = self._starts(space, modes).items()
        logits = {name: logit(np.clip(values, 1e-4, 1.0 - 1e-4)) for name, values in starts}
        *generators, check_rng = options.rng.spawn(len(logits) + 1)
        drawn = dict(zip(logits, zip(logits.values(), generators, strict=True), strict=True))
        return Prepared(peaks, drawn, rng, check_rng)

    def finish(
        self, space: FreeSpace, ready: Prepared, fits: dict[str, Ascent], started: float
    ) -> Posterior:
        """Return the posterior from the ends of all starts."""
        target = space.target
        chosen = max(fits, key=lambda start: fits[start].elbo)
        fit = fits[chosen]
        prior = target.prior
        q = MeanField(target.expanded(fit.logits, np.inf, -np.inf), prior.max_size)
        if fit.elbo == -np.inf:
            reasons = "; ".join(target.model.outside_support(q.mode[None]))
            what = "variational inference ended where no draw can be scored"
            raise EngineError(f"{what}{': ' if reasons else ''}{reasons}", use(engine="tempering"))
        reweighted = reweight_draws(target, q, self.draws, ready.rng, _REWEIGHTED)
        missed = None
        outside = reweighted.outside
        if space.table.size:
            missed = missed_in_table(space, q)
            outside = space.table_outside()
        elif len(ready.peaks):
            missed = missed_at_modes(target, q, ready.peaks, self.draws, ready.check_rng)
        masks = q.leading(_N_LISTED)
        log_ratios = target.model.log_ratio_many(masks)
        scored = log_ratios > -np.inf
        if scored.any():
            masks = masks[scored]
            log_ratios = log_ratios[scored]
        check = rescore_leading(target.model, masks, log_ratios, RESCORED)
        bound = f"{_AT_LEAST} {fit.elbo:.2f} (ELBO, error {fit.elbo_error:.2g}; {chosen} start)"
        notes = [
            f"{bound}. Probabilities are the approximation's. {_WEIGHED.format(reweighted.ess)}"
        ]
        notes += [*check.notes, *support_notes(target, smallest(outside))]
        doubts = []
        if missed is None:
            notes.append(_UNSEARCHED)
        elif missed.mass >= _MUCH_OF_THE_POSTERIOR:
            subset = format_subset([prior.feature_names[j] for j in np.flatnonzero(missed.mask)])
            doubts.append(
                f"the approximation misses about {missed.mass:.2f} of the posterior, such as "
                f"{subset} (probability {missed.probability:.2g})"
            )
        if reweighted.undecided >= _MUCH_OF_THE_POSTERIOR:
            doubts.append(
                f"the approximation gives {reweighted.undecided:.2f} of its probability to "
                "subsets that cannot be scored"
            )
        if reweighted.pareto_k > POOR_PARETO_K:
            k = f"Pareto k̂ is {reweighted.pareto_k:.2f}, above {POOR_PARETO_K}"
            doubts.append(
                f"the approximation is poor: {k}; {reweighted.ess:.0f} draws are effective"
            )
        remedy = use(engine="exact" if prior.support_size() <= _FEW_SUBSETS else "tempering")
        for doubt in doubts:
            notes.append(Message(doubt, remedy))
            warn(notes[-1], ApproximationWarning)
        reweighted_ratios = target.log_ratios(reweighted.masks, reweighted.log_ratios)
        posterior = VariationalPosterior(
            **common_fields(target),
            inclusion=q.inclusion,
            masks=masks,
            log_ratios=check.log_ratios,
            log_probabilities=q.log_prob(masks),
            log_evidence=fit.elbo,
            entropy=q.entropy,
            engine="variational inference (mean field)",
            notes=tuple(notes),
            diagnostics={
                "elbo": fit.elbo,
                "elbo_error": fit.elbo_error,
                "start": chosen,
                "iterations": len(fit.trace.elbo),
                "chosen_iteration": fit.iteration,
                "seconds": time.perf_counter() - started,
                "feasible_fraction": fit.feasible,
                "pareto_k": reweighted.pareto_k,
                "effective_draws": reweighted.ess,
                "missed_mass": None if missed is None else missed.mass,
                "undecided_mass": reweighted.undecided,
                "elbo_by_start": {start: one.elbo for start, one in fits.items()},
                "rescoring_difference": check.difference,
                "trace": {
                    start: {
                        name: getattr(one.trace, name).tolist()
                        for name in ("elbo", "error", "feasible")
                    }
                    for start, one in fits.items()
                },
                "reweighted": {
                    "inclusion": reweighted.inclusion.tolist(),
                    "subsets": [np.flatnonzero(mask).tolist() for mask in reweighted.masks],
                    "log_ratios": reweighted_ratios.tolist(),
                    "log_probabilities": reweighted.log_probabilities.tolist(),
                    "log_evidence": reweighted.log_evidence,
                },
            },
            source=ApproximateSource(q),
        )
        return with_remarks(target, posterior)

    def _check(self) -> None:
        for name in ("iterations", "pairs", "leading", "fresh", "draws", "memory", "screened"):
            check_whole_number(self, name, 1, getattr(type(self), name))
        if not 0.0 <= self.kl_analytic_probability <= 1.0:
            raise SettingError(
                f"kl_analytic_probability={self.kl_analytic_probability!r} is not a probability."
            )
        if self.infeasible != "relative" and not isinstance(self.infeasible, int | float):
            raise SettingError(
                f"infeasible={self.infeasible!r} is not known: use 'relative' or a negative number."
            )
        if set(self.starts) - set(_STARTS) or not self.starts:
            raise SettingError(
                f"starts={self.starts!r}: use some of {', '.join(map(repr, _STARTS))}."
            )
        check_choice(self, "screen", ("search", "lasso", "raw_lasso"))

    @property
    def infeasible_value(self) -> float:
        """Return the objective, per row, of a draw outside the support.

        NaN if it is below the worst value seen inside.
        """
        return np.nan if self.infeasible == "relative" else float(self.infeasible)

    def _modes(self, space: FreeSpace, options: RunOptions) -> tuple[Mask, Mask]:
        """Return good subsets (m, p) for the starts, best first, and all known ones that q must not
        miss.

        None if no start needs a search and searching would take longer than the rest.
        """
        target = space.target
        by_search = "searched" in self.starts or (
            "informative" in self.starts and self.screen == "search"
        )
        if not by_search and len(target.prior.free) > _QUICK_TO_SEARCH:
            nothing = np.zeros((0, target.n_features), dtype=bool)
            return nothing, nothing
        if not space.table.size:
            modes = find_modes(target, options)
            return modes, with_swaps(target, modes)
        modes = space.table_modes()
        if not len(modes):
            raise target.nothing_scored()
        return modes, modes

    def _starts(self, space: FreeSpace, modes: Mask) -> dict[str, Floats]:
        """Return {name: inclusion probabilities (f,)} of each start."""
        prior = space.target.prior
        room = 0.9 * space.max_size
        free = prior.free
        starts: dict[str, Floats] = {}
        for start in dict.fromkeys(self.starts):
            if start == "uninformative":
                share = (
                    min(room / max(len(free), 1), 0.4) if self.inclusion is None else self.inclusion
                )
                starts[start] = np.full(len(free), share)
            elif start == "searched":
                starts[start] = np.where(modes[0, free], 0.9, min(0.01, 1.0 / max(len(free), 1)))
            else:
                chosen = np.isin(free, self._passed(space.target.model, modes))
                outside = max(int((~chosen).sum()), 1)
                rest = min(0.1, 1.0 / outside) if self.rest == "auto" else float(self.rest)
                starts[start] = np.where(
                    chosen, 0.5, min(rest, max(room - 0.5 * chosen.sum(), 0.0) / outside)
                )
        return starts

    def _passed(self, model: BoundModel, modes: Mask) -> ArrayLike:
        """Features that pass the screen; by search all members of the first mode, then of the
        others"""
        if self.screen == "search":
            ranked = dict.fromkeys(
                int(feature) for mode in modes for feature in np.flatnonzero(mode)
            )
            return list(ranked)[: max(self.screened, int(modes[:1].sum()))]
        if model.n_features <= self.screened:
            return np.arange(model.n_features)
        if model.data is None:
            raise EngineError(
                "the lasso screen needs the rows, which are not at hand",
                use(engine="vi(screen=search)"),
            )
        return np.flatnonzero(
            LassoScreen(self.screened, standardize=self.screen == "lasso").screen(model.data).kept
        )


# ---------------------------------------------------------------- importance weights, and what they
# do not reach


@dataclass(frozen=True, eq=False)
class Reweighted:
    """Self-normalised importance estimates from draws of q. inclusion (p,); masks (k, p): distinct
    draws, most probable first; log_ratios, log_probabilities (k,); pareto_k: tail index of the
    weights, see `pareto_smoothed`; ess: effective number of draws; log_evidence: estimate; outside
    (m, p): the distinct draws that cannot be scored; undecided: their share"""

    inclusion: Floats
    masks: Mask
    log_ratios: Floats
    log_probabilities: Floats
    pareto_k: float
    ess: float
    log_evidence: float
    outside: Mask
    undecided: float


def reweight_draws(
    target: Target, q: MeanField | Mixture, n: int, rng: Rng, keep: int
) -> Reweighted:
    """Return n draws of q reweighted to the posterior; at most `keep` subsets are listed."""
    masks = q.sample(n, rng)
    first, group = distinct(masks)
    log_ratios = target.model.log_ratio_many(masks[first])[group]
    return reweight(masks, log_ratios, target.prior.log_prob(masks), q.log_prob(masks), keep)


def reweight(
    masks: Mask, log_ratios: Floats, log_prior: Floats, log_q: Floats, keep: int
) -> Reweighted:
    """Weigh draws (S, p) of q by p(z)Λ(z)/q(z). log_q must be normalised over the support the draws
    come from."""
    log_weights = log_prior + log_ratios - log_q
    k, smoothed = pareto_smoothed(log_weights)
    weights = np.exp(smoothed - logsumexp(smoothed))
    first, group = distinct(masks)
    probability = np.bincount(group, weights=weights)
    order = np.lexsort((first, -probability))[:keep]
    order = order[probability[order] > 0]
    return Reweighted(
        inclusion=weighted_shares(masks, weights),
        masks=masks[first[order]],
        log_ratios=log_ratios[first[order]],
        log_probabilities=np.log(probability[order]),
        pareto_k=k,
        ess=float(1.0 / np.sum(weights**2)),
        log_evidence=float(logsumexp(log_weights) - np.log(len(masks))),
        outside=masks[first[log_ratios[first] == -np.inf]],
        undecided=float(np.mean(log_ratios == -np.inf)),
    )


def pareto_smoothed(log_weights: Floats) -> tuple[float, Floats]:
    """Return Pareto-k̂ and smoothed log weights.

    The largest weights are replaced by quantiles of a generalised Pareto distribution fitted to
    them. k̂ is -inf if the largest weights are equal, and inf if a few relevant draws exceed all
    others.

    References
    ----------
    Vehtari, A., Simpson, D., Gelman, A., Yao, Y. and Gabry, J. (2024), Pareto smoothed importance
    sampling, Journal of Machine Learning Research 25, arXiv:1507.02646.
    """
    n = len(log_weights)
    centred = log_weights - log_weights.max()
    n_tail = min(max(int(min(0.2 * n, 3 * np.sqrt(n))), _FEWEST_IN_TAIL - 1), n - 1)
    order = np.argsort(centred, kind="stable")
    cutoff = centred[order[n - n_tail - 1]]
    tail = order[centred[order] > cutoff + _TIE]
    if len(tail) < _FEWEST_IN_TAIL:
        weights = np.exp(centred)
        return (
            np.inf if weights[tail].sum() > _NEGLIGIBLE * weights.sum() else -np.inf
        ), log_weights
    if np.ptp(centred[tail]) <= _TIE:
        return -np.inf, log_weights
    excess = np.exp(centred[tail]) - np.exp(cutoff)
    if excess[_lower_quarter(len(excess))] == 0.0:
        return np.inf, log_weights
    k, sigma = _fit_generalised_pareto(excess)
    quantile = (np.arange(1, len(tail) + 1) - 0.5) / len(tail)
    spread = -np.log1p(-quantile) if abs(k) < 1e-12 else np.expm1(-k * np.log1p(-quantile)) / k
    smoothed = centred.copy()
    smoothed[tail] = np.minimum(np.log(np.exp(cutoff) + sigma * spread), 0.0)
    return float(k), smoothed + log_weights.max()


def _fit_generalised_pareto(sorted_excess: Floats) -> tuple[float, float]:
    """Shape and scale by the empirical-Bayes estimate of Zhang & Stephens (2009), with its weak
    prior on the shape."""
    n = len(sorted_excess)
    m = 30 + int(np.sqrt(n))
    grid = 1.0 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))
    theta = grid / (3.0 * sorted_excess[_lower_quarter(n)]) + 1.0 / sorted_excess[-1]
    shape = np.log1p(-theta[:, None] * sorted_excess).mean(axis=1)
    log_likelihood = n * (-np.log(_scale(theta, shape, sorted_excess)) - shape - 1.0)
    weight = np.exp(log_likelihood - logsumexp(log_likelihood))
    best = float(weight @ theta)
    k = float(np.log1p(-best * sorted_excess).mean())
    sigma = float(_scale(np.array(best), np.array(k), sorted_excess))
    return (n * k + 5.0) / (n + 10.0), sigma


def _lower_quarter(n: int) -> int:
    return int(n / 4 + 0.5) - 1


def _scale(theta: Floats, shape: Floats, excess: Floats) -> Floats:
    """-shape / theta; at theta = 0, which tied weights hit, the distribution is exponential."""
    return np.divide(-shape, theta, out=np.full_like(theta, excess.mean()), where=theta != 0.0)


class Missed(NamedTuple):
    """mass: posterior probability of all subsets to which q gives less than a fiftieth of theirs;
    mask (p,), probability: of the most probable of them"""

    mass: float
    mask: Mask
    probability: float


def missed_in_table(space: FreeSpace, q: MeanField) -> Missed:
    """Return exactly what q misses, if all subsets are known."""
    known = np.flatnonzero(space.table_log_joint > -np.inf)
    log_joint = space.table_log_joint[known]
    log_posterior = log_joint - logsumexp(log_joint)
    return _missed(
        q, space.target.masks(space.table_draws[known]), log_posterior, np.exp(log_posterior)
    )


def missed_at_modes(target: Target, q: MeanField, modes: Mask, n_draws: int, rng: Rng) -> Missed:
    """Estimated by draws from q and from around each of modes (m, p), which see what draws from q
    alone do not."""
    local = [around(target, mode) for mode in modes]
    wide = Mixture((q, *local), np.append(0.5, np.full(len(local), 0.5 / len(local))))
    seen = reweight_draws(target, wide, n_draws, rng, n_draws)
    log_posterior = target.log_joint(seen.masks, seen.log_ratios) - seen.log_evidence
    return _missed(q, seen.masks, log_posterior, np.exp(seen.log_probabilities))


def _missed(q: MeanField, masks: Mask, log_posterior: Floats, weights: Floats) -> Missed:
    """masks (S, p): distinct; log_posterior (S,): of each; weights (S,): the part of the posterior
    it stands for"""
    rare = q.log_prob(masks) < log_posterior + np.log(MISSED_SHARE)
    worst = int(np.argmax(np.where(rare, log_posterior, -np.inf)))
    return Missed(
        float(weights[rare].sum()), masks[worst], float(np.exp(min(log_posterior[worst], 0.0)))
    )


class VariationalPosterior(Posterior):
    """Hold the mean-field approximation q of the posterior.

    `log_evidence` is its ELBO, a lower bound. Probabilities are those of q; `reweighted` corrects
    them by importance weights, as far as these reach (see `diagnostics`).
    """

    @property
    def elbo(self) -> float:
        return self.log_evidence

    @property
    def reweighted(self) -> Posterior:
        """Return the posterior as importance-weighted draws of q estimate it."""
        stored = dict(self.diagnostics["reweighted"])
        subsets = stored.pop("subsets")
        masks = np.zeros((len(subsets), self.n_features), dtype=bool)
        for row, members in zip(masks, subsets, strict=True):
            row[members] = True
        log_probabilities = np.array(stored["log_probabilities"])
        kept = [note for note in self.notes if not note.startswith(_AT_LEAST)]
        about = (
            "feature_names",
            "n_subsets",
            "prior",
            "model",
            "outcome_name",
            "environments",
            "counts",
        )
        return Posterior(
            **{name: getattr(self, name) for name in about} | stored,
            masks=masks,
            entropy=float(-(np.exp(log_probabilities) * log_probabilities).sum()),
            engine="variational inference, importance-reweighted",
            notes=(_WEIGHED.format(self.diagnostics["effective_draws"]), *kept),
        )


@dataclass(frozen=True, eq=False)
class ApproximateSource(SubsetSource):
    """Answers for any subset under q."""

    q: MeanField

    def log_probability(self, masks: Mask) -> Floats:
        return self.q.log_prob(masks)

    def sample(self, n: int, rng: Rng) -> Mask:
        return self.q.sample(n, rng)
