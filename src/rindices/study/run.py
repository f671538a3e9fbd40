"""Run a study: train, choose, build the model, write the files."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import Problem, StudyError, describe_os_error, join_names
from rindices.learners.ensemble import Member
from rindices.learners.outcome import TrainingOutcome
from rindices.model.fitted import FittedModel
from rindices.model.records import ProvenanceRecord, SelectionRecord
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.choose import (
    Candidate,
    CandidateEvaluation,
    GridPoint,
    choose_grid_point,
    compute_candidate_agreement,
)
from rindices.selection.dimensions import DimensionEstimate
from rindices.study.build import build_model, collect_provenance, make_selection_record
from rindices.study.config import ModelConfig, StudyConfig
from rindices.study.engines.base import Engine, StudyObserver, run_plan
from rindices.study.engines.local import LocalEngine
from rindices.study.engines.registry import make_engine
from rindices.study.exceptions import NoPatternError, UnstableError
from rindices.study.number_of_patterns import count_cohort_dimensions, make_number_record
from rindices.study.outputs import clear_outputs, write_null_result, write_selection, write_study, write_study_file
from rindices.study.plan import MemberSet, make_data_key, make_plan
from rindices.study.recipes import get_study_recipe
from rindices.study.result_checks import check_consensus_scale, collect_study_warnings
from rindices.study.sample_size import check_sample_size
from rindices.study.store import RunStore
from rindices.tables.cohort import Cohort
from rindices.threads import limit_blas_threads

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
) -> FittedModel:
    """Run a study and write its files; used by `rindices.fit` and by ``rindices fit``.

    Parameters
    ----------
    cohort : Cohort
    study : StudyConfig
        Its section ``data`` is used for harmonisation alone; the rest was read into ``cohort``.
    out : Path, optional
        Folder for all files; left out, nothing is written.
    runs : Path, optional
        Folder for finished member sets. Left out, ``runs`` in ``out``, else a temporary folder.
    engine : Engine, optional
        Left out, the one that the study names.
    study_file : Path, optional
        File or table that the study was read from. If it is given, the study is written to ``study.toml``, unless that
        is this very file.
    table_problems : sequence of Problem
        Problems found while reading the table, for ``cohort.json``.
    observer : StudyObserver

    Returns
    -------
    FittedModel

    Raises
    ------
    NoPatternError, UnstableError
        If the study ends without a model; ``selection.json`` is written nevertheless.
    StudyError
        If the study cannot be run as described, or a file cannot be written.
    """
    problems = [*table_problems, *check_sample_size(cohort.n_controls, cohort.n_patients)]
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
                model = _fit_or_write_failure(cohort, study, out, store, engine, problems, observer)
                doubts = _list_doubts(model, cohort)
                observer.on_problems([*doubts, *check_consensus_scale(model.card.pattern_scale)])
                if out is not None:
                    write_study(out, model, cohort, [*problems, *doubts])
                    observer.on_written(out)
    except OSError as error:
        raise StudyError(
            f"cannot write to {out or folder} ({describe_os_error(error)}): make room or give another --out."
        ) from error
    return model


def _list_doubts(model: FittedModel, cohort: Cohort) -> list[Problem]:
    """Return what the adjustment, the test and the patterns of a model give reason to doubt."""
    number, patterns = model.card.number_of_patterns, model.card.pattern_evidence
    return [*model.preprocessing.review(cohort), *([] if number is None else collect_study_warnings(number, patterns))]


def _fit_or_write_failure(
    cohort: Cohort,
    study: StudyConfig,
    out: Path | None,
    store: RunStore,
    engine: Engine | None,
    problems: Sequence[Problem],
    observer: StudyObserver,
) -> FittedModel:
    """Fit the model of a study; a study without a model is written to its folder and raised."""
    harmonise, engine = study.data.harmonise, engine or make_engine(study.run)
    try:
        return fit_cohort(
            cohort, study.model, study.run.seed, store, engine=engine, harmonise=harmonise, observer=observer
        )
    except NoPatternError as error:
        if out is not None:
            review = Preprocessing.fit(cohort, harmonise).review(cohort)
            write_null_result(out, error.selection, cohort, [*problems, *review])
            observer.on_written(out)
        raise
    except UnstableError as error:
        if out is not None:
            write_selection(out, error.selection)
        raise


@limit_blas_threads()
def fit_cohort(
    cohort: Cohort,
    model: ModelConfig,
    seed: int,
    store: RunStore,
    workers: int = -1,
    *,
    engine: Engine | None = None,
    harmonise: str | None = None,
    observer: StudyObserver = _NO_OBSERVER,
) -> FittedModel:
    """Train what the store lacks, choose a setting and build the model.

    Parameters
    ----------
    cohort : Cohort
    model : ModelConfig
    seed : int
    store : RunStore
    workers : int
        Number of processes of this machine, where no engine is given.
    engine : Engine, optional
    harmonise : {'controls', 'all', 'none'}, optional
        People from whom site effects are learnt.
    observer : StudyObserver

    Returns
    -------
    FittedModel

    Raises
    ------
    NoPatternError, UnstableError
        If the study ends without a model.
    """
    if not cohort.n_controls or not cohort.n_patients:
        raise StudyError("the cohort has no controls or no patients: name the column of groups and its labels.")
    check_settings(cohort, model)
    preprocessing = Preprocessing.fit(cohort, harmonise)
    X, y = preprocessing.transform(cohort), cohort.is_patient.astype(np.intp)
    dimensions = count_cohort_dimensions(cohort, seed)
    if dimensions.is_null and len(set(model.patterns)) > 1:
        raise _make_no_pattern_error(dimensions, model.patterns, collect_provenance(cohort, seed))
    plan = make_plan(model, seed, make_data_key(cohort, harmonise))
    watcher = _SettingWatcher(plan, store, X[y == 1], observer)
    run_plan(plan, X, y, store, engine or LocalEngine(workers), replace(observer, on_progress=watcher.update))
    gathered = gather_members(plan, store)
    candidates = [_make_candidate(point, members, X[y == 1]) for point, members in gathered.items()]
    choice = choose_grid_point(candidates, seed)
    best = None if choice.best is None else choice.evaluations[choice.best].point.n_patterns
    selection = make_selection_record(choice, make_number_record(dimensions, model.patterns, best))
    if choice.best is None:
        advice = get_study_recipe(model.recipe).advice
        what = f"no setting gave a stable result: {_summarise_failures(choice.evaluations)}. {advice}"
        raise UnstableError(what, selection)
    return build_model(cohort, preprocessing, X, gathered, choice, model, seed, selection)


def _make_no_pattern_error(
    dimensions: DimensionEstimate, tried: Sequence[int], origin: ProvenanceRecord
) -> NoPatternError:
    what = (
        f"no disease pattern found: patients differ from controls no more than labels drawn by chance do "
        f"(p = {dimensions.dimension_tests[0].p:.2f}). To train all the same, name one number of patterns."
    )
    number = make_number_record(dimensions, tried, None)
    return NoPatternError(what, SelectionRecord(None, number_of_patterns=number, made_with=origin))


@dataclass
class _SettingWatcher:
    """Passes progress on, and announces each setting when all its members are trained."""

    plan: Sequence[MemberSet]
    store: RunStore
    patients: FloatArray
    observer: StudyObserver
    announced: set[GridPoint] = field(default_factory=set)

    def update(self, done: float, total: int, work: MemberSet | None) -> None:
        """Take note of a finished member set."""
        self.observer.on_progress(done, total, work)
        if work is None or work.point in self.announced:
            return
        setting = [other for other in self.plan if other.point == work.point]
        if all(self.store.path(other).is_file() for other in setting):
            self.announced.add(work.point)
            candidate = _make_candidate(work.point, gather_members(setting, self.store)[work.point], self.patients)
            agreement = compute_candidate_agreement(candidate)
            if agreement is not None:
                self.observer.on_setting(work.point, agreement.concordance)


def check_settings(cohort: Cohort, model: ModelConfig) -> None:
    """Refuse settings that cannot succeed, before anything is trained.

    Parameters
    ----------
    cohort : Cohort
    model : ModelConfig

    Raises
    ------
    StudyError
        If there are too few patients, regions or members.
    """
    max_patterns = max(model.patterns)
    min_patients = get_study_recipe(model.recipe).min_patients(max_patterns)
    if cohort.n_patients < min_patients or max_patterns > cohort.n_regions:
        raise StudyError(
            f"{max_patterns} patterns need at least {min_patients} patients and {max_patterns} regions; there are "
            f"{cohort.n_patients} and {cohort.n_regions}: ask for fewer patterns."
        )
    n_settings = len(make_plan(model.model_copy(update={"members": 1}), 0, ""))
    if n_settings > 1 and model.members < 2:
        raise StudyError(f"choosing among {n_settings} settings needs at least 2 members each: raise members.")


def gather_members(plan: Sequence[MemberSet], store: RunStore) -> dict[GridPoint, list[Member]]:
    """Return all members by grid point."""
    gathered: dict[GridPoint, list[Member]] = {}
    for work in plan:
        members = store.load(work)
        if members is None:
            raise StudyError(f"{store.path(work)} vanished or was damaged while the study ran: run it again.")
        gathered.setdefault(work.point, []).extend(members)
    return gathered


def _make_candidate(point: GridPoint, members: Sequence[Member], patients: FloatArray) -> Candidate:
    converged = [member for member in members if member.outcome is TrainingOutcome.CONVERGED]
    shape = (0, len(patients), point.n_patterns)
    indices = np.stack([member.head.infer(patients) for member in converged]) if converged else np.zeros(shape)
    split_halves = [member.evidence for member in converged if member.evidence is not None]
    evidence = np.array(split_halves) if split_halves and len(split_halves) == len(converged) else None
    return Candidate(point, indices, tuple(member.number for member in converged), len(members), evidence)


def _summarise_failures(evaluations: Sequence[CandidateEvaluation]) -> str:
    return join_names([f"{_format_setting(evaluation.point)}: {evaluation.why}" for evaluation in evaluations], 3)


def _format_setting(point: GridPoint) -> str:
    weight = "" if point.orthogonality is None else f", lambda = {point.orthogonality:g}"
    return f"M = {point.n_patterns}{weight}"
