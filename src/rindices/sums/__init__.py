"""Fit a study across hospitals: only sums over people leave a site."""
