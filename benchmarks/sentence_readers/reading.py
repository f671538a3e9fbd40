"""A text that is read sentence by sentence, and what was found false in it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.sentence_readers.written import WrittenStudy

Reader = Callable[[re.Match[str], "Reading"], None]
"""Takes the match of a sentence, and holds its claims against what was written and what
is true.
"""


class UnreadError(ValueError):
    """A sentence, or a part of one, that no reader knows."""


@dataclass
class Reading:
    """What was read of one surface: terminal, JSON or the first screen.

    Attributes
    ----------
    written : WrittenStudy
    surface : str
    sentence : str
        The one that is being read.
    pattern : str
        Name of the pattern that the sentence is about.
    sentences, claims : int
        Numbers of those that were read.
    faults : list of str
        What is false, with its sentence.
    unread : list of str
        Sentences that no reader knows.
    verdicts : dict
        What is said of each pattern: ``reproduced``, ``not_known``, ``not_reproduced``
        or ``artefact``.
    blocks : list of str
        Blocks that are said to be artefacts.
    concerned : set of str
        R-indices that signs of an artefact are said to concern.
    speaks_of_patterns : bool
        Whether patterns of change are said to distinguish patients from controls.
    unfounded : list of str
        Regions that are named, and that no pattern changes in truth: 5 of 100 intervals
        may exclude 0 by chance.
    """

    written: WrittenStudy
    surface: str
    sentence: str = ""
    pattern: str = ""
    sentences: int = 0
    claims: int = 0
    faults: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    verdicts: dict[str, str] = field(default_factory=dict)
    blocks: list[str] = field(default_factory=list)
    concerned: set[str] = field(default_factory=set)
    speaks_of_patterns: bool = False
    unfounded: list[str] = field(default_factory=list)

    def check(self, is_true: bool, claim: str) -> None:
        """Count a claim, and note it where it is false."""
        self.claims += 1
        if not is_true:
            self.faults.append(f"{claim} [{self.surface}: {self.sentence}]")

    def check_equal(self, said: Any, true: Any, claim: str) -> None:
        """Check that two values are equal."""
        self.check(said == true, f"{claim}: {said!r} is said, {true!r} is true")

    def check_number(
        self, said: str, true: float | None, claim: str, slack: float = 0.0
    ) -> None:
        """Check a number as it is printed against its value; it may differ by rounding
        and by the slack.
        """
        digits = len(said.partition(".")[2])
        is_near = (
            true is not None
            and abs(parse_number(said) - true) <= 0.5 * 10.0**-digits + slack + 1e-9
        )
        self.check(
            is_near,
            f"{claim}: {said} is said, {'nothing' if true is None else f'{true:.6g}'} is true",
        )

    def unify(self, text: str) -> str:
        """Return a text about features in the words of a text about regions, which
        readers know.
        """
        if not self.written.has_features:
            return text
        return re.sub(r"\bfeature(s?)\b", r"region\1", text)

    def read(self, text: str, reader: Callable[[str, "Reading"], None]) -> None:
        """Read a sentence; one that the reader does not know is noted."""
        self.sentence = text
        self.sentences += 1
        try:
            reader(text, self)
        except (
            UnreadError,
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
        ) as error:  # of another form than known
            self.unread.append(f"{error} [{self.surface}: {text}]")


@dataclass
class Grammar:
    """Sentences by their form, each with its reader.

    Attributes
    ----------
    forms : list of tuple
        Expressions that match at the beginning of a text, and their readers.
    """

    forms: list[tuple[re.Pattern[str], Reader]] = field(default_factory=list)

    def form(self, expression: str) -> Callable[[Reader], Reader]:
        """Return a decorator that gives sentences of a form their reader."""

        def add(reader: Reader) -> Reader:
            self.forms.append((re.compile(expression), reader))
            return reader

        return add

    def add_plain(self, *texts: str) -> None:
        """Add sentences that claim nothing about a study."""
        for text in texts:
            self.forms.append((re.compile(re.escape(text)), _read_nothing))

    def read(self, text: str, reading: Reading) -> None:
        """Read all sentences of a text."""
        while text := text.strip():
            for expression, reader in self.forms:
                if match := expression.match(text):
                    reader(match, reading)
                    text = text[match.end() :]
                    break
            else:
                raise UnreadError(text)


def _read_nothing(match: re.Match[str], reading: Reading) -> None:
    pass


def need_match(expression: str, text: str) -> re.Match[str]:
    """Return the match of a whole text, or raise `UnreadError`."""
    match = re.fullmatch(expression, text)
    if match is None:
        raise UnreadError(text)
    return match


def parse_number(text: str) -> float:
    """Return a number that may have a true minus and commas between thousands."""
    return float(text.replace("\N{MINUS SIGN}", "-").replace(",", ""))


def split_names(text: str) -> list[str]:
    """Return the names of a list such as ``a, b and c``."""
    return re.split(r", | and ", text)
