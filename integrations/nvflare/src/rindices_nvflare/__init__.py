"""Studies between hospitals by NVIDIA FLARE: a server asks, hospitals answer with sums
over their people.
"""

__version__ = "0.1.0"
