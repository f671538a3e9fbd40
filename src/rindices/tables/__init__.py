"""From a user's table to a validated cohort: read, joined by id, checked once at the
door.
"""
