"""Wrong cells of a study: found, reported and emptied before anything is learnt.

Shape letters: N people or scans, R regions.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from rindices._typing import BoolArray
from rindices.errors import Problem
from rindices.learners.prepared_people import deal_folds, order_by_values
from rindices.learners.wrong_cells import CellComparison, find_wrong_cells
from rindices.model.apply_checks import report_wrong_cells, resolve_on_outlier, tabulate_wrong_cells
from rindices.preprocess.measures import resolve_adjustment
from rindices.preprocess.residualise import build_complete_design, derive_codings
from rindices.tables.cohort import GROUP, ID, SESSION, SITE, Cohort


@dataclass(frozen=True, eq=False)
class CheckedCohort:
    """A cohort after the search for wrong cells.

    cohort: for learning; wrong cells are missing, unless they are kept, and so are all cells of people whose row has
    failed; applied: for the R-indices of these people, who keep their row; table: ids, ``region``, ``value`` and
    ``expected`` of each wrong cell; problems: what to report.
    """

    cohort: Cohort
    applied: Cohort
    table: pd.DataFrame
    problems: tuple[Problem, ...]


def check_cells(cohort: Cohort, seed: int, adjust: str | None, on_outlier: str | None) -> CheckedCohort:
    """Find wrong cells of all scans; what is learnt of a person's group comes from other people.

    adjust: scale of the adjustment that the study names; on_outlier: see `rindices.fit`.
    """
    policy = resolve_on_outlier(on_outlier, cohort.unit)
    if GROUP not in cohort.people or policy == "keep":
        return CheckedCohort(cohort, cohort, pd.DataFrame(), ())
    scans = cohort if cohort.visits is None else cohort.visits
    comparison = _compare_cells(scans, cohort, seed, adjust)
    table, problems = tabulate_wrong_cells(scans, comparison), tuple(report_wrong_cells(scans, comparison, policy))
    if not len(table) or policy != "model":
        return CheckedCohort(cohort, cohort, table, problems)
    is_failed = comparison.is_failed[:, None]
    learnt, applied = (
        _empty_cells(cohort, scans, mask)
        for mask in (comparison.is_wrong | is_failed, comparison.is_wrong & ~is_failed)
    )
    return CheckedCohort(learnt, applied, table, problems)


def _empty_cells(cohort: Cohort, scans: Cohort, mask: BoolArray) -> Cohort:
    """Return a cohort without the cells of a mask (N, R) of its scans."""
    emptied = replace(scans, volumes=scans.volumes.mask(mask))
    if scans is cohort:
        return emptied
    keys = [pd.MultiIndex.from_frame(each.people[[ID, SESSION]]) for each in (scans, cohort)]
    volumes = emptied.volumes.iloc[keys[0].get_indexer(keys[1])].reset_index(drop=True)
    return replace(cohort, volumes=volumes, visits=emptied)


def _compare_cells(scans: Cohort, cohort: Cohort, seed: int, adjust: str | None) -> CellComparison:
    """Return the wrong cells of the scans of a cohort."""
    scale = resolve_adjustment(scans, adjust)
    covariates = scans.covariates.iloc[:, :0] if scale == "none" else scans.covariates
    design = build_complete_design(derive_codings(covariates, log=scale == "log"), covariates, covariates)
    if SITE in scans.people:
        design = np.column_stack([design, pd.get_dummies(scans.people[SITE].astype(str)).to_numpy(dtype=float)])
    values = cohort.volumes.to_numpy(dtype=float)
    folds = deal_folds(order_by_values(values, seed, 0), cohort.people[GROUP].tolist())
    fold_by_id = dict(zip(cohort.people[ID], folds, strict=True))
    volumes = scans.volumes.to_numpy(dtype=float)
    comparison = find_wrong_cells(
        np.log(volumes) if scale == "log" else volumes,
        design,
        scans.is_patient.astype(np.intp),
        scans.people[ID].map(fold_by_id).to_numpy(dtype=np.intp),
    )
    return comparison._replace(expected=np.exp(comparison.expected)) if scale == "log" else comparison
