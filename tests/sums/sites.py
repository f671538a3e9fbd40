"""A simulated cohort with a dozen regions, divided among sites."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from rindices.experiments.simulate import SimulatedCohort
from rindices.experiments.tasks import TASKS
from rindices.model.fitted import FittedModel
from rindices.study.config import ModelConfig
from rindices.sums.adjustment import AdjustedSums, ask_for_adjustment, ask_for_transform
from rindices.sums.people import LocalPeople
from rindices.sums.rounds import InMemoryTransport, PreparedRounds, Rounds
from rindices.sums.study import SumsSettings, run_study_from_sums
from rindices.sums.subsets import SubsetPlan
from rindices.tables.cohort import Cohort
from tests.cohorts import simulate_few_regions

MEMBERS = 2
N_REGIONS = 12


@cache
def simulate_study(seed: int = 0) -> SimulatedCohort:
    """Return 150 controls and 200 patients with 12 regions, four of each pattern, whose
    patterns are strong.
    """
    simulated = simulate_few_regions(replace(TASKS["small"], rate=0.4), seed)
    kept = [
        name
        for pattern in TASKS["small"].patterns
        for name in pattern[: N_REGIONS // 3]
    ]
    volumes = simulated.cohort.volumes[
        [name for name in simulated.cohort.volumes if name in kept]
    ]
    return replace(simulated, cohort=replace(simulated.cohort, volumes=volumes))


def simulate_people(seed: int = 0) -> Cohort:
    """Return the people of `simulate_study`."""
    return simulate_study(seed).cohort


def split_cohort(cohort: Cohort, n_sites: int, seed: int = 0) -> dict[str, Cohort]:
    """Return the people of sites of about equal size."""
    labels = np.random.default_rng(seed).integers(n_sites, size=len(cohort))
    return {f"site-{k}": cohort.take(labels == k) for k in range(n_sites)}


def make_transport(cohorts: dict[str, Cohort]) -> InMemoryTransport:
    """Return sites in memory."""
    return InMemoryTransport(
        [LocalPeople(name, cohorts[name]) for name in sorted(cohorts)]
    )


def fit_parts(
    cohorts: dict[str, Cohort], model: ModelConfig, **settings: Any
) -> FittedModel:
    """Return the model of parts in memory."""
    result = run_study_from_sums(
        make_transport(cohorts), SumsSettings(model=model, **settings)
    )
    assert result.model is not None
    return result.model


def prepare_rounds(
    cohorts: dict[str, Cohort], harmonise: bool = False, members: int = 2
) -> tuple[AdjustedSums, PreparedRounds]:
    """Return the sums of everyone, and rounds with the preparations of members."""
    rounds = Rounds(transport=make_transport(cohorts))
    sums, by_member, plan = ask_for_adjustment(
        rounds, None, harmonise, lambda counts: SubsetPlan(seed=0, members=members)
    )
    return sums, ask_for_transform(rounds, sums, by_member, plan)
