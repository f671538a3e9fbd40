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
import pandas as pd

import rindices as ri
from rindices.analysis.change import change_per_year

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

# %%
# The change per year of each person needs a column with the time of a visit: the age.
table = pd.read_csv(path, dtype={"visit": str}).rename(
    columns={"sub_id": "participant_id", "visit": "session_id"}
)
keys = ["participant_id", "session_id"]
visits = model.visit_indices.astype({"session_id": str}).merge(
    table[[*keys, "age"]], on=keys
)
change = change_per_year(visits, "age")

# %%
# How alike both visits of a person are: the rank correlation in each group.
both = visits.pivot_table(
    index=["participant_id", "group"], columns="session_id", values="r1"
).dropna()
both.groupby("group").corr("spearman")

# %%
# Left: the mean change since the first visit with its 95 % interval, and the smallest
# change of a single person that is no retest error. Right: the change per year.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
ri.plot.visits(change, ax=left)
ri.plot.change(change, ax=right)
plt.show()
