"""Suites: learners on simulated cohorts, on cohorts that could mislead, and on real
patients.
"""
