"""Learners with few steps, and small cohorts whose truth is known."""

import numpy as np

from benchmarks.suites.baselines.contrastive_vae import ContrastiveVAE
from benchmarks.suites.baselines.decompositions import LDABaseline
from rindices.learners.gan.estimator import SurrealGAN
from rindices.learners.gan.recipe import Recipe

BRIEF = Recipe(
    learning_rate=8e-4,
    min_steps=20,
    max_steps=20,
    check_every=20,
    reconstruction_bar=1e3,
    monotonicity_bar=1e3,
    batch_share=4,
)


def make_learner(learner, m=3, seed=0):
    short = {}
    if issubclass(learner, LDABaseline):
        short = {"max_iter": 5}
    elif issubclass(learner, ContrastiveVAE):
        short = {"n_steps": 20, "n_hidden": 8}
    elif issubclass(learner, SurrealGAN):
        short = {"training": BRIEF, "members": 2}
    return learner(n_patterns=m, random_state=seed, **short)


def make_cohort(seed=0, controls=120, patients=200, regions=24, rate=0.6):
    """Volumes with disjoint patterns of a third of the regions each, and severities."""
    rng = np.random.default_rng(seed)
    x = np.exp(rng.normal(7, 0.12, (controls + patients, regions)))
    severity = rng.random((patients, 3))
    x[controls:] *= 1 - rate * severity[:, np.arange(regions) % 3]
    return x, np.repeat([0, 1], [controls, patients]), severity


def make_hidden_subgroups(seed=0, people=300, regions=30):
    """Patients of two crossed pairs of subgroups, hidden by larger variation that they
    share with the controls.

    This is the design of the simulated example of contrastive PCA (Abid et al. 2018),
    with correlated regions. Returns people, labels and the subgroups (patients, 2) as
    -1 and 1.
    """
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(2 * people, 3)) @ rng.normal(size=(3, regions)) * 3
    x = shared + rng.normal(size=(2 * people, regions))
    subgroups = rng.choice([-1.0, 1.0], (people, 2))
    half = regions // 2
    x[people:, :half] += 1.5 * subgroups[:, [0]]
    x[people:, half:] += 1.0 * subgroups[:, [1]]
    return x, np.repeat([0, 1], people), subgroups


class LinearCohort:
    """Controls e, patients D s + e with two overlapping sparse patterns and uniform
    severities.
    """

    def __init__(self, controls=80, patients=300, regions=40, correlation=0.0, seed=0):
        rng = np.random.default_rng(seed)
        loadings = rng.normal(size=(regions, 3))
        self.noise = loadings @ loadings.T / 3 + 0.5 * np.eye(regions)
        root = np.linalg.cholesky(self.noise)
        self.patterns = np.zeros((regions, 2))
        self.patterns[:12, 0], self.patterns[8:20, 1] = -2.5, -2.5
        normals = rng.normal(size=(patients, 2))
        normals[:, 1] = (
            correlation * normals[:, 0] + np.sqrt(1 - correlation**2) * normals[:, 1]
        )
        self.z = normals.argsort(axis=0).argsort(axis=0) / patients
        self.controls = rng.normal(size=(controls, regions)) @ root.T
        self.patients = (
            self.z @ self.patterns.T + rng.normal(size=(patients, regions)) @ root.T
        )
        self.people = np.concatenate([self.controls, self.patients])
        self.y = np.repeat([0, 1], [controls, patients])
