"""Columns of a table that a model computed its R-indices from: associations with them
are no findings.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import pandas as pd

from rindices.errors import (
    Problem,
    ProblemCode,
    Severity,
    StudyError,
    format_count,
    join_names,
)
from rindices.json_files import read_json
from rindices.model.fitted import FittedModel, load
from rindices.model.records import CohortRecord
from rindices.tables.cohort import SITE
from rindices.tables.layouts.column_names import ICV_NAMES, SITE_NAMES, find_column
from rindices.tables.layouts.cortex_atlases import GLASSER, SCHAEFER
from rindices.tables.layouts.detect import detect_layout
from rindices.tables.layouts.freesurfer import canonicalise_region_name
from rindices.tables.layouts.muse import parse_muse_codes, region_label, region_name
from rindices.tables.sources.frames import normalise_column_name
from rindices.wording import FEATURE_UNIT, get_nouns

MODEL_FILE = "model.safetensors"


@dataclass(frozen=True, kw_only=True)
class ModelInputs:
    """What the R-indices of a model are computed from.

    Attributes
    ----------
    regions : tuple of str
        Names of the regions, and of the columns that some of them are sums of.
    covariates : tuple of str
        What the regions were adjusted for, ``site`` among them.
    n_patterns : int
        Number of R-indices.
    unit : str
        Unit of the regions.
    """

    regions: tuple[str, ...]
    covariates: tuple[str, ...]
    n_patterns: int
    unit: str = ""

    @classmethod
    def of(cls, model: FittedModel) -> Self:
        """Return the inputs of a model."""
        parts = [part for columns in model.sums.values() for part in columns]
        sites = () if model.preprocessing.harmoniser is None else (SITE,)
        return cls(
            regions=(*model.regions, *parts),
            covariates=(*model.covariates, *sites),
            n_patterns=model.n_patterns,
            unit=model.card.unit,
        )


class UsedColumns(NamedTuple):
    """Columns of a table by what a model did with them.

    Attributes
    ----------
    regions : tuple of str
        Columns that the R-indices were computed from.
    sums : tuple of str
        Sums of regions, such as total grey matter.
    covariates : tuple of str
        Columns that the regions were adjusted for.
    """

    regions: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    covariates: tuple[str, ...] = ()

    def explain(self, column: str) -> str:
        """Return why an association with a column is not counted; empty if it is."""
        if column in self.covariates:
            return "the model adjusts for it: not counted"
        if column in self.sums:
            return "a sum of regions of the model: not counted"
        return "a region of the model: not counted" if column in self.regions else ""

    def select(self, names: Collection[str]) -> "UsedColumns":
        """Return those of the columns that are among the names."""
        return UsedColumns(
            *(tuple(name for name in columns if name in names) for columns in self)
        )

    def note(self, where: str, are_listed: bool, unit: str = "") -> list[Problem]:
        """Return the note about columns that were left out or not counted, if there are
        any.

        Parameters
        ----------
        where : str
            File of the table.
        are_listed : bool
            Whether regions are listed because the user named them.
        unit : str
            Unit of the regions, for the nouns of the message.
        """
        nouns = get_nouns(unit)
        columns, parts = [*self.regions, *self.sums], []
        if columns:
            one = len(columns) == 1
            kinds = (
                [f"{f'a {nouns.region}' if one else nouns.regions} of the model"]
                if self.regions
                else []
            )
            kinds += (
                [
                    f"{'a sum' if one else 'sums'} of {nouns.regions} ({join_names(self.sums)})"
                ]
                if self.sums
                else []
            )
            what = f"{format_count(len(columns), 'column is', 'columns are')} {' or '.join(kinds)}"
            ending = "listed and not counted" if are_listed else "left out"
            parts.append(f"{what}, from which the R-indices were computed: {ending}")
        if self.covariates:
            parts.append(
                f"the model adjusts for {join_names(self.covariates)}: listed and not counted"
            )
        what = "; ".join(parts)
        return (
            [
                Problem(
                    severity=Severity.NOTE,
                    what=what,
                    where=where,
                    code=ProblemCode.COLUMNS_NOT_USED,
                )
            ]
            if parts
            else []
        )


def warn_of_unknown_model(
    columns: Collection[str], what: str, where: str = ""
) -> list[Problem]:
    """Return the warning about a table whose regions cannot be told from other
    variables.

    It is a note if no column looks like that of a known program.

    Parameters
    ----------
    columns : collection of str
        Columns of the table.
    what : str
        Why the model is not known.
    where : str
        File of the table.
    """
    layout = detect_layout(
        pd.DataFrame(columns=[str(column) for column in columns]), ()
    )
    severity = (
        Severity.NOTE if layout.format in ("table", "surrealgan") else Severity.WARNING
    )
    text = f"{what}, so regions that the R-indices were computed from may count as associations"
    return [
        Problem(
            severity=severity,
            what=text,
            where=where,
            cure="Name the model with --model",
            code=ProblemCode.MODEL_NOT_KNOWN,
        )
    ]


def find_used_columns(columns: Collection[str], inputs: ModelInputs) -> UsedColumns:
    """Return the columns of a table that a model used, whichever program's spelling
    they have.
    """
    names = [str(column) for column in columns]
    if not names:
        return UsedColumns()
    layout = detect_layout(pd.DataFrame(columns=names), ())
    regions_by_column = {**layout.regions, **layout.aside_names}
    if layout.format == "dlmuse":
        regions_by_column |= {
            column: region_name(code)
            for column, code in parse_muse_codes(names).items()
        }
    if layout.format in (SCHAEFER, GLASSER):  # a header alone does not tell the measure
        thick = {each.removesuffix("_thickness"): each for each in inputs.regions}
        regions_by_column = {
            column: thick.get(region, region)
            for column, region in regions_by_column.items()
        }
    wanted = {
        _make_key(text)
        for region in inputs.regions
        for text in (region, region_label(region))
    }
    adjusted = {_make_key(name) for name in inputs.covariates}
    head_size = (
        (layout.icv or find_column(names, ICV_NAMES))
        if find_column(inputs.covariates, ICV_NAMES)
        else None
    )
    site = find_column(names, SITE_NAMES) if SITE in inputs.covariates else None
    covariates = [
        name
        for name in names
        if _make_key(name) in adjusted or name in (head_size, site)
    ]
    regions = [
        name
        for name in names
        if {_make_key(name), _make_key(regions_by_column.get(name, name))} & wanted
    ]
    sums = [] if inputs.unit == FEATURE_UNIT else layout.aside.get("composite", [])
    return UsedColumns(
        regions=tuple(name for name in regions if name not in covariates),
        sums=tuple(name for name in sums if name not in (*regions, *covariates)),
        covariates=tuple(covariates),
    )


def _make_key(name: str) -> str:
    """Return a name of a column without differences of case, punctuation and version of
    FreeSurfer.
    """
    return normalise_column_name(canonicalise_region_name(name))


def find_model_inputs(indices: Path, n_patterns: int) -> ModelInputs | None:
    """Return what the R-indices of a file were computed from, by the files beside it.

    indices: the file, with ``n_patterns`` R-indices. The files are
    ``model.safetensors``, or ``patterns.tsv`` and ``cohort.json`` of a study. Returns
    None without them, or if they are of another number of patterns.
    """
    beside = indices.parent / MODEL_FILE
    inputs = (
        ModelInputs.of(load(beside))
        if beside.is_file()
        else _read_pattern_table(indices.parent)
    )
    return None if inputs is None or inputs.n_patterns != n_patterns else inputs


def _read_pattern_table(folder: Path) -> ModelInputs | None:
    """Return what the tables of a study's folder say about its model; None if they do
    not.
    """
    path = folder / "patterns.tsv"
    if not path.is_file():
        return None
    table = pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)
    column = "feature" if "feature" in table else "region"
    if not {column, "pattern"} <= set(table.columns):
        return None  # of another program, or of simulate
    regions = table[column].unique().tolist()
    parts = [part for region in regions if "+" in region for part in region.split("+")]
    covariates: list[str] = []
    if (folder / "cohort.json").is_file():
        try:
            cohort = CohortRecord.from_dict(read_json(folder / "cohort.json"))
        except (OSError, ValueError) as error:
            what = f"{folder / 'cohort.json'} cannot be read ({error})"
            raise StudyError(f"{what}: fit the study again.") from error
        covariates = [
            *cohort.covariate_names,
            *([SITE] if len(cohort.sites) > 1 else []),
        ]
    unit = FEATURE_UNIT if column == "feature" else ""
    return ModelInputs(
        regions=(*regions, *parts),
        covariates=tuple(covariates),
        n_patterns=table["pattern"].nunique(),
        unit=unit,
    )
