"""Two classes: scikit-learn's conventions, labels of any kind, and what is saved."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from invariance import BIPClassifier


@pytest.mark.filterwarnings("ignore::invariance.exceptions.SingleEnvironmentWarning")
@pytest.mark.filterwarnings("ignore::invariance.exceptions.EmptySelectionWarning")
@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
@parametrize_with_checks([BIPClassifier()])
def test_scikit_learn_conventions(estimator, check) -> None:
    check(estimator)
