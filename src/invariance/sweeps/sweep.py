"""A sweep: every column in turn is the outcome of all others, from one set of second moments.

The sufficient statistics of the linear Gaussian model, centred sums of products of each environment
and of the pool, are the same for every outcome; only the column that is predicted changes.
"""

from __future__ import annotations

import copy
import pickle
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
from sklearn.base import clone

from .._tools.arrays import Fields
from .._tools.json import written
from .._tools.parallel import n_workers, run_tasks
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.sections import Rendered, Section
from .._tools.text import duration, shorten
from .._version import __version__
from ..data.checks import check_whole_number, did_you_mean, largest_size, nearest, quoted, warn
from ..data.columns import frame_names
from ..data.settings import Columns, Environments, listed_names
from ..data.structure import is_columns, refuse_design
from ..decisions.decision import NO_LEVEL
from ..decisions.levels import LEFT_FREE
from ..decisions.pipeline import FitSettings, as_baseline, generator
from ..decisions.rules import as_rule
from ..estimators.bip import BIP
from ..exceptions import DataError, Message, SettingError, WrongTypeError, use
from ..inference.base import RunOptions, Target, as_engine
from ..inference.variational import Variational
from ..inference.variational_device import Job, SharedScatter, as_device, each_posterior
from ..models.base import Level
from ..models.gaussian import LinearGaussian
from ..models.likelihood import ByLikelihood
from ..models.registry import GAUSSIAN, ByOutcome, as_family, two_valued
from ..models.regression import Regression
from ..priors import BetaBinomialPrior, InclusionPrior, as_prior
from .data import SweepData, check_processes, read_sweep_data
from .edges import NAME_WIDTH, pairs_table
from .fitting import INVARIANT, VERDICTS, Rows, Sweep, fit_outcome, model_for
from .store import Store

LARGEST_SUBSET = 20
_IRRELEVANT = {"n_jobs", "progress", "random_state", "columns", "predict_with", "regressor"}
_VAGUE = (" at 0x", "...", "array(")
_MOST_PAIRS = 10
_MOST_FAILED = 5


def settings_of(model: BIP) -> dict[str, str]:
    """Return the settings that results depend on as text.

    It is a hash if the text would be an address in memory or omit digits.
    """
    texts = {
        name: repr(value)
        for name, value in model.get_params(deep=False).items()
        if name not in _IRRELEVANT
    }
    for name, shown in texts.items():
        value = getattr(model, name)
        if not isinstance(value, str) and any(sign in shown for sign in _VAGUE):
            try:
                texts[name] = f"{type(value).__qualname__} {joblib.hash(value)}"
            except (pickle.PicklingError, AttributeError, TypeError):
                what = f"a sweep cannot tell {shown}, which {name}= holds, from another of its kind"
                raise SettingError(
                    f"{what}: write a __repr__ for its class that shows its settings."
                ) from None
    return texts


@dataclass(frozen=True, eq=False, repr=False)
class SweepRun(Rendered):
    """results : of the outcomes that were asked for; seconds, n_now : of this session; n_before :
    outcomes that earlier sessions had finished; workers : who did it"""

    results: pd.DataFrame
    seconds: float
    n_now: int
    n_before: int
    workers: str

    @property
    def _outcomes(self) -> pd.DataFrame:
        """Return the first row of each outcome."""
        return self.results.drop_duplicates("outcome")

    @property
    def _failed(self) -> dict[str, str]:
        """Return the reasons why outcomes could not be fitted."""
        failed = self._outcomes[self._outcomes["feature"].isna()]
        return dict(zip(failed["outcome"], failed["verdict"], strict=True))

    @property
    def verdicts(self) -> dict[str, int]:
        """Return the number of outcomes with each verdict, or failed."""
        verdict = self._outcomes["verdict"].where(self._outcomes["feature"].notna(), "failed")
        counts = verdict.value_counts()
        return {word: int(counts[word]) for word in (*VERDICTS, "failed") if word in counts}

    @property
    def levels(self) -> dict[str, int]:
        """Return the number of outcomes with each level of invariance."""
        counts = self._outcomes["level"].value_counts()
        return {level: int(counts[level]) for level in (*Level, NO_LEVEL) if level in counts}

    def to_json(self, path: str | Path | None = None) -> str:
        """Strict JSON, also written to `path`: counts; the results are in the folder."""
        content = {
            "format": "invariance.sweep/2",
            "n_outcomes": len(self._outcomes),
            "n_now": self.n_now,
            "n_before": self.n_before,
            "seconds": self.seconds,
            "workers": self.workers,
            "verdicts": self.verdicts,
            "levels": self.levels,
            "failed": self._failed,
        }
        return written(content, path)

    @property
    def sections(self) -> Iterator[Section]:
        """Yield the numbers of verdicts, the strongest pairs, and failures."""
        n = len(self._outcomes)
        before = f"; {self.n_before:,} there before" if self.n_before else ""
        took = f"{self.n_now:,} of them now, in {duration(self.seconds)} by {self.workers}{before}"
        yield Section(f"Sweep over {n:,} outcome{'s' * (n != 1)}: {took}.")
        shown = tuple((word, f"{count:,}") for word, count in self.verdicts.items())
        free = sum(self.levels.get(level, 0) for level in LEFT_FREE)
        of = f"{free:,} outcome{'s' * (free != 1)}"
        told = f"Of {of} effects alone are invariant: baselines differ between environments."
        yield Section(
            "Verdict on the selected features", table=shown, notes=(told,) if free else ()
        )
        selected = self.results[self.results["selected"]]
        chosen = selected["outcome"].nunique()
        each = f", {len(selected) / chosen:.1f} on average" if chosen else ""
        yield Section(f"Some features are selected for {chosen:,} of {n:,} outcomes{each}.")
        invariant = selected[selected["verdict"].isin(INVARIANT)]
        by_inclusion = invariant.assign(shown=invariant["inclusion"].round(3))
        strongest = by_inclusion.sort_values(["shown", "r2"], ascending=False, kind="stable")[
            :_MOST_PAIRS
        ]
        pairs = pairs_table(strongest, inclusion=".3f", p_invariant=".2g")
        if pairs:
            title = "Strongest pairs, selected and at least weakly invariant"
            share = (
                "Inclusion is a share among compatible subsets, which controls no errors: "
                "`invariance edges` does."
            )
            yield Section(title, table=pairs, notes=(share,), text_columns=(0, 1))
        reasons = [f"{shorten(name, NAME_WIDTH)}: {told}" for name, told in self._failed.items()]
        if reasons:
            more = len(reasons) - _MOST_FAILED
            others = [f"and {more:,} more"] if more > 0 else []
            yield Section("Failed", notes=(*reasons[:_MOST_FAILED], *others))
        yield Section(
            "P-values come from second moments alone and take noise for Gaussian: where tails are "
            "heavy, or "
            "outcomes are counts, they reject too often. Fit such an outcome by itself to correct "
            "for that."
        )


def sweep(
    table: Any,
    model: BIP | None = None,
    *,
    environments: Any = None,
    columns: Columns | None = None,
    outcomes: Sequence[str] | None = None,
    perturbed: Any = None,
    allow_unmeasured: bool = False,
    out: str | Path | None = None,
    top: int | None = 20,
    n_jobs: int | None = None,
    device: str | None = None,
    dask: str | None = None,
    random_state: int = 0,
    progress: ProgressMode = "auto",
    **how_to_read: Any,
) -> pd.DataFrame:
    """Fit every column as the outcome of all others, from second moments that are computed once.

    Parameters
    ----------
    table : data frame, path, MultiEnvironmentData or Moments
        The columns. A path is that of a .csv, .tsv or .parquet file.
    model : BIP, default=None
        Settings of every fit. None is `BIP(prior=BetaBinomialPrior(max_size=20))`, with a smaller
        size if an environment has too few rows: exact while that is fast, tempering for many
        features.
    environments : array-like of shape (n,) or str, default=None
        Label of each row, or the name of the column of labels.
    columns : Columns, default=None
        How the table is read. None is as the model states.
    outcomes : sequence of str, default=None
        Names of the outcomes. None is every numeric column that is a feature by itself; categories,
        splines and groups are features only.
    perturbed : str or array-like of shape (n,), default=None
        Name of a column, or one entry for each row: the column that was intervened on in that row,
        None for no column. Several are joined, "G001;G002" (also by , | + & or /). A row is not
        used for the outcomes that it perturbs.
    allow_unmeasured : bool, default=False
        Whether `perturbed` may name columns that are not in the table; such rows are used for every
        outcome.
    out : str or Path, default=None
        Folder of the results, a Parquet data set that the same call continues after an interruption
        (extra `parquet`). None does not write.
    top : int, default=20
        Features of each outcome in the result, by inclusion probability, in addition to the
        selected ones. None is all.
    n_jobs : int, default=None
        Processes of one thread each. None is one, -1 all cores. The result does not depend on it.
    device : str, default=None
        "cuda" runs variational inference (`engine`) for many outcomes at once on a GPU, with random
        numbers that differ from those of a processor; n_jobs are then threads. It needs the extra
        `gpu`.
    dask : str, default=None
        Address of a Dask scheduler that does the work. The result does not depend on it.
    random_state : int, default=0
        Seed. The seed of a fit depends on it and the name of the outcome only, so that neither the
        order nor the other outcomes matter.
    progress : {"auto", True, False} or callable, default="auto"
        "auto" shows a bar in terminals and notebooks if the wait exceeds two seconds. A function is
        called with the fraction of the outcomes that are done and "sweep".
    **how_to_read : Any
        Arguments missing, features, exclude, categorical, numeric, groups, weights,
        drop_environments, merge_environments and min_rows of `MultiEnvironmentData.from_table`.
        What the model states of categorical, numeric, groups and weights counts as well.

    Returns
    -------
    DataFrame
        One row for each outcome and listed feature, by outcome, then by inclusion:

        - outcome, feature, inclusion (probability), selected;
        - paper_inclusion: inclusion probability of the posterior by invariance alone;
        - p_edge: see `edges`;
        - verdict on the selected features: "invariant", "weakly invariant", "effects invariant",
          "effects weakly invariant", "not invariant" or "not judged";
        - level of their invariance: "full", "effects", "effects, noise free" or "none";
        - p_invariant and r2 of these (within environments below the full level);
        - seconds, notes.

        An outcome that cannot be fitted has one row without a feature, and the reason as its
        verdict.

    Raises
    ------
    DataError
        If the table cannot be read.
    SettingError
        If a setting is unknown or impossible.
    WrongTypeError
        If an argument is unknown.
    FileError
        If the folder cannot be written or belongs to another sweep.

    See Also
    --------
    edges : List the edges of a sweep with control of false discoveries.
    read_sweep : Read the table of a sweep from its folder.

    Notes
    -----
    P-values are from second moments alone and assume Gaussian noise: with heavy tails they reject
    too often. Fit such an outcome by `BIP.fit`, which corrects for that.

    Outcomes for which no subset is compatible with the same baseline in all environments are
    compared by effects only (`baseline` of the model); on a device baselines are shared.

    Second moments take 8 (E + 1) d² bytes for d columns in E environments, and twice as much unless
    baselines are shared. Processes share one more copy, and each takes as much again while it fits
    an outcome that excludes some rows.

    Examples
    --------
    >>> from invariance import sweep
    >>> from invariance.datasets import make_example
    >>> table = sweep(make_example(), outcomes=["blood_pressure"])
    >>> sorted(table.feature[table.selected])
    ['age', 'exercise', 'smoking']
    """
    settings = checked_model(model, device, dask)
    chosen, select, missing = _reading(
        columns or (None if model is None else model.columns), how_to_read
    )
    labels = environments if environments is not None or chosen is None else chosen.environment
    if is_columns(labels, frame_names(table), table):
        refuse_design(labels, "a sweep")
    data = read_sweep_data(table, labels, perturbed, chosen, select, missing, allow_unmeasured)
    folder = None if out is None else Path(out).expanduser()
    run = run_sweep(
        data, settings, outcomes, folder, top, n_jobs, dask, random_state, progress, device
    )
    failed = run.results["outcome"][run.results["feature"].isna()]
    if len(failed):
        counted = f"{len(failed):,} of {run.results['outcome'].nunique():,} outcomes"
        warn(f"{counted} could not be fitted, and their verdict says why: {quoted(failed)}")
    return run.results


_COLUMNS = ("features", "exclude", "categorical", "numeric", "groups", "weights")
_ENVIRONMENT_SETTINGS = {
    "drop_environments": "drop",
    "merge_environments": "merge",
    "min_rows": "min_rows",
}


def _reading(
    columns: Columns | None, given: Fields
) -> tuple[Columns | None, Environments | None, str | None]:
    """Return how a table is read; None if it is not stated."""
    known = (*_COLUMNS, *_ENVIRONMENT_SETTINGS, "missing")
    for name in given:
        if name not in known:
            raise WrongTypeError(
                f"sweep() got an unexpected keyword argument {name!r}{did_you_mean(name, known)}"
            )
    of_columns = {name: given[name] for name in _COLUMNS if name in given}
    chosen = replace(columns or Columns(), **of_columns) if columns or of_columns else None
    of_environments = {
        field: given[name] for name, field in _ENVIRONMENT_SETTINGS.items() if name in given
    }
    select = Environments(**of_environments) if of_environments else None
    return chosen, select, given.get("missing")


def run_sweep(
    data: SweepData,
    model: BIP | None,
    outcomes: Sequence[str] | None,
    folder: Path | None,
    top: int | None,
    jobs: int | None,
    dask: str | None,
    seed: int,
    progress: ProgressMode,
    device: str | None = None,
) -> SweepRun:
    """Run the sweep over a table that was read."""
    wanted = _outcomes(data, outcomes)
    check_whole_number("random_state", seed, 0)
    if top is not None:
        check_whole_number("top", top, 1)
    model = clone(model or BIP(prior=BetaBinomialPrior(max_size=largest_subset(data))))
    if model.deviations == "auto":
        # Whatever the rows are: random ones take too long for thousands of features.
        model.set_params(deviations="free")
    task = Sweep(data, model, None if top is None else int(top), int(seed))
    if isinstance(as_family(task.model.family), ByOutcome):
        columns = enumerate(data.moments.columns)
        classes = [name for j, name in columns if name in wanted and two_valued(data.moments, j)]
        if classes:
            what = f"two values each: {quoted(classes)}. A sweep fits the linear Gaussian model"
            warn(Message(f"{what}; to say that it is meant", use(family=GAUSSIAN)))
    if device is not None:
        checked_engine(task, device)
        as_device(device)
    workers_here = 1 if dask is not None else min(n_workers(jobs), len(wanted))
    frees = device is None and not FitSettings.of(model, generator(seed)).shares_baselines
    check_processes(data, workers_here, frees)
    if frees:
        _ = data.moments.within  # which outcomes and processes share
    processes = 1 if device is not None else workers_here
    store = Store(folder, {} if folder is None else _identity(task, device))
    started = time.perf_counter()
    with store.open() as done:
        left = [name for name in wanted if name not in done]
        bar = ProgressBar("sweep", len(left), progress)
        if device is None:
            kept = "Finished outcomes are kept"
            workers, entries = run_tasks(
                fit_outcome, left, shared=task, jobs=processes, dask=dask, kept=kept
            )
        else:
            workers = f"device {as_device(device)}"
            entries = on_device(
                task,
                left,
                device,
                jobs,
                lambda share: bar.advance(0, f"gradient ascent {share:.0%}"),
            )
        begun = time.perf_counter()
        with bar, closing(entries):
            for n, rows in enumerate(entries, 1):
                store.add(rows)
                bar.advance(1, f"{60 * n / (time.perf_counter() - begun):.3g} a minute")
        results = store.results()
    results = results[results["outcome"].isin(wanted)].reset_index(drop=True)
    seconds = time.perf_counter() - started
    return SweepRun(results, seconds, len(left), len(wanted) - len(left), workers)


def largest_subset(data: SweepData, deviations: str = "free") -> int:
    """Return the default largest size of subsets.

    It is 20 features, or fewer if an environment (for random deviations, all together) has few
    rows.
    """
    moments = data.moments
    if deviations == "random":
        return min(LARGEST_SUBSET, largest_size([moments.n_rows], moments.varying_widths[-1:]))
    return min(LARGEST_SUBSET, moments.largest_size)


def checked_model(model: Any, device: str | None, dask: str | None) -> BIP | None:
    """Return the model without settings of tables; raise if it cannot be fitted to moments."""
    if device is not None and dask is not None:
        raise SettingError(
            "device= is for this machine and dask= for a cluster", use(device=None), use(dask=None)
        )
    if model is None:
        return None
    if not isinstance(model, BIP):
        raise WrongTypeError(
            f"a sweep fits a BIP, not {type(model).__name__}: pass one with the settings, or None."
        )
    if model.regressor is not None:
        raise SettingError(
            "a regressor needs rows, and a sweep keeps their second moments only",
            use(regressor=None),
        )
    as_baseline(model.baseline, as_rule(model.select), model.engine)
    family = as_family(model.family)
    prior = as_prior(model.prior)
    if isinstance(family, Regression | ByLikelihood):
        needs = (
            f"{type(family).__name__} needs the rows, and a sweep keeps their second moments only"
        )
        raise SettingError(needs, use(family=GAUSSIAN))
    if isinstance(prior, InclusionPrior) and isinstance(prior.probabilities, tuple):
        what = (
            "inclusion probabilities by position fit no sweep, in which every outcome has "
            "other features"
        )
        raise SettingError(what, use(prior=InclusionPrior({"age": 0.9})))
    if not isinstance(model.engine, str) or model.engine != "auto":
        as_engine(model.engine)
    without: BIP = clone(model).set_params(columns=None)
    return without


def _outcomes(data: SweepData, asked: Sequence[str] | None) -> list[str]:
    possible = data.moments.possible_outcomes
    if asked is None:
        return list(possible)
    names = list(dict.fromkeys(listed_names("outcomes", asked)))
    if not names:
        raise SettingError("outcomes is an empty list", use(" for all", outcomes=None))
    for name in names:
        if name in data.moments.groups:
            raise DataError(
                f"{name!r} is made of levels or of several columns: it is a feature, and no "
                "outcome."
            )
        if name not in possible and name not in data.moments.constants:
            raise DataError(
                f"outcome column {name!r} is not among those of the sweep; "
                f"{nearest(name, possible)}"
            )
    return names


def _identity(task: Sweep, device: str | None) -> Fields:
    """All that the contents of the results depend on; a device has random numbers of its own."""
    settings = settings_of(task.model) | ({} if device is None else {"device": True})
    return {
        "sweep": __version__,
        **settings,
        "seed": task.seed,
        "top": task.top,
        **task.data.identity,
    }


def checked_engine(sweep: Sweep, device: str) -> Variational:
    """Return the engine that the device runs; raise if it cannot do what the sweep requires."""
    engine = sweep.model.engine
    family = as_family(sweep.model.family)
    engine = engine if engine == "auto" else as_engine(engine)
    if not isinstance(engine, Variational):
        raise SettingError(
            f"device={device!r} does variational inference", use(engine="vi"), use(device=None)
        )
    if sweep.model.deviations == "random":
        raise SettingError(
            f"device={device!r} knows free deviations", use(deviations="free"), use(device=None)
        )
    plain = isinstance(family, LinearGaussian) and family.invariance == "distribution"
    if not plain and not isinstance(family, ByOutcome):
        what = (
            f"device={device!r} knows the linear Gaussian model of the whole distribution, not "
            f"{family!r}"
        )
        raise SettingError(what, use(family=GAUSSIAN), use(device=None))
    names = list(sweep.data.moments.groups)
    if names:
        what = f"device={device!r} knows features of one column, not {quoted(names)}"
        raise SettingError(what, use(exclude=names), use(device=None))
    return engine


def on_device(
    sweep: Sweep,
    outcomes: Sequence[str],
    device: str,
    n_jobs: int | None,
    report: Callable[[float], object],
) -> Generator[Rows, None, None]:
    """Yield what is kept of each outcome; n_jobs : threads that finish it; report : as in
    `each_posterior`."""
    engine = checked_engine(sweep, device)
    shared = SharedScatter(sweep.data.moments, as_device(device))
    jobs = (_job(sweep, outcome, shared) for outcome in outcomes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # What does not suit the device, such as an outcome that cannot be fitted at all, is fitted
        # here.
        yield from each_posterior(engine, jobs, shared, partial(fit_outcome, sweep), n_jobs, report)


def _job(sweep: Sweep, outcome: str, shared: SharedScatter) -> Job:
    model, _ = model_for(sweep, outcome)
    rng = generator(model.random_state)
    settings = FitSettings.of(model, rng)
    removed = sweep.data.removal(outcome)[0]

    def target() -> Target:
        moments = sweep.data.reduced(outcome, scatter=False)
        if moments is None:
            raise DataError(
                f"the rows that perturb {outcome!r} are far from the others, which have to be "
                "seen again."
            )
        bound = shared.on_device(settings.family.bind(moments, 1), removed)
        return settings.target_of(bound, moments)

    return Job(outcome, target, removed, RunOptions(1, copy.deepcopy(rng), False))
