"""One error family. Each message names the offender and the cure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import NoReturn


class Severity(StrEnum):
    """How bad a problem is: only an error stops the work."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Problem:
    """Something that a user should know about the input.

    Attributes
    ----------
    severity : Severity
    what : str
        What is wrong, with the names of the offenders.
    where : str
        The file (and column or line) it was found in.
    cure : str
        What to do about it; empty for a note that needs no action.
    """

    severity: Severity
    what: str
    where: str = ""
    cure: str = ""

    def __str__(self) -> str:
        """Return the problem as one line."""
        place = f"{self.where}: " if self.where else ""
        return f"{place}{_end_sentence(self.what)}{' ' + _end_sentence(self.cure) if self.cure else ''}"

    def as_dict(self) -> dict[str, str]:
        """Return the problem in the shape that ``check --json`` prints."""
        return asdict(self) | {"severity": str(self.severity)}


class RindicesError(Exception):
    """Base of all errors that a user can mend.

    Parameters
    ----------
    problems : str or Problem or iterable of Problem
        What went wrong; all problems that were found, not only the first.
    """

    def __init__(self, problems: str | Problem | Iterable[Problem]) -> None:
        if isinstance(problems, str):
            problems = Problem(Severity.ERROR, problems)
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[type["RindicesError"], tuple[tuple[Problem, ...]]]:
        """Return how to build it again, so that an error crosses from one process to another as it is."""
        return type(self), (self.problems,)


class InputError(RindicesError, ValueError):
    """Arrays or parameters that a learner or metric cannot use."""


class TableError(RindicesError):
    """A table that cannot become a cohort."""


class PreprocessingError(RindicesError):
    """Covariates or regions that the adjustment cannot handle."""


class ModelError(RindicesError):
    """A model file that cannot be trusted, or a table that does not fit a model."""


class StudyError(RindicesError):
    """A study that cannot be run as written."""


class AnalysisError(RindicesError):
    """Tables that a statistic cannot be made of."""


class SimulationError(RindicesError):
    """A simulated cohort that cannot be made as asked."""


@dataclass
class Findings:
    """Collects problems in one pass, so that a user sees all of them at once."""

    problems: list[Problem] = field(default_factory=list)

    def note(self, what: str, where: str = "", cure: str = "") -> None:
        """Add something worth knowing."""
        self.problems.append(Problem(Severity.NOTE, what, where, cure))

    def warn(self, what: str, where: str = "", cure: str = "") -> None:
        """Add something suspicious."""
        self.problems.append(Problem(Severity.WARNING, what, where, cure))

    def error(self, what: str, where: str = "", cure: str = "") -> None:
        """Add something that stops the work, and go on looking."""
        self.problems.append(Problem(Severity.ERROR, what, where, cure))

    def fatal(self, what: str, where: str = "", cure: str = "") -> NoReturn:
        """Add an error that leaves nothing more to look at, and stop."""
        self.error(what, where, cure)
        raise TableError(self.errors())

    def errors(self) -> list[Problem]:
        """Return the problems that stop the work."""
        return [problem for problem in self.problems if problem.severity is Severity.ERROR]

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)


def join_names(items: Iterable[object], most: int = 5) -> str:
    """Return the first few items by name and the number of the others.

    Examples
    --------
    >>> named(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    names = [_shorten_text(str(item)) for item in items]
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def did_you_mean(word: str, options: Sequence[str]) -> str:
    """Return a suggestion for a misspelt word, else the list of what there is."""
    lower = {option.lower(): option for option in options}
    close = get_close_matches(word.lower(), list(lower), n=1)
    return f"did you mean '{lower[close[0]]}'?" if close else f"there is: {join_names(options, 12) or 'nothing'}"


def describe_os_error(error: OSError) -> str:
    """Return why the system refused, in words."""
    return error.strerror or str(error) or type(error).__name__


def capitalise_first(text: str) -> str:
    """Return text with a capital first letter; names inside keep their spelling."""
    return text[:1].upper() + text[1:]


def format_count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun in the right form."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _shorten_text(text: str, most: int = 80) -> str:
    """Return text fit for one line of a message: printable, not endless."""
    printable = "".join(char if char.isprintable() else "?" for char in text)
    return printable if len(printable) <= most else printable[: most - 3] + "..."


def _end_sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else text + "."
