"""Write the inventories of numpy and matplotlib: the few names that these pages link to.

Those of python, scipy, scikit-learn and pandas are the projects' own, as Debian 12 ships them with
their documentation.
"""

from __future__ import annotations

import zlib
from pathlib import Path

NAMES = {
    "numpy": {
        "numpy.ndarray": "reference/generated/numpy.ndarray.html",
        "numpy.random.Generator": "reference/random/generator.html",
    },
    "matplotlib": {
        "matplotlib.axes.Axes": "api/_as_gen/matplotlib.axes.Axes.html",
        "matplotlib.figure.Figure": "api/_as_gen/matplotlib.figure.Figure.html",
    },
}


def write(project: str, names: dict[str, str], folder: Path) -> None:
    head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
    head += "# The remainder of this file is compressed using zlib.\n"
    lines = "".join(f"{name} py:class 1 {page}#$ -\n" for name, page in names.items())
    (folder / f"{project}.inv").write_bytes(head.encode() + zlib.compress(lines.encode(), 9))


if __name__ == "__main__":
    for project, names in NAMES.items():
        write(project, names, Path(__file__).parent)
