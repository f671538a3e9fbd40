"""Scripts that write package data and fixtures; not part of the package."""
