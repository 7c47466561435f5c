"""Pictures of a model that was saved."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from decision_cases import made
from invariance import BIP, load
from invariance.exceptions import SettingError


def test_a_saved_model_draws_what_it_holds(tmp_path: Path) -> None:
    BIP().fit(made()).save(tmp_path / "m.bip")
    saved = load(tmp_path / "m.bip")
    assert saved.plot().get_xlabel() == "posterior inclusion probability"
    with pytest.raises(SettingError, match="came without a fit"):
        saved.plot("subsets")
    plt.close("all")
