"""Standardising to controls: mean 1, standard deviation 0.1, the scale the paper's weights and bars are made for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import PreprocessingError, join_names

CONTROL_MEAN, CONTROL_SD = 1.0, 0.1


@dataclass(frozen=True)
class Standardiser:
    """The controls' mean (R,) and standard deviation (R,) of each region."""

    mean: FloatArray
    sd: FloatArray

    @classmethod
    def fit(cls, volumes: FloatArray, regions: Sequence[str]) -> Self:
        """Learn from controls (N, R); a region that does not vary in them is refused by name."""
        if len(volumes) < 2:
            raise PreprocessingError(f"{len(volumes)} controls are too few to standardise by: at least 2 are needed.")
        mean, sd = volumes.mean(axis=0), volumes.std(axis=0, ddof=1)
        flat = np.flatnonzero(~(sd > 1e-12 * np.maximum(np.abs(mean), 1e-300)))
        if flat.size:
            names = join_names(regions[int(place)] for place in flat)
            raise PreprocessingError(f"constant in the controls: {names}. Leave these regions out (--exclude).")
        return cls(mean, sd)

    def transform(self, volumes: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """(N, R) -> (N, R): controls get mean 1 and sd 0.1."""
        scale = CONTROL_SD / self.sd
        scaled = np.multiply(volumes, scale, out=out)
        scaled += CONTROL_MEAN - self.mean * scale
        return scaled

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the learnt numbers."""
        return {"standardise.mean": self.mean, "standardise.sd": self.sd}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray]) -> Self:
        """Build from `to_arrays`."""
        return cls(arrays["standardise.mean"], arrays["standardise.sd"])
