"""Detect from the header which program wrote a table and what its columns are, and
choose the regions among them.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from rindices.errors import (
    Findings,
    OffenderKind,
    ProblemCode,
    format_count,
    join_names,
)
from rindices.tables.layouts import (
    NAMES,
    coded_names,
    cortex_atlases,
    freesurfer,
    muse,
)
from rindices.tables.sources.frames import normalise_column_name

ID_NAMES, SESSION_NAMES, GROUP_NAMES, SITE_NAMES, AGE_NAMES, SEX_NAMES = (
    tuple(NAMES["columns"][kind].split())
    for kind in ("id", "session", "group", "site", "age", "sex")
)
AGE_SEX_NAMES = (*AGE_NAMES, *SEX_NAMES)
_VARIABLE_NAMES, _PARTICIPANT_WORDS = (
    set(NAMES["columns"][kind].split()) for kind in ("variables", "words")
)
_PARTICIPANT_NAMES = {
    normalise_column_name(name)
    for names in (
        ID_NAMES,
        SESSION_NAMES,
        GROUP_NAMES,
        SITE_NAMES,
        AGE_SEX_NAMES,
        _VARIABLE_NAMES,
    )
    for name in names
}
_ADNI_NON_VOLUME_REGEX = re.compile(
    r"ST\d+(SA|TA|TS|HS)"
)  # area, thickness and its sd, hippocampal rest
_FORMATTED_NUMBER_REGEX = re.compile(
    r"(?!\d{1,2}\.\d{1,2}\.\d{4}$)-?\d[\d.,' ]*"
)  # no date such as 31.03.2021
_UKB_PARTICIPANT_FIELDS = {
    31,
    34,
    52,
    53,
    54,
    21003,
    21022,
}  # sex, birth, date and centre of visits, age
_UKB_NON_REGION_FIELDS = {
    *_UKB_PARTICIPANT_FIELDS,
    *range(25000, 25011),
    *range(25756, 25760),
}
_MIN_MUSE_REGIONS = 10
_MIN_FREESURFER_REGIONS = 5
_MIN_CODED_REGIONS = 5
_THIN = (1.0, 6.0)  # mm, of the cortex
VENTRICLES = "ventricles"
"""Word for all ventricles of a table in the option ``include``."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What the columns of a table are.

    Attributes
    ----------
    format : str
        ``dlmuse``, ``aseg``, ``aparc``, ``freesurfer``, ``synthseg``, ``fastsurfer``,
        ``enigma``, ``ukbiobank``, ``adni``, ``neuromorphometrics``, ``cat12``,
        ``ants``, ``ggseg``, ``schaefer``, ``glasser``, ``surrealgan`` or ``table``.
    regions : mapping
        Region of the cohort by column of the file.
    icv : str or None
        Column of the intracranial volume.
    aside : mapping
        Columns that are not used, by reason: ``ventricle``, ``composite``, ``no
        tissue`` and others.
    participant_columns : tuple of str
        Columns about the people: covariates, labels and others.
    measures : mapping
        What each region measures: ``volume``, ``thickness`` or ``area``.
    aside_names : mapping
        Region of each column in ``aside`` whose name is a code.
    doubtful : tuple of str
        Numeric columns of an unknown table that belong to ``participant_columns`` only
        because of a word in their name.
    """

    format: str
    regions: Mapping[str, str]
    icv: str | None = None
    aside: Mapping[str, list[str]] = field(default_factory=dict)
    participant_columns: tuple[str, ...] = ()
    measures: Mapping[str, str] = field(default_factory=dict)
    aside_names: Mapping[str, str] = field(default_factory=dict)
    doubtful: tuple[str, ...] = ()

    def measure_of(self, region: str) -> str:
        """Return what a region measures; names that say nothing are volumes."""
        return self.measures.get(region, "volume")

    @property
    def zero_is_missing(self) -> bool:
        """Whether a zero means that the program did not segment the region, as in
        FreeSurfer.
        """
        return self.format in {
            "aseg",
            "aparc",
            "freesurfer",
            "fastsurfer",
            "enigma",
            "ukbiobank",
            "adni",
            "schaefer",
            "glasser",
        }


def detect_layout(frame: pd.DataFrame, participant_columns: Collection[str]) -> Layout:
    """Detect the layout of a table.

    frame: its values matter only for unknown layouts; participant_columns: columns that
    the user named as id, session, group, site or covariate: they are not regions.
    """
    columns = [name for name in frame.columns if name not in participant_columns]
    first = str(frame.columns[0]).lower()
    return (
        _detect_dlmuse(columns)
        or _detect_ukbiobank(columns, frame)
        or _detect_adni(columns, frame)
        or _detect_cortex_atlas(columns, frame)
        or _detect_labels(columns, frame)
        or _detect_ggseg(columns, frame)
        or _detect_freesurfer(columns, first)
        or _detect_surrealgan(columns, frame)
        or _detect_generic(columns, frame)
    )


def find_column(columns: Collection[str], names: Collection[str]) -> str | None:
    """Return the column with the first of ``names`` that there is, regardless of case
    and punctuation.
    """
    by_key = {
        normalise_column_name(column): column for column in reversed(list(columns))
    }
    return next(
        (
            by_key[normalise_column_name(name)]
            for name in names
            if normalise_column_name(name) in by_key
        ),
        None,
    )


def is_positive_covariate(column: str) -> bool:
    """Return whether a column holds ages or head sizes, which are not 0."""
    return find_column([column], (*AGE_NAMES, *freesurfer.ICV_NAMES)) is not None


def _is_participant_column(column: str) -> bool:
    """Return whether a column name, or a word in it, is about a person and not about a
    region.
    """
    words = re.findall(
        r"[a-z]+|\d+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column).lower()
    )
    return _has_participant_name(column) or any(
        word in _PARTICIPANT_WORDS for word in words
    )


def _has_participant_name(column: str) -> bool:
    return normalise_column_name(column) in _PARTICIPANT_NAMES


def _detect_dlmuse(columns: list[str]) -> Layout | None:
    codes = muse.parse_muse_codes(columns)
    singles = muse.single_regions()
    single = {
        column: singles[code] for column, code in codes.items() if code in singles
    }
    numbered = [column for column in columns if muse.has_code_number(column)]
    share_coded = sum(column in codes for column in numbered) / max(1, len(numbered))
    is_marked = any(
        "muse" in column.lower() or codes.get(column) == muse.ICV_CODE
        for column in numbered
    )
    is_small_table = (
        share_coded == 1
        and single
        and (is_marked or len(numbered) >= _MIN_CODED_REGIONS)
    )
    if not is_small_table and (len(single) < _MIN_MUSE_REGIONS or share_coded < 0.9):
        return None
    regions = {
        column: region.name
        for column, region in single.items()
        if not region.is_ventricle
    }
    aside = {
        "ventricle": [
            column for column, region in single.items() if region.is_ventricle
        ],
        "composite": [
            column
            for column, code in codes.items()
            if code not in singles and code != muse.ICV_CODE
        ],
    }
    icv = next(
        (column for column, code in codes.items() if code == muse.ICV_CODE), None
    )
    others = tuple(column for column in columns if column not in codes)
    icv = icv or find_column(others, freesurfer.ICV_NAMES)
    return Layout(
        format="dlmuse",
        regions=regions,
        icv=icv,
        aside=_drop_empty_lists(aside),
        participant_columns=others,
        measures=dict.fromkeys(regions.values(), "volume"),
    )


def _detect_freesurfer(columns: list[str], first: str) -> Layout | None:
    kinds = {column: freesurfer.classify_column(column) for column in columns}
    regions = [column for column, kind in kinds.items() if kind == "region"]
    if len(regions) < _MIN_FREESURFER_REGIONS:
        return None
    if any(freesurfer.is_parcel(column) for column in regions):
        kinds |= {
            column: "composite"
            for column in regions
            if freesurfer.is_whole_cortex(column)
        }
        regions = _select_columns(kinds, "region")
    aside = {kind: _select_columns(kinds, kind) for kind in freesurfer.UNUSED_KINDS}
    icv = find_column(_select_columns(kinds, "icv"), freesurfer.ICV_NAMES)
    others = tuple(_select_columns(kinds, None))
    names = {column: freesurfer.canonicalise_region_name(column) for column in regions}
    measures = {names[column]: freesurfer.infer_measure(column) for column in regions}
    if (
        first.startswith("measure:") and first != "measure:volume"
    ):  # holds for all columns of an aseg table
        measures = dict.fromkeys(measures, first.removeprefix("measure:"))
    format_name = _detect_freesurfer_format(columns, first)
    return Layout(
        format=format_name,
        regions=names,
        icv=icv,
        aside=_drop_empty_lists(aside),
        participant_columns=others,
        measures=measures,
    )


def _detect_ukbiobank(columns: list[str], frame: pd.DataFrame) -> Layout | None:
    """Detect tables of UK Biobank fields; without any structure of the brain, all
    fields are set aside.
    """
    fields = {
        column: parsed
        for column in columns
        if (parsed := coded_names.parse_field(column))
    }
    names, aside = coded_names.name_field_structures(fields)
    is_all_fields = len(fields) >= max(_MIN_CODED_REGIONS, len(columns) / 2)
    if len(names) < _MIN_CODED_REGIONS and not is_all_fields:
        return None
    numeric = [
        column
        for column in aside.get(coded_names.OTHER_FIELD, [])
        if is_mostly_numeric(frame[column])
    ]
    people = [
        column for column in numeric if fields[column].field in _UKB_PARTICIPANT_FIELDS
    ]
    aside[coded_names.OTHER_FIELD] = [
        column for column in numeric if column not in people
    ]
    return _build_coded_layout("ukbiobank", names, aside, columns, frame)


def _detect_adni(columns: list[str], frame: pd.DataFrame) -> Layout | None:
    names, aside = coded_names.name_adni_structures(columns)
    return (
        None
        if len(names) < _MIN_CODED_REGIONS
        else _build_coded_layout("adni", names, aside, columns, frame)
    )


def _detect_labels(columns: list[str], frame: pd.DataFrame) -> Layout | None:
    program, names, aside = coded_names.name_labels(columns)
    format_name = "neuromorphometrics" if program == "spm" else program
    return (
        _build_coded_layout(format_name, names, aside, columns, frame)
        if program
        else None
    )


def _detect_ggseg(columns: list[str], frame: pd.DataFrame) -> Layout | None:
    names, without_cortex = coded_names.name_parcels(columns)
    n_parcels = sum(name.startswith(("lh_", "rh_")) for name in names.values())
    if n_parcels < _MIN_CODED_REGIONS:
        return None
    others = [
        column
        for column in columns
        if column not in names and freesurfer.classify_column(column)
    ]
    names |= {column: freesurfer.canonicalise_region_name(column) for column in others}
    known = {*names, *without_cortex}
    unknown = coded_names.find_pairs(name for name in columns if name not in known)
    if any(is_mostly_numeric(frame[column]) for column in unknown):
        return None  # another atlas, which shares some names with this one
    return _build_coded_layout(
        "ggseg", names, {"no tissue": without_cortex}, columns, frame
    )


def _detect_cortex_atlas(columns: list[str], frame: pd.DataFrame) -> Layout | None:
    """Detect parcels of Schaefer's or Glasser's atlas, and structures of FreeSurfer
    beside them.

    Parcels whose names do not tell the measure are thicknesses if they are of the size
    of thicknesses.
    """
    found = cortex_atlases.name_atlas_parcels(columns)
    if found is None:
        return None
    kinds = {
        column: freesurfer.classify_column(column)
        for column in columns
        if column not in found.names and column not in found.wall
    }
    silent = [
        column
        for column, name in found.names.items()
        if freesurfer.infer_measure(name) == "volume" and not name.endswith("_volume")
    ]
    is_thin = bool(silent) and len(frame) > 0 and _is_thickness(frame[silent])
    ending = "_thickness" if is_thin else ""
    names = {
        column: f"{name}{ending}" if column in silent else name
        for column, name in found.names.items()
    }
    names |= {
        column: freesurfer.canonicalise_region_name(column)
        for column in _select_columns(kinds, "region")
        if not freesurfer.is_whole_cortex(column)
    }
    aside = {kind: _select_columns(kinds, kind) for kind in freesurfer.UNUSED_KINDS}
    aside["no tissue"] += found.wall
    aside["composite"] += [
        column
        for column in _select_columns(kinds, "region")
        if freesurfer.is_whole_cortex(column)
    ]
    return Layout(
        format=found.format,
        regions=names,
        icv=find_column(_select_columns(kinds, "icv"), freesurfer.ICV_NAMES),
        aside=_drop_empty_lists(aside),
        participant_columns=tuple(_select_columns(kinds, None)),
        measures={name: freesurfer.infer_measure(name) for name in names.values()},
    )


def _is_thickness(values: pd.DataFrame) -> bool:
    """Return whether values are of the size of thicknesses of the cortex, in mm."""
    numbers = values.apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float)
    measured = numbers[np.isfinite(numbers)]
    return len(measured) > 0 and bool(_THIN[0] < np.median(measured) < _THIN[1])


def _build_coded_layout(
    format_name: str,
    names: Mapping[str, str],
    aside: dict[str, list[str]],
    columns: list[str],
    frame: pd.DataFrame,
) -> Layout:
    """Return the layout of a table whose columns are codes or labels of structures with
    the given names.

    Where a table has volumes, thickness and area are set aside, to be used on request.
    Columns without any value, which these tables have for structures that a version of
    the program does not segment, are not used.
    """
    kinds = {
        column: freesurfer.classify_column(name) or "region"
        for column, name in names.items()
    }
    kinds |= {
        column: "composite"
        for column, name in names.items()
        if freesurfer.is_whole_cortex(name)
    }
    kinds |= {column: "empty" for column in names if frame[column].isna().all()}
    icv = next(iter(_select_columns(kinds, "icv")), None)
    candidates = _select_columns(kinds, "region")
    measures = {
        column: freesurfer.infer_measure(names[column]) for column in candidates
    }
    has_volumes = "volume" in measures.values()
    regions = {
        column: names[column]
        for column in candidates
        if not has_volumes or measures[column] == "volume"
    }
    for column, kind in kinds.items():
        if column not in regions and column != icv:
            aside.setdefault(measures.get(column, kind), []).append(column)
    used = {*names, *(column for unused in aside.values() for column in unused)}
    return Layout(
        format=format_name,
        regions=regions,
        icv=icv
        or find_column(
            [column for column in columns if column not in used], freesurfer.ICV_NAMES
        ),
        aside=_drop_empty_lists(aside),
        participant_columns=tuple(column for column in columns if column not in used),
        measures={name: measures[column] for column, name in regions.items()},
        aside_names={
            column: name for column, name in names.items() if column not in regions
        },
    )


def _select_columns(kinds: Mapping[str, str | None], kind: str | None) -> list[str]:
    return [column for column, column_kind in kinds.items() if column_kind == kind]


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


def _detect_surrealgan(columns: list[str], frame: pd.DataFrame) -> Layout | None:
    """Detect tables for the authors' package: participant_id, diagnosis (-1 and 1),
    regions.
    """
    if list(frame.columns[:2]) != ["participant_id", "diagnosis"]:
        return None
    labels = set(pd.to_numeric(frame["diagnosis"], errors="coerce").dropna().unique())
    if not labels or not labels <= {-1, 0, 1}:
        return None
    return replace(_detect_generic(columns, frame), format="surrealgan")


def _detect_generic(columns: list[str], frame: pd.DataFrame) -> Layout:
    """Take all numeric columns that are not about the people as regions."""
    icv = find_column(columns, freesurfer.ICV_NAMES)
    candidates = [
        column
        for column in columns
        if column != icv and not _is_participant_column(column)
    ]
    numeric = [column for column in candidates if is_mostly_numeric(frame[column])]
    kinds = {
        column: _classify_generic_column(column, frame[column]) for column in numeric
    }
    regions = _select_columns(kinds, "region")
    aside = {
        kind: _select_columns(kinds, kind)
        for kind in dict.fromkeys(kinds.values())
        if kind != "region"
    }
    others = tuple(
        column for column in columns if column not in regions and column != icv
    )
    measures = {column: freesurfer.infer_measure(column) for column in regions}
    doubtful = [
        column
        for column in others
        if _is_participant_column(column) and not _has_participant_name(column)
    ]
    doubtful = [column for column in doubtful if is_mostly_numeric(frame[column])]
    names = {column: column for column in regions}
    return Layout(
        format="table",
        regions=names,
        icv=icv,
        aside=aside,
        participant_columns=others,
        measures=measures,
        doubtful=tuple(doubtful),
    )


def _classify_generic_column(column: str, values: pd.Series) -> str:
    """Return ``region``, or the reason why a numeric column of an unknown table is not
    a region.
    """
    kind = freesurfer.classify_column(column)
    if kind in freesurfer.UNUSED_KINDS:
        return kind
    if _ADNI_NON_VOLUME_REGEX.fullmatch(column):
        return "not a volume"
    field = coded_names.parse_field(column)
    if field and field.field in _UKB_NON_REGION_FIELDS:
        return "not a region"
    if not pd.api.types.is_numeric_dtype(values) or len(values) < 30:
        return "region"
    distinct = values.dropna().unique()
    is_code = 1 < len(distinct) <= 10 and bool(
        (distinct == distinct.round()).all()
    )  # or a count
    return "few whole numbers" if is_code else "region"


def is_mostly_numeric(values: pd.Series) -> bool:
    """Return whether a column holds numbers: text in a few cells is an error, text in
    most cells is a label.
    """
    if pd.api.types.is_bool_dtype(values) or isinstance(
        values.dtype, pd.CategoricalDtype
    ):
        return False
    if pd.api.types.is_numeric_dtype(values):
        return True
    filled = values.dropna().astype("object")
    if not len(filled):
        return True
    numbers = pd.to_numeric(filled, errors="coerce").notna()
    # 1.234,5 and 1,234.5 are meant as numbers, though they cannot be parsed
    marked = filled.map(
        lambda cell: bool(_FORMATTED_NUMBER_REGEX.fullmatch(str(cell).strip()))
    )
    return bool((numbers | marked).mean() >= 0.5)


def _drop_empty_lists(aside: dict[str, list[str]]) -> dict[str, list[str]]:
    return {kind: columns for kind, columns in aside.items() if columns}


def _set_doubtful_aside(layout: Layout) -> Layout:
    """Return a layout whose numbers with names about people, such as total or tau, may
    be included.
    """
    others = tuple(
        name for name in layout.participant_columns if name not in layout.doubtful
    )
    aside = {**layout.aside, "about people": list(layout.doubtful)}
    return replace(layout, aside=aside, participant_columns=others)


def _find_all_included(
    include: Sequence[str],
    layout: Layout,
    names: Mapping[str, str],
    findings: Findings,
) -> list[str]:
    """Return the columns that the user includes by these names; ``names``: of columns
    that are left out otherwise.
    """
    used = {word.lower() for item in layout.regions.items() for word in item}
    found = list[str]()
    for name in include:
        columns = _find_included_columns(name, layout, names)
        if name.lower() in used:
            continue
        if not columns and name.lower() != VENTRICLES:
            what = f"there is no column '{name}' to include"
            choices = [VENTRICLES, *names]
            findings.misspelt(ProblemCode.UNKNOWN_REGION, what, name, choices)
        elif not columns:
            what = "there is no column of ventricles to include"
            cure = "Leave --include out, or name a column"
            findings.error(ProblemCode.UNKNOWN_REGION, what, cure, subject=name)
        found += columns
    return found


def select_columns(
    layout: Layout,
    include: Sequence[str],
    measure: str | None,
    model_regions: Collection[str],
    findings: Findings,
) -> Layout:
    """Return a layout with the selected regions.

    Parameters
    ----------
    layout : Layout
        Layout as detected from the header.
    include : sequence of str
        ``ventricles``, or names of single columns that are left out otherwise.
    measure : str or None
        ``volume``, ``thickness`` or ``area`` to use only columns of this kind. None or
        ``any`` for all.
    model_regions : collection of str
        Regions of the model that the table is read for. They are read even where they
        are left out otherwise.
    findings : Findings
        Collects errors about unknown names and, for training, a note about what is not
        used.
    """
    # An imported model may name its regions as the columns of its table, such as
    # 26562-2.0.
    kept = {
        c: c
        for c, region in layout.regions.items()
        if c in model_regions and region not in model_regions
    }
    layout = replace(layout, regions={**layout.regions, **kept})
    if holds_features(layout, measure) and layout.doubtful:
        layout = _set_doubtful_aside(layout)
    unused = [column for columns in layout.aside.values() for column in columns]
    names = {column: layout.aside_names.get(column, column) for column in unused}
    if layout.format == "dlmuse":
        names |= {
            column: muse.region_name(code)
            for column, code in muse.parse_muse_codes(unused).items()
        }
    wanted = [column for column, region in names.items() if region in model_regions]
    wanted += _find_all_included(include, layout, names, findings)
    wanted += _find_requested_columns(layout, measure)
    layout = _move_to_regions(layout, {column: names[column] for column in wanted})
    layout = _filter_measure(layout, measure)
    if model_regions:
        kinds = {
            layout.measure_of(region)
            for region in layout.regions.values()
            if region in model_regions
        }
        return _filter_measure(layout, kinds.pop()) if len(kinds) == 1 else layout
    _note_unused_columns(layout, findings)
    return layout


def holds_features(layout: Layout, measure: str | None) -> bool:
    """Return whether a table is read as features of any kind: the user says so, and no
    layout of regions is known.
    """
    is_unknown = layout.format in ("table", "surrealgan")
    has_fields = layout.format == "ukbiobank" and all(
        column == region for column, region in layout.regions.items()
    )
    return measure == "any" and (is_unknown or has_fields)


def _find_requested_columns(layout: Layout, measure: str | None) -> list[str]:
    """Return the unused columns that measure what is requested; all fields of a table
    that has no other regions.
    """
    kinds = [kind for kind in ("thickness", "area") if measure in (kind, "any")]
    columns = [column for kind in kinds for column in layout.aside.get(kind, [])]
    if measure == "any" and not layout.regions:
        columns += layout.aside.get(coded_names.OTHER_FIELD, [])
    if holds_features(layout, measure):  # names of structures mean nothing there
        columns += [
            column
            for kind in freesurfer.UNUSED_KINDS
            for column in layout.aside.get(kind, [])
        ]
    return columns


def _find_included_columns(
    name: str, layout: Layout, names: Mapping[str, str]
) -> list[str]:
    """Return the unused columns that a word of the option means."""
    if name.lower() == VENTRICLES:
        columns = {
            column: layout.aside_names.get(column, column)
            for column in layout.aside.get("ventricle", [])
        }
        is_muse = layout.format == "dlmuse"
        return [
            column
            for column, region in columns.items()
            if is_muse or freesurfer.is_ventricle(region)
        ]
    return [
        column
        for column, region in names.items()
        if name.lower() in list_spellings(column, region)
    ]


def list_spellings(column: str, region: str) -> set[str]:
    """Return the words by which a user may name a region, in lower case: its column,
    its name or its MUSE label.
    """
    return {column.lower(), region.lower(), muse.region_label(region).lower()}


def _move_to_regions(layout: Layout, columns: Mapping[str, str]) -> Layout:
    if not columns:
        return layout
    measures = {region: freesurfer.infer_measure(region) for region in columns.values()}
    remaining = {
        why: [name for name in names if name not in columns]
        for why, names in layout.aside.items()
    }
    return replace(
        layout,
        regions={**layout.regions, **columns},
        aside={why: names for why, names in remaining.items() if names},
        participant_columns=tuple(
            name for name in layout.participant_columns if name not in columns
        ),
        measures={**layout.measures, **measures},
    )


def _filter_measure(layout: Layout, measure: str | None) -> Layout:
    """Set regions of other measures aside; a table without the measure is left to the
    checks of its values.
    """
    kinds = {
        column: layout.measure_of(region) for column, region in layout.regions.items()
    }
    if measure not in kinds.values():
        return layout
    aside = dict(layout.aside)
    for column, kind in kinds.items():
        if kind != measure:
            aside[kind] = [*aside.get(kind, []), column]
    regions = {
        column: region
        for column, region in layout.regions.items()
        if kinds[column] == measure
    }
    return replace(layout, regions=regions, aside=aside)


def _note_unused_columns(layout: Layout, findings: Findings) -> None:
    """Say which columns are not used and why, and how ventricles are included."""
    if not layout.aside:
        return
    columns = [column for names in layout.aside.values() for column in names]
    reasons = {
        why: NAMES["reasons"].get(why, f"of another kind ({why})")
        for why in layout.aside
    }
    listing = "; ".join(
        f"{len(names):,} {reasons[why]}: {join_names(names, 3)}"
        for why, names in layout.aside.items()
    )
    has_ventricles = bool(_find_included_columns(VENTRICLES, layout, {}))
    what = f"{format_count(len(columns), 'column is', 'columns are')} not used"
    cure = "To use the ventricles: --include ventricles" if has_ventricles else ""
    kind = OffenderKind.COLUMN
    findings.note(
        ProblemCode.COLUMNS_NOT_USED,
        what,
        cure,
        offenders=columns,
        offender_kind=kind,
        listing=listing,
    )
