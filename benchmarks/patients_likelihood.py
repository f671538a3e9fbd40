"""What the likelihood of held-out people says about real patients: number and shape of patterns.

Usage: ``python -m benchmarks.patients_likelihood [--data ../shared/data/patients]``. Tables psychosis and autism, 1 to
3 patterns, straight and curved, ten members that each see four fifths of the people. Also 0 patterns: all patients
differ from controls by the same shift. Writes ``results/patients_likelihood.md``.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.linalg import solve_triangular

from benchmarks.suites.patients import list_patient_tables
from rindices.learners.contrastive.estimator import initialise_contrastive_head
from rindices.learners.normal_variation import estimate_covariance
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.trajectory.members import fit_trajectory_members
from rindices.preprocess.pipeline import Preprocessing

OUT = Path(__file__).parent / "results" / "patients_likelihood.md"
TABLES, NUMBERS, MEMBERS, SEED = ("psychosis", "autism"), (1, 2, 3), 10, 0


def compute_mean_shift_likelihoods(people: PreparedPeople) -> np.ndarray:
    """Return the likelihood (S,) of held-out patients, if all patients differ from controls by the same shift."""
    shifts = initialise_contrastive_head(people.X, people.y == 1, 1, straighten=True).prepare(people.X)
    values = []
    for each in people.deal_to_members(range(MEMBERS), SEED):
        subsample = each.subsample
        seen, unseen = shifts[subsample.seen], shifts[subsample.unseen][people.y[subsample.unseen] == 1]
        patient = people.y[subsample.seen] == 1
        mean = seen[patient].mean(axis=0)
        root = np.linalg.cholesky(estimate_covariance(np.concatenate([seen[~patient], seen[patient] - mean])))
        white = solve_triangular(root, (unseen - mean).T, lower=True)
        values.append(float((-0.5 * (white**2).sum(axis=0)).mean() - np.log(np.diag(root)).sum()))
    return np.array(values)


def measure(people: PreparedPeople) -> dict[str, np.ndarray]:
    """Return the likelihoods (S,) of held-out patients by model."""
    results = {"0, the same shift for all": compute_mean_shift_likelihoods(people)}
    for n_patterns in NUMBERS:
        dealt = people.deal_to_members(range(MEMBERS), SEED)
        members = fit_trajectory_members(dealt, n_patterns, range(MEMBERS), SEED)
        held_out = [member.held_out for member in members if member.held_out is not None]
        results[f"{n_patterns}, straight"] = np.array([each.straight for each in held_out], dtype=float)
        results[f"{n_patterns}, curved"] = np.array([each.curved for each in held_out], dtype=float)
    return results


def main() -> None:
    """Measure both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/patients"))
    options = parser.parse_args()
    tables = list_patient_tables(options.data)
    lines = ["# Held-out likelihood on real patients", "`python -m benchmarks.patients_likelihood`", ""]
    lines += ["Mean log-likelihood of patients that members have not seen, and its distance from the best model with"]
    lines += ["the standard error over ten members.", ""]
    lines += ["| table | patterns | log-likelihood | below the best |", "|---|---|---|---|"]
    for name in TABLES:
        cohort = tables[name]().cohort
        people = PreparedPeople(Preprocessing.fit(cohort).transform(cohort), cohort.is_patient.astype(np.intp))
        results = measure(people)
        best = max(results.values(), key=lambda values: float(values.mean()))
        for model, values in results.items():
            difference = best - values
            error = difference.std(ddof=1) / np.sqrt(len(difference))
            lines.append(f"| {name} | {model} | {values.mean():.2f} | {difference.mean():.2f} ({error:.2f}) |")
    OUT.write_text("\n".join([*lines, ""]), "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
