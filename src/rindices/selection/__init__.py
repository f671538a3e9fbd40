"""Choosing among learnt results: arithmetic on arrays, no files, no torch."""
