"""Simulated cohorts with known truth, and what is measured on them."""
