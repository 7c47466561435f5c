"""Mean-only invariance: log Λ with own variances against a plain twin, its law, fits, errors and
support."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from invariance import BIP, LinearGaussian, Moments, MultiEnvironmentData, Tolerance
from invariance.models.gaussian_mean import MeanGaussian
from twins import all_masks


def simulated(
    seed: int = 0,
    p: int = 5,
    counts: tuple[int, ...] = (40, 55, 70),
    noise: tuple[float, ...] = (0.5, 1.0, 3.0),
) -> MultiEnvironmentData:
    """The outcome follows x0 and x1 alike; the last feature follows it, differently in each
    environment."""
    rng = np.random.default_rng(seed)
    place = np.repeat(range(len(counts)), counts)
    X = rng.normal(size=(len(place), p)) + rng.normal(size=(len(counts), p))[place]
    y = X[:, 0] - 0.5 * X[:, 1] + np.array(noise)[place] * rng.normal(size=len(place))
    X[:, -1] = rng.normal(size=len(counts))[place] * y + rng.normal(size=len(place))
    return MultiEnvironmentData.from_arrays(X, y, place if len(counts) > 1 else None)


def designs(data: MultiEnvironmentData, mask: NDArray) -> list[tuple[NDArray, NDArray]]:
    chosen = data.features.expand(mask)
    parts = [data.rows(e) for e in range(data.n_environments)]
    return [
        (np.column_stack([np.ones(len(rows)), data.X[np.ix_(rows, chosen)]]), data.y[rows])
        for rows in parts
    ]


def squares(design: NDArray, y: NDArray, beta: NDArray) -> float:
    return float(np.sum((y - design @ beta) ** 2))


def twin(data: MultiEnvironmentData, mask: NDArray) -> tuple[float, NDArray]:
    """log Λ and the common coefficients by iterated weighted least squares on the rows"""
    parts = designs(data, mask)
    own = np.array([squares(X, y, np.linalg.lstsq(X, y, rcond=None)[0]) for X, y in parts])
    left = own
    for _ in range(300):
        before = left
        weights = [np.sqrt(len(y) / rss) for (_, y), rss in zip(parts, left, strict=True)]
        stacked = np.vstack([X * w for (X, _), w in zip(parts, weights, strict=True)])
        outcome = np.concatenate([y * w for (_, y), w in zip(parts, weights, strict=True)])
        beta = np.linalg.lstsq(stacked, outcome, rcond=None)[0]
        left = np.array([squares(X, y, beta) for X, y in parts])
        if np.abs(np.log(left / before)).max() < 1e-12:
            break
    return 0.5 * float(data.counts @ np.log(own / left)), beta


def bound(data: MultiEnvironmentData | Moments, **more: float) -> MeanGaussian:
    return LinearGaussian(invariance="mean", **more).bind(data)


DATA = simulated()
MASKS = all_masks(5)


def test_log_ratios_are_those_of_the_rows() -> None:
    expected = [twin(DATA, mask)[0] for mask in MASKS]
    assert_allclose(bound(DATA).log_ratio_many(MASKS), expected, rtol=1e-6, atol=1e-8)
    assert_allclose(
        bound(Moments.from_data(DATA)).log_ratio_many(MASKS), expected, rtol=1e-6, atol=1e-8
    )
    assert_allclose(bound(DATA).rescore(MASKS), expected, rtol=1e-9, atol=1e-9)


def test_variances_do_not_matter_and_coefficients_do() -> None:
    data = simulated(counts=(300, 300, 300), noise=(0.3, 1.0, 4.0))
    truth = np.array([1, 1, 0, 0, 0], bool)
    decoy = np.array([1, 1, 0, 0, 1], bool)
    test = bound(data).invariance_test([truth, decoy], Tolerance())
    assert test.joint[0] > 0.5
    assert test.joint[1] < 1e-6
    assert np.isnan(test.spread).all()
    # Fisher's rule, with nothing said by the spread; where none is tolerated, the p-value as it is.
    np.testing.assert_allclose(test.joint, test.mean * (1.0 - np.log(test.mean)), rtol=1e-9)
    exact = bound(data).invariance_test([truth, decoy], Tolerance.strict())
    np.testing.assert_array_equal(exact.joint, exact.mean)
    assert LinearGaussian().bind(data).invariance_test(truth, Tolerance()).joint[0] < 1e-6


def test_gain_and_reward() -> None:
    model = bound(DATA)
    empty = np.zeros(5, dtype=bool)
    gain = model.gain_many(MASKS)
    for s in (0, 3, 21):
        beta = twin(DATA, MASKS[s])[1]
        nothing = twin(DATA, empty)[1]
        better = [squares(X, y, beta) for X, y in designs(DATA, MASKS[s])]
        worse = [squares(X, y, nothing) for X, y in designs(DATA, empty)]
        assert_allclose(
            gain[s], 0.5 * DATA.counts @ np.log(np.divide(worse, better)), rtol=1e-6, atol=1e-8
        )
        total = np.sum((DATA.y - DATA.y.mean()) ** 2)
        assert_allclose(
            model.r2_many(MASKS[s])[0], 1.0 - np.sum(better) / total, rtol=1e-6, atol=1e-9
        )
    rewarded = bound(DATA, prediction=0.2)
    assert_allclose(
        rewarded.log_ratio_many(MASKS),
        model.log_ratio_many(MASKS) + 0.2 * gain,
        rtol=1e-9,
        atol=1e-9,
    )
    assert_allclose(rewarded.untilted.log_ratio_many(MASKS), model.log_ratio_many(MASKS))
    assert rewarded.name == "linear Gaussian, same mean, prediction rewarded by 0.2"


def test_fit_and_standard_errors() -> None:
    mask = np.array([1, 1, 0, 0, 1], bool)
    beta = twin(DATA, mask)[1]
    parts = designs(DATA, mask)
    covariance = np.linalg.inv(sum(X.T @ X * len(y) / squares(X, y, beta) for X, y in parts))
    errors = np.sqrt(np.diagonal(covariance) * DATA.n_rows / (DATA.n_rows - 4))
    for source in (DATA, Moments.from_data(DATA)):
        model = bound(source)
        fit = model.fit(mask)
        known = model.standard_errors(mask)
        assert_allclose(np.append(fit.intercept, fit.coefficients), beta, rtol=1e-7)
        assert_allclose(
            fit.local_coefficients,
            LinearGaussian().bind(DATA).fit(mask).local_coefficients,
            rtol=1e-9,
        )
        assert_allclose(known.values[-1], errors[1:], rtol=1e-6)
        assert_allclose(
            known.values[:-1],
            LinearGaussian().bind(DATA).standard_errors(mask).values[:-1],
            rtol=1e-9,
        )
    assert not np.allclose(LinearGaussian().bind(DATA).fit(mask).coefficients, beta[1:], rtol=1e-2)


def disputed() -> MultiEnvironmentData:
    """Means of four environments that disagree: between those of two is a saddle, where steps are
    small."""
    rng = np.random.default_rng(2716)
    n_environments = int(rng.integers(2, 8))
    n = int(rng.choice([10, 20, 50]))
    place = np.repeat(np.arange(n_environments), n)
    X = rng.normal(size=(len(place), 3)) + rng.normal(size=(n_environments, 3))[place]
    scale = np.exp(rng.normal(size=n_environments) * rng.choice([0.5, 1.5]))
    y = X[:, 0] + scale[place] * rng.normal(size=len(place))
    y += rng.normal(size=n_environments)[place] * rng.choice([0, 0.5, 1.0, 2.0])
    return MultiEnvironmentData.from_arrays(X, y, place)


def test_the_search_does_not_end_at_a_saddle() -> None:
    data = disputed()
    model = bound(data)
    nothing = np.zeros(3, dtype=bool)
    found = model.log_ratio(nothing)
    intercept = model.fit(nothing).intercept
    groups = [data.y[data.rows(e)] for e in range(data.n_environments)]

    def at(c: float) -> float:
        return -0.5 * sum(
            len(y) * np.log(np.sum((y - c) ** 2) / np.sum((y - y.mean()) ** 2)) for y in groups
        )

    assert_allclose(found, at(intercept), rtol=1e-7)
    assert_allclose(found, model.rescore(nothing[None])[0], rtol=1e-7)
    assert_allclose(bound(Moments.from_data(data)).fit(nothing).intercept, intercept, rtol=1e-5)
    for step in (1e-3, 1e-2, 0.1):
        assert at(intercept) > max(at(intercept - step), at(intercept + step))


def test_left_out_environments_are_predicted_by_common_fits_to_the_others() -> None:
    rng = np.random.default_rng(7)
    place = np.repeat(range(4), 12)
    X = rng.normal(size=(48, 2))
    y = X[:, 0] - X[:, 1] + np.array([0.1, 0.1, 30.0, 0.1])[place] * rng.normal(size=48)
    # The last column nearly copies the first: second moments cannot decide both together.
    X = np.column_stack([X, X[:, 0] + 1e-7 * rng.normal(size=48)])
    data = MultiEnvironmentData.from_arrays(X, y, place)
    missed = np.zeros(8)
    for e in range(4):
        rest = data.choosing([k for k in range(4) if k != e])
        for s, mask in enumerate(all_masks(3)):
            beta = twin(rest, mask)[1]
            missed[s] += np.sum((y[place == e] - beta[0] - X[place == e][:, mask] @ beta[1:]) ** 2)
    expected = 1.0 - missed / np.sum((y - y.mean()) ** 2)
    model = bound(data)
    assert np.abs(model.linear.left_out_r2_many(all_masks(3)) - expected).max() > 0.05
    collinear = all_masks(3)[:, [0, 2]].all(axis=1)
    assert_allclose(model.left_out_r2_many(all_masks(3)), expected, atol=1e-5)
    few = bound(Moments.from_data(data)).left_out_r2_many(all_masks(3))
    np.testing.assert_array_equal(np.isnan(few), collinear)
    assert_allclose(few[~collinear], expected[~collinear], atol=1e-5)


def test_moments_of_some_columns_need_no_kernel_of_their_own() -> None:
    moments = Moments.from_data(DATA)
    few = moments.of_columns(moments.columns[1:])
    assert few.gaps.flags.f_contiguous
    assert all(part.flags.c_contiguous for part in bound(few).local_moments[:3])


@pytest.mark.parametrize("tolerance", [Tolerance(), Tolerance().weak, Tolerance.strict()])
def test_the_screen_rejects_no_compatible_subset(tolerance: Tolerance) -> None:
    n_rejected = 0
    for seed in range(12):
        data = simulated(
            seed, counts=((12, 15, 20), (30, 40, 60, 25))[seed % 2], noise=(0.5, 1.0, 3.0, 1.0)
        )
        model = bound(data)
        walk = model.subset_walk(np.arange(5), np.empty(0, np.int64), tolerance)
        walked = walk.dense(np.empty(0, np.int64), np.ones(6, dtype=bool), np.full(6, -np.inf))
        kept = ~np.isnan(walked.gain)
        assert_allclose(walked.gain[kept], model.gain_many(MASKS)[kept])
        assert_allclose(walked.log_ratio, model.log_ratio_many(MASKS))
        assert kept[model.invariance_test(MASKS, tolerance).joint >= tolerance.level].all()
        n_rejected += int((~kept).sum())
    assert n_rejected > 30


def test_walks_score_every_subset_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    scored = MeanGaussian._scored

    def counted(model: MeanGaussian, masks: NDArray, *more: bool, **named: bool) -> object:
        sizes.append(len(masks))
        return scored(model, masks, *more, **named)

    monkeypatch.setattr(MeanGaussian, "_scored", counted)
    model = BIP(family="linear_gaussian_mean", progress=False).fit(simulated(p=11))
    assert model.predictive_ is not None
    assert [size for size in sizes if size >= 1024] == [1024, 1024]
