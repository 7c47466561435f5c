"""An epidemiologist's job, in a shell alone: from the raw export of several hospitals to the
answer.

Every command but the first is the one before with the remedy that its message names, as it is typed
there.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli_runner import run

SIZES = {"Köln": 220, "Bonn": 220, "Mainz": 220, "Trier": 220, "Ahrweiler": 12, "Daun": 2}
COLUMNS = ["--outcome", "died", "--environment", "hospital"]


def write_hospitals(path: Path) -> None:
    """Deaths follow from age and CRP alike everywhere; intensive care follows deaths, otherwise in
    each hospital."""
    rng = np.random.default_rng(11)
    hospital = np.repeat(list(SIZES), list(SIZES.values()))
    n = len(hospital)
    place = np.unique(hospital, return_inverse=True)[1]
    age = rng.normal(60, 12, n) + 4 * place
    crp = np.exp(rng.normal(3, 0.5, n) + 0.1 * place)
    died = rng.random(n) < 1 / (1 + np.exp(-(0.09 * (age - 72) + 0.06 * (crp - 28))))
    care = np.array([0.5, 3.0, -2.0, 0.0, 5.0, 1.0])[place] * died + rng.normal(2, 1, n)
    day = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D")
    table = pd.DataFrame(
        {
            "patient": [f"P-{k:05d}" for k in rng.permutation(n)],
            "admitted": day.strftime("%d.%m.%Y"),
            "sex": rng.choice(["f", "m"], n),
            "ward": rng.choice(["medical", "surgical", "other"], n),
            "age": age.round(1),
            "crp": crp.round(2),
            "intensive care, days": care.round(2),
            "remarks": [f"seen by Dr. {k}" for k in rng.integers(0, 10**6, n)],
            "fax": None,
            "hospital": hospital,
            "died": np.where(died, "yes", "no"),
        }
    ).astype(object)
    for word, rows in {"unknown": [5, 80], "?": [9], "": [15, 300], "NA": [33]}.items():
        table.loc[rows, "crp"] = word
    text = table.to_csv(index=False, sep=";")
    path.write_bytes(re.sub(r"(?<=\d)\.(?=\d{1,2};)", ",", text).encode("latin-1"))


def refused(command: list[str]) -> str:
    """The error of a command, which is one sentence after warnings and what is said of the
    outcome."""
    result = run(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    *before, error = result.stderr.splitlines()
    assert all(line.startswith(("warning: ", "note: ")) for line in before), before
    assert error.startswith("error: ")
    return error


@pytest.mark.integration
def test_from_the_raw_export_to_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "hospitals.csv"
    write_hospitals(path)
    command = ["fit", str(path), *COLUMNS]
    walk = (
        ("UTF-8", r"--encoding latin-1"),
        ("'unknown'", r"--na '[^']+'"),
        ("'admitted'", r"--exclude [\w,]+"),
        ("'crp' (6 rows)", r"--missing drop"),
        ("'Daun'", r"--min-rows 3"),
    )
    for complaint, remedy in walk:
        said = refused(command)
        assert complaint in said
        found = re.search(remedy, said)
        assert found, said
        command += shlex.split(found[0])
    assert command[command.index("--exclude") + 1] == "patient,admitted,remarks,fax"

    result = run(*command)
    assert result.exit_code == 0, result.stderr
    for told in ("decimal commas", "outcome model: logistic", "6 of 892 rows"):
        assert told in result.stderr
    assert "selected       {age, crp}" in result.stdout
    assert "'Daun' (2 rows)" in result.stdout
    assert "intensive care, days  breaks invariance" in result.stdout
