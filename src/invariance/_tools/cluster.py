"""Tasks on a running Dask cluster, whose workers may come, go and die."""

from __future__ import annotations

import os
import pkgutil
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice
from typing import Any

from .._version import __version__
from ..exceptions import ClusterWarning, InvarianceError
from .work import Work, hold_one_thread

_CONNECTION_SECONDS = 10
_IN_FLIGHT_PER_THREAD = 4
_FEWEST_IN_FLIGHT = 8
_MOST_LOSSES = 3


def on_cluster(work: Work, tasks: Sequence[Any], address: str) -> Generator[Any, None, None]:
    """The results of all tasks in any order."""
    with connected(address, work.error, _continued(work)) as client:
        yield from _Cluster(client, work).results(tasks)


@contextmanager
def connected(dask: Any, error: type[InvarianceError], then: str) -> Iterator[Any]:
    """The client that is given, or one of the scheduler at an address.

    error, then : the class of complaints, and the sentence that they end with when the work is broken off
    """
    try:
        from distributed import CancelledError, Client, KilledWorker
        from distributed.comm import CommClosedError
    except ImportError:
        raise error("a Dask cluster needs Dask: install it with pip install 'invariance[dask]'.") from None
    if not isinstance(dask, str) and not hasattr(dask, "scheduler"):
        raise error(f"dask={dask!r} is no Client, and no address: give one, or the address that a scheduler prints.")
    if isinstance(dask, str):
        _await_answer(dask, error)
        own = Client(dask, timeout=_CONNECTION_SECONDS, set_as_default=False)
    with own if isinstance(dask, str) else nullcontext(dask) as client:
        try:
            yield client
        except KilledWorker as killed:
            raise _died_again_and_again(error, then) from killed
        except (CancelledError, CommClosedError) as lost:
            raise error(f"the connection to the Dask scheduler was lost. {then}") from lost


class _Cluster:
    """The tasks that are with the scheduler, and what all of them need, which is with the workers.

    The scheduler sees to a task whose worker died. When all workers died at once, what they were sent is lost too:
    it is sent again, and the tasks with it.
    """

    def __init__(self, client: Any, work: Work) -> None:
        from distributed import as_completed

        self.client = client
        self.work = work
        self.shared: Any = None
        self.copies: list[Any] = []
        self.sent: dict[str, tuple[Any, int]] = {}
        self.completed = as_completed(loop=client.loop)

    def results(self, tasks: Iterable[Any]) -> Generator[Any, None, None]:
        from distributed import CancelledError

        waiting = iter(tasks)
        self._send_more(waiting)
        for future in self.completed:
            task, losses = self.sent.pop(future.key)
            try:
                result = future.result()
            except CancelledError as error:
                if error.reason == "scheduler-connection-lost":
                    raise
                if losses == _MOST_LOSSES:
                    raise _died_again_and_again(self.work.error, _continued(self.work)) from error
                self._forget_what_is_lost()
                self._send(task, losses + 1)
                continue
            self._send_more(waiting)
            yield result

    def _send_more(self, waiting: Iterable[Any]) -> None:
        """Few tasks at a time: the cluster may be shared, and may grow."""
        threads = sum(self.client.nthreads().values())
        wanted = max(_IN_FLIGHT_PER_THREAD * threads, _FEWEST_IN_FLIGHT)
        for task in islice(waiting, max(wanted - len(self.sent), 0)):
            self._send(task)

    def _send(self, task: Any, losses: int = 0) -> None:
        arguments = self.work.function, self._shared_there(), task, __version__, self.work.error
        future = self.client.submit(on_worker, *arguments, pure=False)
        self.sent[future.key] = task, losses
        self.completed.add(future)

    def _shared_there(self) -> Any:
        """What the tasks share, on the cluster: a reference, small however large it is."""
        losses = 0
        while self.shared is None:
            if losses > _MOST_LOSSES:
                raise _died_again_and_again(self.work.error, _continued(self.work))
            await_workers(self.client, self.work.error)
            with suppress(OSError, KeyError):  # of a worker that died while it was sent there
                (self.shared,) = self.client.scatter([self.work.shared], hash=False)
                self.copies = [self._copy_to(worker) for worker in self.client.nthreads()]
            losses += 1
        return self.shared

    def _copy_to(self, worker: str) -> Any:
        """A task that needs it brings it there. Dask's own broadcast may wait for ever where a worker dies."""
        return self.client.submit(id, self.shared, workers=[worker], allow_other_workers=True, pure=False)

    def _forget_what_is_lost(self) -> None:
        """The scheduler is asked: what workers lost while it was sent there is never reported as lost."""
        if self.shared is not None:
            holders = self.client.sync(self.client.scheduler.who_has, keys=[self.shared.key])
            if not any(holders.values()):
                self.shared = None


def await_workers(client: Any, error: type[InvarianceError]) -> None:
    """Some clusters have no worker before they have a task: one that can be done without this package."""
    if not client.nthreads():
        address = client.scheduler.address
        warnings.warn(
            f"the Dask cluster has no worker at present: waiting. Start one with `dask worker {address}`.",
            ClusterWarning,
            stacklevel=2,
        )
    client.submit(os.getpid, pure=False).result()
    _check_versions(client, error)


def _check_versions(client: Any, error: type[InvarianceError]) -> None:
    """Asked without this package: where it is missing Dask lets workers die of it, one after the other."""
    asked = pkgutil.resolve_name, "invariance._version:__version__"
    try:
        scheduler = client.run_on_scheduler(*asked)
    except ImportError as missing:
        scheduler = missing
    check_version("the Dask scheduler", scheduler, __version__, error)
    for address, there in client.run(*asked, on_error="return").items():
        if not isinstance(there, OSError):  # of a worker that has just died
            check_version(f"the Dask worker {address}", there, __version__, error)


def on_worker(
    function: Callable[[Any, Any], Any], shared: Any, task: Any, version: str, error: type[InvarianceError]
) -> Any:
    check_version("a Dask worker that came later", __version__, version, error)
    hold_one_thread()
    return function(shared, task)


def check_version(place: str, there: str | Exception, here: str, error: type[InvarianceError]) -> None:
    if there != here:
        found = f"invariance {there}" if isinstance(there, str) else f"no invariance ({there})"
        raise error(f"{place} has {found}, and version {here} gives out the work: install the same there.")


def _continued(work: Work) -> str:
    return f"{work.kept}: run it again to continue."


def _died_again_and_again(error: type[InvarianceError], then: str) -> InvarianceError:
    return error(f"the Dask workers died again and again, perhaps for want of memory. {then}")


def _await_answer(address: str, error: type[InvarianceError]) -> None:
    """Raise unless a scheduler answers there soon.

    A Client that cannot connect would say so late or, where the other side keeps silent, never.
    """
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    from distributed import Security
    from distributed.comm import connect

    async def greet() -> None:
        options = Security().get_connection_args("client")
        comm = await asyncio.wait_for(connect(address, timeout=_CONNECTION_SECONDS, **options), _CONNECTION_SECONDS)
        await comm.close()

    # A thread of its own: in a notebook this one already has an event loop.
    with ThreadPoolExecutor(1) as thread:
        try:
            thread.submit(lambda: asyncio.run(greet())).result()
        except (OSError, ValueError, TypeError) as failure:
            reason = str(failure) or f"no greeting within {_CONNECTION_SECONDS} s"
            raise error(
                f"no Dask scheduler answers at {address!r} ({reason}). Start one with `dask scheduler` and give the "
                "address that it prints, such as tcp://10.0.0.1:8786, or run it without dask=."
            ) from failure
