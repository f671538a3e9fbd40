"""Suite ``patients``: how sharp scores are on real patients, measured on people whom
they were not learnt from.

Everything is learnt inside the training folds: the adjustment, the standardisation, the
score and its penalties. Measured are the probability that a held-out patient has a
higher score than a held-out control (AUC), the correlation of held-out scores with
those of a second visit and with a clinical score of held-out patients, and the rank
correlation of patients' scores between fits on disjoint halves of the people.

Shape letters: N people, R regions.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from benchmarks.suites.cost import Cost, measure_cost
from benchmarks.suites.patient_methods import METHODS, NEEDS_REFERENCE, Scorer
from benchmarks.suites.patients import PatientTable, list_patient_tables
from rindices._typing import FloatArray, IntArray
from rindices._version import __version__
from rindices.errors import InputError, did_you_mean
from rindices.learners.prepared_people import PreparedPeople
from rindices.preprocess.measures import encode_measures
from rindices.preprocess.pipeline import Preprocessing
from rindices.tables.cohort import SITE

N_FOLDS = 5
FIGURES = ("auc", "visits", "clinical", "halves")
COSTS = ("processor_seconds", "peak_megabytes")  # of one fit, mean over the folds


@dataclass(frozen=True)
class PatientTrial:
    """One random split of one table into folds, and another one into halves."""

    table: str
    seed: int
    data: Path

    @property
    def key(self) -> str:
        """Name of the cache file."""
        return f"patients-{self.table}-{self.seed}-v{__version__}"

    def measure(self) -> "PatientResult":
        """Measure all methods on this split of the table."""
        table = list_patient_tables(self.data)[self.table]()
        methods = [
            name
            for name in METHODS
            if name not in NEEDS_REFERENCE or table.reference is not None
        ]
        held_out = _score_held_out_people(table, methods, self.seed)
        halves = _correlate_halves(table, methods, self.seed)
        figures = {
            name: _compare_scores(table, held_out[name])
            | {"halves": halves[name]}
            | held_out[name].costs
            for name in methods
        }
        return PatientResult(self.table, self.seed, figures)

    def restore(self, **fields: Any) -> "PatientResult":
        """Return the result with these fields."""
        return PatientResult(**fields)


@dataclass(frozen=True)
class PatientResult:
    """Figures of each method in one trial; a figure that a table cannot give is not
    there.
    """

    table: str
    seed: int
    figures: dict[str, dict[str, float]]


def list_patient_trials(
    data: Path, repeats: int, tables: Sequence[str] = ()
) -> list[PatientTrial]:
    """Return the trials of the named tables; of all, if none is named."""
    known = list_patient_tables(data)
    unknown = [name for name in tables if name not in known]
    if unknown:
        raise InputError(
            f"suite patients has no table '{unknown[0]}': {did_you_mean(unknown[0], list(known))}"
        )
    return [
        PatientTrial(name, seed, data.absolute())
        for name in tables or known
        for seed in range(repeats)
    ]


class HeldOutScores(NamedTuple):
    """Scores of held-out people by one method.

    Attributes
    ----------
    first, second : ndarray of shape (N,)
        Of the first and of the second visit.
    auc : float
        Mean over the folds.
    costs : dict
        Means of `COSTS` over the folds, where the system can measure them.
    """

    first: FloatArray
    second: FloatArray
    auc: float
    costs: dict[str, float]


def _score_held_out_people(
    table: PatientTable, methods: Sequence[str], seed: int
) -> dict[str, HeldOutScores]:
    """Return scores of held-out people by method.

    Scores are standardised to the controls of the training folds, so that those of all
    folds can be joined.
    """
    cohort, strata = table.cohort, _make_strata(table)
    n_people, patient = len(cohort), cohort.is_patient
    scores = {
        name: (np.full(n_people, np.nan), np.full(n_people, np.nan)) for name in methods
    }
    aucs: dict[str, list[float]] = {name: [] for name in methods}
    costs: dict[str, list[Cost]] = {name: [] for name in methods}
    splitter = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
    for seen, left_out in splitter.split(np.zeros(n_people), strata):
        preprocessing, people = _prepare_people(table, seen)
        first = preprocessing.transform(cohort.take(left_out))
        second = (
            None
            if table.second_visit is None
            else preprocessing.transform(table.second_visit.take(left_out))
        )
        for name in methods:
            score, cost = measure_cost(partial(_fit_standardised, name, people, seed))
            scores[name][0][left_out] = score(first)
            if second is not None:
                scores[name][1][left_out] = score(second)
            aucs[name].append(
                float(roc_auc_score(patient[left_out], scores[name][0][left_out]))
            )
            costs[name].append(cost)
    return {
        name: HeldOutScores(
            *scores[name], float(np.mean(aucs[name])), _average_costs(costs[name])
        )
        for name in methods
    }


def _fit_standardised(method: str, people: PreparedPeople, seed: int) -> Scorer:
    return _standardise_score(METHODS[method](people, seed), people)


def _average_costs(costs: Sequence[Cost]) -> dict[str, float]:
    values = {name: [getattr(cost, name) for cost in costs] for name in COSTS}
    return {
        name: float(np.mean(column))
        for name, column in values.items()
        if None not in column
    }


def _correlate_halves(
    table: PatientTable, methods: Sequence[str], seed: int
) -> dict[str, float]:
    """Return, by method, the rank correlation of all patients' scores between fits on
    two disjoint halves.
    """
    splitter = StratifiedKFold(2, shuffle=True, random_state=1000 + seed)
    patients = table.cohort.take(np.flatnonzero(table.cohort.is_patient))
    halves: dict[str, list[FloatArray]] = {name: [] for name in methods}
    for seen, _ in splitter.split(np.zeros(len(table.cohort)), _make_strata(table)):
        preprocessing, people = _prepare_people(table, seen)
        X = preprocessing.transform(patients)
        for name in methods:
            halves[name].append(METHODS[name](people, seed)(X))
    return {name: float(spearmanr(*halves[name]).statistic) for name in methods}


def _compare_scores(table: PatientTable, scores: HeldOutScores) -> dict[str, float]:
    """Return the figures of one method."""
    first, second, figures = scores.first, scores.second, {"auc": scores.auc}
    if table.second_visit is not None:
        figures["visits"] = float(np.corrcoef(first, second)[0, 1])
    if table.clinical is not None:
        rated = table.cohort.is_patient & np.isfinite(table.clinical)
        figures["clinical"] = float(
            np.corrcoef(first[rated], table.clinical[rated])[0, 1]
        )
    return figures


def _prepare_people(
    table: PatientTable, seen: IntArray
) -> tuple[Preprocessing, PreparedPeople]:
    """Return the adjustment of some people, and these people."""
    cohort = table.cohort.take(seen)
    preprocessing = Preprocessing.fit(cohort)
    reference = (
        None if table.reference is None else table.reference.select(cohort.regions)
    )
    X, y = preprocessing.transform(cohort), cohort.is_patient.astype(np.intp)
    return preprocessing, PreparedPeople(
        X=X, y=y, reference=reference, kinds=encode_measures(cohort)
    )


def _standardise_score(score: Scorer, people: PreparedPeople) -> Scorer:
    """Return a score whose mean is 0 and whose standard deviation is 1 in
    the controls.
    """
    controls = score(people.X[people.y == 0])
    mean, sd = controls.mean(), max(float(controls.std()), 1e-12)
    return lambda X: (score(X) - mean) / sd


def _make_strata(table: PatientTable) -> "np.ndarray[Any, Any]":
    """Return the group and site of each person (N,) as text."""
    cohort = table.cohort
    sites = (
        cohort.people[SITE].astype(str) if SITE in cohort.people else [""] * len(cohort)
    )
    return np.array(
        [
            f"{patient:d} {site}"
            for patient, site in zip(cohort.is_patient, sites, strict=True)
        ]
    )


def results_to_json(results: Sequence[PatientResult]) -> dict[str, Any]:
    """Return results and summary as ``benchmark --suite patients --json``
    prints them.
    """
    return {
        "folds": N_FOLDS,
        "results": [asdict(result) for result in results],
        "summary": summarise(results),
    }


def summarise(results: Sequence[PatientResult]) -> list[dict[str, Any]]:
    """Return the mean of each figure over the trials, and the standard deviation of the
    AUC, per table and method.
    """
    rows = []
    for table in dict.fromkeys(result.table for result in results):
        trials = [result.figures for result in results if result.table == table]
        for method in trials[0]:
            row: dict[str, Any] = {
                "table": table,
                "method": method,
                "trials": len(trials),
            }
            for figure in (*FIGURES, *COSTS):
                values = [
                    trial[method][figure] for trial in trials if figure in trial[method]
                ]
                row[figure] = float(np.mean(values)) if values else None
            row["auc_sd"] = (
                float(np.std([trial[method]["auc"] for trial in trials]))
                if len(trials) > 1
                else None
            )
            rows.append(row)
    return rows


def format_markdown(results: Sequence[PatientResult], costs: bool = False) -> str:
    """Return a table of all figures, and of processor time and memory if `costs`."""
    header = [
        "table",
        "method",
        "AUC",
        "second visit",
        "clinical score",
        "halves",
        *(["seconds", "MB"] if costs else []),
    ]
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for row in summarise(results):
        spread = "" if row["auc_sd"] is None else f" ({row['auc_sd']:.3f})"
        cells = [row["table"], row["method"], f"{row['auc']:.3f}{spread}"]
        cells += [
            "" if row[figure] is None else f"{row[figure]:.3f}"
            for figure in FIGURES[1:]
        ]
        cells += (
            ["" if row[cost] is None else f"{row[cost]:.3g}" for cost in COSTS]
            if costs
            else []
        )
        lines.append(f"| {' | '.join(cells)} |")
    footnote = (
        f"AUC: held-out people, {N_FOLDS} folds, mean over random splits and, if there are several, in brackets "
        "the standard deviation among them. Second visit: correlation of held-out scores with those of the same people "
        "at their second visit. "
        "Clinical score: correlation of held-out patients' scores with it. Halves: rank correlation of patients' "
        "scores between fits on disjoint halves of the people. Adjustment, scores and penalties are learnt inside the "
        "folds."
    )
    seconds = (
        " Seconds and MB: processor time and additional memory of one fit."
        if costs
        else ""
    )
    return "\n".join([*lines, "", footnote + seconds, ""])
