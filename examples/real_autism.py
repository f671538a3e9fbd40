"""
Does an index mean the same for everyone?
=========================================
1,027 people of ABIDE I, 499 of them with autism, from 20 sites. The index is the same
for all; does it separate the groups in women and men, at all ages and at each site?

.. image:: /docs/figures/real_autism.png
"""

# sphinx_gallery_thumbnail_path = 'docs/figures/real_autism.png'

# %%
# ``fit`` writes this table as ``subgroups.tsv``, and the report shows it.
import matplotlib.pyplot as plt
import numpy as np

import rindices as ri
from rindices.study.subgroups import make_subgroup_table

cohort = ri.datasets.fetch_abide()
model = ri.fit(cohort, seed=900, workers=1)
table = make_subgroup_table(cohort, model.indices, ["r1"], seed=900)
table["level"] = table["level"].replace({"1": "male", "2": "female"})
overall = model.card.pattern_evidence[0]

# %%
# Areas under the curve with 95 % intervals; every person is judged by members that were
# not trained on this person.
figure, panel = plt.subplots(figsize=(7, 6.2), layout="constrained")
rows = np.arange(len(table))[::-1]
colours = table["variable"].map({"sex": "#0b5a7a", "age": "#d9772b", "site": "#5d6d7e"})
panel.hlines(rows, table["low"], table["high"], colours, lw=1.6)
panel.scatter(
    table["auc"],
    rows,
    s=np.sqrt(table["controls"] + table["patients"]) * 6,
    c=colours,
    zorder=2,
)
labels = [
    f"{row.variable} {row.level} ({row.controls} + {row.patients})"
    for row in table.itertuples()
]
panel.set_yticks(rows, labels, fontsize=8)
panel.axvspan(*overall.auc_interval, color="0.9", zorder=0)
panel.axvline(overall.auc, color="0.6", lw=1, label=f"everyone: {overall.auc:.2f}")
panel.axvline(0.5, color="0.3", lw=0.8, ls="--", label="chance")
panel.set(
    xlabel="AUC of the R-index, cross-fitted", xlim=(0.2, 1), ylim=(-1, len(table))
)
panel.legend(loc="lower right")
plt.show()
