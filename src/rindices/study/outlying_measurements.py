"""Wrong cells of a study: found, reported and emptied before anything is learnt.

Shape letters: N people or scans, R regions.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from rindices.errors import Problem, Severity, StudyError
from rindices.learners.outlying_measurements import (
    CellComparison,
    find_outlying_measurements,
)
from rindices.learners.prepared_people import deal_folds, hash_people
from rindices.model.apply_checks import (
    report_outlying_measurements,
    resolve_on_outlier,
    tabulate_outlying_measurements,
)
from rindices.preprocess.measures import resolve_adjustment
from rindices.preprocess.residualise import build_complete_design, derive_codings
from rindices.tables.cohort import GROUP, ID, SESSION, SITE, Cohort


@dataclass(frozen=True, eq=False, kw_only=True)
class CheckedCohort:
    """A cohort after the search for outlying measurements.

    Attributes
    ----------
    cohort : Cohort
        People for learning. Outlying measurements are missing or, where they are few,
        what was expected, unless they are kept. People whose row has failed have no
        measurements.
    applied : Cohort
        People for the R-indices. Those whose row has failed keep it.
    table : DataFrame
        IDs, ``region``, ``value`` and ``expected`` of each outlying measurement.
    problems : tuple of Problem
        What to report.
    """

    cohort: Cohort
    applied: Cohort
    table: pd.DataFrame
    problems: tuple[Problem, ...]

    def cohort_or_raise(self) -> Cohort:
        """Return the cohort for learning; raise StudyError where outlying measurements
        are refused.
        """
        if errors := [
            problem for problem in self.problems if problem.severity is Severity.ERROR
        ]:
            raise StudyError(errors)
        return self.cohort


def check_cells(
    cohort: Cohort, seed: int, adjust: str | None, on_outlier: str | None
) -> CheckedCohort:
    """Find outlying measurements of all scans.

    What is learnt of a person's group comes from other people.

    Parameters
    ----------
    cohort : Cohort
    seed : int
        Seed of the division into folds.
    adjust : str or None
        Scale of the adjustment that the study names.
    on_outlier : str or None
        See `rindices.fit`.
    """
    policy = resolve_on_outlier(on_outlier, cohort.unit)
    if GROUP not in cohort.people or policy == "keep":
        return CheckedCohort(
            cohort=cohort, applied=cohort, table=pd.DataFrame(), problems=()
        )
    scans = cohort if cohort.visits is None else cohort.visits
    comparison = _compare_cells(scans, cohort, seed, adjust)
    table, problems = (
        tabulate_outlying_measurements(scans, comparison),
        tuple(report_outlying_measurements(scans, comparison, policy)),
    )
    if not len(table) or policy != "model":
        return CheckedCohort(
            cohort=cohort, applied=cohort, table=table, problems=problems
        )
    is_failed = np.broadcast_to(
        comparison.is_failed[:, None], comparison.is_wrong.shape
    )
    # a table with few outlying measurements stays complete, which is faster to learn
    # from
    instead = comparison.expected if comparison.is_rare() else np.nan
    volumes = scans.volumes.mask(comparison.is_wrong & ~is_failed, instead)
    learnt, applied = (
        _set_volumes(cohort, scans, each) for each in (volumes.mask(is_failed), volumes)
    )
    return CheckedCohort(cohort=learnt, applied=applied, table=table, problems=problems)


def _set_volumes(cohort: Cohort, scans: Cohort, volumes: pd.DataFrame) -> Cohort:
    """Return a cohort with other volumes (N, R) of its scans."""
    if scans is cohort:
        return replace(cohort, volumes=volumes)
    keys = [
        pd.MultiIndex.from_frame(each.people[[ID, SESSION]]) for each in (scans, cohort)
    ]
    first = volumes.iloc[keys[0].get_indexer(keys[1])].reset_index(drop=True)
    return replace(cohort, volumes=first, visits=replace(scans, volumes=volumes))


def _compare_cells(
    scans: Cohort, cohort: Cohort, seed: int, adjust: str | None
) -> CellComparison:
    """Return the outlying measurements of the scans of a cohort."""
    scale = resolve_adjustment(scans, adjust)
    covariates = scans.covariates.iloc[:, :0] if scale == "none" else scans.covariates
    design = build_complete_design(
        derive_codings(covariates, log=scale == "log"), covariates, covariates
    )
    if SITE in scans.people:
        design = np.column_stack(
            [
                design,
                pd.get_dummies(scans.people[SITE].astype(str)).to_numpy(dtype=float),
            ]
        )
    values = cohort.volumes.to_numpy(dtype=float)
    folds = deal_folds(hash_people(values, seed, 0), cohort.people[GROUP].tolist())
    fold_by_id = dict(zip(cohort.people[ID], folds, strict=True))
    volumes = scans.volumes.to_numpy(dtype=float)
    comparison = find_outlying_measurements(
        np.log(volumes) if scale == "log" else volumes,
        design,
        scans.is_patient.astype(np.intp),
        scans.people[ID].map(fold_by_id).to_numpy(dtype=np.intp),
    )
    return (
        comparison._replace(expected=np.exp(comparison.expected))
        if scale == "log"
        else comparison
    )
