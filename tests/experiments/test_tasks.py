"""Tasks have the regions of the paper."""

import rindices as ri
from rindices.experiments.tasks import TASKS, make_task_with_patterns
from rindices.tables.layouts.muse import region_label


def count_shared_regions(task: str) -> list[int]:
    patterns = [set(pattern) for pattern in TASKS[task].patterns]
    return [len(p & set.union(*(q for q in patterns if q is not p))) for p in patterns]


def test_patterns_have_the_sizes_and_overlaps_of_table_5() -> None:
    assert [len(pattern) for pattern in TASKS["basic"].patterns] == [14, 14, 14]
    assert [len(pattern) for pattern in TASKS["overlap"].patterns] == [16, 16, 16]
    assert [len(pattern) for pattern in TASKS["scarce"].patterns] == [4, 4, 4]
    assert count_shared_regions("basic") == [4, 4, 4]
    assert count_shared_regions("overlap") == [8, 8, 8]
    assert count_shared_regions("scarce") == [0, 0, 0]
    scarce = [
        {region_label(name)[:-2] for name in pattern}
        for pattern in TASKS["scarce"].patterns
    ]
    assert scarce[0] == {"Amygdala", "Hippocampus"}


def test_small_and_null_tasks_have_their_sizes() -> None:
    small, tiny = ri.simulate_cohort("small").cohort, ri.simulate_cohort("tiny").cohort
    assert (small.n_controls, small.n_patients, tiny.n_controls, tiny.n_patients) == (
        150,
        200,
        80,
        100,
    )
    null = ri.simulate_cohort("null")
    assert null.truth.shape == (900, 0)


def test_a_task_can_have_one_to_five_patterns() -> None:
    assert make_task_with_patterns(3) == TASKS["basic"]
    assert [len(make_task_with_patterns(m).patterns) for m in (1, 2, 5)] == [1, 2, 5]
    assert {len(regions) for regions in make_task_with_patterns(5).patterns} == {14}
