"""Threads over compiled kernels that release the interpreter lock; results always come back in order."""

from __future__ import annotations

import hashlib
import os
import pkgutil
import re
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .._version import __version__
from ..exceptions import EngineError, InvarianceError, InvarianceWarning, SettingError

Item = TypeVar("Item")
Result = TypeVar("Result")


def n_workers(n_jobs: int | None) -> int:
    """scikit-learn's convention: None is one worker, -1 all cores, -2 all but one."""
    from joblib import effective_n_jobs

    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise SettingError(f"n_jobs={n_jobs!r} is no number of workers: use one from 1 on, -1 for all cores, or None.")
    return int(effective_n_jobs(n_jobs))


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None, ahead: int = 4
) -> Iterator[Result]:
    """map() over threads, at most `ahead` results in flight for each; an interrupt cancels what has not begun."""
    workers = n_workers(n_jobs)
    if workers == 1:
        yield from map(function, items)
        return
    pending: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(workers)
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= ahead * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def seed_sequence(*path: object) -> np.random.SeedSequence:
    """A seed from names and numbers, the same on every machine and in every version of Python."""
    digest = hashlib.sha256("/".join(str(part) for part in path).encode()).digest()
    return np.random.SeedSequence(np.frombuffer(digest[:16], dtype="<u4").tolist())


def seed_number(*path: object) -> int:
    """The same as one whole number below 2**31."""
    return int(np.random.default_rng(seed_sequence(*path)).integers(2**31))


@dataclass(frozen=True, eq=False)
class Work:
    """`function(shared, task)` depends on nothing but its arguments, so that anybody can do any task, and again.

    error, kept : the class of the complaints, and what they say of a run that is broken off
    """

    function: Callable[[Any, Any], Any]
    shared: Any
    error: type[InvarianceError]
    kept: str


def one_thread() -> Any:
    """Hold BLAS to one thread, which the last digits depend on; its libraries have to be loaded to be held."""
    import numpy  # noqa: F401
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


@cache
def hold_one_thread() -> Any:
    """For processes that do nothing else: BLAS stays at one thread, whatever other tasks end in the meantime."""
    return one_thread()


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
            InvarianceWarning,
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


Shared = TypeVar("Shared")
Task = TypeVar("Task")


def finished(
    function: Callable[[Shared, Task], Result],
    tasks: Sequence[Task],
    *,
    shared: Shared,
    jobs: int | None,
    dask: str | None = None,
    error: type[InvarianceError] = EngineError,
    kept: str = "What is finished is kept",
) -> tuple[str, Generator[Result, None, None]]:
    """Who does the work, in words, and `function(shared, task)` of all tasks in any order.

    function : of a module, and of its arguments only: a task whose worker died is done again elsewhere
    shared : processes map its large arrays, and a cluster is sent it once
    jobs : processes; None is one, -1 all cores. dask : address of a scheduler that is to do the work instead
    error, kept : the class of complaints, and what they say of a run that is broken off
    """
    work = Work(function, shared, error, kept)
    if dask is not None:
        return "a Dask cluster", on_cluster(work, tasks, dask)
    processes = min(n_workers(jobs), max(len(tasks), 1))
    if processes == 1:
        return "1 process", _here(work, tasks)
    return f"{processes} processes", _on_processes(work, tasks, processes)


def _here(work: Work, tasks: Sequence[Any]) -> Generator[Any, None, None]:
    for task in tasks:
        with one_thread():
            result = work.function(work.shared, task)
        yield result


def _on_processes(work: Work, tasks: Sequence[Any], processes: int) -> Generator[Any, None, None]:
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    # Few tasks in advance: an interrupt must not wait for many. Large arrays are mapped, and stay writable, because
    # kernels would be compiled again for arrays that are not.
    pool = Parallel(
        processes,
        backend="loky",
        return_as="generator_unordered",
        batch_size=1,
        pre_dispatch="2*n_jobs",
        mmap_mode="c",
    )
    try:
        yield from pool(delayed(_in_process)(work.function, work.shared, task) for task in tasks)
    except TerminatedWorkerError as error:
        again = f"{work.kept}: run it again, with fewer jobs, to continue."
        raise work.error(f"a worker process was killed, perhaps for want of memory. {again}") from error


def _in_process(function: Callable[[Any, Any], Any], shared: Any, task: Any) -> Any:
    hold_one_thread()
    return function(shared, task)


_LINUX = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def free_bytes() -> int | None:
    """Memory that can be had now, cached files counted as free; None where the system does not tell."""
    try:
        if _LINUX.exists():
            found = re.search(r"^MemAvailable:\s*(\d+) kB", _LINUX.read_text(encoding="ascii"), re.MULTILINE)
            known = [free for free in (1024 * int(found[1]) if found else None, _left_to_group()) if free is not None]
            return min(known, default=None)
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _left_to_group() -> int | None:
    """Memory left to the container or job (cgroup version 2); None where there is no limit."""
    try:
        limit, taken, told = ((_GROUP / f"memory.{name}").read_text() for name in ("max", "current", "stat"))
    except OSError:
        return None
    cached = re.search(r"^inactive_file (\d+)", told, re.MULTILINE)
    free = int(limit) - int(taken) + (int(cached[1]) if cached else 0) if limit.strip().isdigit() else None
    return None if free is None else max(free, 0)
