"""Cells of a notebook, run in a kernel of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import pytest


def run_cells(cells: Sequence[str], allow_errors: bool = False) -> list[list[Any]]:
    """The outputs of each cell. Skips where there is nothing to run them with."""
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient")
    pytest.importorskip("ipykernel", reason="needs ipykernel")
    nbformat = pytest.importorskip("nbformat", reason="needs nbformat")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MPLBACKEND", "PYTEST_CURRENT_TEST")
    }
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    # Its own limits lose what a cell shows when the machine is busy.
    waits = dict.fromkeys(("timeout", "startup_timeout", "iopub_timeout"), 600)
    client = nbclient.NotebookClient(notebook, allow_errors=allow_errors, **waits)
    client.execute(env=environment)
    return [cell.outputs for cell in notebook.cells]


def images(outputs: Sequence[Any]) -> int:
    """How many pictures are shown."""
    return sum("image/png" in output.get("data", {}) for output in outputs)


def complaints(outputs: Sequence[Any]) -> list[str]:
    """What was written to standard error."""
    return [
        output.text
        for output in outputs
        if output.output_type == "stream" and output.name == "stderr"
    ]
