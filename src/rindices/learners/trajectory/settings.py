"""Settings of expectation maximisation, as the model file keeps them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

STAGED = "staged"
INTERACTING = "interacting"


@dataclass(frozen=True, kw_only=True)
class EMSettings:
    """How expectation maximisation fits the patterns, and when it ends.

    The defaults were chosen on simulated cohorts and are the same for all studies. The
    model file keeps those with which its members were fitted.

    Attributes
    ----------
    max_steps : int
        Largest number of M steps for proportional and staged patterns.
    max_interacting_steps : int
        Largest number of M steps for interacting patterns, which converge slowly.
    min_gain : float
        Gain in the mean log-likelihood of held-out patients below which an M step
        counts as no progress.
    patience : int
        Number of M steps without progress after which EM ends.
    interacting_patience : int
        The same while an interaction is larger than `min_interaction`.
    min_interaction : float
        Size below which interactions count as absent, so that EM does not wait for
        them.
    max_momentum : float
        Largest factor by which an M step goes on in the direction of the last one.
    staged_correlation : float
        rho, the prior correlation between the steps of different severities in a region
        of a staged pattern. It is 1 for proportional and interacting patterns.
    max_variance_change : float
        Largest factor by which the prior variance tau of a region changes in one step.
    min_variance : float
        Lower limit of tau.
    min_eigenvalue : float
        Eigenvalues of the prior below this fraction of the largest count as 0.
    min_step : float
        Smallest common step, as a fraction of the mean step of its pattern. A step of 0
        could never grow again.
    interaction_sd : float
        Standard deviation of the normal prior of the interactions, whose mean is 0.
    max_interaction : float
        Upper limit of an interaction.
    min_growth : float
        Smallest factor by which all other patterns together, at full severity, multiply
        the change of a pattern.
    correlation_shrinkage : float
        Factor of the correlations of the copula, which keeps them positive definite.
    max_visit_steps : int
        Largest number of M steps for the visits of people who have several.
    min_visit_gain : float
        `min_gain` for these.
    trend_steps : int
        Number of M steps for the trend alone, before the patterns are updated.
    """

    max_steps: int = 40
    max_interacting_steps: int = 100
    min_gain: float = 1e-3
    patience: int = 5
    interacting_patience: int = 10
    min_interaction: float = 0.1
    max_momentum: float = 0.8
    staged_correlation: float = 0.9
    max_variance_change: float = 10.0
    min_variance: float = 1e-10
    min_eigenvalue: float = 1e-8
    min_step: float = 0.02
    interaction_sd: float = 0.5
    max_interaction: float = 3.0
    min_growth: float = 0.1
    correlation_shrinkage: float = 0.98
    max_visit_steps: int = 30
    min_visit_gain: float = 1e-2
    trend_steps: int = 3

    def get_max_steps(self, shape: str) -> int:
        """Return the largest number of M steps for patterns of a shape."""
        return self.max_interacting_steps if shape == INTERACTING else self.max_steps

    def get_step_correlation(self, shape: str) -> float:
        """Return rho for patterns of a shape."""
        return self.staged_correlation if shape == STAGED else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as the model file keeps them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read settings from a model file.

        Names that this version does not know are ignored.
        """
        known = {field.name for field in fields(cls)}
        return cls(**{name: values[name] for name in values if name in known})


DEFAULT_EM_SETTINGS = EMSettings()
"""Settings of all studies."""
