"""Who is who: joining tables by participant (and session), never by row order."""

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

_FILE_SUFFIX_REGEX = re.compile(r"\.(nii(\.gz)?|mg[hz]|img|hdr|dcm|csv|tsv|stats)$")
_ID_SUFFIX_REGEX = re.compile(r"[_.-](t1w?|t1c|mprage|mpr|synthseg|dlmuse|brain|seg|acq[^_]*|run-?\d+|desc-[^_]*)$")
_ID_PREFIX_REGEX = re.compile(r"^(sub|subj|subject)[-_]")
_BIDS_REGEX = re.compile(r"(sub-[A-Za-z0-9]+)_(ses-[A-Za-z0-9]+)")

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class IdMatches:
    """How the ids of two tables belong together.

    Attributes
    ----------
    pairs : dict
        Left id to right id.
    loosely : list of tuple
        The pairs whose spelling differs (prefix, suffix, path, case, leading zeros).
    ambiguous : list of str
        Left ids that fit several on the right, or share one: never guessed.
    """

    pairs: dict[str, str]
    inexact: list[tuple[str, str]]
    ambiguous: list[str]


def normalise_id(name: str) -> str:
    """Return the part of an id that survives programs: no folder, image suffix, ``sub-``, ``_T1`` or zeros.

    Examples
    --------
    >>> core("/data/sub-007_T1w.nii.gz") == core("7") == "7"
    True
    """
    text = _FILE_SUFFIX_REGEX.sub("", re.split(r"[/\\]", name.strip().rstrip("/\\"))[-1].lower())
    while _ID_SUFFIX_REGEX.search(text):
        text = _ID_SUFFIX_REGEX.sub("", text)
    text = re.sub(r"^(\d+)\.0$", r"\1", _ID_PREFIX_REGEX.sub("", text))
    return text.lstrip("0") or text


def normalise_session(name: str) -> str:
    """Return the part of a session that survives programs: ``ses-01``, ``01`` and ``1`` are the same."""
    text = re.sub(r"^(ses|session)[-_]?", "", name.strip().lower())
    return text.lstrip("0") or text


def is_row_counter(values: Sequence[str]) -> bool:
    """Return whether values only count the rows, from 0 or 1."""
    return any(list(values) == [str(k) for k in range(start, start + len(values))] for start in (0, 1))


class IdMatcher:
    """Ids to match others with, once or piece by piece."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = set(names)

    @cached_property
    def _by_normalised_id(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for name in self._names:
            found[normalise_id(name)].append(name)
        return found

    def match(self, left: Iterable[str]) -> IdMatches:
        """Match ids exactly, then by their core, the latter only one to one."""
        lefts = list(dict.fromkeys(left))
        pairs = {name: name for name in lefts if name in self._names}
        rest = [name for name in lefts if name not in pairs]
        if not rest:
            return IdMatches(pairs, [], [])
        shared = Counter(normalise_id(name) for name in lefts)
        loosely, ambiguous = [], []
        for name in rest:
            candidates = self._by_normalised_id.get(normalise_id(name), [])
            if len(candidates) == 1 and shared[normalise_id(name)] == 1:
                loosely.append((name, candidates[0]))
            elif candidates:
                ambiguous.append(name)
        return IdMatches(pairs | dict(loosely), loosely, ambiguous)


def match_ids(left: Iterable[str], right: Iterable[str]) -> IdMatches:
    """Match ids exactly, then by their core, the latter only one to one."""
    return IdMatcher(right).match(left)


def split_bids_ids(names: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Split ids such as ``sub-01_ses-02_T1w`` into person and session, if all of them are of that form."""
    if not names or not _BIDS_REGEX.search(names[0]):
        return None
    found = [_BIDS_REGEX.search(name) for name in names]
    if not all(found):
        return None
    return [m[1] for m in found if m], [m[2] for m in found if m]


def find_duplicates(keys: Iterable[Key]) -> list[Key]:
    """Return the keys that stand more than once, in order of appearance."""
    keys = list(keys)
    if len(set(keys)) == len(keys):
        return []
    return [key for key, times in Counter(keys).items() if times > 1]
