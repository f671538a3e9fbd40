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
import pandas as pd

import rindices as ri
from rindices.datasets import get_folder

cohort = ri.datasets.fetch_csf()
model = ri.fit(cohort, seed=900, workers=1)

# %%
# Left: both groups. Right: the impaired alone, in bins of as many people each, against
# tau.
table = pd.read_csv(get_folder("csf") / "ad_data.csv").rename(
    columns={"rownames": "participant_id", "tau": "log tau"}
)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
ri.plot.severities(model, ax=left)
ri.plot.scatter(model, table, "log tau", ax=right)
plt.show()
