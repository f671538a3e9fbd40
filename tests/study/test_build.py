"""The model of the chosen setting: its scale and its records."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rindices as ri
from rindices.experiments.tasks import TASKS
from rindices.learners.ensemble import HeldOutLikelihood, Member, TrainingOutcome
from rindices.study.candidates import _make_held_out_record
from rindices.study.config import ModelConfig
from rindices.study.store import RunStore
from tests.cohorts import simulate_few_regions
from tests.study.helpers import fit_cohort


@pytest.mark.parametrize(
    "patterns",
    [2, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 3, 4))],
)
def test_the_consensus_keeps_its_scale(patterns: int) -> None:
    made = simulate_few_regions("tiny", seed=0)
    indices = ri.fit(
        made.cohort, patterns, members=5, method="contrastive", workers=1
    ).indices
    assert indices is not None
    r = indices.filter(regex=r"^r\d+$").to_numpy()
    np.testing.assert_allclose(
        np.quantile(r[made.cohort.is_patient], 0.98, axis=0), 1.0, atol=1e-6
    )
    np.testing.assert_allclose(r[made.cohort.is_control].mean(axis=0), 0.0, atol=0.05)


def test_missing_cells_carry_no_difference_between_groups(tmp_path: Path) -> None:
    """Cells that were filled by group made groups of controls look different in
    held-out people.
    """
    cohort = simulate_few_regions(
        replace(TASKS["null"], n_controls=100, n_patients=100), 1
    ).cohort
    missing = np.zeros(cohort.volumes.shape, dtype=bool)
    missing[np.ix_(np.random.default_rng(0).permutation(200)[:140], np.arange(17))] = (
        True
    )
    holes = replace(cohort, volumes=cohort.volumes.mask(missing))
    forced = ModelConfig(patterns=(1,), members=2, method="mean-difference")
    aucs = []
    for people, name in ((cohort, "complete"), (holes, "holes")):
        model = fit_cohort(people, forced, 0, RunStore(tmp_path / name), 1)
        aucs.append(model.card.pattern_evidence[0].auc)
    assert max(aucs) < 0.6  # 0.9 with cells that were filled by group


def test_shapes_are_compared_in_the_members_that_have_all_of_them() -> None:
    """Later sets have one shape; a mean over them made a worse shape look
    more likely.
    """
    first = HeldOutLikelihood(shape="proportional", proportional=-50.0, staged=-50.4)
    later = HeldOutLikelihood(shape="proportional", proportional=-52.0, staged=None)
    outcome = TrainingOutcome.CONVERGED
    members = [
        Member(
            number=k,
            outcome=outcome,
            steps=0,
            head=None,
            patterns=np.zeros(0),
            held_out=each,
        )
        for k, each in zip([0, 1, 5, 6], [first, first, later, later], strict=True)
    ]
    record = _make_held_out_record(members, np.zeros(2), np.zeros(2))
    assert (record.proportional, record.staged) == (-50.0, -50.4)
