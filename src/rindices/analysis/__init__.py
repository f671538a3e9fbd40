"""What R-indices mean: statistics as tidy tables, pure functions of frames, and how they are written and drawn."""
