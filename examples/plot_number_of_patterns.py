"""
How many patterns
=================
Two checks of the number of patterns: the variation of patients relative to controls in
each direction, and the agreement of fits on different people.
"""

# %%
# Two cohorts of the same size: one with three patterns, and one without disease, in
# which the patients are controls.
import matplotlib.pyplot as plt
import numpy as np

import rindices as ri
from rindices.selection.agreement import pattern_c_index

cohorts = {
    "three patterns": ri.simulate_cohort("basic", 2).cohort,
    "no disease": ri.simulate_cohort("null", 2).cohort,
}
prepared = {
    name: ri.Preprocessing.fit(cohort).transform(cohort)
    for name, cohort in cohorts.items()
}

# %%
# The spectrum: variation of patients relative to controls. Three values stand out if
# there are three patterns, none if there is no disease.
figure, panel = plt.subplots(figsize=(6.5, 3.3), layout="constrained")
for (name, values), colour in zip(prepared.items(), ("C0", "0.6"), strict=True):
    learner = ri.ContrastiveICA(n_patterns=3, random_state=0).fit(
        values, cohorts[name].is_patient
    )
    panel.plot(range(1, 13), learner.spectrum_[:12], "o-", color=colour, label=name)
panel.set(
    xlabel="direction", ylabel="patients / controls", yscale="log", xticks=range(1, 13)
)
panel.legend()
plt.show()


# %%
# Agreement of disjoint halves: fit on each half of the people and compare the R-indices
# of all patients. Members that share people agree even on noise; fits on disjoint
# halves do not.
def compute_half_agreement(values, is_patient, n_patterns, seed=0):
    """Return the c-index between R-indices of two fits on disjoint halves."""
    first = np.random.default_rng(seed).random(len(values)) < 0.5
    fits = [
        ri.ContrastiveICA(n_patterns, random_state=0, rotation="ica").fit(
            values[half], is_patient[half]
        )
        for half in (first, ~first)
    ]
    first_indices, second_indices = (fit.transform(values[is_patient]) for fit in fits)
    return pattern_c_index(first_indices, second_indices).mean


numbers = range(1, 7)
figure, panel = plt.subplots(figsize=(6.5, 3.3), layout="constrained")
for (name, values), colour in zip(prepared.items(), ("C0", "0.6"), strict=True):
    patient = cohorts[name].is_patient
    agreement = [
        np.mean([compute_half_agreement(values, patient, m, seed) for seed in range(3)])
        for m in numbers
    ]
    panel.plot(numbers, agreement, "o-", color=colour, label=name)
panel.axhline(0.5, color="0.6", linewidth=1, linestyle="--")
panel.annotate(
    "chance",
    (6, 0.5),
    textcoords="offset points",
    xytext=(-4, 5),
    ha="right",
    color="0.4",
)
panel.set(
    xlabel="number of patterns",
    ylabel="agreement of halves",
    xticks=numbers,
    ylim=(0.45, 1),
)
panel.legend(loc="upper right")
plt.show()

# %%
# One pattern agrees well whenever groups differ: it is their difference. From two
# patterns on, agreement is highest at the true number of three; without disease it
# stays near chance. ``ri.fit`` computes this agreement for every setting and returns no
# model if it is too low.
