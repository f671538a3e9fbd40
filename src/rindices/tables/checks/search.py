"""All questions about the blocks of a table, one after the other; what one finds is
corrected before the next.
"""

from rindices.tables.checks.block_table import BlockTable, Suspicion
from rindices.tables.checks.codes import check_codes
from rindices.tables.checks.columns import check_columns
from rindices.tables.checks.copies import check_copies
from rindices.tables.checks.factor import check_factors
from rindices.tables.checks.grid import check_grid
from rindices.tables.checks.join import check_join
from rindices.tables.checks.odd_rows import check_odd_rows
from rindices.tables.checks.sides import check_sides

QUESTIONS = (
    check_odd_rows,
    check_codes,
    check_grid,
    check_columns,
    check_sides,
    check_factors,
    check_join,
    check_copies,
)


def search_blocks(table: BlockTable) -> list[Suspicion]:
    """Return what is suspicious about the blocks of a table, whose values are corrected
    by the way.
    """
    for ask in QUESTIONS:
        if table.usable.sum() >= table.n_people / 2:
            ask(table)
    return table.suspicions
