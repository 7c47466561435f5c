"""A statistician's job: from a raw file to the answer in a notebook, with pictures; proteins of
cells and a tunnel of light."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from notebook_runner import complaints, images, run_cells

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
TUNNEL = SHARED / "light_tunnel" / "light_tunnel.csv.gz"
CELLS = SHARED / "sachs" / "sachs_14conditions.csv.gz"
PLOTS = (
    'model.plot("inclusion")',
    'model.plot("subsets")',
    'model.plot("coefficients");',
    'model.plot("environments")',
)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not (TUNNEL.exists() and CELLS.exists()), reason="the data sets are not at hand"
    ),
]


def shown_text(outputs: list[Any]) -> str:
    return "\n".join(
        output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs
    )


LIGHT = (
    f"""
import numpy as np
import pandas as pd
from invariance import BIP
table = pd.read_csv({str(TUNNEL)!r})
""",
    # The sensor itself was changed in t_ir_3_weak, and the lamps in the others that are left out.
    """
wanted = ["reference", "t_ir_1_weak", "t_ir_2_weak", "t_vis_1_weak", "t_vis_2_weak", "t_vis_3_weak"]
rows = table[table.environment.isin(wanted)].groupby("environment").sample(1000, random_state=0)
features = "red green blue pol_1 pol_2 vis_1 vis_2 vis_3 ir_1 ir_2 current".split()
model = BIP().fit(rows[features], rows["ir_3"], environments=rows["environment"])
""",
    "model.summary()",
    *PLOTS,
    "model.selected_features_",
)
PROTEINS = (
    f"""
table = pd.read_csv({str(CELLS)!r})
proteins = table.columns.drop("condition")
table[proteins] = np.log(table[proteins])
""",
    # Conditions 3 and 7 act on Akt itself.
    """
rows = table[(table.condition <= 9) & ~table.condition.isin([3, 7])]
model = BIP().fit(rows[proteins.drop("Akt")], rows["Akt"], environments=rows["condition"])
""",
    "print(model.decision_.verdict, model.invariant_)",
    *PLOTS,
    "diagnosis = model.diagnose()\nprint(diagnosis)\ndiagnosis.plot();",
)


def check_the_causes_of_the_light(outputs: list[Any]) -> None:
    assert not any(complaints(shown) for shown in outputs)
    assert outputs[:2] == [[], []]
    assert "ir_3" in shown_text(outputs[2])
    assert "text/html" in outputs[2][0].data
    assert [images(shown) for shown in outputs[3:7]] == [1] * 4
    assert shown_text(outputs[7]) == "('red', 'green', 'blue', 'pol_1', 'pol_2')"


def check_proteins_of_which_no_subset_is_invariant(outputs: list[Any]) -> None:
    (warning,) = complaints(outputs[1])
    assert "NotInvariantWarning" in warning
    assert "Akt" in warning
    said = shown_text(outputs[2])
    assert "No subset of these features is invariant" in said
    assert said.endswith("False\n")
    assert [images(shown) for shown in outputs[3:]] == [1] * 5
    assert "Environments of Akt given" in shown_text(outputs[7])
    assert not any(complaints(shown) for shown in outputs[2:])


def test_two_jobs() -> None:
    """One test, because every one would start a kernel of its own."""
    outputs = run_cells([*LIGHT, *PROTEINS])
    check_the_causes_of_the_light(outputs[: len(LIGHT)])
    check_proteins_of_which_no_subset_is_invariant(outputs[len(LIGHT) :])
