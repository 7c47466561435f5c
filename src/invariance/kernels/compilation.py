"""Kernels that others call are parts of these: optimised with them, and turned into machine code
once.

numba would also optimise each on its own, turn it into machine code and wrap it for Python: more
than half of the time that compiling takes. What is used of numba here is not public; a version
without it compiles as numba does.
"""

from __future__ import annotations

import gc
from types import SimpleNamespace

from numba.core import compiler
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Compiler, Flags

_OVERRIDDEN = ("_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals")
POSSIBLE = all(hasattr(JITCodeLibrary, name) for name in _OVERRIDDEN) and hasattr(
    JITCPUCodegen, "_library_class"
)


class _Part(JITCodeLibrary):
    """The code of a function that is never run by itself. It has no objects of Python, as if loaded
    with a kernel's."""

    codegen = SimpleNamespace(set_env=lambda name, environment: None)

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name):
        return 0


class _Flags(Flags):
    """Compared by what is set of them: numba looks up by flags what it has compiled, tens of
    thousands of times."""

    __slots__ = ()

    def __eq__(self, other):
        return self._values == other._values

    def __hash__(self):
        return len(self._values)


class _WholeCompiler(Compiler):
    """Numba's; all that it compiles along the way, numba's own functions too, are parts. Objects
    that refer to each other are looked for afterwards."""

    def _compile_core(self):
        from unittest.mock import patch

        collecting = gc.isenabled()
        codegen = self.state.targetctx.codegen()
        self.state.library, self.state.flags = (
            codegen.create_library("kernel"),
            _Flags(self.state.flags),
        )
        self.state.library.enable_object_caching()
        gc.disable()
        try:
            with (
                patch.object(codegen, "_library_class", _Part),
                patch.object(compiler, "Flags", _Flags),
            ):
                return super()._compile_core()
        finally:
            (gc.enable if collecting else gc.disable)()


AS_PART = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True} if POSSIBLE else {}
AS_WHOLE = {"no_cfunc_wrapper": True, **({"pipeline_class": _WholeCompiler} if POSSIBLE else {})}


def called_as(part, whole):
    """`whole`, which compiled functions that call it take as the part that `part` makes of the same
    function"""
    if POSSIBLE:
        whole.get_call_template = part.get_call_template
        whole.get_overload = part.get_overload
    return whole
