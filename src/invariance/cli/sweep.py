"""The command `sweep`: every column as the outcome of all others."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._tools.files import check_writable
from ..exceptions import DataError
from .console import messages, say, show
from .options import PRIOR, FilesArgument, ModelOptions, TableOptions, option, read_names, setting

if TYPE_CHECKING:
    from ..sweeps.data import SweepData
    from .inputs import InputFiles


@dataclass(frozen=True, kw_only=True)
class SweepOptions(ModelOptions, TableOptions):
    """With defaults for many features."""

    environment: str = setting(MISSING, "COL", "Column of environments.")
    max_size: int | None = setting(None, "K", "Most features in a subset.", "20, or what the data allow", min=0)
    family: str = setting("auto", "NAME", "Outcome model: auto (gaussian), mean or bayesian_linear_gaussian.", True)
    prior: str = setting("beta-binomial", "PRIOR", PRIOR, True)
    jobs: int | None = setting(None, "N", "Processes.", "all cores", min=1)


def sweep(
    files: FilesArgument,
    out: Annotated[Path, option("DIR", "Folder for the results.")],
    *,
    outcomes: Annotated[str, option("A,B|FILE", "Columns to predict, or a file with one name a line.", True)] = "all",
    perturbed: Annotated[
        str | None, option("COL", "Column that names the perturbed column of a row, left out for that outcome.")
    ] = None,
    given: SweepOptions,
    top: Annotated[int, option("N", "Features to keep of each outcome; 0 is all.", True, rare=True, min=0)] = 20,
    device: Annotated[str | None, option("cuda", "Send the work to a GPU instead.")] = None,
    dask: Annotated[str | None, option("ADDRESS", "Send the work to this Dask scheduler instead.")] = None,
) -> None:
    """Fit every column as the outcome of all others.

    Writes a Parquet data set: outcome, feature, inclusion probability, whether it is selected, and the verdict.
    """
    with messages(given):
        if dask is not None and given.jobs is not None:
            raise typer.BadParameter("--jobs is for this machine and --dask for a cluster: use one of them.")
        folder = out.expanduser()
        check_writable(folder / "manifest.json")
        model, chosen = given.bip(), _outcomes(outcomes)

        from ..priors import parse_prior
        from ..sweeps.sweep import checked_model, largest_subset, run_sweep
        from .inputs import InputFiles

        checked_model(model, device, dask)
        data = _read(InputFiles(files), given, perturbed)
        if given.max_size is None:
            model.set_params(prior=parse_prior(given.prior, largest_subset(data)))
        try:
            asked = data, model, chosen, folder, top or None, given.jobs or -1, dask, given.seed, given.progress
            run = run_sweep(*asked, device)
        except KeyboardInterrupt:
            say("note", f"what is finished is in {str(folder)!r}; the same command continues")
            raise
        show(f"{run}\n\nSaved to {folder}")


def _read(named: InputFiles, given: SweepOptions, perturbed: str | None) -> SweepData:
    """Of several files moments are kept, not rows."""
    from ..sweeps.data import moments_of_columns, read_sweep_data

    columns, environments, missing = given.columns, given.environments, given.missing.value
    if named.file is not None:
        return read_sweep_data(given.open(named.file), given.environment, perturbed, columns, environments, missing)
    if perturbed is not None:
        raise DataError("--perturbed leaves out other rows for each outcome: write them to one file.")
    from ..data.sources import source_of

    source = source_of(named.rows, form=given.form)
    asked = given.environment, columns, environments, missing, given.jobs or -1, given.progress
    moments = moments_of_columns(source, *asked)
    say("note", f"read {moments.n_rows:,} rows of {source.name} in pieces, and kept their moments")
    return read_sweep_data(moments)


def _outcomes(text: str) -> list[str] | None:
    """The names in a list or in a file; None for all columns."""
    if text == "all":
        return None
    path = Path(text).expanduser()
    if not path.is_file():
        return read_names(text)
    # Names that are not UTF-8 are not found among the columns.
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    return [line.strip() for line in lines if line.strip()]
