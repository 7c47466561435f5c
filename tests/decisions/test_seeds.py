"""Random states and progress of a fit."""

from __future__ import annotations

import threading

import numpy as np
from numba.core import event

from decision_cases import made
from invariance import BIP
from invariance._tools.progress import ProgressBar, compilation_explained
from invariance.datasets import make_example
from invariance.decisions.search import generator
from invariance.inference.tempering.engine import Tempering


def test_a_random_state_seeds_a_generator_that_spawns() -> None:
    first, again, other = (generator(np.random.RandomState(seed)) for seed in (3, 3, 4))
    drawn = [rng.spawn(1)[0].integers(1 << 40) for rng in (first, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]
    state = np.random.RandomState(3)
    assert generator(state).integers(1 << 40) != generator(state).integers(1 << 40)


def test_a_fit_takes_a_random_state() -> None:
    data = make_example()
    engine = Tempering(chains=2, steps=50)
    first, again = (BIP(engine=engine, random_state=np.random.RandomState(3)).fit(data) for _ in range(2))
    assert (first.posterior_.inclusion == again.posterior_.inclusion).all()


def test_stages_have_names_of_their_own_and_are_told_by_one_thread() -> None:
    heard: list[str] = []
    BIP(progress=lambda done, what: heard.append(what)).fit(made())
    assert list(dict.fromkeys(heard)) == ["scoring subsets", "scoring compatible subsets"]


def test_a_function_is_called_by_the_thread_that_waits() -> None:
    callers: list[str] = []

    def compiles() -> None:
        with event.trigger_event("numba:compile"):
            pass

    def elsewhere() -> None:
        worker = threading.Thread(target=compiles)
        worker.start()
        worker.join()

    def hear(done: float, what: str) -> None:
        callers.append(threading.current_thread().name)

    with compilation_explained(hear):
        elsewhere()
        with ProgressBar("counting", 2, hear):
            elsewhere()
    assert set(callers) == {threading.current_thread().name}
    assert len(callers) == 2
