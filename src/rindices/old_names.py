"""Names of rindices 0.1.0 that its files hold, and that a study may still use in this
version.
"""

OLD_METHOD_NAMES = {"default": "trajectories", "paper": "surreal-gan"}
"""Present names of methods by their old ones."""
OLD_SETTINGS = {"recipe": "method", "recipe_changes": "method_settings"}
"""Present names of settings of the section ``model`` of a study by their old ones."""
