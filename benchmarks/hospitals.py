"""What predicts in the example, by how many of its hospitals are fitted, and how far it is off in
the new one.

Ratio: the worst error of all features in a hospital left out, over that of the selected ones;
beyond the threshold the selected features predict. The first table is the example as it is; the
second repeats it with other random numbers.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from invariance import BIP
from invariance.datasets import make_example, make_new_hospital
from invariance.exceptions import InvarianceWarning

HOSPITALS = (2, 3, 4, 5, 6)
HEAD = "|---:|---:|---:|---|---:|---:|"


def fitted(n: int, seed: int) -> BIP:
    data = make_example(seed=seed)
    return BIP(progress=False).fit(data.choosing(data.environments[:n]))


def errors(model: BIP, seed: int) -> list[float]:
    """RMSE in the new hospital of all features, and of the selected ones"""
    new = make_new_hospital(seed=seed)
    kinds = [
        model.set_params(predict_with=kind).predict(new.to_frame())
        for kind in ("everything", "selected")
    ]
    return [float(np.sqrt(np.mean((predicted - new.y) ** 2))) for predicted in kinds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=100)
    options = parser.parse_args()
    warnings.simplefilter("ignore", InvarianceWarning)
    print(f"| hospitals | ratio | threshold | predicts | error of all | of the selected |\n{HEAD}")
    for n in HOSPITALS:
        model = fitted(n, 11)
        choice = model.decision_.prediction
        everything, selected = errors(model, 12)
        about = f"{choice.ratio:.3f} | {choice.threshold:.3f} | {choice.uses}"
        print(f"| {n} | {about} | {everything:.1f} | {selected:.1f} |")
    print(
        f"\n{options.sets} draws: medians of the ratio, shares where the selected features "
        "predict, mean errors"
    )
    print(
        "| hospitals | ratio | threshold | selected predict | error of all | of the selected "
        f"|\n{HEAD}"
    )
    for n in HOSPITALS:
        models = [fitted(n, 1000 + seed) for seed in range(options.sets)]
        choices = [model.decision_.prediction for model in models]
        ratio = np.median([c.ratio for c in choices])
        share = np.mean([c.uses == "selected" for c in choices])
        everything, selected = np.mean(
            [errors(model, 5000 + seed) for seed, model in enumerate(models)], axis=0
        )
        about = f"{ratio:.3f} | {choices[0].threshold:.3f} | {share:.2f}"
        print(f"| {n} | {about} | {everything:.1f} | {selected:.1f} |")


if __name__ == "__main__":
    main()
