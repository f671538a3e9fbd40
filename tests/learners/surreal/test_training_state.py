"""Plans, and the state of a stack in training."""

from __future__ import annotations

import pytest
import torch

from rindices.errors import RindicesError
from rindices.learners.surreal.train import run_steps
from rindices.learners.surreal.training_state import TrainingPlan, make_training_state
from tests.learners.surreal.helpers import PEOPLE, SHORT


@pytest.mark.parametrize(
    "wrong",
    [{"patterns": 0}, {"stack": 0}, {"members": ()}, {"members": (1, 1)}, {"dtype": "int8"}],
)
def test_impossible_plans_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(RindicesError, match="plan"):
        TrainingPlan(**({"patterns": 2} | wrong))  # type: ignore[arg-type]


def test_a_state_goes_on_with_selected_members() -> None:
    people = (torch.as_tensor(state, dtype=torch.float32) for state in PEOPLE)
    state = make_training_state((4, 5, 6), TrainingPlan(2, SHORT, members=(4, 5, 6)), *people)
    run_steps(state, 3)
    state.select_members([2])
    assert (state.stack.members, state.steps, state.running) == ((6,), 3, True)
    run_steps(state, 3)
    state.select_members([])
    assert not state.running
