"""
Does an index mean the same for everyone?
=========================================
1,027 people of ABIDE I, 499 of them with autism, from 20 sites. The index is the same
for all; does it separate the groups in women and men, at all ages and at each site?

.. image:: /docs/figures/real_autism.png
"""

# sphinx_gallery_thumbnail_path = 'docs/figures/real_autism.png'

# %%
# ``fit`` writes the table of the figure as ``subgroups.tsv``, and the report shows it.
import tempfile

import matplotlib.pyplot as plt

import rindices as ri

folder = tempfile.mkdtemp()
ri.fit(ri.datasets.fetch_abide(), seed=900, workers=1, out=folder)

# %%
# Areas under the curve with 95 % intervals; every person is judged by members that were
# not trained on this person. Sex 1 is male; the band is the interval of everyone.
figure, panels = plt.subplots(
    3, 1, figsize=(6, 7.5), height_ratios=(2, 3, 16), sharex=True, layout="constrained"
)
for variable, panel in zip(("sex", "age", "site"), panels, strict=True):
    ri.plot.subgroups(folder, variable, ax=panel)
    panel.set_ylabel(variable)
plt.show()
