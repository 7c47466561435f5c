"""From a case to what the package says: the only file here that names its modules, parameters and attributes."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from tables import ENVIRONMENT, EVENT, EXPOSURE, OUTCOME, Table
from typer.testing import CliRunner

import invariance as package
from invariance import Columns, baselines
from invariance._tools.json import to_json
from invariance.cli.main import app
from invariance.decisions import Threshold
from invariance.decisions.residual_check import residual_check
from invariance.exceptions import InvarianceError

# Fields, without [places], that the package gives no more: they are not compared.
GONE: tuple[str, ...] = ("predictive.diagnostics.streamed",)

FAMILIES = {
    "auto": "auto",
    "gaussian": "linear_gaussian",
    "gaussian_mean": "linear_gaussian_mean",
    "bayesian": "bayesian_linear_gaussian",
    "additive": "additive",
    "logistic": "logistic",
    "poisson": "poisson",
    "negative_binomial": "negative_binomial",
    "survival": "piecewise_exponential",
}
WITH_SETTINGS = {
    "bayesian": package.BayesianLinearGaussian,
    "additive": package.Additive,
    "logistic": package.Logistic,
    "survival": package.PiecewiseExponential,
}
ENGINES = {"exact": package.Enumeration, "tempering": package.Tempering, "vi": package.Variational}
PRIORS = {
    "uniform": package.UniformPrior,
    "inclusion": package.InclusionPrior,
    "beta_binomial": package.BetaBinomialPrior,
}
RULES = {"predictive": "predictive", "mode": "mode", "threshold": "threshold", "median": "median"}
REGRESSORS: dict[str, Callable[[], Any]] = {
    "ridge": lambda: Ridge(alpha=2.0),
    "forest": lambda: RandomForestRegressor(n_estimators=10, max_depth=4, random_state=0),
}
METHODS = {
    "icp": baselines.ICP,
    "hidden_icp": baselines.HiddenICP,
    "eills": baselines.EILLS,
    "lasso": baselines.LassoSelection,
    "marginal": baselines.MarginalSelection,
    "pooled": baselines.PooledRegression,
}
# {setting in a case: its name in the package}, where these differ
SETTINGS = {"inclusion": "probabilities"}
TOP, JUDGED = 5, 2
TIMES = [0.5, 1.0, 2.0]
EVIDENCE = ("deviance", "expected_deviance", "p_value", "p_mean", "p_spread", "p_invariant", "r2", "r2_new")


def run(case: dict[str, Any], table: Table) -> dict[str, Any]:
    """What the package says of a case; the names of its warnings and of an error are kept, their words are not."""
    with warnings.catch_warnings(record=True) as caught, tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("always")
        try:
            said = KINDS[case["kind"]](case, table, Path(folder))
        except InvarianceError as error:
            said = {"refused": type(error).__name__}
    ours = {w.category.__name__ for w in caught if w.category.__module__.startswith(package.__name__)}
    return said | {"warnings": sorted(ours)}


# Settings


def estimator(case: dict[str, Any]) -> Any:
    classes = {"logistic": package.BIPClassifier, "survival": package.BIPSurvival}
    settings: dict[str, Any] = {
        "family": _family(case),
        "prior": PRIORS[case["prior"]](**_settings(case, "prior_settings")) if "prior" in case else None,
        "engine": _engine(case),
        "select": Threshold(case["threshold"])
        if case.get("rule") == "threshold"
        else RULES[case.get("rule", "predictive")],
        "tolerance": _tolerance(case.get("tolerance")),
        "random_state": case["random_state"],
        "progress": False,
        "predict_with": case.get("predict_with", "selected"),
    }
    if case.get("input") == "frame":
        settings["columns"] = package.Columns(environment=ENVIRONMENT)
    if "regressor" in case:
        settings["regressor"] = REGRESSORS[case["regressor"]]()
    return classes.get(case.get("family"), package.BIP)(**settings)


def _family(case: dict[str, Any]) -> Any:
    name = case.get("family", "auto")
    return WITH_SETTINGS[name](**_settings(case, "family_settings")) if "family_settings" in case else FAMILIES[name]


def _engine(case: dict[str, Any]) -> Any:
    if "engine" not in case:
        return "auto"
    engine: Any = ENGINES[case["engine"]]
    if "engine_preset" in case:
        engine = getattr(engine, case["engine_preset"])
    return engine(**_settings(case, "engine_settings"))


def _tolerance(given: Any) -> Any:
    if given == "strict":
        return package.Tolerance.strict()
    return None if given is None else package.Tolerance(**given)


def _settings(case: dict[str, Any], key: str) -> dict[str, Any]:
    return {SETTINGS.get(name, name): value for name, value in case.get(key, {}).items()}


def _reading(case: dict[str, Any], table: Table) -> dict[str, Any]:
    """How a table is read."""
    how: dict[str, Any] = {"missing": case.get("missing", "error")}
    groups: Any = case.get("groups")
    if "splines" in case:
        groups = [package.spline(name, knots=knots) for name, knots in case["splines"].items()]
    if groups is not None:
        how["groups"] = groups
    if "categorical" in case:
        how["categorical"] = case["categorical"]
    return how


def data_of(case: dict[str, Any], table: Table) -> Any:
    beside = {role: name for role, name in (("event", EVENT), ("exposure", EXPOSURE)) if name in table.rows}
    how = _reading(case, table) | beside
    return package.MultiEnvironmentData.from_table(table.rows, OUTCOME, ENVIRONMENT, **how)


# Fits


def fitted(case: dict[str, Any], table: Table, folder: Path) -> Any:
    model, rows = estimator(case), table.rows
    match case.get("input", "data"):
        case "data":
            return model.fit(data_of(case, table))
        case "arrays":
            labels = rows[OUTCOME].map({0.0: "no", 1.0: "yes"}) if case["family"] == "logistic" else rows[OUTCOME]
            given = None if len(set(rows[ENVIRONMENT])) == 1 else rows[ENVIRONMENT].to_numpy()
            return model.fit(rows[table.features].to_numpy(), labels.to_numpy(), environments=given)
        case "frame":
            beside = {"event": EVENT} if EVENT in rows else {}
            return model.fit(rows.drop(columns=OUTCOME), rows[OUTCOME], **beside)
        case "moments":
            return model.fit(package.Moments.from_data(data_of(case, table)))
        case "rows":
            return model.fit(package.Moments.from_rows(rows, OUTCOME, ENVIRONMENT, progress=False))
        case stored:
            source = rows if stored == "rows_again" else _files(rows, folder, stored)
            how = _reading(case, table) | {"progress": False}
            model.set_params(columns=Columns(environment=ENVIRONMENT))
            moments = package.Moments.from_rows(source, OUTCOME, ENVIRONMENT, **how)
            return model.fit(moments, rows=source)


def _files(rows: pd.DataFrame, folder: Path, stored: str) -> Path:
    """A folder with some of the rows in each of its files."""
    if stored == "labelled_folders":
        for label, part in rows.groupby(ENVIRONMENT):
            inside = folder / f"{ENVIRONMENT}={label}"
            inside.mkdir()
            part.drop(columns=ENVIRONMENT).to_parquet(inside / "part.parquet", index=False)
        return folder
    for k in range(0, len(rows), 90):
        part = rows[k : k + 90]
        if stored == "csv":
            part.to_csv(folder / f"part-{k:04d}.csv", index=False)
        else:
            part.to_parquet(folder / f"part-{k:04d}.parquet", index=False)
    return folder


def _fit(case: dict[str, Any], table: Table, folder: Path) -> dict[str, Any]:
    model = fitted(case, table, folder)
    new = table.new if case.get("input") != "arrays" else table.new[table.features].to_numpy()
    said = {
        "posterior": posterior(model.posterior_),
        "predictive": None if model.predictive_ is None else posterior(model.predictive_),
        "fitted": {
            "selected": list(model.selected_features_),
            "support": model.support_.tolist(),
            "invariant": bool(model.invariant_),
            "inclusion": model.inclusion_probabilities_,
            "columns": list(model.columns_),
            "coefficients": model.coef_,
            "intercept": model.intercept_,
        },
        "decision": decision(model.decision_.to_plain()),
        "predictions": predictions(model, new, case.get("elsewhere", True)),
        "diagnosis": diagnosis(model.diagnose().to_dict()) if model.n_environments_ > 1 else None,
    }
    if case.get("json"):
        said["json"] = _written(model)
    if case.get("saved"):
        said["saved"] = _saved(model, new, folder / "model.json")
    return said


def posterior(found: Any) -> dict[str, Any]:
    """The numbers of a posterior, of its leading subsets one by one."""
    shown = EVIDENCE if found.kind == "invariant" else ("deviance", "p_invariant", "r2")
    evidence = found.subsets(JUDGED)[list(shown)]
    diagnostics = {key: value for key, value in found.diagnostics.items() if key != "reweighted"}
    return {
        "log_evidence": found.log_evidence,
        "entropy": found.entropy,
        "n_subsets": str(found.n_subsets),
        "inclusion": found.inclusion,
        "pairwise": None if found.pairwise is None else found.pairwise.ravel(),
        "subsets": [_joined(subset) for subset in found.subsets(TOP)["subset"]],
        "log_ratios": found.log_ratios[:TOP],
        "log_probabilities": found.log_probabilities[:TOP],
        "all_log_probabilities": np.where(np.isfinite(found.log_probabilities), found.log_probabilities, 0.0),
        "evidence": evidence.to_dict("list"),
        "counts": found.counts,
        "verdict": None if found.verdict is None else to_json(found.verdict),
        "diagnostics": diagnostics,
    }


def decision(said: dict[str, Any]) -> dict[str, Any]:
    features = said["features"]
    return {
        "invariant": said["invariant"],
        "evidence": {name: said["evidence"][name] for name in ("deviance", "p_value", "p_invariant", "r2")},
        "compatible": said["compatible"],
        "noise": said["noise"],
        "roles": [f"{feature['name']}: {feature['role']}" for feature in features],
        "r2_change": [feature["r2_change"] for feature in features],
        "p_invariant": [feature["p_invariant"] for feature in features],
        "never_challenged": [feature["never_challenged"] for feature in features],
        "broken": {feature["name"]: feature["broken"] for feature in features if feature["broken"]},
        "coefficients": {key: [row[key] for row in said["coefficients"]] for key in ("estimate", "upper")},
    }


def diagnosis(said: dict[str, Any]) -> dict[str, Any]:
    tests = {each["environment"]: each["against_the_rest"] for each in said["environments"]}
    deviations = [test for test in tests.values() if test is not None]
    left_out, leading = said["left_out"], said["leading_subsets"] or {}
    refits = [each["refit"] for each in left_out if each["refit"] is not None]
    return {
        **{key: said[key] for key in ("alarm", "named", "decisive", "threshold", "nothing_compatible", "sites")},
        "all_environments": said["all_environments"],
        "tested": [label for label, test in tests.items() if test is not None],
        **{key: [test[key] for test in deviations] for key in ("deviance", "p_gaussian", "p_value")},
        "parts": [part["p_value"] for test in deviations for part in test["parts"].values()],
        "without": {key: [each[key] for each in left_out] for key in ("environment", "p_invariant", "r2")}
        | {key: [_joined(refit[key]) for refit in refits] for key in ("selected", "best")}
        | {key: [refit[key] for refit in refits] for key in ("best_r2", "p_against_best")}
        | {key: _one_list(refit[key] for refit in refits) for key in ("inclusion", "predictive_inclusion")},
        "leading": {
            "subsets": list(map(_joined, leading.get("subsets", ()))),
            "probabilities": leading.get("probabilities"),
            "changes": _one_list(leading.get("changes", ())),
            "noise_deviation": leading.get("noise"),
        },
        "experiments": {each["feature"]: each["disagreement"] for each in said["experiments"] or ()},
    }


def _joined(subset: Any) -> Any:
    return None if subset is None else "+".join(subset)


def _one_list(lists: Any) -> list[Any]:
    return [value for values in lists for value in values or ()]


def predictions(model: Any, new: Any, elsewhere: bool) -> dict[str, Any]:
    """elsewhere : also what is missed in environments that are left out, which fits again without each"""
    said: dict[str, Any] = {"mean": model.predict(new), "extrapolates": model.extrapolates(new)}
    if hasattr(model, "predict_proba"):
        said["probability"] = model.predict_proba(new)[:, 1]
    if hasattr(model, "predict_survival"):
        said["survival"] = model.predict_survival(new, TIMES).ravel()
    if elsewhere and model.n_environments_ > 1:
        report = model.new_environments().to_plain()
        columns = (
            pd.DataFrame(report["environments"]).drop(columns=["rows", "observed"], errors="ignore").to_dict("list")
        )
        columns["features"] = list(map(_joined, columns.get("features", ())))
        said["left_out"] = columns | {"not_left_out": report["not_left_out"]}
        if report["predicts"] == "number":
            said["interval"] = model.predict_interval(new, coverage=0.9)
            said["deviation"] = model.predict(new, return_std=True)[1]
    return said


def _written(model: Any) -> dict[str, Any]:
    """What the posterior writes, without what is looked at elsewhere."""
    content = json.loads(model.posterior_.to_json())
    again = package.Posterior.from_json(model.posterior_.to_json())
    same = [np.array_equal(getattr(again, name), getattr(model.posterior_, name)) for name in ("inclusion", "masks")]
    content |= {"keys": sorted(content), "reads_back": all(same), "diagnostics": None}
    return {"posterior": content}


def _saved(model: Any, new: Any, path: Path) -> dict[str, Any]:
    model.save(path)
    content = json.loads(path.read_text(encoding="utf-8"))
    loaded = package.load(path)
    return {
        "keys": sorted(content),
        "n_new_environments": len(content["new_environments"]),
        "mean": loaded.predict(new),
        "selected": list(loaded.selected_features_),
    }


# All else


def _command_line(case: dict[str, Any], table: Table, folder: Path) -> dict[str, Any]:
    """fit, explain and predict of a file, by what they write."""
    rows, new, saved = folder / "rows.csv", folder / "new.csv", folder / "model.json"
    table.rows.to_csv(rows, index=False)
    table.new.to_csv(new, index=False)
    about = [rows, "--outcome", OUTCOME, "--environment", ENVIRONMENT, "--family", FAMILIES[case["family"]]]
    fit = _told(["fit", *about, "--seed", "1", "--save", saved], folder / "fit.json")
    explained = _told(["explain", *about], folder / "explain.json")
    _told(["predict", saved, new, "--out", folder / "predicted.csv"])
    predicted = pd.read_csv(folder / "predicted.csv").select_dtypes("number")
    return {
        "fit": {key: fit[key] for key in ("inclusion", "log_evidence", "n_subsets", "counts", "environments")}
        | {"keys": sorted(fit), "decision": decision(fit["decision"])},
        "explain": diagnosis(explained),
        "predict": {name: values.tolist() for name, values in predicted.items()},
    }


def _told(arguments: list[Any], path: Path | None = None) -> Any:
    given = [*arguments, *(() if path is None else ("--json", path))]
    done = CliRunner().invoke(app, list(map(str, given)))
    if done.exit_code:
        raise RuntimeError(done.output) from done.exception
    return None if path is None else json.loads(path.read_text(encoding="utf-8"))


def _method(case: dict[str, Any], table: Table, folder: Path) -> dict[str, Any]:
    model = METHODS[case["method"]](**_settings(case, "settings")).fit(data_of(case, table))
    more = ("p_values_", "confidence_intervals_", "effects_", "losses_", "penalty_", "lasso_coef_", "correlations_")
    return {
        "selected": list(model.selected_features_),
        "support": model.support_.tolist(),
        "coefficients": model.coef_,
        "intercept": model.intercept_,
        "mean": model.predict(table.new),
        "outcome": getattr(model, "outcome_", None),
        "subset_p_values": getattr(model, "subset_p_values_", None),
        **{name.strip("_"): getattr(model, name) for name in more if hasattr(model, name)},
    }


def _compare(case: dict[str, Any], table: Table, folder: Path) -> dict[str, Any]:
    content = json.loads(package.compare(data_of(case, table)).to_json())
    methods = {each.pop("name"): each for each in content.pop("methods")}
    return content | {"methods": methods}


def _sweep(case: dict[str, Any], table: Table, folder: Path) -> dict[str, Any]:
    model = estimator(case | {"family": "gaussian"}) if "rule" in case or "engine" in case else None
    if model is not None:
        model.set_params(random_state=None)
    asked = {"outcomes": case.get("outcomes"), "top": case.get("top", 20), "random_state": 3, "progress": False}
    found = package.sweep(table.rows, model, environments=ENVIRONMENT, **asked)
    numbers = ["feature", "inclusion", "predictive", "selected", "verdict", "p_invariant", "r2"]
    return {str(outcome): part[numbers].to_dict("list") for outcome, part in found.groupby("outcome", sort=True)}


def _residuals(case: dict[str, Any], table: Table, folder: Path) -> dict[str, Any]:
    return {"check": residual_check(data_of(case, table), case["subset"], random_state=1).to_dict()}


KINDS: dict[str, Callable[[dict[str, Any], Table, Path], dict[str, Any]]] = {
    "fit": _fit,
    "command_line": _command_line,
    "method": _method,
    "compare": _compare,
    "sweep": _sweep,
    "residuals": _residuals,
}
