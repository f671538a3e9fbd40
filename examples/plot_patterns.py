"""
Regions of each pattern
=======================
An R-index measures severity; its pattern shows the regions. Patterns are the change of
each region at severity 1, in standard deviations of controls.
"""

# %%
# The paper's basic task: each of three patterns reduces 14 regions by up to 30 %, and
# shares four regions with the others. ``simulated.patterns`` contains the truth.
import matplotlib.pyplot as plt
import pandas as pd

import rindices as ri
from rindices.selection.agreement import pattern_c_index

simulated = ri.simulate_cohort("basic", seed=1)
cohort = simulated.cohort
values = ri.Preprocessing.fit(cohort).transform(cohort)
learner = ri.ContrastiveICA(n_patterns=3, random_state=0).fit(values, cohort.is_patient)

# %%
# Patterns are matched with the true ones, because their order is arbitrary, and written
# as a table like ``patterns.tsv`` of a study: one row for each pattern and region.
order = pattern_c_index(
    simulated.truth, learner.transform(values)[cohort.is_patient]
).matching
names = ["r1", "r2", "r3"]


def make_table(changes):
    """Return changes of shape (patterns, regions) as a table."""
    wide = pd.DataFrame(changes, index=names, columns=cohort.regions)
    return (
        wide.rename_axis("pattern")
        .reset_index()
        .melt("pattern", var_name="region", value_name="change")
    )


estimate = make_table(learner.patterns_[order])
largest_loss = simulated.patterns.set_index("region").loc[list(cohort.regions)]
truth = make_table(-largest_loss.to_numpy().T)

# %%
# How many of the regions of each true pattern are among the fourteen that change most.
is_true = truth.set_index(["pattern", "region"])["change"] < 0
largest = (
    estimate.sort_values("change").groupby("pattern").head(14)[["pattern", "region"]]
)
found = is_true.loc[list(largest.itertuples(index=False, name=None))]
found.groupby("pattern").sum()

# %%
# The regions that change most in each pattern.
figure, panels = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
ri.plot.forest(estimate, n_regions=14, ax=panels)
plt.show()

# %%
# ``ri.plot.patterns(estimate)`` draws them on the brain.

# %%
# Regions by lobe. Colours of the estimate end at its largest change (in standard
# deviations of controls), those of the truth at its largest loss (a share of the
# volume).
figure, panels = plt.subplots(1, 2, figsize=(7.1, 6), layout="constrained")
for panel, table, title in zip(
    panels, (estimate, truth), ("estimate", "truth"), strict=True
):
    ri.plot.region_heatmap(table, ax=panel, colorbar=False)
    panel.set_title(title, pad=22)
plt.show()
