"""A study from its people to its files: plan, train, decide, conclude, write."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rindices.atomic import delete_temporary_files
from rindices.engine.tasks import Engine
from rindices.errors import (
    Problem,
    ProblemCode,
    Severity,
    StudyError,
    explain_write_errors,
)
from rindices.lock import lock_folder
from rindices.model.fitted import FittedModel
from rindices.study.checks import (
    check_consensus_scale,
    check_sample_size,
    list_doubts,
)
from rindices.study.cluster import make_engine
from rindices.study.conclude import conclude_study
from rindices.study.engines import NO_OBSERVER, StudyObserver
from rindices.study.exceptions import TrainingFailedError
from rindices.study.plan import check_before_tests, plan_study
from rindices.study.preflight import review_study
from rindices.study.store import RunStore
from rindices.study.study import Study, check_groups
from rindices.study.train import keep_processes, train_study
from rindices.study.write import (
    ResultsFolder,
    compute_study_digest,
    write_failed_result,
    write_study,
    write_study_file,
)
from rindices.threads import limit_blas_threads


@dataclass(frozen=True, kw_only=True)
class StudyResults:
    """Where the results of a study are written, and what is written with them.

    Attributes
    ----------
    folder : ResultsFolder
    study_file : Path or None
        File or table that the study was read from. If it is given, the study is written
        to ``study.toml``, unless that is this very file.
    problems : sequence of Problem
        Found in the table, for ``cohort.json``.
    observer : StudyObserver
    """

    folder: ResultsFolder
    study_file: Path | None
    problems: Sequence[Problem]
    observer: StudyObserver

    def write_study_file(self, study: Study) -> None:
        """Write ``study.toml`` before anything is trained, except beside the results of
        another study.
        """
        if self.study_file is not None and not self.folder.holds_other_study:
            write_study_file(self.folder.path, study.config, self.study_file)

    def write(
        self, study: Study, model: FittedModel, doubts: Sequence[Problem]
    ) -> None:
        """Write all files of a study, in the place of those of an earlier one."""
        self.folder.clear(study.config, self.study_file)
        write_study(self.folder.path, study, model, [*self.problems, *doubts])
        self.observer.on_written(self.folder.path)

    def write_failure(self, study: Study, error: TrainingFailedError) -> None:
        """Write how members were trained, if they were and none can be used."""
        if not any(member.training for member in error.members):
            return
        self.folder.clear(study.config, self.study_file)
        doubts = study.preprocessing.review(study.cohort)
        write_failed_result(self.folder.path, study, error, [*self.problems, *doubts])
        self.observer.on_written(self.folder.path)


def fit_study(
    study: Study,
    store: RunStore,
    engine: Engine | None = None,
    observer: StudyObserver = NO_OBSERVER,
    results: StudyResults | None = None,
) -> FittedModel:
    """Return the model of a study.

    It has no R-indices if no difference between patients and controls was detected.

    Parameters
    ----------
    study : Study
        The study.
    store : RunStore
        Where finished member sets are kept. Only the others are trained.
    engine : Engine or None
        By default, the one that the study names.
    observer : StudyObserver
        Is told about the progress.
    results : StudyResults or None
        Where to write. By default, nothing is written.
    """
    with limit_blas_threads():
        chosen_engine = engine or make_engine(study.config.run)
        check_before_tests(study, chosen_engine)
        with keep_processes(chosen_engine, study.config.model):
            plan = plan_study(study)
            trained = train_study(plan, store, chosen_engine, observer)
        decision = plan.end.decide(trained)
        model = conclude_study(plan, decision)
    doubts = list_doubts(model, study.cohort)
    scale = check_consensus_scale(model.card.pattern_scale)
    observer.on_problems([*doubts, *scale])
    if results is not None:
        results.write(study, model, doubts)
    return model


def run_study(
    study: Study,
    out: Path | None,
    *,
    runs: Path | None = None,
    engine: Engine | None = None,
    study_file: Path | None = None,
    table_problems: Sequence[Problem] = (),
    observer: StudyObserver = NO_OBSERVER,
) -> FittedModel:
    """Check a study, then fit it in its folder, for `rindices.fit` and ``rindices
    fit``.

    Parameters
    ----------
    study : Study
    out : Path or None
        Folder for all files. With None, nothing is written.
    runs : Path, optional
        Folder for finished member sets. Left out, ``runs`` in ``out``, else a temporary
        folder.
    engine : Engine, optional
        Left out, the one that the study names.
    study_file : Path, optional
        File or table that the study was read from, see `StudyResults`.
    table_problems : sequence of Problem
        Found while the table was read.
    observer : StudyObserver

    Returns
    -------
    FittedModel

    Raises
    ------
    TrainingFailedError
        If no member can be used. How they were trained is written nevertheless.
    StudyError
        If the study cannot be run as described, or a file cannot be written.
    """
    problems = [*table_problems, *_check_study(study)]
    results = None
    if out is not None:
        results = StudyResults(
            folder=ResultsFolder(out, compute_study_digest(study)),
            study_file=study_file,
            problems=problems,
            observer=observer,
        )
    replaced = [] if results is None else results.folder.report_other_study()
    observer.on_problems([*problems, *replaced])
    folder = runs or (None if out is None else out / "runs")
    with (
        explain_write_errors(
            f"to {out or folder}", StudyError, "make room or give another --out"
        ),
        TemporaryDirectory() if folder is None else nullcontext(folder) as path,
    ):
        store = RunStore(Path(path))
        with lock_folder(store.folder):
            delete_temporary_files(store.folder)
            if results is not None:
                results.write_study_file(study)
            try:
                return fit_study(study, store, engine, observer, results)
            except TrainingFailedError as error:
                if results is not None:
                    results.write_failure(study, error)
                raise


def _check_study(study: Study) -> list[Problem]:
    """Return the problems of a study before it is trained.

    Raises StudyError: if it cannot be run as described.
    """
    cohort, model = study.cohort, study.config.model
    # a method that cannot run is an error before earlier results are removed
    model.resolve_values()
    problems = check_sample_size(cohort.n_controls, cohort.n_patients, cohort.unit)
    check_groups(cohort)
    errors = [
        problem for problem in review_study(study) if problem.severity is Severity.ERROR
    ]
    if errors:
        raise StudyError(errors)
    problems += study.checked.problems
    if model.n_members != model.members:
        what = f"{model.n_members} members are trained instead of {model.members}: whole sets of five folds"
        problems.append(
            Problem(severity=Severity.NOTE, what=what, code=ProblemCode.MEMBERS_ROUNDED)
        )
    return problems
