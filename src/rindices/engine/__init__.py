"""Tasks on one machine or many: their retries, progress and interruption."""
