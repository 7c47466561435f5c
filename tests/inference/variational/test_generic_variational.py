"""Variational inference on models without compiled abilities, and its two ways to the same ascent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.special import expit

from invariance import BetaBinomialPrior, Enumeration, InclusionPrior, LinearGaussian, UniformPrior, Variational
from invariance.data import MultiEnvironmentData
from invariance.data.features import Features
from invariance.exceptions import EngineError
from invariance.inference.base import RunOptions, Target
from invariance.inference.variational.ascent import Ascent, Cyclical, FreeSpace, ScoredDraws, climb, measured
from invariance.kernels.mean_field import CompiledScorer, Objective, make_step
from invariance.models.base import BoundModel, Description, Fit, Null, Prediction
from invariance.models.gaussian import GaussianOnDemand
from twins import all_masks, simulated, u2g_estimates
from variational_fit import fit

pytestmark = pytest.mark.filterwarnings("ignore::invariance.exceptions.ApproximationWarning")


class Toy(BoundModel):
    """log Λ = −d'Ad − 1 with d = |z − best| and A ≥ 0: highest at `best`. Subsets that hold all of `hole` have none."""

    def __init__(self, p: int, best: list[int], hole: tuple[int, ...] = (), seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.best = np.isin(np.arange(p), best)
        self.costs = np.diag(rng.uniform(1.5, 4.0, p)) + rng.uniform(0.0, 0.3, (p, p))
        self.hole = hole
        self.asked: list[np.ndarray] = []

    @property
    def features(self) -> Features:
        return Features.single(f"x{j}" for j in range(len(self.best)))

    def describe(self) -> Description:
        return Description("toy", "y", ("a", "b"), np.array([20, 30]))

    def log_ratio_many(self, masks: ArrayLike) -> np.ndarray:
        z = np.asarray(masks, dtype=bool)
        self.asked.extend(z)
        distance = (z ^ self.best).astype(float)
        holed = z[:, self.hole].all(axis=1) if self.hole else np.zeros(len(z), dtype=bool)
        return np.where(holed, -np.inf, -np.einsum("si,ij,sj->s", distance, self.costs, distance) - 1.0)

    def prediction_many(self, masks: ArrayLike) -> Prediction:
        raise NotImplementedError

    def null_many(self, masks: ArrayLike) -> Null:
        n = len(np.asarray(masks))
        return Null(np.full(n, -np.inf), np.zeros(n), np.zeros(n))

    def fit(self, subset: object) -> Fit:
        raise NotImplementedError


class Plain(Toy):
    """A model of which nothing is known but what is required."""

    def __init__(self, model: BoundModel) -> None:
        self.model = model

    @property
    def features(self) -> Features:
        return self.model.features

    def describe(self) -> Description:
        return self.model.describe()

    def log_ratio_many(self, masks: ArrayLike) -> np.ndarray:
        return self.model.log_ratio_many(masks)

    def null_many(self, masks: ArrayLike) -> Null:
        return self.model.null_many(masks)


def exact(model: BoundModel, prior):
    return Enumeration().run(Target(model, prior.bind(model.feature_names)), RunOptions())


def ascent(model: BoundModel, prior, memory: int = 1 << 12, seed: int = 0) -> Ascent:
    space = FreeSpace(Target(model, prior.bind(model.feature_names)))
    rng = np.random.default_rng(seed)
    climbed = climb(
        space,
        np.full(len(space.free), -1.5),
        rng,
        iterations=120,
        pairs=10,
        schedule=Cyclical(),
        kl_analytic_probability=0.5,
        infeasible=np.nan,
        leading=3,
        patience=None,
        memory=memory,
        report=lambda steps, elbo: None,
    )
    return measured(space, climbed, rng, 200, space.scorer(memory, searching=False))


def same_ascent(one: Ascent, two: Ascent, rtol: float = 0.0) -> None:
    for name in ("logits", "iteration", "elbo", "elbo_error", "feasible", "trace", "trace_error", "trace_feasible"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=rtol, err_msg=name)


@pytest.mark.parametrize(
    "prior",
    [UniformPrior(5), BetaBinomialPrior(1, 2), InclusionPrior({"x1": 0.9, "x2": 0.2, "x5": 1.0, "x7": 0.0})],
    ids=str,
)
def test_few_features(prior) -> None:
    """All subsets in a table: the mode and the probabilities of enumeration."""
    model = Toy(8, [0, 3, 5])
    truth, posterior = exact(model, prior), fit(model, prior, Variational(iterations=300))
    np.testing.assert_array_equal(posterior.mode_mask, truth.mode_mask)
    np.testing.assert_allclose(posterior.reweighted.inclusion, truth.inclusion, atol=0.03)
    assert truth.log_evidence - 1.0 < posterior.elbo <= truth.log_evidence + 1e-9
    assert posterior.diagnostics["missed_mass"] < 0.05


@pytest.mark.parametrize(
    "prior", [UniformPrior(5), InclusionPrior({"x1": 0.6, "x2": 1.0, "x9": 0.0}, max_size=5)], ids=str
)
def test_more_features_than_a_table_holds(prior) -> None:
    model = Toy(20, [2, 7, 11, 19])
    truth, posterior = exact(model, prior), fit(model, prior, Variational(iterations=500))
    np.testing.assert_array_equal(posterior.mode_mask, truth.mode_mask)
    np.testing.assert_array_equal(posterior.mode_mask, model.best)
    np.testing.assert_allclose(posterior.reweighted.inclusion, truth.inclusion, atol=0.05)
    assert posterior.elbo <= truth.log_evidence + 4 * posterior.diagnostics["elbo_error"]
    assert posterior.elbo > truth.log_evidence - 1.5
    assert set(posterior.trace["start"]) == {"uninformative", "informative", "searched"}


def test_mixtures() -> None:
    for p in (8, 20):
        model = Toy(p, [1, 4])
        posterior = fit(model, UniformPrior(4), Variational(iterations=200, components="auto"))
        truth = exact(model, UniformPrior(4))
        np.testing.assert_array_equal(posterior.mode_mask, model.best)
        assert posterior.elbo <= truth.log_evidence + 4 * posterior.diagnostics["elbo_error"]


@pytest.mark.parametrize("p", [8, 20])
def test_seeds_and_threads(p: int) -> None:
    """One seed is one result, whatever the number of threads; another seed is another one."""
    engine, prior = Variational(iterations=100, draws=500), BetaBinomialPrior(1, 2, max_size=5)
    model = Toy(p, [1, 4])
    one, again, two, other = (fit(model, prior, engine, seed, n) for seed, n in ((3, 1), (3, 1), (3, 2), (4, 1)))
    for same in (again, two):
        assert same.trace.equals(one.trace)
        np.testing.assert_array_equal(same.inclusion, one.inclusion)
        np.testing.assert_array_equal(same.reweighted.inclusion, one.reweighted.inclusion)
        assert same.notes == one.notes
    assert not other.trace.equals(one.trace)


@pytest.mark.parametrize(
    ("prior", "rtol"),
    [(UniformPrior(6), 0.0), (InclusionPrior({"x1": 0.8, "x2": 1.0, "x9": 0.0}, max_size=5), 1e-9)],
    ids=["free", "forced"],
)
def test_batches_make_the_ascent_of_the_kernel(prior, rtol: float) -> None:
    """The same draws, scores and steps, to the last bit, whether the model has a compiled scorer or not.

    Where features are forced in, the order in which columns are swept differs, and with it the rounding.
    """
    model = LinearGaussian().bind(simulated(19, (40, 50), seed=1))
    compiled = ascent(model, prior)
    assert len(np.unique(compiled.trace)) > 100
    assert 0.0 < compiled.trace_feasible.min() < 1.0
    for memory in (1, 1 << 12):
        same_ascent(compiled, ascent(Plain(model), prior, memory), rtol)


def test_a_hidden_gaussian_is_the_same_model() -> None:
    few = LinearGaussian().bind(simulated(8, (40, 50), seed=2))
    known, hidden = (fit(model, UniformPrior(), Variational(iterations=200)) for model in (few, Plain(few)))
    np.testing.assert_allclose(hidden.trace["elbo"], known.trace["elbo"], rtol=1e-7)
    np.testing.assert_allclose(hidden.inclusion, known.inclusion, rtol=1e-6)
    many = LinearGaussian().bind(simulated(20, (60, 70), seed=2))
    known, hidden = (fit(model, UniformPrior(5), Variational(iterations=300)) for model in (many, Plain(many)))
    np.testing.assert_array_equal(hidden.mode_mask, known.mode_mask)
    np.testing.assert_allclose(hidden.inclusion, known.inclusion, atol=0.05)
    assert hidden.elbo == pytest.approx(known.elbo, abs=0.3)


@pytest.mark.slow
def test_second_moments_on_demand() -> None:
    data = simulated(19, (40, 50), seed=1)
    prior = UniformPrior(6)
    same_ascent(ascent(GaussianOnDemand(data), prior), ascent(LinearGaussian().bind(data), prior), rtol=1e-6)
    posterior = fit(GaussianOnDemand(data), prior, Variational(iterations=50, draws=100))
    assert np.isfinite(posterior.elbo)


def test_features_of_several_columns() -> None:
    data = simulated(20, (60, 70), seed=4)
    names = data.feature_names
    grouped = Features(("pair", *names[2:]), names, np.array([2, *[1] * 18]))
    model = LinearGaussian().bind(replace(data, feature_names=grouped.names, original_features=(), grouping=grouped))
    assert model.scoring() is None
    posterior = fit(model, UniformPrior(3), Variational(iterations=200))
    flips = np.vstack([posterior.mode_mask, posterior.mode_mask ^ np.eye(19, dtype=bool)])
    values = Target(model, UniformPrior(3).bind(model.feature_names)).log_joint(flips)
    assert values.argmax() == 0


def test_draws_are_scored_once_and_never_when_too_large() -> None:
    model = Toy(20, [1, 4])
    prior = UniformPrior(4).bind(20)
    target = Target(model, prior)
    scorer = FreeSpace(target).scorer(1000, searching=True)
    assert isinstance(scorer, ScoredDraws)
    draws = np.random.default_rng(0).random((400, 20)) < 0.15
    values = scorer.log_ratios(np.repeat(draws, 2, axis=0))[::2]
    np.testing.assert_array_equal(scorer.log_ratios(draws[::-1])[::-1], values)
    small = draws.sum(axis=1) <= 4
    assert len(model.asked) == len(np.unique(draws[small], axis=0))
    assert max(np.sum(model.asked, axis=1)) == 4
    np.testing.assert_array_equal(values[small], model.log_ratio_many(draws[small]))
    assert np.isnan(values[~small]).all()


def test_starts_share_what_was_scored() -> None:
    model = Toy(20, [1, 4])
    space = FreeSpace(Target(model, UniformPrior(4).bind(20)))
    draws = np.eye(20, dtype=bool)
    for searching in (True, False):
        for _ in range(3):
            space.scorer(1000, searching).log_ratios(draws)
    assert len(model.asked) == 2 * 20


def test_a_table_of_small_subsets_only() -> None:
    model = Toy(12, [1, 4])
    fit(model, UniformPrior(2), Variational(iterations=20, draws=50))
    assert max(np.sum(model.asked, axis=1)) <= 2


@pytest.mark.parametrize("p", [8, 20])
def test_subsets_without_a_value(p: int) -> None:
    """They have no probability; the result says that there are some, and which."""
    model, prior = Toy(p, [1, 3, 4], hole=(1, 4)), UniformPrior(5)
    posterior, truth = fit(model, prior, Variational(iterations=300)), exact(model, prior)
    np.testing.assert_array_equal(posterior.mode_mask, truth.mode_mask)
    assert not posterior.masks[:, [1, 4]].all(axis=1).any()
    assert not posterior.reweighted.masks[:, [1, 4]].all(axis=1).any()
    assert posterior.elbo <= truth.log_evidence + 4 * posterior.diagnostics["elbo_error"] + 1e-9
    assert any("the model has no value for {x1, x4" in note for note in posterior.notes)


def test_subsets_without_a_value_that_no_draw_meets() -> None:
    """A table knows of them all the same."""
    posterior = fit(Toy(8, [1, 3], hole=(6, 7)), UniformPrior(), Variational(iterations=300, draws=5))
    assert posterior.diagnostics["undecided_mass"] == 0.0
    assert any("the model has no value for {x6, x7}" in note for note in posterior.notes)


def test_nothing_to_end_with() -> None:
    """A model that knows single features only, and a start that never draws one."""

    class Singles(Toy):
        def log_ratio_many(self, masks: ArrayLike) -> np.ndarray:
            return np.where(np.sum(masks, axis=1) <= 1, super().log_ratio_many(masks), -np.inf)

    with pytest.raises(
        EngineError, match=r"no draw can be scored: the model has no value for \{x0.*engine='tempering'"
    ):
        fit(Singles(20, [1]), UniformPrior(), Variational(initial=np.full(20, 0.9), iterations=20))


def test_the_lasso_needs_rows() -> None:
    with pytest.raises(EngineError, match="needs the rows"):
        fit(Toy(20, [1]), UniformPrior(4), Variational(starts=("informative",), screen="lasso"))


def test_values_for_searching_do_not_count() -> None:
    """They lead the ascent; ELBO and posterior are of log Λ."""

    class Led(Toy):
        def search_ratio_many(self, masks: ArrayLike) -> np.ndarray:
            values = self.log_ratio_many(masks)
            return np.where(values == -np.inf, -50.0, values)

    space = FreeSpace(Target(Led(20, [1, 3], hole=(1, 4)), UniformPrior(4).bind(20)))
    holed = np.isin(np.arange(20), [1, 4])[None]
    assert space.scorer(10, searching=True).log_ratios(holed) == [-50.0]
    assert space.scorer(10, searching=False).log_ratios(holed) == [-np.inf]


def test_a_model_says_what_collinear_columns_cost_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled and asked, the values of collinear draws are the same, and follow the model's penalty."""
    data = simulated(4, (30, 35), seed=3)
    X = np.column_stack([data.X, data.X[:, 0] + data.X[:, 1]])
    moments = LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)).moments
    model = LinearGaussian().bind(moments)
    monkeypatch.setattr("invariance.inference.variational.ascent._LOOK_UP", 0)
    space = FreeSpace(Target(model, UniformPrior().bind(5)))
    draws, values = all_masks(5), {}
    for penalty in (0.05, 0.5):
        monkeypatch.setattr(type(model), "search_penalty", penalty)
        scorer = space.scorer(64, searching=True)
        assert isinstance(scorer, CompiledScorer)
        values[penalty] = space.log_ratios(draws, scorer)
        np.testing.assert_array_equal(values[penalty], model.search_ratio_many(draws))
    collinear = draws[:, [0, 1, 4]].all(axis=1)
    np.testing.assert_array_equal(values[0.05][~collinear], values[0.5][~collinear])
    np.testing.assert_allclose(values[0.5][collinear] / values[0.05][collinear], 1.5 / 1.05)
    assert np.isnan(space.log_ratios(draws, space.scorer(64, searching=False))[collinear]).all()


@pytest.mark.parametrize("analytic", [True, False])
@pytest.mark.parametrize("infeasible", [np.nan, -2.0])
def test_one_step(analytic: bool, infeasible: float) -> None:
    """The kernel against plain NumPy, with draws outside the support: -inf, NaN, or of a size without weight."""
    f, n_pairs, n_rows = 5, 30, 25.0
    rng = np.random.default_rng(0)
    uniforms, values = rng.random((n_pairs, f)), -10.0 * rng.random(1 << f)
    values[3], values[9] = -np.inf, np.nan
    log_odds, by_size = rng.normal(size=f), np.array([0.1, -0.2, 0.3, -0.4, 0.5, -np.inf])
    logits = rng.normal(size=f)
    q = expit(logits)

    def at(draws: np.ndarray) -> np.ndarray:
        return values[draws @ (1 << np.arange(f))] + by_size[draws.sum(axis=1)]

    pairs = np.stack([uniforms > 1.0 - q, uniforms < q], axis=1)
    plain = at(pairs.reshape(-1, f))
    known = plain > -np.inf
    worst = 1.1 * min(plain[known].min(), -7.0) if np.isnan(infeasible) else infeasible * n_rows

    def objective(draws: np.ndarray) -> np.ndarray:
        inside = np.where(at(draws) > -np.inf, at(draws), worst)
        return inside if analytic else inside + draws @ (log_odds - logits)

    step = u2g_estimates(objective, logits, uniforms).mean(axis=0)
    if analytic:
        step = step + q * (1 - q) * (log_odds - logits)
    means = np.where(known, plain, worst).reshape(-1, 2).mean(axis=1)

    moved, lowest = logits.copy(), np.array([-7.0])
    arguments = Objective(log_odds, by_size, f, n_rows, infeasible)
    draws = pairs.reshape(-1, f)
    asked = values[draws @ (1 << np.arange(f))]
    result = make_step(moved, q, draws, asked, 3.0, analytic, arguments, lowest, np.empty(f))
    np.testing.assert_allclose(moved, logits + 3.0 * step / n_rows, rtol=1e-12)
    np.testing.assert_allclose(result, [means.mean(), means.std() / np.sqrt(n_pairs), known.mean()], rtol=1e-9)
    assert lowest[0] == min(plain[known].min(), -7.0)
    assert 0.0 < known.mean() < 1.0
