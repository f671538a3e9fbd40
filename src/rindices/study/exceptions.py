"""Ways in which a study ends without a model, and the category of its warnings."""

from typing import TYPE_CHECKING

from rindices.errors import Problem, StudyError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rindices.model.records import SelectionRecord


class StudyWarning(UserWarning):
    """A reason to doubt a study, for instance too few people.

    Examples
    --------
    >>> import warnings, rindices
    >>> warnings.simplefilter("ignore", rindices.StudyWarning)  # doctest: +SKIP
    """


class StudyStoppedError(StudyError):
    """The study was interrupted from outside. Finished member sets are kept; run it again to go on.

    Attributes
    ----------
    problems : tuple of Problem
    """


class _NoModelError(StudyError):
    """A study that ended without a model.

    Parameters
    ----------
    problems : str or Problem or iterable of Problem
        Why there is no model.
    selection : SelectionRecord
        The tests and comparisons that were made, as in ``selection.json``.
    """

    def __init__(self, problems: "str | Problem | Iterable[Problem]", selection: "SelectionRecord") -> None:
        super().__init__(problems)
        self.selection = selection

    def __reduce__(self) -> "tuple[type[_NoModelError], tuple[tuple[Problem, ...], SelectionRecord]]":  # type: ignore[override]
        return type(self), (self.problems, self.selection)


class NoPatternError(_NoModelError):
    """No difference between patients and controls was detected, so nothing was trained.

    Attributes
    ----------
    selection : SelectionRecord
        Result of the permutation test, as in ``selection.json``.
    """


class UnstableError(_NoModelError):
    """No setting gave a stable result.

    Attributes
    ----------
    selection : SelectionRecord
        Agreement of every setting, as in ``selection.json``.
    """
