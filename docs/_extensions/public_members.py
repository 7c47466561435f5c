"""Members of classes that the API pages list and `scripts/docstrings.py` validates.

Classes that are not named here have no members to list.
"""

from __future__ import annotations

_PREDICTS = (
    *("fit", "predict", "score", "new_environments", "extrapolates", "columns_to_predict"),
    *("predictor_", "transform", "get_feature_names_out"),
)
_TIMES = ("predict_survival", "predict_restricted_mean")
_SITE = ("predict_site", "adapt")
_BIP = (
    "decision_",
    "invariant_",
    "predictive_",
    "summary",
    "diagnose",
    "cost_of_invariance",
    "chance_selection",
    "residual_check",
    "plot",
    "report",
    "methods_paragraph",
    "save",
    "load",
)
_METHOD = ("fit", "predict", "score", "transform", "get_feature_names_out")

MEMBERS: dict[str, tuple[str, ...]] = {
    "BIP": (*_PREDICTS, "predict_interval", *_SITE, *_TIMES, *_BIP),
    "BIPClassifier": ("classes_", "predict_proba", "decision_function", *_PREDICTS, *_SITE, *_BIP),
    "BIPSurvival": (*_TIMES, *_PREDICTS, *_SITE, *_BIP),
    "EnvironmentSelector": ("score", "transform", "get_feature_names_out"),
    "SavedModel": (*_PREDICTS[1:], "predict_interval", *_SITE, *_TIMES, "summary", "plot", "save"),
    "Comparison": ("spread", "plot", "save_plot", "to_json"),
    "EdgePage": ("plot", "save_plot"),
    "MultiEnvironmentData": (
        *(
            "from_table",
            "from_arrays",
            "to_frame",
            "choosing",
            "counts",
            "rows",
            "outcome_kind",
            "losses",
        ),
    ),
    "Moments": (
        "from_rows",
        "from_data",
        "merge",
        "choosing",
        "with_outcome",
        "to_arrow",
        "from_arrow",
        "losses",
    ),
    "DataCheck": ("exclusions", "missing_by_environment", "to_frame", "to_json"),
    "Finding": ("message",),
    "Posterior": (
        *(
            "inclusion_probabilities",
            "pairwise_inclusion",
            "subsets",
            "credible_subsets",
            "mode",
            "mode_mask",
        ),
        *("probability", "evidence", "sample", "summary", "reading", "plot"),
        *("table_mass", "to_json", "from_json", "to_datatree"),
    ),
    "Decision": (
        *(
            "verdict",
            "level",
            "heterogeneity",
            "baseline",
            "absorbed_baselines",
            "features",
            "coefficients",
            "effects",
        ),
        *("evidence", "invariant", "rejected", "is_compatible"),
        *("posterior", "by_tolerance", "effective_tolerance", "prediction"),
        *("noise", "curves", "worst", "plot"),
    ),
    "MetaAnalysis": ("prediction_interval",),
    "Diagnosis": ("decisive", "worst", "influence", "plot", "to_dict", "to_json"),
    "ResidualCheck": ("alarm", "worst", "to_dict"),
    "Choice": ("told", "worst"),
    "CostOfInvariance": ("ratio", "ratios"),
    "NewEnvironments": ("to_frame", "half_width", "pooled"),
    "PooledPerformance": ("to_frame",),
    "Tolerance": ("strict", "weak", "in_words"),
    "ByLikelihood": ("maximise", "mean", "bind"),
    "Prior": ("bind", "forced", "inclusion", "log_size_weight", "limited_to"),
    "BoundPrior": (
        "log_prob",
        "inclusion_probabilities",
        "sample",
        "support_size",
        "forced",
        "free",
    ),
    "Variational": ("simulation", "genes"),
    **dict.fromkeys(
        (
            *(
                "ICP",
                "StabilityICP",
                "HiddenICP",
                "EILLS",
                "StabilizedRegression",
                "RandomIntercept",
                "Anchor",
                "VREx",
            ),
            *(
                "LassoSelection",
                "MarginalSelection",
                "PooledRegression",
                "RidgeRegression",
                "Pooled",
            ),
            *("Oracle", "Screened"),
        ),
        _METHOD,
    ),
    "StructuralModel": ("sample", "truth", "feature_names"),
}
