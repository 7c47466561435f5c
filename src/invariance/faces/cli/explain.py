"""The command that says which environment breaks invariance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..._tools.layout import wrap
from .advice import for_command_line
from .console import plain_speech, show
from .inputs import Choice, Table, bip_of
from .names import read_names
from .options import (
    CategoricalOption,
    DeltaOption,
    DropEnvironmentOption,
    EnvironmentOption,
    ExcludeOption,
    FeaturesOption,
    FileArgument,
    InferenceOption,
    JobsOption,
    LevelOption,
    MaxSizeOption,
    MergeOption,
    MinRowsOption,
    Missing,
    MissingOption,
    NumericOption,
    OutcomeOption,
    PriorOption,
    SeedOption,
    SelectOption,
    StrictOption,
    TauOption,
    ThresholdOption,
    WeakLevelOption,
)
from .outputs import checked_outputs, save

if TYPE_CHECKING:
    from ..._tools.arrays import Mask
    from ...data.multi_environment import MultiEnvironmentData

_EXAMPLES = """\b
Examples:
  invariance explain table.csv --outcome yield --environment site
  invariance explain table.csv --outcome yield --environment site \\
      --subset rain,soil --json diagnosis.json --plot environments.png
  invariance explain table.csv --outcome yield --environment site \\
      --drop-environment dakar --merge lima+cusco=peru --min-rows 20
"""


def explain(
    file: FileArgument,
    outcome: OutcomeOption,
    environment: EnvironmentOption,
    subset: Annotated[
        str | None,
        typer.Option(metavar="A,B,C", help='Features to look at; "" is none.', show_default="those selected"),
    ] = None,
    leave_out: Annotated[
        bool | None,
        typer.Option(help="Fit again without each environment.", show_default="where all subsets are scored"),
    ] = None,
    features: FeaturesOption = None,
    exclude: ExcludeOption = None,
    categorical: CategoricalOption = None,
    numeric: NumericOption = None,
    min_rows: MinRowsOption = 0,
    drop_environment: DropEnvironmentOption = None,
    merge: MergeOption = None,
    max_size: MaxSizeOption = None,
    prior: PriorOption = "uniform",
    inference: InferenceOption = "auto",
    select: SelectOption = "predictive",
    threshold: ThresholdOption = None,
    delta: DeltaOption = None,
    tau: TauOption = None,
    level: LevelOption = None,
    weak_level: WeakLevelOption = None,
    strict: StrictOption = False,
    missing: MissingOption = Missing.error,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="OUT", help="Save the diagnosis as JSON.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", metavar="PNG", help="Save a picture of p-values by environment and part.", show_default=False
        ),
    ] = None,
    jobs: JobsOption = None,
    seed: SeedOption = 0,
) -> None:
    """Say which environment breaks invariance, and in what.

    Fits as `invariance fit` does and compares each environment with all others: in the intercept, in the slopes and in
    the variance of the noise. Then: what the result would be without each of them, which feature to move so that the
    leading subsets come apart, and what small environments cost.
    """
    with plain_speech():
        from ...decisions.diagnosis_text import as_text

        outputs = checked_outputs(json, plot, source=file)
        choice = Choice(select, threshold, delta, tau, level, weak_level, strict)
        model = bip_of(prior, max_size, inference, choice, jobs, seed)
        columns = features, exclude, categorical, numeric
        data = Table(file, outcome, environment, missing, *columns, min_rows, drop_environment, merge).read()
        chosen = None if subset is None else _named(subset, data)
        diagnosis = model.fit_data(data).diagnose(chosen, "auto" if leave_out is None else leave_out)
        saved = []
        try:
            if outputs.json is not None:
                save(outputs.json, diagnosis.to_json)
                saved.append(f"Saved the diagnosis to {outputs.json}")
            if outputs.plot is not None:
                from ...decisions.environment_plot import save_environments

                save(outputs.plot, lambda path: save_environments(diagnosis, path))
                saved.append(f"Saved the picture to {outputs.plot}")
        finally:
            show("\n\n".join([as_text(diagnosis, for_command_line), *_notes(data.losses)]))
        if saved:
            show("\n" + "\n".join(saved))


def _named(subset: str, data: MultiEnvironmentData) -> Mask:
    """(p,) the features that --subset names"""
    from ...data.subsets import as_mask
    from ...exceptions import SettingError

    names = read_names(subset)
    constant = [name for name in names if name in data.dropped_features]
    if constant:
        raise SettingError(f"{constant[0]!r} is constant and no feature: leave it out of --subset.")
    return as_mask(names, data.feature_names)


def _notes(losses: tuple[str, ...]) -> Iterator[str]:
    if losses:
        yield "\n".join(["Notes", *(line for note in losses for line in wrap(for_command_line(note), "  ", "    "))])


def register(app: typer.Typer) -> None:
    app.command(epilog=_EXAMPLES)(explain)
