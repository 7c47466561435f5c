"""What a look at a table finds, and that each remedy mends it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from invariance import check
from invariance.data.findings import CODES, DataCheck, far_values
from invariance.datasets import make_clinical_table

# What is planted in the clinical table: {column: code}
PLANTED = {
    "hospital": "labels_alike",
    "patient_id": "identifier",
    "admission_date": "dates",
    "ward": "codes",
    "bmi": "far_values",
    "creatinine": "unit",
    "lactate": "absent",
    "crp": "detection_limit",
    "note": "text",
    "smoker": "missing",
    "haemoglobin": "missing",
}


@pytest.fixture(scope="module")
def clinical() -> pd.DataFrame:
    return make_clinical_table()


@pytest.fixture(scope="module")
def found(clinical: pd.DataFrame) -> DataCheck:
    return check(clinical, "readmitted", "hospital")


def test_all_that_is_planted_is_found_and_nothing_else(found: DataCheck, clinical: pd.DataFrame) -> None:
    assert {finding.column: finding.code for finding in found.findings} == PLANTED
    assert len(found.findings) == len(PLANTED)
    assert set(PLANTED.values()) <= set(CODES)
    by_code = {finding.code: finding for finding in found.findings}
    assert by_code["far_values"].rows == (clinical["bmi"] == 999).sum() > 0
    assert by_code["unit"].environments == ("Hill",)
    assert by_code["absent"].environments == ("Fenton",)
    assert by_code["labels_alike"].environments == ("St. Mary", "St.\N{NO-BREAK SPACE}Mary")


def test_the_table_is_the_same_each_time(clinical: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(clinical, make_clinical_table())
    assert clinical["hospital"].nunique() == 10


def test_it_prints_and_is_saved(found: DataCheck, tmp_path: Path) -> None:
    assert max(map(len, str(found).splitlines())) <= 80
    assert "creatinine" in found._repr_html_()
    assert found.to_frame()["code"].tolist() == [finding.code for finding in found.findings]
    saved = json.loads(found.to_json(tmp_path / "check.json"))
    assert saved == json.loads((tmp_path / "check.json").read_text(encoding="utf-8"))
    assert saved["findings"][0]["remedies"][0]["settings"]["merge_environments"]
    assert saved["settings"]["na"] == {"bmi": [999.0]}


def test_values_that_are_far() -> None:
    rng = np.random.default_rng(0)
    bmi = rng.normal(27, 4, 500)
    for codes in ([999.0], [999.0, 999.0], [888.0, 999.0], [-9.0, -9.0, -9.0]):
        assert sorted(far_values(np.append(bmi, codes))) == sorted(set(codes))
    assert far_values(np.append(rng.normal(170, 9, 500), 1700.0)) == [1700.0]
    assert far_values(np.append(rng.integers(0, 2, 500), [9.0] * 5)) == [9.0]


@pytest.mark.parametrize("law", ["lognormal", "poisson", "pareto", "exponential", "cauchy-like"])
def test_tails_are_no_alarm(law: str) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        draws = {
            "lognormal": rng.lognormal(0, 2, 400),
            "poisson": rng.poisson(0.7, 400).astype(float),
            "pareto": rng.pareto(1.5, 400),
            "exponential": rng.exponential(1, 400),
            "cauchy-like": rng.standard_t(2, 400),
        }
        assert far_values(draws[law]) == []
