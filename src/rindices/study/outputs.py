"""Files of a study: the model, the R-indices, the patterns, the people and the selection."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd
from scipy import stats

from rindices._version import __version__
from rindices.apply.tables import write_indices
from rindices.atomic import delete_temporary_files, write_atomically, write_json
from rindices.errors import Problem
from rindices.model.findings import StudyFindings
from rindices.model.fitted import FittedModel
from rindices.model.pattern_tables import get_shape, make_change_table, make_course_table
from rindices.model.records import CohortRecord, SelectionRecord
from rindices.model.scale import describe_scale
from rindices.selection.group_difference import RegionEffects
from rindices.study.config import StudyConfig, format_study_toml
from rindices.study.exceptions import NoPatternError
from rindices.study.study import Study
from rindices.study.subgroups import make_subgroup_table
from rindices.tables.cohort import describe_cohort
from rindices.tables.io.spreadsheet import protect_texts
from rindices.wording import get_wording, load_columns

OUTPUT_FILES = (
    *("model.safetensors", "r_indices.tsv", "r_indices.json", "selection.json", "findings.json"),
    *("r_indices_visits.tsv", "r_indices_visits.json", "wrong_cells.tsv", "wrong_cells.json"),
    *("patterns.tsv", "patterns.json", "effects.tsv", "effects.json", "cohort.json", "report.html"),
    *("subgroups.tsv", "subgroups.json", "checklist.md"),
    *("trajectories.tsv", "trajectories.json", "dataset_description.json"),
)
"""Files of a study, except ``study.toml`` and ``runs/``."""
DERIVED_FILES = (
    *("associations.tsv", "associations.json", "change.tsv", "change.json", "change.png"),
    *("change_groups.png", "outcome.png"),
    *("replication.tsv", "replication.json", "replication.txt", "replication.png"),
    *("replication_people.tsv", "replication_people.json"),
    *(f"change_{name}.{suffix}" for name in ("groups", "retest", "trial") for suffix in ("tsv", "json")),
    *(f"outcome_{name}.{suffix}" for name in ("effects", "concordance", "survival") for suffix in ("tsv", "json")),
)
"""Files of ``rindices associate``, ``change``, ``predict`` and ``replicate``, which a report beside them shows."""


def write_study(folder: Path, study: Study, model: FittedModel, problems: Iterable[Problem]) -> None:
    """Write the people, the groups' difference, the model, the R-indices, the patterns and the selection of a study.

    ``trajectories.tsv`` is written only for curved patterns.

    problems: for ``cohort.json``.
    """
    _write_people(folder, study, problems)
    cohort, unit = study.cohort, study.cohort.unit
    write_patterns(folder, model, unit)
    assert model.indices is not None
    write_indices(model.indices, folder / "r_indices.tsv", unit, describe_scale(model))
    subgroups = make_subgroup_table(cohort, model.indices, model.index_names, model.card.seed or 0)
    if len(subgroups):
        write_table(folder / "subgroups.tsv", subgroups, unit)
    if model.visit_indices is not None:
        write_indices(model.visit_indices, folder / "r_indices_visits.tsv", unit, describe_scale(model))
    assert model.selection is not None
    assert model.findings is not None
    write_selection(folder, model.selection)
    write_findings(folder, model.findings)
    model.save(folder / "model.safetensors")  # last: if it exists, all files do


def write_patterns(folder: Path, model: FittedModel, unit: str = "") -> None:
    """Write ``patterns.tsv`` and, for curved patterns, ``trajectories.tsv``."""
    write_table(folder / "patterns.tsv", make_change_table(model), unit)
    if get_shape(model) == "curved":
        write_table(folder / "trajectories.tsv", make_course_table(model), unit)


def write_effects(folder: Path, effects: RegionEffects, regions: Sequence[str], unit: str = "") -> None:
    """Write ``effects.tsv`` and ``.json``: the difference between patients and controls in each region.

    regions: (R,) names; unit: unit of the table; features are not called regions.
    """
    table = pd.DataFrame({"region": regions, **effects._asdict(), "q": stats.false_discovery_control(effects.p)})
    write_table(folder / "effects.tsv", table, unit)


def write_study_file(folder: Path, study: StudyConfig, source: Path) -> None:
    """Write a study to ``study.toml``, unless that is the file that it was read from."""
    path = folder / "study.toml"
    if not path.exists() or not path.samefile(source):
        write_atomically(path, format_study_toml(study).encode())


def write_null_result(folder: Path, study: Study, result: NoPatternError, problems: Iterable[Problem]) -> None:
    """Write the files of a study without a pattern: the people, the groups' difference and the result of the test."""
    _write_people(folder, study, problems)
    write_selection(folder, result.selection)
    assert result.findings is not None
    write_findings(folder, result.findings)


def write_selection(folder: Path, selection: SelectionRecord) -> None:
    """Write ``selection.json``."""
    write_json(folder / "selection.json", selection.to_dict())


def write_findings(folder: Path, findings: StudyFindings) -> None:
    """Write ``findings.json``."""
    write_json(folder / "findings.json", findings.to_dict())


def clear_outputs(folder: Path) -> None:
    """Remove the files of an earlier study, what was derived from them, and what a killed process left."""
    for name in (*OUTPUT_FILES, *DERIVED_FILES):
        (folder / name).unlink(missing_ok=True)
    delete_temporary_files(folder)


def _write_people(folder: Path, study: Study, problems: Iterable[Problem]) -> None:
    """Write the cohort, its wrong cells if any, the difference of the groups, and what tools of BIDS look for."""
    cohort, wrong_cells = study.cohort, study.checked.table
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "cohort.json", CohortRecord.of(describe_cohort(cohort), problems).to_dict())
    made_by = [{"Name": "rindices", "Version": __version__}]
    description = {"Name": "R-indices", "BIDSVersion": "1.10.0", "DatasetType": "derivative", "GeneratedBy": made_by}
    write_json(folder / "dataset_description.json", description)
    write_effects(folder, study.tests.effects, cohort.regions, cohort.unit)
    if len(wrong_cells):
        write_table(folder / "wrong_cells.tsv", wrong_cells, cohort.unit)


def write_table(path: Path, table: pd.DataFrame, unit: str) -> None:
    """Write a table and the descriptions of its columns, in the words for the unit of the regions."""
    path.parent.mkdir(parents=True, exist_ok=True)
    word, descriptions = get_wording(unit), load_columns(path.stem)
    columns = {word(name): {"Description": word(text)} for name, text in descriptions.items() if name in table}
    text = protect_texts(table.rename(columns=word)).to_csv(
        None, sep="\t", index=False, na_rep="n/a", lineterminator="\n"
    )
    write_atomically(path, text.encode())
    write_json(path.with_suffix(".json"), columns)
