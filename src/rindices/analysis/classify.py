"""Classification of patients and controls by R-indices and by all regions (section B.8
of the paper).
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import rindices.analysis.tidy as tidy
from rindices._typing import FloatArray, IntArray
from rindices.analysis.compare import find_controls
from rindices.errors import AnalysisError, name_arguments
from rindices.learners.prepared_people import order_by_values
from rindices.preprocess.pipeline import Preprocessing
from rindices.tables.cohort import GROUP, ID, SESSION, SITE, Cohort
from rindices.wording import load_columns

PARAM_GRID: tuple[Mapping[str, Any], ...] = (
    {"svc__kernel": ["linear"], "svc__C": [0.001, 0.01, 0.1, 1.0]},
    {"svc__kernel": ["rbf"], "svc__C": [0.1, 1.0, 10.0], "svc__gamma": ["scale"]},
)
REGIONS = "regions"
_N_INNER_FOLDS = 5

COLUMN_DESCRIPTIONS = load_columns("classification")
SUMMARY_COLUMN_DESCRIPTIONS = load_columns("summary")


def _check_splits(y: IntArray, repeats: int, test_size: float) -> None:
    """Refuse groups that are too small to classify, and splits that are none."""
    smaller, least = int(min(y.sum(), len(y) - y.sum())), 2 * _N_INNER_FOLDS
    if smaller < least:
        what = f"{smaller} people in the smaller group are too few to classify"
        raise AnalysisError(f"{what}: at least {least} are needed.")
    if repeats < 1 or not 0 < test_size < 1:
        raise AnalysisError(
            "give at least one repeat, and a fraction of held-out people between 0 and 1."
        )


@name_arguments()
def classify_patients(
    indices: pd.DataFrame,
    regions: pd.DataFrame | Cohort | None = None,
    *,
    repeats: int = 100,
    test_size: float = 0.2,
    seed: int = 0,
    grid: Sequence[Mapping[str, Any]] = PARAM_GRID,
    workers: int = 1,
    fit_preprocessing: Callable[[Cohort], Preprocessing] = Preprocessing.fit,
) -> pd.DataFrame:
    """Train support vector machines on random splits and score them on the held-out
    people.

    R-indices of people that the model was fitted on give too high an AUC, because the
    model has seen who is a patient. Use R-indices of held-out people
    (`rindices.analysis.reproduce`).

    Parameters
    ----------
    indices : DataFrame
        ``participant_id``, ``group``, ``r1`` to ``rM``.
    regions : DataFrame or Cohort, optional
        To compare with. The regions of a table (``participant_id`` and one column per
        region) are used as they are. Those of a cohort are adjusted for its covariates
        and sites on the training controls of each split, as R-indices are.
    repeats : int
        Number of splits. The paper: 100.
    test_size : float
        Fraction of held-out people. The paper: 0.2.
    seed : int
        The same seed gives the same splits on any number of workers.
    grid : sequence of mapping
        Parameter grid, searched by five-fold cross-validation on the training people.
    workers : int
        Number of processes. -1 means all cores.
    fit_preprocessing : callable
        Learns the adjustment of a cohort, where a study has other settings than the
        default ones.

    Returns
    -------
    DataFrame
        One row per features and split, with the columns of `COLUMN_DESCRIPTIONS`.

    Examples
    --------
    >>> import rindices as ri
    >>> simulated = ri.simulate_cohort("tiny", seed=0)
    >>> names = {"s1": "r1", "s2": "r2", "s3": "r3"}
    >>> people = simulated.cohort.people[["participant_id", "group"]]
    >>> indices = people.merge(simulated.severities.rename(columns=names), how="left")
    >>> indices = indices.fillna(0.0)  # true severities, 0 in controls
    >>> linear = [{"svc__kernel": ["linear"], "svc__C": [1.0]}]
    >>> splits = ri.analysis.classify_patients(indices, repeats=2, grid=linear)
    >>> summary = ri.analysis.summarise_auc(splits, indices)
    >>> summary[["features", "n_controls", "n_patients"]]
        features  n_controls  n_patients
    0  R-indices          80         100
    """
    y = (~find_controls(indices)).astype(np.intp)
    features = _collect_features(indices, regions)
    order = order_by_values(
        np.column_stack([y, *features.values()]), seed
    )  # whatever the order of the rows
    features, y = {name: X[order] for name, X in features.items()}, y[order]
    cohort = (
        _align_cohort(indices.iloc[order], regions)
        if isinstance(regions, Cohort)
        else None
    )
    _check_splits(y, repeats, test_size)
    splits = list(
        StratifiedShuffleSplit(repeats, test_size=test_size, random_state=seed).split(
            y, y
        )
    )
    jobs = [
        (name, X, repeat) for name, X in features.items() for repeat in range(repeats)
    ]
    scores = Parallel(n_jobs=workers)(
        delayed(_score_split)(
            X,
            y,
            *splits[repeat],
            seed,
            grid,
            cohort if name == REGIONS else None,
            fit_preprocessing,
        )
        for name, X, repeat in jobs
    )
    rows = [
        (name, X.shape[1], repeat, *score)
        for (name, X, repeat), score in zip(jobs, scores, strict=True)
    ]
    return pd.DataFrame(rows, columns=list(COLUMN_DESCRIPTIONS))


def summarise_auc(
    results: pd.DataFrame, indices: pd.DataFrame, test_size: float = 0.2
) -> pd.DataFrame:
    """Return mean, standard deviation and interval of the AUC of each set of features,
    and of their differences.

    Splits share people, so the variance over splits is too small; it is corrected
    (Nadeau and Bengio).

    Parameters
    ----------
    results : DataFrame
        Result of `classify_patients`.
    indices : DataFrame
        ``participant_id``, ``group``, ``r1`` to ``rM``.
    test_size : float
        Share of held-out people of each split.

    Returns
    -------
    DataFrame
        One row per features, with the columns of `SUMMARY_COLUMN_DESCRIPTIONS`.
    """
    wide = results.pivot_table(
        index="repeat", columns="features", values="auc", sort=False
    )
    sizes = results.groupby("features", sort=False)["n_features"].first()
    columns: dict[str, tuple[Any, pd.Series]] = {
        name: (int(sizes[name]), wide[name]) for name in wide
    }
    for one, other in combinations(wide, 2):
        columns[f"{one} minus {other}"] = (pd.NA, wide[one] - wide[other])
    controls = int(find_controls(indices).sum())
    patients = len(indices) - controls
    smaller = min(controls, patients)
    note = (
        f"few people: {smaller} in the smaller group"
        if smaller < tidy.SMALL_GROUP_SIZE
        else ""
    )
    rows = []
    for name, (width, auc) in columns.items():
        mean, sd, *ends = tidy.compute_corrected_interval(auc.to_numpy(), test_size)
        limits = np.clip(ends, 0.0 if name in wide else -1.0, 1.0)
        rows.append(
            (name, width, len(auc), controls, patients, mean, sd, *limits, note)
        )
    return pd.DataFrame(rows, columns=list(SUMMARY_COLUMN_DESCRIPTIONS)).astype(
        {"n_features": "Int64"}
    )


def _align_cohort(indices: pd.DataFrame, cohort: Cohort) -> Cohort:
    """Return the people of the R-indices, in their order and with their groups, out of
    a cohort.
    """
    site = [SITE] if SITE in cohort.people else []
    frames = (cohort.volumes, cohort.covariates, cohort.people[site])
    volumes, covariates, sites = (
        tidy.join_values(indices, tidy.add_ids(cohort, frame)) for frame in frames
    )
    keys = [name for name in (ID, SESSION) if name in indices]
    people = pd.concat([indices[[*keys, GROUP]].reset_index(drop=True), sites], axis=1)
    return Cohort(
        volumes=volumes,
        people=people,
        covariates=covariates,
        source=cohort.source,
        unit=cohort.unit,
    )


def _collect_features(
    indices: pd.DataFrame, regions: pd.DataFrame | Cohort | None
) -> dict[str, FloatArray]:
    """Return the sets of features by name; refuse missing values."""
    features = {
        "R-indices": indices[tidy.find_index_columns(indices)].to_numpy(dtype=float)
    }
    if isinstance(regions, Cohort):
        regions = tidy.add_ids(regions, regions.volumes)
    if regions is not None:
        features[REGIONS] = tidy.join_values(indices, regions).to_numpy(dtype=float)
    for name, values in features.items():
        lacking = int((~np.isfinite(values).all(axis=1)).sum())
        if lacking:
            raise AnalysisError(
                f"{lacking} people have missing values of the {name}: remove them."
            )
    return features


def _score_split(
    X: FloatArray,
    y: IntArray,
    train: IntArray,
    test: IntArray,
    seed: int,
    grid: Sequence[Mapping[str, Any]],
    cohort: Cohort | None,
    fit_preprocessing: Callable[[Cohort], Preprocessing],
) -> tuple[float, str, float]:
    """Return AUC, kernel and penalty of one split; the regions of a cohort are adjusted
    on its training controls.
    """
    if cohort is not None:
        X = fit_preprocessing(cohort.take(train)).transform(cohort)
    folds = StratifiedKFold(_N_INNER_FOLDS, shuffle=True, random_state=seed)
    pipeline = make_pipeline(StandardScaler(), SVC())
    search = GridSearchCV(pipeline, list(grid), scoring="roc_auc", cv=folds).fit(
        X[train], y[train]
    )
    auc = roc_auc_score(y[test], search.decision_function(X[test]))
    return (
        float(auc),
        str(search.best_params_["svc__kernel"]),
        float(search.best_params_["svc__C"]),
    )
