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
import numpy as np

import rindices as ri
from rindices.selection.agreement import pattern_c_index
from rindices.tables.layouts.muse import single_regions

simulated = ri.simulate_cohort("basic", seed=1)
cohort = simulated.cohort
values = ri.Preprocessing.fit(cohort).transform(cohort)
learner = ri.ContrastiveICA(n_patterns=3, random_state=0).fit(values, cohort.is_patient)

order = pattern_c_index(
    simulated.truth, learner.transform(values)[cohort.is_patient]
).matching
patterns = learner.patterns_[order]
names = {f"MUSE_{code}": region.label for code, region in single_regions().items()}
truth = (
    simulated.patterns.set_index("region").loc[list(cohort.regions)].to_numpy().T > 0
)

# %%
# The twenty regions with the largest change in each pattern. Regions of the true
# pattern are coloured, others grey. The title counts the true regions among the first
# fourteen.
figure, panels = plt.subplots(1, 3, figsize=(10, 5.2), layout="constrained")
for k, panel in enumerate(panels):
    largest = np.argsort(patterns[k])[:20][::-1]
    colours = [f"C{k}" if truth[k, region] else "0.8" for region in largest]
    panel.barh(range(len(largest)), patterns[k, largest], color=colours)
    labels = [names[cohort.regions[region]] for region in largest]
    panel.set_yticks(
        range(len(largest)),
        [text if len(text) < 27 else f"{text[:24]}..." for text in labels],
        fontsize=7,
    )
    panel.set_title(
        f"pattern {k + 1}: {int(truth[k, largest[6:]].sum())} of {int(truth[k].sum())} found"
    )
    panel.set_xlabel("change in control sd")
    panel.margins(y=0.01)
plt.show()

# %%
# All 139 regions: the true patterns above, the estimated ones below.
figure, panels = plt.subplots(
    2, 1, figsize=(10, 2.9), sharex=True, layout="constrained"
)
panels[0].imshow(
    -truth.astype(float),
    aspect="auto",
    cmap="RdBu_r",
    vmin=-1,
    vmax=1,
    interpolation="nearest",
)
limit = np.abs(patterns).max()
image = panels[1].imshow(
    patterns,
    aspect="auto",
    cmap="RdBu_r",
    vmin=-limit,
    vmax=limit,
    interpolation="nearest",
)
for panel, title in zip(panels, ("truth", "estimate"), strict=True):
    panel.set_yticks(range(3), ["1", "2", "3"])
    panel.set_ylabel(title)
    panel.grid(False)
panels[1].set_xlabel("region")
figure.colorbar(image, ax=panels[1], label="control sd")
plt.show()
