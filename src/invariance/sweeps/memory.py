"""What a sweep takes of the machine's memory: said before it begins, and refused where it cannot be had."""

from __future__ import annotations

from .._tools.memory import free_bytes
from ..conditionals.gaussian_rows import moments_bytes
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError
from .source import Source


def check_room(data: MultiEnvironmentData, needs_rows: bool) -> None:
    """Raise where second moments of all columns, and those of an environment while they are computed, do not fit."""
    needed = moments_bytes(data) * (data.n_environments + 2) / (data.n_environments + 1)
    needed += data.X.nbytes * needs_rows
    free = free_bytes()
    if free is not None and needed > free:
        raise DataError(
            f"second moments of {data.features.n_columns + 1:,} columns in {data.n_environments} environments take "
            f"{_text(needed)} while they are computed, and {_text(free)} are free. Leave columns out, or merge "
            "environments."
        )


def memory_words(source: Source, processes: int, device: str | None = None) -> str:
    """What the fits take, in a sentence."""
    scatter = source.moments.scatter.nbytes
    held = scatter + (0 if source.data is None else source.data.X.nbytes)
    words = f"Second moments of {len(source.moments.columns):,} columns take {_text(held)}"
    if device is not None:
        words += f", and the same moments {_text(scatter)} of device {device}"
    if processes > 1:
        words += f", and as much again for the {processes} processes that share them"
    if source.perturbing:
        who = "process" if device is None else "thread"
        words += f"; a {who} takes {_text(scatter)} more for an outcome that does without some rows"
    return words + "."


def check_processes(source: Source, processes: int) -> None:
    """Raise where so many processes cannot have what they need beside the moments that are there already."""
    free, needed = free_bytes(), _needed(source, processes)
    if free is None or needed <= free:
        return
    fewer = [n for n in range(1, processes) if _needed(source, n) <= free]
    advice = f"Use n_jobs={fewer[-1]}" if fewer else "Leave columns out"
    raise DataError(
        f"{processes} process{'es' * (processes > 1)} would take {_text(needed)} more, and {_text(free)} are free. "
        f"{advice}."
    )


def _needed(source: Source, processes: int) -> int:
    """Bytes beside the moments: what processes share, and what each takes for an outcome that does without rows."""
    scatter = source.moments.scatter.nbytes
    shared = scatter + (0 if source.data is None else source.data.X.nbytes)
    return shared * (processes > 1) + scatter * processes * bool(source.perturbing)


def _text(size: float) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size / 1e3:.0f} kB"
