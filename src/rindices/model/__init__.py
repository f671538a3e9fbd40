"""A finished model: one file, no code in it, applied with numpy alone."""
