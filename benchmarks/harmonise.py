"""What sites cost, and what harmonisation gives back.

Usage: ``python benchmarks/harmonise.py [--cohorts 10]``

The contrastive learner on basic cohorts: without site effects; with them and nothing done; with the site as a
covariate; with ComBat learnt on controls and on all. Then new people of a site unseen in training, whose effect is
learnt from k of its own controls. Writes ``results/harmonise.md``.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed, parallel_config

from rindices.experiments.simulate import simulate_cohort
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.agreement import pattern_c_index
from rindices.tables.cohort import SITE, Cohort

SITES = (2, 4, 8)
WAYS = ("no site effects", "nothing done", "site as a covariate", "ComBat on controls", "ComBat on all")
FEW = (5, 10, 20, 40)


def prepare(cohort: Cohort, way: str) -> tuple[Cohort, Preprocessing]:
    if way == "site as a covariate":
        cohort = replace(cohort, covariates=cohort.covariates.assign(scanner=cohort.people[SITE]))
    mode = {"ComBat on controls": "controls", "ComBat on all": "all"}.get(way, "none")
    return cohort, Preprocessing.fit(cohort, mode)


def score(way: str, sites: int, seed: int) -> float:
    """Return the pattern-c-index of a cohort of several sites."""
    made = simulate_cohort("basic", seed, sites=0 if way == "no site effects" else sites)
    cohort, preprocessing = prepare(made.cohort, way)
    X, y = preprocessing.transform(cohort), cohort.is_patient.astype(int)
    learner = ContrastiveICA(n_patterns=3, random_state=0).fit(X, y)
    return pattern_c_index(made.truth, learner.transform(X[y == 1])).mean


def score_unseen(seed: int) -> list[float]:
    """Return the pattern-c-index of the patients of an unseen site: known from the start, then from k controls."""
    made = simulate_cohort("basic", seed, sites=4)
    cohort = made.cohort
    new = (cohort.people[SITE] == "site4").to_numpy()
    truth = made.truth[new[cohort.is_patient]]
    own = np.flatnonzero(new & cohort.is_control)
    there = np.flatnonzero(new & cohort.is_patient)

    def ranked(training: Cohort, number: int | None) -> float:
        preprocessing = Preprocessing.fit(training)
        X, y = preprocessing.transform(training), training.is_patient.astype(int)
        learner = ContrastiveICA(n_patterns=3, random_state=0).fit(X, y)
        if number is not None:
            preprocessing = preprocessing.with_sites(cohort.take(own[:number]), least=2)
        return pattern_c_index(truth, learner.transform(preprocessing.transform(cohort.take(there)))).mean

    return [ranked(cohort, None), *(ranked(cohort.take(~new), number) for number in FEW)]


def main() -> None:
    """Measure and write the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cohorts", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "harmonise.md")
    asked = parser.parse_args()
    seeds = range(asked.cohorts)
    with parallel_config(backend="loky", inner_max_num_threads=1):
        jobs = [(way, sites, seed) for sites in SITES for way in WAYS for seed in seeds]
        found = np.array(Parallel(n_jobs=2)(delayed(score)(*job) for job in jobs))
        unseen = np.array(Parallel(n_jobs=2)(delayed(score_unseen)(seed) for seed in seeds))
    found = found.reshape(len(SITES), len(WAYS), asked.cohorts)
    lines = ["| sites | " + " | ".join(WAYS) + " |", "|---" * (len(WAYS) + 1) + "|"]
    for sites, scores in zip(SITES, found, strict=True):
        cells = [f"{scores[0].mean():.3f}"]
        for own in scores[1:]:
            lost = own - scores[0]
            cells.append(f"{lost.mean():+.4f} (se {lost.std(ddof=1) / np.sqrt(asked.cohorts):.4f})")
        lines.append(f"| {sites} | " + " | ".join(cells) + " |")
    lines += [
        "",
        f"pattern-c-index of contrastive on basic, {asked.cohorts} cohorts of 492 controls and 900 patients; ",
    ]
    lines[-1] += "after the first column the difference to it, on the same people."
    lines += ["", "| the new site's effect learnt from | pattern-c-index of its patients |", "|---|---|"]
    names = ["its people in training", *(f"{number} of its controls" for number in FEW)]
    lines += [
        f"| {name} | {own.mean():.3f} (se {own.std(ddof=1) / np.sqrt(asked.cohorts):.3f}) |"
        for name, own in zip(names, unseen.T, strict=True)
    ]
    lines += ["", "Three sites in training, ComBat on controls; the fourth site's patients are new.", ""]
    asked.out.write_text("\n".join(lines), "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
