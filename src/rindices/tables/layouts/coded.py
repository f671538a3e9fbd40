"""Tables whose columns are codes or labels of structures: what they have in common."""

from collections.abc import Mapping
from functools import cache

import pandas as pd

from rindices.tables.layouts import freesurfer, read_data_rows
from rindices.tables.layouts.column_names import ICV_NAMES, find_column
from rindices.tables.layouts.layout import Layout, drop_empty_lists, list_columns

MIN_CODED_REGIONS = 5


@cache
def load_codes(name: str) -> dict[int, tuple[str, ...]]:
    """Return what each code of a data dictionary means.

    In ``adni_structures`` it is a FreeSurfer name, of a parcel without its measure; in
    ``ukb_fields`` an atlas and the name of a structure in it.
    """
    return {int(code): tuple(values) for code, *values in read_data_rows(name)}


def build_coded_layout(
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
    icv = next(iter(list_columns(kinds, "icv")), None)
    candidates = list_columns(kinds, "region")
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
        or find_column([column for column in columns if column not in used], ICV_NAMES),
        aside=drop_empty_lists(aside),
        participant_columns=tuple(column for column in columns if column not in used),
        measures={name: measures[column] for column, name in regions.items()},
        aside_names={
            column: name for column, name in names.items() if column not in regions
        },
    )
