"""
A model for people it has not seen
==================================
A study ends in one file that holds all that new people need: the adjustment for covariates, the members, the patterns.
No training data, no code.
"""

# %%
# A cohort is split: two thirds to learn from, one third stays unseen.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import rindices as ri
from rindices.selection.agreement import pattern_c_index

made = ri.simulate_cohort("basic", seed=3)
unseen = np.random.default_rng(0).random(len(made.cohort)) < 1 / 3
train, new = made.cohort.take(~unseen), made.cohort.take(unseen)

# %%
# ``fit`` prepares people, trains members on four fifths of them each, checks that they agree, and keeps their
# consensus. Recipe ``contrastive`` leaves the networks out, which makes this example fast.
model = ri.fit(train, patterns=3, members=4, recipe="contrastive", seed=0)
path = Path(tempfile.mkdtemp()) / "model.safetensors"
model.save(path)
print(model, f"{path.stat().st_size / 1024:.0f} KB")

# %%
# Elsewhere, with the file alone:
r = ri.load(path).apply(new)
r.head()

# %%
# Unseen patients are ranked as well as those that were learnt from.
columns = [f"r{k + 1}" for k in range(3)]


def accuracy(people, which):
    """Return the c-index of each pattern among some people's patients."""
    truth = made.truth[which[made.cohort.is_patient]]
    inferred = model.apply(people).loc[people.is_patient, columns].to_numpy()
    return pattern_c_index(truth, inferred)


seen, not_seen = accuracy(train, ~unseen), accuracy(new, unseen)
figure, panel = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
places = np.arange(3)
panel.bar(places - 0.19, seen.per_pattern, 0.36, color="0.7", label="learnt from")
panel.bar(places + 0.19, not_seen.per_pattern, 0.36, color="C0", label="never seen")
panel.set(ylim=(0.5, 1), ylabel="c-index", xticks=places, xticklabels=[f"pattern {k + 1}" for k in range(3)])
panel.legend(loc="upper right", ncols=2)
plt.show()

# %%
# A table that does not fit is refused, and the message says what to do.
try:
    model.apply(ri.Cohort(new.volumes.drop(columns=new.regions[0]), new.people, new.covariates, new.source, new.unit))
except ri.RindicesError as error:
    print(error)
