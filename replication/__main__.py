"""`python -m replication NAME`: repeat one of the paper's studies.

Writes results, pictures and report.md, each replicate as soon as it is finished. After an
interruption the same command goes on where it stopped; more replicates, or the larger scale, can be
added in the same folder.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from invariance.exceptions import InvarianceError

from . import COUNTS, SCALES, STUDIES, make_study


def main(arguments: list[str] | None = None) -> int:
    parser = study_parser()
    given = parser.parse_args(arguments)
    source = {
        name: getattr(given, name)
        for name in ("data", "simulated")
        if getattr(given, name) is not None
    }
    on_genes = given.name.startswith("genes")
    if on_genes and len(source) != 1:
        parser.error(
            f"{given.name} needs --data PATH (the file of the yeast deletions) or --simulated GENES"
        )
    if not on_genes and source:
        parser.error(f"{given.name} makes its own data: leave --{next(iter(source))} out")
    for option in ("count", "device", "folds") if given.name != "genes" else ():
        if getattr(given, option) is not None:
            parser.error(f"--{option} is for the study genes: leave it out for {given.name}")
    compares = given.name.startswith("comparison")
    for option in ("methods", "parts") if given.name != "genes" and not compares else ():
        if getattr(given, option) is not None:
            parser.error(
                f"--{option} is for genes and the comparisons: leave it out for {given.name}"
            )
    for option in ("screens", "penalties") if given.name != "comparison-p450" else ():
        if getattr(given, option) is not None:
            parser.error(f"--{option} is for comparison-p450: leave it out for {given.name}")
    if given.p_change is not None and not compares:
        parser.error(f"--p-change is for the comparisons: leave it out for {given.name}")
    for option in ("targets", "observational") if not on_genes else ():
        if getattr(given, option) is not None:
            parser.error(f"--{option} is for the studies of genes: leave it out for {given.name}")
    if given.device is not None and given.dask is not None:
        parser.error("--device is for this machine and --dask for a cluster: use one of them")
    if given.jobs is not None and given.dask is not None:
        parser.error("--jobs is for this machine and --dask for a cluster: use one of them")
    folder = given.out or Path("results") / f"{given.name}-{given.scale}"

    from .runs import cost_sentences, run_study

    chosen = {
        name: getattr(given, name)
        for name in ("replicates", "count", "targets", "folds", "observational")
    }
    chosen["p_change"] = given.p_change
    for name in ("methods", "screens", "penalties"):
        value = getattr(given, name)
        chosen[name] = None if value is None else tuple(value)
    changes = (
        source
        | {"seed": given.seed}
        | {name: value for name, value in chosen.items() if value is not None}
    )
    try:
        study = make_study(given.name, given.scale, **changes)
        jobs = given.jobs or (1 if study.measures_time else -1)
        run = run_study(
            study, folder, jobs, given.dask, device=given.device, parts=given.parts or ()
        )
    except InvarianceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            f"what is finished is in {folder}; the same command goes on from there", file=sys.stderr
        )
        return 130
    print(
        "\n".join(
            [run.study.title, "", *run.study.reading(run.results), "", *cost_sentences(run), ""]
        )
    )
    print(f"Saved the report to {folder / 'report.md'}")
    return 0


def study_parser() -> argparse.ArgumentParser:
    studies = "\n".join(f"  {name:<16} {text}" for name, (_, text) in STUDIES.items())
    parser = argparse.ArgumentParser(
        "python -m replication",
        description=f"Repeat one of the paper's studies.\n\n{studies}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=STUDIES, metavar="NAME", help="one of the studies above")
    parser.add_argument("--scale", choices=SCALES, default="quick", help="quick (minutes) or paper")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of the results (results/NAME-SCALE)"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="processes (all cores; one where seconds are measured)",
    )
    parser.add_argument("--dask", metavar="ADDRESS", help="scheduler of a Dask cluster")
    parser.add_argument(
        "--replicates", type=int, metavar="N", help="replicates of every cell (the scale's)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="another seed gives independent data (0)"
    )
    parser.add_argument("--data", metavar="PATH", help="genes: the file of the yeast deletions")
    parser.add_argument(
        "--simulated", type=int, metavar="GENES", help="genes: a simulated network instead"
    )
    parser.add_argument(
        "--count", choices=COUNTS, help="genes: which deletions check a prediction (published: all)"
    )
    parser.add_argument(
        "--targets",
        type=_targets,
        metavar="WHICH",
        help="genes: a number, paper, drawn, or drawn:100",
    )
    parser.add_argument(
        "--folds",
        type=int,
        metavar="N",
        help="genes: how many of the five blocks are held out (all)",
    )
    parser.add_argument(
        "--methods", nargs="+", metavar="NAME", help="genes, comparisons: some of the methods (all)"
    )
    readings = parser.add_argument_group(
        "readings of the paper (comparison-p450, --p-change also comparison-p10)"
    )
    readings.add_argument(
        "--screens",
        nargs="+",
        metavar="NAME",
        help="standardised, raw: what the Lasso screens (both)",
    )
    readings.add_argument(
        "--penalties",
        nargs="+",
        metavar="NAME",
        help="below-worst, per-row, whole: infeasible draws (below-worst)",
    )
    readings.add_argument(
        "--p-change",
        metavar="NAME",
        help="list: probability of a new coefficient; prose: of the old",
    )
    parser.add_argument(
        "--observational",
        metavar="WHICH",
        help="genes: environment one, wild-types or non-responsive",
    )
    parser.add_argument(
        "--device", metavar="cuda", help="genes: fit BIP-VI to all targets of a fold at once on it"
    )
    parser.add_argument(
        "--parts",
        nargs="+",
        type=Path,
        metavar="DIR",
        help="genes, comparisons: take over folders of some methods",
    )
    return parser


def _targets(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


if __name__ == "__main__":
    sys.exit(main())
