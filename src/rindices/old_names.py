"""Names of rindices 0.1.0 that its files hold, and that a study may still use in this
version.
"""

from collections.abc import Mapping
from typing import Any

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
OLD_SHAPES = {"straight": "proportional", "curved": "staged"}
"""Present names of shapes of patterns by their old ones."""
OLD_SETTINGS = {"recipe": "method", "recipe_changes": "method_settings"}
"""Present names of settings of the section ``model`` of a study by their old ones."""

_SHAPE_KEYS = {**OLD_SHAPES, "curved_gain_se": "staged_gain_se"}
_KEYS_OF_SHAPES = {"shape", "chosen"}


def rename_shapes(values: Any) -> Any:
    """Return the content of a JSON file with the present names of shapes."""
    if isinstance(values, list | tuple):
        return [rename_shapes(item) for item in values]
    if not isinstance(values, Mapping):
        return values
    return {
        _SHAPE_KEYS.get(key, key): OLD_SHAPES.get(item, item)
        if key in _KEYS_OF_SHAPES and isinstance(item, str)
        else rename_shapes(item)
        for key, item in values.items()
    }
