"""Run a study: fit its model and write its files."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from rindices.errors import Problem, ProblemCode, Severity, StudyError, describe_os_error, format_count
from rindices.model.fitted import FittedModel
from rindices.model.normal_reference import NormalReference
from rindices.selection.group_difference import RegionEffects
from rindices.study.cohort_fit import CohortFit
from rindices.study.config import StudyConfig
from rindices.study.engines.base import Engine, StudyObserver
from rindices.study.engines.registry import make_engine
from rindices.study.exceptions import NoPatternError
from rindices.study.outputs import clear_outputs, write_effects, write_null_result, write_study, write_study_file
from rindices.study.result_checks import check_consensus_scale, collect_study_warnings
from rindices.study.sample_size import check_sample_size
from rindices.study.store import RunStore
from rindices.tables.cohort import ID, Cohort

_NO_OBSERVER = StudyObserver()


def run_study(
    cohort: Cohort,
    study: StudyConfig,
    out: Path | None,
    *,
    runs: Path | None = None,
    engine: Engine | None = None,
    study_file: Path | None = None,
    table_problems: Sequence[Problem] = (),
    observer: StudyObserver = _NO_OBSERVER,
    reference: NormalReference | None = None,
) -> FittedModel:
    """Run a study and write its files; used by `rindices.fit` and by ``rindices fit``.

    study: its section ``data`` is used for harmonisation alone; the rest was read into ``cohort``; out: folder for all
    files; left out, nothing is written; runs: folder for finished member sets. Left out, ``runs`` in ``out``, else a
    temporary folder; engine: left out, the one that the study names; study_file: file or table that the study was read
    from. If it is given, the study is written to ``study.toml``, unless that is this very file; table_problems:
    problems found while reading the table, for ``cohort.json``; reference: the reference that ``study.data.reference``
    names, read by `read_reference`. Raises NoPatternError: if no difference between patients and controls was detected;
    all other files are written nevertheless. Raises StudyError: if the study cannot be run as described, or a file
    cannot be written.
    """
    problems = [*table_problems, *check_sample_size(cohort.n_controls, cohort.n_patients, cohort.unit)]
    if study.model.n_members != study.model.members:
        what = f"{study.model.n_members} members are trained instead of {study.model.members}: whole sets of five folds"
        problems.append(Problem(Severity.NOTE, what, code=ProblemCode.MEMBERS_ROUNDED))
    observer.on_problems(problems)
    folder = runs or (None if out is None else out / "runs")
    try:
        with TemporaryDirectory() if folder is None else nullcontext(folder) as path:
            store = RunStore(Path(path))
            with store.lock_folder():
                if out is not None:
                    clear_outputs(out)
                if out is not None and study_file is not None:
                    write_study_file(out, study, study_file)
                model, effects = _fit_or_write_null_result(
                    cohort, study, out, store, engine, problems, observer, reference
                )
                doubts = _list_doubts(model, cohort)
                observer.on_problems([*doubts, *check_consensus_scale(model.card.pattern_scale)])
                if out is not None:
                    write_effects(out, effects, cohort.regions, cohort.unit)
                    write_study(out, model, cohort, [*problems, *doubts], study.run.with_ids)
                    observer.on_written(out)
    except OSError as error:
        raise StudyError(
            f"cannot write to {out or folder} ({describe_os_error(error)}): make room or give another --out."
        ) from error
    return model


def _list_doubts(model: FittedModel, cohort: Cohort) -> list[Problem]:
    """Return what the adjustment, the tests and the patterns of a model give reason to doubt."""
    assert model.selection is not None
    doubts = [*model.preprocessing.review(cohort), *collect_study_warnings(model.selection)]
    assert model.indices is not None
    without = model.indices.loc[model.indices["r1"].isna(), ID].tolist()
    if without:
        people = format_count(len(without), "person has", "people have")
        what = f"{people} no R-index, because every ensemble member that agrees with the others was trained on them"
        cure, code = "Use more members", ProblemCode.PEOPLE_WITHOUT_INDEX
        doubts.append(Problem(Severity.WARNING, what, "", cure, code, offenders=tuple(without)))
    return doubts


def _fit_or_write_null_result(
    cohort: Cohort,
    study: StudyConfig,
    out: Path | None,
    store: RunStore,
    engine: Engine | None,
    problems: Sequence[Problem],
    observer: StudyObserver,
    reference: NormalReference | None,
) -> tuple[FittedModel, RegionEffects]:
    """Fit the model of a study; a study without a model is written to its folder and raised."""
    fit = CohortFit(cohort, study, store, engine or make_engine(study.run), reference, observer)
    try:
        return fit.run(), fit.tests.effects
    except NoPatternError as error:
        if out is not None:
            write_null_result(out, error.selection, cohort, [*problems, *fit.preprocessing.review(cohort)])
            write_effects(out, fit.tests.effects, cohort.regions, cohort.unit)
            observer.on_written(out)
        raise
