"""Variational inference for many outcomes at once gives each what it would have alone."""

from __future__ import annotations

import gc
import time
import weakref
from dataclasses import replace
from threading import Semaphore

import numpy as np
import pytest

from invariance import (
    InclusionPrior,
    LinearGaussian,
    Moments,
    MultiEnvironmentData,
    UniformPrior,
    Variational,
)
from invariance._tools.parallel import ordered_map
from invariance.exceptions import EngineError
from invariance.inference.base import RunOptions, Target
from invariance.models.invariance_test import Tolerance
from invariance.sweeps.data import SweepData
from twins import simulated

torch = pytest.importorskip("torch")

from invariance.inference import variational_device as batched
from invariance.inference.variational_device import (
    GaussianOnDevice,
    Job,
    SharedScatter,
    Start,
    climb_together,
    each_posterior,
)
from invariance.kernels.device import ascent as scoring
from invariance.kernels.device.ascent import ascend, with_prior_and_entropy

ENGINE = Variational(
    iterations=120, pairs=6, starts=("uninformative",), fresh=300, draws=500, leading=3
)
NONE = np.zeros((0, 3, 21))
WHERE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

pytestmark = pytest.mark.filterwarnings("ignore::invariance.exceptions.ApproximationWarning")


@pytest.fixture(scope="module")
def moments() -> Moments:
    return Moments.from_data(simulated(20, (70, 90), seed=5))


@pytest.fixture(scope="module")
def shared(moments: Moments) -> SharedScatter:
    return SharedScatter(moments, WHERE)


def job(moments: Moments, name: str, prior=None) -> Job:
    turned = moments.with_outcome(name)
    prior = UniformPrior(6) if prior is None else prior

    def target() -> Target:
        model = LinearGaussian().bind(turned)
        return Target(model, prior.bind(turned.feature_names, model.largest_size))

    seed = moments.columns.index(name)
    return Job(name, target, NONE, RunOptions(rng=np.random.default_rng(seed), progress=False))


def posteriors(engine: Variational, jobs, shared: SharedScatter, n_jobs=None):
    return each_posterior(
        engine, jobs, shared, lambda name, found: (name, found and found.posterior), n_jobs
    )


def found(
    moments: Moments,
    shared: SharedScatter,
    n: int = 5,
    engine: Variational = ENGINE,
    n_jobs=None,
    prior=None,
):
    jobs = [job(moments, name, prior) for name in moments.columns[:n]]
    return dict(posteriors(engine, jobs, shared, n_jobs))


def same(one, two) -> bool:
    """To the last bit on a CUDA device. On a processor the last bit of σ depends on where in memory
    a number lies."""
    error = 0.0 if WHERE.type == "cuda" else 1e-8
    return all(
        np.allclose(one[name].inclusion, two[name].inclusion, rtol=0.0, atol=error)
        and abs(one[name].elbo - two[name].elbo) <= error
        for name in two
    )


def test_neither_batches_nor_threads_matter(
    moments, shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = found(moments, shared)
    assert list(together) == list(moments.columns[:5])
    assert same(together, found(moments, shared, n_jobs=2))
    monkeypatch.setattr(batched, "LARGEST_BATCH", 2)
    assert same(together, found(moments, shared))
    assert same(together, found(moments, shared, 1))


def test_a_batch_that_is_too_large_is_halved(
    moments, shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = found(moments, shared)
    sizes = []
    climb = batched.climb_together

    def short_of_memory(engine, starts, where, report):
        sizes.append(len(starts))
        if len(starts) > 2:
            raise torch.OutOfMemoryError("full")
        return climb(engine, starts, where, report)

    monkeypatch.setattr(batched, "climb_together", short_of_memory)
    assert same(together, found(moments, shared))
    assert sizes == [5, 2, 3, 1, 2]


def test_one_outcome_that_is_too_large_is_named(
    moments, shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(engine, starts, where, report):
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(batched, "climb_together", full)
    with pytest.raises(EngineError, match=r"too little memory for one outcome \(x0\)"):
        found(moments, shared)


def test_it_comes_to_what_the_processor_comes_to(moments, shared) -> None:
    """Other random numbers, the same algorithm: the ELBOs agree within their errors."""
    engine = Variational(iterations=600, pairs=10, starts=("uninformative",), fresh=2000)
    for name, posterior in found(moments, shared, 3, engine).items():
        own = job(moments, name)
        alone = engine.run(own.target(), own.options)
        errors = [one.diagnostics["elbo_error"] for one in (posterior, alone)]
        assert posterior.elbo == pytest.approx(alone.elbo, abs=0.3 + 4.0 * sum(errors))
        np.testing.assert_allclose(posterior.inclusion, alone.inclusion, atol=0.35)


def test_what_the_device_cannot_score_is_left_to_the_processor() -> None:
    """Copies: a draw with both is undecidable from moments."""
    data = simulated(19, (70, 90), seed=5)
    X = np.column_stack([data.X, data.X[:, 0]])
    names = [f"x{j}" for j in range(20)]
    copies = Moments.from_data(
        MultiEnvironmentData.from_arrays(X, data.y, data.environment_index, feature_names=names)
    )
    assert list(posteriors(ENGINE, [job(copies, "y")], SharedScatter(copies, WHERE))) == [
        ("y", None)
    ]


def test_a_job_without_a_target_is_left_to_others(moments, shared) -> None:
    from invariance.exceptions import DataError

    def none() -> Target:
        raise DataError("constant")

    broken = Job("x0", none, NONE, RunOptions(progress=False))
    assert list(posteriors(ENGINE, [broken], shared)) == [("x0", None)]
    fewer = moments.of_columns((*moments.columns[:9], moments.outcome_name))
    assert list(posteriors(ENGINE, [job(fewer, "x0")], shared)) == [("x0", None)]


def starts_of(moments: Moments, engine: Variational, n: int = 4, prior=None) -> list[Start]:
    starts = []
    for name in moments.columns[:n]:
        waiting = batched._prepared(
            engine, job(moments, name, prior), SharedScatter(moments, WHERE)
        )
        assert isinstance(waiting, batched._Waiting)
        starts += waiting.starts
    return starts


def test_a_climb_is_what_one_stretch_would_be(moments, shared) -> None:
    """Four outcomes: each as if it were alone, in one stretch, with its own leaders."""
    engine = Variational(
        iterations=120, pairs=3, starts=("uninformative",), leading=3, kl_analytic_probability=0.5
    )
    climbs = climb_together(engine, starts_of(moments, engine), shared)
    for start, climb in zip(starts_of(moments, engine), climbs, strict=True):
        steps = len(climb.elbo)
        objectives, state, constant = batched.on_device(engine, [start], 21, WHERE)
        analytic = torch.as_tensor(start.analytic[:steps, None], device=WHERE)
        rates = engine.schedule.rates(engine.iterations)[:steps].tolist()
        stretch = ascend(
            shared.problem([start.outcome]), objectives, state, 0, rates, analytic, engine.pairs
        )
        elbo = with_prior_and_entropy(objectives, stretch, constant)[:, 0].cpu().numpy()
        error = stretch.error[:, 0].cpu().numpy()
        logits = stretch.logits[:, 0].cpu().numpy()[:, start.columns]
        np.testing.assert_allclose(climb.elbo, elbo, rtol=0, atol=1e-6)
        promise = elbo - 2.0 * error
        best = np.argsort(-promise, kind="stable")[:3]
        assert [iterate.iteration for iterate in climb.leaders] == [*best, steps - 1]
        np.testing.assert_allclose(
            [iterate.promise for iterate in climb.leaders[:-1]], promise[best], rtol=0, atol=1e-6
        )
        for iterate in climb.leaders:
            np.testing.assert_allclose(iterate.logits, logits[iterate.iteration], rtol=0, atol=1e-6)
        assert steps == 120


def test_where_one_start_cannot_be_scored_none_is_taken(
    moments, shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Variational(
        iterations=50, pairs=2, starts=("uninformative", "searched"), fresh=50, draws=50
    )
    waiting = batched._prepared(engine, job(moments, "x0"), shared)
    climbs = climb_together(engine, waiting.starts, shared)
    monkeypatch.setattr(
        batched, "climb_together", lambda engine, starts, where, report: [None, climbs[1]]
    )
    (climbed,) = batched._together(engine, [waiting], shared, print)
    assert climbed.climbs == (None, climbs[1])
    assert batched._finished(engine, climbed) is None


def test_the_share_of_the_iterations_is_reported(moments, shared) -> None:
    shares: list[float] = []
    list(
        each_posterior(
            ENGINE, [job(moments, "x0")], shared, lambda *found: found, report=shares.append
        )
    )
    assert shares == pytest.approx([50 / 120, 100 / 120, 1.0])


def test_a_model_without_a_scatter_answers_as_one_with_all_moments(moments, shared) -> None:
    """Three rows of another environment are taken out of the second moments of all rows."""
    data = simulated(20, (70, 90), seed=5)
    rng = np.random.default_rng(1)
    gone = np.array([72, 80, 100])
    kept = np.delete(np.arange(data.n_rows), gone)
    fewer = Moments.from_data(
        MultiEnvironmentData.from_arrays(data.X[kept], data.y[kept], data.environment_index[kept])
    )
    perturbing = {moments.outcome_name: tuple(gone.tolist())}
    source = SweepData(moments, data, perturbing)
    empty = source.reduced(moments.outcome_name, scatter=False)
    assert empty.scatter.size == 0
    model = GaussianOnDevice(empty, shared, source.removal(moments.outcome_name)[0])
    expected = LinearGaussian().bind(fewer)
    masks = rng.random((40, 20)) < 0.3
    tolerance = Tolerance()
    for name in ("log_ratio_many", "gain_many", "excess_kurtosis", "search_ratio_many", "r2_many"):
        found, wanted = (getattr(one, name)(masks) for one in (model, expected))
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8, err_msg=name)
    for found, wanted in zip(
        model.invariance_test(masks, tolerance),
        expected.invariance_test(masks, tolerance),
        strict=True,
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)
    assert (model.nearly_outcome() == expected.nearly_outcome()).all()
    np.testing.assert_allclose(
        model.complete.moments.scatter, expected.moments.scatter, rtol=1e-9, atol=1e-9
    )


def test_copies_of_all_moments_are_not_kept_for_a_batch(moments, shared) -> None:
    """Neither those of searches for starts nor those that are made when an outcome is decided; one
    takes 0.9 GB for 6,170 columns."""
    engine = replace(ENGINE, iterations=50, starts=("uninformative", "searched"))
    waiting = batched._prepared(engine, job(moments, "x0"), shared)
    assert isinstance(waiting, batched._Waiting)
    assert "complete" not in vars(waiting.target.model)
    copies = []

    def alive(name, found) -> int:
        copies.append(weakref.ref(found.target.model.complete))
        gc.collect()
        return sum(copy() is not None for copy in copies)

    jobs = [job(moments, name) for name in moments.columns[:3]]
    assert list(each_posterior(engine, jobs, shared, alive)) == [1, 1, 1]


def test_searches_cost_on_a_device_what_they_cost_on_the_processor(moments, shared) -> None:
    model = GaussianOnDevice(moments, shared, NONE)
    assert model.flip_steps(5.0) == LinearGaussian().bind(moments).flip_steps(5.0)


def test_rewards_for_prediction_stay_on_a_device(moments, shared) -> None:
    model = LinearGaussian(prediction=0.1).bind(moments)
    masks = np.random.default_rng(0).random((30, 20)) < 0.3
    found = GaussianOnDevice(moments, shared, NONE, prediction=0.1)
    np.testing.assert_allclose(
        found.log_ratio_many(masks), model.log_ratio_many(masks), rtol=0, atol=1e-8
    )
    np.testing.assert_allclose(
        found.untilted.log_ratio_many(masks), model.untilted.log_ratio_many(masks), atol=1e-8
    )
    undecided = found.complete.log_ratio_many(masks), found.untilted.complete.log_ratio_many(masks)
    np.testing.assert_allclose(undecided[0], model.log_ratio_many(masks), rtol=0, atol=1e-8)
    np.testing.assert_allclose(
        undecided[1], model.untilted.log_ratio_many(masks), rtol=0, atol=1e-8
    )


@pytest.mark.parametrize("work", [1, 3 * 8 * 3 * 84**2])
def test_subsets_are_scored_a_few_at_a_time(
    moments, shared, monkeypatch: pytest.MonkeyPatch, work: int
) -> None:
    model = LinearGaussian().bind(moments)
    masks = np.random.default_rng(0).random((10, 20)) < np.linspace(0.0, 1.0, 10)[:, None]
    sizes = []
    score = scoring.log_ratios

    def counted(problem, subsets):
        sizes.append(len(subsets.size))
        return score(problem, subsets)

    monkeypatch.setattr(batched, "_WORK_BYTES", work)
    monkeypatch.setattr(scoring, "log_ratios", counted)
    found = GaussianOnDevice(moments, shared, NONE).log_ratio_many(masks)
    assert sizes == ([1] * 10 if work == 1 else [3, 3, 3, 1])
    np.testing.assert_allclose(found, model.log_ratio_many(masks), rtol=0, atol=1e-8)


def test_threads_score_one_after_another(moments, shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one of them has on the device is all that is there beside the moments."""
    at_work = Semaphore(1)
    score = scoring.log_ratios

    def alone(problem, subsets):
        assert at_work.acquire(blocking=False)
        try:
            time.sleep(0.002)
            return score(problem, subsets)
        finally:
            at_work.release()

    monkeypatch.setattr(scoring, "log_ratios", alone)
    model = LinearGaussian().bind(moments)
    masks = np.random.default_rng(0).random((40, 5, 20)) < 0.3
    on_device = GaussianOnDevice(moments, shared, NONE)
    found = list(ordered_map(on_device.log_ratio_many, masks, 4))
    np.testing.assert_allclose(
        np.concatenate(found), model.log_ratio_many(np.concatenate(masks)), rtol=0, atol=1e-8
    )


def test_an_outcome_with_something_wrong_does_not_stop_the_others(moments, shared) -> None:
    """A prior of inclusion names the outcome itself."""
    engine = Variational(iterations=50, pairs=2, fresh=50, draws=50)
    got = found(moments, shared, 3, engine, prior=InclusionPrior({"x1": 0.5}, max_size=6))
    assert got["x1"] is None
    assert got["x0"] is not None
    assert got["x2"] is not None
