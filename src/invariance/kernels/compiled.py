"""How kernels are compiled, without the interpreter's lock and dividing by zero as NumPy does, and
where they are kept.

The code of a kernel for arguments of some types is one file, whose name tells what it was made of
and for: processes need no index, which they would overwrite for each other, and code that is
carried in a package is read where nothing can be written. Nobody calls kernels from C. The wrappers
that numba would write for that are a tenth of the time.
"""

from __future__ import annotations

import pickle
import re
import sys
import warnings
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

import numba
import numpy as np
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.options import DefaultOptions
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

from .._tools.files import replacing
from ..exceptions import InvarianceWarning
from .compilation import AS_PART, AS_WHOLE, called_as

_KERNELS = Path(__file__).parent
_CARRIED = _KERNELS / "__pycache__"


def _folders():
    """Where code is looked for, and kept in the first of them that can be written to."""
    named = numba.config.CACHE_DIR
    home = Path(AppDirs("numba", appauthor=False).user_cache_dir)
    return [
        *([Path(named)] if named else []),
        _CARRIED,
        *([home] if home.is_absolute() else []),
    ]  # ~ without a home


@cache
def _source(file):
    """A file's text, and the kernels' files that it imports."""
    text = file.read_bytes()
    words = re.findall(r"\w+", " ".join(re.findall(r"^from \..*", text.decode(), re.MULTILINE)))
    return text, [_KERNELS / f"{word}.py" for word in words if (_KERNELS / f"{word}.py").exists()]


@cache
def _stamp(file):
    """Of a file and of all kernels that it uses: numba alone does not see that one in another file
    has changed."""
    texts = {}
    waiting = [file]
    while waiting:
        reached = waiting.pop()
        if reached not in texts:
            texts[reached], imported = _source(reached)
            waiting += imported
    return sha256(b"".join(texts[reached] for reached in sorted(texts))).hexdigest()[:12]


NOTHING_IS_KEPT = (
    "compiled code cannot be kept, and every process compiles again: name a folder that can be "
    "written to, by the "
    "environment variable NUMBA_CACHE_DIR."
)


@cache
def _warn_that_nothing_is_kept():
    warnings.warn(NOTHING_IS_KEPT, InvarianceWarning, stacklevel=2)


class _KeptCode(NullCache):
    """Of one function, a file for each signature, processor and version of Python, numba and
    NumPy."""

    def __init__(self, function):
        self._function, self._file = function, Path(function.__code__.co_filename)

    def _names(self, sig, codegen):
        """Of the function, of it as its source is now, and of the file."""
        made_for = (
            sys.implementation.cache_tag,
            numba.__version__,
            np.__version__,
            codegen.magic_tuple(),
            sig,
        )
        function = f"{self._file.stem}.{self._function.__qualname__}."
        source = f"{function}{_stamp(self._file)}."
        return function, source, f"{source}{sha256(repr(made_for).encode()).hexdigest()[:24]}.nbc"

    def load_overload(self, sig, target_context):
        target_context.refresh()
        *_, name = self._names(sig, target_context.codegen())
        for folder in _folders():
            try:
                parts = pickle.loads((folder / name).read_bytes())
            except (OSError, EOFError, pickle.UnpicklingError):
                continue
            return CompileResult._rebuild(target_context, *parts)
        return None

    def save_overload(self, sig, cres):
        if cres.library.has_dynamic_globals:
            return  # it holds addresses of this process
        function, source, name = self._names(sig, cres.codegen)
        code = dumps(cres._reduce())
        for folder in _folders():
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with replacing(folder / name) as temporary:
                    temporary.write_bytes(code)
            except OSError:
                continue
            if folder == _CARRIED:
                for file in folder.glob(f"{function}*.nbc"):
                    if not file.name.startswith(source):
                        file.unlink(missing_ok=True)
            return
        _warn_that_nothing_is_kept()


def kernel(function=None, **options):
    """Decorator. options : of numba.njit"""
    if function is None:
        return partial(kernel, **options)
    options = {"nogil": True, "error_model": "numpy", **options}
    compiled = numba.njit(**options, **AS_WHOLE)(function)
    compiled._cache = _KeptCode(function)
    return called_as(numba.njit(**options, **AS_PART)(function), compiled)


ZERO = np.int64(0)
NO = np.bool_(False)
YES = np.bool_(True)


@kernel
def copy_into(target, source):
    """target (n,) = source (n, or more). `target[:] = source` would compile the words of an error
    too, for seconds."""
    for i in range(target.size):
        target[i] = source[i]


@kernel
def longest(starts):
    """The most members of a list; starts (S+1,): list s is starts[s]:starts[s+1]."""
    most = ZERO
    for s in range(starts.size - 1):
        most = max(most, starts[s + 1] - starts[s])
    return most


# The option is not a public one: without it functions are as right, and slower.
UNCOUNTED = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
