"""The way in which a study ends without a model, and the category of its warnings."""

from typing import TYPE_CHECKING

from rindices.errors import Problem, StudyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rindices.learners.ensemble import Member
    from rindices.model.findings import StudyFindings
    from rindices.model.records import SelectionRecord


class StudyWarning(UserWarning):
    """A reason to doubt a study, for instance too few people.

    Examples
    --------
    >>> import warnings, rindices
    >>> warnings.simplefilter("ignore", rindices.StudyWarning)  # doctest: +SKIP
    """


class StudyStoppedError(StudyError):
    """The study was interrupted from outside.

    Finished member sets are kept; run it again to go on.

    Parameters
    ----------
    problems : str, Problem or iterable of Problem
        What is wrong.
    """


class TrainingFailedError(StudyError):
    """No member of a method that nothing replaces can be used, so there is no model.

    Parameters
    ----------
    problems : str or Problem or iterable of Problem
        Why, and what to change.
    members : sequence of Member
        All that were trained, numbered over all settings.
    """

    def __init__(
        self,
        problems: "str | Problem | Iterable[Problem]",
        members: "Sequence[Member]" = (),
    ) -> None:
        super().__init__(problems)
        self.members = tuple(members)

    def __reduce__(  # type: ignore[override]
        self,
    ) -> "tuple[type[TrainingFailedError], tuple[tuple[Problem, ...], tuple[Member, ...]]]":
        return type(self), (self.problems, self.members)


class NoPatternError(StudyError):
    """No difference between patients and controls was detected, so there is no model.

    Since rindices 0.2, `rindices.fit` does not raise it: it returns a model whose
    ``finding`` is ``no_difference``. The name goes in the next version.

    Parameters
    ----------
    problems : str or Problem or iterable of Problem
        Why there is no model.
    selection : SelectionRecord
        The tests and comparisons that were made, as in ``selection.json``.
    findings : StudyFindings, optional
        What the study found, as in ``findings.json``.
    """

    def __init__(
        self,
        problems: "str | Problem | Iterable[Problem]",
        selection: "SelectionRecord",
        findings: "StudyFindings | None" = None,
    ) -> None:
        super().__init__(problems)
        self.selection = selection
        self.findings = findings

    def __reduce__(  # type: ignore[override]
        self,
    ) -> "tuple[type[NoPatternError], tuple[tuple[Problem, ...], SelectionRecord, StudyFindings | None]]":
        return type(self), (self.problems, self.selection, self.findings)
