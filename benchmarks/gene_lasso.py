"""The Lasso screen of one gene at full size: seconds of the processor beside scikit-learn's
LassoCV, and agreement.

python benchmarks/gene_lasso.py --data FOLDER
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.linear_model import LassoCV

from _harness import header
from invariance.screening import cross_validated_lasso, random_folds, standardized
from replication import make_study

FOLDS = 5
SEED = 3
LEADING = 10

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="folder of deletions.npz")
    given = parser.parse_args()
    header("A Lasso screen of 6,164 genes, five folds, 100 penalties")
    study = make_study("genes", data=given.data, targets="paper")
    data = study.fitted(study.cells()[0], 0)
    print(f"{study.cells()[0]['target']}: {data.n_rows:,} rows, {data.n_features:,} features")
    cross_validated_lasso(
        data.narrowed(np.arange(data.n_features) < 2 * data.n_rows), FOLDS
    )  # loads compiled code
    X = standardized(data)
    y = data.y - data.y.mean()
    started = time.process_time()
    ours = cross_validated_lasso(data, FOLDS, random_state=SEED)
    between = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = LassoCV(cv=random_folds(data, FOLDS, SEED)).fit(X, y)
    seconds = between - started, time.process_time() - between
    print(f"seconds of the processor: {seconds[0]:.1f}, scikit-learn {seconds[1]:.1f}")
    found = np.array([ours.coefficients, theirs.coef_])
    print(
        f"penalties {ours.penalty:.4g} and {theirs.alpha_:.4g}; genes {(found != 0).sum(axis=1)}, "
        "in both",
        end=" ",
    )
    leading = [set(np.argsort(-np.abs(w))[:LEADING].tolist()) for w in found]
    print(
        f"{(found != 0).all(axis=0).sum()}; of the {LEADING} largest, in both "
        f"{len(leading[0] & leading[1])}"
    )
