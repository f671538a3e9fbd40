"""``fit``: from a cohort to a selected model and its files."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rindices.atomic import delete_temporary_files
from rindices.errors import (
    Findings,
    Problem,
    ProblemCode,
    Severity,
    StudyError,
    did_you_mean,
    explain_write_errors,
    join_names,
    name_arguments,
    name_problem_arguments,
)
from rindices.lock import lock_folder
from rindices.model.fitted import FittedModel
from rindices.model.normal_reference import MUSE_REFERENCE, NormalReference, load_reference_file
from rindices.old_names import OLD_SETTINGS
from rindices.preprocess.measures import DEFAULT_ICV_FOR
from rindices.study.checks import check_consensus_scale, check_sample_size, list_doubts, report_artefacts
from rindices.study.cohort_fit import fit_study
from rindices.study.conclude import conclude_without_model
from rindices.study.config import make_study
from rindices.study.engines import NO_OBSERVER, Engine, StudyObserver
from rindices.study.exceptions import NoPatternError, StudyWarning, TrainingFailedError
from rindices.study.methods import DEFAULT_METHOD, MethodSettings
from rindices.study.outputs import (
    ResultsFolder,
    compute_study_digest,
    write_failed_result,
    write_null_result,
    write_study,
    write_study_file,
)
from rindices.study.preflight import keep_training_scans, list_settings_without_effect, review_study
from rindices.study.progress import FitProgress
from rindices.study.settings import SettingSource
from rindices.study.store import RunStore
from rindices.study.study import Study, check_groups
from rindices.tables.arguments import check_tables
from rindices.tables.cohort import ID, Cohort
from rindices.tables.readers import AnyTable, read_cohort
from rindices.tables.regions import report_imputed


def fit(
    cohort: Cohort | AnyTable,
    patterns: int | Sequence[int] | None = None,
    *,
    method: str = DEFAULT_METHOD,
    members: int = 10,
    orthogonality: float | Sequence[float] | None = None,
    correlated: bool = False,
    method_settings: MethodSettings | None = None,
    harmonise: str | None = None,
    adjust: str | None = None,
    icv_for: str = DEFAULT_ICV_FOR,
    visits: str | None = None,
    on_outlier: str | None = None,
    reference: NormalReference | str | Path | None = None,
    seed: int = 0,
    workers: int = -1,
    runs: str | Path | None = None,
    engine: Engine | None = None,
    out: str | Path | None = None,
    progress: bool | None = None,
    **reading: Any,
) -> FittedModel:
    """Learn R-indices from a cohort.

    Permutation tests say whether patients differ from controls, and whether they differ from each other. If they do
    both, patterns are learnt. Their number and shape are chosen by the likelihood of held-out patients (method
    ``trajectories``), or by how well ensemble members agree (other methods). If patients differ from controls alone, or
    no setting is stable, the model has one R-index along the mean difference. ``model.selection.finding`` says which it
    is. Where the members of ``surreal-gan`` fail, the study ends with an error and has no model.

    Parameters
    ----------
    cohort : Cohort, DataFrame or path
        With controls and patients. People may have several scans (``visits``). A table is read by `read_cohort`.
    patterns : int or sequence of int, optional
        Numbers of patterns M to try. Left out, the numbers next to the one that the permutation test finds. A single
        number is trained whatever the tests say.
    method : str
        How members are trained. ``trajectories`` fits patterns as curves along their severity, by maximum likelihood.
        ``surreal-gan`` trains the networks of Surreal-GAN from a linear start, and ``surreal-gan-published`` exactly as
        the paper does. ``contrastive`` fits straight patterns, which is faster. ``mean-difference`` has one index.
    members : int
        Number of ensemble members per setting.
    orthogonality : float or sequence of float
        Weights lambda to try. Left out, the method decides.
    correlated : bool
        Learn a copula between the severities while training, with the method ``surreal-gan``. The method
        ``trajectories`` estimates how severities are correlated in any case.
    method_settings : dict, optional
        Values of the method to change, by name.
    harmonise : {'controls', 'all', 'none'}, optional
        People from whom site effects are learnt. Left out, controls, where the cohort has sites (`Preprocessing.fit`).
    adjust : {'log', 'linear', 'none'}, optional
        Scale on which measures are adjusted for covariates. Left out, ``log`` if all values are positive, else
        ``linear``; method ``surreal-gan-published`` is linear.
    icv_for : {'volume', 'all'}
        Regions that are adjusted for head size where a cohort has thickness and other measures: all but thickness, or
        all.
    visits : {'first', 'mean', 'all'}, optional
        What is learnt from repeat visits: the first visit of each person, the mean of visits, or all of them, with the
        change between visits coupled to the patterns if that makes held-out patients more likely. Left out, ``all``;
        for other methods than ``trajectories``, ``mean``. The model applies to one visit.
    on_outlier : {'model', 'keep', 'error'}, optional
        What to do with cells that do not fit the person's other regions, such as those of a failed segmentation: treat
        them as missing, use them, or refuse them. Left out, ``model``, but ``keep`` for features of any kind.
    reference : NormalReference, path or 'muse', optional
        Healthy people elsewhere whose correlations of regions help where controls are few: a `NormalReference`, a file
        that it wrote, or ``muse``, which comes with the package. A reference that does not fit gets no weight.
    seed : int
        The same seed gives the same numbers on any number of workers.
    workers : int
        Number of processes; -1 for all cores.
    runs : path, optional
        Folder for finished member sets; run again to resume. Left out, ``runs`` in ``out``.
    engine : Engine, optional
        Where members are trained, for instance a ``DaskEngine``. Left out, processes of this machine.
    out : path, optional
        Folder for the files that ``rindices fit`` writes, also where the study ends without a model. Only
        ``study.toml`` and ``report.html`` are left out; ``rindices.write_report(out)`` writes the report.
    progress : bool, optional
        Whether to show how much is done on standard error. Left out, a bar in a terminal, a line in a notebook, and
        nothing elsewhere.
    **reading
        Arguments of `read_cohort` for a table: ``participants``, ``group``, ``covariates``, ...

    Returns
    -------
    FittedModel
        Its ``selection`` says how the setting was chosen.

    Raises
    ------
    NoPatternError
        If no difference between patients and controls was detected, unless a single number of patterns is given and
        its result is stable.
    StudyError
        If the study cannot be run as described, or all members of ``surreal-gan`` fail.

    Warns
    -----
    StudyWarning
        For reasons to doubt the result, for instance a small sample.
    """
    if not isinstance(cohort, Cohort):
        check_tables(cohort, "cohort")
    model: dict[str, Any] = {
        "patterns": None if patterns is None else np.atleast_1d(patterns).tolist(),
        "orthogonality": None if orthogonality is None else np.atleast_1d(orthogonality).tolist(),
        "members": _to_plain(members),
        "method": method,
        "correlated": _to_plain(correlated),
        "method_settings": _to_dict(method_settings),
    }
    for old, new in OLD_SETTINGS.items():
        if old in reading:
            model[old] = _to_dict(reading.pop(old))
            if model[new] in (DEFAULT_METHOD, {}):
                del model[new]
    _check_arguments(reference, engine, reading)
    data = {"volumes": "memory", "harmonise": harmonise, "adjust": adjust, "icv_for": icv_for, "visits": visits}
    data["on_outlier"] = on_outlier
    if reference is not None:
        data["reference"] = reference.name if isinstance(reference, NormalReference) else str(reference)
    run = {"seed": _to_plain(seed), "workers": _to_plain(workers)}
    config = make_study(
        {"data": data, "model": model, "run": run},
        SettingSource("fit", is_python=True),
        lambda text: warnings.warn(text, FutureWarning, stacklevel=5),
    )
    if not isinstance(cohort, Cohort):
        cohort = read_cohort(cohort, **reading)
    elif reading:
        raise TypeError(f"fit takes {join_names(reading)} with a table, not with a Cohort: give them to read_cohort")
    cohort, problems = keep_training_scans(cohort, [], visits)
    imputed = Findings(where="covariates")
    report_imputed(cohort.covariates, cohort.people[ID].tolist(), imputed)
    with name_arguments():
        if unused := list_settings_without_effect(cohort, config.data):
            raise StudyError(unused)
    if isinstance(reference, str | Path):
        reference = load_reference_file(reference)
    with name_arguments(), FitProgress("fit", progress) as shown:
        return run_study(
            Study(cohort, config, reference),
            None if out is None else Path(out),
            runs=None if runs is None else Path(runs),
            engine=engine,
            table_problems=[*problems, *imputed],
            observer=StudyObserver(on_progress=shown.update, on_problems=_warn_about_problems, on_training=shown.watch),
        )


def _to_dict(settings: Any) -> Any:
    """Return a mapping, or None, as a dictionary, and anything else as it is."""
    return dict(settings or {}) if isinstance(settings or {}, Mapping) else settings


def _to_plain(value: Any) -> Any:
    """Return a number of numpy as one of Python, and anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def _check_arguments(reference: Any, engine: Any, reading: Mapping[str, Any]) -> None:
    """Refuse arguments of another type, and those that `fit` and `read_cohort` do not have."""
    if reference is not None and not isinstance(reference, NormalReference | str | Path):
        cure = 'give rindices.NormalReference.fit(cohort), a file that it wrote, or "muse"'
        raise StudyError(f"reference is a {type(reference).__name__}: {cure}.")
    if isinstance(reference, str | Path) and reference != MUSE_REFERENCE and Path(reference).suffix != ".safetensors":
        cure = "learn one from it: rindices.NormalReference.fit(rindices.read_cohort(...))"
        raise StudyError(f"reference is the table {Path(reference).name}: {cure}.")
    if engine is not None and not hasattr(engine, "run"):
        cure = "give an engine, such as rindices.study.cluster.DaskEngine(workers=2)"
        raise StudyError(f"engine is {engine!r}: {cure}.")
    own, others = (list(signature(each).parameters) for each in (fit, read_cohort))
    if unknown := [name for name in reading if name not in others]:
        raise TypeError(f"fit has no argument '{unknown[0]}': {did_you_mean(unknown[0], [*own[:-1], *others])}")


def _warn_about_problems(problems: Sequence[Problem]) -> None:
    """Issue a warning for each problem; it points at the line that called `fit`."""
    for problem in problems:
        if problem.severity is Severity.WARNING:
            warnings.warn(str(name_problem_arguments(problem)), StudyWarning, stacklevel=4)


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
    """Run a study and write its files; used by `rindices.fit` and by ``rindices fit``.

    out: folder for all files; left out, nothing is written; runs: folder for finished member sets. Left out, ``runs``
    in ``out``, else a temporary folder; engine: left out, the one that the study names; study_file: file or table that
    the study was read from. If it is given, the study is written to ``study.toml``, unless that is this very file;
    table_problems: problems found while reading the table, for ``cohort.json``. Raises NoPatternError: if no difference
    between patients and controls was detected; all other files are written nevertheless. Raises TrainingFailedError: if
    no member can be used; how they were trained is written nevertheless. Raises StudyError: if the study cannot be run
    as described, or a file cannot be written.
    """
    cohort, model_config = study.cohort, study.config.model
    model_config.resolve_values()  # a method that cannot run is an error before earlier results are removed
    problems = [*table_problems, *check_sample_size(cohort.n_controls, cohort.n_patients, cohort.unit)]
    check_groups(cohort)
    if errors := [problem for problem in review_study(study) if problem.severity is Severity.ERROR]:
        raise StudyError(errors)
    problems += study.checked.problems
    if model_config.n_members != model_config.members:
        what = (
            f"{model_config.n_members} members are trained instead of {model_config.members}: whole sets of five folds"
        )
        problems.append(Problem(Severity.NOTE, what, code=ProblemCode.MEMBERS_ROUNDED))
    results = None if out is None else ResultsFolder(out, compute_study_digest(study))
    observer.on_problems([*problems, *([] if results is None else results.report_other_study())])
    folder = runs or (None if out is None else out / "runs")
    with (
        explain_write_errors(f"to {out or folder}", StudyError, "make room or give another --out"),
        TemporaryDirectory() if folder is None else nullcontext(folder) as path,
    ):
        store = RunStore(Path(path))
        with lock_folder(store.folder):
            delete_temporary_files(store.folder)
            if results is not None and study_file is not None and not results.holds_other_study:
                write_study_file(results.path, study.config, study_file)
            try:
                model = fit_study(study, store, engine, observer)
            except NoPatternError as error:
                error.findings = conclude_without_model(study, error.selection)
                if results is not None:
                    results.clear(study.config, study_file)
                    found = [*problems, *study.preprocessing.review(cohort), *report_artefacts(error.findings)]
                    write_null_result(results.path, study, error, found)
                    observer.on_written(results.path)
                raise
            except TrainingFailedError as error:
                if results is not None and any(member.training for member in error.members):
                    results.clear(study.config, study_file)
                    write_failed_result(results.path, study, error, [*problems, *study.preprocessing.review(cohort)])
                    observer.on_written(results.path)
                raise
            doubts = list_doubts(model, cohort)
            observer.on_problems([*doubts, *check_consensus_scale(model.card.pattern_scale)])
            if results is not None:
                results.clear(study.config, study_file)
                write_study(results.path, study, model, [*problems, *doubts])
                observer.on_written(results.path)
    return model
