"""Bayesian invariant prediction: which features predict an outcome the same way in every
environment."""

import logging as _logging
import typing as _typing

from ._tools.registry import on_first_use as _on_first_use
from ._version import __version__

if _typing.TYPE_CHECKING:
    from . import baselines as baselines
    from . import datasets as datasets
    from . import decisions as decisions
    from . import exceptions as exceptions
    from . import simulation as simulation
    from .baselines.comparison import compare as compare
    from .data.basis import spline as spline
    from .data.check import check as check
    from .data.multi_environment import MultiEnvironmentData as MultiEnvironmentData
    from .data.reading import read_table as read_table
    from .data.settings import Columns as Columns
    from .data.settings import Environments as Environments
    from .data.settings import FileFormat as FileFormat
    from .data.structure import along as along
    from .estimators.bip import BIP as BIP
    from .estimators.bip import BIPClassifier as BIPClassifier
    from .estimators.bip import BIPSurvival as BIPSurvival
    from .estimators.saved import load as load
    from .inference.enumeration import Enumeration as Enumeration
    from .inference.tempering import Tempering as Tempering
    from .inference.variational import Variational as Variational
    from .models.additive import Additive as Additive
    from .models.bayesian import BayesianLinearGaussian as BayesianLinearGaussian
    from .models.counts import NegativeBinomial as NegativeBinomial
    from .models.counts import Poisson as Poisson
    from .models.gaussian import LinearGaussian as LinearGaussian
    from .models.invariance_test import Tolerance as Tolerance
    from .models.regression import Logistic as Logistic
    from .models.survival import PiecewiseExponential as PiecewiseExponential
    from .moments.moments import Moments as Moments
    from .posterior.posterior import Posterior as Posterior
    from .priors import BetaBinomialPrior as BetaBinomialPrior
    from .priors import InclusionPrior as InclusionPrior
    from .priors import UniformPrior as UniformPrior
    from .sweeps.edge_page import edges_of as edges_of
    from .sweeps.edges import edges as edges
    from .sweeps.store import read_sweep as read_sweep
    from .sweeps.sweep import sweep as sweep

_NAMES = {
    "estimators.bip": ("BIP", "BIPClassifier", "BIPSurvival"),
    "estimators.saved": ("load",),
    "baselines.comparison": ("compare",),
    "sweeps.sweep": ("sweep",),
    "sweeps.store": ("read_sweep",),
    "sweeps.edges": ("edges",),
    "sweeps.edge_page": ("edges_of",),
    "data.multi_environment": ("MultiEnvironmentData",),
    "moments.moments": ("Moments",),
    "data.reading": ("read_table",),
    "data.settings": ("Columns", "Environments", "FileFormat"),
    "data.check": ("check",),
    "data.basis": ("spline",),
    "data.structure": ("along",),
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
