"""Reproducibility of patterns: two halves of a cohort, fitted separately (section B.7
of the paper).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedShuffleSplit

from rindices._typing import FloatArray, IntArray
from rindices.errors import AnalysisError, name_arguments
from rindices.model.fitted import FittedModel
from rindices.one_line import describe_fields
from rindices.selection.agreement import pattern_c_index
from rindices.tables.cohort import GROUP, ID, SESSION, SITE, Cohort, order_people
from rindices.wording import load_columns

COLUMN_DESCRIPTIONS = load_columns("halves")


class HalfSplitResult(NamedTuple):
    """Result of a half-split study.

    All columns are in the order of the first half's patterns.

    Attributes
    ----------
    table : DataFrame
        One row per split, half and pattern, with the columns of `COLUMN_DESCRIPTIONS`.
    unseen : DataFrame
        Held-out R-indices of the first split, each person's from the model of the other
        half: ``participant_id``, ``group``, ``half``, ``r1`` to ``rM``.
    models : tuple of FittedModel
        The two models of the first split.
    """

    table: pd.DataFrame
    unseen: pd.DataFrame
    models: tuple[FittedModel, FittedModel]

    def __repr__(self) -> str:
        return describe_fields(self)


@name_arguments()
def reproduce_in_halves(
    cohort: Cohort,
    fit: Callable[[Cohort], FittedModel],
    *,
    splits: int = 1,
    seed: int = 0,
) -> HalfSplitResult:
    """Fit a model to each half of a cohort and compare the two.

    Parameters
    ----------
    cohort : Cohort
        Controls and patients. Groups, and sites if there are any, are distributed
        evenly over the halves.
    fit : callable
        Takes a cohort and returns a model.
    splits : int
        Number of random splits into halves.
    seed : int
        Seed of the first split.

    Returns
    -------
    HalfSplitResult
        Agreement of the halves.
    """
    if splits < 1:
        raise AnalysisError("give at least one split.")
    tables, first = [], None
    for number in range(splits):
        halves = tuple(
            cohort.take(rows) for rows in split_into_halves(cohort, seed + number)
        )
        models = (fit(halves[0]), fit(halves[1]))
        for model in models:
            if model.ending is not None:
                raise AnalysisError(f"a half has no R-indices: {model.ending}")
        for half in (0, 1):
            table = _compare_models(halves[half], models[half], models[1 - half])
            tables.append(table.assign(split=number + 1, tested_on=half + 1))
        first = first or (halves, models)
    assert first is not None
    table = pd.concat(tables, ignore_index=True)[list(COLUMN_DESCRIPTIONS)]
    return HalfSplitResult(table, _compute_held_out_indices(*first), first[1])


def split_into_halves(cohort: Cohort, seed: int) -> tuple[IntArray, IntArray]:
    """Return the rows of two random halves, with groups (and sites of two people or
    more) distributed evenly.
    """
    strata = cohort.people[GROUP].astype(str)
    if SITE in cohort.people:
        by_site = strata + " " + cohort.people[SITE].astype(str)
        strata = by_site.where(by_site.map(by_site.value_counts()) >= 2, strata)
    if strata.value_counts().min() < 2:
        strata = cohort.people[GROUP].astype(str)
    if strata.value_counts().min() < 2:
        raise AnalysisError("each half needs at least one control and one patient.")
    people = order_people(cohort, seed)
    strata = strata.iloc[people]
    first, second = next(
        StratifiedShuffleSplit(1, test_size=0.5, random_state=seed).split(
            strata, strata
        )
    )
    return np.sort(people[first]), np.sort(people[second])


def _compare_models(
    half: Cohort, model: FittedModel, other: FittedModel
) -> pd.DataFrame:
    """Compare the R-indices of two models in the patients of a half, one row per
    matched pattern.
    """
    patients = half.take(half.is_patient)
    values, other_values = (_apply_model(each, patients) for each in (model, other))
    swapped = values.shape[1] > other_values.shape[1]
    score = (
        pattern_c_index(other_values, values)
        if swapped
        else pattern_c_index(values, other_values)
    )
    pairs = [
        (int(k), row) if swapped else (row, int(k))
        for row, k in enumerate(score.matching)
    ]
    rows = []
    for (i, j), concordance in zip(pairs, score.per_pattern, strict=True):
        row = {
            "index": f"r{i + 1}",
            "matched": f"r{j + 1}",
            "n": len(patients),
            "concordance": concordance,
        }
        row["correlation"] = np.corrcoef(values[:, i], other_values[:, j])[0, 1]
        row["pattern_correlation"] = np.corrcoef(
            model.patterns[-1, i], other.patterns[-1, j]
        )[0, 1]
        rows.append(
            row | {"n_patterns": model.n_patterns, "n_patterns_other": other.n_patterns}
        )
    return pd.DataFrame(rows).sort_values("index", ignore_index=True)


def _apply_model(model: FittedModel, people: Cohort) -> FloatArray:
    return np.asarray(model.apply(people)[model.index_names], dtype=float)


def _compute_held_out_indices(
    halves: tuple[Cohort, ...], models: tuple[FittedModel, FittedModel]
) -> pd.DataFrame:
    """Return each person's R-indices by the other half's model, in the order of the
    first model's patterns.
    """
    order = np.arange(models[1].n_patterns)
    if models[0].n_patterns == models[1].n_patterns:
        patients = halves[0].take(halves[0].is_patient)
        order = pattern_c_index(
            _apply_model(models[0], patients), _apply_model(models[1], patients)
        ).matching
    tables = []
    for half, columns in ((0, order), (1, np.arange(models[0].n_patterns))):
        values = _apply_model(models[1 - half], halves[half])[:, columns]
        keys = [name for name in (ID, SESSION, GROUP) if name in halves[half].people]
        table = halves[half].people[keys].assign(half=half + 1)
        tables.append(
            table.assign(**{f"r{k + 1}": column for k, column in enumerate(values.T)})
        )
    return pd.concat(tables, ignore_index=True).sort_values(keys[0], ignore_index=True)
