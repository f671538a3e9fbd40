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
import base64
import io

import matplotlib.pyplot as plt
import pandas as pd
from PIL import Image
from scipy.stats import spearmanr

import rindices as ri
from rindices.datasets import get_folder
from rindices.report.figures import match_atlas, render_views

cohort = ri.datasets.fetch_ixi()
model = ri.fit(cohort, seed=900, workers=1)
ages = pd.read_csv(get_folder("ixi") / "demographics.csv", index_col="ID")["Age"]
indices = model.indices.dropna(subset="r1")
age = indices["participant_id"].map(ages)
is_old = indices["group"] == "patient"

# %%
# Above: the change of each region at full severity, red for loss. Below: the
# cross-fitted R-index against age.
effects = dict(zip(model.regions, model.patterns[-1, 0], strict=True))
limit = max(abs(value) for value in effects.values())
views = render_views(match_atlas(model.regions), effects, limit)
figure = plt.figure(figsize=(9, 5.4), layout="constrained")
maps, below = figure.subfigures(2, 1, height_ratios=(1, 1.7))
for panel, view in zip(
    maps.subplots(1, 6), [*views[:4], views[5], views[6]], strict=True
):
    panel.imshow(
        Image.open(io.BytesIO(base64.b64decode(view.uri.partition(",")[2]))).convert(
            "RGBA"
        )
    )
    panel.set_axis_off()
    panel.set_title(view.name.replace(" slice", ""), fontsize=7)
panel = below.subplots()
for name, mask, colour in (
    ("under 55", ~is_old, "#5d6d7e"),
    ("60 and more", is_old, "#c2410c"),
):
    rho = spearmanr(age[mask], indices["r1"][mask]).statistic
    panel.plot(
        age[mask],
        indices["r1"][mask],
        "o",
        color=colour,
        ms=4,
        alpha=0.8,
        label=f"{name}: rank correlation {rho:.2f}",
    )
panel.set(xlabel="age", ylabel="R-index, cross-fitted")
panel.legend(loc="upper left")
plt.show()
