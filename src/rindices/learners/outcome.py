"""Why a member stopped."""

from enum import StrEnum


class TrainingOutcome(StrEnum):
    """Why a member stopped."""

    CONVERGED = "converged"
    STEP_LIMIT = "step limit"
    DIVERGED = "diverged"
