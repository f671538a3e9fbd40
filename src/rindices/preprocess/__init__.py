"""Harmonising sites, adjusting for covariates, standardising: learnt once, the same for everyone afterwards."""
