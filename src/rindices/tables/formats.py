"""Which program wrote a table, and what each of its columns is: told from the header."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from rindices.tables import freesurfer, muse

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
SESSION_NAMES = ("session_id", "session", "ses", "visit", "viscode", "timepoint", "time_point")
GROUP_NAMES = ("group", "diagnosis", "dx", "diag", "dx_group", "clinical_group")
SITE_NAMES = ("site", "scanner", "site_id", "scanner_id", "center", "centre", "study")
AGE_SEX_NAMES = ("age", "sex", "gender", "age_at_scan", "age_years")
_PEOPLE_NAMES = {*ID_NAMES, *SESSION_NAMES, *GROUP_NAMES, *SITE_NAMES, *AGE_SEX_NAMES, *_OTHER_TEXT.split()}
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
    by_key = {_key(column): column for column in reversed(list(columns))}
    return next((by_key[_key(name)] for name in names if _key(name) in by_key), None)


def _key(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalnum())


_PEOPLE_KEYS = {_key(name) for name in _PEOPLE_NAMES}
_ICV_KEYS = {_key(name) for name in freesurfer.ICV_NAMES}


def _is_about_people(column: str) -> bool:
    return _key(column) in _PEOPLE_KEYS


def _dlmuse(columns: list[str]) -> Layout | None:
    codes = muse.codes_in(columns)
    singles = muse.single_regions()
    known = {column: code for column, code in codes.items() if code in singles}
    numbered = [column for column in columns if column.isdigit()]
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
    measures = {column: freesurfer.measure(column) for column in regions}
    name = _freesurfer_format(columns, first)
    return Layout(name, {column: column for column in regions}, icv, _filled(aside), others, measures)


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
    regions = [c for c in columns if c != icv and not _is_about_people(c) and mostly_numbers(frame[c])]
    others = tuple(column for column in columns if column not in regions and column != icv)
    measures = {column: freesurfer.measure(column) for column in regions}
    return Layout("table", {column: column for column in regions}, icv, {}, others, measures)


def mostly_numbers(values: pd.Series) -> bool:
    """Return whether a column is meant as numbers: text in a few cells is a fault, in most it is a label."""
    if pd.api.types.is_bool_dtype(values) or isinstance(values.dtype, pd.CategoricalDtype):
        return False
    if pd.api.types.is_numeric_dtype(values):
        return True
    filled = values.dropna()
    return bool(pd.to_numeric(filled.astype("object"), errors="coerce").notna().mean() >= 0.5) if len(filled) else True


def _filled(aside: dict[str, list[str]]) -> dict[str, list[str]]:
    return {why: columns for why, columns in aside.items() if columns}
