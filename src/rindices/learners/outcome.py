"""Why a member stopped."""

from enum import StrEnum


class Outcome(StrEnum):
    """Why a member stopped."""

    CONVERGED = "converged"
    STEP_LIMIT = "step limit"
    DIVERGED = "diverged"
