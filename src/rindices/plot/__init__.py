"""Figures on matplotlib: ``ax=`` in, axes out.

Each function takes numbers that an estimator or a results folder holds, draws on ``ax`` or on a new figure, and returns
the axes, so that a user can go on drawing. No function shows single participants.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rindices.plot.gan import agreement, synthetic, training, transformation

_HOMES = dict.fromkeys(("agreement", "synthetic", "training", "transformation"), "rindices.plot.gan")

__all__ = ["agreement", "synthetic", "training", "transformation"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rindices.plot' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
