"""Simulated cohorts with few regions, which are fitted in half the time."""

from dataclasses import replace
from functools import lru_cache

import rindices as ri
from rindices.experiments.simulate import SimulatedCohort
from rindices.experiments.tasks import SimulationTask


def simulate_few_regions(
    task: str | SimulationTask = "tiny", seed: int = 0, sites: int = 0
) -> SimulatedCohort:
    """Return a simulated cohort with the 36 regions of the three basic patterns,
    without the other 103.
    """
    simulated = ri.simulate_cohort(task, seed, sites=sites)
    names = [name for pattern in SimulationTask().patterns for name in pattern]
    in_pattern = simulated.patterns["region"].isin(names).to_numpy()
    cohort = replace(
        simulated.cohort, volumes=simulated.cohort.volumes.loc[:, in_pattern]
    )
    return replace(
        simulated,
        cohort=cohort,
        patterns=simulated.patterns[in_pattern].reset_index(drop=True),
    )


@lru_cache
def fit_tiny_model(patterns: int = 2) -> ri.FittedModel:
    """Return a model of a tiny cohort (seed 0), fitted once; for tests that need any
    model.
    """
    return ri.fit(
        simulate_few_regions("tiny", seed=0).cohort,
        patterns,
        members=5,
        method="contrastive",
        workers=1,
    )
