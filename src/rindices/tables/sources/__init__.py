"""Reading files: text, parquet, chunks of a long table, tables of R-indices."""
