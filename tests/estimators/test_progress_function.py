"""`progress` as a function of a fraction and a message."""

from __future__ import annotations

import pytest
from sklearn.base import clone

from decision_cases import made
from invariance import BIP
from invariance.baselines import ICP


class Stopped(BaseException):
    pass


@pytest.mark.parametrize("engine", ["exact", "tempering", "vi"])
def test_a_fit_tells_its_stages(engine: str) -> None:
    heard: list[tuple[float, str]] = []
    model = BIP(engine=engine, random_state=0, progress=lambda *said: heard.append(said)).fit(made())
    silent = BIP(engine=engine, random_state=0, progress=False).fit(made())
    assert model.selected_features_ == silent.selected_features_
    stages = dict.fromkeys(message.split(":")[0] for _, message in heard)
    for stage in stages:
        own = [done for done, message in heard if message == stage]
        assert (min(own), max(own)) == (0.0, 1.0)
    assert heard[0][0] == 0.0
    assert heard[-1][0] == 1.0


@pytest.mark.parametrize("engine", ["exact", "tempering", "vi"])
def test_what_it_raises_reaches_the_caller(engine: str) -> None:
    def refuse(done: float, message: str) -> None:
        if done > 0.0:
            raise Stopped(message)

    with pytest.raises(Stopped):
        BIP(engine=engine, random_state=0, progress=refuse).fit(made())


def test_other_methods_and_diagnoses_tell_too() -> None:
    heard: list[str] = []

    def hear(done: float, message: str) -> None:
        heard.append(message)

    ICP(progress=hear).fit(made())
    assert "testing subsets" in heard
    model = clone(BIP(progress=hear)).fit(made())
    heard.clear()
    model.diagnose()
    assert "without each environment" in heard
