"""How many patients of a site the sums of curves amount to, in honest studies: (sum of w)^2 / sum of w^2.

Usage: ``python -m benchmarks.federated_weights``

People are simulated (150 + 200, 12 regions). Writes ``results/federated_weights.md``.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tests.federated.sites import simulate_people, split_cohort

from rindices.federated import site
from rindices.federated.fit import FederatedSettings, run_federated_study
from rindices.federated.rounds import InMemoryTransport
from rindices.learners.trajectory.expectation_maximisation import summarise_people
from rindices.study.config import ModelConfig

RESULT = Path(__file__).parent / "results" / "federated_weights.md"
SEEDS, N_SITES = (20,), 4
SUM = site.SentModel.sum_expectations


@dataclass
class Numbers:
    """Number of patients that the weights of each sum of curves amount to."""

    weights: list[float] = field(default_factory=list)

    def sum_expectations(self, model, patients):
        """Take the place of the method of a model, and count."""
        if len(patients):
            functions = None if model.functions.shape[1] == model.weights.shape[1] else model.functions
            parts = summarise_people(patients, model.weights, model.posterior, functions)
            basis = np.concatenate([summary.basis for _, summary in parts])
            squares = (basis**2).sum(axis=0)
            self.weights.append(float((np.abs(basis).sum(axis=0)[squares > 0] ** 2 / squares[squares > 0]).min()))
        return SUM(model, patients)


def measure(seed: int) -> str:
    """Run one study and return a row of the table."""
    cohorts, numbers = split_cohort(simulate_people(seed), N_SITES, seed), Numbers()
    site.SentModel.sum_expectations = lambda model, patients: numbers.sum_expectations(model, patients)
    transport = InMemoryTransport([site.Site(name, cohort) for name, cohort in cohorts.items()])
    result = run_federated_study(transport, FederatedSettings(ModelConfig(patterns=(3,), members=5), seed))
    weights, sizes = np.array(numbers.weights), ", ".join(str(len(cohort)) for cohort in cohorts.values())
    figures = " | ".join(f"{np.percentile(weights, share):.1f}" for share in (0, 1, 50))
    return f"| {seed} | {sizes} | {len(result.rounds)} | {len(weights)} | {figures} |"


def main() -> None:
    """Write the file."""
    lines = [
        "# Patients that the sums of curves amount to",
        "",
        "For each model and set of patients of a site, the function of the severities with the fewest patients by",
        "(sum of weights)^2 / sum of squared weights. 150 controls and 200 patients, 12 regions, "
        "method `trajectories`.",
        "",
        "| seed | people of the sites | rounds | models and sets | fewest | 1st percentile | median |",
        "|---|---|---|---|---|---|---|",
        *map(measure, SEEDS),
    ]
    RESULT.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
