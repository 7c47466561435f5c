"""The gate of speed: what it makes of ratios, which here are made up. No time is measured."""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from invariance import LinearGaussian, Logistic, MultiEnvironmentData, Variational

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    before = set(sys.modules)
    import check

    yield check
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def scripted(
    check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """make({name: the ratios that it shows one after the other, or why it is skipped}, committed
    ratios)"""
    file = tmp_path / "floors.toml"

    def make(shown: dict[str, list[float] | str], **known: float) -> None:
        monkeypatch.setattr(
            check,
            "committed",
            lambda *given, read=check.committed: read(*given) if given else known,
        )
        monkeypatch.setattr(check, "write", partial(check.write, file=file))
        pairs = {
            name: each if isinstance(each, str) else check.Pair(int, int)
            for name, each in shown.items()
        }
        series = {id(pairs[name]): iter(each) for name, each in shown.items()}
        monkeypatch.setattr(check, "measured", lambda pair: next(series[id(pair)]))
        monkeypatch.setattr(
            check, "ENTRIES", {name: lambda _, pair=pair: pair for name, pair in pairs.items()}
        )

    return make


@pytest.mark.parametrize(
    ("ratios", "floor", "code"),
    [
        ([7.5], 0.75, 0),
        ([7.4, 7.3, 7.4], 0.75, 1),
        ([7.4, 7.3, 7.6], 0.75, 0),
        ([5.1], 0.5, 0),
        ([4.9] * 3, 0.5, 1),
    ],
)
def test_a_fall_has_a_name_and_an_exit_code(
    check: ModuleType,
    scripted: Callable,
    capsys: pytest.CaptureFixture[str],
    ratios: list[float],
    floor: float,
    code: int,
) -> None:
    """Once it was seen in each of three attempts."""
    scripted(
        {"steady": [10.0], "other": ratios, "skipped": "one core"},
        steady=10.0,
        other=10.0,
        skipped=10.0,
    )
    assert check.main(["--floor", str(floor)]) == code
    said = capsys.readouterr().out
    assert ("Slower than committed: other\n" in said) == bool(code)
    assert "skipped: one core" in said


def test_without_a_floor_it_is_three_quarters(check: ModuleType, scripted: Callable) -> None:
    for ratios, code in (([7.5], 0), ([7.4] * 3, 1)):
        scripted({"one": ratios}, one=10.0)
        assert check.main([]) == code


def test_an_operation_without_a_committed_ratio_fails(
    check: ModuleType, scripted: Callable
) -> None:
    scripted({"new": [10.0]})
    assert check.main([]) == 1
    scripted({"new": [10.0], "old": [1.0]}, old=1.0)
    assert check.main(["--only", "old"]) == 0


def test_the_lowest_of_three_is_written_and_the_others_stay(
    check: ModuleType, scripted: Callable, tmp_path: Path
) -> None:
    file = tmp_path / "floors.toml"
    file.write_text('[ratios]\n"one" = 1.0\n"on a device" = 7\n')
    scripted({"one": [3.0, 2.0, 4.0], "on a device": "no CUDA device"}, one=1.0)
    assert check.main(["--write"]) == 0
    assert check.committed(file) == {"one": 2.0, "on a device": 7.0}


def test_every_operation_has_a_committed_ratio(check: ModuleType) -> None:
    """Those of a device are written where there is one."""
    assert set(check.committed()) >= {name for name in check.ENTRIES if "device" not in name}
    assert set(check.committed()) <= set(check.ENTRIES)


@pytest.mark.parametrize(
    ("workers", "clock"), [(0, "perf_counter"), (1, "process_time"), (4, "perf_counter")]
)
def test_a_ratio_is_of_the_best_of_each_for_the_same_work(
    check: ModuleType, monkeypatch: pytest.MonkeyPatch, workers: int, clock: str
) -> None:
    """By processor time, but where several cores or a device work."""
    seconds = {"ours": [4.0, 2.0, 3.0], "plain": [9.0, 8.0, 6.0]}
    clocks = []

    def of_a_call(call: Callable[[], str], now: Callable[[], float]) -> float:
        clocks.append(now)
        return seconds[call()].pop(0)

    monkeypatch.setattr(check, "PATIENCE", 0.0)
    monkeypatch.setattr(check, "seconds_of_a_call", of_a_call)
    pair = check.Pair(lambda: "ours", lambda: "plain", share=0.1, workers=workers)
    assert check.measured(pair) == pytest.approx(6.0 / 0.1 / 2.0 / max(workers, 1))
    assert set(clocks) == {getattr(time, clock)}


def test_a_round_counts_its_shortest_call(check: ModuleType) -> None:
    now = iter([0.0, 0.07, 1.0, 1.02, 2.0, 2.05])
    assert check.seconds_of_a_call(int, lambda: next(now)) == pytest.approx(0.02)
    assert next(now, None) is None


def test_one_worker_holds_blas_to_one_thread_and_many_find_it_as_it_is(check: ModuleType) -> None:
    threads = []

    def count() -> None:
        threads.append(
            {
                library["num_threads"]
                for library in threadpool_info()
                if library["user_api"] == "blas"
            }
        )

    with threadpool_limits(2, user_api="blas"):
        for workers in (1, 2):
            check.run(check.Pair(count, int, workers=workers), lambda measure: 1.0)
    assert threads == [{1}, {2}]


class Entries(NamedTuple):
    """worlds: small ones; cores: for how many workers each walk was made"""

    worlds: Any
    cores: list[int]


@pytest.fixture
def small(check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Entries:
    """With 8 features in place of 24."""
    cores = []
    walk = check.walk
    write_rows = partial(sys.modules["revisions"].write_rows, n=800, p=3)
    monkeypatch.setattr(sys.modules["revisions"], "write_rows", write_rows)
    for name, width in (("NARROW", 3), ("MIDDLE", 4), ("WIDE", 8)):
        monkeypatch.setattr(check, name, width)
    monkeypatch.setattr(
        check, "walk", lambda data, n_jobs=1: cores.append(n_jobs) or walk(data, n_jobs)
    )
    monkeypatch.setattr(check, "n_workers", lambda n_jobs: 3)
    return Entries(check.Worlds(tmp_path), cores)


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
def test_both_sides_score_the_same_subsets_but_for_the_share(
    check: ModuleType, small: Entries
) -> None:
    for name in ("exact, one core", "logistic", "random deviations"):
        pair = check.ENTRIES[name](small.worlds)
        ours = pair.ours()
        posterior = getattr(ours, "posterior_", ours)
        assert posterior.n_subsets == len(pair.plain()) / pair.share, name
        assert pair.workers == 1
    assert ours.deviations == "random"
    assert ours.select == "mode"


def test_fits_are_compared_with_those_of_the_mode(check: ModuleType, small: Entries) -> None:
    for width in (check.NARROW, check.MIDDLE):
        world = f"{width}, {'paper' if width == check.NARROW else 'alike'}"
        pair = small.worlds.default_over_mode(world)
        ours = pair.ours()
        plain = pair.plain()
        assert (ours.select, plain.select) == ("predictive", "mode")
        assert ours.n_features_in_ == plain.n_features_in_ == width
        assert (pair.share, pair.workers) == (1.0, 1)


def test_all_cores_are_compared_with_one(check: ModuleType, small: Entries) -> None:
    pair = check.ENTRIES["exact, all cores: share of each core"](small.worlds)
    assert small.cores == [3, 1]
    assert pair.workers == 3
    assert pair.ours().n_subsets == pair.plain().n_subsets == 2**check.WIDE


def test_moments_of_rows_are_those_of_the_plain_way(check: ModuleType, small: Entries) -> None:
    pair = check.ENTRIES["rows of a file"](small.worlds)
    moments = pair.ours()
    plain = pair.plain()
    assert (len(plain), pair.share) == (8, 1.0)
    for label, covariance in zip("abcdefgh", plain, strict=True):
        e = moments.environments.index(label)
        np.testing.assert_allclose(
            moments.scatter[e] / (moments.counts[e] - 1), covariance, rtol=1e-9
        )


def test_ascents_are_compared_by_iterations(check: ModuleType, small: Entries) -> None:
    """As many pairs of draws in both."""
    pair = check.ENTRIES["variational"](small.worlds)
    engine = Variational()
    assert pair.ours.keywords["engine"] == "vi"
    assert pair.share == pair.plain.args[1] / (engine.iterations * len(engine.starts))
    assert len(pair.plain()) == 50
    pair = check.ENTRIES["one target of a sweep"](small.worlds)
    engine = pair.ours.args[1].engine
    assert pair.share == pair.plain.args[1] / engine.iterations
    assert (pair.plain.args[2], len(pair.ours.keywords["outcomes"])) == (engine.pairs, 1)


def test_the_plain_ways_do_the_same_work(check: ModuleType) -> None:
    rng = np.random.default_rng(0)
    site = np.repeat([0, 1, 2], 60)
    X = rng.normal(size=(180, 4)) + site[:, None]
    for family, plain, y in (
        (LinearGaussian(), check._plain.least_squares, X[:, 0] + rng.normal(size=180)),
        (Logistic(0.0), check._plain.logistic, (X[:, 0] > rng.normal(size=180)).astype(float)),
    ):
        data = MultiEnvironmentData.from_arrays(X, y, site)
        masks = np.array([[code >> j & 1 for j in range(4)] for code in range(16)], dtype=bool)
        expected = family.bind(data).log_ratio_many(masks)
        found = [plain(data, columns) for columns in check._plain.subsets(4)]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
