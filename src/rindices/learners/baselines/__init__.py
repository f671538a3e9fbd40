"""Baselines: decompositions without controls, and supervised regression."""
