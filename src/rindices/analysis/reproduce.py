"""Are the patterns found again in other people? Two halves of a cohort, fitted apart (section B.7 of the paper)."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedShuffleSplit

from rindices._typing import FloatArray, IntArray
from rindices.errors import AnalysisError
from rindices.model.fitted import FittedModel
from rindices.selection.agreement import pattern_c_index
from rindices.tables.cohort import GROUP, ID, SESSION, SITE, Cohort

COLUMN_DESCRIPTIONS = {
    "split": "Number of the split into halves",
    "tested_on": "The half whose patients were looked at, 1 or 2; the other half's model has not seen them",
    "index": "R-index of the model of this half",
    "matched": "R-index of the other half's model that orders these patients most alike",
    "n": "Patients looked at",
    "concordance": "Share of pairs of patients that both models order alike, 0.5 being chance",
    "correlation": "Correlation of both models' R-indices over these patients",
    "pattern_correlation": "Correlation of both models' patterns over regions, at severity 1",
    "n_patterns": "Patterns of the model of this half",
    "n_patterns_other": "Patterns of the other half's model",
}


class HalfSplitResult(NamedTuple):
    """A half-split study.

    Attributes
    ----------
    table : DataFrame
        A row per split, half and pattern; the columns are those of `COLUMN_DESCRIPTIONS`.
    unseen : DataFrame
        R-indices of everyone by the model of the half that they were not in, for the first split: ``participant_id``,
        ``group``, ``half``, ``r1`` to ``rM``. Those of the second half are in the order of the first half's patterns.
    models : tuple of FittedModel
        The two models of the first split.
    """

    table: pd.DataFrame
    unseen: pd.DataFrame
    models: tuple[FittedModel, FittedModel]


def reproduce_in_halves(
    cohort: Cohort, fit: Callable[[Cohort], FittedModel], *, splits: int = 1, seed: int = 0
) -> HalfSplitResult:
    """Fit both halves of a cohort apart and see whether they find the same.

    Parameters
    ----------
    cohort : Cohort
        With controls and patients, who are spread evenly over the halves, and so are sites where they are known.
    fit : callable
        From a cohort to a model.
    splits : int
        Random splits into halves.
    seed : int
    """
    if splits < 1:
        raise AnalysisError("give at least one split.")
    tables, first = [], None
    for number in range(splits):
        halves = tuple(cohort.take(rows) for rows in split_into_halves(cohort, seed + number))
        models = (fit(halves[0]), fit(halves[1]))
        for place in (0, 1):
            own = _compare_models(halves[place], models[place], models[1 - place])
            own.insert(0, "tested_on", place + 1)
            own.insert(0, "split", number + 1)
            tables.append(own)
        first = first or (halves, models)
    assert first is not None
    return HalfSplitResult(
        pd.concat(tables, ignore_index=True)[list(COLUMN_DESCRIPTIONS)], _compute_held_out_indices(*first), first[1]
    )


def split_into_halves(cohort: Cohort, seed: int) -> tuple[IntArray, IntArray]:
    """Return the people of two halves, as positions, groups (and sites, where large enough) spread evenly."""
    strata = cohort.people[GROUP].astype(str)
    if SITE in cohort.people:
        fine = strata + " " + cohort.people[SITE].astype(str)
        strata = fine.where(fine.map(fine.value_counts()) >= 2, strata)
    if strata.value_counts().min() < 2:
        strata = cohort.people[GROUP].astype(str)
    if strata.value_counts().min() < 2:
        raise AnalysisError("each half needs at least one control and one patient.")
    one, other = next(StratifiedShuffleSplit(1, test_size=0.5, random_state=seed).split(strata, strata))
    return np.sort(one), np.sort(other)


def _compare_models(half: Cohort, own: FittedModel, other: FittedModel) -> pd.DataFrame:
    """Hold two models' R-indices of the patients of a half against each other, pattern by pattern."""
    patients = half.take(half.is_patient)
    here, there = (_apply_model(model, patients) for model in (own, other))
    turned = here.shape[1] > there.shape[1]
    found = pattern_c_index(there, here) if turned else pattern_c_index(here, there)
    pairs = [(int(k), row) if turned else (row, int(k)) for row, k in enumerate(found.matching)]
    rows = []
    for (mine, theirs), concordance in zip(pairs, found.per_pattern, strict=True):
        row = {"index": f"r{mine + 1}", "matched": f"r{theirs + 1}", "n": len(patients), "concordance": concordance}
        row["correlation"] = np.corrcoef(here[:, mine], there[:, theirs])[0, 1]
        row["pattern_correlation"] = np.corrcoef(own.patterns[-1, mine], other.patterns[-1, theirs])[0, 1]
        rows.append(row | {"n_patterns": own.n_patterns, "n_patterns_other": other.n_patterns})
    return pd.DataFrame(rows).sort_values("index", ignore_index=True)


def _apply_model(model: FittedModel, people: Cohort) -> FloatArray:
    return np.asarray(model.apply(people)[model.index_names], dtype=float)


def _compute_held_out_indices(halves: tuple[Cohort, ...], models: tuple[FittedModel, FittedModel]) -> pd.DataFrame:
    """Return everyone's R-indices by the other half's model, columns in the order of the first model's patterns."""
    order = np.arange(models[1].n_patterns)
    if models[0].n_patterns == models[1].n_patterns:
        patients = halves[0].take(halves[0].is_patient)
        order = pattern_c_index(_apply_model(models[0], patients), _apply_model(models[1], patients)).matching
    tables = []
    for place, columns in ((0, order), (1, np.arange(models[0].n_patterns))):
        values = _apply_model(models[1 - place], halves[place])[:, columns]
        keys = [name for name in (ID, SESSION, GROUP) if name in halves[place].people]
        table = halves[place].people[keys].assign(half=place + 1)
        tables.append(table.assign(**{f"r{k + 1}": column for k, column in enumerate(values.T)}))
    return pd.concat(tables, ignore_index=True).sort_values(keys[0], ignore_index=True)
