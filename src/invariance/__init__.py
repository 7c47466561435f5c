"""Bayesian invariant prediction: which features predict an outcome the same way in every
environment."""

import logging as _logging

import lazy_loader as _lazy_loader

_logging.getLogger(__name__).addHandler(_logging.NullHandler())

# Names are those of __init__.pyi; each is imported when it is first used.
__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
