"""``fit``: from a cohort to a selected model."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import StudyError, join_names
from rindices.learners.ensemble import Member
from rindices.learners.outcome import TrainingOutcome
from rindices.model.fitted import FittedModel
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.choose import (
    Candidate,
    CandidateEvaluation,
    GridPoint,
    choose_grid_point,
    compute_candidate_agreement,
)
from rindices.study.build import build_model, collect_provenance, make_selection_record
from rindices.study.config import ModelConfig, make_study
from rindices.study.engines.base import Engine, MessageCallback, ProgressCallback, run_plan
from rindices.study.engines.local import LocalEngine
from rindices.study.evidence import count_cohort_dimensions, is_null_result, make_number_record
from rindices.study.exceptions import NoPatternError, UnstableError
from rindices.study.outputs import clear_outputs, write_null_result, write_study
from rindices.study.plan import MemberSet, make_data_key, make_plan
from rindices.study.recipes import get_study_recipe
from rindices.study.store import RunStore
from rindices.tables.cohort import Cohort
from rindices.threads import limit_blas_threads


def fit(
    cohort: Cohort,
    patterns: int | Sequence[int] = (2, 3, 4),
    *,
    recipe: str = "default",
    members: int = 10,
    orthogonality: float | Sequence[float] | None = None,
    correlated: bool = False,
    recipe_changes: dict[str, Any] | None = None,
    harmonise: str | None = None,
    seed: int = 0,
    workers: int = -1,
    runs: str | Path | None = None,
    engine: Engine | None = None,
    out: str | Path | None = None,
) -> FittedModel:
    """Learn R-indices from a cohort and choose among settings by agreement.

    Parameters
    ----------
    cohort : Cohort
        With controls and patients.
    patterns : int or sequence of int
        Numbers of patterns M to try.
    recipe : str
        How members are trained: ``default`` starts Surreal-GAN at the solution of a linear model on each member's own
        people, ``contrastive`` fits a faster linear model alone, ``paper`` trains as published.
    members : int
        Members a grid point.
    orthogonality : float or sequence of float
        Weights lambda to try; left out, what the recipe tries by itself.
    correlated : bool
        Learn a copula between the severities while training. Recipe ``default`` has one from the start.
    recipe_changes : dict, optional
        Values of the recipe to change, by name.
    harmonise : {'controls', 'all', 'none'}, optional
        On whom to learn what sites do; left out, controls, where the cohort has sites (`Preprocessing.fit`).
    seed : int
        The same seed gives the same numbers on any number of workers.
    workers : int
        Processes; -1 for all cores.
    runs : path, optional
        Folder for finished member sets; run again to resume.
    engine : Engine, optional
        Who trains, for instance a ``DaskEngine``; left out, processes of this machine.
    out : path, optional
        Folder for what ``rindices fit`` writes; ``rindices.write_report(out)`` makes a report of it, also where no
        pattern was found.

    Returns
    -------
    FittedModel
        With ``selection``, how the setting was chosen.

    Raises
    ------
    NoPatternError
        Where patients cannot be told from controls and several numbers of patterns were to be tried.
    """
    values: dict[str, Any] = {
        "patterns": np.atleast_1d(patterns).tolist(),
        "orthogonality": None if orthogonality is None else np.atleast_1d(orthogonality).tolist(),
        "members": members,
        "recipe": recipe,
        "correlated": correlated,
        "recipe_changes": recipe_changes or {},
    }
    study = make_study({"data": {"volumes": "memory"}, "model": values, "run": {"seed": int(seed)}}, "fit")
    kept = runs if runs is not None or out is None else Path(out) / "runs"
    place = TemporaryDirectory() if kept is None else nullcontext(str(kept))
    with place as folder, (store := RunStore(Path(folder))).lock_folder():
        if out is not None:
            clear_outputs(Path(out))
        try:
            fitted = fit_cohort(cohort, study.model, study.run.seed, store, workers, engine=engine, harmonise=harmonise)
        except NoPatternError as error:
            if out is not None:
                write_null_result(
                    Path(out), error.selection, cohort, Preprocessing.fit(cohort, harmonise).review(cohort)
                )
            raise
    if out is not None:
        write_study(Path(out), fitted, cohort)
    return fitted


@limit_blas_threads()
def fit_cohort(
    cohort: Cohort,
    model: ModelConfig,
    seed: int,
    store: RunStore,
    workers: int = -1,
    told: ProgressCallback | None = None,
    agreed: Callable[[GridPoint, float], None] | None = None,
    engine: Engine | None = None,
    say: MessageCallback | None = None,
    harmonise: str | None = None,
) -> FittedModel:
    """Run the plan of a study, choose, and build the model.

    Parameters
    ----------
    workers : int
        Processes of this machine, where no engine is given.
    told : callable, optional
        Told of every finished member set.
    agreed : callable, optional
        Told of every setting whose members are all trained, with the concordance among them.
    engine : Engine, optional
        Who trains.
    say : callable, optional
        Told what else a user should know.
    harmonise : {'controls', 'all', 'none'}, optional
        On whom to learn what sites do.
    """
    if not cohort.n_controls or not cohort.n_patients:
        raise StudyError("the cohort has no controls or no patients: name the column of groups and its labels.")
    _check_settings(cohort, model)
    preprocessing = Preprocessing.fit(cohort, harmonise)
    X, y = preprocessing.transform(cohort), cohort.is_patient.astype(np.intp)
    dimensions = count_cohort_dimensions(cohort, seed)
    if is_null_result(dimensions) and len(set(model.patterns)) > 1:
        raise NoPatternError(dimensions, model.patterns, collect_provenance(cohort, seed))
    plan = make_plan(model, seed, make_data_key(cohort, harmonise))
    watch = _ProgressWatcher(plan, store, X[y == 1], told, agreed)
    run_plan(plan, X, y, store, engine or LocalEngine(workers), watch.told, say)
    gathered = gather_members(plan, store)
    candidates = [_make_candidate(point, found, X[y == 1]) for point, found in gathered.items()]
    choice = choose_grid_point(candidates, seed)
    best = None if choice.best is None else choice.evaluations[choice.best].point.n_patterns
    selection = make_selection_record(choice, make_number_record(dimensions, model.patterns, best))
    if choice.best is None:
        advice = get_study_recipe(model.recipe).advice
        what = f"no setting gave a stable result: {_summarise_failures(choice.evaluations)}. {advice}"
        raise UnstableError(what, selection)
    return build_model(cohort, preprocessing, X, gathered, choice, model, seed, selection)


@dataclass
class _ProgressWatcher:
    """Follows a running study and tells of settings that are complete."""

    plan: Sequence[MemberSet]
    store: RunStore
    patients: FloatArray
    on_set: ProgressCallback | None
    on_setting: Callable[[GridPoint, float], None] | None
    announced: set[GridPoint] = field(default_factory=set)

    def told(self, done: float, total: int, work: MemberSet | None) -> None:
        """Pass a finished member set on, and its setting if that was the last of it."""
        if self.on_set is not None:
            self.on_set(done, total, work)
        if self.on_setting is None or work is None or work.point in self.announced:
            return
        own = [other for other in self.plan if other.point == work.point]
        if all(self.store.path(other).is_file() for other in own):
            self.announced.add(work.point)
            candidate = _make_candidate(work.point, gather_members(own, self.store)[work.point], self.patients)
            agreement = compute_candidate_agreement(candidate)
            if agreement is not None:
                self.on_setting(work.point, agreement.concordance)


def _check_settings(cohort: Cohort, model: ModelConfig) -> None:
    """Refuse what cannot come out well, before anything is trained."""
    most = max(model.patterns)
    needed = get_study_recipe(model.recipe).min_patients(most)
    if cohort.n_patients < needed or most > cohort.n_regions:
        raise StudyError(
            f"{most} patterns need at least {needed} patients and {most} regions; there are {cohort.n_patients} and "
            f"{cohort.n_regions}: ask for fewer patterns."
        )
    settings = len(make_plan(model.model_copy(update={"members": 1}), 0, ""))
    if settings > 1 and model.members < 2:
        raise StudyError(f"choosing among {settings} settings needs at least 2 members each: raise members.")


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
    told = [member.evidence for member in converged if member.evidence is not None]
    evidence = np.array(told) if told and len(told) == len(converged) else None
    return Candidate(point, indices, tuple(member.number for member in converged), len(members), evidence)


def _summarise_failures(judgements: Sequence[CandidateEvaluation]) -> str:
    return join_names([f"{_format_setting(j.point)}: {j.why}" for j in judgements], 3)


def _format_setting(point: GridPoint) -> str:
    weight = "" if point.orthogonality is None else f", lambda = {point.orthogonality:g}"
    return f"M = {point.n_patterns}{weight}"
