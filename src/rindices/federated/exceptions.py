"""Errors of an exchange between a centre and its sites."""

from rindices.errors import StudyError

COMPUTE_ERRORS = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""What numbers and settings of others can raise, LinAlgError among them."""


class ExchangeError(StudyError):
    """A message is damaged, forged, late or of the wrong content."""


class RefusedError(StudyError):
    """A site refuses a request, because the answer would tell too much about single people."""


class WaitingError(StudyError):
    """Sites have not answered in time; what was answered is kept, and the same command goes on."""
