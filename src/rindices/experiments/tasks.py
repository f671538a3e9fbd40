"""Simulation tasks: regions, effect and severities of a disease (Table 5 and section
4.2 of the paper, and more).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from scipy import stats

from rindices._typing import FloatArray
from rindices.experiments.reference import PATTERNS
from rindices.tables.layouts.muse import region_name, single_regions

_MANY_PATTERNS = (*PATTERNS["small_overlap"], *PATTERNS["extra"])
MAX_PATTERNS = len(_MANY_PATTERNS)


def _expand_both_sides(names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the region names of patterns, the left and right region of each named
    structure.
    """
    codes = {region.label: code for code, region in single_regions().items()}
    return tuple(
        tuple(
            region_name(codes[f"{name}_{side}"])
            for name in text.split()
            for side in "RL"
        )
        for text in names
    )


@dataclass(frozen=True, kw_only=True)
class SimulationTask:
    """A kind of simulated cohort.

    Attributes
    ----------
    patterns : tuple of tuple of str
        MUSE regions of each pattern.
    n_controls : int
        Number of controls.
    n_patients : int
        Number of patients.
    rate : float
        Share of volume lost at severity 1.
    noise : float
        Standard deviation of the loss within a pattern, N(1, noise).
    correlation : float
        Correlation between severities, in a Gaussian copula.
    beta : tuple of float
        Marginal distribution of severities. Beta(1, 1) is uniform.
    last_onset : float
        Regions begin to lose volume at severities from 0 to this value. With 0, all
        begin at once.
    interaction : float
        Growth of a pattern's loss with the severity of the next pattern.
    organs : bool
        Features of heart and blood instead of volumes of the brain. The rate is that of
        their latents.
    dependence : float
        Growth of the change of log volume per standard deviation by which the region
        was small before.
    """

    patterns: tuple[tuple[str, ...], ...] = _expand_both_sides(
        PATTERNS["small_overlap"]
    )
    n_controls: int = 492
    n_patients: int = 900
    rate: float = 0.3
    noise: float = 0.05
    correlation: float = 0.0
    beta: tuple[float, float] = (1.0, 1.0)
    last_onset: float = 0.0
    interaction: float = 0.0
    organs: bool = False
    dependence: float = 0.0

    def draw_severities(self, number: int, rng: np.random.Generator) -> FloatArray:
        """Return severities (N, M) with Beta marginals and a Gaussian copula."""
        width = len(self.patterns)
        correlation = np.full((width, width), self.correlation)
        np.fill_diagonal(correlation, 1.0)
        drawn = rng.normal(size=(number, width))
        return np.asarray(
            stats.beta.ppf(
                stats.norm.cdf(drawn @ np.linalg.cholesky(correlation).T), *self.beta
            )
        )

    def list_onsets(self, size: int) -> FloatArray:
        """Return the severity (size,) at which each region of a pattern begins to lose
        volume.
        """
        return np.linspace(0, self.last_onset, size)


_BASIC_TASK = SimulationTask()
TASKS = MappingProxyType(
    {
        "basic": _BASIC_TASK,
        "overlap": replace(
            _BASIC_TASK, patterns=_expand_both_sides(PATTERNS["large_overlap"])
        ),
        "scarce": replace(
            _BASIC_TASK, patterns=_expand_both_sides(PATTERNS["few_regions"])
        ),
        "noise": replace(_BASIC_TASK, noise=0.2),
        "mild": replace(_BASIC_TASK, rate=0.2),
        "corr03": replace(_BASIC_TASK, correlation=0.3),
        "corr05": replace(_BASIC_TASK, correlation=0.5),
        "corr07": replace(_BASIC_TASK, correlation=0.7),
        "beta13": replace(_BASIC_TASK, beta=(1.0, 3.0)),
        "beta31": replace(_BASIC_TASK, beta=(3.0, 1.0)),
        "beta22": replace(_BASIC_TASK, beta=(2.0, 2.0)),
        "staged": replace(_BASIC_TASK, last_onset=0.6),
        "staged09": replace(_BASIC_TASK, last_onset=0.9),
        "hard": replace(_BASIC_TASK, correlation=0.5, beta=(1.0, 3.0), last_onset=0.6),
        "together": replace(_BASIC_TASK, interaction=1.0),
        "personal": replace(
            _BASIC_TASK, dependence=0.25
        ),  # no loss of a region that is larger by 4 sd
        "small": replace(_BASIC_TASK, n_controls=150, n_patients=200),
        "tiny": replace(_BASIC_TASK, n_controls=80, n_patients=100),
        "organs": replace(
            _BASIC_TASK,
            patterns=tuple(tuple(text.split()) for text in PATTERNS["organs"]),
            rate=0.2,
            organs=True,
        ),
        "null": replace(_BASIC_TASK, patterns=()),
    }
)


def make_task_with_patterns(number: int) -> SimulationTask:
    """Return the basic task with 1 to 5 patterns: the paper's three, then a subcortical
    and an occipital one.
    """
    return replace(_BASIC_TASK, patterns=_expand_both_sides(_MANY_PATTERNS)[:number])
