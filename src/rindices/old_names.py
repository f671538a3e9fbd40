"""Names of rindices 0.1.0 that its files hold, and that a study may still use in this
version.
"""

import warnings
from collections.abc import ItemsView, KeysView, Mapping
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


class ReadLikeDict:
    """A record that can also be read like the dictionary in its file.

    Methods print one line with the attribute that is read instead.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        raise NotImplementedError

    def __getitem__(self, key: str) -> Any:
        _warn_of_dict(f"record[{key!r}]", f"record.{key}")
        return self.to_dict()[key]

    def __contains__(self, key: object) -> bool:
        _warn_of_dict(f"{key!r} in record", "record.to_dict()")
        return key in self.to_dict()

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or the default where the file would not hold the key."""
        _warn_of_dict(f"record.get({key!r})", f"record.{key}")
        return self.to_dict().get(key, default)

    def keys(self) -> KeysView[str]:
        """Return the keys of the file."""
        _warn_of_dict("record.keys()", "record.to_dict()")
        return self.to_dict().keys()

    def items(self) -> ItemsView[str, Any]:
        """Return the keys of the file with their values."""
        _warn_of_dict("record.items()", "record.to_dict()")
        return self.to_dict().items()


def _warn_of_dict(old: str, new: str) -> None:
    text = f"{old} works in rindices 0.2 alone: write {new}"
    warnings.warn(text, FutureWarning, stacklevel=3)
