"""Layouts of tables: which program wrote a table and what its columns are."""
