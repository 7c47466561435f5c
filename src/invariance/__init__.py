"""Bayesian invariant prediction: which features predict an outcome the same way in every environment."""

import logging as _logging
import typing as _typing

from ._tools.registry import on_first_use as _on_first_use
from ._version import __version__

if _typing.TYPE_CHECKING:
    from . import baselines, datasets, decisions, exceptions, simulation
    from .baselines.comparison import compare
    from .data.design import along
    from .data.findings import check
    from .data.multi_environment import MultiEnvironmentData
    from .data.reading import read_table
    from .data.settings import Columns, Environments, FileFormat
    from .data.terms import spline
    from .estimators.bip import BIP, BIPClassifier, BIPSurvival
    from .estimators.saved import load
    from .inference.enumeration import Enumeration
    from .inference.tempering import Tempering
    from .inference.variational import Variational
    from .models.additive import Additive
    from .models.bayesian import BayesianLinearGaussian
    from .models.counts import NegativeBinomial, Poisson
    from .models.gaussian import LinearGaussian
    from .models.invariance_test import Tolerance
    from .models.regression import Logistic
    from .models.survival import PiecewiseExponential
    from .moments.moments import Moments
    from .posterior.posterior import Posterior
    from .priors import BetaBinomialPrior, InclusionPrior, UniformPrior
    from .sweeps.edges import edges
    from .sweeps.store import read_sweep
    from .sweeps.sweep import sweep

_NAMES = {
    "estimators.bip": ("BIP", "BIPClassifier", "BIPSurvival"),
    "estimators.saved": ("load",),
    "baselines.comparison": ("compare",),
    "sweeps.sweep": ("sweep",),
    "sweeps.store": ("read_sweep",),
    "sweeps.edges": ("edges",),
    "data.multi_environment": ("MultiEnvironmentData",),
    "moments.moments": ("Moments",),
    "data.reading": ("read_table",),
    "data.settings": ("Columns", "Environments", "FileFormat"),
    "data.findings": ("check",),
    "data.terms": ("spline",),
    "data.design": ("along",),
    "models.gaussian": ("LinearGaussian",),
    "models.bayesian": ("BayesianLinearGaussian",),
    "models.additive": ("Additive",),
    "models.regression": ("Logistic",),
    "models.counts": ("Poisson", "NegativeBinomial"),
    "models.survival": ("PiecewiseExponential",),
    "models.invariance_test": ("Tolerance",),
    "priors": ("UniformPrior", "InclusionPrior", "BetaBinomialPrior"),
    "inference.enumeration": ("Enumeration",),
    "inference.tempering": ("Tempering",),
    "inference.variational": ("Variational",),
    "posterior.posterior": ("Posterior",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

_MODULES = "baselines", "datasets", "decisions", "exceptions", "simulation"

_logging.getLogger(__name__).addHandler(_logging.NullHandler())

__all__ = ["__version__", *_HOMES, *_MODULES]
__getattr__, __dir__ = _on_first_use(__name__, _HOMES, _MODULES)
