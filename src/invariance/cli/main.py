"""The command line. Commands import what they need when they run, so that --help answers at
once."""

from __future__ import annotations

import shlex
import sys
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .._tools.time_limit import limited
from .._version import __version__
from ..baselines.registry import LISTING, REMARKS
from ..exceptions import FileError, or_why_not
from .adapt import adapt
from .check import check
from .completion import TYPED
from .console import for_shell, messages, say, show
from .options import (
    Command,
    FilesArgument,
    FitOptions,
    PlotKindOption,
    ResultOptions,
    SpeechOptions,
    StreamOption,
    TimeLimitOption,
    option,
    plot_option,
    read_names,
    with_option_groups,
)
from .predict import predict
from .sweep import edges, sweep
from .warmup import warmup


class OneLineErrors(TyperGroup):
    """Prints usage errors as one line, like every other error."""

    def main(self, *args: Any, **more: Any) -> Any:
        standalone_mode = more.get("standalone_mode", True)
        try:
            code = super().main(*args, **more | {"standalone_mode": False})
        except Exception as error:
            # Some versions of typer raise click's classes, others a copy of them: know them by
            # their shape.
            if not standalone_mode or not hasattr(error, "format_message"):
                raise
            context = getattr(error, "ctx", None)
            hint = f" Try '{context.command_path} --help'." if context else ""
            message = str(error.format_message())
            say("error", f"{message if message.endswith(('.', '?')) else f'{message}.'}{hint}")
            sys.exit(2)
        return sys.exit(code) if standalone_mode else code


_EXAMPLES = """\b
Examples:
  invariance demo
  invariance fit table.csv -o yield -e site
"""

app = typer.Typer(
    cls=OneLineErrors,
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True, epilog=_EXAMPLES)
def start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version and exit.")
    ] = False,
) -> None:
    """Find the features that predict an outcome the same way in every environment.

    Bayesian invariant prediction: from a table with an outcome, features and an environment column
    to the posterior probability of every subset of the features.
    """
    if version:
        typer.echo(f"invariance {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def fit(
    files: FilesArgument,
    *,
    context: typer.Context,
    given: FitOptions,
    stream: StreamOption = None,
    plot: Annotated[Path | None, plot_option("a picture")] = None,
    plot_kind: PlotKindOption = None,
    report: Annotated[
        Path | None, option("HTML", "Save a report with tables and pictures.", False, "--report")
    ] = None,
    save_to: Annotated[
        Path | None, option("MODEL", "Save the model, for `invariance predict`.", False, "--save")
    ] = None,
    table: Annotated[
        Path | None, option("CSV", "Save the effects, also by environment.", False, "--table")
    ] = None,
    compared: Annotated[
        str | None,
        option("METHODS", "Other methods to list in the report.", False, "--compare", rare=True),
    ] = None,
    top: Annotated[int, option("N", "Number of subsets to list.", True, rare=True, min=1)] = 10,
    time_limit: TimeLimitOption = None,
) -> None:
    """Find the features of a table that predict alike in every environment.

    Prints the decision with its reasons, and the posterior over invariant subsets. The outcome
    model follows from the values of the outcome: two classes, counts, times with --event, or
    numbers.
    """
    with messages(given), limited(time_limit) as unfinished:
        from ..data.checks import warnings_kept
        from ..decisions.plots import save_picture
        from .inputs import ALL_METHODS, InputFiles, fit_model
        from .outputs import (
            Files,
            checked_outputs,
            deliver_fit,
            save,
            save_effects,
            source_of_report,
        )

        named = InputFiles(files)
        asked = {
            "json": given.json,
            "plot": plot,
            "model": save_to,
            "report": report,
            "effects_csv": table,
        }
        outputs = checked_outputs(asked, named.file, plot_kind)
        if compared is not None:
            from ..baselines.comparison import compare as run_methods
            from ..baselines.comparison import named_methods

            if report is None:
                raise FileError("--compare adds a section to a report: add --report report.html")
            named_methods(compared, 1)
        with warnings_kept() as warned:
            need = None if compared is None else ALL_METHODS
            model, data = fit_model(named, given, stream, need)
        draw = partial(save_picture, model._decision, plot_kind or "inclusion")
        # What the report tells of luck and price is told here and in the other files, too.
        refits = (
            [("Chance", partial(or_why_not, model.chance_selection))] if "report" in outputs else []
        )
        if "report" in outputs or "model" in outputs:
            # A saved model holds the cost, and what it takes to estimate it is done in any case.
            refits.append(("Cost of invariance", partial(model.explain_cost, "model" in outputs)))
        write_effects = partial(save_effects, model._decision)
        saved: Files = {"model": model.save, "plot": draw, "effects_csv": write_effects}
        deliver_fit(model, top, outputs, saved, refits=refits)
        if "model" in outputs:
            held_out = model.new_environments()
            show(f"\n{held_out}")
            if held_out.left_out:
                show(f"\n{held_out.pooled()}")
        if unfinished:
            told = (
                f"--time-limit {time_limit:g} passed before these were finished: "
                f"{', '.join(unfinished)}"
            )
            say("note", f"{told}; fit again with more seconds, or without a limit")
        if "report" in outputs:
            source = replace(
                source_of_report(named, given, data, context.meta.get(TYPED, ())),
                warned=tuple(warned),
            )
            beside = None if compared is None else run_methods(data, compared, model)
            save(outputs["report"], lambda path: model.report(path, beside, source))
            show(f"\nSaved {outputs['report']}")


def compare(
    files: FilesArgument,
    *,
    methods: Annotated[
        str | None,
        option(
            "METHODS",
            'From those below, as A,B. With settings: "ICP(max_size=3),Lasso".',
            "all but Oracle",
        ),
    ] = None,
    left_out: Annotated[
        bool,
        option(None, "Also predict each environment by a fit to the others.", False, "--left-out"),
    ] = False,
    given: FitOptions,
    plot: Annotated[Path | None, plot_option("a picture of methods and features")] = None,
) -> None:
    """Run several methods on one table and list their selections.

    Options of the model apply to BIP, as in `invariance fit`.
    """
    with messages(given):
        from .._tools.sections import as_text
        from ..baselines.comparison import compare as run_methods
        from .inputs import ALL_METHODS, InputFiles, default_notes, read_rows
        from .outputs import checked_outputs, deliver

        named = InputFiles(files)
        outputs = checked_outputs({"json": given.json, "plot": plot}, named.file)
        bip = given.bip(given.jobs)
        data = read_rows(named, given, ALL_METHODS if named.file is None else None)
        for note in default_notes(bip, given, data):
            say("note", note)
        result = run_methods(data, methods, bip, left_out, given.progress)
        text = as_text(result.as_sections(for_shell))
        deliver(text, outputs, {"json": result.to_json, "plot": result.save_plot}, titled=True)


def explain(
    files: FilesArgument,
    *,
    subset: Annotated[
        str | None, option("A,B,C", 'Features to examine; "" is none.', "those selected")
    ] = None,
    leave_out: Annotated[
        bool | None, option(None, "Fit again without each environment.", "if that takes seconds")
    ] = None,
    given: FitOptions,
    stream: StreamOption = None,
    plot: Annotated[Path | None, plot_option("a picture of p-values")] = None,
) -> None:
    """Find which environment breaks invariance: in intercept, slopes or noise.

    Fits as `invariance fit` does and compares each environment with all others. Also: the result
    without each of them, the cost of small environments, and how often luck among so many subsets
    would select as much.
    """
    with messages(given):
        from .._tools.sections import Section, as_text
        from ..data.features import as_mask
        from ..decisions.plots import save_environments
        from .inputs import InputFiles, fit_model
        from .outputs import checked_outputs, deliver

        named = InputFiles(files)
        outputs = checked_outputs({"json": given.json, "plot": plot}, named.file)
        model, data = fit_model(named, given, stream)
        chosen = None if subset is None else as_mask(read_names(subset), data.feature_names)
        diagnosis = model.diagnose(chosen, "auto" if leave_out is None else leave_out)
        notes = [Section("Notes", sentences=tuple(data.losses))] if data.losses else []
        told = subset is None and model.decision_.is_compatible
        luck = [Section("Chance", (or_why_not(model.chance_selection),))] if told else []
        text = as_text([*diagnosis.sections, *luck, *notes], for_shell)
        draw = partial(save_environments, diagnosis)
        write = partial(diagnosis.to_json, luck=model.decision_.chance if told else None)
        deliver(text, outputs, {"json": write, "plot": draw})


def demo(
    *,
    plot: Annotated[Path | None, plot_option("a picture")] = None,
    plot_kind: PlotKindOption = None,
    csv: Annotated[
        Path | None, option("CSV", "Save the data as a table that fit can read.")
    ] = None,
    new_csv: Annotated[
        Path | None, option("CSV", "Save rows of a seventh hospital, for predict.")
    ] = None,
    clinical: Annotated[
        Path | None, option("CSV", "Save an untidy table of nine hospitals, for check.")
    ] = None,
    decimal_comma: Annotated[
        bool, option(None, "Save that with ; and decimal commas.", rare=True)
    ] = False,
    speech: ResultOptions,
) -> None:
    """Show the method at work on invented data whose truth is known."""
    with messages(speech):
        from ..datasets import make_clinical_table, make_example, make_new_hospital
        from ..decisions.plots import save_picture
        from ..estimators.bip import BIP
        from ..posterior.plots import save_inclusion
        from ..posterior.summary import format_probability, format_subset
        from .outputs import Files, checked_outputs, deliver_fit, save

        asked = {
            "json": speech.json,
            "plot": plot,
            "csv": csv,
            "new_csv": new_csv,
            "clinical_csv": clinical,
        }
        outputs = checked_outputs(asked, None, plot_kind)
        if clinical is not None:
            decimal, sep = (",", ";") if decimal_comma else (".", ",")
            table = make_clinical_table(decimal=decimal)
            save(
                outputs["clinical_csv"],
                lambda path: table.to_csv(path, index=False, sep=sep, decimal=decimal),
            )
            names = f"{shlex.quote(str(clinical))} --outcome readmitted --environment hospital"
            show(f"Now try\n  invariance check {names}")
            return
        data = make_example()
        assert data.truth is not None
        show(
            f"Invented blood pressures in {data.n_environments} hospitals: age, exercise and "
            "smoking cause them\n"
            "alike everywhere; the other five features result from them, differently in each.\n"
        )
        model = BIP(n_jobs=-1, progress=speech.progress).fit(data)
        probability = format_probability(model.posterior_.probability(data.truth))
        truth = format_subset(model.posterior_.names_of(data.truth))
        draw = partial(save_picture, model.decision_, plot_kind or "inclusion")
        if plot_kind in (None, "inclusion"):
            draw = partial(save_inclusion, model.posterior_, truth=data.truth)
        files: Files = {
            "plot": draw,
            "csv": partial(data.to_frame().to_csv, index=False),
            "new_csv": partial(make_new_hospital().to_frame().to_csv, index=False),
        }
        deliver_fit(
            model, 10, outputs, files, f"The true subset {truth} has probability {probability}."
        )
        if csv is not None:
            names = f"-o {data.outcome_name} -e {data.environment_name}"
            show(
                f"\nNow try\n  invariance fit {shlex.quote(str(csv))} {names} \\\n      --save "
                "model.json"
            )
        if csv is not None and new_csv is not None:
            show(f"  invariance predict model.json {shlex.quote(str(new_csv))} --out predicted.csv")


def open_page(
    port: Annotated[int | None, option("N", "Port to use.", "a free one", min=1, max=65535)] = None,
    no_browser: Annotated[
        bool, option(None, "Print the address only.", False, "--no-browser")
    ] = False,
) -> None:
    """Open a page in the browser: upload a table, choose, read the report.

    The page is served to this machine alone, to whoever has its address. Tables are kept until it
    is closed.
    """

    def announce(address: str) -> None:
        show(f"The page is at\n  {address}\nIt ends with Ctrl-C, and keeps nothing of the tables.")
        if not no_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    with messages(SpeechOptions()):
        try:
            from ..app.server import serve
        except ImportError as error:
            raise FileError(
                f"the page needs {error.name}: pip install 'invariant-prediction[app]'."
            ) from error
        serve(port, announce)
    show("The page is closed.")


_EPILOGS: dict[Callable[..., None], str] = {
    fit: """
  invariance fit table.csv -o yield -e site
  invariance fit patients.csv -o years --event died -e hospital \\
      --exclude patient_id,date --missing drop
  invariance fit sites.csv -o accidents --exposure hours -e site \\
      --report report.html --compare ICP,Lasso
  invariance fit 'years/*.parquet' -o yield -e site
""",
    check: "\n  invariance check table.csv -o yield -e site\n",
    compare: """
  invariance compare table.csv -o yield -e site --methods BIP,ICP,Lasso \\
      --json comparison.json --plot comparison.png
""",
    explain: """
  invariance explain table.csv -o yield -e site --subset rain,soil \\
      --drop-environment dakar --merge lima+cusco=peru
""",
    sweep: """
  invariance sweep table.csv -e site --out sweep
  invariance sweep genes.parquet -e kind --perturbed deleted --out sweep \\
      --outcomes targets.txt --jobs 8
  invariance sweep genes.parquet -e kind --out sweep \\
      --engine "tempering(chains=2)" --dask tcp://10.0.0.1:8786

After an interruption the same command continues. In Python, invariance.read_sweep("sweep") reads
the table.
""",
    edges: """
  invariance edges sweep --fdr 0.1 --csv edges.csv
  invariance edges sweep --of OPI1 --checks verdicts.csv --plot page.png
""",
    demo: "\n  invariance demo --csv patients.csv --new-csv new_patients.csv\n",
    predict: """
  invariance fit table.csv -o yield -e site --save model.json
  invariance predict model.json new.csv --out predicted.csv --coverage 0.8
""",
    adapt: """
  invariance adapt model.json labelled.csv --save site.json
  invariance predict site.json new.csv --out predicted.csv
""",
    warmup: "\n  invariance warmup --all\n",
    open_page: "\n  invariance app --port 8800 --no-browser\n",
}
_METHODS = f"\b\nMethods:\n{LISTING}\n\n{REMARKS}\n\n"

for _command, _lines in _EPILOGS.items():
    app.command(
        "app" if _command is open_page else _command.__name__,
        cls=Command,
        epilog=(_METHODS if _command is compare else "") + f"\b\nExamples:{_lines}",
    )(with_option_groups(_command))
