"""``fit``: from a cohort to a selected model."""

import platform
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rindices import __version__
from rindices.errors import StudyError, named
from rindices.learners.contrastive import SEVERE
from rindices.learners.heads import ContrastiveHead, SurrealHead
from rindices.learners.members import Member
from rindices.learners.outcome import Outcome
from rindices.learners.reproduction import reproduce_patterns
from rindices.learners.seats import SHARE
from rindices.model.fitted import CITATION, FittedModel
from rindices.model.intervals import Intervals, calibrate
from rindices.model.novelty import Training
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.choose import Candidate, Choice, GridPoint, Judgement, choose
from rindices.selection.patterns import standard_error
from rindices.study.config import Model, make_study
from rindices.study.endings import NoPatternError, UnstableError
from rindices.study.engines.base import Engine, Say, Told, run_plan
from rindices.study.engines.local import LocalEngine
from rindices.study.evidence import cohort_dimensions, nothing_found, number_record, patterns_record
from rindices.study.outputs import clear_outputs, write_nothing, write_study
from rindices.study.plan import MemberSet, data_key, make_plan, resolve_recipe
from rindices.study.store import RunStore
from rindices.tables.cohort import Cohort
from rindices.threads import one_thread

Floats = NDArray[np.float64]


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
    recipe : {'default', 'contrastive', 'paper'}
        How members are trained: from the solution of a linear model on their own people; by that model's faster
        relative alone; as published.
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
    with place as folder, (store := RunStore(Path(folder))).hold():
        if out is not None:
            clear_outputs(Path(out))
        try:
            fitted = fit_cohort(cohort, study.model, study.run.seed, store, workers, engine=engine, harmonise=harmonise)
        except NoPatternError as error:
            if out is not None:
                write_nothing(Path(out), error.selection, cohort, Preprocessing.fit(cohort, harmonise).review(cohort))
            raise
    if out is not None:
        write_study(Path(out), fitted, cohort)
    return fitted


@one_thread()
def fit_cohort(
    cohort: Cohort,
    model: Model,
    seed: int,
    store: RunStore,
    workers: int = -1,
    told: Told | None = None,
    agreed: Callable[[GridPoint, float], None] | None = None,
    engine: Engine | None = None,
    say: Say | None = None,
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
    dimensions = cohort_dimensions(cohort, seed)
    if nothing_found(dimensions) and len(set(model.patterns)) > 1:
        raise NoPatternError(dimensions, model.patterns, _origin(cohort, seed))
    plan = make_plan(model, seed, data_key(cohort, harmonise))
    watch = _Watch(plan, store, X[y == 1], told, agreed)
    run_plan(plan, X, y, store, engine or LocalEngine(workers), watch.told, say)
    gathered = gather(plan, store)
    candidates = [_candidate(point, found, X[y == 1]) for point, found in gathered.items()]
    choice = choose(candidates, seed)
    best = None if choice.best is None else choice.judgements[choice.best].point.n_patterns
    selection = selection_record(choice) | {"number_of_patterns": number_record(dimensions, model.patterns, best)}
    if choice.best is None:
        what = f"no setting gave a stable result: {_complaints(choice.judgements)}. {_advice(model)}"
        raise UnstableError(what, selection)
    return _build(cohort, preprocessing, X, gathered, choice, model, seed, selection)


@dataclass
class _Watch:
    """Follows a running study and tells of settings that are complete."""

    plan: Sequence[MemberSet]
    store: RunStore
    patients: Floats
    on_set: Told | None
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
            candidate = _candidate(work.point, gather(own, self.store)[work.point], self.patients)
            if len(candidate.indices) > 1:
                self.on_setting(work.point, choose([candidate]).judgements[0].concordance)


def _check_settings(cohort: Cohort, model: Model) -> None:
    """Refuse what cannot come out well, before anything is trained."""
    most = max(model.patterns)
    needed = 2 if model.recipe == "paper" else 2 * (most + 1) + 1
    if cohort.n_patients < needed or most > cohort.n_regions:
        raise StudyError(
            f"{most} patterns need at least {needed} patients and {most} regions; there are {cohort.n_patients} and "
            f"{cohort.n_regions}: ask for fewer patterns."
        )
    settings = len(make_plan(model.model_copy(update={"members": 1}), 0, ""))
    if settings > 1 and model.members < 2:
        raise StudyError(f"choosing among {settings} settings needs at least 2 members each: raise members.")


def gather(plan: Sequence[MemberSet], store: RunStore) -> dict[GridPoint, list[Member]]:
    """Return all members by grid point."""
    gathered: dict[GridPoint, list[Member]] = {}
    for work in plan:
        members = store.load(work)
        if members is None:
            raise StudyError(f"{store.path(work)} vanished or was damaged while the study ran: run it again.")
        gathered.setdefault(work.point, []).extend(members)
    return gathered


def selection_record(choice: Choice) -> dict[str, Any]:
    """Return what was compared and chosen, as plain values for ``selection.json``."""
    grid = [_judgement_record(judgement) for judgement in choice.judgements]
    best = None if choice.best is None else grid[choice.best]
    ties = [grid[place]["setting"] for place in choice.ties]
    return {"chosen": best, "ties": ties, "grid": grid, "patterns": []}


def _judgement_record(judgement: Judgement) -> dict[str, Any]:
    agreement = judgement.agreement
    numbers = {name: _plain(getattr(agreement, name, None)) for name in ("concordance", "dimension", "difference")}
    return {
        "setting": judgement.point._asdict(),
        "agreement": numbers,
        "agreement_between": judgement.between,
        "concordance_interval": [_plain(value) for value in judgement.interval],
        "members": {"trained": judgement.trained, "converged": judgement.converged},
        "stable": judgement.stable,
        "why": judgement.why,
        "by_member": _by_member(judgement),
        "pairwise": [] if agreement is None else [[_plain(value) for value in row] for row in agreement.pairwise],
    }


def _by_member(judgement: Judgement) -> list[float | None]:
    """Return the concordance that each member is judged by."""
    if judgement.agreement is None:
        return []
    own = judgement.agreement.per_member if judgement.evidence is None else judgement.evidence[:, 0]
    return [_plain(value) for value in own]


def _plain(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def _candidate(point: GridPoint, members: Sequence[Member], patients: Floats) -> Candidate:
    converged = [member for member in members if member.outcome is Outcome.CONVERGED]
    shape = (0, len(patients), point.n_patterns)
    indices = np.stack([member.head.infer(patients) for member in converged]) if converged else np.zeros(shape)
    told = [member.evidence for member in converged if member.evidence is not None]
    evidence = np.array(told) if told and len(told) == len(converged) else None
    return Candidate(point, indices, tuple(member.number for member in converged), len(members), evidence)


def _build(
    cohort: Cohort,
    preprocessing: Preprocessing,
    X: Floats,
    gathered: dict[GridPoint, list[Member]],
    choice: Choice,
    model: Model,
    seed: int,
    selection: dict[str, Any],
) -> FittedModel:
    assert choice.best is not None
    judgement = choice.judgements[choice.best]
    converged = [m for m in gathered[judgement.point] if m.outcome is Outcome.CONVERGED]
    chosen = [converged[place] for place in choice.agreeing]
    aligned = [m.patterns[:, list(order)] for m, order in zip(chosen, choice.orders, strict=True)]
    heads, unit = _to_scale([m.head for m in chosen], choice.orders, X[cohort.is_patient])
    card = {
        "unit": cohort.unit,
        "source": cohort.source,
        "covariate_ranges": _covariate_ranges(cohort),
        "trained_on": {"people": len(cohort), "controls": cohort.n_controls, "patients": cohort.n_patients},
        "orthogonality": judgement.point.orthogonality,
        "agreement": selection["chosen"]["agreement"],
        "agreement_between": judgement.between,
        "pattern_scale": [float(value) for value in unit],
        "concordance_interval": selection["chosen"]["concordance_interval"],
        "member_steps": [m.steps for m in chosen],
        "members_trained": {"trained": judgement.trained, "converged": judgement.converged},
        "recipe": dict(zip(("recipe", "values"), resolve_recipe(model), strict=True)),
        **_origin(cohort, seed),
        "citation": CITATION,
    }
    orders = tuple(tuple(int(place) for place in order) for order in choice.orders)
    patterns = np.mean(aligned, axis=0) * unit[:, None]
    share, errors = _share(*resolve_recipe(model)), None
    if len(aligned) > 1:
        errors = standard_error(np.stack(aligned) * unit[:, None], share)
        card["interval_over"] = "people" if share < 1 else "trainings"
    fitted = FittedModel(preprocessing, heads, orders, patterns, Training.learn(X), card, selection, patterns_se=errors)
    seen = reproduce_patterns(X, cohort.is_patient.astype(np.intp), fitted.infer(X), patterns[-1], seed)
    told = {"patterns": patterns_record(seen)}
    card |= {"number_of_patterns": selection["number_of_patterns"], "pattern_evidence": told["patterns"]}
    intervals = _intervals(fitted, X, cohort.is_patient, share, seed)
    return replace(fitted, card=card, selection=selection | told, intervals=intervals)


def _origin(cohort: Cohort, seed: int) -> dict[str, Any]:
    """Return what numbers come from: the people, the seed, the versions."""
    return {
        "seed": seed,
        "fingerprint": cohort.fingerprint(),
        "rindices_version": __version__,
        "versions": {"python": platform.python_version(), "numpy": version("numpy")},
    }


def _share(recipe: str, values: dict[str, Any]) -> float:
    """Return the share of the people that each member sees."""
    return SHARE if recipe == "contrastive" else float(values["share"])


def _intervals(model: FittedModel, X: Floats, patient: NDArray[np.bool_], share: float, seed: int) -> Intervals:
    """Return how far off the R-indices of a model are that was trained on prepared people (N, R)."""
    return calibrate(model.infer, model.heads[0], model.patterns, X[~patient], X[patient], share, seed)


def _covariate_ranges(cohort: Cohort) -> dict[str, list[float]]:
    """Return the range of each numeric covariate among all training people."""
    numbers = cohort.covariates.select_dtypes("number")
    return {name: [float(numbers[name].min()), float(numbers[name].max())] for name in numbers}


def _to_scale(
    heads: Sequence[ContrastiveHead | SurrealHead], orders: Sequence[NDArray[np.intp]], patients: Floats
) -> tuple[tuple[ContrastiveHead | SurrealHead, ...], Floats]:
    """Bring the consensus back to 1 at the patients' 98th percentile, and return by how much each pattern had shrunk.

    The mean of members that agree on a pattern only in part is flatter than each of them. A GAN's R-indices are on the
    scale of its severities and stay so.
    """
    width = len(orders[0])
    linear = [head for head in heads if isinstance(head, ContrastiveHead)]
    if len(linear) < len(heads):
        return tuple(heads), np.ones(width)
    joint = np.mean([head.infer(patients)[:, order] for head, order in zip(heads, orders, strict=True)], axis=0)
    unit = np.quantile(joint, SEVERE, axis=0)
    unit = np.where(unit > 1e-6, unit, 1.0)
    scaled = []
    for head, order in zip(linear, orders, strict=True):
        own = np.empty(width)
        own[order] = unit  # column order[k] of the member is pattern k of the consensus
        scaled.append(replace(head, weights=head.weights / own))
    return tuple(scaled), unit


def _complaints(judgements: Sequence[Judgement]) -> str:
    return named([f"{_setting(j.point)}: {j.why}" for j in judgements], 3)


def _setting(point: GridPoint) -> str:
    weight = "" if point.orthogonality is None else f", lambda = {point.orthogonality:g}"
    return f"M = {point.n_patterns}{weight}"


def _advice(model: Model) -> str:
    if model.recipe == "paper":
        return "Train longer (max_steps), with fewer patterns, or use more people."
    return "Try fewer patterns, or more people."
