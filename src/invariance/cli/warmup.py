"""The command `warmup`: small fits of every kind, so that what they need is compiled before it is
waited for."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Annotated, Any

from ..exceptions import FileError, InvarianceWarning
from .console import messages, show
from .options import ModelOptions, SpeechOptions, option

_TEMPERING = {"engine": "tempering(chains=1, steps=20, searches=1)"}
_VARIATIONAL = {"engine": "vi(iterations=20, draws=100)"}
_SMALL = {"max_size": 2}
# {kind of fit: outcome, features, settings}, those of whose kernels no other fit has them all. The
# first two are begun at once and have little in common.
_USUAL: dict[str, tuple[str, int, Mapping[str, Any]]] = {
    "numbers, all subsets": ("number", 13, {}),
    "two classes, all subsets": ("class", 4, {}),
    "numbers, tempering": ("number", 20, _TEMPERING),
}
_OTHERS: dict[str, tuple[str, int, Mapping[str, Any]]] = {
    "numbers, mean alone": ("number", 6, {"family": "linear_gaussian_mean"}),
    "numbers, Bayes factors": ("number", 6, {"family": "bayesian_linear_gaussian"}),
    "numbers, curves": ("number", 4, {"family": "additive"}),
    "numbers, random deviations": ("number", 4, {"deviations": "random"}),
    "numbers, small subsets": ("number", 20, _SMALL),
    "numbers, variational": ("number", 20, _VARIATIONAL),
    "levels, variational": ("number", 16, _VARIATIONAL | _SMALL),
    "two classes, variational": ("class", 5, _VARIATIONAL),
    "comparison": ("number", 6, {}),
}


def warmup(
    *,
    everything: Annotated[
        bool, option(None, "Every family and engine, not the usual ones.", False, "--all")
    ] = False,
    speech: SpeechOptions,
) -> None:
    """Compile ahead what fits need, for the first fit not to wait: in images, on clusters, in
    checkouts.

    Code is kept with the package, or in the folder that NUMBA_CACHE_DIR names.
    """
    with messages(speech):
        from .._tools.parallel import run_tasks
        from .._tools.progress import ProgressBar

        names = [*_USUAL, *(_OTHERS if everything else ())]
        start = time.perf_counter()
        _, done = run_tasks(_fit, names, shared=None, jobs=2)
        try:
            with ProgressBar("compiling", len(names), speech.progress) as bar:
                for name in done:
                    bar.advance(1, name)
        except InvarianceWarning as nothing_is_kept:
            raise FileError(str(nothing_is_kept)) from None
        show(
            f"Ready after {time.perf_counter() - start:.0f} s: {len(names)} kinds of fits find "
            "their code compiled."
        )


def _fit(_: None, name: str) -> str:
    """One of the fits, with a feature that nearly depends on another. Gives its name."""
    import numpy as np
    import pandas as pd

    from .. import MultiEnvironmentData, compare
    from ..kernels.compiled import NOTHING_IS_KEPT

    outcome, p, settings = (_USUAL | _OTHERS)[name]
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(4), 60)
    X = rng.normal(size=(240, p)) + 0.5 * rng.normal(size=(4, p))[site]
    score = X[:, 0] - 0.8 * X[:, 1]
    X[:, 2] = score * np.array([1.0, -1.0, 0.5, 2.0])[site] + rng.normal(size=240)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)])
    table["near"] = table["x0"] + 1e-8 * table["x3"]
    if name.startswith("levels"):
        table["level"] = np.array(list("abc"))[np.arange(240) % 3]
    y = (
        score + rng.normal(size=240)
        if outcome == "number"
        else (score + rng.logistic(size=240) > 0).astype(int)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", NOTHING_IS_KEPT)
        if name == "comparison":
            compare(MultiEnvironmentData.from_arrays(X, y, site), progress=False)
        else:
            options = ModelOptions(quiet=True, **settings)
            model = options.bip(1).fit(table, y, environments=site)
            model.diagnose()
            model.predict(table)
    return name
