"""
Apply a model to new people
===========================
A fitted model is one file with the adjustment for covariates, the members and the
patterns. It contains no training data and no code.
"""

# %%
# A cohort is split: two thirds for training, one third as new people.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import rindices as ri
from rindices.selection.agreement import pattern_c_index

simulated = ri.simulate_cohort("basic", seed=3)
is_new = np.random.default_rng(0).random(len(simulated.cohort)) < 1 / 3
train, new = simulated.cohort.take(~is_new), simulated.cohort.take(is_new)

# %%
# ``fit`` prepares people, trains each member on four fifths of them, checks that
# members agree, and returns their consensus. Method ``contrastive`` trains no networks,
# which makes this example fast.
model = ri.fit(train, patterns=3, members=5, method="contrastive", seed=0)
path = Path(tempfile.mkdtemp()) / "model.safetensors"
model.save(path)
print(model, f"{path.stat().st_size / 1024:.0f} KB")

# %%
# The file is all that is needed to apply the model:
r = ri.load(path).apply(new)
r.head()

# %%
# New patients are ranked as well as the patients of the training cohort: the c-index is
# the share of pairs of patients that are ranked alike.
columns = model.index_names


def get_truth_and_indices(people, rows):
    """Return true severities and R-indices of the patients."""
    inferred = model.apply(people).loc[people.is_patient, columns].to_numpy()
    return simulated.truth[rows[simulated.cohort.is_patient]], inferred


scores = {
    name: pattern_c_index(*get_truth_and_indices(people, rows)).per_pattern.round(3)
    for name, people, rows in (("training", train, ~is_new), ("new", new, is_new))
}
pd.DataFrame(scores, index=["pattern 1", "pattern 2", "pattern 3"])

# %%
# The new patients, in bins by their true severity.
figure, panels = plt.subplots(1, 3, figsize=(7.1, 2.5), layout="constrained")
ri.plot.recovery(*get_truth_and_indices(new, is_new), ax=panels)
plt.show()

# %%
# The new people by group.
groups = np.where(new.is_patient, "patient", "control")
figure, panel = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
ri.plot.severities(r.assign(group=groups), ax=panel)
plt.show()

# %%
# A table that does not match the model is refused, and the message says what to do.
try:
    model.apply(
        ri.Cohort(
            volumes=new.volumes.drop(columns=new.regions[0]),
            people=new.people,
            covariates=new.covariates,
            source=new.source,
            unit=new.unit,
        )
    )
except ri.RindicesError as error:
    print(error)
