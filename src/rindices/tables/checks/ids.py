"""Match participants and sessions of two tables by their ids, never by row order."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

MAX_ID_LENGTH = 1_000
"""Longest id that is read, in characters."""
_UNPRINTABLE_CATEGORIES = (
    "Cc",
    "Cf",
    "Cs",
    "Zl",
    "Zp",
)  # control and format characters, separators of lines
_FILE_SUFFIX_REGEX = re.compile(r"\.(nii(\.gz)?|mg[hz]|img|hdr|dcm|csv|tsv|stats)$")
_ID_SUFFIX_REGEX = re.compile(
    r"[_.-](t1w?|t1c|mprage|mpr|synthseg|dlmuse|brain|seg|acq[^_]*|run-?\d+|desc-[^_]*)$"
)
_ID_PREFIX_REGEX = re.compile(r"^(sub|subj|subject)[-_]")
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DATE_REGEX = re.compile(
    rf"\d{{4}}-\d\d-\d\d( 00:00:00)?|\d{{1,2}}-({_MONTHS})(-\d{{2,4}})?|({_MONTHS})-\d{{2,4}}",
    re.IGNORECASE,
)
_BIDS_REGEX = re.compile(r"(sub-[A-Za-z0-9]+)_(ses-[A-Za-z0-9]+)")


@dataclass(frozen=True)
class IdMatches:
    """IDs of one table matched with IDs of another.

    Attributes
    ----------
    pairs : dict
        Right ID by left ID.
    inexact : list of tuple of str
        Pairs whose spelling differs: prefix, suffix, path, case or leading zeros.
    ambiguous : list of str
        Left IDs that fit several IDs on the right, or share one. They are not matched.
    """

    pairs: dict[str, str]
    inexact: list[tuple[str, str]]
    ambiguous: list[str]


def normalise_id(name: str) -> str:
    """Return an id without folder, file suffix, ``sub-``, ``_T1`` and leading zeros, in
    lower case.

    Examples
    --------
    >>> normalise_id("/data/sub-007_T1w.nii.gz")
    '7'
    """
    text = _FILE_SUFFIX_REGEX.sub(
        "", re.split(r"[/\\]", name.strip().rstrip("/\\"))[-1].lower()
    )
    while _ID_SUFFIX_REGEX.search(text):
        text = _ID_SUFFIX_REGEX.sub("", text)
    text = re.sub(r"^(\d+)\.0$", r"\1", _ID_PREFIX_REGEX.sub("", text))
    return text.lstrip("0") or text


def normalise_session(name: str) -> str:
    """Return a session without prefix and leading zeros: ``ses-01``, ``01`` and ``1``
    are the same.
    """
    text = re.sub(r"^(ses|session)[-_]?", "", name.strip().lower())
    return text.lstrip("0") or text


def mark_unprintable_ids(names: Sequence[str]) -> list[bool]:
    """Return for each id whether it holds a control or invisible character, or is
    longer than `MAX_ID_LENGTH`.
    """
    if (
        "".join(names).isprintable()
        and max(map(len, names), default=0) <= MAX_ID_LENGTH
    ):
        return [False] * len(names)
    return [len(name) > MAX_ID_LENGTH or has_control_characters(name) for name in names]


def has_control_characters(text: str) -> bool:
    """Return whether a text holds a line break, a tab, or another control or invisible
    character.
    """
    return not text.isprintable() and any(
        unicodedata.category(char) in _UNPRINTABLE_CATEGORIES for char in text
    )


def find_dates(names: Sequence[str]) -> list[str]:
    """Return ids that a spreadsheet has turned into dates, such as ``01-Mar`` for 1-3,
    beside ids that are none.
    """
    dates = [name for name in names if _DATE_REGEX.fullmatch(name)]
    times = [name for name in dates if name.endswith(" 00:00:00")]
    return dates if len(dates) < len(names) else times


class IdMatcher:
    """The ids of a table, to be matched with the ids of another table or of
    its chunks.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = set(names)

    @cached_property
    def _by_normalised_id(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = defaultdict(list)
        for name in self._names:
            names[normalise_id(name)].append(name)
        return names

    def match(self, left: Iterable[str]) -> IdMatches:
        """Match ids exactly, and the others by their normalised form where that is one
        to one.
        """
        lefts = list(dict.fromkeys(left))
        pairs = {name: name for name in lefts if name in self._names}
        others = [name for name in lefts if name not in pairs]
        if not others:
            return IdMatches(pairs, [], [])
        times = Counter(normalise_id(name) for name in lefts)
        inexact, ambiguous = [], []
        for name in others:
            candidates = self._by_normalised_id.get(normalise_id(name), [])
            if len(candidates) == 1 and times[normalise_id(name)] == 1:
                inexact.append((name, candidates[0]))
            elif candidates:
                ambiguous.append(name)
        return IdMatches(pairs | dict(inexact), inexact, ambiguous)


def match_ids(left: Iterable[str], right: Iterable[str]) -> IdMatches:
    """Match the ids of two tables, see `IdMatcher.match`."""
    return IdMatcher(right).match(left)


def split_bids_ids(names: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Split ids such as ``sub-01_ses-02_T1w`` into person and session; None unless all
    have this form.
    """
    if not names or not _BIDS_REGEX.search(names[0]):
        return None
    matches = [match for match in map(_BIDS_REGEX.search, names) if match]
    if len(matches) < len(names):
        return None
    return [match[1] for match in matches], [match[2] for match in matches]
