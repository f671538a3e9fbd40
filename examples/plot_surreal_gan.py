"""
Surreal-GAN: train, watch, synthesise
=====================================
A network f makes synthetic patients from controls, a network D judges whether a patient
is real, and a network g reads the severities back. This example trains them in front of
your eyes, and then asks them what they have learnt.
"""

# %%
# The people: 150 controls and 200 patients with three patterns of atrophy. The learner
# is told who is a patient, but not how severe each pattern is.
import matplotlib.pyplot as plt
import numpy as np

import rindices as ri
from rindices import plot
from rindices.learners.gan.callbacks import ProgressLine
from rindices.learners.gan.recipe import SURREAL_GAN
from rindices.selection.agreement import pattern_c_index
from rindices.tables.layouts.region_names import label_regions

simulated = ri.simulate_cohort("small", seed=0)
cohort = simulated.cohort
values = ri.Preprocessing.fit(cohort).transform(cohort)
labels = np.where(cohort.is_patient, "patient", "control")

# %%
# Two members of an ensemble are trained, for a third of the usual steps. Each begins at
# the linear solution of its own four fifths of the people. ``ProgressLine`` prints the
# step, the losses and the time left.
training = SURREAL_GAN.replace(min_steps=1_000, max_steps=1_000)
learner = ri.SurrealGAN(
    n_patterns=3,
    members=2,
    training=training,
    random_state=0,
    callbacks=[ProgressLine()],
)
learner.fit(values, labels)
learner.history_.tail(3)

# %%
# The losses by step: mean and range of the members.
plot.training(learner.history_)
plt.show()

# %%
# g gives each patient three R-indices. The true severities are known here: the c-index
# is the share of pairs of patients that are ranked alike; 0.5 is chance, 1 is perfect.
r = learner.transform(values[cohort.is_patient])
score = pattern_c_index(simulated.truth, r)
score.per_pattern.round(3)

# %%
# f changes any control as any severities would. Here are the regions that change most
# under the first pattern, at three severities, on average over the controls.
controls = values[cohort.is_control]
severities = (1 / 3, 2 / 3, 1.0)
changes = [
    (learner.synthesise(controls, [z, 0.0, 0.0]) - controls).mean(axis=0)
    / controls.std(axis=0)
    for z in severities
]
plot.transformation(
    np.array(changes), list(label_regions(cohort.regions).values()), severities
)
plt.show()

# %%
# Synthetic patients beside real ones: the mean of each region, in standard deviations
# of controls.
z = np.random.default_rng(0).uniform(size=(len(controls), 3))
synthetic = learner.synthesise(controls, z)
means = [
    (people.mean(axis=0) - controls.mean(axis=0)) / controls.std(axis=0)
    for people in (values[cohort.is_patient], synthetic)
]
plot.synthetic(*means)
plt.show()

# %%
# ``decompose`` tells which part of each region's change belongs to which pattern, for a
# single person.
parts = learner.decompose(values[cohort.is_patient][:1])
parts.shape
