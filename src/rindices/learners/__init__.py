"""Learners: fit on controls and patients, transform people to R-indices, show patterns. One protocol for all."""
