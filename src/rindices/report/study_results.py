"""Read the results of a study for its report."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pandas as pd

from rindices._typing import BoolArray
from rindices.errors import StudyError
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.model.fitted import FittedModel, load
from rindices.model.patterns import make_pattern_table
from rindices.model.record_base import Record
from rindices.model.records import (
    CandidateRecord,
    CohortRecord,
    DifferenceRecord,
    PermutationTestRecord,
    ProvenanceRecord,
    SelectionRecord,
    SettingRecord,
)
from rindices.report.follow_up_section import (
    ChangeSection,
    OutcomeSection,
    read_change_section,
    read_outcome_section,
)
from rindices.report.formatting import omit_single_weight
from rindices.tables.cohort import GROUP, ID, SESSION
from rindices.tables.io.spreadsheet import restore_texts
from rindices.tables.validation.groups import CONTROL, PATIENT

AnyRecord = TypeVar("AnyRecord", bound=Record)
N_LISTED_REGIONS = 14
"""Regions of a pattern that the page lists; the data of the figure hold all."""


@dataclass(frozen=True, eq=False)
class StudyResults:
    """Everything that a report shows.

    Attributes
    ----------
    model : FittedModel
    selection : SelectionRecord
    cohort : CohortRecord
    indices : DataFrame
        ``group`` and ``r1`` to ``rM``, one row per person; no ids, since a report may be passed on.
    patterns : DataFrame
        See `make_pattern_table`.
    associations : DataFrame or None
        Where ``rindices associate`` has written them into the folder.
    widths : dict
        Median width of the patients' intervals of each R-index; empty where there are no intervals.
    novel : int or None
        Number of novel people.
    effects : DataFrame or None
        Content of ``effects.tsv``; None in older studies.
    interval_ends : DataFrame
        ``r1_low``, ``r1_high`` and so on, same rows as ``indices``; no columns in older studies.
    is_novel : (N,) or None
        Whether each person is novel.
    change : ChangeSection or None
        Where ``rindices change`` has written into the folder.
    outcome : OutcomeSection or None
        Where ``rindices predict`` has written into the folder.
    """

    model: FittedModel
    selection: SelectionRecord
    cohort: CohortRecord
    indices: pd.DataFrame
    patterns: pd.DataFrame
    associations: pd.DataFrame | None = None
    widths: dict[str, float] = field(default_factory=dict)
    novel: int | None = None
    effects: pd.DataFrame | None = None
    interval_ends: pd.DataFrame = field(default_factory=pd.DataFrame)
    is_novel: BoolArray | None = None
    change: ChangeSection | None = None
    outcome: OutcomeSection | None = None

    @property
    def is_mean_difference(self) -> bool:
        """Whether the model has one index along the mean difference instead of patterns."""
        return self.selection.finding == "mean_difference"

    @property
    def smallest_effect(self) -> float | None:
        """Smallest Cohen's d that the study detects; None in older studies."""
        return None if self.selection.difference is None else self.selection.difference.smallest_effect

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

    def select_pattern(self, name: str, severity: float = SEVERITY_LEVELS[-1]) -> pd.DataFrame:
        """Return the change of each region under a pattern at a severity."""
        return self.patterns[(self.patterns["pattern"] == name) & (self.patterns["severity"] == severity)]

    def list_top_regions(self, name: str, number: int = N_LISTED_REGIONS) -> pd.DataFrame:
        """Return the strongest regions of a pattern at full severity, strongest first."""
        rows = self.select_pattern(name)
        return rows.reindex(rows["change"].abs().sort_values(ascending=False, kind="stable").index).head(number)

    def get_effects(self, name: str, severity: float = SEVERITY_LEVELS[-1]) -> dict[str, float]:
        """Return the change of each region under a pattern at a severity, by region."""
        rows = self.select_pattern(name, severity)
        return dict(zip(rows["region"], rows["change"].astype(float), strict=True))


@dataclass(frozen=True, eq=False)
class NullResults:
    """What a study in which no pattern was detected leaves behind.

    Attributes
    ----------
    cohort : CohortRecord
    test : PermutationTestRecord
    made_with : ProvenanceRecord or None
        None in older files.
    difference : DifferenceRecord or None
        None in older files.
    effects : DataFrame or None
        Content of ``effects.tsv``; None in older studies.
    adjust : str
        Scale of the adjustment.
    tried : sequence of SettingRecord
        Settings that were asked for and are not stable.
    """

    cohort: CohortRecord
    test: PermutationTestRecord
    made_with: ProvenanceRecord | None
    difference: DifferenceRecord | None = None
    effects: pd.DataFrame | None = None
    adjust: str = "linear"
    tried: Sequence[SettingRecord] = ()

    @property
    def smallest_effect(self) -> float | None:
        """Smallest Cohen's d that the study detects; None in older studies."""
        return None if self.difference is None else self.difference.smallest_effect


def read_null_results(folder: Path) -> NullResults | None:
    """Read the folder of a study in which no pattern was detected; None for any other folder."""
    paths = [folder / name for name in ("selection.json", "cohort.json")]
    if (folder / "model.safetensors").is_file() or not all(path.is_file() for path in paths):
        return None
    selection = read_record(paths[0], SelectionRecord)
    number = selection.number_of_patterns
    if number is None or selection.chosen is not None:
        return None
    if not selection.finding and (selection.grid or number.by_test):  # of an earlier version, and unstable
        return None
    return NullResults(
        *(read_record(paths[1], CohortRecord), number.test, selection.made_with),
        difference=selection.difference,
        effects=_read_effects(folder),
        adjust=selection.adjust or "linear",
        tried=selection.unstable_settings,
    )


def read_study_results(folder: Path) -> StudyResults:
    """Read the folder of a finished study."""
    required = ("model.safetensors", "selection.json", "r_indices.tsv")
    missing = [name for name in required if not (folder / name).is_file()]
    if missing:
        raise StudyError(f"{folder} has no {', '.join(missing)}: run rindices fit with --out {folder} first.")
    model = load(folder / "model.safetensors")
    indices = read_index_file(folder)
    names = model.index_names
    missing = [name for name in (GROUP, *names) if name not in indices]
    if missing:
        raise StudyError(f"{folder / 'r_indices.tsv'} lacks {', '.join(missing)}: run rindices fit again.")
    selection = omit_single_weight(read_record(folder / "selection.json", SelectionRecord))
    if selection.chosen is None:
        raise StudyError(f"{folder / 'selection.json'} names no chosen setting: run rindices fit again.")
    return StudyResults(
        model=model,
        selection=selection,
        cohort=_read_cohort_summary(folder, indices, model),
        indices=indices[[GROUP, *names]],
        patterns=make_pattern_table(model),
        associations=_read_associations(folder),
        widths=_compute_interval_widths(indices[indices[GROUP] == PATIENT], names),
        novel=int(indices["novel"].sum()) if "novel" in indices else None,
        effects=_read_effects(folder),
        interval_ends=indices[[name for name in _name_interval_ends(names) if name in indices]],
        is_novel=indices["novel"].to_numpy(dtype=bool) if "novel" in indices else None,
        change=read_change_section(folder),
        outcome=read_outcome_section(folder),
    )


def read_index_file(folder: Path) -> pd.DataFrame:
    """Return the content of ``r_indices.tsv``; ids are text."""
    return restore_texts(pd.read_csv(folder / "r_indices.tsv", sep="\t", dtype=dict.fromkeys((ID, SESSION), str)))


def _name_interval_ends(names: Sequence[str]) -> list[str]:
    return [f"{name}_{end}" for name in names for end in ("low", "high")]


def _read_effects(folder: Path) -> pd.DataFrame | None:
    """Return the difference of each region; None in a study that is older than this table."""
    path = folder / "effects.tsv"
    if not path.is_file():
        return None
    table = restore_texts(pd.read_csv(path, sep="\t", keep_default_na=False, na_values=["n/a"]))
    table = table.rename(columns={"feature": "region"})
    if missing := [name for name in ("region", "d", "low", "high", "q") if name not in table]:
        raise StudyError(f"{path} lacks {', '.join(missing)}: run rindices fit again.")
    return table


def _read_cohort_summary(folder: Path, indices: pd.DataFrame, model: FittedModel) -> CohortRecord:
    """Return who was in the data; from the R-indices alone for an older study without ``cohort.json``."""
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
    """Return the median width of each R-index's intervals; empty for an older study without intervals."""
    columns = [name for name in names if f"{name}_low" in patients and f"{name}_high" in patients]
    return {name: float((patients[f"{name}_high"] - patients[f"{name}_low"]).median()) for name in columns}


def _read_associations(folder: Path) -> pd.DataFrame | None:
    path = folder / "associations.tsv"
    if not path.is_file():
        return None
    table = restore_texts(pd.read_csv(path, sep="\t", keep_default_na=False, na_values=["n/a"]))
    required = ("index", "variable", "n", "correlation", "low", "high", "q")
    missing = [name for name in required if name not in table]
    if missing:
        raise StudyError(f"{path} lacks {', '.join(missing)}: write it again with rindices associate, or remove it.")
    return table


def read_record(path: Path, kind: type[AnyRecord]) -> AnyRecord:
    """Read a JSON file that a study wrote."""
    try:
        return kind.from_dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise StudyError(f"{path} cannot be read ({error}): run rindices fit again.") from error
