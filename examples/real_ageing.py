"""
Ageing of healthy brains
========================
246 healthy people of the IXI study with MUSE volumes. Those under 55 stand for
controls, those of 60 and more for patients; nobody's age is told to the model beyond
these two words.

.. image:: /docs/figures/real_ageing.png
"""

# sphinx_gallery_thumbnail_path = 'docs/figures/real_ageing.png'

# %%
# Ages come from the table of participants, for the figure alone.
import matplotlib.pyplot as plt
import pandas as pd

import rindices as ri
from rindices.datasets import get_folder

cohort = ri.datasets.fetch_ixi()
model = ri.fit(cohort, seed=900, workers=1)
ages = pd.read_csv(get_folder("ixi") / "demographics.csv").rename(
    columns={"ID": "participant_id", "Age": "age"}
)

# %%
# Above: the change of each region at full severity, red for loss. Below: the
# cross-fitted R-index against age, in bins of as many people each, among those of 60
# and more and among those under 55.
figure = plt.figure(figsize=(9, 5.6), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=(1, 1.7))
ri.plot.patterns(model, "r1", ax=above.subplots())
for group, panel in zip(
    ("controls", "patients"), below.subplots(1, 2, sharey=True), strict=True
):
    ri.plot.scatter(model, ages, "age", group=group, ax=panel)
plt.show()
