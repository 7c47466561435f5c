"""Which environment breaks invariance: the tests behind it against plain least squares on rows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaincc, polygamma, psi
from scipy.stats import chi2, f

from decision_cases import breaking_environment
from invariance import BIP, LinearGaussian, Moments, MultiEnvironmentData, Tempering, Tolerance
from invariance.decisions.diagnosis import experiments, leading_subsets
from invariance.decisions.environments import (
    Deviation,
    SubsetTests,
    fits_of_moments,
    fits_of_rows,
    where_it_breaks,
)
from invariance.exceptions import SettingError
from invariance.models.base import IN_MEAN, VARIANCE
from invariance.posterior.posterior import Judge

PARTS = (*IN_MEAN, VARIANCE)


def several_sites(fault: str | None = None, seed: int = 0, sizes: tuple[int, ...] = (80, 60, 70, 90)) -> tuple:
    """y = a − b + noise; c results from y, otherwise in every site; `fault` is in the third site. Large means."""
    rng = np.random.default_rng(seed)
    tables, outcomes = [], []
    for e, n in enumerate(sizes):
        broken = fault if e == 2 else None
        a, b = rng.normal(50.0, 1.0 + 0.2 * e, n), rng.normal(-30.0 + e, 1.0, n)
        noise = rng.normal(size=n) * (3.0 if broken == "variance" else 1.0)
        y = (a - 50.0) * (-0.5 if broken == "slopes" else 1.0) - b + noise + (2.0 if broken == "intercept" else 0.0)
        tables.append(np.column_stack([a, b, (1.0 + e) * y + rng.normal(3.0 * e, 1.0, n)]))
        outcomes.append(y)
    labels = np.repeat(["north", "south", "east", "west", "far", "near"][: len(sizes)], sizes)
    return np.vstack(tables), np.concatenate(outcomes), labels


def data_of(fault: str | None = None, **more) -> MultiEnvironmentData:
    X, y, labels = several_sites(fault, **more)
    return MultiEnvironmentData.from_arrays(X, y, labels.tolist(), feature_names=["a", "b", "c"])


def rss(X: np.ndarray, y: np.ndarray) -> float:
    design = np.column_stack([np.ones(len(y)), X - X.mean(axis=0)])
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return float(residual @ residual)


def twin(X: np.ndarray, y: np.ndarray, groups: list[np.ndarray], excess: float) -> dict[str, float]:
    """Deviance and p-value of each part, T with its moments, from rows."""
    k, n, g = X.shape[1], len(y), len(groups)
    counts = np.array([rows.sum() for rows in groups], dtype=float)
    own = np.array([rss(X[rows], y[rows]) for rows in groups])
    dummies = np.column_stack([rows.astype(float) for rows in groups[1:]])
    within, pooled = rss(np.column_stack([X, dummies]), y), rss(X, y)
    free, free_within, free_pooled = n - g * (k + 1), n - g - k, n - 1 - k
    nu = counts - 1 - k
    bartlett = nu.sum() * np.log(own.sum() / nu.sum()) - nu @ np.log(own / nu)
    bartlett /= 1.0 + ((1.0 / nu).sum() - 1.0 / nu.sum()) / (3.0 * (g - 1))
    mean = n * psi(free_pooled / 2) - counts @ psi(nu / 2) - n * np.log(n) + counts @ np.log(counts)
    variance = counts**2 @ polygamma(1, nu / 2) - n**2 * polygamma(1, free_pooled / 2)
    total = n * np.log(pooled / n) - counts @ np.log(own / counts)
    d = free_pooled - free_within, free_within - free
    p_values = [
        f.sf((pooled - within) / d[0] / (within / free_within), d[0], free_within),
        f.sf((within - own.sum()) / d[1] / (own.sum() / free), d[1], free) if k else np.nan,
        chi2.sf(bartlett / (1.0 + max(excess, 0.0) / 2.0), g - 1),
    ]
    known = [p for p in p_values if not np.isnan(p)]
    return {
        "deviance": total,
        "intercept": n * np.log(pooled / within),
        "slopes": n * np.log(within / own.sum()),
        "variance": n * np.log(own.sum() / n) - counts @ np.log(own / counts),
        "p intercept": p_values[0],
        "p slopes": p_values[1],
        "p variance": p_values[2],
        "expected": mean,
        "sd": np.sqrt(variance),
        "p gaussian": gammaincc(mean**2 / variance, total * mean / variance),
        "p": chi2.sf(-2.0 * np.log(known).sum(), 2 * len(known)),
    }


def flat(found: Deviation) -> dict[str, float]:
    return {
        "deviance": found.deviance,
        **{name: found.parts[name].deviance for name in PARTS},
        **{f"p {name}": np.nan if part.p_value is None else part.p_value for name, part in found.parts.items()},
        "expected": found.expected_deviance,
        "sd": found.deviance_sd,
        "p gaussian": found.p_gaussian,
        "p": found.p_value,
    }


@pytest.mark.parametrize("members", [[], [0], [0, 1], [0, 1, 2]])
@pytest.mark.parametrize("with_rows", [True, False])
def test_parts_are_those_of_least_squares_on_rows(members: list[int], with_rows: bool) -> None:
    data = data_of("slopes")
    model = LinearGaussian().bind(data if with_rows else Moments.from_data(data))
    mask = np.isin(np.arange(3), members)
    tests = SubsetTests(model, mask)
    excess = float(model.excess_kurtosis(mask[None])[0])
    assert (excess != 0.0) == with_rows
    codes = data.environment_index
    whole = tests.deviation(None)
    assert whole is not None
    groups = [[codes == e for e in range(4)], *([codes == e, codes != e] for e in range(4))]
    for found, split in zip([whole, *(test.deviation for test in tests.each())], groups, strict=True):
        assert found is not None
        wanted = twin(data.X[:, mask], data.y, split, excess)
        for name, value in flat(found).items():
            assert value == pytest.approx(wanted[name], rel=1e-8, abs=1e-8, nan_ok=True), name
        assert found.deviance == pytest.approx(sum(part.deviance for part in found.parts.values()), abs=1e-9)
    assert whole.deviance == pytest.approx(-2.0 * model.log_ratio(mask), rel=1e-9)
    evidence = Judge(model).evidence(mask[None]).one()
    assert whole.expected_deviance == pytest.approx(evidence.expected_deviance)
    assert whole.p_gaussian == pytest.approx(evidence.p_value)


def test_rows_decide_what_second_moments_cannot() -> None:
    X, y, labels = several_sites("intercept")
    twice = np.column_stack([X[:, 0], X[:, 0] * (1.0 + 1e-9 * np.sin(np.arange(len(y)))), X[:, 1]])
    data = MultiEnvironmentData.from_arrays(twice, y, labels.tolist())
    together = breaking_environment(LinearGaussian().bind(data), np.array([True, True, True]))
    assert together is not None
    assert (together.environment, together.part) == ("east", "intercept")
    alone = Moments.from_data(data)
    assert breaking_environment(LinearGaussian().bind(alone), np.array([True, True, True])) is None


def test_settings_and_columns_that_are_constant_in_an_environment() -> None:
    X, y, labels = several_sites("variance")
    setting = np.array([{"north": 0.0, "south": 1.0, "east": 5.0, "west": 2.0}[label] for label in labels])
    partly = np.where(labels == "west", 7.0, X[:, 1])
    data = MultiEnvironmentData.from_arrays(np.column_stack([X[:, 0], setting, partly]), y, labels.tolist())
    model, mask = LinearGaussian().bind(data), np.array([True, True, True])
    found = SubsetTests(model, mask).deviation(None)
    assert found is not None
    # Own slopes of two columns in three environments, of one in the last: 7 for 2. The setting is one of 3 intercepts.
    own = [rss(data.X[labels == e][:, [0, 2] if e != "west" else [0]], y[labels == e]) for e in data.environments]
    dummies = np.column_stack([labels == e for e in data.environments[1:]]).astype(float)
    within = rss(np.column_stack([data.X[:, [0, 2]], dummies]), y)
    pooled = rss(data.X, y)
    n = len(y)
    expected = f.sf((within - sum(own)) / 5 / (sum(own) / (n - 11)), 5, n - 11)
    assert found.parts["slopes"].p_value == pytest.approx(expected, rel=1e-7)
    expected = f.sf((pooled - within) / 2 / (within / (n - 6)), 2, n - 6)
    assert found.parts["intercept"].p_value == pytest.approx(expected, rel=1e-7)


def test_p_values_of_parts_are_uniform_and_independent_under_invariance() -> None:
    values = []
    for seed in range(150):
        data = data_of(seed=seed, sizes=(15, 12, 18))
        found = SubsetTests(LinearGaussian().bind(Moments.from_data(data)), np.array([True, True, False]))
        whole = found.deviation(None)
        assert whole is not None
        values.append([*(whole.parts[name].p_value for name in PARTS), whole.p_value])
    table = np.array(values)
    # Three standard errors of a mean of 150 uniform values, and of a correlation of 150 pairs.
    assert (np.abs(table.mean(axis=0) - 0.5) < 3 * np.sqrt(1 / 12 / 150)).all()
    assert (np.abs(np.corrcoef(table[:, :3], rowvar=False)[np.triu_indices(3, 1)]) < 3 / np.sqrt(150)).all()
    assert 0 < (table[:, 3] < 0.1).sum() < 30


@pytest.mark.parametrize("fault", PARTS)
def test_the_environment_and_the_part_are_named(fault: str) -> None:
    model = LinearGaussian().bind(data_of(fault))
    found = breaking_environment(model, np.array([True, True, False]))
    assert found is not None
    assert (found.environment, found.part) == ("east", fault)
    assert found.p_value < 1e-6
    broken = where_it_breaks(model, np.array([True, False, False]), 1)
    assert broken == found
    sound = breaking_environment(LinearGaussian().bind(data_of()), np.array([True, True, False]))
    assert sound is not None
    assert sound.p_value > 0.05 / 4


def test_of_two_environments_neither_is_named() -> None:
    data = data_of("intercept", sizes=(50, 50, 50)).choosing(["north", "east"])
    model = LinearGaussian().bind(data)
    tests = SubsetTests(model, np.array([True, True, False])).each()
    assert tests[0].deviation is not None
    assert tests[1].deviation is not None
    assert tests[0].deviation.p_value == pytest.approx(tests[1].deviation.p_value)
    found = breaking_environment(model, np.array([True, True, False]))
    assert found is not None
    assert (found.environment, found.part) == (None, "intercept")
    diagnosis = BIP().fit(data).diagnose(["a", "b"])
    assert diagnosis.stands_out
    assert diagnosis.named is None
    assert "the two environments differ: the intercept differs most" in " ".join(str(diagnosis).split())
    assert diagnosis.left_out == ()


def test_heavy_tails_do_not_raise_an_alarm_about_variances() -> None:
    rng = np.random.default_rng(4)
    X, labels = rng.normal(size=(800, 1)), np.repeat(list("abcd"), 200)
    alarms = {True: 0, False: 0}
    for _ in range(20):
        y = X[:, 0] + rng.standard_t(3, 800)
        data = MultiEnvironmentData.from_arrays(X, y, labels.tolist())
        for with_rows in alarms:
            model = LinearGaussian().bind(data if with_rows else Moments.from_data(data))
            found = breaking_environment(model, np.array([True]))
            assert found is not None
            alarms[with_rows] += found.p_value < 0.05 / 4
    assert alarms[True] <= 4 < alarms[False]


@pytest.fixture(scope="module")
def broken() -> BIP:
    with pytest.warns(UserWarning, match="do not predict y alike"):
        return BIP().fit(data_of("intercept", sizes=(80, 60, 70, 90, 60, 50)))


def test_where_nothing_is_compatible_the_environment_is_named_without_which_something_is(broken: BIP) -> None:
    assert broken.predictive_ is None
    diagnosis = broken.diagnose()
    assert diagnosis.nothing_compatible
    assert diagnosis.alarm
    assert diagnosis.named == "east"
    freed = diagnosis.freed_by
    assert freed is not None
    assert freed.refit is not None
    assert freed.refit.best == ("a", "b")
    assert freed.refit.best_r2 > 0.5
    others = [left.refit.best for left in diagnosis.left_out if left.environment != "east"]
    assert others == [None] * 5
    text = " ".join(str(diagnosis).split())
    assert "No subset of the features is compatible with invariance" in text
    assert "Environment 'east' breaks it: without it {a, b} predicts y alike in the other 5" in text
    assert "Nothing was left out: " in text


def test_a_fit_without_an_environment_is_the_fit_to_the_others(broken: BIP) -> None:
    diagnosis = broken.diagnose()
    others = [label for label in broken.environments_ if label != "east"]
    fitted = BIP().fit(data_of("intercept", sizes=(80, 60, 70, 90, 60, 50)).choosing(others))
    left = diagnosis.left_out[2]
    assert left.environment == "east"
    assert left.refit is not None
    assert left.refit.selected == fitted.selected_features_
    np.testing.assert_allclose(left.refit.inclusion, fitted.posterior_.inclusion)
    assert fitted.predictive_ is not None
    np.testing.assert_allclose(left.refit.predictive_inclusion, fitted.predictive_.inclusion)
    change = diagnosis.influence(predictive=False)
    assert list(change.index) == list(broken.environments_)
    assert list(change.columns) == ["a", "b", "c"]
    np.testing.assert_allclose(
        change.loc["east"], fitted.posterior_.inclusion - broken.posterior_.inclusion, atol=1e-12
    )
    assert diagnosis.influence().isna().all(axis=None)
    evidence = fitted.posterior_.evidence(diagnosis.subset)
    assert left.p_invariant == pytest.approx(evidence.p_invariant)
    assert left.r2 == pytest.approx(evidence.r2)


def test_moments_alone_are_diagnosed_too() -> None:
    data = data_of("intercept")
    with pytest.warns(UserWarning, match="do not predict y alike"):
        diagnosis = BIP().fit(Moments.from_data(data)).diagnose()
    assert diagnosis.named == "east"
    assert diagnosis.refitted


def test_no_alarm_without_a_fault() -> None:
    diagnosis = BIP(tolerance=Tolerance.strict(0.01)).fit(data_of(seed=1)).diagnose()
    assert diagnosis.subset == ("a", "b")
    assert not diagnosis.alarm
    assert diagnosis.named is None
    text = " ".join(str(diagnosis).split())
    assert "No environment stands out given {a, b}" in text
    assert "compatible with invariance" in text
    assert "Nothing was left out" not in text


def test_an_environment_that_alone_unmasks_a_decoy_is_not_named() -> None:
    """Without it the decoy predicts better, but what is selected with it holds in all environments."""
    rng = np.random.default_rng(8)
    n, labels = 150, np.repeat(["one", "two", "three", "unmasking"], 150)
    a = rng.normal(size=4 * n)
    y = a + rng.normal(size=4 * n)
    decoy = y + 0.3 * rng.normal(size=4 * n)
    decoy[-n:] = rng.normal(3.0, 1.0, n)
    data = MultiEnvironmentData.from_arrays(np.column_stack([a, decoy]), y, labels.tolist())
    diagnosis = BIP().fit(data).diagnose()
    assert diagnosis.subset == ("x0",)
    left = diagnosis.left_out[-1].refit
    assert left is not None
    assert left.best is not None
    assert "x1" in left.best
    assert left.best_r2 > diagnosis.r2 + 0.2
    assert diagnosis.named is None
    assert diagnosis.freed_by is None
    assert [decisive.environment for decisive in diagnosis.decisive] == ["unmasking"]
    text = " ".join(str(diagnosis).split())
    assert "Without 'unmasking' {" in text
    assert "this environment alone speaks against it" in text


def test_sampled_posteriors_are_not_fitted_again_unless_asked() -> None:
    model = BIP(engine=Tempering(chains=2, steps=200), random_state=0).fit(data_of(seed=1))
    diagnosis = model.diagnose(["a", "b"])
    assert not diagnosis.refitted
    assert all(left.refit is None for left in diagnosis.left_out)
    assert diagnosis.influence().empty
    asked = model.diagnose(["a", "b"], leave_out=True)
    assert [left.refit is not None for left in asked.left_out] == [True] * 4


@pytest.mark.parametrize("subset", [[], ["a"], ["only east"], ["a", "c"]])
@pytest.mark.parametrize("with_rows", [True, False])
def test_the_subset_alone_is_judged_as_in_a_whole_fit(subset: list[str], with_rows: bool) -> None:
    table = data_of(seed=1).to_frame()
    table["only east"] = np.where(table["environment"] == "east", table["b"], 4.0)
    data = MultiEnvironmentData.from_table(table, "y", "environment")
    model = BIP().fit(data) if with_rows else BIP().fit(Moments.from_data(data))
    alone, whole = (model.diagnose(subset, leave_out=refit) for refit in (False, True))
    for found, wanted in zip(alone.left_out, whole.left_out, strict=True):
        assert found.environment == wanted.environment
        assert found.refit is None
        assert found.p_invariant == pytest.approx(wanted.p_invariant)
        assert found.r2 == pytest.approx(wanted.r2, abs=1e-12)
    changes = whole.influence(predictive=False)["only east"]
    assert changes.isna().tolist() == [label == "east" for label in data.environments]


def test_levels_that_an_environment_lacks() -> None:
    rng = np.random.default_rng(7)
    site = np.repeat(["north", "south", "east"], 60)
    level = rng.choice(["p", "q", "r"], 180)
    level[site == "south"] = np.where(level[site == "south"] == "p", "q", level[site == "south"])
    table = pd.DataFrame({"a": rng.normal(size=180), "level": level, "site": site})
    table["y"] = table["a"] + (table["level"] == "q") + rng.normal(size=180)
    data = MultiEnvironmentData.from_table(table, "y", "site")
    moments, codes = Moments.from_data(data), data.environment_index
    groups = [np.flatnonzero(codes == e) for e in range(3)]
    found, wanted = fits_of_moments(moments), fits_of_rows(data.X, data.y, groups)
    assert [fit.rank for fit in found.own] == [3, 2, 3] == [fit.rank for fit in wanted.own]
    assert [fit.rss for fit in found.own] == pytest.approx([fit.rss for fit in wanted.own], rel=1e-9)
    for name in ("within", "pooled"):
        assert getattr(found, name).rss == pytest.approx(getattr(wanted, name).rss, rel=1e-9)
        assert getattr(found, name).rank == getattr(wanted, name).rank == 3
    assert breaking_environment(LinearGaussian().bind(data), np.array([True, True])) is not None


def test_settings_that_changed_after_the_fit_do_not_matter() -> None:
    model = BIP().fit(data_of(seed=1))
    before = model.diagnose(["a", "b"]).influence(predictive=False)
    model.set_params(prior="inclusion(0.01)", engine="tempering")
    assert model.diagnose(["a", "b"]).influence(predictive=False).equals(before)


def test_what_cannot_be_diagnosed() -> None:
    X, y, _ = several_sites()
    with pytest.warns(UserWarning, match="no environments were given"):
        alone = BIP().fit(X, y)
    with pytest.raises(SettingError, match="one environment"):
        alone.diagnose()
    fitted = BIP().fit(data_of(seed=1))
    with pytest.raises(SettingError, match="leave_out='no'"):
        fitted.diagnose(leave_out="no")


def test_a_feature_to_move_is_one_that_the_leading_subsets_disagree_about() -> None:
    """d is a copy of a with a little noise: {a, b} and {d, b} predict alike until one of the two is moved."""
    rng = np.random.default_rng(2)
    labels = np.repeat(list("nsew"), 50)
    a, b = rng.normal(0.0, 3.0, 200), rng.normal(size=200)
    d = a + 0.02 * rng.normal(size=200)
    data = MultiEnvironmentData.from_arrays(
        np.column_stack([a, b, d]), a + b + rng.normal(size=200), labels.tolist(), feature_names=["a", "b", "d"]
    )
    model = BIP().fit(data)
    posterior = model.predictive_
    assert posterior is not None
    leading = leading_subsets(model._findings.target.model, posterior)
    assert set(leading.subsets) >= {("a", "b"), ("b", "d")}
    k = leading.subsets.index(("a", "b"))
    design = np.column_stack([np.ones(200), a, b])
    slope = np.linalg.lstsq(design, data.y, rcond=None)[0][1]
    np.testing.assert_allclose(leading.changes[k, [0, 2]], [2.0 * slope * a.std(), 0.0])
    found = experiments(leading, data.feature_names)
    assert {experiment.feature for experiment in found[:2]} == {"a", "d"}
    weights = leading.probabilities / leading.probabilities.sum()
    spread = np.sqrt(weights @ (leading.changes[:, 0] - weights @ leading.changes[:, 0]) ** 2)
    assert {e.feature: e.disagreement for e in found}["a"] == pytest.approx(spread)
    assert "b" not in {experiment.feature for experiment in found}
    assert "Move a alone by 2 standard deviations" in " ".join(str(model.diagnose()).split())


def test_what_small_environments_cost() -> None:
    rng = np.random.default_rng(3)
    sizes = {"large": 60, "other": 40, "small": 9, "tiny": 5}
    labels = np.repeat(list(sizes), list(sizes.values()))
    X = rng.normal(size=(len(labels), 8))
    data = MultiEnvironmentData.from_arrays(X, X[:, 0] + rng.normal(size=len(labels)), labels.tolist())
    diagnosis = BIP().fit(data).diagnose(leave_out=False)
    sites = diagnosis.sites
    assert (sites.largest, sites.n_features) == (3, 8)
    assert {site.environment: site.largest_without for site in sites.each} == {
        "large": 3,
        "other": 3,
        "small": 3,
        "tiny": 7,
    }
    assert sites.enough_rows == 40
    assert [site.environment for site in sites.costly] == ["tiny"]
    assert "min_rows=40" in str(diagnosis)
    kept = MultiEnvironmentData.from_table(data.to_frame(), "y", "environment", min_rows=sites.enough_rows)
    assert Moments.from_data(kept).largest_size == 8


def test_text_fits_a_terminal_and_says_the_verdict_first(broken: BIP) -> None:
    data = data_of("intercept")
    names = {"a": "a very long name of a feature, longer than a line of a terminal would ever be able to hold"}
    table = data.to_frame().rename(columns=names)
    table["environment"] = [f"{label} of the mountains and of the sea" for label in table["environment"]]
    with pytest.warns(UserWarning, match="do not predict y alike"):
        fitted = BIP().fit(MultiEnvironmentData.from_table(table, "y", "environment"))
    for diagnosis in (broken.diagnose(), fitted.diagnose()):
        lines = str(diagnosis).splitlines()
        assert max(map(len, lines)) <= 80
        assert lines[0].startswith("Environments of y given {")
        assert "No subset of the features is compatible" in " ".join(lines[1:5])


def test_html_and_json_hold_what_the_text_says(broken: BIP, tmp_path) -> None:
    table = data_of("intercept").to_frame()
    table["environment"] = table["environment"].replace("east", "<east>")
    with pytest.warns(UserWarning, match="do not predict y alike"):
        diagnosis = BIP().fit(MultiEnvironmentData.from_table(table, "y", "environment")).diagnose()
    shown = diagnosis._repr_html_()
    assert "&lt;east&gt;" in shown
    assert "<east>" not in shown
    assert shown.count("<tr") == 2 * (1 + 4)
    diagnosis.to_json(tmp_path / "diagnosis.json")
    saved = json.loads((tmp_path / "diagnosis.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert (saved["alarm"], saved["named"], saved["nothing_compatible"]) == (True, "<east>", True)
    tested = {row["environment"]: row["against_the_rest"]["p_value"] for row in saved["environments"]}
    assert min(tested, key=lambda label: tested[label]) == "<east>"
    assert saved["predictive_inclusion"] == [None] * 3
    assert [row["environment"] for row in saved["left_out"]] == list(tested)


def test_the_picture_has_a_bar_for_every_environment_and_part(broken: BIP) -> None:
    diagnosis = broken.diagnose(leave_out=False)
    ax = diagnosis.plot()
    assert len(ax.patches) == 6 * 3
    assert [text.get_text() for text in ax.get_legend().get_texts()][-len(PARTS) :] == list(PARTS)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(broken.environments_)
    found = diagnosis.tests[2].deviation
    assert found is not None
    heights = [container[2].get_width() for container in ax.containers[-len(PARTS) :]]
    np.testing.assert_allclose(heights, [-np.log10(found.parts[name].p_value) for name in PARTS])
    assert ax.get_xlabel()
    assert ax.get_ylabel() == "environment"
    (line,) = (line for line in ax.lines if line.get_linestyle() == "--")
    assert line.get_xdata()[0] == pytest.approx(-np.log10(0.05 / 6))
    again = diagnosis.plot(ax)
    assert again is ax
