"""What a fit may draw from."""

from __future__ import annotations

import numpy as np

from invariance import BIP
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
