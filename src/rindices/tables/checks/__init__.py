"""Checks of a table, one module a question: of its IDs, groups and values, and of whole
blocks such as a site, a file or a range of rows.
"""
