"""Detect from the header which program wrote a table and what its columns are."""

from collections.abc import Callable, Collection

import pandas as pd

from rindices.tables.layouts.adni import detect_adni
from rindices.tables.layouts.atlas_labels import detect_labels
from rindices.tables.layouts.cortex_atlases import detect_cortex_atlas
from rindices.tables.layouts.freesurfer import detect_freesurfer
from rindices.tables.layouts.generic import detect_generic, detect_surrealgan
from rindices.tables.layouts.ggseg import detect_ggseg
from rindices.tables.layouts.layout import Layout
from rindices.tables.layouts.muse import detect_dlmuse
from rindices.tables.layouts.ukbiobank import detect_ukbiobank

DETECTORS: tuple[Callable[[list[str], pd.DataFrame], Layout | None], ...] = (
    detect_dlmuse,
    detect_ukbiobank,
    detect_adni,
    detect_cortex_atlas,
    detect_labels,
    detect_ggseg,
    detect_freesurfer,
    detect_surrealgan,
)
"""Detectors of the known layouts, of which the first that finds its own is used. Each
takes the columns that may be regions, and the table, whose values matter only where
names are ambiguous.
"""


def detect_layout(frame: pd.DataFrame, participant_columns: Collection[str]) -> Layout:
    """Detect the layout of a table.

    Parameters
    ----------
    frame : DataFrame
        The table.
    participant_columns : collection of str
        Columns that the user named as ID, session, group, site or covariate. They are
        not regions.
    """
    columns = [name for name in frame.columns if name not in participant_columns]
    for detect in DETECTORS:
        if (layout := detect(columns, frame)) is not None:
            return layout
    return detect_generic(columns, frame)
