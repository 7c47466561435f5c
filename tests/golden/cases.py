"""The cases: settings of the package, a table, what is looked at. Each has its own name, which
decides its seed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge

from invariance import (
    Additive,
    BayesianLinearGaussian,
    BetaBinomialPrior,
    Enumeration,
    InclusionPrior,
    Logistic,
    PiecewiseExponential,
    Tempering,
    Tolerance,
    UniformPrior,
    Variational,
    spline,
)
from invariance.baselines import (
    EILLS,
    ICP,
    HiddenICP,
    LassoSelection,
    MarginalSelection,
    PooledRegression,
)
from invariance.decisions import Threshold

Case = dict[str, Any]

# {first part of a name: (family, the outcome that it is for)}
FAMILIES = {
    "gaussian": ("linear_gaussian", "number"),
    "gaussian_mean": ("linear_gaussian_mean", "number"),
    "bayesian": ("bayesian_linear_gaussian", "number"),
    "additive": ("additive", "number"),
    "logistic": ("logistic", "binary"),
    "poisson": ("poisson", "count"),
    "negative_binomial": ("negative_binomial", "overdispersed"),
    "survival": ("piecewise_exponential", "time"),
}
ENGINES = {
    "exact": Enumeration(),
    "tempering": Tempering(chains=2, steps=75, searches=1),
    "vi": Variational(iterations=60, pairs=5, draws=300, fresh=100),
}
PRIORS = {
    "uniform": None,
    "inclusion": InclusionPrior({"x1": 0.8, "x3": 0.1, "x4": 0.3}),
    "hard": InclusionPrior({"x2": 1, "x5": 0}, max_size=3),
    "beta_binomial": BetaBinomialPrior(a=1.0, b=2.0, max_size=4),
}
RULES = {"mode": "mode", "threshold": Threshold(0.3), "median": "median"}
FAR: Case = {"rows": (70, 70, 70, 70)}
# {situation: (changes of the table, changes of the case)}
SITUATIONS: dict[str, tuple[Case, Case]] = {
    "grouped": ({}, {"groups": {"pair": ["x1", "x4"], "rest": ["x3", "x5"]}}),
    "categorical": ({"twists": ["region"]}, {}),
    "codes": (
        {"twists": ["codes", "region"], "rows": (90, 90, 90, 90)},
        {"categorical": ["grade"]},
    ),
    "unequal": ({"rows": (25, 60, 150, 16)}, {}),
    "tiny": ({"rows": (9, 60, 60, 80), "features": 6}, {}),
    "two": ({"rows": (100, 120)}, {}),
    "seven": ({"rows": (50,) * 7}, {}),
    "near": ({"twists": ["near"]}, {}),
    "nearer": ({"twists": ["nearer"]}, {}),
    "sum": ({"twists": ["sum"]}, {}),
    "copy": ({"twists": ["copy"]}, {}),
    "constant": ({"twists": ["constant"]}, {}),
    "constant_inside": ({"twists": ["constant inside"]}, {}),
    "cause_constant_inside": ({"twists": ["cause constant inside"]}, {}),
    "nothing_compatible": (FAR | {"twists": ["shifted"]}, {}),
    "strict": (FAR, {"tolerance": Tolerance.strict()}),
    "tolerance": (FAR, {"tolerance": Tolerance(rho=0.05, tau=0.2, level=0.1, weak_level=0.01)}),
    "gaps": ({"twists": ["gaps", "shuffled"]}, {"missing": "drop"}),
    "average": (FAR, {"predict_with": "average", "saved": True}),
}
GAUSSIAN_SITUATIONS: dict[str, tuple[Case, Case]] = {
    "strong": ({"twists": ["strong"]}, {}),
    "strong_child": ({"twists": ["strong child"]}, {}),
    "heavy_tails": ({"twists": ["heavy tails"], "rows": (150, 150, 150)}, {}),
    "unequal_noise": (FAR | {"twists": ["unequal noise"]}, {}),
    "curved": (FAR | {"twists": ["curved"]}, {}),
    "small_sites": (
        {"rows": (5, 8, 12, 6, 9, 20, 7, 15, 4, 11)},
        {"deviations": "random", "saved": True},
    ),
    "splines": (
        FAR | {"twists": ["curved"]},
        {"groups": [spline("x1", knots=4), spline("x2", knots=5)]},
    ),
}
OF_FAMILY = {
    "gaussian": tuple(SITUATIONS | GAUSSIAN_SITUATIONS),
    "gaussian_mean": (
        "grouped",
        "unequal",
        "nearer",
        "sum",
        "nothing_compatible",
        "strict",
        "strong",
        "unequal_noise",
    ),
    "bayesian": ("grouped", "unequal", "nearer", "constant_inside", "strong", "splines"),
    "additive": ("categorical", "unequal", "curved", "nothing_compatible"),
    "logistic": (
        "grouped",
        "categorical",
        "unequal",
        "nearer",
        "sum",
        "constant_inside",
        "strict",
        "gaps",
        "average",
    ),
    "poisson": ("grouped", "unequal", "nothing_compatible", "average"),
    "negative_binomial": ("grouped", "nothing_compatible", "average"),
    "survival": ("categorical", "unequal", "constant_inside", "nothing_compatible", "average"),
}


def all_cases() -> list[Case]:
    cases = [*_priors(), *_rules(), *_situations(), *_many(), *_readings(), *_others(), *_methods()]
    assert len({case["name"] for case in cases}) == len(cases)
    return cases


def _case(name: str, table: Case, **settings: Any) -> Case:
    seed = zlib.crc32(name.encode())
    return {
        "name": name,
        "kind": "fit",
        "table": {"seed": seed} | table,
        "random_state": seed % 1000,
    } | settings


def _fit(group: str, rest: str, table: Case | None = None, **settings: Any) -> Case:
    family, outcome = FAMILIES[group]
    return _case(
        f"{group}/{rest}", {"outcome": outcome} | (table or {}), **({"family": family} | settings)
    )


def _priors() -> Iterator[Case]:
    """All priors with the exact engine; with the others the uniform one and another in turn."""
    others = [prior for prior in PRIORS if prior != "uniform"]
    for k, family in enumerate(FAMILIES):
        for j, engine in enumerate(ENGINES):
            for prior in PRIORS if engine == "exact" else ("uniform", others[(k + j) % 3]):
                # What the package writes is looked at once for each family and engine.
                written = {
                    "json": prior == "uniform",
                    "saved": prior == "uniform" and engine == "exact",
                }
                written |= {"elsewhere": engine == "exact" or prior == "uniform"}
                yield _fit(
                    family,
                    f"{engine}/{prior}",
                    engine=ENGINES[engine],
                    prior=PRIORS[prior],
                    **written,
                )


def _rules() -> Iterator[Case]:
    for k, family in enumerate(FAMILIES):
        for rule in RULES if family in ("gaussian", "logistic") else (list(RULES)[k % 3],):
            yield _fit(family, f"rule/{rule}", FAR, select=RULES[rule])


def _situations() -> Iterator[Case]:
    known = SITUATIONS | GAUSSIAN_SITUATIONS
    for family, names in OF_FAMILY.items():
        for name in names:
            table, settings = known[name]
            yield _fit(family, f"situation/{name}", table, **settings)
    for engine in ("tempering", "vi"):
        how = {"engine": ENGINES[engine], "elsewhere": False}
        for name in ("grouped", "nearer", "strong"):
            table, settings = known[name]
            yield _fit("gaussian", f"{engine}/{name}", table, **settings, **how)
        yield _fit("logistic", f"{engine}/categorical", {"twists": ["region"]}, **how)


def _many() -> Iterator[Case]:
    few: Case = {"prior": BetaBinomialPrior(max_size=6), "elsewhere": False}
    table: Case = {"features": 24, "rows": (100, 110, 120)}
    ten: Case = table | {"features": 10}
    yield _fit("gaussian", "many/exact", table | {"features": 11})
    yield _fit("gaussian", "many/tempering", table, engine=ENGINES["tempering"], **few)
    yield _fit("gaussian", "many/vi", table, engine=ENGINES["vi"], **few)
    yield _fit(
        "gaussian_mean",
        "many/tempering",
        table | {"features": 12},
        engine=ENGINES["tempering"],
        **few,
    )
    yield _fit(
        "gaussian", "many/small_subsets", table | {"features": 40}, prior=UniformPrior(max_size=2)
    )
    yield _fit(
        "gaussian", "many/published", ten, engine=Variational.simulation(iterations=60, draws=300)
    )


def _readings() -> Iterator[Case]:
    """Fits to what is not a table in memory."""
    for source in ("moments", "rows", "rows_again", "parquet", "csv", "labelled_folders"):
        yield _fit("gaussian", f"input/{source}", FAR | {"twists": ["shuffled"]}, input=source)
    for family in ("gaussian_mean", "bayesian"):
        for source in ("moments", "rows_again"):
            yield _fit(family, f"input/{source}", FAR, input=source)
    yield _fit("gaussian", "input/moments_nearer", {"twists": ["nearer"]}, input="moments")
    yield _fit("gaussian", "input/moments_categorical", {"twists": ["region"]}, input="moments")
    gaps = {"twists": ["region", "gaps"]}
    yield _fit("gaussian", "input/parquet_categorical_gaps", gaps, input="parquet", missing="drop")
    yield _fit("gaussian", "input/arrays", input="arrays", saved=True)
    yield _fit("gaussian", "input/frame", {"twists": ["region"]}, input="frame")
    yield _fit("gaussian", "input/one_environment", {"rows": (150,)}, input="arrays")
    yield _fit("logistic", "input/arrays", input="arrays", saved=True)
    yield _fit("survival", "input/frame", input="frame")


def _others() -> Iterator[Case]:
    forest = RandomForestRegressor(n_estimators=10, max_depth=4, random_state=0)
    yield _fit("gaussian", "regressor/ridge", FAR, regressor=Ridge(alpha=2.0))
    yield _fit("gaussian", "regressor/forest", FAR, regressor=forest)
    for name in ("number", "binary", "count", "time"):
        yield _case(
            f"auto/{name}", {"outcome": "overdispersed" if name == "count" else name}, family="auto"
        )
    yield _case("auto/rate", {"outcome": "rate"}, family="auto", saved=True)
    yield _case("poisson/rate", {"outcome": "rate"}, family="poisson")
    yield _fit("additive", "settings", FAR, family=Additive(knots=4, comparison="all"))
    yield _fit("logistic", "settings", family=Logistic(pseudo_rows=0))
    yield _fit("bayesian", "settings", family=BayesianLinearGaussian(prior_rows=5.0))
    yield _fit("survival", "settings", family=PiecewiseExponential(intervals=3))
    for family in ("gaussian", "logistic"):
        yield _fit(family, "command_line", FAR, kind="command_line")


def _methods() -> Iterator[Case]:
    plain = FAR | {"outcome": "number"}
    wide = {"outcome": "number", "twists": ["region"]}
    methods = {
        "icp": (plain, ICP()),
        "hidden_icp": (plain, HiddenICP()),
        "eills": (plain, EILLS()),
        "lasso": (plain, LassoSelection()),
        "marginal": (plain, MarginalSelection()),
        "pooled": (plain, PooledRegression()),
        "icp_small": (plain, ICP(alpha=0.1, max_size=2)),
        "icp_rejected": (plain | {"twists": ["shifted"]}, ICP()),
        "icp_categorical": (wide, ICP()),
        "pooled_categorical": (wide, PooledRegression()),
    }
    for name, (table, method) in methods.items():
        yield _case(f"methods/{name}", table, kind="method", method=method)
    yield _case("compare/number", plain, kind="compare")
    yield _case("compare/binary", FAR | {"outcome": "binary"}, kind="compare")
    columns = {"outcome": "number", "rows": (100, 100), "features": 7}
    yield _case("sweep/default", columns, kind="sweep")
    yield _case("sweep/mode", columns, kind="sweep", select="mode", top=3)
    yield _case(
        "sweep/tempering", columns, kind="sweep", outcomes=["x1", "y"], engine=ENGINES["tempering"]
    )
    yield _case("residuals/number", plain, kind="residuals", subset=["x1", "x2"])
    yield _case(
        "residuals/shifted", plain | {"twists": ["shifted"]}, kind="residuals", subset=["x1"]
    )
    yield _case(
        "residuals/binary", FAR | {"outcome": "binary"}, kind="residuals", subset=["x1", "x2", "x4"]
    )
