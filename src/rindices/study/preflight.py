"""Reading of a study: its table, its reference population, and all that would stop
``rindices fit`` before training.
"""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from rindices.errors import (
    ModelError,
    Problem,
    ProblemCode,
    RindicesError,
    Severity,
    TableError,
    join_names,
)
from rindices.model.normal_reference import (
    MUSE_REFERENCE,
    NormalReference,
    load_reference_file,
)
from rindices.preprocess.measures import DEFAULT_ICV_FOR, find_thickness
from rindices.preprocess.residualise import is_head_size
from rindices.study.checks import check_sample_size
from rindices.study.config import DataConfig, StudyConfig
from rindices.study.methods import DEFAULT_METHOD
from rindices.study.settings import (
    SettingSource,
    find_unused_in_parts,
    make_option_name,
)
from rindices.study.study import Study, StudyPeople, check_settings
from rindices.tables.chunks import OpenedTable
from rindices.tables.cohort import Cohort, attach_visits, keep_first_scans
from rindices.tables.sources.frames import (
    is_parquet,
    list_table_files,
    locate,
    open_parquet,
)
from rindices.tables.table import NO_COLUMN, ColumnRoles
from rindices.tables.validate import (
    TableRequest,
    ValidationResult,
    offer_exclusion,
    validate_table,
)

N_COPIES = 20
"""Copies of a table in the memory of a fit, about (``benchmarks/study_cost.py``)."""
_BYTES_PER_CELL = 8
DIFFERENCES_IN_PARTS = (
    "without a report, harmonisation of sites, reference and repeat visits; tests exchange labels of blocks of people, "
    "and missing cells are drawn from what other people predict"
)
"""What a study in parts does not do as one in memory does; ``docs/scale.md`` says more.
"""
_CHANGES_IN_PARTS: dict[str, dict[str, str | None]] = {
    "engine": {"engine": "local"},
    "harmonise": {"harmonise": "none"},
    "site": {"harmonise": "none"},
    "in_parts": {
        "method": DEFAULT_METHOD,
        "recipe": None,
        "orthogonality": None,
        "max_steps": None,
    },
}
"""What to change where a setting cannot be used in parts, and is not just left out."""


def is_too_large(study: StudyConfig, folder: Path) -> bool:
    """Return whether a study has one parquet file, or folder of them, that is too large
    to be fitted in memory.
    """
    if len(study.data.volumes) > 1:
        return False
    table = locate(folder, study.data.volumes[0])
    files = list_table_files(table) if table.exists() else None
    if not files or not is_parquet(files[0]):
        return False
    metadata = [open_parquet(file).metadata for file in files]
    n_bytes = _BYTES_PER_CELL * sum(
        each.num_rows * each.num_columns for each in metadata
    )
    return bool(n_bytes * N_COPIES > get_memory_size())


def describe_size(study: StudyConfig) -> str:
    """Return that the table of a study is too large to be fitted in memory."""
    table = PurePath(study.data.volumes[0]).name
    return f"{table} needs about {N_COPIES} times its size in memory, more than this machine has"


def list_changes_in_parts(study: StudyConfig, folder: Path) -> dict[str, str | None]:
    """Return the settings that a study must change to be fitted in parts, with their
    value; None to leave them out.
    """
    in_parts = study.model_copy(
        update={"run": study.run.model_copy(update={"in_parts": True})}
    )
    changes: dict[str, str | None] = {}
    for unused in find_unused_in_parts(in_parts, SettingSource("", is_python=True)):
        changes |= _CHANGES_IN_PARTS.get(unused.key, {unused.key: None})
    opened = _open_first_file(study, folder)
    if _is_harmonised(study.data, opened.validation.roles.site):
        changes["harmonise"] = "none"
    if _adjusts_kinds_differently(
        opened.validation.cohort_or_raise(), study.data.icv_for
    ):
        changes["icv_for"] = "all"
    return changes


def open_table_in_parts(
    study: StudyConfig, folder: Path
) -> tuple[OpenedTable, StudyConfig]:
    """Open the table of a study that is fitted in parts, and refuse what is done in
    memory alone.

    folder: folder that paths are relative to. Returns opened: its request has the
    columns that are recognised in the first file; study: with the covariates and the
    site that are used.
    """
    opened = _open_first_file(study, folder)
    validation, problems = opened.validation, list[Problem]()
    if study.model.members < 2:
        problems.append(
            _make_error(
                "a fit in parts needs at least 2 ensemble members", "Use --members 5"
            )
        )
    if validation.controls is None:
        problems += list_group_questions(validation.problems)
    if _is_harmonised(study.data, validation.roles.site):
        what = f"column '{validation.roles.site}' holds sites, and a table that is fitted in parts is not harmonised"
        problems.append(
            _make_error(what, "To leave sites as they are: --harmonise none")
        )
    if _adjusts_kinds_differently(validation.cohort_or_raise(), study.data.icv_for):
        what = "in parts, thickness is adjusted for head size as volumes are"
        problems.append(
            _make_error(
                what, "If so: --icv-for all. To use volumes alone: --measure volume"
            )
        )
    if problems:
        raise TableError(problems)
    return opened, name_columns(study, validation.roles)


def identify_files(study: StudyConfig, folder: Path) -> str:
    """Return a text that changes with the files of the tables of a study, or with how
    they are read.
    """
    tables = [
        locate(folder, name)
        for name in (*study.data.volumes, study.data.participants)
        if name is not None
    ]
    files = [file for table in tables for file in list_table_files(table) or [table]]
    stats = [
        (str(file.absolute()), (stat := file.stat()).st_size, stat.st_mtime)
        for file in files
    ]
    options = study.data.model_dump(mode="json", exclude={"volumes", "participants"})
    return json.dumps([stats, options], sort_keys=True)


def _open_first_file(study: StudyConfig, folder: Path) -> OpenedTable:
    """Return the first file of the table of a study, opened."""
    table = locate(folder, study.data.volumes[0])
    request = replace(study.data.request(folder), can_exclude_people=True)
    return OpenedTable.open((list_table_files(table) or [table])[0], request)


def _is_harmonised(data: DataConfig, site: str | None) -> bool:
    """Return whether a study in memory would remove the effects of a column
    of sites.
    """
    return data.harmonise is None and site not in (None, NO_COLUMN)


def _adjusts_kinds_differently(cohort: Cohort, icv_for: str) -> bool:
    """Return whether a study in memory would adjust volumes, and not thickness, for
    head size.
    """
    has_head_size = any(is_head_size(str(name)) for name in cohort.covariates)
    return has_head_size and find_thickness(cohort, icv_for) is not None


def _make_error(what: str, cure: str) -> Problem:
    return Problem(
        severity=Severity.ERROR,
        what=what,
        where="",
        cure=cure,
        code=ProblemCode.WRONG_OPTION,
    )


def list_group_questions(problems: Sequence[Problem]) -> list[Problem]:
    """Return, as errors, the notes that no groups of people are known."""
    questions = (ProblemCode.NO_GROUPS, ProblemCode.GROUP_COLUMN_POSSIBLE)
    return [
        replace(each, severity=Severity.ERROR)
        for each in problems
        if each.code in questions
    ]


def name_columns(study: StudyConfig, roles: ColumnRoles) -> StudyConfig:
    """Return a study with the covariates and the site that are used."""
    columns = {"covariates": roles.covariates, "site": roles.site}
    return study.model_copy(update={"data": study.data.model_copy(update=columns)})


def get_memory_size() -> float:
    """Return the bytes of memory of this machine; infinity where the system does not
    tell.
    """
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def keep_training_scans(
    cohort: Cohort, problems: Sequence[Problem], visits: str | None = None
) -> tuple[Cohort, list[Problem]]:
    """Return the scans that are used for training, and the problems of the table.

    The cohort has the first scan of each person. Unless ``visits`` is 'first', the
    others are its ``visits``. A note about repeat visits is added to the problems.

    Parameters
    ----------
    cohort : Cohort
        All scans.
    problems : sequence of Problem
        Problems found while the table was read.
    visits : str or None
        Scans to learn from. By default, all.
    """
    repeated = [
        problem for problem in problems if problem.code is ProblemCode.REPEATED_SCANS
    ]
    select = keep_first_scans if visits == "first" else attach_visits
    cohort, notes = select(cohort, repeated[0].where if repeated else "")
    return cohort, [
        *notes,
        *(problem for problem in problems if not notes or problem not in repeated),
    ]


def resolve_study(
    study: StudyConfig, folder: Path, reports_missing: bool = False
) -> tuple[ValidationResult, StudyConfig]:
    """Read the table of a study and decide what the study does not say: groups,
    covariates, sites and visits.

    ``check``, ``fit`` and ``site`` all read a table by this function, so they decide
    alike. Each decision is a note. The cohort of the result has one scan per person
    (`keep_training_scans`), and the study that is returned names the covariates and the
    site that are used.

    Parameters
    ----------
    study : StudyConfig
        Study as the user wrote it.
    folder : Path
        Folder that paths are relative to.
    reports_missing : bool
        Whether to stop at people who lack a value. See `TableRequest`.
    """
    request = replace(
        study.data.request(folder),
        can_exclude_people=True,
        reports_missing=reports_missing,
    )
    result = validate_table(request)
    if result.cohort is not None:
        cohort, problems = keep_training_scans(
            result.cohort, result.problems, study.data.visits
        )
        problems += list_settings_without_effect(cohort, study.data)
        if len(cohort) < len(result.cohort):
            result = replace(
                result,
                people=len(cohort),
                controls=cohort.n_controls,
                patients=cohort.n_patients,
            )
        result = replace(result, cohort=cohort, problems=tuple(problems))
    return result, name_columns(study, result.roles)


def list_settings_without_effect(cohort: Cohort, data: DataConfig) -> list[Problem]:
    """Return errors for settings that have no effect on the people of a study;
    ``cohort`` has one row a person.
    """
    unused = []
    if data.visits in ("mean", "all") and cohort.visits is None:
        cure = "Leave it out, or name the column of visits: --session COLUMN"
        unused.append((f"--visits {data.visits}", "nobody has several visits", cure))
    if data.icv_for == "all":
        if not any(is_head_size(str(name)) for name in cohort.covariates):
            cure = "Leave it out, or name head size among the covariates (--covariates)"
            unused.append(("--icv-for all", "no head size is a covariate", cure))
        elif find_thickness(cohort) is None:
            unused.append(
                (
                    "--icv-for all",
                    "all regions are adjusted for head size without it",
                    "Leave it out",
                )
            )
    return [
        _make_error(f"{setting} has no effect: {why}", cure)
        for setting, why, cure in unused
    ]


def read_reference(data: DataConfig, folder: Path) -> NormalReference | None:
    """Return the reference that a study names.

    data: its ``reference`` is ``muse``, a file of ``rindices reference``, or a table of
    healthy people, which is read with the column names of the study's table; folder:
    folder that paths are relative to. Returns none if the study names none. Raises
    TableError: if the table cannot be read. Raises ModelError: if the file is not a
    reference, or too few people are in the table.
    """
    if data.reference is None:
        return None
    path = folder / data.reference
    if data.reference == MUSE_REFERENCE or path.suffix == ".safetensors":
        return load_reference_file(
            data.reference if data.reference == MUSE_REFERENCE else path
        )
    request = replace(data.request(folder), volumes=(path,), participants=None)
    request = request.with_options(
        group=None,
        controls=(),
        patients=(),
        participants_id=None,
        site=None if data.site == NO_COLUMN else data.site,
        on_missing="drop",
        impute_covariates=False,
    )
    return fit_reference(
        request, data.adjust, is_other_table=True, icv_for=data.icv_for
    )[0]


def fit_reference(
    request: TableRequest,
    adjust: str | None = None,
    is_other_table: bool = False,
    icv_for: str = DEFAULT_ICV_FOR,
) -> tuple[NormalReference, list[Problem]]:
    """Learn a reference from a table of healthy people, and return it with notes and
    warnings about the table.

    Parameters
    ----------
    request : TableRequest
        Request with one table. Of people with several scans, the first one is used.
    adjust : str or None
        Scale of the adjustment for covariates.
    is_other_table : bool
        Whether sessions and sites are named for another table. They are then left out
        if this table has no such columns.
    icv_for : str
        Regions that are adjusted for head size in a table with thickness and other
        measures.
    """
    result = validate_table(request)
    absent = {
        problem.subject
        for problem in result.problems
        if problem.code is ProblemCode.UNKNOWN_COLUMN
    }
    left_out = {
        name: None
        for name in ("session", "site")
        if getattr(request.roles, name) in absent
    }
    if is_other_table and left_out:
        result = validate_table(request.with_options(**left_out))
    cohort, notes = keep_first_scans(result.cohort_or_raise())
    return NormalReference.fit(cohort, request.volumes[0].name, adjust, icv_for), [
        *result.problems,
        *notes,
    ]


def find_study_problems(
    cohort: Cohort, study: StudyConfig, folder: Path = Path()
) -> list[Problem]:
    """Return what would stop a study before training, and what fit would warn of.

    Settings that need more people or regions, and people who cannot be adjusted, are
    errors.

    Parameters
    ----------
    cohort : Cohort
        Controls and patients.
    study : StudyConfig
        Of its section ``data``, only the adjustment and the reference are used.
    folder : Path
        Folder that the path of the reference is relative to.
    """
    problems, reference = (
        check_sample_size(cohort.n_controls, cohort.n_patients, cohort.unit),
        None,
    )
    if study.run.in_parts:
        return problems
    if is_too_large(study, folder):
        changes = list_changes_in_parts(study, folder)
        options = [
            f"{make_option_name(name)} {value}"
            for name, value in changes.items()
            if value is not None
        ]
        unused = [
            make_option_name(name) for name, value in changes.items() if value is None
        ]
        cure = f"Fit it in parts, {DIFFERENCES_IN_PARTS}: {' '.join(['--in-parts', *options])}"
        cure += f", and leave out {join_names(unused)}" if unused else ""
        problems.append(_make_error(describe_size(study), cure))
    try:
        reference = read_reference(study.data, folder)
    except (ModelError, TableError) as error:
        problems += error.problems
    return problems + review_study(Study(cohort, study, reference))


def review_study(study: Study) -> list[Problem]:
    """Return all that would stop a study before or while it is trained, and what fit
    would warn of.
    """
    problems = list[Problem]()
    people = StudyPeople(study, study.config.model)
    steps: list[Callable[[], Iterable[Problem] | None]] = [
        lambda: check_settings(study.cohort, study.config.model),
        lambda: study.preprocessing.review(study.ordered),
        people.check_site_sizes,
        people.check_reference,
        lambda: study.checked.problems,
    ]
    for step in steps:
        try:
            problems += step() or ()
        except RindicesError as error:
            problems += error.problems
    return [offer_exclusion(problem) for problem in dict.fromkeys(problems)]
