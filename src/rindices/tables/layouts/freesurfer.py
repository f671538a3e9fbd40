"""Names of structures in FreeSurfer, FastSurfer, SynthSeg and ENIGMA, their
classification, and folders of subjects.
"""

import re
from collections import Counter
from pathlib import Path

import pandas as pd

from rindices.errors import (
    Findings,
    ProblemCode,
    format_count,
    join_names,
)
from rindices.tables.layouts import NAMES
from rindices.tables.layouts.column_names import ICV_NAMES, find_column
from rindices.tables.layouts.layout import Layout, drop_empty_lists, list_columns

STATS_NAMES = NAMES["structures"]["stats"].split()
UNUSED_KINDS = ("ventricle", "composite", "no tissue")
"""Classes of columns that are not used as regions."""
_EARLIER_NAMES = {"Thalamus": "Thalamus-Proper"}
_PAIRED_STRUCTURES = NAMES["structures"]["paired"].split()
_TISSUE_NAMES = {
    "brain-stem",
    *(
        f"{side}-{name}".lower()
        for side in ("left", "right")
        for name in _PAIRED_STRUCTURES
    ),
}
_ENIGMA_NAMES = {
    f"{side}{name}"
    for side in "lr"
    for name in ("thal", "caud", "put", "pal", "hippo", "amyg", "accumb")
}
_VENTRICLE_REGEX = re.compile(
    r"((left|right)-)?(lateral-ventricle|inf-lat-vent|inferior-lateral-ventricle|[345](rd|th)-ventricle|csf"
    r"|choroid-plexus)|[lr]latvent|ventricles|ventriclechoroidvol"
)
_INCLUDABLE_VENTRICLE_REGEX = re.compile(
    r"((left|right)-)?(lateral-ventricle|inf-lat-vent|inferior-lateral-ventricle|[34](rd|th)-ventricle)"
    r"|[lr]latvent|ventricles"
)
_COMPOSITE_REGEX = re.compile(
    r"brainseg\w*(-to-etiv)?|[lr]?h?(cortex|cerebralwhitematter|corticalwhitematter)vol|subcortgrayvol|totalgrayvol"
    r"|supratentorial\w*|maskvol(-to-etiv)?|[lr]?h?surfaceholes|wholebrain|(total[-_])?brain[-_]?vol(ume)?(_\w+)?"
    r"|[lr]h_(meanthickness_thickness|whitesurfarea_area|totalvolume_volume)|[lr](full_?)?(thickness|surfarea)"
)
_BRAIN_VOLUME_REGEX = re.compile(
    r"supratentorialvol\w*|brainsegvol\w*|totalgrayvol|wholebrain"
)
_HEAD_SIZE_REGEX = re.compile(r"supratentorialvol|brainsegvol")
_NO_TISSUE_REGEX = re.compile(
    r"((left|right)-)?(vessel|(non-)?wm-hypointensities)|optic-chiasm|cc_\w+|wm-hypointensities"
)
_MAY_BE_ZERO_REGEX = re.compile(
    r"vessel|hypointensit|hyperintensit|\bwmh|lesion|5th-ventricle"
)
_PARCEL_REGEX = re.compile(r"(?:(?:wm-)?[lr]h[_-]|ctx-[lr]h-|[lr]_)[\w&.+-]+")
_MEASURE_REGEX = re.compile(
    r"_(volume|thickness|thicknessstd|thickavg|area|surfavg|meancurv|gauscurv|foldind|curvind)$"
)
_ETIV_REGEX = re.compile(r"#\s*Measure\s+[^,]*,\s*eTIV\s*,[^,]*,\s*([0-9.eE+-]+)\s*,")
_MIN_FREESURFER_REGIONS = 5


def normalise_structure_name(column: str) -> str:
    """Return a column name in lower case with hyphens for blanks, as FreeSurfer spells
    it.
    """
    return re.sub(r"\s+", "-", column.strip().lower())


def canonicalise_region_name(column: str) -> str:
    """Return the name that a region has in all versions of FreeSurfer."""
    for name, earlier in _EARLIER_NAMES.items():
        column = column.replace(earlier, name)
    return column


def list_region_spellings(region: str) -> list[str]:
    """Return the names that a region has in earlier versions of FreeSurfer; see
    `canonicalise_region_name`.
    """
    return [
        region.replace(name, earlier)
        for name, earlier in _EARLIER_NAMES.items()
        if name in region
    ]


def infer_measure(column: str) -> str:
    """Return what a cortical column measures: ``volume``, ``thickness`` or another
    FreeSurfer measure.
    """
    match = _MEASURE_REGEX.search(normalise_structure_name(column))
    if not match:
        return "volume"
    return (
        "thickness"
        if match[1] in {"thickness", "thickavg"}
        else "area"
        if match[1] == "surfavg"
        else match[1]
    )


def classify_column(column: str) -> str | None:
    """Return the class of a column: region, ventricle, composite, no tissue or icv;
    None for an unknown name.
    """
    name = normalise_structure_name(column)
    if name in {normalise_structure_name(icv) for icv in ICV_NAMES}:
        return "icv"
    for label, pattern in zip(
        UNUSED_KINDS,
        (_VENTRICLE_REGEX, _COMPOSITE_REGEX, _NO_TISSUE_REGEX),
        strict=True,
    ):
        if pattern.fullmatch(name):
            return label
    return (
        "region"
        if name in _TISSUE_NAMES or name in _ENIGMA_NAMES or is_parcel(column)
        else None
    )


def is_ventricle(column: str) -> bool:
    """Return whether a column is a ventricle that every brain has; CSF, plexus and the
    fifth ventricle are not.
    """
    return bool(_INCLUDABLE_VENTRICLE_REGEX.fullmatch(normalise_structure_name(column)))


def may_be_zero(column: str) -> bool:
    """Return whether a structure has no volume in many healthy people: lesions,
    vessels, the fifth ventricle.
    """
    return bool(_MAY_BE_ZERO_REGEX.search(normalise_structure_name(column)))


def is_brain_volume(column: str) -> bool:
    """Return whether a column is the volume of the brain, or of most of it, which every
    skull exceeds.
    """
    return bool(_BRAIN_VOLUME_REGEX.fullmatch(normalise_structure_name(column)))


def is_head_size(column: str) -> bool:
    """Return whether a brain volume of a table can stand for the size of the head."""
    return bool(_HEAD_SIZE_REGEX.fullmatch(normalise_structure_name(column)))


def is_parcel(column: str) -> bool:
    """Return whether a column is a parcel of the cortex."""
    name = normalise_structure_name(column)
    has_affix = bool(_MEASURE_REGEX.search(name)) or name.startswith(
        ("ctx-", "wm-lh-", "wm-rh-")
    )
    return has_affix and bool(_PARCEL_REGEX.fullmatch(name))


def is_whole_cortex(column: str) -> bool:
    """Return whether a column is the sum of all parcels of a hemisphere."""
    return normalise_structure_name(column) in {
        "left-cerebral-cortex",
        "right-cerebral-cortex",
    }


def read_subject_folders(folder: Path, findings: Findings) -> pd.DataFrame:
    """Read the stats file of each person in a folder of subjects.

    Returns ``participant_id``, one column per structure, and ``eTIV`` if the files have
    it. FastSurfer's MaskVol is not used as eTIV.
    """
    findings = findings.at(str(folder))
    people = sorted(folder.iterdir())
    candidates = {
        person.name: [person / "stats" / name for name in STATS_NAMES]
        for person in people
    }
    files = {
        name: path
        for name, paths in candidates.items()
        if (path := next(filter(Path.is_file, paths), None))
    }
    if not files:
        what = "there is no table (.parquet) and no subject folder with stats/aseg+DKT.stats"
        cure = "Give a folder of parquet files, or the one that holds one folder per person (SUBJECTS_DIR)"
        findings.fatal(ProblemCode.NO_SUBJECT_FOLDERS, what, cure)
    _report_stats_files(files, findings)
    rows = {name: _add_etiv(_read_stats(path), path) for name, path in files.items()}
    broken = [name for name, row in rows.items() if not row]
    if broken:
        what = f"{format_count(len(broken), 'stats file is', 'stats files are')} empty or cut"
        cure = "Run the segmentation of these people again or move their folders away"
        findings.error(ProblemCode.EMPTY_STATS_FILES, what, cure, offenders=broken)
    frame = pd.DataFrame(
        [{"participant_id": name, **row} for name, row in rows.items() if row]
    )
    if frame.empty:
        findings.fatal(
            ProblemCode.NO_ROWS,
            "no stats file holds a volume",
            "Run the segmentation again",
        )
    return frame


def _report_stats_files(files: dict[str, Path], findings: Findings) -> None:
    """Say which of the stats files was read, and which people have another one than
    most.
    """
    counts = Counter(path.name for path in files.values())
    usual = counts.most_common(1)[0][0]
    others = sorted(
        {path.name for file in files.values() for path in file.parent.glob("*.stats")}
        - set(counts)
    )
    what = f"stats/{usual} is read" + (f", not {join_names(others)}" if others else "")
    findings.note(ProblemCode.STATS_FILE_CHOSEN, what)
    if len(counts) > 1:
        different = [name for name, path in files.items() if path.name != usual]
        listing = ", ".join(
            f"{file} of {format_count(number, 'person', 'people')}"
            for file, number in counts.items()
        )
        what, cure = (
            "people have different stats files",
            f"Make stats/{usual} for all, or move their folders away",
        )
        findings.warn(
            ProblemCode.STATS_FILE_CHOSEN,
            what,
            cure,
            offenders=different,
            listing=listing,
        )


def _add_etiv(row: dict[str, float], path: Path) -> dict[str, float]:
    """Add eTIV from ``aseg.stats`` in the same folder if the file itself has none."""
    aseg = path.with_name("aseg.stats")
    if not row or "eTIV" in row or not aseg.is_file():
        return row
    etiv = _read_stats(aseg).get("eTIV")
    return row if etiv is None else row | {"eTIV": etiv}


def _read_stats(path: Path) -> dict[str, float]:
    """Return the volumes of a person by structure: the 4th column is the volume, the
    5th the name.

    Nothing is returned where a line has fewer columns than the header: the file is cut.
    """
    row: dict[str, float] = {}
    width = 5
    for line in path.read_text("utf-8", errors="replace").splitlines():
        match = _ETIV_REGEX.match(line)
        if match:
            row["eTIV"] = float(pd.to_numeric(match[1], errors="coerce"))
        fields = line.split()
        if fields[:2] == ["#", "ColHeaders"]:
            width = len(fields) - 2
        elif fields and not line.startswith("#"):
            if len(fields) < width:
                return {}
            row[fields[4]] = float(pd.to_numeric(fields[3], errors="coerce"))
    return row


def detect_freesurfer(columns: list[str], frame: pd.DataFrame) -> Layout | None:
    """Detect tables of FreeSurfer, SynthSeg and ENIGMA; the name of the first column of
    the file tells the program and the measure.
    """
    first = str(frame.columns[0]).lower()
    kinds = {column: classify_column(column) for column in columns}
    regions = [column for column, kind in kinds.items() if kind == "region"]
    if len(regions) < _MIN_FREESURFER_REGIONS:
        return None
    if any(is_parcel(column) for column in regions):
        kinds |= {column: "composite" for column in regions if is_whole_cortex(column)}
        regions = list_columns(kinds, "region")
    aside = {kind: list_columns(kinds, kind) for kind in UNUSED_KINDS}
    icv = find_column(list_columns(kinds, "icv"), ICV_NAMES)
    others = tuple(list_columns(kinds, None))
    names = {column: canonicalise_region_name(column) for column in regions}
    measures = {names[column]: infer_measure(column) for column in regions}
    if (
        first.startswith("measure:") and first != "measure:volume"
    ):  # holds for all columns of an aseg table
        measures = dict.fromkeys(measures, first.removeprefix("measure:"))
    format_name = _detect_freesurfer_format(columns, first)
    return Layout(
        format=format_name,
        regions=names,
        icv=icv,
        aside=drop_empty_lists(aside),
        participant_columns=others,
        measures=measures,
    )


def _detect_freesurfer_format(columns: list[str], first: str) -> str:
    if first.startswith("measure:"):
        return "aseg"
    if first.startswith(("lh.", "rh.")):
        return "aparc"
    lower = {column.lower() for column in columns}
    if "total intracranial" in lower or "left cerebral white matter" in lower:
        return "synthseg"
    if {"llatvent", "lhippo"} & lower or any(
        column.endswith(("_thickavg", "_surfavg")) for column in lower
    ):
        return "enigma"
    return "freesurfer"
