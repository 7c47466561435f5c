"""Sweeps whose ascents run on a device; without one, the same operations on the processor."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, Tempering, UniformPrior, Variational, sweep
from invariance._tools.progress import ProgressBar
from invariance.exceptions import DataWarning, SettingError
from invariance.inference import variational, variational_device
from invariance.sweeps import fitting
from invariance.sweeps import sweep as sweep_module

torch = pytest.importorskip("torch")

WHERE = "cuda" if torch.cuda.is_available() else "cpu"
ENGINE = Variational(iterations=150, pairs=6, starts=("uninformative",), fresh=200, draws=300)
MODEL = BIP(prior=UniformPrior(4), engine=ENGINE, select="threshold")


def table(n: int = 90, seed: int = 0) -> pd.DataFrame:
    """20 columns in two environments; c follows a and b, and single rows of the second perturb c
    and d."""
    rng = np.random.default_rng(seed)
    site = np.repeat(["one", "two"], n)
    frame = pd.DataFrame(rng.normal(size=(2 * n, 20)), columns=list("abcdefghijklmnopqrst"))
    frame["a"] += 3.0 * (site == "two") * rng.normal(size=2 * n)
    frame["c"] = 2.0 * frame["a"] - 1.5 * frame["b"] + 0.4 * rng.normal(size=2 * n)
    hit = np.full(2 * n, None, dtype=object)
    hit[n + 3] = "c"
    hit[n + 4] = "d"
    frame.loc[n + 3, "c"] = 25.0
    return frame.assign(site=site, hit=hit)


def swept(model: BIP = MODEL, frame: pd.DataFrame | None = None, **settings) -> pd.DataFrame:
    arguments = {
        "environments": "site",
        "perturbed": "hit",
        "outcomes": ["a", "c", "d"],
        "device": WHERE,
    } | settings
    return sweep(table() if frame is None else frame, model, progress=False, **arguments)


def test_what_perturbs_an_outcome_is_not_used_for_it() -> None:
    found = swept(top=None)
    assert set(found.outcome) == {"a", "c", "d"}
    chosen = found[(found.outcome == "c") & found.selected]
    assert "a" in set(chosen.feature)
    spoiled = swept(top=None, perturbed=None, exclude=["hit"])
    other = spoiled[spoiled.outcome == "c"].set_index("feature").inclusion
    assert not np.allclose(
        other, found[found.outcome == "c"].set_index("feature").inclusion[other.index], atol=0.02
    )
    unperturbed = spoiled[spoiled.outcome == "a"].inclusion.to_numpy()
    np.testing.assert_allclose(
        found[found.outcome == "a"].inclusion.to_numpy(), unperturbed, atol=1e-8
    )


def test_rules_that_take_the_posterior_as_it_is_start_no_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def searched(*arguments, **settings):
        raise AssertionError("nobody asked for compatible subsets")

    monkeypatch.setattr("invariance.decisions.pipeline.predictive_posterior", searched)
    found = swept()
    assert not found.notes.str.contains("compatible").any()
    assert found.inclusion.notna().all()


def test_outcomes_that_ascend_together_share_the_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on for 30 s in the ascent of three outcomes, and never otherwise."""
    now = [0.0]
    climb = variational_device.climb_together

    def slow(*arguments: object) -> object:
        now[0] += 30.0
        return climb(*arguments)

    for module in (variational_device, variational, fitting):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(variational_device, "climb_together", slow)
    assert swept().groupby("outcome").seconds.first().tolist() == pytest.approx([10.0] * 3)


def test_the_ascent_is_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    said = []

    class Bar(ProgressBar):
        def advance(self, steps: int = 1, detail: str = "") -> None:
            said.append((steps, detail))
            super().advance(steps, detail)

    monkeypatch.setattr(sweep_module, "ProgressBar", Bar)
    swept()
    assert said[:3] == [
        (0, "gradient ascent 33%"),
        (0, "gradient ascent 67%"),
        (0, "gradient ascent 100%"),
    ]
    assert [steps for steps, _ in said[3:]] == [1, 1, 1]


def test_a_rule_that_goes_by_prediction_searches_on_a_device_too() -> None:
    found = swept(BIP(prior=UniformPrior(4), engine=ENGINE), outcomes=["c"])
    assert {"a", "b"} <= set(found[found.selected].feature)
    noise = table().assign(
        e=lambda frame: np.where(frame.site == "two", 5.0, 0.0) * frame.i + frame.e
    )
    said = swept(BIP(prior=UniformPrior(1), engine=ENGINE), frame=noise, outcomes=["e"]).notes.iloc[
        0
    ]
    assert "No subset is compatible" in said


def test_other_outcomes_and_threads_do_not_matter() -> None:
    one = swept()
    two = swept(outcomes=["c"], n_jobs=2)
    own = one[one.outcome == "c"].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        own.drop(columns="seconds"), two.drop(columns="seconds"), atol=1e-8
    )


def test_an_outcome_that_cannot_be_fitted_says_why_and_the_others_go_on() -> None:
    frame = table()
    frame.loc[frame.site == "one", "e"] = 1.0
    with pytest.warns(DataWarning, match="'e'"):
        found = swept(frame=frame, outcomes=["e", "a"])
    assert "constant" in found[found.outcome == "e"].verdict.iloc[0]
    assert found[found.outcome == "a"].inclusion.notna().all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": BIP(engine=Tempering())}, "engine='vi'"),
        ({"model": BIP(engine="tempering")}, "engine='vi'"),
        ({"model": BIP("bayesian_linear_gaussian", engine="vi")}, "linear Gaussian model"),
        ({"model": BIP("linear_gaussian_mean", engine="vi")}, "linear Gaussian model"),
        ({"device": "gpu7"}, "device='gpu7'"),
        ({"device": "cuda:99"}, "device='cuda:99'"),
        ({"dask": "tcp://127.0.0.1:1"}, "dask=None"),
        ({"frame": table().assign(kind=np.tile(["u", "v", "w"], 60))}, "kind"),
    ],
)
def test_settings_that_a_device_cannot_follow(settings, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        swept(**settings)


def test_results_of_a_device_are_not_mixed_with_others(tmp_path) -> None:
    from invariance.exceptions import InvarianceError

    swept(out=tmp_path / "sweep")
    with pytest.raises(InvarianceError, match="device"):
        swept(out=tmp_path / "sweep", device=None)


@pytest.mark.parametrize("far", [1e4, 1e9])
def test_rows_that_second_moments_cannot_do_without_are_left_to_the_processor(far: float) -> None:
    frame = table()
    frame.loc[len(frame) - 87, "c"] = far
    assert frame.hit[len(frame) - 87] == "c"
    found = swept(frame=frame)
    notes = found[found.outcome == "c"].notes.iloc[0]
    assert "come from the remaining rows" in notes
    alone = swept(frame=frame, device=None)
    same = [part[part.outcome == "c"].set_index("feature").inclusion for part in (found, alone)]
    np.testing.assert_allclose(same[0], same[1][same[0].index], atol=1e-12)


def test_an_outcome_that_a_column_determines_is_refused_by_name() -> None:
    frame = table().assign(e=lambda rows: 2.0 * rows.f + 1.0)
    verdicts = []
    for device in (WHERE, None):
        with pytest.warns(DataWarning, match="'e'"):
            found = swept(frame=frame, outcomes=["e", "a"], device=device)
        verdicts.append(found[found.outcome == "e"].verdict.iloc[0])
    assert "'f' determines the outcome 'e'" in verdicts[0]
    assert verdicts[0] == verdicts[1]
