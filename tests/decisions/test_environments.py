"""Tests of each environment against all others, beside plain fits to rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import gammaincc, gammaln, polygamma, psi
from scipy.stats import chi2, f

from invariance import (
    LinearGaussian,
    Logistic,
    Moments,
    MultiEnvironmentData,
    NegativeBinomial,
    Poisson,
)
from invariance.decisions.environments import (
    DeviancePart,
    Deviation,
    EnvironmentTest,
    GaussianTests,
    MeanTests,
    RegressionTests,
    WorstEnvironment,
    environment_tests,
    worst_environment,
)
from invariance.models.base import IN_MEAN, VARIANCE, BoundModel
from invariance.posterior.posterior import Judge
from regression_cases import grouped_log_likelihood, regression_data

PARTS = (*IN_MEAN, VARIANCE)


def where_it_breaks(model: BoundModel, mask: np.ndarray) -> WorstEnvironment | None:
    return worst_environment(environment_tests(model, mask).each())


def several_sites(
    fault: str | None = None, seed: int = 0, sizes: tuple[int, ...] = (80, 60, 70, 90)
) -> tuple:
    """y = a − b + noise; c results from y, otherwise in every site; `fault` is in the third site.
    Large means."""
    rng = np.random.default_rng(seed)
    tables = []
    outcomes = []
    for e, n in enumerate(sizes):
        broken = fault if e == 2 else None
        a = rng.normal(50.0, 1.0 + 0.2 * e, n)
        b = rng.normal(-30.0 + e, 1.0, n)
        noise = rng.normal(size=n) * (3.0 if broken == "variance" else 1.0)
        y = (
            (a - 50.0) * (-0.5 if broken == "slopes" else 1.0)
            - b
            + noise
            + (2.0 if broken == "intercept" else 0.0)
        )
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
    k = X.shape[1]
    n = len(y)
    g = len(groups)
    counts = np.array([rows.sum() for rows in groups], dtype=float)
    own = np.array([rss(X[rows], y[rows]) for rows in groups])
    dummies = np.column_stack([rows.astype(float) for rows in groups[1:]])
    within = rss(np.column_stack([X, dummies]), y)
    pooled = rss(X, y)
    free = n - g * (k + 1)
    free_within = n - g - k
    free_pooled = n - 1 - k
    nu = counts - 1 - k
    bartlett = nu.sum() * np.log(own.sum() / nu.sum()) - nu @ np.log(own / nu)
    bartlett /= 1.0 + ((1.0 / nu).sum() - 1.0 / nu.sum()) / (3.0 * (g - 1))
    mean = n * psi(free_pooled / 2) - counts @ psi(nu / 2) - n * np.log(n) + counts @ np.log(counts)
    variance = counts**2 @ polygamma(1, nu / 2) - n**2 * polygamma(1, free_pooled / 2)
    total = n * np.log(pooled / n) - counts @ np.log(own / counts)
    d = free_pooled - free_within, free_within - free
    noise = max(1.0, float((1.0 - counts / n) @ (own / nu)) / (g - 1) / (own.sum() / free))
    p_values = [
        f.sf((pooled - within) / d[0] / (noise * within / free_within), d[0], free_within),
        f.sf((within - own.sum()) / d[1] / (noise * own.sum() / free), d[1], free) if k else np.nan,
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
        "p": min(1.0, len(known) * min(known)),
    }


def flat(found: Deviation) -> dict[str, float]:
    return {
        "deviance": found.deviance,
        **{name: found.parts[name].deviance for name in PARTS},
        **{
            f"p {name}": np.nan if part.p_value is None else part.p_value
            for name, part in found.parts.items()
        },
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
    tests = GaussianTests(model, mask)
    excess = float(model.excess_kurtosis(mask[None])[0])
    assert (excess != 0.0) == with_rows
    codes = data.environment_index
    whole = tests.deviation(None)
    assert whole is not None
    groups = [[codes == e for e in range(4)], *([codes == e, codes != e] for e in range(4))]
    for found, split in zip(
        [whole, *(test.deviation for test in tests.each())], groups, strict=True
    ):
        assert found is not None
        wanted = twin(data.X[:, mask], data.y, split, excess)
        for name, value in flat(found).items():
            assert value == pytest.approx(wanted[name], rel=1e-8, abs=1e-8, nan_ok=True), name
        assert found.deviance == pytest.approx(
            sum(part.deviance for part in found.parts.values()), abs=1e-9
        )
    assert whole.deviance == pytest.approx(-2.0 * model.log_ratio(mask), rel=1e-9)
    evidence = Judge(model).evidence(mask[None]).one()
    assert whole.expected_deviance == pytest.approx(evidence.expected_deviance)
    tail = model.invariance_tails(mask[None], np.array([-0.5 * evidence.deviance]))[0]
    assert whole.p_gaussian == pytest.approx(tail)


def test_rows_decide_what_second_moments_cannot() -> None:
    X, y, labels = several_sites("intercept")
    twice = np.column_stack([X[:, 0], X[:, 0] * (1.0 + 1e-9 * np.sin(np.arange(len(y)))), X[:, 1]])
    data = MultiEnvironmentData.from_arrays(twice, y, labels.tolist())
    together = where_it_breaks(LinearGaussian().bind(data), np.array([True, True, True]))
    assert together is not None
    assert (together.environment, together.part) == ("east", "intercept")
    alone = Moments.from_data(data)
    assert where_it_breaks(LinearGaussian().bind(alone), np.array([True, True, True])) is None


def test_settings_and_columns_that_are_constant_in_an_environment() -> None:
    X, y, labels = several_sites("variance")
    setting = np.array(
        [{"north": 0.0, "south": 1.0, "east": 5.0, "west": 2.0}[label] for label in labels]
    )
    partly = np.where(labels == "west", 7.0, X[:, 1])
    data = MultiEnvironmentData.from_arrays(
        np.column_stack([X[:, 0], setting, partly]), y, labels.tolist()
    )
    # Own slopes of two columns in three environments, of one in the last: 7 for 2. The setting is
    # one of 3 intercepts.
    own = [
        rss(data.X[labels == e][:, [0, 2] if e != "west" else [0]], y[labels == e])
        for e in data.environments
    ]
    dummies = np.column_stack([labels == e for e in data.environments[1:]]).astype(float)
    within = rss(np.column_stack([data.X[:, [0, 2]], dummies]), y)
    pooled = rss(data.X, y)
    n = len(y)
    for source in (data, Moments.from_data(data)):
        found = GaussianTests(LinearGaussian().bind(source), np.ones(3, dtype=bool)).deviation(None)
        assert found is not None
        counts = np.array([(labels == e).sum() for e in data.environments])
        noise = (
            (1.0 - counts / n)
            @ (np.array(own) / (counts - [3, 3, 3, 2]))
            / 3
            / (sum(own) / (n - 11))
        )
        expected = f.sf((within - sum(own)) / 5 / (noise * sum(own) / (n - 11)), 5, n - 11)
        assert found.parts["slopes"].p_value == pytest.approx(expected, rel=1e-7)
        expected = f.sf((pooled - within) / 2 / (noise * within / (n - 6)), 2, n - 6)
        assert found.parts["intercept"].p_value == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("noise", ["t3", "exponential"])
def test_noise_that_is_not_normal_raises_no_more_alarms_than_it_should(noise: str) -> None:
    """With equal variances and Fisher's rule, which takes the parts for independent, there are 5
    and 4."""
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        place = np.repeat(np.arange(10), 20)
        x = rng.normal(size=(200, 1)) * rng.uniform(0.5, 2.0, 10)[place, None]
        y = x[:, 0] + (rng.standard_t(3, size=200) if noise == "t3" else rng.exponential(size=200))
        worst = where_it_breaks(
            LinearGaussian().bind(regression_data(x, y, place)), np.ones(1, dtype=bool)
        )
        assert worst is not None
        alarms += worst.p_value < 0.05 / 10
    assert alarms <= 2


def test_an_environment_that_scatters_more_has_no_other_coefficients_for_that() -> None:
    found = []
    for seed in range(12):
        model = LinearGaussian().bind(data_of("variance", seed=seed))
        deviation = GaussianTests(model, np.array([True, True, False])).deviation(2)
        assert deviation is not None
        assert deviation.worst_part == "variance"
        found += [deviation.parts[name].p_value for name in IN_MEAN]
    assert np.median(found) > 0.35


def test_ties_of_p_values_that_vanish_are_broken_by_the_deviance() -> None:
    def tested(label: str, deviance: float) -> EnvironmentTest:
        parts = {name: DeviancePart(deviance / 3.0, 0.0) for name in PARTS}
        return EnvironmentTest(label, 50, Deviation(deviance, 3.0, 2.0, 0.0, 0.0, parts))

    worst = worst_environment((tested("a", 3000.0), tested("b", 9000.0), tested("c", 5000.0)))
    assert worst is not None
    assert worst.environment == "b"


# ---------------------------------------------------------------- the mean alone


TRUTH = np.array([True, True, False, False])


def unequal_noise(shifted: float = 0.0, n: int = 150) -> MultiEnvironmentData:
    """The outcome follows x0 and x1, with a noise of its own in each of four environments; x2
    follows it, differently; in the last environment it is shifted. x3 has nothing to do with it."""
    rng = np.random.default_rng(0)
    place = np.repeat(range(4), n)
    X = rng.normal(size=(4 * n, 4)) + rng.normal(size=(4, 4))[place]
    y = 1.5 * X[:, 0] - X[:, 1] + np.array([0.4, 1.0, 1.5, 3.0])[place] * rng.normal(size=4 * n)
    y += shifted * (place == 3)
    X[:, 2] = np.array([1.0, 0.3, -0.5, 0.8])[place] * y + rng.normal(size=4 * n)
    return MultiEnvironmentData.from_arrays(X, y, [f"site {e}" for e in place])


@pytest.mark.parametrize("mask", [TRUTH, np.zeros_like(TRUTH)])
def test_parts_of_the_mean_add_up_and_follow_their_law(mask: np.ndarray) -> None:
    data = unequal_noise()
    model = LinearGaussian(invariance="mean").bind(data)
    tests = environment_tests(model, mask)
    assert isinstance(tests, MeanTests)
    whole = tests.deviation(None)
    assert whole is not None
    assert whole.deviance == pytest.approx(-2.0 * model.log_ratio(mask), rel=1e-6)
    assert whole.deviance == pytest.approx(
        sum(part.deviance for part in whole.parts.values()), rel=1e-9
    )
    assert whole.expected_deviance == pytest.approx(-2.0 * model.null_many(mask).expected[0])
    for e, test in enumerate(tests.each()):
        rest = LinearGaussian(invariance="mean").bind(
            data.choosing([f"site {k}" for k in range(4) if k != e])
        )
        added = -2.0 * (model.log_ratio(mask) - rest.log_ratio(mask))
        assert test.deviation is not None
        assert test.deviation.deviance == pytest.approx(added, rel=1e-5)
        unit = test.deviation.expected_deviance / (mask.sum() + 1.0)
        assert test.deviation.p_value == pytest.approx(
            chi2.sf(added / unit, mask.sum() + 1.0), rel=1e-4
        )
        assert test.deviation.worst_part in ("intercept", "slopes")


def test_own_intercepts_from_the_rows() -> None:
    """Slopes alone: as if each environment's outcome and features had been centred."""
    data = unequal_noise(3.0)
    means = np.array([data.y[data.rows(e)].mean() for e in range(4)])
    places = np.array([data.X[data.rows(e)].mean(axis=0) for e in range(4)])
    index = data.environment_index
    centred = replace(data, X=data.X - places[index], y=data.y - means[index])
    whole = environment_tests(LinearGaussian(invariance="mean").bind(data), TRUTH).deviation(None)
    alone = -2.0 * LinearGaussian(invariance="mean").bind(centred).log_ratio(TRUTH)
    assert whole is not None
    assert whole.parts["slopes"].deviance == pytest.approx(alone, rel=1e-5)
    assert whole.parts["intercept"].p_value < 1e-6


def test_rows_and_moments_of_the_mean_agree_and_rows_decide() -> None:
    data = unequal_noise()
    X = data.X.copy()
    X[:, 3] = X[:, 1] + 1e-7 * np.random.default_rng(1).normal(size=len(X))
    for changed, mask in ((data, TRUTH), (replace(data, X=X), np.array([True, True, False, True]))):
        by_rows = environment_tests(
            LinearGaussian(invariance="mean").bind(changed), mask
        ).deviation(2)
        of_moments = LinearGaussian(invariance="mean").bind(Moments.from_data(changed))
        by_moments = environment_tests(of_moments, mask).deviation(2)
        assert by_rows is not None
        if changed is data:
            assert by_moments == by_rows
        else:
            assert by_moments is None


# ---------------------------------------------------------------- regressions


def shifted(counts: bool) -> tuple[np.ndarray, ...]:
    """The outcome of environment 2 is larger than its causes say."""
    rng = np.random.default_rng(3)
    environment = np.repeat(np.arange(4), 150)
    X = rng.normal(size=(600, 4)) + 0.5 * rng.normal(size=(4, 4))[environment]
    predictor = X[:, 0] - X[:, 1] + 1.5 * (environment == 2)
    y = (
        rng.poisson(np.exp(0.5 * predictor))
        if counts
        else rng.random(600) < 1.0 / (1.0 + np.exp(-predictor))
    )
    return X, y.astype(float), environment


@pytest.mark.parametrize("counts", [False, True], ids=["logistic", "poisson"])
def test_parts_of_the_deviance(counts: bool) -> None:
    X, y, environment = shifted(counts)
    specification = Poisson() if counts else Logistic()
    model = specification.bind(regression_data(X, y, environment))
    mask = np.array([True, True, False, False])
    tests = RegressionTests(model, mask)
    whole = tests.deviation(None)
    assert whole.deviance == pytest.approx(-2.0 * model.log_ratio(mask), abs=1e-8)
    assert whole.expected_deviance == 9.0
    assert whole.deviance_sd == pytest.approx(np.sqrt(18.0))
    assert whole.p_gaussian == pytest.approx(chi2.sf(whole.deviance, 9))
    assert sum(part.deviance for part in whole.parts.values()) == pytest.approx(whole.deviance)
    assert set(whole.parts) == {"intercept", "slopes"}
    pooled = grouped_log_likelihood(counts, X[:, :2], y, environment, common_level=True)
    within = grouped_log_likelihood(counts, X[:, :2], y, environment, common_level=False)
    assert whole.parts["intercept"].deviance == pytest.approx(2.0 * (within - pooled), abs=1e-5)
    assert whole.parts["intercept"].p_value == pytest.approx(
        chi2.sf(2.0 * (within - pooled), 3), rel=1e-4
    )
    assert whole.parts["slopes"].p_value == pytest.approx(
        chi2.sf(whole.parts["slopes"].deviance, 6)
    )
    assert whole.p_value == pytest.approx(2.0 * min(part.p_value for part in whole.parts.values()))
    worst = where_it_breaks(model, mask)
    assert (worst.environment, worst.part) == (2, "intercept")
    empty = RegressionTests(model, np.zeros(4, dtype=bool)).each()[2]
    assert (empty.environment, empty.rows, empty.deviation.parts["slopes"].p_value) == (
        2,
        150,
        None,
    )


ENVIRONMENT = np.repeat(["a", "b", "c"], 200)
IN_C = ENVIRONMENT == "c"
X = np.random.default_rng(9).normal(size=(600, 2))


def counts(shape: np.ndarray, slope: np.ndarray) -> MultiEnvironmentData:
    """With so many degrees of scatter: the smaller the shape, the larger."""
    mean = 2.0 * np.exp(slope * X[:, 0])
    y = np.random.default_rng(1).negative_binomial(shape, shape / (shape + mean))
    return MultiEnvironmentData.from_arrays(X, y, ENVIRONMENT)


def times(power: np.ndarray, slope: np.ndarray) -> MultiEnvironmentData:
    """Weibull times with so steep hazards; all end with the event."""
    passed = -np.log(np.random.default_rng(3).random(600)) / np.exp(slope * X[:, 0])
    return MultiEnvironmentData.from_arrays(
        X, passed ** (1.0 / power), ENVIRONMENT, event=np.ones(600)
    )


SCATTER = np.where(IN_C, 0.4, 5.0)
STEEP = np.where(IN_C, 3.0, 1.0)
SAME = np.full(600, 0.5)
OTHER = np.where(IN_C, -0.5, 0.5)


def maximum(mean_columns: list[np.ndarray], alphas: np.ndarray, y: np.ndarray) -> float:
    """The largest log-likelihood of counts with these columns of the log mean; a dispersion for
    each label."""
    Z = np.column_stack(mean_columns)
    n = int(alphas.max()) + 1

    def minus(theta: np.ndarray) -> float:
        mu = np.exp(Z @ theta[n:])
        k = np.exp(-theta[:n])[alphas]
        terms = (
            gammaln(y + k)
            - gammaln(k)
            - gammaln(y + 1.0)
            + k * np.log(k / (k + mu))
            + y * np.log(mu / (k + mu))
        )
        return -float(terms.sum())

    return -float(
        minimize(minus, np.zeros(n + Z.shape[1]), method="BFGS", options={"gtol": 1e-6}).fun
    )


def test_parts_of_counts_are_nested_fits() -> None:
    data = counts(SCATTER, OTHER)
    model = NegativeBinomial(pseudo_rows=0.0).bind(data)
    parts = RegressionTests(model, np.array([True, False])).deviation(2).parts
    one = np.ones(600)
    c = IN_C.astype(float)
    x = X[:, 0]
    y = data.y
    common = np.zeros(600, int)
    own = IN_C.astype(int)
    fits = [
        maximum([one, x], common, y),
        maximum([one, x, c], common, y),
        maximum([one, x, c, c * x], common, y),
        maximum([one, x, c, c * x], own, y),
    ]
    for name, gained in zip(
        ("intercept", "slopes", "dispersion"), 2.0 * np.diff(fits), strict=True
    ):
        assert parts[name].deviance == pytest.approx(gained, abs=1e-3)
        assert parts[name].p_value == pytest.approx(chi2.sf(gained, 1), rel=2e-3, abs=1e-12)
