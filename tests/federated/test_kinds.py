"""The table of what leaves is the one of the documentation, and each kind answers with the arrays that it names."""

from pathlib import Path

import numpy as np
import pytest

from rindices.federated import kinds
from rindices.federated.messages import ExchangeError, Request


def test_documentation_has_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "federated.md").read_text("utf-8")
    rows = [f"| `{name}` | {kind.purpose} | {kind.leaves} | {kind.people} |" for name, kind in kinds.KINDS.items()]
    assert "\n".join(["| round | for | what leaves a site | over whom |", "|---|---|---|---|", *rows]) in page


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(ExchangeError, match="no request of the kind 'rows'"):
        kinds.get_kind("rows")


def test_a_request_without_its_parameters_is_refused() -> None:
    for name in set(kinds.KINDS) - {kinds.DESCRIBE}:
        with pytest.raises(ExchangeError, match="lacks"):
            kinds.get_kind(name).get_shapes(Request(name, 2, {"tasks": [["member-0", "", 2]]}, {}))


def test_tasks_are_grouped_by_number_and_shape() -> None:
    tasks = [["a", "", 2, "straight"], ["b", "", 3, "curved"], ["c", "", 2, "straight"]]
    assert kinds.list_groups_of_tasks(tasks) == {"straight2": [0, 2], "curved3": [1]}
    shapes = kinds.get_kind(kinds.CURVES).get_shapes(
        Request(
            kinds.CURVES,
            9,
            {"tasks": tasks},
            {"weights.straight2": np.ones((2, 7, 2)), "weights.curved3": np.ones((1, 7, 15))},
        )
    )
    assert shapes["cross.straight2"] == (2, 7, 10)
    assert shapes["moments.curved3"] == (1, 120)
