"""Which program wrote a table, and what each of its columns is: told from the header."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from rindices.tables import freesurfer, muse
from rindices.tables.text import name_key

if TYPE_CHECKING:
    from collections.abc import Callable

_ID_TEXT = """
    participant_id participant subject_id subject subjectid sub_id subj_id subjid sub id mrid ptid rid eid scan_id
    image_id imageid patient_id patientid case_id name
"""
_OTHER_TEXT = """
    education handedness hand race ethnicity mmse cdr moca apoe apoe4 bmi weight height date scan_date dob manufacturer
    field_strength magnetic_field_strength euler avg_en qc iq fiq viq piq
"""
ID_NAMES = tuple(_ID_TEXT.split())
SESSION_NAMES = ("session_id", "session", "visit", "viscode", "timepoint", "time_point")
GROUP_NAMES = ("group", "diagnosis", "dx", "diag", "dx_group", "clinical_group")
SITE_NAMES = ("site", "scanner", "site_id", "scanner_id", "center", "centre", "study")
AGE_NAMES = ("age", "age_at_scan", "age_years")
AGE_SEX_NAMES = (*AGE_NAMES, "sex", "gender")
_PEOPLE_NAMES = {*ID_NAMES, *SESSION_NAMES, *GROUP_NAMES, *SITE_NAMES, *AGE_SEX_NAMES, *_OTHER_TEXT.split()}
_PEOPLE_KEYS = {name_key(name) for name in _PEOPLE_NAMES}
_PEOPLE_WORDS_TEXT = """
    age sex gender male female educ education pteducat score scores total uid id ids date visit month months year years
    mmse mms moca cdr cdrsb adas ravlt faq gds updrs apoe abeta tau ptau fdg bmi weight height race ethnicity iq
    scanner site centre center group dx diagnosis handedness unnamed imageuid
"""
_PEOPLE_WORDS = set(_PEOPLE_WORDS_TEXT.split())
_ADNI_OTHER = re.compile(r"ST\d+(SA|TA|TS|HS)")  # UCSF's tables: area, thickness and its sd, hippocampal rest
_MARKED = re.compile(r"-?\d[\d.,' ]*")
_UKB = re.compile(r"(\d+)-\d+\.\d+")
_UKB_OTHER = {31, 34, 52, 53, 54, 21003, *range(25000, 25011), *range(25756, 25760)}
_MUSE_AT_LEAST = 10
_FREESURFER_AT_LEAST = 5


@dataclass(frozen=True)
class Layout:
    """What the columns of one table are.

    Attributes
    ----------
    format : str
        ``dlmuse``, ``aseg``, ``aparc``, ``freesurfer``, ``synthseg``, ``fastsurfer``, ``enigma``, ``surrealgan``
        or ``table``.
    regions : mapping of str to str
        Column in the file to region in the cohort.
    icv : str or None
        The column of intracranial volume.
    aside : mapping of str to list of str
        Why columns are not used (``ventricle``, ``composite``, ``no tissue``), and which.
    others : tuple of str
        Columns about the people: covariates, labels, whatever else.
    measures : mapping of str to str
        What each region measures: ``volume``, ``thickness``, ...
    """

    format: str
    regions: Mapping[str, str]
    icv: str | None = None
    aside: Mapping[str, list[str]] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    measures: Mapping[str, str] = field(default_factory=dict)

    @property
    def zero_is_missing(self) -> bool:
        """Whether a zero means that the program did not find the region (FreeSurfer), not a volume of nothing."""
        return self.format in {"aseg", "aparc", "freesurfer", "fastsurfer", "enigma"}


def detect(header: list[str], frame: pd.DataFrame, people: Collection[str]) -> Layout:
    """Tell what wrote a table.

    Parameters
    ----------
    header : list of str
        The names as in the file (the first may be empty).
    frame : DataFrame
        The table; only an unknown one is looked into.
    people : collection of str
        Columns that the user named as id, session, group, site or covariate: they are never regions.
    """
    columns = [name for name in frame.columns if name not in people]
    first = header[0].lower() if header else ""
    readers: tuple[Callable[[], Layout | None], ...] = (
        lambda: _dlmuse(columns),
        lambda: _freesurfer(columns, first),
        lambda: _surrealgan(columns, frame),
        lambda: _plain(columns, frame),
    )
    return next(layout for layout in (reader() for reader in readers) if layout is not None)


def find_name(columns: Collection[str], names: Collection[str]) -> str | None:
    """Return the first column, in the order of ``names``, that bears one of them in any spelling."""
    by_key = {name_key(column): column for column in reversed(list(columns))}
    return next((by_key[name_key(name)] for name in names if name_key(name) in by_key), None)


def _is_about_people(column: str) -> bool:
    """Return whether a name, or one of its words, is about a person and not about a region."""
    words = re.findall(r"[a-z]+|\d+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column).lower())
    return name_key(column) in _PEOPLE_KEYS or any(word in _PEOPLE_WORDS for word in words)


def _dlmuse(columns: list[str]) -> Layout | None:
    codes = muse.codes_in(columns)
    singles = muse.single_regions()
    known = {column: code for column, code in codes.items() if code in singles}
    numbered = [column for column in columns if muse.looks_numbered(column)]
    if len(known) < _MUSE_AT_LEAST or sum(column in codes for column in numbered) < 0.9 * len(numbered):
        return None
    regions = {column: singles[code].name for column, code in known.items() if not singles[code].is_ventricle}
    aside = {
        "ventricle": [column for column, code in known.items() if singles[code].is_ventricle],
        "composite": [c for c, code in codes.items() if code not in singles and code != muse.ICV_CODE],
    }
    icv = next((column for column, code in codes.items() if code == muse.ICV_CODE), None)
    others = tuple(column for column in columns if column not in codes)
    if icv is None:
        icv = find_name(others, freesurfer.ICV_NAMES)
    return Layout("dlmuse", regions, icv, _filled(aside), others, dict.fromkeys(regions.values(), "volume"))


def _freesurfer(columns: list[str], first: str) -> Layout | None:
    kinds = {column: freesurfer.kind(column) for column in columns}
    regions = [column for column, kind in kinds.items() if kind == "region"]
    if len(regions) < _FREESURFER_AT_LEAST:
        return None
    if any(freesurfer.is_parcel(column) for column in regions):
        whole = [column for column in regions if freesurfer.is_whole_cortex(column)]
        kinds |= dict.fromkeys(whole, "composite")
        regions = [column for column in regions if column not in whole]
    aside = {why: [c for c, kind in kinds.items() if kind == why] for why in ("ventricle", "composite", "no tissue")}
    icvs = [column for column, kind in kinds.items() if kind == "icv"]
    icv = find_name(icvs, freesurfer.ICV_NAMES)
    others = tuple(column for column, kind in kinds.items() if kind is None)
    name = _freesurfer_format(columns, first)
    names = {column: freesurfer.canonical(column) for column in regions}
    measures = {names[column]: _measured(column, first) for column in regions}
    return Layout(name, names, icv, _filled(aside), others, measures)


def _measured(column: str, first: str) -> str:
    """Return what a column measures; the head of an aseg table (``Measure:mean``) says it for all."""
    told = first.removeprefix("measure:") if first.startswith("measure:") else "volume"
    return freesurfer.measure(column) if told == "volume" else told


def _freesurfer_format(columns: list[str], first: str) -> str:
    if first.startswith("measure:"):
        return "aseg"
    if first.startswith(("lh.", "rh.")):
        return "aparc"
    lower = {column.lower() for column in columns}
    if "total intracranial" in lower or "left cerebral white matter" in lower:
        return "synthseg"
    if {"llatvent", "lhippo"} & lower or any(column.endswith(("_thickavg", "_surfavg")) for column in lower):
        return "enigma"
    return "freesurfer"


def _surrealgan(columns: list[str], frame: pd.DataFrame) -> Layout | None:
    """Recognise the frames of the authors' package: participant_id, diagnosis (-1 and 1), then regions."""
    if list(frame.columns[:2]) != ["participant_id", "diagnosis"]:
        return None
    labels = set(pd.to_numeric(frame["diagnosis"], errors="coerce").dropna().unique())
    if not labels or not labels <= {-1, 0, 1}:
        return None
    layout = _plain(columns, frame)
    return Layout("surrealgan", layout.regions, layout.icv, layout.aside, layout.others, layout.measures)


def _plain(columns: list[str], frame: pd.DataFrame) -> Layout:
    """Take every column of numbers that is not about the people as a region."""
    icv = find_name(columns, freesurfer.ICV_NAMES)
    rest = [column for column in columns if column != icv and not _is_about_people(column)]
    numbers = [column for column in rest if mostly_numbers(frame[column])]
    kinds = {column: _plain_kind(column, frame[column]) for column in numbers}
    regions = [column for column in numbers if kinds[column] == "region"]
    aside = {why: [c for c, kind in kinds.items() if kind == why] for why in dict.fromkeys(kinds.values())}
    aside.pop("region", None)
    others = tuple(column for column in columns if column not in regions and column != icv)
    measures = {column: freesurfer.measure(column) for column in regions}
    return Layout("table", {column: column for column in regions}, icv, aside, others, measures)


def _plain_kind(column: str, values: pd.Series) -> str:
    """Return ``region``, or why a column of numbers in an unknown table is hardly one."""
    known = freesurfer.kind(column)
    if known in {"ventricle", "composite", "no tissue"}:
        return known
    if _ADNI_OTHER.fullmatch(column):
        return "not a volume"
    field = _UKB.fullmatch(column)
    if field and int(field[1]) in _UKB_OTHER:
        return "not a region"
    return "few whole numbers" if _few_whole_numbers(values) else "region"


def _few_whole_numbers(values: pd.Series) -> bool:
    """Return whether a column holds codes or counts: whole numbers, few of them distinct."""
    if not pd.api.types.is_numeric_dtype(values) or len(values) < 30:
        return False
    found = values.dropna().unique()
    return 1 < len(found) <= 10 and bool((found == found.round()).all())


def mostly_numbers(values: pd.Series) -> bool:
    """Return whether a column is meant as numbers: text in a few cells is a fault, in most it is a label."""
    if pd.api.types.is_bool_dtype(values) or isinstance(values.dtype, pd.CategoricalDtype):
        return False
    if pd.api.types.is_numeric_dtype(values):
        return True
    filled = values.dropna().astype("object")
    if not len(filled):
        return True
    numbers = pd.to_numeric(filled, errors="coerce").notna()
    # 1.234,5 and 1,234.5 are meant as numbers, though they cannot be read as they stand
    marked = filled.map(lambda cell: bool(_MARKED.fullmatch(str(cell).strip())))
    return bool((numbers | marked).mean() >= 0.5)


def _filled(aside: dict[str, list[str]]) -> dict[str, list[str]]:
    return {why: columns for why, columns in aside.items() if columns}
