"""Checks of a study before it is trained: ``rindices check`` runs all that would stop ``rindices fit``."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rindices.errors import ModelError, PreprocessingError, Problem, ProblemCode, StudyError, TableError
from rindices.study.cohort_fit import check_settings
from rindices.study.config import StudyConfig
from rindices.study.reference import read_reference
from rindices.study.sample_size import check_sample_size
from rindices.tables.cohort import Cohort, attach_visits, keep_first_scans
from rindices.tables.validate import ValidationResult, validate_table


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
    cohort, problems = result.cohort, drop_settled_notes(result.problems, study)
    if cohort is not None:
        cohort, problems = keep_training_scans(cohort, problems, study.data.visits)
        if len(cohort) < len(result.cohort or ()):
            result = replace(result, people=len(cohort), controls=cohort.n_controls, patients=cohort.n_patients)
    columns = {"covariates": result.roles.covariates, "site": result.roles.site}
    study = study.model_copy(update={"data": study.data.model_copy(update=columns)})
    return replace(result, cohort=cohort, problems=tuple(problems)), study


def drop_settled_notes(problems: Sequence[Problem], study: StudyConfig) -> list[Problem]:
    """Return the problems of a table without notes that a setting of the study answers."""
    is_settled = study.data.adjust == "rank"
    return [problem for problem in problems if problem.code is not ProblemCode.SKEWED_FEATURES or not is_settled]


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
    except PreprocessingError as error:
        problems += error.problems
    try:
        reference = read_reference(study.data, folder)
        if reference is not None:
            reference.select(cohort.regions)
    except (ModelError, TableError) as error:
        problems += error.problems
    return problems
