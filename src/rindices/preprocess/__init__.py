"""Harmonise sites, adjust for covariates and standardise; estimated once, applied alike
to all people.
"""
