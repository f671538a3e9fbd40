"""How much of regions, head size and R-indices depends on the site, before and after
site effects are removed.

A site's share of variance is what it explains beyond the covariates, with both
residual variances divided by their degrees of freedom: it is 0 on average where sites
do not matter, and then negative as often as positive. After harmonisation, it is taken
in folds of controls from whom the effects of sites were not estimated, within each
fold, because errors of the effects cancel over all folds. R-indices are tested in
patients, who do not change the effects of sites, and in controls only where sites are
not harmonised.

Shape letters: N people, R columns, P columns of the design.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from rindices._typing import AnyArray, FloatArray, IntArray
from rindices.learners.prepared_people import N_FOLDS, find_seen_people
from rindices.preprocess import residualise
from rindices.preprocess.pipeline import Preprocessing, get_sites
from rindices.study.study import Study
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.cohort import GROUP, ID, SITE, Cohort
from rindices.wording import load_columns

SITE_DESCRIPTIONS = load_columns("site_effects")
REGION, HEAD_SIZE, INDEX = "region", "head size", "R-index"
"""What a row is about."""
_FOLD_SEED = 17


def measure_site_shares(
    values: FloatArray,
    design: FloatArray,
    sites: Sequence[str],
    folds: IntArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the share of variance that sites explain beyond a design, and its p-value.

    Parameters
    ----------
    values : ndarray of shape (N, R)
        People without a value (NaN) are left out of the column.
    design : ndarray of shape (N, P)
        Covariates.
    sites : sequence of str
        (N,) site of each person.
    folds : ndarray of shape (N,), optional
        Sites are compared within folds.

    Returns
    -------
    tuple of ndarray
        Shares and p-values (R,) of F tests; NaN where there are too few people.
    """
    names = np.asarray(sites, dtype=str)
    fold = np.zeros(len(names), dtype=np.intp) if folds is None else folds
    shares, p_values = np.full((2, values.shape[1]), np.nan)
    is_known = np.isfinite(values)
    for pattern in np.unique(is_known, axis=1).T:
        columns = (is_known == pattern[:, None]).all(axis=0)
        shares[columns], p_values[columns] = _test_sites(
            values[np.ix_(pattern, columns)],
            design[pattern],
            names[pattern],
            fold[pattern],
        )
    return shares, p_values


def _test_sites(
    values: FloatArray, design: FloatArray, sites: AnyArray, folds: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return shares and p-values of columns that all of these people have."""
    spread = np.where(np.ptp(design, axis=0) > 0, design.std(axis=0), 1.0)
    scaled = (design - design.mean(axis=0)) / spread
    by_fold = (folds[:, None] == np.unique(folds)).astype(float)
    by_site = (sites[:, None] == np.unique(sites)).astype(float)
    reduced = np.column_stack([by_fold, scaled])
    indicators = (by_fold[:, :, None] * by_site[:, None]).reshape(len(values), -1)
    ranks, squares = [], []
    for columns in (reduced, np.column_stack([reduced, indicators])):
        solution, _, rank, _ = np.linalg.lstsq(columns, values, rcond=1e-10)
        ranks.append(int(rank))
        squares.append(((values - columns @ solution) ** 2).sum(axis=0))
    freedom, n_sites = len(values) - ranks[1], ranks[1] - ranks[0]
    if freedom < 1 or n_sites < 1:
        nothing = np.full(values.shape[1], np.nan)
        return nothing, nothing
    within = np.maximum(squares[1], np.finfo(float).tiny)
    ratio = (squares[0] - squares[1]) / n_sites / (within / freedom)
    share = 1 - (within / freedom) / (
        np.maximum(squares[0], np.finfo(float).tiny) / (len(values) - ranks[0])
    )
    return share, stats.f.sf(ratio, n_sites, freedom)


def make_site_table(
    study: Study, indices: pd.DataFrame, names: Sequence[str]
) -> pd.DataFrame:
    """Return the share of variance that sites explain in regions and head size of
    controls and in the R-indices of both groups; empty for a single site.

    Parameters
    ----------
    study : Study
    indices : DataFrame
        ``participant_id``, ``group`` and R-indices of the people of the study.
    names : sequence of str
        Names of the R-indices.
    """
    cohort, rows = study.ordered, list[tuple[object, ...]]()
    if SITE not in cohort.people or len(set(get_sites(cohort))) < 2:
        return pd.DataFrame(columns=list(SITE_DESCRIPTIONS))
    controls = cohort.take(cohort.is_control)
    design, sites = _build_design(controls, study), get_sites(controls)
    before = study.preprocessing.change_scale(controls.volumes.to_numpy(dtype=float))
    after, folds = _prepare_held_out(study)
    shares, _ = measure_site_shares(before, design, sites)
    left, _ = measure_site_shares(after, design, sites, folds)
    rows += [
        (REGION, name, CONTROL, *figures, np.nan)
        for name, *figures in zip(cohort.regions, shares, left, strict=True)
    ]
    codings = study.preprocessing.residualiser.codings
    is_head = residualise.find_head_size_columns(codings)
    if is_head.any() and len(is_head) == design.shape[1]:
        share, p = measure_site_shares(design[:, is_head], design[:, ~is_head], sites)
        heads = [each.name for each in codings if residualise.is_head_size(each.name)]
        rows += [
            (HEAD_SIZE, name, CONTROL, *figures, np.nan, p_value)
            for name, *figures, p_value in zip(heads, share, p, strict=True)
        ]
    rows += _test_indices(cohort, study, indices, names)
    return pd.DataFrame(rows, columns=list(SITE_DESCRIPTIONS)).round(5)


def _test_indices(
    cohort: Cohort, study: Study, indices: pd.DataFrame, names: Sequence[str]
) -> list[tuple[object, ...]]:
    """Return a row for each R-index and group."""
    rows: list[tuple[object, ...]] = []
    table = indices.drop_duplicates(ID).set_index(ID)
    is_harmonised = study.preprocessing.harmoniser is not None
    for group in (PATIENT,) if is_harmonised else (CONTROL, PATIENT):
        own = cohort.take((cohort.people[GROUP] == group).to_numpy(dtype=bool))
        values = table.reindex(own.people[ID])[list(names)].to_numpy(dtype=float)
        share, p = measure_site_shares(
            values, _build_design(own, study), get_sites(own)
        )
        rows += [
            (INDEX, name, group, np.nan, *figures)
            for name, *figures in zip(names, share, p, strict=True)
        ]
    return rows


def _build_design(people: Cohort, study: Study) -> FloatArray:
    """Return the design (N, P) without covariates that are the site itself."""
    residualiser, sites = study.preprocessing.residualiser, get_sites(people)
    design = residualiser.build_design(people.covariates)
    keeps = [
        list(people.covariates[coding.name].astype(str)) != sites
        for coding in residualiser.codings
    ]
    widths = [residualise.count_columns(coding) for coding in residualiser.codings]
    return design[:, np.repeat(np.array(keeps, dtype=bool), widths)]


def _prepare_held_out(study: Study) -> tuple[FloatArray, IntArray]:
    """Return the prepared values (N, R) of controls by a pipeline that has not seen
    them, and the fold (N,) of each.
    """
    cohort, harmoniser = study.ordered, study.preprocessing.harmoniser
    controls = np.flatnonzero(cohort.is_control)
    whole = study.preprocessing.transform(cohort.take(cohort.is_control))
    if harmoniser is None or min(harmoniser.counts) < N_FOLDS:
        return whole, np.zeros(len(controls), dtype=np.intp)
    strata = list(zip(cohort.people[GROUP], get_sites(cohort), strict=True))
    volumes = cohort.volumes.to_numpy(dtype=float)
    seen = find_seen_people(volumes, strata, range(N_FOLDS), _FOLD_SEED)
    values, folds = whole.copy(), np.zeros(len(controls), dtype=np.intp)
    for k, each in enumerate(seen):
        held_out = controls[~each[controls]]
        if len(held_out):
            pipeline: Preprocessing = study.config.fit_preprocessing(
                cohort, each, study.age_knots
            )
            rows = np.searchsorted(controls, held_out)
            values[rows], folds[rows] = pipeline.transform(cohort.take(held_out)), k
    return values, folds
