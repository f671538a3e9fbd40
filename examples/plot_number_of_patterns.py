"""
How many patterns
=================
Two checks of the number of patterns: the variation of patients relative to controls in
each direction, and the agreement of fits on different people.
"""

# %%
# Two cohorts of the same size: one with three patterns, and one without disease, in
# which the patients are controls. ``fit`` tests both. Method ``contrastive`` trains no
# networks, which makes this example fast.
import warnings

import matplotlib.pyplot as plt

import rindices as ri

warnings.simplefilter("ignore", ri.StudyWarning)  # the second study finds nothing
three = ri.fit(
    ri.simulate_cohort("basic", 2).cohort,
    patterns=[2, 3, 4],
    members=2,
    method="contrastive",
    workers=1,
    seed=0,
)
none = ri.fit(ri.simulate_cohort("null", 2).cohort, method="contrastive", workers=1)
print(three, none, sep="\n")

# %%
# The permutation test: how much more patients vary than controls in their most variable
# direction, relative to what permuted labels give (grey). Directions are removed one
# after the other, until what is left is no more than chance. Three stand out.
ri.plot.number(three)
plt.show()

# %%
# Without disease, patients do not differ from controls at all, and there is no model.
none.findings.difference

# %%
# Agreement of disjoint halves: the people are split, both halves are fitted, and the
# R-indices of all patients are compared. Fits that share people agree even on noise;
# fits on disjoint halves do not. Agreement is high up to the true number of three.
ri.plot.number(three, by="agreement")
plt.show()
