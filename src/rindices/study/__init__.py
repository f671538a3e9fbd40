"""Studies: many members over a grid, planned, run, resumed and turned into
one answer.
"""
