"""What a study is: a grid of cells, a number of replicates of each, and what is said about the rows
they give."""

from __future__ import annotations

import json
import os
import platform
import shlex
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from invariance._tools.files import check_identity, lock_folder, replacing, write_text
from invariance._tools.parallel import run_tasks, seed_number, seed_sequence
from invariance._tools.plotting import new_figure, tidy
from invariance._tools.progress import ProgressBar, ProgressMode
from invariance._tools.text import duration
from invariance._version import __version__
from invariance.exceptions import EngineError, SettingError

from . import make_study

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Value = int | float | str
Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One point of a study's grid: (name, value) pairs in a fixed order."""

    values: tuple[tuple[str, Value], ...]

    def __getitem__(self, name: str) -> Any:
        return dict(self.values)[name]

    @property
    def key(self) -> str:
        """ "n=200 E=5 strength=0.5": names the cell in files and seeds, so it must never change."""
        return " ".join(f"{name}={_text(value)}" for name, value in self.values)


def _text(value: Value) -> str:
    return format(value, ".10g") if isinstance(value, float) else str(value)


def grid(**axes: Iterable[Value]) -> tuple[Cell, ...]:
    """All combinations, the last axis fastest."""
    return tuple(Cell(tuple(zip(axes, values, strict=True))) for values in product(*axes.values()))


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure, the name of its files and what it shows."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers for a reader, and what they are."""

    title: str
    frame: pd.DataFrame


@dataclass(frozen=True, kw_only=True)
class Study(ABC):
    """A study at one scale; small, frozen and picklable, because it travels to the workers.

    `replicate` is a function of (identity, cell, replicate number) and nothing else: cells,
    replicates and workers can be divided in any way and the rows are the same.

    choice : fields that say which rows there are, and not what is in them; the others are the
        identity
    options : fields that the command line takes by name
    per_task : replicates that a worker does at a time
    measures_time : its numbers are seconds of this machine, which other processes lengthen
    """

    choice: ClassVar[frozenset[str]] = frozenset({"scale", "replicates"})
    options: ClassVar[tuple[str, ...]] = ("replicates", "seed")
    per_task: ClassVar[int] = 1
    measures_time: ClassVar[bool] = False

    scale: str = "quick"
    replicates: int
    seed: int = 0

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def title(self) -> str: ...

    @property
    def source(self) -> dict[str, Any]:
        """What `make_study` has to be told beside the name and the scale: the data of a study that
        simulates none."""
        return {}

    @abstractmethod
    def cells(self) -> tuple[Cell, ...]: ...

    def prepared(self, folder: Path, device: str | None, jobs: int | None) -> Study:
        """The study with what is computed before any replicate, in this folder; only some have
        anything to do on a device."""
        if device is not None:
            raise EngineError(
                f"the study {self.name!r} has nothing to do on a device: leave device= out."
            )
        return self

    @abstractmethod
    def replicate(self, cell: Cell, number: int) -> list[Row]:
        """The rows of one replicate; the names and values of the cell are added to each."""

    @abstractmethod
    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        """The numbers behind the pictures."""

    def tables(self, results: pd.DataFrame) -> list[Table]:
        """The same, arranged for reading."""
        return [Table("Means with 95% intervals", self.table(results).round(4))]

    @abstractmethod
    def pictures(self, results: pd.DataFrame) -> list[Picture]: ...

    @abstractmethod
    def reading(self, results: pd.DataFrame) -> list[str]:
        """What the numbers say, one paragraph each."""

    def rng(self, cell: Cell, number: int, *part: object) -> np.random.Generator:
        """The generator of one replicate, or of a part of it that must not depend on the other
        parts."""
        return np.random.default_rng(seed_sequence(self.name, self.seed, cell.key, number, *part))

    def seed_of(self, cell: Cell, number: int, *part: object) -> int:
        return seed_number(self.name, self.seed, cell.key, number, *part)

    def settings(self) -> dict[str, Any]:
        return asdict(self)

    def identity(self) -> dict[str, Any]:
        """All that the contents of the rows depend on."""
        fields = {name: value for name, value in self.settings().items() if name not in self.choice}
        return {"study": self.name, "version": __version__, **fields}

    def tasks(self, done: set[tuple[str, int]]) -> Iterator[tuple[Cell, tuple[int, ...]]]:
        """What is left to do; every cell gets its first replicates before any gets its last."""
        for start in range(0, self.replicates, self.per_task):
            numbers = range(start, min(start + self.per_task, self.replicates))
            for cell in self.cells():
                left = tuple(number for number in numbers if (cell.key, number) not in done)
                if left:
                    yield cell, left


def check_methods(names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise SettingError(f"no method is named {name!r}: use some of {', '.join(known)}.")


ROWS = "rows.jsonl"
SETTINGS = "settings.json"


@dataclass(frozen=True, eq=False)
class Finished:
    """One finished replicate: its cell's key, its number, the seconds it took and its rows."""

    cell: str
    number: int
    seconds: float
    rows: list[Row]

    def line(self) -> str:
        return json.dumps(
            {
                "cell": self.cell,
                "replicate": self.number,
                "seconds": self.seconds,
                "rows": self.rows,
            }
        )


class Store:
    """rows.jsonl holds one line per finished replicate, forced to the disk after every task;
    settings.json says which study they belong to. A line that a crash cut short is not a result,
    and its replicate is done again.
    """

    def __init__(self, folder: str | os.PathLike[str], study: Study) -> None:
        self.folder = Path(folder)
        self.study = study

    @contextmanager
    def open(self) -> Iterator[dict[tuple[str, int], Finished]]:
        """Create or check the folder and keep other processes out of it; gives what is there
        already."""
        with lock_folder(self.folder):
            check_identity(
                self.folder / SETTINGS, self.study.identity(), (self.folder / ROWS).exists()
            )
            finished = self._read()
            with (self.folder / ROWS).open("a", encoding="utf-8") as self._rows:
                yield finished

    def add(self, batch: Iterable[Finished]) -> None:
        """Write finished replicates and wait until they are on the disk."""
        self._rows.write("".join(one.line() + "\n" for one in batch))
        self._rows.flush()
        os.fsync(self._rows.fileno())

    def table(self, finished: dict[tuple[str, int], Finished]) -> pd.DataFrame:
        """One line per row of the replicates that the study asks for, in the order of its cells."""
        import pandas as pd

        def lines() -> Iterator[dict[str, Any]]:
            for cell in self.study.cells():
                for number in range(self.study.replicates):
                    for row in finished[cell.key, number].rows:
                        yield {**dict(cell.values), "replicate": number, **row}

        return pd.DataFrame(list(lines()))

    def _read(self) -> dict[tuple[str, int], Finished]:
        path = self.folder / ROWS
        if not path.exists():
            return {}
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(path, whole)
        finished = {}
        for line in content[:whole].splitlines():
            one = _parsed(line)
            if one is not None:
                finished[one.cell, one.number] = one
        return finished


def _parsed(line: bytes) -> Finished | None:
    try:
        content = json.loads(line)
        return Finished(content["cell"], content["replicate"], content["seconds"], content["rows"])
    except (ValueError, KeyError, TypeError):
        return None


Task = tuple[Cell, tuple[int, ...]]
Batches = Generator[list[Finished], None, None]


@dataclass(frozen=True, eq=False)
class StudyRun:
    """A completed study.

    results : its rows; seconds_each : of every replicate, wherever it ran, cell by cell
    seconds, n_now : of this session; n_before : replicates that earlier sessions had finished
    """

    study: Study
    folder: Path
    results: pd.DataFrame
    seconds_each: list[float]
    seconds: float
    n_now: int
    n_before: int
    workers: str

    @property
    def cost(self) -> float:
        """Seconds per replicate on one core: the mean over cells of the median of their replicates.

        The first replicates compile kernels, which later ones do not pay for: where there are
        others, the first of each cell is left out, or the first cell where each has but one.
        """
        seconds = np.reshape(self.seconds_each, (-1, self.study.replicates))
        if seconds.shape[1] > 1:
            seconds = seconds[:, 1:]
        elif len(seconds) > 1:
            seconds = seconds[1:]
        return float(np.median(seconds, axis=1).mean())


def run_study(
    study: Study,
    folder: str | os.PathLike[str],
    jobs: int | None = 1,
    dask: str | None = None,
    progress: ProgressMode = "auto",
    device: str | None = None,
    parts: Sequence[str | os.PathLike[str]] = (),
) -> StudyRun:
    """Do the replicates that the folder does not hold yet, and write results, pictures and
    report.md.

    jobs : processes; None is one, -1 all cores. dask : address of a scheduler that is to do the
        work instead.
    device : of PyTorch, for what a study can do on one; parts : folders of the same study with some
        of its methods
    each, whose rows are taken over. Rows do not depend on jobs and dask. An interrupted run is
    continued by calling again with the same folder.
    """
    if study.replicates < 1:
        raise EngineError(f"replicates={study.replicates}: at least one is needed.")
    study = study.prepared(Path(folder), device, jobs)
    store = Store(folder, study)
    with store.open() as done:
        taken = [one for one in rows_of_parts(study, parts) if (one.cell, one.number) not in done]
        store.add(taken)
        done.update({(one.cell, one.number): one for one in taken})
        wanted = {
            (cell.key, number) for cell in study.cells() for number in range(study.replicates)
        }
        before = len(wanted & done.keys())
        started = time.perf_counter()
        workers, batches = _workers(study, list(study.tasks(set(done))), jobs, dask)
        with ProgressBar(study.name, len(wanted) - before, progress) as bar, closing(batches):
            for batch in batches:
                store.add(batch)
                done.update({(one.cell, one.number): one for one in batch})
                bar.advance(len(batch))
        run = StudyRun(
            study=study,
            folder=store.folder,
            results=store.table(done),
            seconds_each=[
                done[cell.key, number].seconds
                for cell in study.cells()
                for number in range(study.replicates)
            ],
            seconds=time.perf_counter() - started,
            n_now=len(wanted) - before,
            n_before=before,
            workers=workers,
        )

        write_outputs(run)
    return run


def rows_of_parts(study: Study, parts: Sequence[str | os.PathLike[str]]) -> list[Finished]:
    """Replicates that all of the folders have finished, each with the rows of all: folders of the
    same study, with other methods."""
    found: list[dict[tuple[str, int], Finished]] = []
    for part in map(Path, parts):
        if not (part / SETTINGS).is_file():
            raise EngineError(f"{str(part)!r} is not the folder of a study: it has no {SETTINGS}.")
        known = json.loads((part / SETTINGS).read_text(encoding="utf-8"))
        wanted = json.loads(json.dumps(study.identity()))
        other = [name for name in wanted if name != "methods" and known.get(name) != wanted[name]]
        if other:
            raise EngineError(f"{str(part)!r} is of another study, by its {', '.join(other)}.")
        found.append(Store(part, study)._read())
    if not found:
        return []
    joined = []
    for key in sorted(set.intersection(*(set(one) for one in found))):
        same = [one[key] for one in found]
        rows = [row for one in same for row in one.rows]
        joined.append(Finished(*key, sum(one.seconds for one in same), rows))
    return joined


def run_task(study: Study, task: Task) -> list[Finished]:
    """The replicates of one task. Runs in the workers; only the study, a cell and numbers travel
    there."""
    cell, numbers = task
    batch = []
    with warnings.catch_warnings():
        # What a method has to remark about one data set out of thousands is in its row.
        warnings.simplefilter("ignore")
        for number in numbers:
            started = time.perf_counter()
            rows = study.replicate(cell, number)
            batch.append(Finished(cell.key, number, time.perf_counter() - started, rows))
    return batch


def _workers(
    study: Study, tasks: list[Task], jobs: int | None, dask: str | None
) -> tuple[str, Batches]:
    """Who does the work, in words, and the finished tasks in any order."""
    if study.measures_time and dask is not None:
        raise EngineError(
            f"the study {study.name!r} measures seconds on this machine: run it without dask=."
        )
    return run_tasks(
        run_task,
        tasks,
        shared=study,
        jobs=jobs,
        dask=dask,
        kept="Finished replicates are kept",
    )


_SHADES = ("#a3cbe6", "#72b0d7", "#3f8fc5", "#1c62a5", "#08306b")
_Z95 = 1.959963984540054
_DPI = 130
_DODGE = 0.01


def panels(
    rows: int, columns: int, width: float, height: float, **options: Any
) -> tuple[Figure, NDArray[Any]]:
    """A figure and its axes (rows, columns); size in inches."""
    figure = new_figure(width, height)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for ax in axes.flat:
        tidy(ax, "both")
    return figure, axes


def shades(count: int) -> list[str]:
    """So many blues from light to dark, for values that have an order."""
    return [_SHADES[round(position)] for position in np.linspace(0, len(_SHADES) - 1, count)]


def mean_band(
    values: ArrayLike, low: float = 0.0, high: float = np.inf
) -> tuple[float, float, float]:
    """Mean and its 95% normal interval, cut to [low, high]; without width where there is a single
    value."""
    numbers = np.asarray(values, dtype=float)
    mean = float(numbers.mean()) if len(numbers) else float("nan")
    half = _Z95 * float(numbers.std(ddof=1)) / np.sqrt(len(numbers)) if len(numbers) > 1 else 0.0
    return mean, max(mean - half, low), min(mean + half, high)


def banded_line(
    ax: Axes, x: ArrayLike, bands: Sequence[tuple[float, float, float]], color: str, label: str
) -> None:
    """A line through the means with a shaded band; bands holds (mean, low, high) for each x."""
    mean, low, high = np.array(bands).T
    ax.fill_between(np.asarray(x), low, high, color=color, alpha=0.16, linewidth=0)
    ax.plot(x, mean, color=color, marker="o", markersize=4, label=label)


def whiskered_lines(
    ax: Axes,
    x: Sequence[float],
    lines: Sequence[tuple[str, str, str, Sequence[tuple[float, float, float]]]],
) -> None:
    """Lines (label, color, dashes, bands) over a logarithmic axis with whiskers; those at one x
    stand side by side."""
    spread = _DODGE * np.log(max(x) / min(x)) if len(x) > 1 else 0.0
    for position, (label, color, dashes, bands) in enumerate(lines):
        mean, low, high = np.array(bands).T
        ax.errorbar(
            np.asarray(x) * np.exp(spread * (position - (len(lines) - 1) / 2)),
            mean,
            yerr=[np.maximum(mean - low, 0.0), np.maximum(high - mean, 0.0)],
            color=color,
            linestyle=dashes,
            marker="o",
            markersize=4,
            linewidth=1.4,
            elinewidth=0.9,
            capsize=2,
            label=label,
        )


def numbered_axis(ax: Axes, values: Sequence[float], label: str) -> None:
    """A logarithmic horizontal axis with a tick at each of the values and nowhere else."""
    ax.set_xscale("log")
    ax.set_xticks(list(values), [f"{value:g}" for value in values])
    ax.set_xticks([], minor=True)
    ax.set_xlabel(label)


def shared_legend(figure: Figure, ax: Axes, columns: int, title: str | None = None) -> None:
    """The entries of one panel, below all panels."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False, title=title
    )


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write stem.png and stem.svg, each in one step; the same figure gives the same bytes."""
    import matplotlib as mpl

    written = []
    with mpl.rc_context({"svg.hashsalt": stem.name}):
        for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
            path = stem.with_name(stem.name + suffix)
            with replacing(path) as temporary:
                figure.savefig(temporary, dpi=_DPI, metadata=metadata)
            written.append(path)
    return written


_PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "numba", "joblib", "matplotlib")


def write_outputs(run: StudyRun) -> None:
    """Every file in one step; report.md last, so that it never speaks of files that are not
    there."""
    for name, table in (("results", run.results), ("summary", run.study.table(run.results))):
        with replacing(run.folder / f"{name}.csv") as temporary:
            table.to_csv(temporary, index=False)
    pictures = run.study.pictures(run.results)
    for picture in pictures:
        save_figure(picture.figure, run.folder / picture.name)
    parts = [
        f"# {run.study.title}",
        "## Reading\n\n"
        + "\n".join(f"- {sentence}" for sentence in run.study.reading(run.results)),
        *(f"![{picture.caption}]({picture.name}.png)\n\n{picture.caption}" for picture in pictures),
        "## Numbers",
        *(
            f"{table.title}\n\n{markdown_table(table.frame)}"
            for table in run.study.tables(run.results)
        ),
        "## What was run\n\n" + _settings(run),
        "## Cost\n\n" + "\n".join(f"- {sentence}" for sentence in cost_sentences(run)),
        "## Files\n\n- `results.csv`: one row per replicate and case\n- `summary.csv`: what the "
        "pictures show\n"
        "- `rows.jsonl`, `settings.json`: what an interrupted run continues from\n- the pictures "
        "also as `.svg`",
        "## Versions\n\n" + _versions(),
    ]
    write_text(run.folder / "report.md", "\n\n".join(parts) + "\n")


def cost_sentences(run: StudyRun) -> list[str]:
    """What the run took, and what the paper's scale would take."""
    n = len(run.seconds_each)
    said = [
        f"One replicate costs {_seconds(run.cost)} on one core; all {n:,} of them "
        f"{_seconds(run.cost * n)}.",
        f"This session did {run.n_now:,} replicates in {_seconds(run.seconds)} with {run.workers}"
        + (f"; {run.n_before:,} were there from before." if run.n_before else "."),
    ]
    paper = make_study(run.study.name, "paper", **run.study.source)
    total = len(paper.cells()) * paper.replicates
    if total > n:
        said.append(
            f"The paper's scale has {total:,} replicates: at this cost about "
            f"{duration(run.cost * total)} on one core, "
            "divided by the number of --jobs."
        )
    return said


def _seconds(seconds: float) -> str:
    return f"{1000 * seconds:.2g} milliseconds" if seconds < 0.1 else duration(seconds)


def _settings(run: StudyRun) -> str:
    study = run.study
    usual = make_study(study.name, study.scale, **study.source)
    command = f"python -m replication {study.name} --scale {study.scale}"
    command += "".join(
        f" --{option} {shlex.quote(str(value))}" for option, value in study.source.items()
    )
    for option in study.options:
        value = getattr(study, option)
        if value != getattr(usual, option):
            command += (
                f" --{option.replace('_', '-')} "
                f"{shlex.join(map(str, value)) if isinstance(value, tuple) else value}"
            )
    settings = {name: value for name, value in study.settings().items() if name != "scale"}
    lines = [f"`{command}` ({len(study.cells())} cells of {study.replicates:,} replicates)", ""]
    lines += [f"- {name}: {_listed(value)}" for name, value in settings.items()]
    lines.append(
        "- each replicate has its own random stream, derived from the study's name, the seed, the "
        "cell and the "
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
