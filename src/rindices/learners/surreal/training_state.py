"""What a training is given, holds while it runs, and gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from rindices._typing import FloatArray
from rindices.errors import RindicesError
from rindices.learners.contrastive.linear_start import LinearStart
from rindices.learners.outcome import TrainingOutcome
from rindices.learners.surreal.batches import BatchSampler, make_batch_sampler
from rindices.learners.surreal.networks import NetworkSizes
from rindices.learners.surreal.recipe import Recipe
from rindices.learners.surreal.state import MemberStack, Workspace, make_member_stack
from rindices.learners.surreal.supervised_start import warm_start_members


@dataclass(frozen=True)
class TrainedMember:
    """One member when it stopped.

    Parameters
    ----------
    member : int
        Its number within the run.
    outcome : Outcome
        Why it stopped.
    steps : int
        After how many steps.
    weights : dict of str to Tensor
        Its weights by name, without a member axis; see :func:`.networks.named`.
    correlation : Tensor
        Learnt correlation behind the severities, (M, M); the identity if not learnt.
    history : ndarray
        One row per look: the step, then the terms in the order of :class:`.Terms`.
    """

    member: int
    outcome: TrainingOutcome
    steps: int
    weights: dict[str, Tensor]
    correlation: Tensor
    history: FloatArray


@dataclass(frozen=True)
class TrainingPlan:
    """What is trained, and how; two equal plans give equal numbers.

    Parameters
    ----------
    patterns : int
        M.
    recipe : Recipe
        Hyper-parameters.
    seed : int
        Of the run; each member derives its own stream.
    members : tuple of int
        Numbers of the members to train.
    stack : int
        Members per stack, trained by the same products. Five keep a CPU core busy and
        its cache warm; on a GPU take all.
    dtype : str
        "float32" or "float64".
    """

    patterns: int
    recipe: Recipe = field(default_factory=Recipe)
    seed: int = 0
    members: tuple[int, ...] = (0,)
    stack: int = 5
    dtype: str = "float32"

    def __post_init__(self) -> None:
        problems = {
            f"patterns is {self.patterns}; use 1 or more.": self.patterns < 1,
            f"stack is {self.stack}; use 1 or more.": self.stack < 1,
            "There are no members; name at least one.": not self.members,
            f"A member is named twice in {self.members}.": len(set(self.members)) < len(self.members),
            f"dtype is {self.dtype!r}; use 'float32' or 'float64'.": self.dtype not in ("float32", "float64"),
        }
        for message, holds in problems.items():
            if holds:
                raise RindicesError(f"Training plan: {message}")


@dataclass
class TrainingState:
    """One stack with its place in the data, its buffers and what it has seen."""

    stack: MemberStack
    batches: BatchSampler
    work: Workspace
    steps: int = 0
    seed: int = 0
    seen: dict[int, list[list[float]]] = field(default_factory=dict)
    trained: list[TrainedMember] = field(default_factory=list)

    @property
    def running(self) -> bool:
        """Whether a member is still in training."""
        return bool(self.stack.members)


def make_training_state(
    members: Sequence[int],
    plan: TrainingPlan,
    controls: Tensor,
    patients: Tensor,
    starts: Mapping[int, LinearStart] | None = None,
) -> TrainingState:
    """A stack at its start.

    Parameters
    ----------
    starts : mapping of int to Start, optional
        Where each member starts, for recipes that need it (`.contrastive.linear_start`).
    """
    sizes = NetworkSizes(controls.shape[1], plan.patterns)
    own = [starts[member] for member in members] if starts else []
    stack = make_member_stack(members, sizes, plan.recipe, plan.seed, controls)
    batches = make_batch_sampler(controls, patients, len(members), [start.subsample for start in own])
    if own:
        warm_start_members(stack, batches, own, plan.recipe, plan.seed)
    batch = plan.recipe.batch_size(*(order.shape[1] for order in batches.orders))
    work = Workspace(sizes, len(members), batch, plan.recipe, controls)
    return TrainingState(stack, batches, work, seed=plan.seed, seen={member: [] for member in members})


def select_members(group: TrainingState, places: Sequence[int]) -> None:
    """Go on with only the members at these places of the S axis."""
    group.stack, group.batches = group.stack.keep(places), group.batches.keep(places)
    work = group.work
    group.work = Workspace(work.sizes, len(places), work.batch, work.recipe, work.people)
