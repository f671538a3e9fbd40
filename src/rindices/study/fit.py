"""``fit``: from a cohort to a selected model."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rindices.errors import Problem, Severity
from rindices.model.fitted import FittedModel
from rindices.study.config import make_study
from rindices.study.engines.base import Engine, StudyObserver
from rindices.study.exceptions import StudyWarning
from rindices.study.preflight import keep_training_scans
from rindices.study.recipes import RecipeChanges
from rindices.study.run import run_study
from rindices.tables.cohort import Cohort


def fit(
    cohort: Cohort,
    patterns: int | Sequence[int] = (2, 3, 4),
    *,
    recipe: str = "default",
    members: int = 10,
    orthogonality: float | Sequence[float] | None = None,
    correlated: bool = False,
    recipe_changes: RecipeChanges | None = None,
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
        With controls and patients. Of people with several scans, the first one is used.
    patterns : int or sequence of int
        Numbers of patterns M to try.
    recipe : str
        How members are trained: ``default`` starts Surreal-GAN at the solution of a linear model on each member's own
        people, ``contrastive`` fits a faster linear model alone, ``paper`` trains as published.
    members : int
        Number of ensemble members per setting.
    orthogonality : float or sequence of float
        Weights lambda to try. Left out, the recipe decides.
    correlated : bool
        Learn a copula between the severities while training. Recipe ``default`` has one from the start.
    recipe_changes : dict, optional
        Values of the recipe to change, by name.
    harmonise : {'controls', 'all', 'none'}, optional
        People from whom site effects are learnt. Left out, controls, where the cohort has sites (`Preprocessing.fit`).
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

    Returns
    -------
    FittedModel
        Its ``selection`` says how the setting was chosen.

    Raises
    ------
    NoPatternError
        If no difference between patients and controls was detected and several numbers of patterns were to be tried.
    UnstableError
        If no setting gave a stable result.
    StudyError
        If the study cannot be run as described.

    Warns
    -----
    StudyWarning
        For reasons to doubt the result, for instance a small sample.
    """
    model = {
        "patterns": np.atleast_1d(patterns).tolist(),
        "orthogonality": None if orthogonality is None else np.atleast_1d(orthogonality).tolist(),
        "members": members,
        "recipe": recipe,
        "correlated": correlated,
        "recipe_changes": dict(recipe_changes or {}),
    }
    data = {"volumes": "memory", "harmonise": harmonise}
    cohort, problems = keep_training_scans(cohort, [])
    study = make_study({"data": data, "model": model, "run": {"seed": int(seed), "workers": workers}}, "fit")
    return run_study(
        cohort,
        study,
        None if out is None else Path(out),
        runs=None if runs is None else Path(runs),
        engine=engine,
        table_problems=problems,
        observer=StudyObserver(on_problems=_warn_about_problems),
    )


def _warn_about_problems(problems: Sequence[Problem]) -> None:
    """Issue a warning for each problem; it points at the line that called `fit`."""
    for problem in problems:
        if problem.severity is Severity.WARNING:
            warnings.warn(str(problem), StudyWarning, stacklevel=4)
