"""Learners: fit patterns to controls and patients and compute R-indices, all with one
protocol.
"""
