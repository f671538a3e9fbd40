"""Contrastive learner: patterns by which patients vary beyond controls, in closed form."""
