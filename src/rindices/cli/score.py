"""``rindices score``: R-indices against known severities."""

from pathlib import Path
from typing import Annotated

import typer

from rindices.cli.console import print_result
from rindices.cli.options import Json

EPILOG = "Example: rindices score results/r_indices.tsv demo/truth.tsv"


def score(
    indices: Annotated[Path, typer.Argument(metavar="R_INDICES", help="participant_id and r1, r2, ...")],
    truth: Annotated[Path, typer.Argument(metavar="TRUTH", help="participant_id and s1, s2, ...")],
    as_json: Json = False,
) -> None:
    """Print the pattern-c-index: the share of pairs of people ranked as in the truth (1 is perfect, 0.5 is chance)."""
    from dataclasses import asdict

    from rindices.experiments.simulate import score_tables

    result = score_tables(indices, truth)
    matches = ", ".join(f"{name} = {index}: {value:.3f}" for name, index, value in result.per_pattern)
    text = f"pattern-c-index {result.pattern_c_index:.3f} over {result.people} people ({matches})"
    print_result(as_json, asdict(result), text)
