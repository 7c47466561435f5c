"""Python looks for garbage again once numba has compiled, in this process and in those that were forked meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FORKED = """
import gc, os
import invariance.kernels
from numba.core import event

def held_off():
    event.start_event("numba:compile")
    return not gc.isenabled()

assert held_off()
child = os.fork()
if child == 0:
    alone = gc.isenabled()
    held = held_off()
    event.end_event("numba:compile")
    os._exit(0 if alone and held and gc.isenabled() else 1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert not gc.isenabled()
event.end_event("numba:compile")
assert gc.isenabled()
raise SystemExit(status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_process_that_is_forked_while_numba_compiles_looks_for_garbage() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", FORKED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
