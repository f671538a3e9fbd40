"""
Proteins of the cerebrospinal fluid
===================================
333 real people, 91 of them with impaired cognition, and 124 proteins: no brain regions.
The R-indices are compared with tau, which no step has seen.

.. image:: /docs/figures/real_csf.png
"""

# sphinx_gallery_thumbnail_path = 'docs/figures/real_csf.png'

# %%
# The table is downloaded once and compared with its digest. ``model.indices`` are
# cross-fitted: those of a person come from members that were not trained on this
# person.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import spearmanr

import rindices as ri
from rindices.datasets import get_folder

cohort = ri.datasets.fetch_csf()
model = ri.fit(cohort, seed=900, workers=1)
indices = model.indices.assign(
    score=model.indices[model.index_names].mean(axis=1)
).dropna(subset="score")

# %%
# Left: both groups. Right: the impaired alone, against tau.
table = pd.read_csv(get_folder("csf") / "ad_data.csv", index_col="rownames")
tau = indices["participant_id"].astype(int).map(table["tau"])
is_patient = indices["group"] == "patient"
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
bins = np.linspace(indices["score"].min(), indices["score"].max(), 26)
for name, mask, colour in (
    ("controls", ~is_patient, "#5d6d7e"),
    ("impaired", is_patient, "#c2410c"),
):
    left.hist(
        indices["score"][mask],
        bins,
        density=True,
        alpha=0.55,
        color=colour,
        label=f"{name} ({mask.sum()})",
    )
left.set(
    xlabel="R-index, cross-fitted",
    ylabel="density",
    title=f"{model.n_patterns} index, {len(cohort)} people",
)
left.legend()
right.plot(
    tau[is_patient], indices["score"][is_patient], "o", color="#c2410c", alpha=0.7, ms=5
)
rho = spearmanr(tau[is_patient], indices["score"][is_patient]).statistic
right.set(
    xlabel="log tau, which no step has seen",
    ylabel="R-index",
    title=f"impaired people: rank correlation {rho:.2f}",
)
plt.show()
