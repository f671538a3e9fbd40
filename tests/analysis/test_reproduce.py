"""Halves of a cohort are even, are compared as two fits by hand are, and show whether
patterns are reproduced.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import rindices as ri
from rindices.analysis.reproduce import reproduce_in_halves, split_into_halves
from rindices.errors import AnalysisError
from rindices.experiments.tasks import TASKS, SimulationTask
from rindices.selection.agreement import c_index
from rindices.tables.cohort import Cohort
from tests.cohorts import simulate_few_regions

FITTED: dict[tuple[str, int], ri.FittedModel] = {}


def fit_model(cohort: Cohort, patterns: int = 2) -> ri.FittedModel:
    """Return a model of these people; it is fitted once."""
    key = cohort.fingerprint(), patterns
    if key not in FITTED:
        FITTED[key] = ri.fit(
            cohort, patterns, members=1, method="contrastive", workers=1
        )
    return FITTED[key]


def test_halves_are_disjoint_and_balanced() -> None:
    cohort = ri.simulate_cohort("tiny", 0, sites=3).cohort
    one, other = split_into_halves(cohort, 0)
    assert sorted([*one, *other]) == list(range(len(cohort)))
    sizes = [
        cohort.take(half).people.groupby(["group", "site"]).size()
        for half in (one, other)
    ]
    assert (sizes[0] - sizes[1]).abs().max() <= 1
    assert not np.array_equal(one, split_into_halves(cohort, 1)[0])
    with pytest.raises(AnalysisError, match="at least one control"):
        split_into_halves(
            cohort.take(
                np.r_[
                    np.flatnonzero(cohort.is_control)[:1],
                    np.flatnonzero(cohort.is_patient),
                ]
            ),
            0,
        )


def test_halves_do_not_depend_on_ids() -> None:
    cohort = ri.simulate_cohort("tiny", 0).cohort
    other = cohort.people.assign(
        participant_id=[f"p{k:04d}" for k in range(len(cohort), 0, -1)]
    )
    reversed_rows = Cohort(
        volumes=cohort.volumes.iloc[::-1].reset_index(drop=True),
        people=other.iloc[::-1].reset_index(drop=True),
        covariates=cohort.covariates.iloc[::-1].reset_index(drop=True),
    )
    backwards = split_into_halves(reversed_rows, 0)[0]
    np.testing.assert_array_equal(
        np.sort(len(cohort) - 1 - backwards), split_into_halves(cohort, 0)[0]
    )


@pytest.mark.slow
def test_results_equal_two_fits_by_hand() -> None:
    cohort = simulate_few_regions("tiny", 0).cohort
    result = reproduce_in_halves(cohort, fit_model, splits=2, seed=0)
    assert result.table.groupby(["split", "tested_on"]).size().tolist() == [2, 2, 2, 2]
    halves = [cohort.take(rows) for rows in split_into_halves(cohort, 0)]
    models = [fit_model(half) for half in halves]
    patients = halves[1].take(halves[1].is_patient)
    values, other_values = models[1].apply(patients), models[0].apply(patients)
    for _, row in result.table.query("split == 1 and tested_on == 2").iterrows():
        a, b = values[row["index"]].to_numpy(), other_values[row["matched"]].to_numpy()
        assert row["concordance"] == pytest.approx(c_index(a, b))
        assert row["correlation"] == pytest.approx(np.corrcoef(a, b)[0, 1])
        i, j = (int(row[name][1:]) - 1 for name in ("index", "matched"))
        patterns = models[1].patterns[-1, i], models[0].patterns[-1, j]
        assert row["pattern_correlation"] == pytest.approx(np.corrcoef(*patterns)[0, 1])
        assert row["n"] == len(patients)
    unseen = result.unseen.set_index("participant_id")
    there = models[0].apply(halves[1]).set_index("participant_id")
    np.testing.assert_allclose(
        unseen.loc[there.index, ["r1", "r2"]], there[["r1", "r2"]]
    )
    assert set(unseen.loc[there.index, "half"]) == {2}
    assert len(unseen) == len(cohort)


@pytest.mark.slow
def test_true_patterns_are_reproduced_and_noise_is_not() -> None:
    def concordance(task: str | SimulationTask) -> float:
        cohort = simulate_few_regions(task, 1).cohort
        return float(
            reproduce_in_halves(cohort, partial(fit_model, patterns=3))
            .table["concordance"]
            .mean()
        )

    assert concordance("small") > 0.8
    nothing = replace(TASKS["null"], n_controls=150, n_patients=200)
    with pytest.raises(
        AnalysisError, match="a half has no R-indices: no difference between patients"
    ):
        concordance(nothing)


@pytest.mark.slow
def test_halves_may_differ_in_the_number_of_patterns() -> None:
    cohort = simulate_few_regions("tiny", 0).cohort
    sizes = iter([3, 2])
    result = reproduce_in_halves(cohort, lambda half: fit_model(half, next(sizes)))
    assert (
        result.table[["n_patterns", "n_patterns_other"]].to_numpy().tolist()
        == [[3, 2]] * 2 + [[2, 3]] * 2
    )
    assert result.unseen.query("half == 1")["r3"].isna().all()
