"""Everything this package raises or warns of on purpose; each message says what is wrong and what to do about it."""

from __future__ import annotations


class InvarianceError(Exception):
    """Base of the complaints: something that was asked for, or handed in, cannot be used. Anything else is a bug."""


class DataError(InvarianceError, ValueError):
    """The data cannot be used as given."""


class SettingError(InvarianceError, ValueError):
    """A parameter has a value that is not known or not possible."""


class WrongTypeError(InvarianceError, TypeError):
    """Something of another kind was handed in than can be taken; the message says what can."""


class MissingFileError(InvarianceError, FileNotFoundError):
    """There is no such file or folder; the message names it."""


class EngineError(InvarianceError, RuntimeError):
    """The engine cannot do this job; the message says what would."""


class NothingScoredError(EngineError):
    """No subset in the prior's support can be scored."""


class StudyError(EngineError):
    """A study cannot be run or continued as asked."""


class SweepError(EngineError):
    """A sweep cannot be run or continued as asked."""


class PosteriorError(InvarianceError, LookupError):
    """The posterior does not hold what was asked of it; the message says what to do instead."""


class OutputError(InvarianceError, OSError):
    """A file cannot be written; the message names it and says why."""


class DataWarning(UserWarning):
    """Something was left out of the data; the message names it."""


class SingleEnvironmentWarning(UserWarning):
    """One environment says nothing about invariance."""


class EmptySelectionWarning(UserWarning):
    """Nothing was selected, so that `transform` returns a table without columns."""


class NotInvariantWarning(UserWarning):
    """The selected features do not predict alike in all environments, or that cannot be judged."""


class SeparationWarning(UserWarning):
    """Features separate the values of the outcome in all rows, or an environment has only one of them."""


class ExtrapolationWarning(UserWarning):
    """Rows to predict lie far outside the rows that were fitted; the message names the feature."""


class CoverageWarning(UserWarning):
    """There are too few environments to tell how far a prediction may be off in a new one."""


class ClusterWarning(UserWarning):
    """A Dask cluster has nobody to do the work; the message says how to help it."""


class MixingWarning(UserWarning):
    """The replicas of a sampler disagree: its probabilities are not to be relied on."""


class ApproximationWarning(UserWarning):
    """The approximation is far from the posterior."""


class MissingLettersWarning(UserWarning):
    """No font of this machine has some letters of a picture; the message names them."""


class NumericalWarning(RuntimeWarning):
    """Second moments and rows disagreed; the rows' value was taken."""
