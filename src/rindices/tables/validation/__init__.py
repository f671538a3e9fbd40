"""Validation: ids, groups, units and values of a table."""
