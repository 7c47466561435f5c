"""One object for many processes of a machine: written to a file once, its arrays mapped by all and copied by none."""

from __future__ import annotations

import mmap
import os
import pickle
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from ..exceptions import OutputError

_MEMORY_FOLDER = "/dev/shm"
_OPEN_FILES = Path("/proc/self/fd")
_ALIGNMENT = 64


@dataclass(frozen=True)
class Loan:
    """A file and where the parts of the object are in it: from, to and whether they can be written.

    The first part is the pickle of all but the arrays. Files come and go under one path, the key is never used again.
    """

    path: str
    parts: tuple[tuple[int, int, bool], ...]
    key: str


@contextmanager
def lent(shared: Any) -> Iterator[Loan]:
    """The object in a file that is gone afterwards."""
    # joblib's choice of pickler takes along what the user's own script defines.
    from joblib.externals.loky.cloudpickle_wrapper import dumps

    arrays: list[pickle.PickleBuffer] = []
    head = dumps(shared, protocol=5, buffer_callback=arrays.append)
    contents = [memoryview(head), *(array.raw() for array in arrays)]
    place = _place_for(sum(content.nbytes for content in contents))
    with _file_in(place) as (file, path):
        parts = tuple(_written(content, file) for content in contents)
        file.flush()
        yield Loan(path, parts, uuid.uuid4().hex)


@lru_cache(maxsize=1)
def borrowed(loan: Loan) -> Any:
    """The object of a loan, mapped once in a process.

    Its arrays can be written if the lender's can, because compiled kernels take others as another type and would be
    compiled again; what is written stays in this process.
    """
    with open(loan.path, "rb") as file:
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    parts = [(content[start:stop], writable) for start, stop, writable in loan.parts]
    head, *arrays = (part if writable else part.toreadonly() for part, writable in parts)
    return pickle.loads(head, buffers=arrays)


@contextmanager
def _file_in(place: str) -> Iterator[tuple[IO[bytes], str]]:
    """An open file and the path by which other processes of this user find it."""
    if _OPEN_FILES.is_dir():
        # It has no name: the system frees it after the last process that uses it, however that ends.
        with tempfile.TemporaryFile(dir=place) as file:
            yield file, f"/proc/{os.getpid()}/fd/{file.fileno()}"
    else:
        with (
            tempfile.TemporaryDirectory(prefix="invariance-", dir=place, ignore_cleanup_errors=True) as folder,
            (Path(folder) / "shared").open("wb") as file,
        ):
            yield file, file.name


def _written(content: memoryview, file: IO[bytes]) -> tuple[int, int, bool]:
    start = -(-file.tell() // _ALIGNMENT) * _ALIGNMENT
    file.seek(start)
    file.write(content)
    return start, start + content.nbytes, not content.readonly


def _place_for(size: int) -> str:
    """Memory where there is room for the object and as much again, otherwise the folder of temporary files."""
    places = [_MEMORY_FOLDER, tempfile.gettempdir()]
    for place in places:
        if os.access(place, os.W_OK) and shutil.disk_usage(place).free > 2 * size:
            return place
    raise OutputError(
        f"what the processes share takes {size / 1e9:.1f} GB, and {' and '.join(places)} have less than twice that "
        "left. Free some, or name a folder with more room in the environment variable TMPDIR."
    )
