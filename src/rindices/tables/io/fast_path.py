"""Rows of parquet in which nothing is odd: read without a detour, for they are nearly all.

What the first rows of a table told says what further ones should look like. Rows that do go by at once; where a single
cell does not, these rows take the long way through the door, which knows what to say.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
import pandas as pd

from rindices._typing import FloatArray
from rindices.tables.cohort import ID, Cohort
from rindices.tables.layout.formats import AGE_NAMES, find_column
from rindices.tables.participants import MAX_AGE, MISSING_CODES

if TYPE_CHECKING:
    import pyarrow as pa

_RANGE_MARGIN = 0.5  # of the first rows' range: further people may lie so far beyond it without being looked at


@dataclass(frozen=True)
class FastPathSchema:
    """What rows look like in which nothing is odd.

    Attributes
    ----------
    ids : str
        The column of ids.
    regions : mapping
        Columns of volumes and their regions, in the order of the regions.
    numbers : mapping
        Covariates that are numbers: the column, the lowest and the highest plain value.
    categories : mapping
        Covariates that are categories: the column and its levels.
    covariates : tuple of str
        Their names, in order.
    source, unit : str
        Of the cohort.
    """

    ids: str
    regions: Mapping[str, str]
    numbers: Mapping[str, tuple[str, float, float]]
    categories: Mapping[str, tuple[str, frozenset[str]]]
    covariates: tuple[str, ...]
    source: str
    unit: str

    @classmethod
    def from_cohort(cls, cohort: Cohort, ids: str, regions: Mapping[str, str], covariates: Mapping[str, str]) -> Self:
        """Learn from the first people of a table, and the columns of their ids, regions and covariates."""
        numbers, categories = {}, {}
        for name, column in covariates.items():
            values = cohort.covariates[name]
            if pd.api.types.is_numeric_dtype(values):
                numbers[name] = (column, *_widen_range(name, float(values.min()), float(values.max())))
            else:
                categories[name] = (column, frozenset(values.astype(str)))
        return cls(ids, dict(regions), numbers, categories, tuple(covariates), cohort.source, cohort.unit)

    def read(self, batch: "pa.RecordBatch") -> Cohort | None:
        """Return the people of rows, in their order; None where anything is odd."""
        ids = _read_text_cells(batch.column(self.ids)) if len(batch) else None
        if ids is None:
            return None
        covariates = self._covariates(batch)
        volumes = None if covariates is None else self._volumes(batch)
        if covariates is None or volumes is None:
            return None
        people = pd.DataFrame({ID: ids.to_pandas()}, copy=False)
        regions = pd.DataFrame(volumes.T, columns=self._names, copy=False)
        return Cohort(regions, people, covariates, self.source, self.unit)

    @cached_property
    def _names(self) -> pd.Index:
        return pd.Index(list(self.regions.values()), dtype="object")

    def _volumes(self, batch: "pa.RecordBatch") -> FloatArray | None:
        """Return the volumes (R, N); None where one is missing or not above 0."""
        import pyarrow as pa

        single = all(pa.types.is_float32(batch.schema.field(column).type) for column in self.regions)
        volumes = np.empty((len(self.regions), len(batch)), dtype=np.float32 if single else np.float64)
        for place, column in enumerate(self.regions):
            numbers = _read_number_cells(batch.column(column))
            if numbers is None or not (numbers.min() > 0 and numbers.max() < np.inf):
                return None
            volumes[place] = numbers
        return volumes

    def _covariates(self, batch: "pa.RecordBatch") -> pd.DataFrame | None:
        found: dict[str, object] = {}
        for name, (column, low, high) in self.numbers.items():
            numbers = _read_number_cells(batch.column(column))
            if numbers is None or not (numbers.min() >= low and numbers.max() <= high):
                return None
            if np.isin(numbers, [code for code in MISSING_CODES if low <= code <= high]).any():
                return None
            found[name] = numbers.astype(float)
        for name, (column, levels) in self.categories.items():
            cells = batch.column(column)
            coded = cells.dictionary_encode() if _is_text_array(cells) and not cells.null_count else None
            if coded is None or not levels.issuperset(texts := coded.dictionary.to_pylist()):
                return None
            found[name] = pd.Categorical.from_codes(coded.indices.to_numpy(), texts)
        return pd.DataFrame({name: found[name] for name in self.covariates}, pd.RangeIndex(len(batch)), copy=False)


def _widen_range(name: str, low: float, high: float) -> tuple[float, float]:
    """Return between which values a covariate goes by, of the range that the first people have."""
    wider = _RANGE_MARGIN * (high - low)
    below, above = low - wider, high + wider
    if low > 0:
        below = max(below, low / 2)
    return (max(below, 0.0), min(above, MAX_AGE)) if find_column([name], AGE_NAMES) else (below, above)


def _read_text_cells(cells: "pa.Array") -> "pa.Array | None":
    """Return cells as trimmed text; None where one is empty, two are alike, or they are neither text nor whole."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if cells.null_count or not (pa.types.is_integer(cells.type) or _is_text_array(cells)):
        return None
    texts = pc.utf8_trim_whitespace(cells) if _is_text_array(cells) else cells.cast(pa.string())
    empty = len(texts) and pc.min(pc.binary_length(texts)).as_py() == 0
    return None if empty or pc.count_distinct(texts).as_py() < len(texts) else texts


def _is_text_array(cells: "pa.Array") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type))


def _read_number_cells(cells: "pa.Array") -> FloatArray | None:
    """Return cells as they are; None where one is missing or they are no numbers."""
    import pyarrow as pa

    kinds = pa.types.is_float32(cells.type) or pa.types.is_float64(cells.type) or pa.types.is_integer(cells.type)
    return cells.to_numpy() if kinds and not cells.null_count else None
