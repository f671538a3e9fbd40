"""Messages survive the way there, and damaged ones are refused."""

import numpy as np
import pytest

from rindices.sums.messages import (
    Answer,
    Request,
    SumsError,
    count_packed,
    pack_symmetric,
    unpack_symmetric,
)

ANSWER = Answer(
    request="d" * 64,
    numbers=[12],
    arrays={"x": np.arange(6.0).reshape(2, 3)},
    facts={"unit": "mm3"},
)


def test_answer_and_request_survive() -> None:
    again = Answer.decode(ANSWER.encode())
    assert (again.request, again.numbers, again.facts) == (
        "d" * 64,
        [12],
        {"unit": "mm3"},
    )
    np.testing.assert_array_equal(again.arrays["x"], ANSWER.arrays["x"])
    request = Request(
        kind="curves",
        round=2,
        settings={"tasks": [["member-0", ""]]},
        arrays={"w": np.ones((1, 2))},
    )
    assert Request.decode(request.encode()).encode() == request.encode()


@pytest.mark.parametrize("length", [0, 5, 8, 60, 200])
def test_truncated_messages_are_refused(length: int) -> None:
    with pytest.raises(SumsError, match=r"truncated|damaged"):
        Answer.decode(ANSWER.encode()[:length])


def test_symmetric_matrices_are_packed() -> None:
    matrix = np.random.default_rng(0).normal(size=(3, 5, 5))
    matrix = matrix + matrix.transpose(0, 2, 1)
    packed = pack_symmetric(matrix)
    assert packed.shape == (3, count_packed(5))
    np.testing.assert_array_equal(unpack_symmetric(packed), matrix)
