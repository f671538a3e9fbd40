"""Real tables and the ways in which labs make them wrong by mistake, for
``benchmarks.wrong_tables``.
"""
