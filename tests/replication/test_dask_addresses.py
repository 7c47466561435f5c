"""Addresses at which no Dask scheduler answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from invariance.exceptions import InvarianceError
from replication import make_study
from replication.runs import run_study

distributed = pytest.importorskip("distributed")


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Client must not be made for such an address: it lingers, and ends in a traceback."""

    def client(*arguments: object, **options: object) -> None:
        raise AssertionError("a client was made")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("distributed.Client", client)
    monkeypatch.setattr("invariance._tools.parallel._CONNECTION_SECONDS", 0.5)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Somebody takes calls there, and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def closed_port(silent_port: int) -> int:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        return int(other.getsockname()[1])


def refused(address: str) -> str:
    with pytest.raises(InvarianceError) as caught:
        run_study(make_study("theory", replicates=1), "out", dask=address)
    assert repr(address) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("address", ["nonsense", "", "foo://127.0.0.1:1", "127.0.0.1:99999", "tls://127.0.0.1:1"])
def test_bad_addresses(address: str) -> None:
    refused(address)


def test_nobody_there(closed_port: int) -> None:
    message = refused(f"tcp://127.0.0.1:{closed_port}")
    assert "Timed out trying to connect" in message or "no greeting within 0.5 s" in message


def test_somebody_else_there(silent_port: int) -> None:
    assert "no greeting within 0.5 s" in refused(f"tcp://127.0.0.1:{silent_port}")
