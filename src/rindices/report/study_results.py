"""What a study left behind, read back for its report."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pandas as pd

from rindices.errors import StudyError
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.model.fitted import FittedModel, load
from rindices.model.patterns import make_pattern_table
from rindices.model.records import CandidateRecord, CohortRecord, Record, SelectionRecord
from rindices.tables.cohort import GROUP
from rindices.tables.validation.groups import CONTROL, PATIENT

AnyRecord = TypeVar("AnyRecord", bound=Record)
N_LISTED_REGIONS = 14
"""Regions of a pattern that the page lists; the table behind holds all."""


@dataclass(frozen=True, eq=False)
class StudyResults:
    """Everything that a report shows.

    Attributes
    ----------
    title : str
    model : FittedModel
    selection : SelectionRecord
        What was compared and chosen.
    cohort : CohortRecord
        Who was in the data, and what was found wrong with it.
    indices : DataFrame
        ``group`` and ``r1`` to ``rM``, a row a person; no ids, since a report may be passed on.
    patterns : DataFrame
        See `make_pattern_table`.
    associations : DataFrame or None
        Where ``rindices associate`` has written them into the folder.
    widths : dict
        Of each R-index the median width of the patients' intervals; empty where there are none.
    novel : int or None
        How many people are unlike the others.
    """

    title: str
    model: FittedModel
    selection: SelectionRecord
    cohort: CohortRecord
    indices: pd.DataFrame
    patterns: pd.DataFrame
    associations: pd.DataFrame | None = None
    widths: dict[str, float] = field(default_factory=dict)
    novel: int | None = None

    @property
    def names(self) -> list[str]:
        """``r1`` to ``rM``."""
        return self.model.index_names

    @property
    def chosen(self) -> CandidateRecord:
        """The record of the chosen setting."""
        assert self.selection.chosen is not None
        return self.selection.chosen

    def select_group(self, group: str) -> pd.DataFrame:
        """Return the R-indices of controls or patients."""
        return self.indices.loc[self.indices[GROUP] == group, self.names]

    def top(self, name: str, number: int) -> pd.DataFrame:
        """Return the strongest regions of a pattern at full severity, strongest first."""
        own = self.patterns[(self.patterns["pattern"] == name) & (self.patterns["severity"] == SEVERITY_LEVELS[-1])]
        return own.reindex(own["change"].abs().sort_values(ascending=False, kind="stable").index).head(number)

    def effects(self, name: str, severity: float = SEVERITY_LEVELS[-1]) -> dict[str, float]:
        """Return the change of each region under a pattern at a severity."""
        own = self.patterns[(self.patterns["pattern"] == name) & (self.patterns["severity"] == severity)]
        return dict(zip(own["region"], own["change"].astype(float), strict=True))


def read_study_results(folder: Path) -> StudyResults:
    """Read the folder of a finished study."""
    absent = [
        name for name in ("model.safetensors", "selection.json", "r_indices.tsv") if not (folder / name).is_file()
    ]
    if absent:
        raise StudyError(f"{folder} has no {', '.join(absent)}: run rindices fit with --out {folder} first.")
    model = load(folder / "model.safetensors")
    indices = pd.read_csv(folder / "r_indices.tsv", sep="\t")
    names = model.index_names
    lacking = [name for name in (GROUP, *names) if name not in indices]
    if lacking:
        raise StudyError(f"{folder / 'r_indices.tsv'} lacks {', '.join(lacking)}: run rindices fit again.")
    selection = read_record(folder / "selection.json", SelectionRecord)
    if selection.chosen is None:
        raise StudyError(f"{folder / 'selection.json'} names no chosen setting: run rindices fit again.")
    return StudyResults(
        title=folder.resolve().name,
        model=model,
        selection=selection,
        cohort=_read_cohort_summary(folder, indices, model),
        indices=indices[[GROUP, *names]],
        patterns=make_pattern_table(model),
        associations=_read_associations(folder),
        widths=_compute_interval_widths(indices[indices[GROUP] == PATIENT], names),
        novel=int(indices["novel"].sum()) if "novel" in indices else None,
    )


def _read_cohort_summary(folder: Path, indices: pd.DataFrame, model: FittedModel) -> CohortRecord:
    """Return who was in the data; from the R-indices alone where a study was run before this was written."""
    if (folder / "cohort.json").is_file():
        return read_record(folder / "cohort.json", CohortRecord)
    return CohortRecord(
        source=model.card.source or "table",
        unit=model.card.unit,
        people=len(indices),
        controls=int((indices[GROUP] == CONTROL).sum()),
        patients=int((indices[GROUP] == PATIENT).sum()),
        regions=len(model.regions),
    )


def _compute_interval_widths(patients: pd.DataFrame, names: list[str]) -> dict[str, float]:
    """Return the median width of each R-index's intervals; none where a study was run before there were any."""
    known = [name for name in names if f"{name}_low" in patients and f"{name}_high" in patients]
    return {name: float((patients[f"{name}_high"] - patients[f"{name}_low"]).median()) for name in known}


def _read_associations(folder: Path) -> pd.DataFrame | None:
    path = folder / "associations.tsv"
    if not path.is_file():
        return None
    table = pd.read_csv(path, sep="\t", keep_default_na=False, na_values=["n/a"])
    lacking = [name for name in ("index", "variable", "n", "correlation", "low", "high", "q") if name not in table]
    if lacking:
        raise StudyError(f"{path} lacks {', '.join(lacking)}: write it again with rindices associate, or remove it.")
    return table


def read_record(path: Path, kind: type[AnyRecord]) -> AnyRecord:
    """Read a JSON file that a study wrote."""
    try:
        return kind.from_dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise StudyError(f"{path} cannot be read ({error}): run rindices fit again.") from error
