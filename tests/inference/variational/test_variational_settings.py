"""Settings of variational inference: schedules, presets, starts, screens and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from invariance import InclusionPrior, LinearGaussian, UniformPrior, Variational
from invariance.data import MultiEnvironmentData
from invariance.exceptions import EngineError
from invariance.inference.base import Target
from invariance.inference.variational.ascent import Cyclical, FreeSpace
from twins import simulated
from variational_fit import fit

pytestmark = pytest.mark.filterwarnings("ignore::invariance.exceptions.ApproximationWarning")


def test_schedules() -> None:
    rates = Cyclical(base=0.5, maximum=10, steps_up=500).rates(2001)
    assert rates[[0, 500, 1000, 1500, 2000]].tolist() == [0.5, 10.0, 0.5, 10.0, 0.5]
    assert rates[250] == pytest.approx(5.25)
    halved = Cyclical(base=0.5, maximum=10, steps_up=500, halve=True).rates(2500)
    assert halved[[500, 1500, 2499]].tolist() == pytest.approx([10.0, 5.25, 0.5 + 9.5 * 0.25 * 499 / 500])


def test_presets_are_the_published_settings() -> None:
    simulation, genes = Variational.simulation(), Variational.genes()
    assert (simulation.iterations, simulation.pairs, simulation.infeasible) == (2000, 20, -1.0)
    assert simulation.schedule == Cyclical(1.0, 10.0, 500, halve=False)
    assert (simulation.kl_analytic_probability, simulation.rest) == (1.0, 0.1)
    assert (simulation.starts, simulation.screen, simulation.screened) == (
        ("uninformative", "informative"),
        "lasso",
        10,
    )
    assert simulation.components == genes.components == 1
    assert (genes.iterations, genes.pairs, genes.inclusion, genes.infeasible) == (10_000, 10, 0.02, -1.0)
    assert genes.schedule == Cyclical(0.5, 10.0, 500, halve=True)
    assert (genes.kl_analytic_probability, genes.starts) == (0.5, ("uninformative",))
    assert Variational.genes(iterations=5).iterations == 5


def test_starting_points() -> None:
    model = LinearGaussian().bind(simulated(40, (60, 70), seed=43))
    prior = UniformPrior(10).bind(model.feature_names)
    space = FreeSpace(Target(model, prior))
    for engine in (Variational(), Variational.simulation()):
        starts = engine._beginnings(space, np.arange(40)[None] < 3)
        assert expit(starts["uninformative"]) == pytest.approx(0.9 * 10 / 40)
        informative = expit(starts["informative"])
        assert 1 <= np.isclose(informative, 0.5).sum() <= 10
        assert informative.sum() <= 0.9 * 10 + 1e-9
    none = np.zeros((0, 40), dtype=bool)
    mask = np.arange(40) < 3
    warm = expit(Variational(initial=mask)._beginnings(space, none)["initial"])
    assert warm[:3] == pytest.approx(0.9)
    assert warm[3:] == pytest.approx(0.01)
    found = expit(Variational()._beginnings(space, mask[None])["searched"])
    np.testing.assert_array_equal(found, warm)
    named = expit(Variational(initial={"x5": 0.7})._beginnings(space, none)["initial"])
    assert named[5] == pytest.approx(0.7)


def test_the_searched_screen_takes_the_best_subsets_in_turn() -> None:
    model = LinearGaussian().bind(simulated(40, (60, 70), seed=43))
    prior = UniformPrior(10).bind(model.feature_names)
    space = FreeSpace(Target(model, prior))
    modes = np.zeros((3, 40), dtype=bool)
    modes[0, [7, 8, 9]] = modes[1, [1, 8]] = modes[2, [0, 30]] = True

    def screened(modes: np.ndarray, **settings: int) -> list[int]:
        engine = Variational(starts=("uninformative", "informative"), **settings)
        start = expit(engine._beginnings(space, modes)["informative"])
        assert start[start < 0.5] == pytest.approx(1 / (start < 0.5).sum())
        return np.flatnonzero(np.isclose(start, 0.5)).tolist()

    assert screened(modes) == [0, 1, 7, 8, 9, 30]
    assert screened(modes, screened=4) == [1, 7, 8, 9]
    assert screened(modes, screened=1) == [7, 8, 9]
    assert screened(modes[:0]) == []


@pytest.mark.parametrize(
    ("engine", "phrase"),
    [
        (Variational(iterations=0), "iterations=0 is too small"),
        (Variational(kl_analytic_probability=1.5), "kl_analytic_probability=1.5 is not a probability"),
        (Variational(starts=("lucky",)), "use some of 'uninformative', 'informative', 'searched'"),
        (Variational(screen="ridge"), "screen='ridge' is not known: use 'search' or 'lasso'"),
        (Variational(components=0), "components=0 is not known: use 'auto'"),
        (Variational(infeasible="low"), "infeasible='low' is not known"),
        (Variational(initial={"z": 0.5}), "initial names a feature that is not there: 'z'"),
        (Variational(initial=[0.5]), "initial must be a mask or 4 probabilities"),
    ],
)
def test_bad_settings(engine: Variational, phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        fit(LinearGaussian().bind(simulated(4)), UniformPrior(), engine)


def test_forced_features_that_cannot_be_scored() -> None:
    data = simulated(3, (20, 25), seed=5)
    X = np.column_stack([data.X, data.X[:, 0] + data.X[:, 1]])
    model = LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, data.y, data.environment_index))
    forced = InclusionPrior({"x0": 1.0, "x1": 1.0, "x3": 1.0})
    with pytest.raises(EngineError, match=r"'x0', 'x1', 'x3' are too collinear .* force fewer in"):
        fit(LinearGaussian().bind(model.moments), forced)
    assert fit(model, forced).inclusion[[0, 1, 3]].tolist() == [1.0, 1.0, 1.0]


def test_only_the_lasso_screen_needs_rows() -> None:
    model = LinearGaussian().bind(LinearGaussian().bind(simulated(20, (40, 50))).moments)
    with pytest.raises(EngineError, match="screen=search"):
        fit(model, UniformPrior(5), Variational.simulation())
    assert set(fit(model, UniformPrior(5)).trace["start"]) == {"uninformative", "informative", "searched"}
