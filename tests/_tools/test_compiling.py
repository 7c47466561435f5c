"""While numba compiles, Python looks for no garbage; before and after, it does what it was told to."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from numba import njit
from numba.core import event

import invariance.kernels  # noqa: F401


class Collecting(event.Listener):
    """Whether garbage is looked for when a compilation begins and when it ends, after those who listened before."""

    def __init__(self) -> None:
        self.at_start: list[bool] = []

    def on_start(self, event: event.Event) -> None:
        self.at_start.append(gc.isenabled())

    def on_end(self, event: event.Event) -> None: ...


@pytest.fixture(params=[True, False], ids=["on", "off"])
def collecting(request: pytest.FixtureRequest) -> Iterator[bool]:
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def doubled(x: float) -> float:
    return 2.0 * x


def test_no_garbage_is_looked_for_while_numba_compiles(collecting: bool) -> None:
    with event.install_listener("numba:compile", Collecting()) as heard:
        assert njit(doubled)(2.0) == 4.0
    assert heard.at_start == [False]
    assert gc.isenabled() == collecting


def test_a_compilation_inside_another_does_not_end_the_wait() -> None:
    inner = njit(doubled)
    with event.install_listener("numba:compile", Collecting()) as heard:
        assert njit(lambda x: inner(x) + inner(1))(2.0) == 6.0
    assert heard.at_start == [False, False, False]
    assert gc.isenabled()


def test_a_compilation_that_fails_ends_the_wait() -> None:
    with pytest.raises(Exception, match="nopython"):
        njit(lambda x: x.nothing)(2.0)
    assert gc.isenabled()
