"""The gate of speed: what it makes of ratios, which here are made up. No time is measured."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from invariance import LinearGaussian, Logistic, MultiEnvironmentData

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
def scripted(check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """make({name: the ratios that it shows one after the other, or why it is skipped}, committed ratios)"""
    file = tmp_path / "floors.toml"

    def make(shown: dict[str, list[float] | str], **known: float) -> None:
        monkeypatch.setattr(check, "committed", lambda *given, read=check.committed: read(*given) if given else known)
        monkeypatch.setattr(check, "write", partial(check.write, file=file))
        pairs = {name: each if isinstance(each, str) else check.Pair(int, int) for name, each in shown.items()}
        series = {id(pairs[name]): iter(each) for name, each in shown.items()}
        monkeypatch.setattr(check, "measured", lambda pair: next(series[id(pair)]))
        monkeypatch.setattr(check, "ENTRIES", {name: lambda _, pair=pair: pair for name, pair in pairs.items()})

    return make


@pytest.mark.parametrize(
    ("ratios", "floor", "code"),
    [([7.5], 0.75, 0), ([7.4, 7.3, 7.4], 0.75, 1), ([7.4, 7.3, 7.6], 0.75, 0), ([5.1], 0.5, 0), ([4.9] * 3, 0.5, 1)],
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
    scripted({"steady": [10.0], "other": ratios, "skipped": "one core"}, steady=10.0, other=10.0, skipped=10.0)
    assert check.main(["--floor", str(floor)]) == code
    said = capsys.readouterr().out
    assert ("Slower than committed: other\n" in said) == bool(code)
    assert "skipped: one core" in said


def test_an_operation_without_a_committed_ratio_fails(check: ModuleType, scripted: Callable) -> None:
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


def test_a_ratio_is_of_the_best_of_each_for_the_same_work(check: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"ours": [4.0, 2.0, 3.0], "plain": [9.0, 8.0, 6.0]}
    monkeypatch.setattr(check, "PATIENCE", 0.0)
    monkeypatch.setattr(check, "seconds_of_a_call", lambda call, clock: seconds[call()].pop(0))
    pair = check.Pair(lambda: "ours", lambda: "plain", share=0.1, workers=4)
    assert check.measured(pair) == pytest.approx(6.0 / 0.1 / 2.0 / 4)


def test_the_plain_ways_do_the_same_work(check: ModuleType) -> None:
    rng, site = np.random.default_rng(0), np.repeat([0, 1, 2], 60)
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
