"""Baselines: unsupervised decompositions and supervised regression."""
