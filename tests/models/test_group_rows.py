"""Strong interventions and sums of huge features: what second moments cannot decide, the rows do,
in every engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance import (
    Enumeration,
    InclusionPrior,
    LinearGaussian,
    MultiEnvironmentData,
    Tempering,
    UniformPrior,
    Variational,
)
from invariance.exceptions import EngineError
from invariance.inference.base import RunOptions, Target, support_notes
from invariance.kernels.active_set import active_set, flip_scores, load
from invariance.kernels.cholesky import subset_log_ratio
from invariance.kernels.subset_tree import score_block
from invariance.models.gaussian_fits import row_groups
from invariance.moments import Moments
from twins import all_masks, walked_log_ratios

EXACT = Enumeration()


def intervened(
    factor: float, p: int = 5, kind: str = "one", seed: int = 0, n: int = 60
) -> MultiEnvironmentData:
    """Causes that are `factor` times as large in environment 1, or whose sum alone, tiny beside
    them, is the cause."""
    rng = np.random.default_rng(seed)
    site = np.repeat(np.arange(4), n)
    X = rng.normal(size=(len(site), p)) * (1 + 0.3 * site[:, None])
    noise = rng.normal(size=len(site))
    if kind == "sum":
        h = rng.normal(size=len(site)) * (1 + site) + site
        X[:, :2] = factor * rng.normal(size=(len(site), 2)) * (1 + site[:, None])
        X[:, 2] = h - X[:, 0] - X[:, 1]
        y = h + 0.3 * noise
    else:
        causes = [0] if kind == "one" else [0, 1]
        X[np.ix_(site == 1, causes)] *= factor
        y = X[:, causes].sum(axis=1) + noise
    return MultiEnvironmentData.from_arrays(X, y, site)


def row_share(X: np.ndarray, y: np.ndarray) -> float:
    """Share of y's squares that X leaves, by Householder reflections of the centred rows, in twice
    the digits."""
    columns = np.column_stack([X, y]).astype(np.longdouble)
    columns = columns - columns.mean(axis=0)
    norms = np.sqrt((columns**2).sum(axis=0))
    columns = columns / np.where(norms > 0, norms, 1)
    for k in range(X.shape[1]):
        v = columns[k:, k].copy()
        if v @ v < 1e-26:
            continue
        v[0] += np.copysign(np.sqrt(v @ v), v[0])
        columns[k:] -= np.outer(v, 2 * (v @ columns[k:]) / (v @ v))
    return float((columns[X.shape[1] :, -1] ** 2).sum())


def twin(data: MultiEnvironmentData, mask: np.ndarray) -> float:
    """log Λ from the rows in twice the digits; the features of `mask` must be independent."""
    *local, pooled = (
        0.5
        * len(rows)
        * np.log(row_share(data.X[rows][:, mask], data.y[rows]) * np.var(data.y[rows]))
        for rows in row_groups(data)
    )
    return sum(local) - pooled


def run(model, prior=None, engine=EXACT, seed: int = 0, n_jobs: int | None = 1):
    prior = (prior or UniformPrior()).bind(model.feature_names, model.largest_size)
    return engine.run(
        Target(model, prior), RunOptions(n_jobs, np.random.default_rng(seed), progress=False)
    )


KINDS = [("one", 1e5), ("one", 1e8), ("two", 1e7), ("sum", 1e5), ("sum", 1e6)]


@pytest.mark.parametrize(("kind", "factor"), KINDS)
def test_every_subset_is_scored_as_by_the_rows(kind: str, factor: float) -> None:
    data = intervened(factor, kind=kind)
    masks = all_masks(5)
    expected = np.array([twin(data, mask) for mask in masks])
    tolerance = 1e-6 if factor < 1e8 else 1e-4
    model = LinearGaussian().bind(data)
    assert (LinearGaussian().bind(model.moments).log_ratio_many(masks) == -np.inf).any()
    for values in (
        model.log_ratio_many(masks),
        walked_log_ratios(model),
        model.rescore(masks),
    ):
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.sampled_from(KINDS), st.sampled_from([12, 60]))
def test_blocks_and_flips_agree_with_single_subsets(
    seed: int, kind: tuple[str, float], n: int
) -> None:
    data = intervened(kind[1], 7, kind[0], seed, n)
    rng = np.random.default_rng(seed)
    scoring = LinearGaussian().bind(data).scoring()
    place = rng.integers(0, 3, 7)
    fixed = np.flatnonzero(place == 0)
    block = np.flatnonzero(place == 1)
    values = np.empty(1 << len(block))
    score_block(scoring, fixed, np.arange(len(block) + 1), block, values)
    for code, bits in enumerate(all_masks(len(block))):
        members = np.sort(np.concatenate([fixed, block[bits]]))
        assert values[code] == pytest.approx(subset_log_ratio(scoring, members), rel=1e-6, abs=1e-6)
    included = np.append(place == 0, False)
    state = active_set(5, 8, 8)
    change = np.empty(8)
    if not load(scoring, state, included) or not flip_scores(scoring, state, change):
        return
    now = subset_log_ratio(scoring, fixed)
    for j in np.flatnonzero(~np.isnan(change)):
        flipped = included.copy()
        flipped[j] ^= True
        assert change[j] + now == pytest.approx(
            subset_log_ratio(scoring, np.flatnonzero(flipped)), rel=1e-5, abs=1e-5
        )


@pytest.mark.parametrize(("kind", "factor", "truth"), [("one", 1e8, [0]), ("sum", 1e5, [0, 1, 2])])
def test_engines_agree_on_a_strong_intervention(kind: str, factor: float, truth: list[int]) -> None:
    model = LinearGaussian().bind(intervened(factor, 8, kind))
    exact, sampled, varied = (
        run(model, engine=engine) for engine in (EXACT, Tempering(), Variational())
    )
    assert (exact.inclusion[truth] > 0.99).all()
    assert exact.notes == ()
    np.testing.assert_allclose(sampled.inclusion, exact.inclusion, atol=0.03)
    assert sampled.log_evidence == pytest.approx(exact.log_evidence, abs=0.1)
    np.testing.assert_allclose(varied.reweighted.inclusion, exact.inclusion, atol=0.05)


def test_a_copy_of_the_outcome_is_named() -> None:
    data = intervened(1.0)
    copied = replace(data, X=np.column_stack([data.X[:, :4], 3.0 * data.y - 2.0]))
    model = LinearGaussian().bind(copied)
    (copy,) = model.outside_support(all_masks(5))
    assert run(model).notes == (f"16 of 32 subsets are outside the support: {copy}.",)
    assert run(model, UniformPrior(max_size=2)).notes == (
        f"5 of 16 subsets are outside the support: {copy}.",
    )
    assert run(model, InclusionPrior({"x4": 0.0})).notes == ()
    bound = UniformPrior().bind(model.feature_names, model.largest_size)
    none = np.zeros((0, 5), bool)
    (note,) = support_notes(Target(model, bound), none)
    assert copy in note
    assert support_notes(Target(LinearGaussian().bind(intervened(1e6)), bound), none) == []
    for engine in (EXACT, Tempering(), Variational()):
        assert engine is EXACT or note in run(model, None, engine).notes
        with pytest.raises(
            EngineError, match=r"'x4' determines the outcome .* hold 'x0', 'x4': force fewer"
        ):
            run(model, InclusionPrior({"x4": 1.0, "x0": 1.0}), engine)


def test_the_count_is_of_subsets_that_the_prior_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of those beyond max_size, nor with features that the prior forces out."""
    monkeypatch.setattr("invariance.kernels.subset_tree.MOST_LOW", 4)
    data = intervened(1.0, 8)
    masks = all_masks(8)
    data.X[:, 6] = data.X[:, 2] - data.X[:, 5]
    model = LinearGaussian().bind(Moments.from_data(data))
    forced = (
        InclusionPrior({"x1": 1.0, "x3": 0.0}, max_size=5),
        InclusionPrior({"x2": 1.0}, max_size=4),
    )
    for prior in (UniformPrior(max_size=3), *forced, InclusionPrior({"x2": 0.0})):
        bound = prior.bind(model.feature_names, model.largest_size)
        allowed = bound.log_prob(masks) > -np.inf
        outside = int((masks[:, [2, 5, 6]].all(axis=1) & allowed).sum())
        posterior = run(model, prior, Enumeration(in_memory=0))
        assert posterior.diagnostics["subsets_undecidable"] == outside
        told = (
            [f"{outside} of {allowed.sum()} subsets are outside the support: 'x2', 'x5', 'x6' "]
            if outside
            else []
        )
        assert [
            note[: len(start)] for note, start in zip(posterior.notes, told, strict=True)
        ] == told
