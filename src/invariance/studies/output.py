"""What a study leaves in its folder: results, summary, pictures and report.md."""

from __future__ import annotations

import os
import platform
import shlex
from importlib.metadata import version
from typing import TYPE_CHECKING

from .._tools.files import replacing, write_text
from .._tools.text import duration
from .._version import __version__
from . import make_study
from .figures import save_figure
from .store import Store

if TYPE_CHECKING:
    import pandas as pd

    from .runner import StudyRun

_PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "numba", "joblib", "matplotlib")


def write_outputs(run: StudyRun, store: Store) -> None:
    """Every file in one step; report.md last, so that it never speaks of files that are not there."""
    results_file = store.save(run.results, "results")
    with replacing(run.folder / "summary.csv") as temporary:
        run.study.table(run.results).to_csv(temporary, index=False)
    pictures = run.study.pictures(run.results)
    for picture in pictures:
        save_figure(picture.figure, run.folder / picture.name)
    parts = [
        f"# {run.study.title}",
        "## Reading\n\n" + "\n".join(f"- {sentence}" for sentence in run.study.reading(run.results)),
        *(f"![{picture.caption}]({picture.name}.png)\n\n{picture.caption}" for picture in pictures),
        "## Numbers",
        *(f"{table.title}\n\n{markdown_table(table.frame)}" for table in run.study.tables(run.results)),
        "## What was run\n\n" + _settings(run),
        "## Cost\n\n" + "\n".join(f"- {sentence}" for sentence in cost_sentences(run)),
        f"## Files\n\n- `{results_file.name}`: one row per replicate and case\n- `summary.csv`: the numbers "
        "behind the pictures\n- `rows.jsonl`, `settings.json`: what an interrupted run continues from\n- the pictures "
        "also as `.svg`",
        "## Versions\n\n" + _versions(),
    ]
    write_text(run.folder / "report.md", "\n\n".join(parts) + "\n")


def cost_sentences(run: StudyRun) -> list[str]:
    """What the run took, and what the paper's scale would take."""
    n = len(run.seconds_each)
    said = [
        f"One replicate costs {_seconds(run.cost)} on one core; all {n:,} of them {_seconds(run.cost * n)}.",
        f"This session did {run.n_now:,} replicates in {_seconds(run.seconds)} with {run.workers}"
        + (f"; {run.n_before:,} were there from before." if run.n_before else "."),
    ]
    paper = make_study(run.study.name, "paper", **run.study.source)
    total = len(paper.cells()) * paper.replicates
    if total > n:
        said.append(
            f"The paper's scale has {total:,} replicates: at this cost about {duration(run.cost * total)} on one core, "
            "divided by the number of --jobs."
        )
    return said


def _seconds(seconds: float) -> str:
    return f"{1000 * seconds:.2g} milliseconds" if seconds < 0.1 else duration(seconds)


def _settings(run: StudyRun) -> str:
    study = run.study
    usual = make_study(study.name, study.scale, **study.source)
    command = f"invariance study {study.name} --scale {study.scale}"
    command += "".join(f" --{option} {shlex.quote(str(value))}" for option, value in study.source.items())
    for option in ("replicates", "seed"):
        if getattr(study, option) != getattr(usual, option):
            command += f" --{option} {getattr(study, option)}"
    settings = {name: value for name, value in study.settings().items() if name != "scale"}
    lines = [f"`{command}` ({len(study.cells())} cells of {study.replicates:,} replicates)", ""]
    lines += [f"- {name}: {_listed(value)}" for name, value in settings.items()]
    lines.append(
        "- each replicate has its own random stream, derived from the study's name, the seed, the cell and the "
        "replicate's number"
    )
    return "\n".join(lines)


def _listed(value: object) -> str:
    items = value if isinstance(value, tuple) else (value,)
    return ", ".join(f"{item:.4g}" if isinstance(item, float) else str(item) for item in items)


def _versions() -> str:
    lines = [f"- invariance {__version__}", *(f"- {name} {version(name)}" for name in _PACKAGES)]
    lines.append(f"- Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    lines.append(f"- {os.cpu_count()} cores")
    return "\n".join(lines)


def markdown_table(frame: pd.DataFrame) -> str:
    """A GitHub table; numbers as they are, right-aligned."""
    header = [str(name) for name in frame.columns]
    numeric = [frame[name].dtype.kind in "iuf" for name in frame.columns]
    lines = [_row(header), _row(["---:" if right else "---" for right in numeric])]
    lines += [_row([_cell(value) for value in row]) for row in frame.itertuples(index=False)]
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.4g}"
    return str(value)
