"""From a case to what the package says, as short plain values: numbers, names and counts."""

from __future__ import annotations

import json
import math
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tables import ENVIRONMENT, EVENT, EXPOSURE, OUTCOME, Table, make
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

import invariance as package
from invariance import Columns
from invariance.cli.main import app
from invariance.decisions.residual_check import residual_check
from invariance.exceptions import InvarianceError

# Fields, without [places], that the package gives no more: they are not compared.
_SAMPLED = (
    "visit_shares",
    "distinct_modes",
    "replicas_that_found_the_best",
    "best_log_probability",
    "mean_log_ratio",
)
GONE = (
    "predictive.diagnostics.streamed",
    *(f"posterior.diagnostics.{name}" for name in _SAMPLED),
    *(f"{what}.{gone}" for what in ("diagnosis", "explain") for gone in ("leading", "experiments")),
)
# Words for people, clocks and rounding errors.
LEFT_OUT = {
    *(
        "notes",
        "note",
        "sentence",
        "rule",
        "engine",
        "prior",
        "model",
        "model_reason",
        "unjudged",
        "format",
    ),
    *(
        "seconds",
        "versions",
        "settings",
        "rescoring_difference",
        "trace",
        "fingerprint",
        "tolerance",
    ),
}
MOST = 6
HEAD = 3
_LONGEST_NAME = 4  # words
PARAMETERS = (
    "family",
    "prior",
    "engine",
    "select",
    "tolerance",
    "deviations",
    "predict_with",
    "regressor",
    "random_state",
)
TOP = 5
JUDGED = 2
TIMES = [0.5, 1.0, 2.0]
ALARM = ("alarm", "named", "decisive", "threshold")
EVIDENCE = (
    "deviance",
    "expected_deviance",
    "p_exact",
    "p_mean",
    "p_spread",
    "p_invariant",
    "r2",
    "r2_new",
)


def result_of(case: dict[str, Any]) -> Any:
    """What the package says of a case; the names of its warnings and of an error are kept, their
    words are not.

    On one thread, since sums of others may be rounded otherwise.
    """
    with (
        threadpool_limits(1),
        warnings.catch_warnings(record=True) as caught,
        tempfile.TemporaryDirectory() as folder,
    ):
        warnings.simplefilter("always")
        try:
            said = KINDS[case["kind"]](case, make(**case["table"]), Path(folder))
        except InvarianceError as error:
            said = {"refused": type(error).__name__}
    ours = {
        w.category.__name__ for w in caught if w.category.__module__.startswith(package.__name__)
    }
    return json.loads(json.dumps(plain(said | {"warnings": sorted(ours)})))


def plain(value: Any) -> Any:
    """As JSON can hold it; long lists are cut to their head, with their sum and that of absolute
    values."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        kept = {
            str(key): item
            for key, item in value.items()
            if key not in LEFT_OUT and not _sentence(item)
        }
        return {key: plain(item) for key, item in kept.items()}
    if isinstance(value, list | tuple):
        return _shortened(list(value))
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _shortened(values: list[Any]) -> Any:
    if len(values) <= MOST:
        return [plain(value) for value in values]
    short: dict[str, Any] = {"n": len(values), "head": [plain(value) for value in values[:HEAD]]}
    numbers = [value for value in values if isinstance(value, int | float) and math.isfinite(value)]
    if numbers:
        short |= {
            "finite": len(numbers),
            "total": [math.fsum(numbers), math.fsum(map(abs, numbers))],
        }
    return short


def _sentence(value: Any) -> bool:
    return isinstance(value, str) and len(value.split()) > _LONGEST_NAME


def estimator(case: dict[str, Any]) -> Any:
    kind = {"logistic": package.BIPClassifier, "survival": package.BIPSurvival}.get(
        case["name"].split("/")[0]
    )
    return (kind or package.BIP)(
        **{name: case[name] for name in PARAMETERS if name in case}, progress=False
    )


def _reading(case: dict[str, Any]) -> dict[str, Any]:
    return {name: case[name] for name in ("missing", "groups", "categorical") if name in case}


def data_of(case: dict[str, Any], table: Table) -> Any:
    beside = {
        role: name
        for role, name in (("event", EVENT), ("exposure", EXPOSURE))
        if name in table.rows
    }
    return package.MultiEnvironmentData.from_table(
        table.rows, OUTCOME, ENVIRONMENT, **_reading(case), **beside
    )


def fitted(case: dict[str, Any], table: Table, folder: Path) -> Any:
    model = estimator(case)
    rows = table.rows
    match case.get("input", "data"):
        case "data":
            return model.fit(data_of(case, table))
        case "arrays":
            classes = isinstance(model, package.BIPClassifier)
            labels = rows[OUTCOME].map({0.0: "no", 1.0: "yes"}) if classes else rows[OUTCOME]
            given = None if len(set(rows[ENVIRONMENT])) == 1 else rows[ENVIRONMENT].to_numpy()
            return model.fit(rows[table.features].to_numpy(), labels.to_numpy(), environments=given)
        case "frame":
            beside = {"event": EVENT} if EVENT in rows else {}
            model.set_params(columns=Columns(environment=ENVIRONMENT))
            return model.fit(rows.drop(columns=OUTCOME), rows[OUTCOME], **beside)
        case "moments":
            return model.fit(package.Moments.from_data(data_of(case, table)))
        case "rows":  # whose moments alone are known
            moments = package.Moments.from_rows(rows, OUTCOME, ENVIRONMENT, progress=False)
            return model.fit(replace(moments, sample=None))
        case stored:
            source = rows if stored == "rows_again" else _files(rows, folder, stored)
            return model.fit(
                package.Moments.from_rows(
                    source, OUTCOME, ENVIRONMENT, progress=False, **_reading(case)
                )
            )


def _files(rows: pd.DataFrame, folder: Path, stored: str) -> Path:
    """A folder with some of the rows in each of its files."""
    if stored == "labelled_folders":
        rows.to_parquet(folder, partition_cols=[ENVIRONMENT], index=False)
        return folder
    for k in range(0, len(rows), 90):
        write = rows[k : k + 90].to_csv if stored == "csv" else rows[k : k + 90].to_parquet
        write(folder / f"part-{k:04d}.{stored}", index=False)
    return folder


def _fit(case: dict[str, Any], table: Table, folder: Path) -> dict[str, Any]:
    model = fitted(case, table, folder)
    new = table.new if case.get("input") != "arrays" else table.new[table.features].to_numpy()
    said = {
        "posterior": posterior(model.posterior_),
        "predictive": None if model.predictive_ is None else posterior(model.predictive_),
        "fitted": _estimates(model)
        | {
            "invariant": bool(model.invariant_),
            "inclusion": model.inclusion_probabilities_,
            "columns": list(model.columns_),
        },
        "decision": decision(model.decision_.to_plain()),
        "predictions": predictions(model, new, case.get("elsewhere", True)),
        "diagnosis": diagnosis(model.diagnose().to_dict()) if model.n_environments_ > 1 else None,
    }
    if case.get("json"):
        said["json"] = _written(model.posterior_)
    if case.get("saved"):
        said["saved"] = _saved(model, new, folder / "model.json")
    return said


def _estimates(model: Any) -> dict[str, Any]:
    return {
        "selected": list(model.selected_features_),
        "support": model.support_.tolist(),
        "coefficients": model.coef_,
        "intercept": model.intercept_,
    }


def posterior(found: Any) -> dict[str, Any]:
    """The numbers of a posterior, of its leading subsets one by one."""
    shown = EVIDENCE if found.kind == "invariant" else ("deviance", "p_invariant", "r2")
    diagnostics = {key: value for key, value in found.diagnostics.items() if key != "reweighted"}
    return {
        **{key: getattr(found, key) for key in ("log_evidence", "entropy", "inclusion", "counts")},
        "n_subsets": str(found.n_subsets),
        "pairwise": None if found.pairwise is None else found.pairwise.ravel(),
        "subsets": [_joined(subset) for subset in found.subsets(TOP)["subset"]],
        "log_ratios": found.log_ratios[:TOP],
        "log_probabilities": found.log_probabilities[:TOP],
        "all_log_probabilities": np.where(
            np.isfinite(found.log_probabilities), found.log_probabilities, 0.0
        ),
        "evidence": found.subsets(JUDGED)[list(shown)].to_dict("list"),
        "diagnostics": diagnostics,
    }


def decision(said: dict[str, Any]) -> dict[str, Any]:
    features = said["features"]
    return {
        **{key: said[key] for key in ("invariant", "compatible", "noise")},
        "evidence": {
            name: said["evidence"][name] for name in ("deviance", "p_exact", "p_invariant", "r2")
        },
        "roles": [f"{feature['name']}: {feature['role']}" for feature in features],
        **{
            key: [feature[key] for feature in features]
            for key in ("r2_change", "p_invariant", "never_challenged")
        },
        "broken": {feature["name"]: feature["broken"] for feature in features if feature["broken"]},
        "coefficients": {
            key: [row[key] for row in said["coefficients"]] for key in ("estimate", "upper")
        },
    }


def diagnosis(said: dict[str, Any]) -> dict[str, Any]:
    tests = {each["environment"]: each["against_the_rest"] for each in said["environments"]}
    deviations = [test for test in tests.values() if test is not None]
    left_out = said["left_out"]
    refits = [each["refit"] for each in left_out if each["refit"] is not None]
    return {
        **{key: said[key] for key in (*ALARM, "nothing_compatible", "sites", "all_environments")},
        "tested": [label for label, test in tests.items() if test is not None],
        **{
            key: [test[key] for test in deviations] for key in ("deviance", "p_gaussian", "p_value")
        },
        "parts": [part["p_value"] for test in deviations for part in test["parts"].values()],
        "without": {
            key: [each[key] for each in left_out] for key in ("environment", "p_invariant", "r2")
        }
        | {key: [_joined(refit[key]) for refit in refits] for key in ("selected", "best")}
        | {key: [refit[key] for refit in refits] for key in ("best_r2", "p_against_best")}
        | {
            key: _one_list(refit[key] for refit in refits)
            for key in ("inclusion", "predictive_inclusion")
        },
    }


def _joined(subset: Any) -> Any:
    return None if subset is None else "+".join(subset)


def _one_list(lists: Any) -> list[Any]:
    return [value for values in lists for value in values or ()]


def predictions(model: Any, new: Any, elsewhere: bool) -> dict[str, Any]:
    """elsewhere : also what is missed in environments that are left out, which fits again without
    each"""
    said: dict[str, Any] = {"mean": model.predict(new), "extrapolates": model.extrapolates(new)}
    if hasattr(model, "predict_proba"):
        said["probability"] = model.predict_proba(new)[:, 1]
    if hasattr(model, "predict_survival"):
        said["survival"] = model.predict_survival(new, TIMES).ravel()
    if elsewhere and model.n_environments_ > 1:
        found = model.new_environments()
        table = found.to_frame().drop(columns=["rows", "observed"], errors="ignore").to_dict("list")
        texts = {"features": _joined, "environment": str}
        said["left_out"] = table | {
            name: list(map(text, table[name])) for name, text in texts.items()
        }
        said["left_out"]["not_left_out"] = list(map(str, found.impossible))
        if found.outcome.kind.name == "number":
            said["interval"] = model.predict_interval(new, coverage=0.9)
            said["deviation"] = model.predict(new, return_std=True)[1]
    return said


def _written(found: Any) -> dict[str, Any]:
    """What a posterior writes, without what is looked at elsewhere."""
    content = found.to_plain()
    again = package.Posterior.from_json(found.to_json())
    same = [
        np.array_equal(getattr(again, name), getattr(found, name))
        for name in ("inclusion", "masks")
    ]
    return {
        "posterior": content
        | {"keys": sorted(content), "reads_back": all(same), "diagnostics": None}
    }


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


def _command_line(case: dict[str, Any], table: Table, folder: Path) -> dict[str, Any]:
    """fit, explain and predict of a file, by what they write."""
    rows = folder / "rows.csv"
    new = folder / "new.csv"
    saved = folder / "model.json"
    table.rows.to_csv(rows, index=False)
    table.new.to_csv(new, index=False)
    about = [rows, "--outcome", OUTCOME, "--environment", ENVIRONMENT, "--family", case["family"]]
    fit = _told(["fit", *about, "--seed", "1", "--save", saved], folder / "fit.json")
    explained = _told(["explain", *about], folder / "explain.json")
    _told(["predict", saved, new, "--out", folder / "predicted.csv"])
    predicted = pd.read_csv(folder / "predicted.csv").select_dtypes("number")
    return {
        "fit": {
            key: fit[key]
            for key in ("inclusion", "log_evidence", "n_subsets", "counts", "environments")
        }
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
    model = case["method"].fit(data_of(case, table))
    more = (
        "p_values_",
        "confidence_intervals_",
        "effects_",
        "losses_",
        "penalty_",
        "lasso_coef_",
        "correlations_",
    )
    return {
        **_estimates(model),
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
    usual = {"family": "linear_gaussian", "random_state": None}
    model = estimator(case | usual) if "select" in case or "engine" in case else None
    asked = {
        "outcomes": case.get("outcomes"),
        "top": case.get("top", 20),
        "random_state": 3,
        "progress": False,
    }
    found = package.sweep(table.rows, model, environments=ENVIRONMENT, **asked)
    numbers = [
        "feature",
        "inclusion",
        "paper_inclusion",
        "selected",
        "verdict",
        "p_invariant",
        "r2",
    ]
    return {
        str(outcome): part[numbers].to_dict("list")
        for outcome, part in found.groupby("outcome", sort=True)
    }


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
