"""Ways in which labs make a table wrong by mistake; each returns what was changed, and
what must be named.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.wrong_blocks.tables import AGE, GROUP, HEAD, ID, SEX, SITE, RealTable
from rindices.tables.layouts.sides import pair_sides

Random = np.random.Generator
Rows = np.ndarray
LINKS = frozenset({AGE, SEX, HEAD})


@dataclass(frozen=True, eq=False)
class WrongTable:
    """An altered table, the rows that are wrong, and what is needed to see it.

    factor: by which values were multiplied; links: covariates whose link to the regions
    is lost.
    """

    frame: pd.DataFrame
    rows: Rows
    factor: float = 1.0
    links: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Fault:
    """A class of wrong tables: how it is made, where, and the codes of problems that
    are about it.
    """

    make: Callable[[RealTable, Rows, Random], WrongTable]
    where: str
    codes: frozenset[str]
    is_own: bool = False


def choose_rows(table: RealTable, where: str, rng: Random) -> Rows | None:
    """Return the rows of a site, of the patients, of half of the table, or of all of
    it; None without such a block.
    """
    n = len(table.frame)
    if where == "site":
        if not table.has_sites:
            return None
        sizes = table.frame[SITE].value_counts()
        sites = sizes[(sizes >= 8) & (sizes <= 0.6 * n)].index
        return (
            None
            if not len(sites)
            else (table.frame[SITE] == rng.choice(np.sort(sites))).to_numpy()
        )
    if where == "patients":
        return (table.frame[GROUP] == "patient").to_numpy()
    if where == "half":
        is_first = np.arange(n) < n // 2
        return is_first if rng.random() < 0.5 else ~is_first
    return np.ones(n, dtype=bool)


def _set(table: RealTable, rows: Rows, values: np.ndarray) -> pd.DataFrame:
    frame = table.frame.astype(dict.fromkeys(table.regions, float))
    frame.loc[rows, table.regions] = values
    return frame


def _values(table: RealTable, rows: Rows) -> np.ndarray:
    return table.frame.loc[rows, table.regions].to_numpy(dtype=float, copy=True)


def _count_decimals(values: np.ndarray) -> int:
    known = values[np.isfinite(values)]
    return next(
        (
            d
            for d in range(6)
            if (np.abs(known * 10**d - np.round(known * 10**d)) > 1e-6).mean() < 0.02
        ),
        6,
    )


def multiply(
    factor: float, is_rounded: bool = True
) -> Callable[[RealTable, Rows, Random], WrongTable]:
    """Return a fault: volumes, or thicknesses where there are no volumes, times a
    factor, and rounded again.
    """

    def make(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
        medians = table.frame[table.regions].median()
        is_volume = (medians > 10).to_numpy()
        columns = is_volume if is_volume.any() else ~is_volume
        values = _values(table, rows)
        for column in np.flatnonzero(columns):
            own = table.frame[table.regions[column]].to_numpy(dtype=float)
            values[:, column] *= factor
            if is_rounded:
                values[:, column] = np.round(
                    values[:, column], _count_decimals(own[:200])
                )
        return WrongTable(_set(table, rows, values), rows, factor=factor)

    return make


def swap_sides(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
    values = _values(table, rows)
    for left, right in pair_sides(table.regions):
        values[:, [left, right]] = values[:, [right, left]]
    return WrongTable(_set(table, rows, values), rows)


def shift_header(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
    return WrongTable(_set(table, rows, np.roll(_values(table, rows), 1, axis=1)), rows)


def shift_rows(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
    lag = int(rng.choice([-1, 1]))
    return WrongTable(
        _set(table, rows, np.roll(_values(table, rows), lag, axis=0)), rows, links=LINKS
    )


def sort_ids(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
    """Sort the ids alone: the regions of everyone are another one's."""
    order = rng.permutation(int(rows.sum()))
    return WrongTable(_set(table, rows, _values(table, rows)[order]), rows, links=LINKS)


def exchange_sites(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
    """Paste the regions of a site beside its people in the order of another column."""
    order = np.argsort(
        table.frame.loc[rows, ID].astype(str).str[::-1].to_numpy(), kind="stable"
    )
    return WrongTable(_set(table, rows, _values(table, rows)[order]), rows, links=LINKS)


def sort_age(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
    frame = table.frame.copy()
    frame.loc[rows, AGE] = np.sort(frame.loc[rows, AGE].to_numpy())
    return WrongTable(frame, rows, links=frozenset({AGE}))


def fill_age(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
    frame = table.frame.copy()
    frame.loc[rows, AGE] = frame.loc[rows, AGE].iloc[0]
    return WrongTable(frame, rows)


def _code_sex(frame: pd.DataFrame) -> np.ndarray:
    return pd.factorize(frame[SEX], sort=True)[0]


def mix_sex_codes(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
    codes = _code_sex(table.frame)
    return WrongTable(
        table.frame.assign(**{SEX: np.where(rows, codes + 1, codes)}), rows
    )


def reverse_sex(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
    codes = _code_sex(table.frame)
    return WrongTable(
        table.frame.assign(**{SEX: np.where(rows, 1 - codes, codes)}),
        rows,
        links=frozenset({SEX}),
    )


def shift_sex(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
    """Shift the column of sex by one cell."""
    frame = table.frame.copy()
    frame.loc[rows, SEX] = np.roll(frame.loc[rows, SEX].to_numpy(), 1)
    return WrongTable(frame, rows, links=frozenset({SEX}))


def _append(
    table: RealTable,
    numbers: np.ndarray,
    values: np.ndarray,
    name: str,
    **columns: object,
) -> WrongTable:
    added = table.frame.iloc[numbers].assign(
        **{ID: [f"{name}{k}" for k in range(len(numbers))], **columns}
    )
    added = added.astype(dict.fromkeys(table.regions, float))
    added[table.regions] = values
    frame = pd.concat([table.frame, added], ignore_index=True)
    rows = np.zeros(len(frame), dtype=bool)
    rows[len(table.frame) :] = True
    return WrongTable(frame, rows)


def double_half(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
    """Append half of the people once more, with 0.1 % noise."""
    numbers = np.sort(
        rng.choice(len(table.frame), len(table.frame) // 2, replace=False)
    )
    values = table.frame.iloc[numbers][table.regions].to_numpy(dtype=float)
    wrong = _append(
        table, numbers, values * np.exp(rng.normal(0, 0.001, values.shape)), "again"
    )
    both = wrong.rows.copy()
    both[numbers] = True
    return WrongTable(wrong.frame, both)


def add_converters(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
    """Append ten people of the controls as patients, under other ids, scanned again
    (1.5 % noise), a year later.
    """
    controls = np.flatnonzero((table.frame[GROUP] == "control").to_numpy())
    numbers = np.sort(rng.choice(controls, 10, replace=False))
    values = table.frame.iloc[numbers][table.regions].to_numpy(dtype=float)
    noisy = values * np.exp(rng.normal(0, 0.015, values.shape))
    ages = table.frame.iloc[numbers][AGE].to_numpy(dtype=float) + 1
    wrong = _append(table, numbers, noisy, "converter", **{GROUP: "patient", AGE: ages})
    both = wrong.rows.copy()
    both[numbers] = True
    return WrongTable(wrong.frame, both)


def add_mean_rows(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
    """Append a row of means for each group."""
    means = table.frame.groupby(GROUP)[table.regions].mean().to_numpy()
    numbers = [
        int(np.flatnonzero((table.frame[GROUP] == each).to_numpy())[0])
        for each in ("control", "patient")
    ]
    return _append(
        table, np.array(numbers), means, "Mean ", **{AGE: table.frame[AGE].mean()}
    )


def add_constant_rows(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
    """Fill the regions of three people with one value."""
    chosen = np.zeros(len(table.frame), dtype=bool)
    chosen[rng.choice(len(chosen), 3, replace=False)] = True
    return WrongTable(
        _set(
            table,
            chosen,
            np.full((3, len(table.regions)), _values(table, chosen)[0, 0]),
        ),
        chosen,
    )


def separate_scanners(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
    """Add a column of scanners, of an unusual name, that is equal to the groups."""
    is_patient = (table.frame[GROUP] == "patient").to_numpy()
    models = np.where(is_patient, "Siemens Prisma 3T", "GE Signa 1.5T")
    return WrongTable(
        table.frame.assign(mri_model=models), np.ones(len(models), dtype=bool)
    )


def count_months(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
    ages = table.frame[AGE].astype(float)
    return WrongTable(table.frame.assign(**{AGE: ages.where(~rows, ages * 12)}), rows)


def write_litres(table: RealTable, rows: Rows, rng: Random) -> WrongTable:
    """Write head size in another unit at a site: 3.375 times, voxels of 1.5 mm."""
    sizes = table.frame[HEAD].astype(float)
    return WrongTable(
        table.frame.assign(**{HEAD: sizes.where(~rows, sizes / 3.375)}), rows
    )


def _codes(*names: str) -> frozenset[str]:
    return frozenset(f"suspect_{name}" for name in names)


_JOIN = _codes("join", "covariate")
FAULTS: dict[str, Fault] = {
    "site in voxels of 1.5 mm": Fault(multiply(0.296), "site", _codes("factor")),
    "site times 1.3": Fault(multiply(1.3), "site", _codes("factor")),
    "site times 1.04, all digits kept": Fault(
        multiply(1.04, is_rounded=False), "site", _codes("factor")
    ),
    "half of the rows times 1.2": Fault(multiply(1.2), "half", _codes("factor")),
    "patients times 1.3": Fault(multiply(1.3), "patients", _codes("factor")),
    "sides exchanged at a site": Fault(swap_sides, "site", _codes("sides")),
    "sides exchanged in half of the rows": Fault(swap_sides, "half", _codes("sides")),
    "header shifted at a site": Fault(shift_header, "site", _codes("columns")),
    "header shifted in half of the rows": Fault(
        shift_header, "half", _codes("columns")
    ),
    "rows of a site shifted by one": Fault(shift_rows, "site", _JOIN),
    "half of the rows shifted by one": Fault(shift_rows, "half", _JOIN),
    "ids sorted alone": Fault(sort_ids, "table", _JOIN),
    "age of a site sorted alone": Fault(sort_age, "site", _JOIN),
    "age of half of the rows sorted alone": Fault(sort_age, "half", _JOIN),
    "age of a site filled down": Fault(fill_age, "site", _JOIN),
    "sex in two codes": Fault(mix_sex_codes, "site", _codes("codes")),
    "sex reversed in half of the rows": Fault(reverse_sex, "half", _JOIN),
    "half of the people twice": Fault(double_half, "table", _codes("copies")),
    "ten converters": Fault(add_converters, "table", _codes("copies")),
    "rows of means": Fault(add_mean_rows, "table", _codes("rows")),
    "scanners equal to the groups": Fault(
        separate_scanners, "table", frozenset({"site_separates_groups"})
    ),
    "rows of one value": Fault(
        add_constant_rows,
        "table",
        _codes("rows") | {"equal_rows", "mixed_units"},
        is_own=True,
    ),
    "ages of a site in months": Fault(
        count_months, "site", _codes("units") | {"impossible_values"}, is_own=True
    ),
    "heads of a site in voxels": Fault(
        write_litres, "site", _codes("units"), is_own=True
    ),
    "regions of a site pasted in another order": Fault(
        exchange_sites, "site", _JOIN, is_own=True
    ),
    "sex of half of the rows shifted": Fault(shift_sex, "half", _JOIN, is_own=True),
}
"""Classes of wrong tables by name: those of the review, and five more (is_own)."""
