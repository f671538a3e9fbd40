"""The table of what leaves is the one of the documentation, and kinds that there are
not are refused.
"""

from pathlib import Path

import numpy as np
import pytest

from rindices.sums import kinds
from rindices.sums.messages import Request, SumsError


def test_documentation_has_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "parts.md").read_text("utf-8")
    rows = page.partition("| round | what leaves a part |\n|---|---|\n")[2].split(
        "\n\n"
    )[0]
    cells = [[cell.strip() for cell in row.split("|")] for row in rows.split("\n")]
    assert {row[1].strip("`"): row[2] for row in cells} == {
        name: kind.leaves for name, kind in kinds.KINDS.items()
    }


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(SumsError, match="no request of the kind 'rows'"):
        kinds.get_answer_shapes(Request(kind="rows", round=2))


def test_a_request_without_its_parameters_is_refused() -> None:
    for name in set(kinds.KINDS) - {kinds.DESCRIBE}:
        with pytest.raises(SumsError, match="is missing"):
            kinds.get_answer_shapes(
                Request(
                    kind=name,
                    round=2,
                    settings={"tasks": [["member-0", ""]]},
                    arrays={},
                )
            )


def test_each_task_has_its_own_shapes() -> None:
    tasks = [["member-0", ""], ["member-1", "held-out-1"]]
    arrays = {
        "weights.0": np.ones((7, 10)),
        "weights.1": np.ones((7, 15)),
        "interaction.1": np.ones((3, 3)),
    }
    shapes = kinds.get_answer_shapes(
        Request(kind=kinds.CURVES, round=9, settings={"tasks": tasks}, arrays=arrays)
    )
    assert (shapes["cross.0"], shapes["moments.0"], shapes["normal.0"]) == (
        (7, 10),
        (55,),
        (3,),
    )
    assert (shapes["cross.1"], shapes["moments.1"], shapes["likelihood.1"]) == (
        (7, 60),
        (1830,),
        (),
    )
