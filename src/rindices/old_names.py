"""Names of rindices 0.1.0 that its files hold, and that a study may still use in this
version.
"""

OLD_METHOD_NAMES = {"default": "trajectories", "paper": "surreal-gan"}
"""Present names of methods by their old ones."""
OLD_COLUMNS = {
    "unusual": "outlier_score",
    "novel": "outside_training_range",
    "novel_because": "outside_because",
}
"""Present names of columns of R-indices by their old ones."""
OLD_FILES = {"outlying_measurements.tsv": "wrong_cells.tsv"}
"""Old names of files of a results folder by their present ones."""
OLD_SETTINGS = {"recipe": "method", "recipe_changes": "method_settings"}
"""Present names of settings of the section ``model`` of a study by their old ones."""
