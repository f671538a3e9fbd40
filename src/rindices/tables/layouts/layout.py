"""What the columns of a table are."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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


def list_columns(kinds: Mapping[str, str | None], kind: str | None) -> list[str]:
    """Return the columns of a kind."""
    return [column for column, column_kind in kinds.items() if column_kind == kind]


def drop_empty_lists(aside: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the reasons for which there are columns that are not used."""
    return {kind: columns for kind, columns in aside.items() if columns}
