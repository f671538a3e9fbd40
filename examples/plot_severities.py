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
import pandas as pd

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
score.per_pattern.round(3)

# %%
# Points are medians of a tenth of the patients, bars span their quartiles.
figure, panels = plt.subplots(1, 3, figsize=(7.1, 2.5), layout="constrained")
ri.plot.recovery(simulated.truth, r[cohort.is_patient], ax=panels)
plt.show()

# %%
# Controls have no disease. The spread of their R-indices around 0 shows the error of a
# single R-index.
indices = pd.DataFrame(r, columns=["r1", "r2", "r3"])
indices["group"] = np.where(cohort.is_patient, "patient", "control")
figure, panel = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
ri.plot.severities(indices, ax=panel)
plt.show()
