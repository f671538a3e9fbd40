"""A model that is applied to the table that it was fitted to says so, with no list of
people in its file.
"""

from pathlib import Path

import numpy as np
import pytest

import rindices as ri
from rindices.errors import ProblemCode
from rindices.model.apply_checks import note_training_people
from rindices.tables.cohort import Cohort
from tests.cohorts import fit_tiny_model, simulate_few_regions


def is_named(cohort: Cohort, model: ri.FittedModel) -> bool:
    """Whether the warning about training people is among those of `assess`."""
    return ProblemCode.TRAINING_PEOPLE in {
        problem.code for problem in model.assess(cohort).problems
    }


def test_the_own_table_is_named_from_a_model_file_alone(tmp_path: Path) -> None:
    fit_tiny_model().save(tmp_path / "model.safetensors")
    model, cohort = (
        ri.load(tmp_path / "model.safetensors"),
        simulate_few_regions("tiny", seed=0).cohort,
    )
    assert is_named(cohort, model)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_people_are_not_named(seed: int) -> None:
    assert not is_named(
        simulate_few_regions("tiny", seed=seed).cohort, fit_tiny_model()
    )


def test_chance_alone_never_names_other_people() -> None:
    """Of 2,000 tables of other people with correlated regions, hardly one is named."""
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(5, 30))
    named = 0
    for _ in range(2_000):
        values = rng.normal(size=(50, 5)) @ mixing + rng.normal(size=(50, 30))
        sd = np.sqrt((mixing**2).sum(axis=0) + 1.0)
        named += len(note_training_people(values, np.zeros(30), sd))
    assert named <= 1  # 0.2 expected


def test_few_changes_do_not_hide_the_own_table() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(200, 40))
    mean, sd = values.mean(axis=0), values.std(axis=0)
    values[rng.random(values.shape) < 0.002] = np.nan
    assert note_training_people(values, mean, sd)
    assert note_training_people(
        values[10:], mean, sd
    )  # nor do people who were left out
    assert not note_training_people(rng.normal(size=(200, 40)), mean, sd)
