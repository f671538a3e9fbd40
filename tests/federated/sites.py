"""A simulated cohort with few regions, divided among sites."""

from functools import cache

import numpy as np

from rindices.experiments.tasks import TASKS
from rindices.federated.rounds import InMemoryTransport
from rindices.federated.site import Site
from rindices.tables.cohort import Cohort
from tests.cohorts import simulate_few_regions

MEMBERS = 3


@cache
def simulate_people(seed: int = 0) -> Cohort:
    """Return 150 controls and 200 patients with 36 regions."""
    return simulate_few_regions(TASKS["small"], seed).cohort


def split_cohort(cohort: Cohort, n_sites: int, seed: int = 0) -> dict[str, Cohort]:
    """Return the people of sites of about equal size."""
    labels = np.random.default_rng(seed).integers(n_sites, size=len(cohort))
    return {f"site-{k}": cohort.take(labels == k) for k in range(n_sites)}


def make_transport(cohorts: dict[str, Cohort], fewest: int = 10) -> InMemoryTransport:
    """Return sites in memory."""
    return InMemoryTransport([Site(name, cohorts[name], fewest) for name in sorted(cohorts)])
