"""Loss of accuracy by site effects, with and without harmonisation.

Usage: ``python -m benchmarks.harmonise [--cohorts 10]``

The contrastive learner on basic cohorts: without site effects; with site effects and no correction; with the site as a
covariate; with ComBat estimated on controls and on all. Then new people of a site unseen in training, whose effect is
estimated from k of its controls. Writes ``results/harmonise.md``.
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
METHODS = ("no site effects", "nothing done", "site as a covariate", "ComBat on controls", "ComBat on all")
CONTROL_COUNTS = (5, 10, 20, 40)


def fit_preprocessing(cohort: Cohort, method: str) -> tuple[Cohort, Preprocessing]:
    if method == "site as a covariate":
        cohort = replace(cohort, covariates=cohort.covariates.assign(scanner=cohort.people[SITE]))
    mode = {"ComBat on controls": "controls", "ComBat on all": "all"}.get(method, "none")
    return cohort, Preprocessing.fit(cohort, mode)


def score_cohort(method: str, sites: int, seed: int) -> float:
    """Return the pattern-c-index of a cohort of several sites."""
    simulated = simulate_cohort("basic", seed, sites=0 if method == "no site effects" else sites)
    cohort, preprocessing = fit_preprocessing(simulated.cohort, method)
    X, y = preprocessing.transform(cohort), cohort.is_patient.astype(int)
    learner = ContrastiveICA(n_patterns=3, random_state=0).fit(X, y)
    return pattern_c_index(simulated.truth, learner.transform(X[y == 1])).mean


def score_unseen_site(seed: int) -> list[float]:
    """Return the pattern-c-index of the patients of one site: in training, then unseen with k controls."""
    simulated = simulate_cohort("basic", seed, sites=4)
    cohort = simulated.cohort
    is_new = (cohort.people[SITE] == "site4").to_numpy()
    truth = simulated.truth[is_new[cohort.is_patient]]
    site_controls = np.flatnonzero(is_new & cohort.is_control)
    site_patients = np.flatnonzero(is_new & cohort.is_patient)

    def score_patients(training: Cohort, n_controls: int | None) -> float:
        preprocessing = Preprocessing.fit(training)
        X, y = preprocessing.transform(training), training.is_patient.astype(int)
        learner = ContrastiveICA(n_patterns=3, random_state=0).fit(X, y)
        if n_controls is not None:
            preprocessing = preprocessing.with_sites(cohort.take(site_controls[:n_controls]), least=2)
        return pattern_c_index(truth, learner.transform(preprocessing.transform(cohort.take(site_patients)))).mean

    return [
        score_patients(cohort, None),
        *(score_patients(cohort.take(~is_new), n_controls) for n_controls in CONTROL_COUNTS),
    ]


def main() -> None:
    """Measure and write the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cohorts", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "harmonise.md")
    options = parser.parse_args()
    seeds = range(options.cohorts)
    with parallel_config(backend="loky", inner_max_num_threads=1):
        jobs = [(method, sites, seed) for sites in SITES for method in METHODS for seed in seeds]
        scores_by_job = np.array(Parallel(n_jobs=2)(delayed(score_cohort)(*job) for job in jobs))
        unseen = np.array(Parallel(n_jobs=2)(delayed(score_unseen_site)(seed) for seed in seeds))
    scores_by_job = scores_by_job.reshape(len(SITES), len(METHODS), options.cohorts)
    lines = ["| sites | " + " | ".join(METHODS) + " |", "|---" * (len(METHODS) + 1) + "|"]
    for sites, scores in zip(SITES, scores_by_job, strict=True):
        cells = [f"{scores[0].mean():.3f}"]
        for method_scores in scores[1:]:
            lost = method_scores - scores[0]
            cells.append(f"{lost.mean():+.4f} (se {lost.std(ddof=1) / np.sqrt(options.cohorts):.4f})")
        lines.append(f"| {sites} | " + " | ".join(cells) + " |")
    lines += [
        "",
        f"pattern-c-index of contrastive on basic, {options.cohorts} cohorts of 492 controls and 900 patients; ",
    ]
    lines[-1] += "after the first column the difference to it, on the same people."
    lines += ["", "| the new site's effect learnt from | pattern-c-index of its patients |", "|---|---|"]
    names = ["its people in training", *(f"{number} of its controls" for number in CONTROL_COUNTS)]
    lines += [
        f"| {name} | {method_scores.mean():.3f} (se {method_scores.std(ddof=1) / np.sqrt(options.cohorts):.3f}) |"
        for name, method_scores in zip(names, unseen.T, strict=True)
    ]
    lines += ["", "Three sites in training, ComBat on controls; the fourth site's patients are new.", ""]
    options.out.write_text("\n".join(lines), "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
