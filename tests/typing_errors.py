"""What type checkers see of a user's code: `test_typing.py` compares what mypy says with the
comments."""

from __future__ import annotations

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

from invariance import (
    BIP,
    BIPClassifier,
    BIPSurvival,
    Columns,
    MultiEnvironmentData,
    Posterior,
    load,
)
from invariance.decisions.decision import Decision

Floats = NDArray[np.float64]
X = np.ones((6, 2))
y = np.ones(6)
site = ["a", "b"] * 3

model = BIP("logistic", "beta-binomial(1,3)", "exact", "mode", deviations="free").fit(
    X, y, environments=site
)
BIP("logit")  # error: arg-type
BIP(engine="exct")  # error: arg-type
BIP(select="best")  # error: arg-type
BIP(deviations="none")  # error: arg-type
BIP(predict_with="all")  # error: arg-type
BIP(selct="mode")  # error: call-arg
BIP().fit(X, y, environment=site)  # error: arg-type
Columns(handle_unknown="skip")  # error: arg-type
data = MultiEnvironmentData.from_table("table.csv", "y", "site", missing="skip")  # error: arg-type

assert_type(model, BIP)
assert_type(model.predict(X), Floats)
assert_type(model.predict(X, return_std=True), tuple[Floats, Floats])
assert_type(model.predict_interval(X), Floats)
assert_type(model.score(X, y), float)
assert_type(model.coef_, Floats)
assert_type(model.intercept_, float)
assert_type(model.support_, NDArray[np.bool_])
assert_type(model.selected_features_, tuple[str, ...])
assert_type(model.inclusion_probabilities_, Floats)
assert_type(model.posterior_, Posterior)
assert_type(model.predictive_, Posterior | None)
assert_type(model.decision_, Decision)
assert_type(model.set_params(n_jobs=2), BIP)
model.sumary()  # error: attr-defined
print(model.coeff_)  # error: attr-defined
model.predict_proba(X)  # error: attr-defined
print(model.decision_.verdit)  # error: attr-defined
model.posterior_.subset()  # error: attr-defined
model.plot("inclusions")  # error: arg-type

classifier = BIPClassifier().fit(X, y, environments=site)
assert_type(classifier.predict_proba(X), Floats)
classifier.predict_probs(X)  # error: attr-defined
assert_type(BIPSurvival().predict_survival(X, [1.0]), Floats)

saved = load("model.json")
assert_type(saved.predict_proba(X), Floats)
assert_type(saved.verdict_.sentence, str)
saved.sumary()  # error: attr-defined
