"""Variational inference: its gradient steps, compiled and not, its bound, starts and settings, and
what it misses."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy.special import expit

from conformance_cases import Plain
from invariance import (
    BIP,
    BetaBinomialPrior,
    InclusionPrior,
    LinearGaussian,
    Moments,
    MultiEnvironmentData,
    UniformPrior,
    Variational,
)
from invariance.exceptions import ApproximationWarning, EngineError, SettingError
from invariance.inference import mean_field
from invariance.inference.base import Target, as_engine
from invariance.inference.mean_field import Cyclical, FreeSpace, MeanField, Mixture, climb, measured
from invariance.inference.mode_search import around, log_joint_changes, with_swaps
from invariance.inference.variational import VariationalPosterior, missed_at_modes, missed_in_table
from invariance.kernels.mean_field import (
    CompiledScorer,
    Objective,
    Trace,
    ascend,
    make_step,
    score_draws,
)
from invariance.models.base import BoundModel
from invariance.screening import LassoScreen, Screening
from quadratic_toy import Toy, run, with_sum
from reference_data import load_reference, reference_files
from twins import all_masks, simulated, u2g_estimates

pytestmark = pytest.mark.filterwarnings("ignore::invariance.exceptions.ApproximationWarning")


def fit(
    model: BoundModel, prior, engine: Variational | None = None, seed: int = 0
) -> VariationalPosterior:
    return run(model, prior, engine or Variational(), seed)


# Steps


@pytest.mark.parametrize("analytic", [True, False])
@pytest.mark.parametrize(
    "prior",
    [UniformPrior(), InclusionPrior([0.2, 0.7, 0.5, 0.9]), BetaBinomialPrior(1, 3)],
    ids=str,
)
def test_compiled_steps_are_the_plain_algorithm(prior, analytic: bool) -> None:
    """The ascent kernel against U2G in NumPy on the same uniforms: ELBO gradients, all priors, both
    KL terms."""
    model = LinearGaussian().bind(simulated(4, (20, 25), seed=40))
    bound = prior.bind(model.feature_names)
    space = FreeSpace(Target(model, bound))
    rng = np.random.default_rng(5)
    uniforms = rng.random((3, 7, 4))
    rates = np.array([2.0, 5.0, 1.0])
    logits = np.array([0.3, -0.5, 0.0, 1.0])
    plain = logits.copy()
    for t in range(3):
        q = expit(plain)

        def objective(draws: np.ndarray, at: np.ndarray = plain) -> np.ndarray:
            values = model.log_ratio_many(draws) + bound.log_size_weight[draws.sum(axis=1)]
            return values if analytic else values + draws @ (bound.log_odds - at)

        step = u2g_estimates(objective, plain, uniforms[t]).mean(axis=0)
        if analytic:
            step = step + q * (1 - q) * (bound.log_odds - plain)
        plain = plain + rates[t] * step / 45.0
    trace = Trace(*np.empty((3, 3)), np.empty((3, 4)))
    scorer = space.scorer(64, searching=True)
    aim = Objective(bound.log_odds, bound.log_size_weight, 4, 45.0, np.nan)
    ascend(logits, uniforms, rates, np.full(3, analytic), aim, np.zeros(1), scorer, trace)
    np.testing.assert_allclose(logits, plain, rtol=1e-9)
    assert (trace.feasible == 1.0).all()


@pytest.mark.parametrize("analytic", [True, False])
@pytest.mark.parametrize("infeasible", [np.nan, -2.0])
def test_one_step_with_draws_outside_the_support(analytic: bool, infeasible: float) -> None:
    """The kernel against plain NumPy, where draws are -inf, NaN, or of a size without weight."""
    f = 5
    n_pairs = 30
    n_rows = 25.0
    rng = np.random.default_rng(0)
    uniforms = rng.random((n_pairs, f))
    values = -10.0 * rng.random(1 << f)
    values[3] = -np.inf
    values[9] = np.nan
    log_odds = rng.normal(size=f)
    by_size = np.array([0.1, -0.2, 0.3, -0.4, 0.5, -np.inf])
    logits = rng.normal(size=f)
    q = expit(logits)

    def at(draws: np.ndarray) -> np.ndarray:
        return values[draws @ (1 << np.arange(f))] + by_size[draws.sum(axis=1)]

    draws = np.stack([uniforms > 1.0 - q, uniforms < q], axis=1).reshape(-1, f)
    plain = at(draws)
    known = plain > -np.inf
    worst = 1.1 * min(plain[known].min(), -7.0) if np.isnan(infeasible) else infeasible * n_rows

    def objective(draws: np.ndarray) -> np.ndarray:
        inside = np.where(at(draws) > -np.inf, at(draws), worst)
        return inside if analytic else inside + draws @ (log_odds - logits)

    step = u2g_estimates(objective, logits, uniforms).mean(axis=0)
    step = step + q * (1 - q) * (log_odds - logits) if analytic else step
    means = np.where(known, plain, worst).reshape(-1, 2).mean(axis=1)
    moved = logits.copy()
    lowest = np.array([-7.0])
    asked = values[draws @ (1 << np.arange(f))]
    arguments = Objective(log_odds, by_size, f, n_rows, infeasible)
    result = make_step(moved, q, draws, asked, 3.0, analytic, arguments, lowest, np.empty(f))
    np.testing.assert_allclose(moved, logits + 3.0 * step / n_rows, rtol=1e-12)
    np.testing.assert_allclose(
        result, [means.mean(), means.std() / np.sqrt(n_pairs), known.mean()], rtol=1e-9
    )
    assert lowest[0] == min(plain[known].min(), -7.0)
    assert 0.0 < known.mean() < 1.0


def ascent(model: BoundModel, prior, memory: int = 1 << 12) -> mean_field.Ascent:
    space = FreeSpace(Target(model, prior.bind(model.feature_names)))
    rng = np.random.default_rng(0)
    engine = Variational(
        iterations=120, pairs=10, kl_analytic_probability=0.5, leading=3, memory=memory
    )
    climbed = climb(space, np.full(len(space.target.prior.free), -1.5), rng, engine)
    return measured(space, climbed, rng, 200, space.scorer(memory, searching=False))


def same_ascent(one: mean_field.Ascent, two: mean_field.Ascent, rtol: float = 0.0) -> None:
    for name in ("logits", "iteration", "elbo", "elbo_error", "feasible"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=rtol, err_msg=name)
    for trace, other in zip(one.trace[1:], two.trace[1:], strict=True):
        np.testing.assert_allclose(trace, other, rtol=rtol)


@pytest.mark.parametrize(
    ("prior", "rtol"),
    [(UniformPrior(6), 0.0), (InclusionPrior({"x1": 0.8, "x2": 1.0, "x9": 0.0}, max_size=5), 1e-9)],
    ids=["free", "forced"],
)
def test_batches_make_the_ascent_of_the_kernel(prior, rtol: float) -> None:
    """The same draws, scores and steps, to the last bit, whether the model has a compiled scorer or
    not.

    Where features are forced in, the order in which columns are swept differs, and with it the
    rounding.
    """
    model = LinearGaussian().bind(simulated(19, (40, 50), seed=1))
    compiled = ascent(model, prior)
    assert len(np.unique(compiled.trace.elbo)) > 100
    assert 0.0 < compiled.trace.feasible.min() < 1.0
    for memory in (1, 1 << 12):
        same_ascent(compiled, ascent(Plain(model), prior, memory), rtol)
    same_ascent(compiled, ascent(model, prior, 2))


# Scoring of draws


def test_draws_that_are_too_large_are_never_scored() -> None:
    """Values for searching lead the ascent; ELBO and posterior are of log Λ."""

    class Led(Toy):
        def search_ratio_many(self, masks: ArrayLike) -> np.ndarray:
            return np.maximum(self.log_ratio_many(masks), -50.0)

    model = Led(20, hole=(1, 4))
    draws = np.random.default_rng(0).random((400, 20)) < 0.15
    space = FreeSpace(Target(model, UniformPrior(4).bind(20)))
    small = draws.sum(axis=1) <= 4
    values, searching = (
        space.log_ratios(draws, space.scorer(1000, searching)) for searching in (False, True)
    )
    assert np.concatenate(model.asked).sum(axis=1).max() == 4
    np.testing.assert_array_equal(values, np.where(small, model.log_ratio_many(draws), np.nan))
    np.testing.assert_array_equal(searching, np.maximum(values, -50.0))
    assert (values == -np.inf).any()


COLLINEAR = LinearGaussian().bind(Moments.from_data(with_sum(simulated(4, (30, 35), seed=3))))


def test_a_model_says_what_collinear_columns_cost_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled and asked, the values of collinear draws are the same, and follow the model's
    penalty."""
    model = COLLINEAR
    monkeypatch.setattr(mean_field, "_LOOK_UP", 0)
    space = FreeSpace(Target(model, UniformPrior().bind(5)))
    draws = all_masks(5)
    values = {}
    for penalty in (0.05, 0.5):
        monkeypatch.setattr(type(model), "search_penalty", penalty)
        scorer = space.scorer(64, searching=True)
        assert isinstance(scorer, CompiledScorer)
        values[penalty] = space.log_ratios(draws, scorer)
        np.testing.assert_array_equal(values[penalty], model.search_ratio_many(draws))
    undecidable = draws[:, [0, 1, 4]].all(axis=1)
    np.testing.assert_array_equal(values[0.05][~undecidable], values[0.5][~undecidable])
    np.testing.assert_allclose(values[0.5][undecidable] / values[0.05][undecidable], 1.5 / 1.05)
    assert np.isnan(space.log_ratios(draws, space.scorer(64, searching=False))[undecidable]).all()


# The bound


@pytest.mark.parametrize("max_size", [5, 2])
@pytest.mark.parametrize(
    "model",
    [LinearGaussian().bind(simulated(5, (15, 20), seed=42)), COLLINEAR],
    ids=["plain", "collinear"],
)
def test_error_of_the_elbo_covers(
    model: LinearGaussian, max_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over 200 measurements of one q the deviations from its exact ELBO are as large as the
    reported errors say."""
    space = FreeSpace(Target(model, UniformPrior(max_size).bind(5)))
    logits = np.array([1.0, 0.5, -0.5, 1.5, 0.3])
    climbed = mean_field.Climb([mean_field.Iterate(0.0, 0, logits)], *np.empty((3, 0)))
    scorer = space.scorer(64, searching=False)
    known_elbo = measured(space, climbed, np.random.default_rng(0), 1, scorer)
    assert known_elbo.elbo_error == 0.0

    masks = all_masks(5)
    log_ratios = np.empty(32)
    score_draws(masks, max_size, scorer, log_ratios)
    values = log_ratios + space.target.prior.log_prob(masks)
    known = np.isfinite(values)
    product = np.where(masks, expit(logits), 1 - expit(logits)).prod(axis=1)
    q = product[known] / product[known].sum()
    assert known_elbo.elbo == pytest.approx(q @ (values[known] - np.log(q)), rel=1e-9)
    assert known_elbo.feasible == pytest.approx(product[known].sum(), rel=1e-9)

    monkeypatch.setattr(mean_field, "_LOOK_UP", 0)
    space = FreeSpace(Target(model, UniformPrior(max_size).bind(5)))
    rng = np.random.default_rng(1)
    scorer = space.scorer(64, searching=False)
    fits = [measured(space, climbed, rng, 400, scorer) for _ in range(200)]
    deviations = np.array([(one.elbo - known_elbo.elbo) / one.elbo_error for one in fits])
    assert 0.85 < deviations.std() < 1.15
    assert abs(deviations.mean()) < 0.25


# Whole runs


def test_more_features_than_a_table_holds() -> None:
    model = Toy(19, seed=1, strength=8.0, hole=(1, 4))
    prior = InclusionPrior({"x1": 0.6, "x2": 1, "x9": 0}, max_size=4)
    truth = run(model, prior)
    posterior = fit(model, prior, Variational(iterations=300))
    np.testing.assert_array_equal(posterior.reweighted.mode_mask, truth.mode_mask)
    assert posterior.elbo <= truth.log_evidence + 4 * posterior.diagnostics["elbo_error"] + 1e-9
    if posterior.diagnostics["missed_mass"] < 0.05 and posterior.diagnostics["pareto_k"] < 0.7:
        np.testing.assert_allclose(posterior.reweighted.inclusion, truth.inclusion, atol=0.05)
    for masks in (posterior.masks, posterior.reweighted.masks):
        assert not masks[:, model.hole].all(axis=1).any()


def test_posterior_of_a_run() -> None:
    posterior = fit(
        LinearGaussian().bind(simulated(10, (60, 70))), UniformPrior(), Variational(iterations=200)
    )
    q = posterior.inclusion
    expected = np.where(posterior.mode_mask, q, 1 - q).prod()
    assert posterior.probability(posterior.mode) == pytest.approx(expected, rel=1e-9)
    trace = posterior.diagnostics["trace"]
    assert {start: len(found["elbo"]) for start, found in trace.items()} == dict.fromkeys(
        ("informative", "searched", "uninformative"), 200
    )
    again = VariationalPosterior.from_json(posterior.to_json())
    np.testing.assert_array_equal(again.reweighted.inclusion, posterior.reweighted.inclusion)
    assert again.diagnostics["trace"] == trace
    for one in (posterior, again):
        ax = one.plot("trace", Figure().add_subplot())
        *lines, chosen = ax.get_lines()
        assert [line.get_ydata().tolist() for line in lines] == [
            trace[start]["elbo"] for start in trace
        ]
        assert chosen.get_xydata().tolist() == [
            [posterior.diagnostics["chosen_iteration"], posterior.elbo]
        ]
    with pytest.raises(SettingError, match="top=3"):
        again.plot("trace", top=3)
    with pytest.raises(SettingError, match="ELBO"):
        posterior.reweighted.plot("trace")


@pytest.mark.parametrize("name", [name for name in reference_files() if name.endswith("E10")])
def test_reference_modes(name: str) -> None:
    """The mode that another implementation of the algorithm found; its ELBO is a noisy maximum,
    above the evidence."""
    reference = load_reference(name)
    posterior = BIP(engine=Variational.simulation(), random_state=0).fit(reference.data).posterior_
    assert np.flatnonzero(posterior.mode_mask).tolist() == reference.results["bip_vi"]["mode"]
    assert posterior.elbo <= reference.results["bip_exact"]["log_evidence"] + 1e-6


def test_nothing_to_end_with() -> None:
    """A model that knows single features only, and a start that never draws one."""

    class Singles(Toy):
        def log_ratio_many(self, masks: ArrayLike) -> np.ndarray:
            return np.where(np.sum(masks, axis=1) <= 1, super().log_ratio_many(masks), -np.inf)

    with pytest.raises(EngineError) as refused:
        fit(
            Singles(20),
            UniformPrior(),
            Variational(starts=("uninformative",), inclusion=0.9, iterations=20),
        )
    assert [dict(remedy.settings) for remedy in refused.value.args[0].remedies] == [
        {"engine": "tempering"}
    ]


# Settings


def test_schedules() -> None:
    rates = Cyclical(base=0.5, maximum=10, steps_up=500).rates(2001)
    assert rates[[0, 250, 500, 1000, 1500, 2000]].tolist() == [0.5, 5.25, 10.0, 0.5, 10.0, 0.5]
    halved = Cyclical(base=0.5, maximum=10, steps_up=500, halve=True).rates(2500)
    assert halved[[500, 1500, 2499]].tolist() == pytest.approx(
        [10.0, 5.25, 0.5 + 9.5 * 0.25 * 499 / 500]
    )


def test_presets_are_the_published_settings() -> None:
    common = {"infeasible": -1.0}
    simulation = {
        "iterations": 2000,
        "pairs": 20,
        "kl_analytic_probability": 1.0,
        "rest": 0.1,
        "screen": "lasso",
    }
    simulation |= {
        "starts": ("uninformative", "informative"),
        "screened": 10,
        "schedule": Cyclical(1.0, 10.0, 500),
    }
    genes = {
        "iterations": 10_000,
        "pairs": 10,
        "inclusion": 0.02,
        "kl_analytic_probability": 0.5,
        "draws": 5,
    }
    genes |= {"starts": ("uninformative",), "schedule": Cyclical(0.5, 10.0, 500, halve=True)}
    for preset, published in (
        (Variational.simulation(), simulation),
        (Variational.genes(draws=5), genes),
    ):
        for name, value in (common | published).items():
            assert getattr(preset, name) == value, name
    assert repr(as_engine("vi-simulation")) == repr(Variational.simulation())
    assert repr(as_engine("vi-genes")) == repr(Variational.genes())


def test_published_start_with_450_features() -> None:
    """20 allowed and ten screened: 0.1 elsewhere would expect 49."""
    data = MultiEnvironmentData.from_arrays(
        np.random.default_rng(0).normal(size=(40, 450)), np.arange(40.0) % 7
    )
    space = FreeSpace(Target(LinearGaussian().bind(data), UniformPrior(20).bind(450)))
    kept = np.arange(450) < 10
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            LassoScreen, "screen", lambda self, data: Screening(kept, np.zeros(450), False)
        )
        starts = Variational.simulation()._starts(space, kept[None])
    assert starts["uninformative"] == pytest.approx(0.04)
    np.testing.assert_allclose(starts["informative"], np.where(kept, 0.5, 13 / 440))
    assert round(13 / 440, 4) == 0.0295


def test_raw_lasso_is_led_by_units() -> None:
    data = simulated(12, (60, 70), seed=2)
    small = (
        data.X[:, 0] * 1e-6
    )  # the outcome follows it, in a coefficient that a penalty on raw features cannot afford
    X = np.column_stack([small, data.X[:, 1:]])
    y = 2e6 * small + data.X[:, 1]
    model = LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, y, data.environment_index))
    settings = {"starts": ("informative",), "screened": 3}
    space = FreeSpace(Target(model, UniformPrior().bind(12)))
    first = {
        screen: Variational.simulation(screen=screen, **settings)._starts(
            space, model.data.X[:1] > 9
        )["informative"][0]
        for screen in ("lasso", "raw_lasso")
    }
    assert first["lasso"] == 0.5
    assert first["raw_lasso"] < 0.5


def starts_of(engine: Variational, modes: np.ndarray) -> dict[str, np.ndarray]:
    """Inclusion probabilities of 40 features, at most 10 in a subset"""
    model = LinearGaussian().bind(simulated(40, (60, 70), seed=43))
    return engine._starts(FreeSpace(Target(model, UniformPrior(10).bind(40))), modes)


def test_starting_points() -> None:
    mask = np.arange(40) < 3
    modes = np.zeros((3, 40), dtype=bool)
    for engine in (Variational(), Variational.simulation()):
        starts = starts_of(engine, mask[None])
        assert starts["uninformative"] == pytest.approx(0.9 * 10 / 40)
        assert 1 <= np.isclose(starts["informative"], 0.5).sum() <= 10
        assert starts["informative"].sum() <= 0.9 * 10 + 1e-9
    np.testing.assert_allclose(
        starts_of(Variational(), mask[None])["searched"], np.where(mask, 0.9, 0.01)
    )
    # The screen takes the best subsets in turn.
    modes[0, [7, 8, 9]] = modes[1, [1, 8]] = modes[2, [0, 30]] = True
    for screened, passed in ((10, [0, 1, 7, 8, 9, 30]), (4, [1, 7, 8, 9]), (1, [7, 8, 9])):
        start = starts_of(Variational(starts=("informative",), screened=screened), modes)[
            "informative"
        ]
        assert np.flatnonzero(np.isclose(start, 0.5)).tolist() == passed
        assert start[start < 0.5] == pytest.approx(1 / (start < 0.5).sum())


@pytest.mark.parametrize(
    ("engine", "named"),
    [
        (Variational(iterations=0), "iterations=0"),
        (Variational(kl_analytic_probability=1.5), "kl_analytic_probability=1.5"),
        (Variational(starts=("lucky",)), "'uninformative', 'informative', 'searched'"),
        (Variational(screen="ridge"), "screen='ridge'"),
        (Variational(infeasible="low"), "infeasible='low'"),
        (Variational(starts=()), "starts=()"),
    ],
)
def test_bad_settings(engine: Variational, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        fit(LinearGaussian().bind(simulated(4)), UniformPrior(), engine)


def test_only_the_lasso_screen_needs_rows() -> None:
    model = LinearGaussian().bind(Moments.from_data(simulated(20, (40, 50))))
    with pytest.raises(EngineError) as refused:
        fit(model, UniformPrior(5), Variational.simulation())
    assert [dict(remedy.settings) for remedy in refused.value.args[0].remedies] == [
        {"engine": "vi(screen=search)"}
    ]
    assert "informative" in set(
        fit(model, UniformPrior(5), Variational(iterations=50)).diagnostics["trace"]
    )


# What an approximation misses, and whether it says so


def near_duplicates(p: int, seed: int) -> MultiEnvironmentData:
    """Two causes, each with a feature that is nearly the same, and a consequence."""
    rng = np.random.default_rng(seed)
    site = np.repeat([0, 1, 2], 40)
    X = (
        rng.normal(size=(120, p)) * rng.uniform(0.5, 2.0, (3, p))[site]
        + rng.normal(size=(3, p))[site]
    )
    y = X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=120)
    X[:, 2:4] = X[:, :2] + 0.05 * rng.normal(size=(120, 2))
    X[:, 4] = y * rng.uniform(0.5, 1.5, 3)[site] + rng.normal(size=120)
    return MultiEnvironmentData.from_arrays(X, y, site)


@pytest.mark.parametrize(
    ("p", "engine"),
    [
        (6, Variational(iterations=300)),
        (18, Variational.simulation(iterations=300)),
    ],
    ids=["default", "simulation"],
)
def test_no_wrong_probability_in_silence(p: int, engine: Variational) -> None:
    """Inclusion after reweighting is right to 0.1, or there is a warning, which the notes of both
    posteriors keep."""
    prior = UniformPrior(4)
    warned = 0
    for seed in range(24 // p + 1):
        model = LinearGaussian().bind(near_duplicates(p, seed))
        truth = run(model, prior)
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            posterior = fit(model, prior, engine, seed)
        doubts = [str(w.message) for w in raised if issubclass(w.category, ApproximationWarning)]
        off = np.abs(posterior.reweighted.inclusion - truth.inclusion).max()
        assert off < 0.1 or doubts
        assert set(doubts) <= set(posterior.notes)
        assert set(doubts) <= set(posterior.reweighted.notes)
        warned += bool(doubts)
    assert warned > 0


@pytest.mark.parametrize(("p", "seed"), [(6, 0), (18, 1)])
def test_a_good_approximation_is_not_doubted(p: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    site = np.repeat([0, 1, 2], 100)
    X = (
        rng.normal(size=(300, p)) * rng.uniform(0.5, 2.0, (3, p))[site]
        + 2.0 * rng.normal(size=(3, p))[site]
    )
    y = X[:, 0] - X[:, 1] + rng.normal(size=300)
    model = LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, y, site))
    prior = BetaBinomialPrior(max_size=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ApproximationWarning)
        posterior = fit(model, prior)
    np.testing.assert_allclose(
        posterior.reweighted.inclusion, run(model, prior).inclusion, atol=0.05
    )


def missed_by_definition(model: LinearGaussian, prior, q) -> float:
    masks = all_masks(model.n_features)
    log_joint = model.log_ratio_many(masks) + prior.log_prob(masks)
    posterior = np.exp(log_joint - np.logaddexp.reduce(log_joint))
    return float(posterior[np.exp(q.log_prob(masks)) < posterior / 50].sum())


@pytest.mark.parametrize(
    "prior", [UniformPrior(3), InclusionPrior({"x1": 0.9, "x5": 1.0, "x4": 0.0})], ids=str
)
def test_missed_mass(prior) -> None:
    """Exactly from the table; by draws around the modes about the same; nothing for q as wide as
    the posterior."""
    model = LinearGaussian().bind(near_duplicates(6, 1))
    bound = prior.bind(6)
    space = FreeSpace(Target(model, bound))
    modes = with_swaps(space.target, space.table_modes(most=1))
    hard = np.where(bound.forced_in, np.inf, np.where(bound.forced_out, -np.inf, 0.0))
    one = MeanField(
        np.where(np.isfinite(hard), np.where(modes[0], 9.0, -9.0), hard), bound.max_size
    )
    wide = MeanField(hard, bound.max_size)
    expected = missed_by_definition(model, bound, one)
    missed = missed_in_table(space, one)
    assert missed.mass == pytest.approx(expected, abs=1e-12)
    assert missed.mass > 0.2
    assert missed.probability == pytest.approx(run(model, prior).probability(missed.mask), rel=1e-6)
    searched = missed_at_modes(space.target, one, modes, 4000, np.random.default_rng(0))
    assert searched.mass == pytest.approx(expected, abs=0.05)
    np.testing.assert_array_equal(searched.mask, missed.mask)
    for q in (wide, Mixture((one, wide), np.array([0.3, 0.7]))):
        assert missed_in_table(space, q).mass == missed_by_definition(model, bound, q) < 0.05
        assert missed_at_modes(space.target, q, modes, 2000, np.random.default_rng(0)).mass < 0.05


def reached(model: LinearGaussian, prior, mode: np.ndarray, mask: np.ndarray) -> bool:
    """Whether the product around a mode gives a subset at least a fiftieth of its probability
    relative to the mode."""
    both = np.array([mode, mask])
    law = around(Target(model, prior), mode).log_prob(both)
    true = model.log_ratio_many(both) + prior.log_prob(both)
    return bool(np.diff(law - true)[0] >= -np.log(50))


def two_for_one() -> MultiEnvironmentData:
    """x0 is nearly x1 + x2."""
    rng = np.random.default_rng(5)
    site = np.repeat([0, 1, 2], 60)
    X = (
        rng.normal(size=(180, 18)) * rng.uniform(0.5, 2.0, (3, 18))[site]
        + rng.normal(size=(3, 18))[site]
    )
    X[:, 0] = X[:, 1] + X[:, 2] + 0.02 * rng.normal(size=180)
    y = X[:, 0] + X[:, 3] + 0.5 * rng.normal(size=180)
    return MultiEnvironmentData.from_arrays(X, y, site)


@pytest.mark.parametrize(
    ("data", "first", "others"),
    [
        (near_duplicates(20, 2), [0, 1], [[0, 3], [1, 2], [2, 3]]),
        (two_for_one(), [0, 3], [[1, 2, 3]]),
    ],
    ids=["duplicates", "two for one"],
)
def test_swaps_lead_to_where_the_others_are_in_reach(
    data: MultiEnvironmentData, first: list[int], others: list[list[int]]
) -> None:
    model = LinearGaussian().bind(data)
    p = data.n_features
    prior = UniformPrior(5).bind(p)
    mode = np.isin(np.arange(p), first)
    found = with_swaps(Target(model, prior), mode[None])
    value = model.log_ratio_many(found) + prior.log_prob(found)
    assert (np.diff(value) <= 0).all()
    assert value[0] - value[-1] < 8
    assert len(found) <= 24
    assert not any(reached(model, prior, better, mask) for better, mask in combinations(found, 2))
    for other in others:
        mask = np.isin(np.arange(p), other)
        assert not reached(model, prior, mode, mask)
        assert any((one == mask).all() or reached(model, prior, one, mask) for one in found)


@pytest.mark.parametrize(
    "prior",
    [
        UniformPrior(3),
        BetaBinomialPrior(1, 3, max_size=4),
        InclusionPrior({"x0": 0.8, "x2": 1.0, "x4": 0.0}),
    ],
)
def test_changes_by_single_flips(prior) -> None:
    model = LinearGaussian().bind(simulated(5, (20, 25), seed=9))
    bound = prior.bind(model.feature_names)
    for mask in all_masks(5):
        start = model.log_ratio_many(mask[None])[0] + bound.log_prob(mask)[0]
        if start > -np.inf:
            flipped = mask ^ np.eye(5, dtype=bool)
            expected = model.log_ratio_many(flipped) + bound.log_prob(flipped) - start
            np.testing.assert_allclose(
                log_joint_changes(Target(model, bound), mask), expected, rtol=1e-7, atol=1e-7
            )
    everything = np.ones(5, dtype=bool)
    assert (
        log_joint_changes(Target(COLLINEAR, UniformPrior().bind(5)), everything) == -np.inf
    ).all()


def test_poor_approximation_is_announced() -> None:
    """After a single step q is nearly flat over 4,096 subsets while the posterior holds to a few of
    them."""
    model = LinearGaussian().bind(simulated(12, (60, 70), seed=47))
    with pytest.warns(ApproximationWarning, match="Pareto k̂") as raised:
        posterior = fit(model, UniformPrior(), Variational(iterations=1, draws=400))
    remedies = raised[-1].message.args[0].remedies
    assert [dict(remedy.settings) for remedy in remedies] == [{"engine": "exact"}]
    assert posterior.diagnostics["pareto_k"] > 0.7
    assert posterior.notes[1:] == posterior.reweighted.notes[1:]
    with_notes = replace(posterior, notes=("3 rows were dropped", *posterior.notes))
    assert "3 rows were dropped" in with_notes.reweighted.notes
    assert posterior.notes[0] not in with_notes.reweighted.notes


def test_modes_in_a_table() -> None:
    model = LinearGaussian().bind(near_duplicates(5, 7))
    modes = FreeSpace(Target(model, UniformPrior().bind(5))).table_modes()
    assert len(modes) > 1
    assert model.log_ratio(modes[0]) == pytest.approx(model.log_ratio_many(all_masks(5)).max())
    assert all((model.flip_neighbours(mode) <= 1e-9).all() for mode in modes)


def test_probability_outside_the_support_is_announced() -> None:
    """Moments of two features that only rows could tell apart."""
    rng = np.random.default_rng(0)
    environment = np.repeat(range(4), 100)
    X = rng.normal(size=(400, 4)) + rng.normal(size=(4, 4))[environment]
    X[:, 1] = X[:, 0] + 1e-6 * rng.normal(size=400)
    y = X[:, 0] + 0.5 * rng.normal(size=400)
    model = LinearGaussian().bind(
        Moments.from_data(MultiEnvironmentData.from_arrays(X, y, environment))
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = fit(model, UniformPrior(), Variational())
    both = posterior.sample(4000, random_state=0).to_numpy()[:, :2].all(axis=1).mean()
    assert posterior.diagnostics["undecided_mass"] == pytest.approx(both, abs=0.05)
    assert any("cannot be scored" in str(one.message) for one in caught) == (both >= 0.05)


@pytest.mark.parametrize(
    "starts", [("uninformative",), ("uninformative", "searched")], ids=["given", "searched"]
)
def test_modes_that_nobody_looked_for_are_not_known(starts: tuple[str, ...]) -> None:
    model = LinearGaussian().bind(simulated(101, (60, 60), seed=3))
    posterior = fit(model, UniformPrior(max_size=6), Variational(starts=starts, iterations=50))
    assert (posterior.diagnostics["missed_mass"] is None) == ("searched" not in starts)
    assert any("no search" in note for note in posterior.notes) == ("searched" not in starts)
