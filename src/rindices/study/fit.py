"""``fit``: from a cohort to a selected model and its files."""

import warnings
from collections.abc import Mapping, Sequence
from inspect import currentframe, signature
from pathlib import Path
from typing import Any

import numpy as np

from rindices.engine.tasks import Engine
from rindices.errors import (
    Findings,
    Problem,
    Severity,
    StudyError,
    did_you_mean,
    join_names,
    name_arguments,
    name_problem_arguments,
)
from rindices.model.fitted import FittedModel
from rindices.model.normal_reference import (
    MUSE_REFERENCE,
    NormalReference,
    load_reference_file,
)
from rindices.old_names import OLD_SETTINGS
from rindices.preprocess.measures import DEFAULT_ICV_FOR
from rindices.study.config import StudyConfig, make_study
from rindices.study.engines import StudyObserver
from rindices.study.exceptions import StudyWarning
from rindices.study.methods import DEFAULT_METHOD, MethodSettings
from rindices.study.preflight import (
    keep_training_scans,
    list_settings_without_effect,
)
from rindices.study.progress import FitProgress
from rindices.study.run import run_study
from rindices.study.settings import SettingSource
from rindices.study.study import Study
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
    device: str | None = None,
    harmonise: str | None = None,
    harmonise_to: str | None = None,
    adjust: str | None = None,
    age_curve: str | None = None,
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

    Permutation tests say whether patients differ from controls, and whether they differ
    from each other. If they do both, patterns are learnt. Their number and shape are
    chosen by the likelihood of held-out patients (method ``trajectories``), or by how
    well ensemble members agree (other methods). If patients differ from controls alone,
    or no setting is stable, the model has one R-index along the mean difference.
    ``model.finding`` says which it is. Where no difference between the groups was
    detected, and no single number of patterns with a stable result is asked for,
    ``model.finding`` is ``no_difference``, ``model.indices`` is None, and the model
    cannot be applied or saved. Where the members of ``surreal-gan``
    fail, the study ends with an error and has no model.

    Parameters
    ----------
    cohort : Cohort, DataFrame or path
        With controls and patients. People may have several scans (``visits``). A table
        is read by `read_cohort`.
    patterns : int or sequence of int, optional
        Numbers of patterns M to try. Left out, the numbers next to the one that the
        permutation test finds. A single number is trained whatever the tests say.
    method : str
        How members are trained. ``trajectories`` fits patterns as curves along their
        severity, by maximum likelihood. ``surreal-gan`` trains the networks of
        Surreal-GAN from a linear start, and ``surreal-gan-published`` exactly as the
        paper does. ``contrastive`` fits proportional patterns, which is faster.
        ``mean-difference`` has one index.
    members : int
        Number of ensemble members per setting.
    orthogonality : float or sequence of float
        Weights lambda to try. Left out, the method decides.
    correlated : bool
        Learn a copula between the severities while training, with the method
        ``surreal-gan``. The method ``trajectories`` estimates how severities are
        correlated in any case.
    method_settings : dict, optional
        Values of the method to change, by name.
    device : str, optional
        Torch device that trains the networks of ``surreal-gan``, such as ``cuda``. Left
        out, the CPU. Only the CPU has been tested.
    harmonise : {'controls', 'all', 'none'}, optional
        People from whom site effects are learnt. Left out, controls, where the cohort
        has sites (`Preprocessing.fit`).
    harmonise_to : str, optional
        Site to whose scale all sites are brought. Left out, that of an average site.
    adjust : {'log', 'linear', 'none'}, optional
        Scale on which measures are adjusted for covariates. By default ``log`` if all
        values are positive, else ``linear``. The method ``surreal-gan-published`` is
        linear.
    age_curve : {'auto'}, optional
        Adjust for age along a restricted cubic spline where held-out controls are more
        likely under it by a clear margin. Left out, along a straight line.
    icv_for : {'volume', 'all'}
        Regions that are adjusted for head size where a cohort has thickness and other
        measures: all but thickness, or all.
    visits : {'first', 'mean', 'all'}, optional
        What is learnt from repeat visits: the first visit of each person, the mean of
        visits, or all of them, with the change between visits coupled to the patterns
        if that makes held-out patients more likely. By default ``all`` for
        ``trajectories``, and ``mean`` for other methods. The model applies to one
        visit.
    on_outlier : {'model', 'keep', 'error'}, optional
        What to do with outlying measurements, which do not fit the person's other
        regions, such as those of a failed segmentation: treat them as missing, use
        them, or refuse them. The default is ``model``, but ``keep`` for features of any
        kind.
    reference : NormalReference, path or 'muse', optional
        Healthy people elsewhere whose correlations of regions help where controls are
        few: a `NormalReference`, a file that it wrote, or ``muse``, which comes with
        the package. A reference that does not fit gets no weight.
    seed : int
        The same seed gives the same numbers on any number of workers.
    workers : int
        Number of processes. -1 means all cores.
    runs : path, optional
        Folder for finished member sets, from which the same call resumes. By default
        ``runs`` in ``out``.
    engine : Engine, optional
        Where members are trained, for instance a ``DaskEngine``. Left out, processes of
        this machine.
    out : path, optional
        Folder for the files that ``rindices fit`` writes, also where no difference is
        detected. Only ``study.toml`` and ``report.html`` are left out;
        ``rindices.write_report(out)`` writes the report.
    progress : bool, optional
        Whether to show how much is done on standard error. Left out, a bar in a
        terminal, a line in a notebook, and nothing elsewhere.
    **reading
        Arguments of `read_cohort` for a table: ``participants``, ``group``,
        ``covariates``, ...

    Returns
    -------
    FittedModel
        Its ``findings`` say what was found, and its ``selection`` how the setting was
        chosen.

    Raises
    ------
    StudyError
        If the study cannot be run as described, or all members of ``surreal-gan`` fail.

    Warns
    -----
    StudyWarning
        For reasons to doubt the result, for instance a small sample.

    Examples
    --------
    >>> import rindices as ri
    >>> cohort = ri.simulate_cohort("tiny", seed=0).cohort
    >>> model = ri.fit(cohort, method="mean-difference", patterns=1, workers=1)
    >>> model.n_patterns, len(model.regions)
    (1, 139)
    >>> model.indices[["participant_id", "group"]].head(2)
      participant_id    group
    0        sub-001  control
    1        sub-002  control
    """
    if not isinstance(cohort, Cohort):
        check_tables(cohort, "cohort")
    model = {
        "patterns": _to_list(patterns),
        "orthogonality": _to_list(orthogonality),
        "members": _to_plain(members),
        "method": method,
        "correlated": _to_plain(correlated),
        "method_settings": _add_device(_to_dict(method_settings), device),
    }
    data = {
        "harmonise": harmonise,
        "harmonise_to": harmonise_to,
        "adjust": adjust,
        "age_curve": age_curve,
        "icv_for": icv_for,
        "visits": visits,
        "on_outlier": on_outlier,
    }
    run = {"seed": _to_plain(seed), "workers": _to_plain(workers)}
    _take_old_settings(model, reading)
    _check_arguments(reference, engine, reading)
    config = _make_config(data, model, run, reference)
    study, problems = _read_study(cohort, config, reference, reading)
    return _run(study, problems, _to_path(out), _to_path(runs), engine, progress)


def _run(
    study: Study,
    problems: Sequence[Problem],
    out: Path | None,
    runs: Path | None,
    engine: Engine | None,
    progress: bool | None,
) -> FittedModel:
    """Run a study with a progress bar, and warn of reasons to doubt its result."""
    with name_arguments(), FitProgress("fit", progress) as shown:
        fitted = run_study(
            study,
            out,
            runs=runs,
            engine=engine,
            table_problems=problems,
            observer=StudyObserver(
                on_progress=shown.update,
                on_problems=_warn_about_problems,
                on_training=shown.watch,
            ),
        )
    if fitted.ending is not None:
        _warn(fitted.ending)
    return fitted


def _add_device(settings: Any, device: str | None) -> Any:
    """Return the settings of a method with the device of its networks."""
    return settings if device is None else {**(settings or {}), "device": device}


def _to_path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _take_old_settings(model: dict[str, Any], reading: dict[str, Any]) -> None:
    """Move settings that were given under an old name to those of the model."""
    for old, new in OLD_SETTINGS.items():
        if old in reading:
            model[old] = _to_dict(reading.pop(old))
            if model[new] in (DEFAULT_METHOD, {}):
                del model[new]


def _make_config(
    data: Mapping[str, Any],
    model: Mapping[str, Any],
    run: Mapping[str, Any],
    reference: NormalReference | str | Path | None,
) -> StudyConfig:
    """Return the settings of a study of people in memory."""
    own: dict[str, Any] = {"volumes": "memory", **data}
    if isinstance(reference, NormalReference):
        own["reference"] = reference.name
    elif reference is not None:
        own["reference"] = str(reference)
    return make_study(
        {"data": own, "model": model, "run": run},
        SettingSource("fit", is_python=True),
        lambda text: warnings.warn(text, FutureWarning, stacklevel=6),
    )


def _read_study(
    cohort: Cohort | AnyTable,
    config: StudyConfig,
    reference: NormalReference | str | Path | None,
    reading: Mapping[str, Any],
) -> tuple[Study, list[Problem]]:
    """Return the study with its people and its reference, and problems to report.

    reading: arguments of `read_cohort` for a table.
    """
    if not isinstance(cohort, Cohort):
        cohort = read_cohort(cohort, **reading)
    elif reading:
        raise TypeError(
            f"fit takes {join_names(reading)} with a table, not with a Cohort: give them to read_cohort"
        )
    cohort, problems = keep_training_scans(cohort, [], config.data.visits)
    imputed = Findings(where="covariates")
    report_imputed(cohort.covariates, cohort.people[ID].tolist(), imputed)
    with name_arguments():
        if unused := list_settings_without_effect(cohort, config.data):
            raise StudyError(unused)
    if isinstance(reference, str | Path):
        reference = load_reference_file(reference)
    return Study(cohort, config, reference), [*problems, *imputed]


def _to_list(values: Any) -> Any:
    """Return one or several numbers as a list, and None as it is."""
    return None if values is None else np.atleast_1d(values).tolist()


def _to_dict(settings: Any) -> Any:
    """Return a mapping, or None, as a dictionary, and anything else as it is."""
    return dict(settings or {}) if isinstance(settings or {}, Mapping) else settings


def _to_plain(value: Any) -> Any:
    """Return a number of numpy as one of Python, and anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def _check_arguments(reference: Any, engine: Any, reading: Mapping[str, Any]) -> None:
    """Refuse arguments of another type, and those that `fit` and `read_cohort` do not
    have.
    """
    if reference is not None and not isinstance(
        reference, NormalReference | str | Path
    ):
        cure = (
            'give rindices.NormalReference.fit(cohort), a file that it wrote, or "muse"'
        )
        raise StudyError(f"reference is a {type(reference).__name__}: {cure}.")
    if (
        isinstance(reference, str | Path)
        and reference != MUSE_REFERENCE
        and Path(reference).suffix != ".safetensors"
    ):
        cure = (
            "learn one from it: rindices.NormalReference.fit(rindices.read_cohort(...))"
        )
        raise StudyError(f"reference is the table {Path(reference).name}: {cure}.")
    if engine is not None and not hasattr(engine, "start"):
        cure = "give an engine, such as rindices.engine.cluster.DaskEngine(workers=2)"
        raise StudyError(f"engine is {engine!r}: {cure}.")
    own, others = (list(signature(each).parameters) for each in (fit, read_cohort))
    if unknown := [name for name in reading if name not in others]:
        raise TypeError(
            f"fit has no argument '{unknown[0]}': {did_you_mean(unknown[0], [*own[:-1], *others])}"
        )


def _warn_about_problems(problems: Sequence[Problem]) -> None:
    """Issue a warning for each problem that is one."""
    for problem in problems:
        if problem.severity is Severity.WARNING:
            _warn(problem)


def _warn(problem: Problem) -> None:
    """Issue a warning that points at the line that called `fit`."""
    level, frame = 1, currentframe()
    while frame is not None and frame.f_code is not fit.__code__:
        level, frame = level + 1, frame.f_back
    text = str(name_problem_arguments(problem))
    warnings.warn(text, StudyWarning, stacklevel=level + 1)
