"""Summary of the people of a study, without anyone of them: ``cohort.json``."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

from pydantic import Field

from rindices.errors import OffenderKind, Problem, ProblemCode
from rindices.model.records.base import OMIT_EMPTY, Record


class GroupSummary(Record):
    """A covariate in one group: mean, spread and bounds of numbers, or the number of
    people in each category.

    Attributes
    ----------
    mean : float or None
    sd : float or None
    low, high : float or None
        Bounds outside which 5 % of people are on each side, and at least five. None
        for less than twenty people.
    counts : mapping or None
    """

    mean: Annotated[float | None, OMIT_EMPTY] = None
    sd: Annotated[float | None, OMIT_EMPTY] = None
    low: Annotated[float | None, OMIT_EMPTY] = None
    high: Annotated[float | None, OMIT_EMPTY] = None
    counts: Annotated[Mapping[str, int] | None, OMIT_EMPTY] = None


class CovariateGroups(Record):
    """A covariate in all people, in controls and in patients.

    Attributes
    ----------
    all : GroupSummary
    control : GroupSummary
    patient : GroupSummary
    """

    all: GroupSummary
    control: GroupSummary
    patient: GroupSummary


class CovariateSummary(Record):
    """A covariate and its summary in each group.

    Attributes
    ----------
    name : str
    groups : CovariateGroups
    """

    name: str
    groups: CovariateGroups


class ProblemRecord(Record):
    """A warning or note that the user was given, see `rindices.errors.Problem`.

    Attributes
    ----------
    severity : str
    what : str
    where : str
    cure : str
    code : str
    summary : str
    offenders : tuple of str
    offender_kind : str
    """

    severity: str
    what: str
    where: str = ""
    cure: str = ""
    code: str = ProblemCode.ERROR
    summary: str = ""
    offenders: tuple[str, ...] = ()
    offender_kind: str = ""


class CohortRecord(Record):
    """Content of ``cohort.json``: counts and summaries of the people, and problems of
    the table, without names of participants.

    ``scans`` is the number of scans, if people have several visits.

    Attributes
    ----------
    source : str
    unit : str
    people : int
    controls : int
    patients : int
    regions : int
    covariates : tuple of CovariateSummary
    sites : mapping
    problems : tuple of ProblemRecord
    scans : int or None
    """

    source: str
    unit: str
    people: int
    controls: int
    patients: int
    regions: int
    covariates: tuple[CovariateSummary, ...] = ()
    sites: Mapping[str, Mapping[str, int]] = Field(default_factory=dict)
    problems: tuple[ProblemRecord, ...] = ()
    scans: Annotated[int | None, OMIT_EMPTY] = None

    @classmethod
    def of(cls, summary: Mapping[str, Any], problems: Iterable[Problem]) -> Self:
        """Return the record of a cohort's summary (see `describe_cohort`) and of the
        problems found.
        """
        described = [_leave_out_people(problem) for problem in problems]
        return cls.from_dict({**summary, "problems": described})

    @property
    def covariate_names(self) -> list[str]:
        """Names of the covariates in their order."""
        return [covariate.name for covariate in self.covariates]


def _leave_out_people(problem: Problem) -> dict[str, Any]:
    """Return a problem for JSON, without the names of participants."""
    values = problem.as_dict()
    if problem.offender_kind is OffenderKind.PARTICIPANT:
        values |= {"what": problem.summary, "offenders": []}
    return values
