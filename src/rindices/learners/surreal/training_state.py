"""Input of a training (plan), its running state, and its output (trained members)."""

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
    outcome : TrainingOutcome
        Why it stopped.
    steps : int
        Steps it took.
    weights : dict of str to Tensor
        Its weights by name, without a member axis; see :func:`.networks.named_weights`.
    correlation : Tensor
        Correlation of the copula between the severities, (M, M); the identity without a copula.
    history : ndarray
        One row per check: the step, then the losses in the order of :class:`.losses.LossTerms`.
    """

    member: int
    outcome: TrainingOutcome
    steps: int
    weights: dict[str, Tensor]
    correlation: Tensor
    history: FloatArray


@dataclass(frozen=True)
class TrainingPlan:
    """All that decides the numbers of a training, besides the data.

    Parameters
    ----------
    patterns : int
        M.
    recipe : Recipe
        Hyper-parameters.
    seed : int
        Seed of the run; each member derives its own stream from it.
    members : tuple of int
        Numbers of the members to train.
    stack : int
        Members per stack, trained by the same matrix products. Five keep a CPU core busy and fit into its cache; on a
        GPU use all.
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
        for message, present in problems.items():
            if present:
                raise RindicesError(f"Training plan: {message}")


@dataclass
class TrainingState:
    """One stack in training: members, position in the data, buffers, and what has been recorded."""

    stack: MemberStack
    batches: BatchSampler
    work: Workspace
    steps: int = 0
    seed: int = 0
    history: dict[int, list[list[float]]] = field(default_factory=dict)  # rows of losses of each running member
    trained: list[TrainedMember] = field(default_factory=list)

    @property
    def running(self) -> bool:
        """Whether a member is still in training."""
        return bool(self.stack.members)

    def select_members(self, positions: Sequence[int]) -> None:
        """Continue with the members at these positions of the S axis only."""
        self.stack, self.batches = self.stack.select(positions), self.batches.select(positions)
        work = self.work
        self.work = Workspace(work.sizes, len(positions), work.batch, work.recipe, work.people)


def make_training_state(
    members: Sequence[int],
    plan: TrainingPlan,
    controls: Tensor,
    patients: Tensor,
    starts: Mapping[int, LinearStart] | None = None,
) -> TrainingState:
    """Return a stack before its first step.

    Parameters
    ----------
    members : sequence of int
        Numbers of the members of this stack.
    plan : TrainingPlan
        Recipe and seed.
    controls, patients : Tensor
        (N_cn, R) and (N_pt, R).
    starts : mapping of int to LinearStart, optional
        Start of each member, for recipes that need one.
    """
    sizes = NetworkSizes(controls.shape[1], plan.patterns)
    stack_starts = [starts[member] for member in members] if starts else []
    stack = make_member_stack(members, sizes, plan.recipe, plan.seed, controls)
    batches = make_batch_sampler(controls, patients, len(members), [start.subsample for start in stack_starts])
    if stack_starts:
        warm_start_members(stack, batches, stack_starts, plan.recipe, plan.seed)
    batch = plan.recipe.batch_size(*(order.shape[1] for order in batches.orders))
    work = Workspace(sizes, len(members), batch, plan.recipe, controls)
    return TrainingState(stack, batches, work, seed=plan.seed, history={member: [] for member in members})
