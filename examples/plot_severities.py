"""
Three severities from 139 regions
=================================
From a table of regional volumes, each patient gets three numbers, one for each pattern
of atrophy. In simulated people the true severities are known, and the R-indices can be
compared with them.
"""

# %%
# The people: 492 controls and 900 patients. Each patient has three severities between 0
# and 1, drawn independently. The learner does not see them.
import matplotlib.pyplot as plt
import numpy as np

import rindices as ri

simulated = ri.simulate_cohort("basic", seed=0)
cohort = simulated.cohort
cohort

# %%
# Volumes depend on age, sex and head size. These effects are estimated in controls and
# removed; each region then has mean 1 and standard deviation 0.1 in controls.
values = ri.Preprocessing.fit(cohort).transform(cohort)

# %%
# The contrastive learner needs no training loop. It finds directions in which patients
# vary more than controls.
learner = ri.ContrastiveICA(n_patterns=3, random_state=0).fit(values, cohort.is_patient)
r = learner.transform(values)

# %%
# Indices and severities are matched one to one, because their order is arbitrary. The
# c-index is the share of pairs of patients that are ranked alike; 0.5 is chance, 1 is
# perfect.
from rindices.selection.agreement import pattern_c_index

score = pattern_c_index(simulated.truth, r[cohort.is_patient])

figure, panels = plt.subplots(
    1, 3, figsize=(9.5, 3.5), sharey=True, layout="constrained"
)
for k, (panel, index) in enumerate(zip(panels, score.matching, strict=True)):
    panel.scatter(
        simulated.truth[:, k],
        r[cohort.is_patient, index],
        s=7,
        alpha=0.5,
        color=f"C{k}",
        linewidths=0,
    )
    panel.axline((0, 0), slope=1, color="0.6", linewidth=1, linestyle="--")
    panel.set_title(f"pattern {k + 1}: c-index {score.per_pattern[k]:.3f}")
    panel.set_xlabel("true severity")
panels[0].set_ylabel("R-index")
plt.show()

# %%
# Controls have no disease. The spread of their R-indices around 0 shows the error of a
# single R-index.
figure, panel = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
bins = np.linspace(-0.6, 1.4, 61)
panel.hist(
    r[cohort.is_patient].ravel(),
    bins,
    density=True,
    alpha=0.75,
    color="C0",
    label="patients",
)
panel.hist(
    r[cohort.is_control].ravel(),
    bins,
    density=True,
    alpha=0.75,
    color="0.6",
    label="controls",
)
panel.set(xlabel="R-index, all three patterns", ylabel="density")
panel.legend()
plt.show()
