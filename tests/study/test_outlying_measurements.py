"""Wrong cells of a cohort: of first scans and of repeat visits, few and many, and
features of any kind.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from rindices.errors import Severity
from rindices.study.outlying_measurements import check_cells
from rindices.tables.cohort import Cohort, attach_visits
from tests.cohorts import simulate_few_regions


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    """People with two scans each, of whom the first two have a outlying measurement at
    the second scan.
    """
    first = simulate_few_regions("small", seed=900).cohort
    rng = np.random.default_rng(0)
    second = first.volumes * np.exp(rng.normal(scale=0.02, size=first.volumes.shape))
    second.iloc[0, 3] *= 4.0
    second.iloc[1, 5] /= 4.0
    people = [first.people.assign(session_id=name) for name in ("ses-1", "ses-2")]
    scans = Cohort(
        volumes=pd.concat([first.volumes, second], ignore_index=True),
        people=pd.concat(people, ignore_index=True),
        covariates=pd.concat([first.covariates] * 2, ignore_index=True),
        unit="mm3",
    )
    return attach_visits(scans)[0]


def test_a_wrong_cell_of_a_later_scan_leaves_the_first_scan_as_it_is(
    cohort: Cohort,
) -> None:
    checked = check_cells(cohort, 0, None, None)
    assert cohort.visits is not None
    assert checked.cohort.visits is not None
    rows, columns = np.nonzero(
        (checked.cohort.visits.volumes != cohort.visits.volumes).to_numpy()
    )
    sessions = cohort.visits.people["session_id"].to_numpy()[rows]
    found = {
        (session, column)
        for session, column in zip(sessions.tolist(), columns.tolist(), strict=True)
    }
    assert {("ses-2", 3), ("ses-2", 5)} <= found
    assert len(found) <= 3  # one by chance
    assert checked.table["session_id"].tolist() == sessions.tolist()
    changed = (checked.cohort.volumes != cohort.volumes).to_numpy()
    assert changed.sum() == (sessions == "ses-1").sum()
    # so few cells are replaced by what was expected: a table stays complete
    values = checked.cohort.visits.volumes.to_numpy()[rows, columns]
    np.testing.assert_allclose(values, checked.table["expected"])
    assert {problem.severity for problem in checked.problems} == {Severity.NOTE}
    assert " of sub-001, session ses-2 (" in str(checked.problems[0])


def test_many_outlying_measurements_are_missing_and_a_failed_row_is_applied_as_it_is(
    cohort: Cohort,
) -> None:
    cohort = replace(cohort, visits=None)
    volumes = cohort.volumes.copy()
    for k in range(12):
        volumes.iloc[10 * k, k] *= 4.0
    volumes.iloc[5] *= np.resize([0.2, 5.0], cohort.n_regions)
    wrong = replace(cohort, volumes=volumes)
    checked = check_cells(wrong, 0, None, None)
    is_missing, is_applied = (
        checked.cohort.volumes.isna().to_numpy(),
        checked.applied.volumes.notna().to_numpy(),
    )
    assert sum(is_missing[10 * k, k] for k in range(12)) >= 11
    assert is_missing[5].all()
    assert is_applied[5].all()
    assert is_missing.sum() <= 12 + cohort.n_regions + 1
    assert {problem.severity for problem in checked.problems} == {Severity.WARNING}
    assert check_cells(wrong, 0, None, "keep").cohort is wrong
    assert {
        problem.severity for problem in check_cells(wrong, 0, None, "error").problems
    } == {Severity.ERROR}
    features = replace(wrong, unit="any")
    assert check_cells(features, 0, None, None).cohort is features
    assert (
        check_cells(features, 0, None, "model").cohort.volumes.isna().to_numpy().any()
    )


def test_the_order_of_people_does_not_matter(cohort: Cohort) -> None:
    cohort = replace(cohort, visits=None)
    volumes = cohort.volumes.copy()
    volumes.iloc[7, 2] *= 4.0
    wrong = replace(cohort, volumes=volumes)
    order = np.random.default_rng(1).permutation(len(cohort))
    frames = {
        name: getattr(wrong, name).iloc[order].reset_index(drop=True)
        for name in ("volumes", "people", "covariates")
    }
    shuffled = Cohort(**frames, unit="mm3")
    tables = [
        check_cells(each, 0, None, None).table.sort_values(["participant_id", "region"])
        for each in (wrong, shuffled)
    ]
    pd.testing.assert_frame_equal(*(table.reset_index(drop=True) for table in tables))
    assert len(tables[0]) >= 1
