"""Adjusting for covariates and standardising, learnt on controls only; site harmonisation has its room here."""
