"""Times operations of the `invariance` that PYTHONPATH names, as `revisions.py` asks for them: a
name in, JSON out.

Only what is public, so that earlier revisions know it too; what one does not know is an answer like
any other.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# Of one round: calls go on for so many seconds, at most so many times.
SECONDS = 0.3
CALLS = 20
Call = Callable[[], Any]
Arrays = dict[str, np.ndarray]


def fit(data: Arrays, estimator: str = "BIP", **settings: Any) -> Any:
    import invariance

    rest = {"event": data["event"]} if estimator == "BIPSurvival" else {}
    return getattr(invariance, estimator)(**settings).fit(
        data["X"], data["y"], environments=data["site"], **rest
    )


def walk(data: Arrays, n_jobs: int = 1) -> Call:
    """All subsets scored, without what a fit does before and after"""
    from invariance import Enumeration, LinearGaussian, MultiEnvironmentData, UniformPrior
    from invariance.inference.base import RunOptions, Target

    bound = LinearGaussian().bind(
        MultiEnvironmentData.from_arrays(data["X"], data["y"], data["site"])
    )
    target = Target(bound, UniformPrior().bind(data["X"].shape[1]))
    return lambda: Enumeration(time_limit=None).run(target, RunOptions(n_jobs))


def rows(file: Path) -> Any:
    from invariance import Moments

    return Moments.from_rows(str(file), "y", "site")


def predictions(data: Arrays) -> Call:
    model = fit(data)
    X = np.tile(data["X"], (100, 1))
    return lambda: model.predict(X)


def operations(folder: Path) -> dict[str, Callable[[], Call]]:
    """{name: what prepares a call}, of the files that `revisions.py` wrote"""
    data = {file.stem: dict(np.load(file)) for file in folder.glob("*.npz")}
    widths = sorted({int(name.split()[-1]) for name in data if name.startswith("alike")})
    import_command = [sys.executable, "-c", "from invariance import BIP"]
    found: dict[str, Callable[[], Call]] = {
        "import": lambda: lambda: subprocess.run(import_command, check=True)
    }
    for p in widths:
        for world in ("alike", "paper"):
            d = data[f"{world} {p}"]
            found[f"fit {p}, {world}"] = lambda d=d: lambda: fit(d)
            found[f"fit {p}, {world}, mode"] = lambda d=d: lambda: fit(d, select="mode")
    found |= {
        "all subsets": lambda: walk(data[f"alike {widths[-1]}"]),
        "tempering 50": lambda: lambda: fit(data["many"], engine="tempering", random_state=0),
        "classifier 10": lambda: lambda: fit(data["classes"], "BIPClassifier"),
        "classifier 10, mode": lambda: lambda: fit(data["classes"], "BIPClassifier", select="mode"),
        "Poisson 10": lambda: lambda: fit(data["counts"], family="poisson"),
        "Poisson 10, mode": lambda: lambda: fit(data["counts"], family="poisson", select="mode"),
        "survival 8": lambda: lambda: fit(data["times"], "BIPSurvival"),
        "moments of rows": lambda: lambda: rows(folder / "rows.parquet"),
        "predict": lambda: predictions(data[f"paper {widths[0]}"]),
    }
    return found


def timed(call: Call) -> list[float]:
    """Seconds of each call of one round"""
    times: list[float] = []
    while len(times) < CALLS and sum(times) < SECONDS:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return times


def main() -> None:
    warnings.simplefilter("ignore")
    known = operations(Path(sys.argv[1]))
    prepared = {}
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        name = line.rstrip("\n")
        answer = None
        try:
            if name not in prepared:
                prepared[name] = known[name]()
            answer = timed(prepared[name])
        except Exception as error:  # reported by who asked
            answer = f"{type(error).__name__}: {error}"[:160]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
