"""Contrastive learner: patterns of variance that patients have in excess of controls,
in closed form.
"""
