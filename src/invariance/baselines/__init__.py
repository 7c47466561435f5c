"""The methods that Bayesian invariant prediction is compared with, behind the same estimator
interface."""

import lazy_loader as _lazy_loader

# Names are those of __init__.pyi; each is imported when it is first used.
__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
