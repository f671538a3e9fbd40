"""Tests of whole blocks of a table, such as a site, a file or a range of rows; one
module a question.
"""
