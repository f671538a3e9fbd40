"""Apply a model to tables of any size, and write the R-indices."""
