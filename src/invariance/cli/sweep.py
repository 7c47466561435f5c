"""The command `sweep`: every column as the outcome of all others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from .._tools.files import check_writable
from ..exceptions import DataError
from .console import say, show, shown_progress
from .inputs import Named, where
from .options import (
    PRIOR,
    DaskOption,
    EnvironmentOption,
    FilesArgument,
    ModelOptions,
    ProcessesOption,
    SeedOption,
    SpeechOptions,
    TableOptions,
    option,
    read_names,
    refuse_both,
    setting,
)

if TYPE_CHECKING:
    from ..sweeps.source import Reading


@dataclass(frozen=True)
class SweepOptions(ModelOptions):
    """With defaults for many features."""

    max_size: int | None = setting(None, "K", "Most features in a subset.", "20, or what the data allow", min=0)
    family: str = setting("auto", "NAME", "Outcome model: auto (gaussian), mean or bayesian_linear_gaussian.", True)
    prior: str = setting("beta-binomial", "PRIOR", PRIOR, True)


@dataclass(frozen=True)
class SweepTableOptions(TableOptions):
    """Columns that belong to one outcome are refused, with the reason."""

    event: str | None = setting(None, None, "", hidden=True)
    exposure: str | None = setting(None, None, "", hidden=True)


def sweep(
    files: FilesArgument,
    environment: EnvironmentOption,
    out: Annotated[Path, option("DIR", "Folder for the results.")],
    *,
    outcomes: Annotated[str, option("A,B|FILE", "Columns to predict, or a file with one name a line.", True)] = "all",
    perturbed: Annotated[
        str | None, option("COL", "Column that names the perturbed column of a row, left out for that outcome.")
    ] = None,
    table: SweepTableOptions,
    settings: SweepOptions,
    top: Annotated[int, option("N", "Features to keep of each outcome; 0 is all.", True, rare=True, min=0)] = 20,
    jobs: ProcessesOption = None,
    device: Annotated[str | None, option("cuda", "Send the work to a GPU instead.")] = None,
    dask: DaskOption = None,
    seed: SeedOption = 0,
    speech: SpeechOptions,
) -> None:
    """Fit every column as the outcome of all others.

    Writes a Parquet data set: outcome, feature, inclusion probability, whether it is selected, and the verdict.
    """
    with speech.speaking():
        refuse_both(jobs, dask)
        folder = out.expanduser()
        check_writable(folder / "manifest.json")
        model = settings.bip(None, seed)
        chosen = _outcomes(outcomes)

        from ..priors.priors import parse_prior
        from ..sweeps.sweep import checked_model, largest_subset, run_sweep
        from ..sweeps.sweep import refuse_both as refuse_device_and_dask
        from ..sweeps.text import sweep_lines

        refuse_device_and_dask(device, dask)
        checked_model(model)
        reading = _read(Named.of(files), table, environment, perturbed, jobs)
        if settings.max_size is None:
            model.set_params(prior=parse_prior(settings.prior, largest_subset(reading.source)))
        try:
            run = run_sweep(
                reading,
                model,
                chosen,
                folder,
                top or None,
                jobs or -1,
                dask,
                seed,
                shown_progress(),
                lambda s: say("note", s),
                device,
            )
        except KeyboardInterrupt:
            say("note", f"what is finished is in {str(folder)!r}; the same command continues")
            raise
        show("\n".join([*sweep_lines(run), "", f"Saved to {folder}"]))


def _read(named: Named, table: SweepTableOptions, environment: str, perturbed: str | None, jobs: int | None) -> Reading:
    """Of several files moments are kept, not rows."""
    from ..sweeps.source import read_source

    if named.file is not None:
        return read_source(table.open(named.file), environment, None, perturbed, **table.reading())
    if perturbed is not None:
        raise DataError(
            "--perturbed leaves out other rows for each outcome, so they must be in one file: write them to one."
        )
    from ..data.outcomes import refuse
    from ..data.sources import source_of
    from ..sweeps.source import moments_of_columns

    refuse("a sweep", event=table.event, exposure=table.exposure)
    source = source_of(named.rows, **table.format())
    asked = table.columns(), table.environments(), table.missing.value
    moments = moments_of_columns(source, environment, *asked, jobs or -1, shown_progress())
    say("note", f"read {moments.n_rows:,} rows of {where(source)} in pieces, and kept their moments")
    return read_source(moments)


def _outcomes(text: str) -> list[str] | None:
    """The names in a list or in a file; None for all columns."""
    if text == "all":
        return None
    path = Path(text).expanduser()
    if not path.is_file():
        return read_names(text)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"--outcomes {text}: the file is not UTF-8 text. Save it as UTF-8.") from None
    return [line.strip() for line in lines if line.strip()]
