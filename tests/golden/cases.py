"""The cases: plain data, in the words of `adapter`. Each has its own name, and its seed follows from that."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

Case = dict[str, Any]

# {family: the outcome that it is for}
FAMILIES = {
    "gaussian": "number",
    "gaussian_mean": "number",
    "bayesian": "number",
    "additive": "number",
    "logistic": "binary",
    "poisson": "count",
    "negative_binomial": "overdispersed",
    "survival": "time",
}
ENGINES: dict[str, Case] = {
    "exact": {"engine": "exact"},
    "tempering": {"engine": "tempering", "engine_settings": {"chains": 2, "steps": 75, "searches": 1}},
    "vi": {"engine": "vi", "engine_settings": {"iterations": 60, "pairs": 5, "draws": 300, "fresh": 100}},
}
PRIORS: dict[str, Case] = {
    "uniform": {},
    "inclusion": {"prior": "inclusion", "prior_settings": {"inclusion": {"x1": 0.8, "x3": 0.1, "x4": 0.3}}},
    "hard": {"prior": "inclusion", "prior_settings": {"inclusion": {"x2": 1, "x5": 0}, "max_size": 3}},
    "beta_binomial": {"prior": "beta_binomial", "prior_settings": {"a": 1.0, "b": 2.0, "max_size": 4}},
}
RULES = ("mode", "threshold", "median")
FAR: Case = {"rows": (70, 70, 70, 70)}
# {situation: (changes of the table, changes of the case)}
SITUATIONS: dict[str, tuple[Case, Case]] = {
    "grouped": ({}, {"groups": {"pair": ["x1", "x4"], "rest": ["x3", "x5"]}}),
    "categorical": ({"twists": ["region"]}, {}),
    "codes": ({"twists": ["codes", "region"], "rows": (90, 90, 90, 90)}, {"categorical": ["grade"]}),
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
    "strict": (FAR, {"tolerance": "strict"}),
    "tolerance": (FAR, {"tolerance": {"delta": 0.05, "tau": 0.2, "level": 0.1, "weak_level": 0.01}}),
    "gaps": ({"twists": ["gaps", "shuffled"]}, {"missing": "drop"}),
    "average": (FAR, {"predict_with": "average", "saved": True}),
}
GAUSSIAN_SITUATIONS: dict[str, tuple[Case, Case]] = {
    "strong": ({"twists": ["strong"]}, {}),
    "strong_child": ({"twists": ["strong child"]}, {}),
    "heavy_tails": ({"twists": ["heavy tails"], "rows": (150, 150, 150)}, {}),
    "unequal_noise": (FAR | {"twists": ["unequal noise"]}, {}),
    "curved": (FAR | {"twists": ["curved"]}, {}),
    "splines": (FAR | {"twists": ["curved"]}, {"splines": {"x1": 4, "x2": 5}}),
}
OF_FAMILY = {
    "gaussian": tuple(SITUATIONS | GAUSSIAN_SITUATIONS),
    "gaussian_mean": ("grouped", "unequal", "nearer", "sum", "nothing_compatible", "strict", "strong", "unequal_noise"),
    "bayesian": ("grouped", "unequal", "nearer", "constant_inside", "strong", "splines"),
    "additive": ("categorical", "unequal", "curved", "nothing_compatible"),
    "logistic": ("grouped", "categorical", "unequal", "nearer", "sum", "constant_inside", "strict", "gaps", "average"),
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
    return {"name": name, "kind": "fit", "table": {"seed": seed} | table, "random_state": seed % 1000} | settings


def _fit(family: str, rest: str, table: Case | None = None, **settings: Any) -> Case:
    return _case(f"{family}/{rest}", {"outcome": FAMILIES[family]} | (table or {}), family=family, **settings)


def _priors() -> Iterator[Case]:
    """All priors with the exact engine; with the others the uniform one and another in turn."""
    others = [prior for prior in PRIORS if prior != "uniform"]
    for k, family in enumerate(FAMILIES):
        for j, (engine, how) in enumerate(ENGINES.items()):
            for prior in PRIORS if engine == "exact" else ("uniform", others[(k + j) % 3]):
                # What the package writes is looked at once for each family and engine.
                written = {"json": prior == "uniform", "saved": prior == "uniform" and engine == "exact"}
                written |= {"elsewhere": engine == "exact" or prior == "uniform"}
                yield _fit(family, f"{engine}/{prior}", **how, **PRIORS[prior], **written)


def _rules() -> Iterator[Case]:
    for k, family in enumerate(FAMILIES):
        for rule in RULES if family in ("gaussian", "logistic") else (RULES[k % 3],):
            yield _fit(family, f"rule/{rule}", FAR, rule=rule, threshold=0.3)


def _situations() -> Iterator[Case]:
    known = SITUATIONS | GAUSSIAN_SITUATIONS
    for family, names in OF_FAMILY.items():
        for name in names:
            table, settings = known[name]
            yield _fit(family, f"situation/{name}", table, **settings)
    for engine in ("tempering", "vi"):
        for name in ("grouped", "nearer", "strong"):
            table, settings = known[name]
            yield _fit("gaussian", f"{engine}/{name}", table, **settings, **ENGINES[engine], elsewhere=False)
        yield _fit("logistic", f"{engine}/categorical", {"twists": ["region"]}, **ENGINES[engine], elsewhere=False)


def _many() -> Iterator[Case]:
    few = {"prior": "beta_binomial", "prior_settings": {"max_size": 6}}
    few |= {"elsewhere": False}
    table = {"features": 24, "rows": (100, 110, 120)}
    yield _fit("gaussian", "many/exact", table | {"features": 11})
    yield _fit("gaussian", "many/tempering", table, **few, **ENGINES["tempering"])
    yield _fit("gaussian", "many/vi", table, **few, **ENGINES["vi"])
    yield _fit("gaussian_mean", "many/tempering", table | {"features": 12}, **few, **ENGINES["tempering"])
    small = {"prior": "uniform", "prior_settings": {"max_size": 2}}
    yield _fit("gaussian", "many/small_subsets", table | {"features": 40}, **small)
    mixture = ENGINES["vi"]["engine_settings"] | {"components": "auto"}
    yield _fit("gaussian", "many/mixture", table | {"features": 10}, engine="vi", engine_settings=mixture)
    yield _fit(
        "gaussian",
        "many/published",
        table | {"features": 10},
        engine="vi",
        engine_preset="simulation",
        engine_settings={"iterations": 60, "draws": 300},
    )


def _readings() -> Iterator[Case]:
    """Fits to what is not a table in memory."""
    inputs = ("moments", "rows", "rows_again", "parquet", "csv", "labelled_folders")
    for source in inputs:
        yield _fit("gaussian", f"input/{source}", FAR | {"twists": ["shuffled"]}, input=source)
    for family in ("gaussian_mean", "bayesian"):
        for source in ("moments", "rows_again"):
            yield _fit(family, f"input/{source}", FAR, input=source)
    yield _fit("gaussian", "input/moments_nearer", {"twists": ["nearer"]}, input="moments")
    yield _fit("gaussian", "input/moments_categorical", {"twists": ["region"]}, input="moments")
    yield _fit(
        "gaussian", "input/parquet_categorical_gaps", {"twists": ["region", "gaps"]}, input="parquet", missing="drop"
    )
    yield _fit("gaussian", "input/arrays", input="arrays", saved=True)
    yield _fit("gaussian", "input/frame", {"twists": ["region"]}, input="frame")
    yield _fit("gaussian", "input/one_environment", {"rows": (150,)}, input="arrays")
    yield _fit("logistic", "input/arrays", input="arrays", saved=True)
    yield _fit("survival", "input/frame", input="frame")


def _others() -> Iterator[Case]:
    for regressor in ("ridge", "forest"):
        yield _fit("gaussian", f"regressor/{regressor}", FAR, regressor=regressor)
    yield _case("auto/number", {"outcome": "number"}, family="auto")
    yield _case("auto/binary", {"outcome": "binary"}, family="auto")
    yield _case("auto/count", {"outcome": "overdispersed"}, family="auto")
    yield _case("auto/rate", {"outcome": "rate"}, family="auto", saved=True)
    yield _case("auto/time", {"outcome": "time"}, family="auto")
    yield _case("poisson/rate", {"outcome": "rate"}, family="poisson")
    yield _fit("additive", "settings", FAR, family_settings={"knots": 4, "comparison": "all"})
    yield _fit("logistic", "settings", family_settings={"pseudo_rows": 0})
    yield _fit("bayesian", "settings", family_settings={"prior_rows": 5.0})
    yield _fit("survival", "settings", family_settings={"intervals": 3})
    for family in ("gaussian", "logistic"):
        yield _fit(family, "command_line", FAR, kind="command_line")


def _methods() -> Iterator[Case]:
    plain, wide = FAR | {"outcome": "number"}, {"outcome": "number", "twists": ["region"]}
    for method in ("icp", "hidden_icp", "eills", "lasso", "marginal", "pooled"):
        yield _case(f"methods/{method}", plain, kind="method", method=method)
    yield _case("methods/icp_small", plain, kind="method", method="icp", settings={"alpha": 0.1, "max_size": 2})
    yield _case("methods/icp_rejected", plain | {"twists": ["shifted"]}, kind="method", method="icp")
    yield _case("methods/icp_categorical", wide, kind="method", method="icp")
    yield _case("methods/pooled_categorical", wide, kind="method", method="pooled")
    yield _case("compare/number", plain, kind="compare")
    yield _case("compare/binary", FAR | {"outcome": "binary"}, kind="compare")
    columns = {"outcome": "number", "rows": (100, 100), "features": 7}
    yield _case("sweep/default", columns, kind="sweep")
    yield _case("sweep/mode", columns, kind="sweep", rule="mode", top=3)
    yield _case("sweep/tempering", columns, kind="sweep", outcomes=["x1", "y"], **ENGINES["tempering"])
    yield _case("residuals/number", plain, kind="residuals", subset=["x1", "x2"])
    yield _case("residuals/shifted", plain | {"twists": ["shifted"]}, kind="residuals", subset=["x1"])
    yield _case("residuals/binary", FAR | {"outcome": "binary"}, kind="residuals", subset=["x1", "x2", "x4"])
