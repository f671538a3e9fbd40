"""Studies with a known truth, and readers that compare what the program says of them
with it.
"""
