"""Reading of a study: its table, its reference population, and all that would stop ``rindices fit`` before training."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rindices.errors import ModelError, PreprocessingError, Problem, ProblemCode, StudyError, TableError
from rindices.model.normal_reference import MUSE_REFERENCE, NormalReference, load_reference_file
from rindices.preprocess.measures import DEFAULT_ICV_FOR
from rindices.study.checks import check_sample_size
from rindices.study.config import DataConfig, StudyConfig
from rindices.study.study import Study, check_settings
from rindices.tables.cohort import Cohort, attach_visits, keep_first_scans
from rindices.tables.io.frames import is_parquet, list_table_files, open_parquet
from rindices.tables.table import NO_COLUMN
from rindices.tables.validate import TableRequest, ValidationResult, validate_table

N_COPIES = 20
"""Copies of a table in the memory of a fit, about (``benchmarks/study_cost.py``)."""
_BYTES_PER_CELL = 8


def needs_partitions(table: Path) -> bool:
    """Return whether a parquet file, or a folder of parquet files, is too large to be fitted in memory."""
    files = list_table_files(table) if table.exists() else None
    if not files or not is_parquet(files[0]):
        return False
    metadata = [open_parquet(file).metadata for file in files]
    n_bytes = _BYTES_PER_CELL * sum(each.num_rows * each.num_columns for each in metadata)
    return bool(n_bytes * N_COPIES > get_memory_size())


def get_memory_size() -> float:
    """Return the bytes of memory of this machine; infinity where the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def keep_training_scans(
    cohort: Cohort, problems: Sequence[Problem], visits: str | None = None
) -> tuple[Cohort, list[Problem]]:
    """Return the scans that are used for training, and the problems of the table with a note about repeat visits.

    problems: found while the table was read; visits: scans to learn from; left out, all. Returns cohort: the first scan
    of each person, unless ``visits`` is 'first' with all others as its ``visits``; problems.
    """
    repeated = [problem for problem in problems if problem.code is ProblemCode.REPEATED_SCANS]
    select = keep_first_scans if visits == "first" else attach_visits
    cohort, notes = select(cohort, repeated[0].where if repeated else "")
    return cohort, [*notes, *(problem for problem in problems if not notes or problem not in repeated)]


def resolve_study(
    study: StudyConfig, folder: Path, on_missing: str | None = None
) -> tuple[ValidationResult, StudyConfig]:
    """Read the table of a study and decide what the study does not say: groups, covariates, sites and visits.

    ``check``, ``fit`` and ``site`` read a table by this function, so they decide alike. Each decision is a note.

    folder: folder that paths are relative to; on_missing: instead of what the study says. Returns result: its cohort
    has one scan per person, see `keep_training_scans`; study: with the covariates and the site that are used.
    """
    result = validate_table(replace(study.data.request(folder), on_missing=on_missing or study.data.on_missing))
    if result.cohort is not None:
        cohort, problems = keep_training_scans(result.cohort, result.problems, study.data.visits)
        if len(cohort) < len(result.cohort):
            result = replace(result, people=len(cohort), controls=cohort.n_controls, patients=cohort.n_patients)
        result = replace(result, cohort=cohort, problems=tuple(problems))
    columns = {"covariates": result.roles.covariates, "site": result.roles.site}
    study = study.model_copy(update={"data": study.data.model_copy(update=columns)})
    return result, study


def read_reference(data: DataConfig, folder: Path) -> NormalReference | None:
    """Return the reference that a study names.

    data: its ``reference`` is ``muse``, a file of ``rindices reference``, or a table of healthy people, which is read
    with the column names of the study's table; folder: folder that paths are relative to. Returns none if the study
    names none. Raises TableError: if the table cannot be read. Raises ModelError: if the file is not a reference, or
    too few people are in the table.
    """
    if data.reference is None:
        return None
    path = folder / data.reference
    if data.reference == MUSE_REFERENCE or path.suffix == ".safetensors":
        return load_reference_file(data.reference if data.reference == MUSE_REFERENCE else path)
    request = replace(data.request(folder), volumes=(path,), participants=None, controls=(), patients=())
    site = None if request.roles.site == NO_COLUMN else request.roles.site
    roles = replace(request.roles, group=None, participants_id=None, site=site)
    request = replace(request, roles=roles, on_missing="drop", impute_covariates=False)
    return fit_reference(request, data.adjust, is_other_table=True, icv_for=data.icv_for)[0]


def fit_reference(
    request: TableRequest, adjust: str | None = None, is_other_table: bool = False, icv_for: str = DEFAULT_ICV_FOR
) -> tuple[NormalReference, list[Problem]]:
    """Learn a reference from a table of healthy people.

    request: with one table. Of people with several scans, the first one is used; adjust: scale of the adjustment for
    covariates; is_other_table: whether sessions and sites are named for another table. They are left out if there are
    no such columns here; icv_for: regions that are adjusted for head size in a table with thickness and other measures.
    Returns reference; problems: notes and warnings about the table.
    """
    result = validate_table(request)
    absent = {problem.subject for problem in result.problems if problem.code is ProblemCode.UNKNOWN_COLUMN}
    left_out = {name: None for name in ("session", "site") if getattr(request.roles, name) in absent}
    if is_other_table and left_out:
        result = validate_table(replace(request, roles=replace(request.roles, **left_out)))
    cohort, notes = keep_first_scans(result.cohort_or_raise())
    return NormalReference.fit(cohort, request.volumes[0].name, adjust, icv_for), [*result.problems, *notes]


def find_study_problems(cohort: Cohort, study: StudyConfig, folder: Path = Path()) -> list[Problem]:
    """Return what would stop a study before training, and what fit would warn of.

    cohort: with controls and patients; study: its section ``data`` is used for the adjustment and the reference alone;
    folder: folder that the path of the reference is relative to. Returns errors for settings that need more people or
    regions and for people who cannot be adjusted.
    """
    problems = check_sample_size(cohort.n_controls, cohort.n_patients, cohort.unit)
    try:
        check_settings(cohort, study.model)
    except StudyError as error:
        problems += error.problems
    try:
        problems += study.fit_preprocessing(cohort).review(cohort)
        problems += Study(cohort, study).checked.problems
    except PreprocessingError as error:
        problems += error.problems
    try:
        reference = read_reference(study.data, folder)
        if reference is not None:
            reference.select(cohort.regions)
    except (ModelError, TableError) as error:
        problems += error.problems
    return problems
