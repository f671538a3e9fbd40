"""Parcels of the Schaefer and Glasser (HCP-MMP1) atlases of the cortex.

Schaefer's atlases of 100, 200, 300 and more parcels share names: ``LH_Vis_1`` is
another parcel in each of them. So a region is named with its atlas,
``Schaefer200x7_LH_Vis_1``. Parcels of one name on both sides are not counterparts.
Glasser's are ``L_V1_ROI`` and ``R_V1_ROI``, which are.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from rindices.tables.layouts import freesurfer
from rindices.tables.layouts.column_names import ICV_NAMES, find_column
from rindices.tables.layouts.layout import Layout, drop_empty_lists, list_columns

SCHAEFER, GLASSER = "schaefer", "glasser"
_NETWORKS = {
    7: "Vis SomMot DorsAttn SalVentAttn Limbic Cont Default",
    17: (
        "VisCent VisPeri SomMotA SomMotB DorsAttnA DorsAttnB SalVentAttnA SalVentAttnB "
        "LimbicA LimbicB ContA ContB ContC DefaultA DefaultB DefaultC TempPar"
    ),
}
_MEASURE = r"(?:[_.](volume|thickness|thickavg|area|surfavg|grayvol))?"
_SIDE_FILE = r"(?:[lr]h[_.-])?"
_SCHAEFER_BY_NETWORKS = {
    number: re.compile(
        rf"{_SIDE_FILE}(?:{number}Networks_)?([LR]H)_({names.replace(' ', '|')})((?:_[A-Za-z]+)?_\d+){_MEASURE}"
    )
    for number, names in _NETWORKS.items()
}
_GLASSER_MARKED = re.compile(
    rf"{_SIDE_FILE}([LR])_([A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)?)_ROI{_MEASURE}"
)
_GLASSER_PLAIN = re.compile(
    rf"(L|R|Left|Right)_([A-Za-z0-9]+(?:-[A-Za-z0-9]+)?){_MEASURE}"
)
_GLASSER_SIGNATURE = {"V1", "MST", "p9-46v", "OP2-3", "STGa"}
"""Areas that together tell Glasser's atlas where names have no ending ``_ROI``."""
_WALL = re.compile(
    rf"{_SIDE_FILE}(\?\?\?|[LR]_\?\?\?|Background\+FreeSurfer_Defined_Medial_Wall){_MEASURE}"
)
_MIN_PARCELS = 10
_PARCELS_STEP, _MAX_PARCELS = 100, 1000  # of Schaefer's atlases
_OWN_NAME = re.compile(r"Schaefer\d+x(7|17)_([LR]H)_(.+)")
_THIN = (1.0, 6.0)  # mm, of the cortex


class AtlasColumns(NamedTuple):
    """Columns of a table that are of one atlas.

    Attributes
    ----------
    format : {'schaefer', 'glasser'}
    names : dict of str to str
        Region of each column.
    wall : list of str
        Columns of the medial wall, which is no cortex.
    """

    format: str
    names: dict[str, str]
    wall: list[str]


def name_atlas_parcels(columns: Sequence[str]) -> AtlasColumns | None:
    """Return the parcels among the columns of a table; None if they are of neither
    atlas.
    """
    wall = [column for column in columns if _WALL.fullmatch(column)]
    for number, pattern in _SCHAEFER_BY_NETWORKS.items():
        found = _match_all(pattern, columns)
        parcels = {match.group(1, 2, 3) for match in found.values()}
        # both sides have half of the parcels, and a table may have one side
        counts = [sum(side == each[0] for each in parcels) for side in ("LH", "RH")]
        if _MIN_PARCELS <= 2 * max(counts) <= _MAX_PARCELS:
            size = -(-2 * max(counts) // _PARCELS_STEP) * _PARCELS_STEP
            names = {
                column: f"Schaefer{size}x{number}_{match[1]}_{match[2]}{match[3]}{_name_measure(match[4])}"
                for column, match in found.items()
            }
            return AtlasColumns(SCHAEFER, names, wall)
    found = _match_all(_GLASSER_MARKED, columns)
    if len(found) < _MIN_PARCELS:
        found = _match_all(_GLASSER_PLAIN, columns)
        if not {match[2] for match in found.values()} >= _GLASSER_SIGNATURE:
            return None
    names = {
        column: f"{match[1][0]}_{match[2].replace('_', '-')}_ROI{_name_measure(match[3])}"
        for column, match in found.items()
    }
    return AtlasColumns(GLASSER, names, wall)


def _match_all(
    pattern: re.Pattern[str], columns: Sequence[str]
) -> dict[str, re.Match[str]]:
    """Return the columns that match, with their matches."""
    matches = {column: pattern.fullmatch(column) for column in columns}
    return {column: match for column, match in matches.items() if match is not None}


def _name_measure(measure: str | None) -> str:
    """Return the ending of a region for the measure of a column."""
    if measure is None:
        return ""
    same = {"thickavg": "thickness", "surfavg": "area", "grayvol": "volume"}
    return f"_{same.get(measure, measure)}"


def has_counterpart(region: str) -> bool:
    """Return whether a region of the same name on the other side measures the same."""
    return _OWN_NAME.fullmatch(region) is None


def list_parcel_spellings(region: str) -> list[str]:
    """Return the names that a region of Schaefer's atlas has in tables.

    Examples
    --------
    >>> list_parcel_spellings("Schaefer100x7_LH_Vis_1_thickness")[0]
    'lh_7Networks_LH_Vis_1_thickness'
    """
    if not (match := _OWN_NAME.fullmatch(region)):
        return []
    networks, side, rest = match.groups()
    bare = rest.rpartition("_")[0] if not rest[-1].isdigit() else rest
    long = f"{networks}Networks_{side}_{rest}"
    names = [f"{side.lower()}_{long}", long, f"{side}_{rest}"]
    return [*names, f"{networks}Networks_{side}_{bare}", f"{side}_{bare}"]


def detect_cortex_atlas(columns: list[str], frame: pd.DataFrame) -> Layout | None:
    """Detect parcels of Schaefer's or Glasser's atlas, and structures of FreeSurfer
    beside them.

    Parcels whose names do not tell the measure are thicknesses if they are of the size
    of thicknesses.
    """
    found = name_atlas_parcels(columns)
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
        for column in list_columns(kinds, "region")
        if not freesurfer.is_whole_cortex(column)
    }
    aside = {kind: list_columns(kinds, kind) for kind in freesurfer.UNUSED_KINDS}
    aside["no tissue"] += found.wall
    aside["composite"] += [
        column
        for column in list_columns(kinds, "region")
        if freesurfer.is_whole_cortex(column)
    ]
    return Layout(
        format=found.format,
        regions=names,
        icv=find_column(list_columns(kinds, "icv"), ICV_NAMES),
        aside=drop_empty_lists(aside),
        participant_columns=tuple(list_columns(kinds, None)),
        measures={name: freesurfer.infer_measure(name) for name in names.values()},
    )


def _is_thickness(values: pd.DataFrame) -> bool:
    """Return whether values are of the size of thicknesses of the cortex, in mm."""
    numbers = values.apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float)
    measured = numbers[np.isfinite(numbers)]
    return len(measured) > 0 and bool(_THIN[0] < np.median(measured) < _THIN[1])
