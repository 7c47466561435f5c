"""Work shared out to threads, processes or a Dask cluster."""

from __future__ import annotations

import hashlib
import os
import pkgutil
import re
import sys
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from itertools import islice
from numbers import Integral
from operator import length_hint
from pathlib import Path
from threading import Lock, local
from typing import Any, TypeVar

import numpy as np

from .._version import __version__
from ..exceptions import EngineError, InvarianceWarning, SettingError

Item = TypeVar("Item")
Result = TypeVar("Result")
Shared = TypeVar("Shared")
Task = TypeVar("Task")


def n_workers(n_jobs: int | None) -> int:
    """scikit-learn's convention: None is one worker, -1 all cores, -2 all but one."""
    if n_jobs is None:
        return 1
    from joblib import effective_n_jobs

    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise SettingError(
            f"n_jobs={n_jobs!r} is no number of workers: use one from 1 on, -1 for all cores, or "
            "None."
        )
    return int(effective_n_jobs(n_jobs))


_mine = local()  # workers: how many threads one of ours may start


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None, ahead: int = 4
) -> Iterator[Result]:
    """map() over threads, at most `ahead` results in flight for each; an interrupt cancels what has
    not begun. Inside one of these threads others share its part of the processors."""
    workers = min(n_workers(n_jobs), getattr(_mine, "workers", sys.maxsize))
    each = max(1, workers // max(1, length_hint(items, workers)))
    with one_thread():
        if workers == 1:
            yield from map(function, items)
            return
        pending: deque[Future[Result]] = deque()
        pool = ThreadPoolExecutor(workers, initializer=lambda: setattr(_mine, "workers", each))
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


@cache
def _libraries() -> Any:
    """Those of BLAS, which have to be loaded to be held"""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_holding = Lock()
_holders: list[Any] = []  # one entry for each that is inside, the first with the limits to restore


def _hold() -> None:
    with _holding:
        _holders.append(None if _holders else _libraries().limit(limits=1))


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold BLAS to one thread, which the last digits depend on, while anybody is inside: its idle
    threads take processors from ours. Who leaves last lets go, since the limits are those of the
    process."""
    _hold()
    try:
        yield
    finally:
        with _holding:
            first = _holders[0]
            _holders.pop()
            if not _holders:
                first.restore_original_limits()


@cache
def hold_one_thread() -> None:
    """Keep BLAS at one thread in a process that only computes, whatever other tasks end
    meanwhile."""
    _hold()


def run_tasks(
    function: Callable[[Shared, Task], Result],
    tasks: Sequence[Task],
    *,
    shared: Shared,
    jobs: int | None,
    dask: str | None = None,
    kept: str = "What is finished is kept",
) -> tuple[str, Generator[Result, None, None]]:
    """Who does the work, in words, and `function(shared, task)` of all tasks in any order.
    function : of a module, and of its arguments only: a task whose worker died is done again
        elsewhere
    shared : processes map its large arrays, and a cluster is sent it once
    jobs : processes; None is one, -1 all cores. dask : address of a scheduler that is to do the
        work instead
    kept : what errors say of a run that is broken off"""
    if dask is not None:
        return "a Dask cluster", _on_cluster(function, tasks, shared, dask, kept)
    processes = min(n_workers(jobs), max(len(tasks), 1))
    who = "1 process" if processes == 1 else f"{processes} processes"
    return who, _on_processes(function, tasks, shared, processes, kept)


_Function = Callable[[Any, Any], Any]


def _on_processes(
    function: _Function, tasks: Sequence[Any], shared: Any, processes: int, kept: str
) -> Generator[Any, None, None]:
    if processes == 1:
        for task in tasks:
            with one_thread():
                result = function(shared, task)
            yield result
        return
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    # Few tasks in advance: an interrupt must not wait for many. Large arrays are mapped, and stay
    # writable, because kernels would be compiled again for arrays that are not.
    pool = Parallel(
        processes,
        "loky",
        return_as="generator_unordered",
        batch_size=1,
        pre_dispatch="2*n_jobs",
        mmap_mode="c",
    )
    try:
        yield from pool(delayed(on_worker)(function, shared, task, __version__) for task in tasks)
    except TerminatedWorkerError as killed:
        what = "a worker process was killed, perhaps for want of memory"
        raise EngineError(f"{what}. {kept}: run it again, with fewer jobs.") from killed


_CONNECTION_SECONDS = 10


def _on_cluster(
    function: _Function, tasks: Sequence[Any], shared: Any, address: str, kept: str
) -> Generator[Any, None, None]:
    with dask_client(address, f"{kept}: run it again to continue.") as client:
        from distributed import as_completed

        (sent,) = client.scatter([shared], broadcast=True, hash=False)

        def submit(task: Any) -> Any:
            return client.submit(on_worker, function, sent, task, __version__, pure=False)

        # Few tasks at a time: the cluster may be shared.
        waiting = iter(tasks)
        at_once = 4 * max(sum(client.nthreads().values()), 2)
        running = as_completed(
            [submit(task) for task in islice(waiting, at_once)], loop=client.loop
        )
        for future in running:
            result = future.result()
            for task in islice(waiting, 1):
                running.add(submit(task))
            yield result


@contextmanager
def dask_client(dask: Any, then: str) -> Iterator[Any]:
    """The client that is given, or one of the scheduler at an address, when it has a worker of this
    version.
    then : sentence that ends the error when the work is broken off"""
    try:
        from distributed import CancelledError, Client, KilledWorker
        from distributed.comm import CommClosedError
    except ImportError:
        raise EngineError(
            "a Dask cluster needs Dask: pip install 'invariant-prediction[dask]'."
        ) from None
    if not isinstance(dask, str | Client):
        raise EngineError(
            f"dask={dask!r} is no Client, and no address: give one, or the address of a scheduler."
        )
    with ExitStack() as opened:
        if isinstance(dask, str):
            _greet(dask)
            dask = opened.enter_context(
                Client(dask, timeout=_CONNECTION_SECONDS, set_as_default=False)
            )
        try:
            _await_workers(dask)
            yield dask
        except KilledWorker as killed:
            raise EngineError(
                f"the Dask workers died again and again, perhaps for want of memory. {then}"
            ) from killed
        except (CancelledError, CommClosedError) as lost:
            raise EngineError(
                f"the Dask scheduler, or all its workers, were lost. {then}"
            ) from lost


def _greet(address: str) -> None:
    """Raise unless a scheduler answers soon: a Client would wait for ever where the other side
    keeps silent."""
    import asyncio

    from distributed import Security
    from distributed.comm import connect

    async def greet() -> None:
        options = Security().get_connection_args("client")
        comm = await asyncio.wait_for(
            connect(address, timeout=_CONNECTION_SECONDS, **options), _CONNECTION_SECONDS
        )
        await comm.close()

    with ThreadPoolExecutor(1) as thread:  # in a notebook this thread already has an event loop
        try:
            thread.submit(lambda: asyncio.run(greet())).result()
        except (OSError, ValueError, TypeError) as failure:
            what = f"no Dask scheduler answers at {address!r} ({failure or 'silence'})"
            remedy = "give the address that `dask scheduler` prints, or run it without dask="
            raise EngineError(f"{what}: {remedy}.") from failure


def _await_workers(client: Any) -> None:
    """Wait for a worker; raise where one of them has another version of this package.
    The question is put without this package: where it is missing, Dask lets workers die of it one
    after the other."""
    if not client.nthreads():
        told = (
            "no worker at present: waiting. Start one with `dask worker "
            f"{client.scheduler.address}`."
        )
        warnings.warn(f"the Dask cluster has {told}", InvarianceWarning, stacklevel=2)
    client.submit(
        os.getpid, pure=False
    ).result()  # some clusters have no worker before they have a task
    for name, there in client.run(
        pkgutil.resolve_name, "invariance._version:__version__", on_error="return"
    ).items():
        if not isinstance(there, OSError):  # of a worker that has just died
            check_version(f"the Dask worker {name}", there, __version__)


def on_worker(function: _Function, shared: Any, task: Any, version: str) -> Any:
    check_version("a worker that came later", __version__, version)
    hold_one_thread()
    return function(shared, task)


def check_version(place: str, there: str | Exception, here: str) -> None:
    if there != here:
        found = f"invariance {there}" if isinstance(there, str) else f"no invariance ({there})"
        raise EngineError(
            f"{place} has {found}, and version {here} gives out the work: install the same there."
        )


_LINUX = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def free_bytes() -> int | None:
    """Memory that can be had now, cached files counted as free; None where the system does not
    tell. The limit of a container or job (cgroup version 2) counts too."""
    free = []
    with suppress(OSError, ValueError):
        free.append(1024 * _number("MemAvailable:", _LINUX))
    with suppress(OSError, ValueError):
        limit, taken = (int((_GROUP / f"memory.{name}").read_text()) for name in ("max", "current"))
        free.append(max(limit - taken + _number("inactive_file", _GROUP / "memory.stat"), 0))
    return min(free, default=None)


def _number(name: str, file: Path) -> int:
    found = re.search(rf"^{name}\s*(\d+)", file.read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"{file} has no {name}")
    return int(found[1])
