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
# New patients are ranked as well as the patients of the training cohort.
columns = [f"r{k + 1}" for k in range(3)]


def score_patients(people, rows):
    """Return the c-index of each pattern among the patients."""
    truth = simulated.truth[rows[simulated.cohort.is_patient]]
    inferred = model.apply(people).loc[people.is_patient, columns].to_numpy()
    return pattern_c_index(truth, inferred)


training_scores, new_scores = (
    score_patients(train, ~is_new),
    score_patients(new, is_new),
)
figure, panel = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
positions = np.arange(3)
panel.bar(
    positions - 0.19, training_scores.per_pattern, 0.36, color="0.7", label="training"
)
panel.bar(positions + 0.19, new_scores.per_pattern, 0.36, color="C0", label="new")
panel.set(
    ylim=(0.5, 1),
    ylabel="c-index",
    xticks=positions,
    xticklabels=[f"pattern {k + 1}" for k in range(3)],
)
panel.legend(loc="upper right", ncols=2)
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
