"""Tables of other programs, whose numeric columns are regions."""

import re
from dataclasses import replace

import pandas as pd

from rindices.tables.layouts import freesurfer
from rindices.tables.layouts.column_names import (
    ICV_NAMES,
    find_column,
    has_participant_name,
    is_mostly_numeric,
    is_participant_column,
)
from rindices.tables.layouts.layout import Layout, list_columns
from rindices.tables.layouts.ukbiobank import NON_REGION_FIELDS, parse_field

_ADNI_NON_VOLUME_REGEX = re.compile(
    r"ST\d+(SA|TA|TS|HS)"
)  # area, thickness and its sd, hippocampal rest


def detect_surrealgan(columns: list[str], frame: pd.DataFrame) -> Layout | None:
    """Detect tables for the authors' package: participant_id, diagnosis (-1 and 1),
    regions.
    """
    if list(frame.columns[:2]) != ["participant_id", "diagnosis"]:
        return None
    labels = set(pd.to_numeric(frame["diagnosis"], errors="coerce").dropna().unique())
    if not labels or not labels <= {-1, 0, 1}:
        return None
    return replace(detect_generic(columns, frame), format="surrealgan")


def detect_generic(columns: list[str], frame: pd.DataFrame) -> Layout:
    """Take all numeric columns that are not about the people as regions."""
    icv = find_column(columns, ICV_NAMES)
    candidates = [
        column
        for column in columns
        if column != icv and not is_participant_column(column)
    ]
    numeric = [column for column in candidates if is_mostly_numeric(frame[column])]
    kinds = {
        column: _classify_generic_column(column, frame[column]) for column in numeric
    }
    regions = list_columns(kinds, "region")
    aside = {
        kind: list_columns(kinds, kind)
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
        if is_participant_column(column) and not has_participant_name(column)
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
    field = parse_field(column)
    if field and field.field in NON_REGION_FIELDS:
        return "not a region"
    if not pd.api.types.is_numeric_dtype(values) or len(values) < 30:
        return "region"
    distinct = values.dropna().unique()
    is_code = 1 < len(distinct) <= 10 and bool(
        (distinct == distinct.round()).all()
    )  # or a count
    return "few whole numbers" if is_code else "region"
