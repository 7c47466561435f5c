"""The command `simulate`: data whose invariant features are known."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._tools.files import check_writable
from .._version import __version__
from ..exceptions import FileError
from .console import messages, show
from .options import SpeechOptions, option

if TYPE_CHECKING:
    from ..data.multi_environment import MultiEnvironmentData
    from ..simulation import StructuralModel


Preset = StrEnum("Preset", ["theory", "p10", "p450", "example_1", "example_2", "example_3"])
_TABLES = (".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz")


def simulate(
    preset: Annotated[
        Preset, typer.Argument(help="Which of the paper's models: theory (p=3), p10, p450, or a two-feature example.")
    ],
    output: Annotated[Path, option("FILE", f"Table to write: {', '.join(_TABLES)}.", False, "--output", "-o")],
    n: Annotated[int, option("N", "Rows per environment.", True, "--n", min=3)] = 200,
    environments: Annotated[int | None, option("E", "Environments.", "5; 3 for the examples", min=1)] = None,
    strength: Annotated[
        float | None,
        option("F", "Share of features that each environment intervenes on.", "the preset's", min=0.0, max=1.0),
    ] = None,
    seed: Annotated[int, option("N", "Seed of the model and the rows.", True, min=0)] = 0,
    *,
    speech: SpeechOptions,
) -> None:
    """Write simulated data whose invariant features are known.

    The truth goes into a second file beside the data: data.truth.json for data.parquet.
    """
    with messages(speech):
        output = Path(os.path.expanduser(output))
        ending = next((ending for ending in _TABLES if output.name.lower().endswith(ending)), None)
        if ending is None:
            raise FileError(f"cannot write a table as {output.name!r}: use a name that ends in {', '.join(_TABLES)}")
        truth_file = output.with_name(output.name[: -len(ending)] + ".truth.json")
        for path in (output, truth_file):
            check_writable(path)

        import numpy as np

        from .outputs import save

        rng = np.random.default_rng(seed)
        model = _model(preset.value, environments, strength, rng)
        data = model.sample(n, rng)
        asked = {"preset": preset.value, "n": n, "environments": model.n_environments}
        truth = _truth(model, data, asked | {"strength": strength, "seed": seed})
        save(output, lambda path: _write_table(data, path, ending))
        save(truth_file, lambda path: path.write_text(json.dumps(truth, indent=1, ensure_ascii=False) + "\n", "utf-8"))
        show(
            f"Saved {data.n_rows:,} rows, {data.n_features} features, {data.n_environments} environments to {output}\n"
            f"Saved the truth to {truth_file}: {data.outcome_name} follows from {', '.join(truth['true_features'])}\n\n"
            f"Now try\n  invariance fit {shlex.quote(str(output))} --outcome {data.outcome_name} "
            f"--environment {data.environment_name}"
        )


def _model(preset: str, environments: int | None, strength: float | None, rng: Any) -> StructuralModel:
    from .. import simulation

    if preset == "theory":
        return simulation.theory(environments or 5, 1.0 if strength is None else strength, rng)
    make: Callable[..., StructuralModel] = getattr(simulation, preset)
    if not preset.startswith("example"):
        return make(environments or 5, rng, strength=strength)
    if strength is not None:
        raise typer.BadParameter(f"the model of {preset} is fixed: leave --strength out.")
    return make(environments or 3)


def _write_table(data: MultiEnvironmentData, path: Path, ending: str) -> None:
    table = data.to_frame()
    if ending == ".parquet":
        try:
            table.to_parquet(path, index=False)
        except ImportError:
            raise FileError("writing .parquet needs pyarrow: pip install 'invariance[parquet]', or use .csv") from None
    else:
        table.to_csv(path, index=False, sep="\t" if ".tsv" in ending else ",")


def _truth(model: StructuralModel, data: MultiEnvironmentData, asked: dict[str, Any]) -> dict[str, Any]:
    """What generated the data: with the preset and the seed all else can be drawn again."""
    columns, outcome = [*data.feature_names, data.outcome_name], model.n_features
    true = model.truth.nonzero()[0]
    return {
        "format": "invariance.truth/1",
        "version": __version__,
        **asked,
        "outcome": data.outcome_name,
        "environment": data.environment_name,
        "true_features": [columns[j] for j in true],
        "ordering": [columns[j] for j in model.ordering],
        "outcome_equation": {
            "intercept": float(model.intercepts[0, outcome]),
            "coefficients": {columns[j]: float(model.coefficients[0, outcome, j]) for j in true},
            "variance": float(model.variances[0, outcome]),
        },
        "intervened": {
            str(label): [columns[j] for j in chosen.nonzero()[0]]
            for label, chosen in zip(data.environments, model.intervened, strict=True)
        },
    }
