"""Kernels that others call are parts of these: optimised with them, and turned into machine code once.

numba would also optimise each on its own, turn it into machine code and wrap it for Python: more than half of the time
that compiling takes. What is used of numba here is not public; a version without it compiles as numba does.
"""

from __future__ import annotations

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

_OVERRIDDEN = ("_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals")
POSSIBLE = all(hasattr(JITCodeLibrary, name) for name in _OVERRIDDEN)


class _NoEnvironment:
    """Parts have no objects of Python, as if they had been loaded with the code of a kernel."""

    @staticmethod
    def set_env(name, environment):
        pass


class _Part(JITCodeLibrary):
    """The code of a function that is never run by itself"""

    codegen = _NoEnvironment

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name):
        return 0


class PartCompiler(Compiler):
    """Numba's, for functions that only compiled ones call"""

    def __init__(self, typing_context, target_context, library, *others):
        super().__init__(typing_context, target_context, _Part(target_context.codegen(), "part"), *others)


AS_PART = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": PartCompiler} if POSSIBLE else {}


def called_as(part, whole):
    """`whole`, which compiled functions that call it take as the part that `part` makes of the same function"""
    if POSSIBLE:
        whole.get_call_template, whole.get_overload = part.get_call_template, part.get_overload
    return whole
