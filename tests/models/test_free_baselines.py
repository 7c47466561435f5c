"""Free baselines: linear Gaussian models beside those with a column for each environment, and plain
refits."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2, f

from invariance import (
    BIP,
    Additive,
    BayesianLinearGaussian,
    InclusionPrior,
    LinearGaussian,
    Moments,
    MultiEnvironmentData,
    Tempering,
    Tolerance,
)
from invariance.decisions import pipeline
from invariance.decisions.decision import NO_LEVEL
from invariance.decisions.heterogeneity import heterogeneity
from invariance.decisions.levels import baseline_of
from invariance.exceptions import Message, NotInvariantWarning, SettingError
from invariance.inference.base import RunOptions, Target
from invariance.inference.enumeration import Enumeration
from invariance.models import permutation
from invariance.models.base import Level
from invariance.models.permutation import permutation_p_value
from invariance.priors import UniformPrior
from twins import all_masks

LEVELS = (Level.effects, Level.effects_noise_free)
MASKS = all_masks(4)
STRICT = Tolerance.strict()


def sites(
    seed: int = 0, counts: tuple[int, ...] = (30, 41, 25, 36), baselines: float = 3.0
) -> MultiEnvironmentData:
    """y = x0 − x1/2 + a baseline of the site + noise; x2 follows y, with a slope of its own in
    each; x3 is nothing, and constant in one site."""
    rng = np.random.default_rng(seed)
    place = np.repeat(range(len(counts)), counts)
    X = rng.normal(size=(len(place), 4)) + rng.normal(size=(len(counts), 4))[place]
    y = (
        X[:, 0]
        - 0.5 * X[:, 1]
        + baselines * rng.normal(size=len(counts))[place]
        + rng.normal(size=len(place))
    )
    X[:, 2] = rng.uniform(-2.0, 2.0, len(counts))[place] * y + rng.normal(size=len(place))
    X[place == 1, 3] = 0.5
    return MultiEnvironmentData.from_arrays(X, y, place)


def with_dummies(data: MultiEnvironmentData) -> MultiEnvironmentData:
    """With a column for each environment but the first"""
    labels = np.arange(1, data.n_environments)
    dummies = (data.environment_index[:, None] == labels).astype(float)
    names = (*data.feature_names, *(f"site {e}" for e in labels))
    return MultiEnvironmentData.from_arrays(
        np.column_stack([data.X, dummies]), data.y, data.environment_index, feature_names=names
    )


def with_all_dummies(masks: np.ndarray, data: MultiEnvironmentData) -> np.ndarray:
    return np.column_stack([masks, np.ones((len(masks), data.n_environments - 1), dtype=bool)])


def fits(X: np.ndarray, y: np.ndarray, place: np.ndarray) -> tuple[float, int]:
    """Residual sum of squares and rank of a fit with an intercept for each place"""
    design = np.column_stack([X, place[:, None] == np.unique(place)])
    return float(np.sum((y - design @ np.linalg.lstsq(design, y)[0]) ** 2)), int(
        np.linalg.matrix_rank(design)
    )


DATA = sites()
OWN = {level: LinearGaussian().bind(DATA).at_level(level) for level in LEVELS}


@pytest.mark.parametrize("level", LEVELS)
def test_a_free_baseline_is_a_column_for_each_environment(level: Level) -> None:
    """log Λ and its degrees of freedom are those of the full level with these columns in every
    subset."""
    invariance = "distribution" if level is Level.effects else "mean"
    wide = LinearGaussian(invariance=invariance).bind(with_dummies(DATA))
    model = OWN[level]
    masks = with_all_dummies(MASKS, DATA)
    assert_allclose(model.log_ratio_many(MASKS), wide.log_ratio_many(masks), atol=1e-8)
    assert_allclose(
        model.gain_many(MASKS), wide.gain_many(masks) - wide.gain_many(masks[:1]), atol=1e-8
    )
    assert (model.log_ratio_many(MASKS) <= 0.0).all()
    assert_allclose(model.null_many(MASKS).degrees, wide.null_many(masks).degrees)
    assert_allclose(model.null_many(MASKS).expected, wide.null_many(masks).expected, rtol=1e-6)
    assert_allclose(
        model.invariance_test(MASKS, STRICT).mean,
        wide.invariance_test(masks, STRICT).mean,
        atol=1e-8,
    )


def test_tests_are_those_of_refits() -> None:
    test = OWN[Level.effects].invariance_test(MASKS, Tolerance(0.0, 0.0, 1e-300, 1e-300))
    place = DATA.environment_index
    for mask, mean, each in zip(MASKS, test.mean, test.each, strict=True):
        X = DATA.X[:, mask]
        pooled, rank = fits(X, DATA.y, place)
        own = [fits(X[DATA.rows(e)], DATA.y[DATA.rows(e)], place[DATA.rows(e)]) for e in range(4)]
        left = DATA.n_rows - sum(ranks for _, ranks in own)
        noise = sum(values for values, _ in own) / left
        degrees = sum(ranks for _, ranks in own) - rank
        expected = (
            f.sf((pooled - noise * left) / max(degrees, 1) / noise, max(degrees, 1), left)
            if degrees
            else 1.0
        )
        assert mean == pytest.approx(expected, abs=1e-9)
        smallest = 1.0
        for e in range(4):
            others = place != e
            rest, rest_rank = fits(X[others], DATA.y[others], place[others])
            freed = rest_rank + own[e][1] - rank
            if freed:
                saved = (pooled - rest - own[e][0]) / freed
                smallest = min(smallest, float(f.sf(saved / noise, freed, left)))
        assert each == pytest.approx(1.0 - (1.0 - smallest) ** 4, abs=1e-9)


@pytest.mark.parametrize("level", LEVELS)
def test_what_environments_are_moved_by_does_not_count(level: Level) -> None:
    """Neither of the outcome nor of a feature."""
    rng = np.random.default_rng(1)
    place = DATA.environment_index
    moved = replace(
        DATA,
        X=DATA.X + 5.0 * rng.normal(size=(4, 4))[place],
        y=DATA.y + 5.0 * rng.normal(size=4)[place],
    )
    other = LinearGaussian().bind(moved).at_level(level)
    assert_allclose(other.log_ratio_many(MASKS), OWN[level].log_ratio_many(MASKS), atol=1e-8)
    assert_allclose(other.gain_many(MASKS), OWN[level].gain_many(MASKS), atol=1e-8)


def test_the_empty_set_is_tested_by_the_noise_alone() -> None:
    effects, free = (OWN[level].invariance_test(MASKS[:1], STRICT) for level in LEVELS)
    assert (effects.mean[0], effects.each[0]) == (1.0, 1.0)
    assert effects.spread[0] < 1.0
    assert free.joint[0] == 1.0
    assert OWN[Level.effects_noise_free].log_ratio_many(MASKS[:1])[0] == pytest.approx(
        0.0, abs=1e-9
    )


@pytest.mark.parametrize("level", LEVELS)
def test_moments_say_the_same_as_rows(level: Level) -> None:
    other = LinearGaussian().bind(Moments.from_data(DATA)).at_level(level)
    assert_allclose(other.log_ratio_many(MASKS), OWN[level].log_ratio_many(MASKS), atol=1e-9)
    mask = MASKS[3]
    assert_allclose(other.fit(mask).coefficients, OWN[level].fit(mask).coefficients, rtol=1e-9)
    assert_allclose(
        other.standard_errors(mask).values, OWN[level].standard_errors(mask).values, rtol=1e-7
    )


def test_coefficients_and_errors_are_those_with_environment_intercepts() -> None:
    import statsmodels.api as sm

    mask = MASKS[3]
    model = OWN[Level.effects]
    design = np.column_stack(
        [DATA.X[:, mask], DATA.environment_index[:, None] == np.arange(4)]
    ).astype(float)
    expected = sm.OLS(DATA.y, design).fit()
    fit = model.fit(mask)
    errors = model.standard_errors(mask)
    assert_allclose(fit.coefficients, expected.params[:2], rtol=1e-9)
    assert_allclose(errors.values[-1], expected.bse[:2], rtol=1e-9)
    assert errors.freedom[-1] == expected.df_resid
    assert fit.intercept == pytest.approx(float(DATA.counts @ expected.params[2:]) / DATA.n_rows)
    assert_allclose(
        fit.local_coefficients, LinearGaussian().bind(DATA).fit(mask).local_coefficients
    )


def test_what_is_constant_in_every_environment_has_no_effect_to_compare() -> None:
    size = np.array([1.0, 4.0, 2.0, 3.0])[DATA.environment_index]
    data = replace(DATA, X=np.column_stack([DATA.X[:, :3], size]))
    model = LinearGaussian().bind(data).at_level(Level.effects)
    assert (np.isinf(model.log_ratio_many(MASKS)) == MASKS[:, 3]).all()
    assert (np.isinf(model.gain_many(MASKS)) == MASKS[:, 3]).all()
    assert not model.compatible(MASKS, Tolerance())[MASKS[:, 3]].any()
    with pytest.warns(NotInvariantWarning):
        assert "x3" not in BIP().fit(data).selected_features_


def test_a_walk_over_all_subsets_finds_the_compatible_ones() -> None:
    """As tests of one subset after the other do, also with thousands of subsets, which a screen
    rejects."""
    rng = np.random.default_rng(5)
    place = np.repeat(np.arange(5), 60)
    X = rng.normal(size=(300, 9))
    y = X[:, 0] - X[:, 1] + 3.0 * rng.normal(size=5)[place] + rng.normal(size=300)
    X[:, 2] += y * rng.uniform(-1.0, 1.0, 5)[place]
    with pytest.warns(NotInvariantWarning):
        model = BIP().fit(X, y, environments=place)
    judge = model.decision_.findings.judge
    masks = all_masks(9)
    assert judge.model.level is Level.effects
    compatible = masks[judge.model.compatible(masks, Tolerance())]
    score = model.decision_.findings.score
    best = compatible[np.argmax(score.log_weights(compatible))]
    assert (best == model.decision_.mask).all()
    weights = np.exp(score.log_weights(compatible) - score.log_weights(compatible).max())
    assert_allclose(model.predictive_.inclusion, weights @ compatible / weights.sum(), atol=1e-6)


def test_a_search_finds_what_all_subsets_hold() -> None:
    with pytest.warns(NotInvariantWarning):
        exact, searched = (
            BIP(engine=engine, random_state=0).fit(DATA) for engine in ("exact", "tempering")
        )
    assert exact.decision_.level == searched.decision_.level == Level.effects
    assert exact.selected_features_ == searched.selected_features_ == ("x0", "x1")


def test_permutations_within_environments() -> None:
    """Residuals that are permuted over all rows are centred in each environment again, as refits
    do."""
    rng = np.random.default_rng(3)
    place = np.repeat([2, 0, 1, 3], [12, 9, 14, 11])
    X = rng.normal(size=(46, 2))
    y = rng.standard_t(3, size=46)
    for values in (X, y):
        for e in range(4):
            values[place == e] -= values[place == e].mean(axis=0)
    fitted = X @ np.linalg.lstsq(X, y)[0]
    order = np.argsort(np.abs(y - fitted), kind="stable")
    drawn = permutation._permutations(46, 0, 50)
    smallest = []
    for rows in drawn:
        permuted = fitted[order] + (y - fitted)[order][rows]
        pooled, rank = fits(X[order], permuted, place[order])
        own = [
            fits(
                X[order][place[order] == e],
                permuted[place[order] == e],
                place[order][place[order] == e],
            )
            for e in range(4)
        ]
        left = 46 - sum(ranks for _, ranks in own)
        noise = sum(values for values, _ in own) / left
        each = []
        for e in range(4):
            others = place[order] != e
            rest, rest_rank = fits(X[order][others], permuted[others], place[order][others])
            freed = rest_rank + own[e][1] - rank
            each.append(float(f.sf((pooled - rest - own[e][0]) / freed / noise, freed, left)))
        smallest.append(min(each))
    limit = float(np.sort(smallest)[3]) * 1.001
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patched:
        patched.setattr(permutation, "PERMUTATIONS", 50)
        assert permutation_p_value(X, y, place, limit, within=True) == pytest.approx(5 / 51)


# ---------------------------------------------------------------- which level


@pytest.mark.parametrize("seed", range(4))
def test_where_the_full_level_holds_free_baselines_change_nothing(seed: int) -> None:
    data = sites(seed, baselines=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        auto, shared = (BIP(baseline=baseline).fit(data) for baseline in ("auto", "shared"))
    if shared.predictive_ is not None:
        assert auto.decision_.level == shared.decision_.level == Level.full
        assert auto.selected_features_ == shared.selected_features_
        assert_allclose(auto.predictive_.inclusion, shared.predictive_.inclusion, rtol=0, atol=0)
        assert_allclose(auto.coef_, shared.coef_, rtol=0, atol=0)


def own_noise(spread: float) -> MultiEnvironmentData:
    """Sites with baselines of their own, whose noise differs by factors of exp(spread)"""
    data = sites(counts=(80, 90, 70, 80))
    noise = np.exp(spread * np.array([-1.0, 0.0, 1.0, 0.5]))[data.environment_index]
    left = data.y - data.X[:, 0] + 0.5 * data.X[:, 1]
    return replace(data, y=data.y + (noise - 1.0) * (left - left.mean()))


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
def test_a_lower_level_is_not_enumerated_for_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    data = own_noise(1.0)
    exact = BIP().fit(data).decision_
    assert isinstance(exact.findings.engine, Enumeration)
    monkeypatch.setattr(pipeline, "_CHEAP_REPETITIONS", 0.0)
    searched = BIP().fit(data).decision_
    assert isinstance(searched.findings.engine, Tempering)
    assert (searched.level, searched.selected) == (exact.level, exact.selected)
    # What takes no longer than the first enumeration is one, too.
    alike = BIP().fit(own_noise(0.0)).decision_
    assert alike.level == Level.effects
    assert isinstance(alike.findings.engine, Enumeration)


@pytest.mark.filterwarnings("ignore::invariance.exceptions.InvarianceWarning")
def test_a_lower_level_is_not_searched_for_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches of level effects take as long as those of the full one, searches with free noise
    longer."""
    monkeypatch.setattr(pipeline, "_LONGEST_SEARCH", 0.0)
    for spread, level in ((0.0, Level.effects), (1.0, NO_LEVEL)):
        decision = BIP(engine="tempering", random_state=0).fit(own_noise(spread)).decision_
        assert decision.level == level
        told = [note for note in decision.findings.posterior.notes if isinstance(note, Message)]
        settings = [dict(remedy.settings) for note in told for remedy in note.remedies]
        assert ({"family": "linear_gaussian_mean"} in settings) == (level == NO_LEVEL)


def test_fits_with_noise_of_their_own_take_longer_than_others() -> None:
    """As counted: each neighbour is fitted, some twenty times, where others are updated."""
    bound = LinearGaussian().bind(sites())
    levels = bound, *(bound.at_level(level) for level in bound.lower_levels)
    full, effects, free = (model.flip_steps(3.0) for model in levels)
    assert effects == full
    assert free > 20.0 * full


@pytest.mark.parametrize(
    ("spread", "level"), [(0.0, Level.effects), (1.0, Level.effects_noise_free)]
)
def test_the_strongest_level_that_holds_is_taken(spread: float, level: Level) -> None:
    data = own_noise(spread)
    slope = BIP(baseline="shared")
    with pytest.warns(NotInvariantWarning, match="estimate the baseline"):
        model = BIP().fit(data)
    assert model.decision_.level == level
    assert model.selected_features_ == ("x0", "x1")
    assert (
        model.invariant_,
        model.decision_.heterogeneity.same,
        model.decision_.baseline.same,
    ) == (False, True, False)
    with pytest.warns(NotInvariantWarning):
        slope.fit(data)
    assert slope.decision_.level == "none"
    # The paper's posterior is the same.
    assert_allclose(model.posterior_.inclusion, slope.posterior_.inclusion, rtol=0, atol=0)


def test_a_level_at_which_no_feature_predicts_does_not_hold() -> None:
    """The empty set says nothing where baselines are free."""
    rng = np.random.default_rng(0)
    place = np.repeat(np.arange(6), 100)
    X = rng.normal(size=(600, 3))
    y = rng.normal(size=6)[place] + rng.normal(size=600)
    with pytest.warns(NotInvariantWarning):
        decision = BIP().fit(X, y, environments=place).decision_
    assert (decision.level, decision.selected, decision.fell_back) == ("none", (), True)
    findings = decision.findings.at_level(Level.effects)
    assert findings is not None
    assert findings.predictive is not None
    assert not findings.holds


def test_the_baseline_is_tested_and_measured() -> None:
    """By the F test of environment intercepts, and by the standard deviation of a random intercept
    (REML)."""
    import statsmodels.formula.api as smf

    data = sites(counts=(60, 70, 50, 80), baselines=1.0)
    with pytest.warns(NotInvariantWarning):
        decision = BIP().fit(data).decision_
    X = data.X[:, decision.mask]
    shared = fits(X, data.y, np.zeros(data.n_rows))
    own = fits(X, data.y, data.environment_index)
    left = data.n_rows - own[1]
    expected = f.sf((shared[0] - own[0]) / 3 / (own[0] / left), 3, left)
    assert decision.baseline.p_value == pytest.approx(expected, rel=1e-6, abs=0.0)
    frame = data.to_frame().rename(columns={data.outcome_name: "y"})
    site = next(name for name in frame.columns if name not in (*data.feature_names, "y"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixed = smf.mixedlm("y ~ x0 + x1", frame, groups=frame[site]).fit(reml=True)
    assert decision.baseline.sd == pytest.approx(float(np.sqrt(mixed.cov_re.iloc[0, 0])), rel=1e-3)
    assert decision.baseline.unit == data.outcome_name


@pytest.mark.parametrize("baselines", [0.0, 1.0])
def test_baselines_are_tested_apart_from_noise_that_differs(baselines: float) -> None:
    """Beside generalised least squares with and without environment intercepts, each environment
    with its own noise."""
    data = sites(counts=(60, 70, 50, 80), baselines=baselines)
    noise = np.array([0.2, 3.0, 1.0, 0.5])[data.environment_index]
    mask = np.array([True, True, False, False])
    X = data.X[:, mask]
    y = X @ [1.0, -0.5] + (data.y - X @ [1.0, -0.5]) * (noise if baselines == 0.0 else 1.0)
    y += (noise - 1.0) * np.random.default_rng(5).normal(size=len(y)) * (baselines > 0.0)
    bound = LinearGaussian().bind(replace(data, y=y)).at_level(Level.effects_noise_free)
    found = baseline_of(bound, mask, "y", None)

    dummies = (data.environment_index[:, None] == np.arange(4)).astype(float)
    deviances = []
    for design in (np.column_stack([X, np.ones(len(y))]), np.column_stack([X, dummies])):
        weights = np.ones(len(y))
        for _ in range(200):
            root = np.sqrt(weights)
            beta = np.linalg.lstsq(design * root[:, None], y * root)[0]
            variances = np.array(
                [np.mean((y - design @ beta)[dummies[:, e] == 1.0] ** 2) for e in range(4)]
            )
            weights = 1.0 / variances[data.environment_index]
        deviances.append(float(dummies.sum(axis=0) @ np.log(variances)))
    # A row with the mean of each column
    away = np.column_stack([np.broadcast_to(X.mean(axis=0), (4, 2)), np.eye(4)])
    errors = np.sqrt(np.diag(away @ np.linalg.inv((design * weights[:, None]).T @ design) @ away.T))
    own, own_errors = bound.baselines(mask)
    assert_allclose(own, away @ beta, rtol=1e-6)
    assert_allclose(own_errors, errors, rtol=1e-6)
    assert found.sd == pytest.approx(heterogeneity(own, errors).tau[0], rel=1e-6, abs=1e-9)
    # The scale of a small sample moves it a little.
    assert found.p_value == pytest.approx(chi2.sf(deviances[0] - deviances[1], 3), rel=0.3)
    assert found.same == (baselines == 0.0)


@pytest.mark.parametrize(
    "settings",
    [
        {"baseline": "random"},
        {"baseline": "free", "select": "mode"},
        {"baseline": "free", "select": "threshold"},
        {"baseline": "free", "engine": "vi"},
        {"baseline": "free", "family": "bayesian_linear_gaussian"},
    ],
    ids=str,
)
def test_what_free_baselines_are_not_for_is_refused(settings: dict) -> None:
    with pytest.raises(SettingError, match="baseline"):
        BIP(**settings).fit(DATA)


@pytest.mark.parametrize(
    "settings", [{"select": "mode"}, {"select": "threshold"}, {"engine": "vi"}], ids=str
)
def test_rules_and_engines_of_the_papers_posterior_share_baselines(settings: dict) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BIP(random_state=0, **settings).fit(DATA)
    assert model.decision_.findings.level is Level.full


def test_asked_for_free_baselines_have_a_posterior_of_their_own_and_say_what_it_is() -> None:
    with pytest.warns(NotInvariantWarning):
        model = BIP(baseline="free").fit(DATA)
    target = Target(OWN[Level.effects], UniformPrior().bind(4))
    assert_allclose(model.posterior_.inclusion, Enumeration().run(target, RunOptions()).inclusion)
    assert model.posterior_.mode == ()
    assert any("largest at the empty set" in note for note in model.posterior_.notes)


def test_rows_of_new_environments_are_predicted_with_a_random_intercept() -> None:
    import statsmodels.formula.api as smf

    data = sites(counts=(60, 70, 50, 80))
    with pytest.warns(NotInvariantWarning):
        model = BIP(predict_with="selected").fit(data)
    frame = data.to_frame()
    site = next(
        name for name in frame.columns if name not in (*data.feature_names, data.outcome_name)
    )
    frame = frame.rename(columns={data.outcome_name: "y"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixed = smf.mixedlm("y ~ x0 + x1", frame, groups=frame[site]).fit(reml=True)
    X = np.random.default_rng(0).normal(size=(5, 4))
    expected = mixed.params["Intercept"] + X[:, :2] @ mixed.params[["x0", "x1"]].to_numpy()
    assert_allclose(model.predict(X), expected, atol=5e-3)


# ---------------------------------------------------------------- random deviations


def many_sites(seed: int = 0, slopes: float = 0.0) -> MultiEnvironmentData:
    """Thirty sites of 3 to 24 rows with baselines of their own"""
    rng = np.random.default_rng(seed)
    place = np.repeat(np.arange(30), rng.integers(3, 25, 30))
    X = rng.normal(size=(len(place), 3)) + 0.5 * rng.normal(size=(30, 3))[place]
    y = X[:, 0] * (1.0 + slopes * rng.normal(size=30))[place] - X[:, 1] + rng.normal(size=30)[place]
    return MultiEnvironmentData.from_arrays(X, y + rng.normal(size=len(place)), place)


def score_statistic(
    data: MultiEnvironmentData, mask: np.ndarray
) -> tuple[float, float, float, float]:
    """Q = ‖Z'r‖²/RSS of rows centred in each environment, and the traces of its quadratic form, by
    dense algebra"""
    X = data.X[:, mask].copy()
    y = data.y.copy()
    for e in range(data.n_environments):
        X[data.rows(e)] -= X[data.rows(e)].mean(axis=0)
        y[data.rows(e)] -= y[data.rows(e)].mean()
    W = X @ np.linalg.inv(np.linalg.cholesky(X.T @ X / len(y)).T) / np.sqrt(X.shape[1])
    member = (data.environment_index[:, None] == np.arange(data.n_environments)).astype(float)
    Z = (member[:, :, None] * W[:, None]).reshape(len(y), -1)
    left = np.eye(len(y)) - W @ np.linalg.pinv(W)
    C = left @ Z @ Z.T @ left
    residuals = left @ y
    traces = (float(np.trace(np.linalg.matrix_power(C, power))) for power in (1, 2, 3))
    return float(residuals @ Z @ Z.T @ residuals / (residuals @ residuals)), *traces


def test_random_deviations_of_effects_are_those_of_dense_algebra() -> None:
    from invariance.models.invariance_test import pearson_tails, standardised

    data = many_sites()
    model = LinearGaussian(deviations="random").bind(data).at_level(Level.effects)
    for mask in all_masks(3)[1:]:
        statistic, *traces = (np.array([value]) for value in score_statistic(data, mask))
        freedom = float(data.n_rows - data.n_environments - mask.sum())
        expected = pearson_tails(*standardised(statistic, freedom, *traces))[0]
        assert model.mean_p_values(mask[None], np.zeros(1))[0] == pytest.approx(expected, abs=1e-8)
    assert model.mean_p_values(all_masks(3)[:1], np.zeros(1))[0] == 1.0


def test_many_small_sites_with_baselines_of_their_own_share_effects() -> None:
    with pytest.warns(NotInvariantWarning):
        model, shared = (
            BIP(baseline=baseline).fit(many_sites()) for baseline in ("auto", "shared")
        )
    decision = model.decision_
    assert "random deviations" in decision.findings.target.model.name
    assert (decision.level, model.selected_features_) == (Level.effects, ("x0", "x1"))
    assert shared.decision_.level == "none"
    assert decision.heterogeneity.same
    assert 0.5 < decision.baseline.sd < 1.6
    assert np.isfinite(model.predict_interval(many_sites().X[:3])).all()
    with pytest.warns(NotInvariantWarning):
        differing = BIP().fit(many_sites(slopes=0.8))
    assert differing.decision_.level == "none"


def test_the_interval_of_effects_that_are_alike_by_chance_has_an_end() -> None:
    """Six environments that are more alike than chance makes most: about as by free deviations."""
    rng = np.random.default_rng(0)
    place = np.repeat(np.arange(6), 80)
    for _ in range(2):
        X = rng.normal(size=(480, 3))
        y = X[:, 0] - X[:, 1] + 0.0 * rng.normal(size=6)[place] + 0.5 * rng.normal(size=480)
    data = MultiEnvironmentData.from_arrays(X, y, place)
    mask = np.array([[True, True, False]])
    random, free = (
        LinearGaussian(deviations=kind).bind(data).at_level(Level.effects).difference(mask)
        for kind in ("random", "free")
    )
    assert random.estimate[0] == free.estimate[0] == 0.0
    assert 0.7 < random.high[0] / free.high[0] < 2.0


# ---------------------------------------------------------------- curves


def test_curves_of_one_column_are_compared_as_linear_effects() -> None:
    additive, linear = (
        family.bind(DATA).at_level(Level.effects)
        for family in (Additive(knots=None), LinearGaussian())
    )
    assert_allclose(additive.log_ratio_many(MASKS), linear.log_ratio_many(MASKS), atol=1e-9)
    assert_allclose(additive.gain_many(MASKS), linear.gain_many(MASKS), atol=1e-9)
    assert_allclose(additive.null_many(MASKS)[:3], linear.null_many(MASKS)[:3])
    tests = (model.invariance_test(MASKS, Tolerance.strict(1e-9)) for model in (additive, linear))
    assert_allclose(*tests, atol=1e-9)
    mask = MASKS[11]
    (fit, other), errors = (
        (each.fit(mask) for each in (additive, linear)),
        additive.standard_errors(mask),
    )
    for name in ("coefficients", "intercept", "local_coefficients", "local_intercepts"):
        assert_allclose(getattr(fit, name), getattr(other, name), atol=1e-9)
    assert_allclose(errors.values, linear.standard_errors(mask).values, atol=1e-9)
    assert_allclose(errors.freedom, linear.standard_errors(mask).freedom)


def test_curves_that_are_the_same_where_baselines_differ() -> None:
    rng = np.random.default_rng(1)
    place = np.repeat(np.arange(6), 80)
    X = rng.normal(size=(480, 3)) + 0.7 * rng.normal(size=(6, 3))[place]
    y = (
        2.0 * np.sin(1.5 * X[:, 0])
        + X[:, 1]
        + 2.0 * rng.normal(size=6)[place]
        + 0.5 * rng.normal(size=480)
    )
    X[:, 2] = np.linspace(-2.0, 2.0, 6)[place] * y + rng.normal(size=480)
    with pytest.warns(NotInvariantWarning):
        decision = BIP(Additive(knots=5)).fit(X, y, environments=place).decision_
    assert (decision.level, decision.selected) == (Level.effects, ("x0", "x1"))
    assert (decision.heterogeneity.same, decision.baseline.same) == (True, False)


# ---------------------------------------------------------------- families without levels


def test_families_without_levels_tell_effects_from_baselines() -> None:
    data = sites(counts=(80, 90, 70, 80))
    with pytest.warns(NotInvariantWarning):
        decision = (
            BIP(
                BayesianLinearGaussian(),
                prior=InclusionPrior({"x0": 1, "x1": 1, "x2": 0, "x3": 0}),
            )
            .fit(data)
            .decision_
        )
    assert (decision.level, decision.invariant) == ("none", False)
    assert (decision.heterogeneity.same, decision.baseline.same) == (True, False)
    assert "differ" not in decision.verdict.effects.replace("difference", "")
    linear = LinearGaussian().bind(data)
    expected = baseline_of(linear, decision.mask, "y", None)
    assert decision.baseline.p_value == pytest.approx(expected.p_value, rel=1e-6, abs=0.0)
    own = linear.at_level(Level.effects).invariance_test(decision.mask[None], STRICT).mean[0]
    assert decision.heterogeneity.p_exact == pytest.approx(own, rel=1e-6)
