"""Order of people that depends on their values alone, for everything that is drawn at random."""

from dataclasses import replace

import numpy as np

from rindices._typing import IntArray
from rindices.row_hashes import hash_rows
from rindices.tables.cohort import ID, Cohort, list_json_columns


def order_people(cohort: Cohort, seed: int) -> IntArray:
    """Return the positions (N,) of people in the order of a hash of their values and a seed.

    Random draws depend on the order of people. In this order they depend neither on ids nor on the order of rows, so a
    study with other pseudonyms has the same members, permutations and halves.

    cohort: the volumes of its rows are hashed, in the order of the names of regions, with six significant digits.
    Returns (N,), people with the same hash are ordered by group, site and covariates; those who are equal in all of
    these by id.
    """
    names = sorted(cohort.volumes.columns)
    hashes = hash_rows(cohort.volumes[names].to_numpy(dtype=float), str(seed))
    people = cohort.people.drop(columns=ID)
    cells = [*list_json_columns(people), *list_json_columns(cohort.covariates)]
    others = [str(row) for row in zip(*cells, strict=True)] or [""] * len(hashes)
    ids = cohort.people[ID].astype(str).tolist()
    keys = list(zip(hashes, others, ids, strict=True))
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)


def sort_people(cohort: Cohort, seed: int) -> Cohort:
    """Return a cohort with its people, and their visits, in the order of `order_people`."""
    cohort = _reorder_rows(cohort, order_people(cohort, seed))
    if cohort.visits is None:
        return cohort
    rank = dict(zip(cohort.people[ID], range(len(cohort)), strict=True))
    order = np.argsort(cohort.visits.people[ID].map(rank).to_numpy(), kind="stable")
    return replace(cohort, visits=_reorder_rows(cohort.visits, order))


def _reorder_rows(cohort: Cohort, positions: IntArray) -> Cohort:
    frames = (cohort.volumes, cohort.people, cohort.covariates)
    volumes, people, covariates = (frame.iloc[positions].reset_index(drop=True) for frame in frames)
    return replace(cohort, volumes=volumes, people=people, covariates=covariates)
