"""
The same patients a year later
==============================
98 patients with early psychosis and 67 controls, scanned twice. At both visits a person
is judged by members that were trained on other people.

.. image:: /docs/figures/real_psychosis.png
"""

# sphinx_gallery_thumbnail_path = 'docs/figures/real_psychosis.png'

# %%
# The table is public, but not ours to pass on: `its source
# <https://doi.org/10.7554/eLife.95823>`_.
import sys

import matplotlib.pyplot as plt

import rindices as ri

path = (
    sys.argv[1]
    if len(sys.argv) > 1
    else "../shared/data/patients/psychosis/LNM_data.csv"
)
options = {
    "group": "group",
    "controls": "control",
    "patients": "patient",
    "measure": "any",
}
covariates = ["age", "sex", "EstimatedTotalIntraCranialVol"]
cohort = ri.read_cohort(
    path, id="sub_id", session="visit", covariates=covariates, **options
)
model = ri.fit(cohort, seed=900, workers=1)
visits = model.visit_indices.pivot(
    index="participant_id", columns="session_id", values="r1"
).dropna()
group = model.indices.set_index("participant_id")["group"].reindex(visits.index)

# %%
# Left: the first visit against the second. Right: the change of each person.
first, second = visits.columns
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for name, colour in (("control", "#5d6d7e"), ("patient", "#c2410c")):
    own = visits[group == name]
    rho = own.corr("spearman").iloc[0, 1]
    left.plot(
        own[first],
        own[second],
        "o",
        ms=4,
        alpha=0.75,
        color=colour,
        label=f"{name}s: rank correlation {rho:.2f}",
    )
    change = own[second] - own[first]
    right.hist(
        change,
        20,
        density=True,
        alpha=0.55,
        color=colour,
        label=f"{name}s: {change.mean():+.2f} on average",
    )
left.axline((0, 0), slope=1, color="0.6", lw=1)
left.set(xlabel="R-index, visit 1", ylabel="R-index, visit 2")
right.set(xlabel="change in about 1.1 years", ylabel="density")
for panel in (left, right):
    panel.legend(fontsize=8)
plt.show()
