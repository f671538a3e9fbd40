"""Simulated cohorts with known severities, and measurements on them."""
