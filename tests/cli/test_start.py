"""The program starts without looking for garbage again and again among all that its imports make."""

from __future__ import annotations

import subprocess
import sys

LINES = """
import gc, sys
from invariance.__main__ import main

sys.argv = ["invariance", "--version"]
before = gc.get_stats()[0]["collections"]
try:
    main()
finally:
    print("looked", gc.get_stats()[0]["collections"] - before)
"""


def test_the_program_seldom_looks_for_garbage() -> None:
    done = subprocess.run([sys.executable, "-c", LINES], capture_output=True, text=True, check=True)
    assert int(done.stdout.split("looked")[1]) <= 2
