"""Hostile answers are refused, and their part is named."""

import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from rindices.sums import kinds
from rindices.sums.messages import Answer, Request, SumsError, receive_answer
from rindices.sums.rounds import check_answer

PART = "hospital-b"
SETS = [["everyone", "all", "patients"], ["everyone", "all", "controls"]]
REQUEST = Request(
    kind=kinds.PRODUCTS,
    round=3,
    settings={"sets": SETS},
    arrays={"centre": np.zeros(4)},
)
SHAPES = kinds.get_answer_shapes(REQUEST)
N_CONTROLS, N_PATIENTS = 20, 30
VALID = Answer(
    request=REQUEST.digest,
    numbers=[N_PATIENTS, N_CONTROLS],
    arrays={name: np.ones(shape) for name, shape in SHAPES.items()},
)
Fault = Callable[[np.random.Generator], Answer]


def _set_value(value: float) -> Fault:
    def alter(rng: np.random.Generator) -> Answer:
        arrays = {name: array.copy() for name, array in VALID.arrays.items()}
        name = str(rng.choice(sorted(arrays)))
        arrays[name].flat[rng.integers(arrays[name].size)] = value
        return replace(VALID, arrays=arrays)

    return alter


def _reshape(rng: np.random.Generator) -> Answer:
    name = str(rng.choice(sorted(VALID.arrays)))
    shape = tuple(rng.integers(0, 7, size=rng.integers(1, 4)).tolist())
    return replace(VALID, arrays={**VALID.arrays, name: np.ones((*shape, 2))})


def _rename(rng: np.random.Generator) -> Answer:
    name = str(rng.choice(sorted(VALID.arrays)))
    arrays = {key: array for key, array in VALID.arrays.items() if key != name}
    return replace(
        VALID,
        arrays=arrays
        if rng.random() < 0.5
        else {**VALID.arrays, f"rows-{rng.integers(99)}": np.ones(3)},
    )


FAULTS: dict[str, Fault] = {
    "nan": _set_value(np.nan),
    "infinite": _set_value(np.inf),
    "huge": _set_value(1e200),
    "shape": _reshape,
    "names": _rename,
    "other request": lambda rng: replace(VALID, request=rng.bytes(32).hex()),
    "too many people": lambda rng: replace(
        VALID, numbers=[N_PATIENTS, int(rng.integers(21, 10**9))]
    ),
    "negative people": lambda rng: replace(
        VALID, numbers=[N_PATIENTS, -int(rng.integers(1, 99))]
    ),
    "numbers of other sets": lambda rng: replace(
        VALID, numbers=[1] * int(rng.choice([0, 1, 3]))
    ),
    "nobody": lambda rng: replace(VALID, numbers=[0, 0]),
}
BYTES: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    "truncated": lambda content, rng: content[: rng.integers(len(content))],
    "random": lambda content, rng: rng.bytes(int(rng.integers(1, 4000))),
    "long header": lambda content, rng: (
        struct.pack("<Q", int(rng.integers(2**40))) + content[8:]
    ),
    "pickle": lambda content, rng: b"\x80\x04" + rng.bytes(500),
}


def _receive(content: bytes) -> str:
    """Return the message with which an answer is refused."""
    try:
        check_answer(
            PART,
            receive_answer(content, PART, REQUEST),
            REQUEST,
            [N_CONTROLS, N_PATIENTS],
        )
    except SumsError as error:
        return str(error)
    return ""


def test_the_valid_answer_is_accepted() -> None:
    assert _receive(VALID.encode()) == ""


def test_a_small_part_may_have_held_out_people_alone() -> None:
    """A small group is in one fold, which a member has not seen; no other task may be
    left in the round.
    """
    request = Request(
        kind=kinds.CURVES,
        round=9,
        settings={"tasks": [["seen-0", "unseen-0"]]},
        arrays={"weights.0": np.ones((4, kinds.N_STEPS))},
    )
    nobody = {
        name: np.zeros(shape)
        for name, shape in kinds.get_answer_shapes(request).items()
    }
    answer = Answer(
        request=request.digest,
        numbers=[0],
        arrays=nobody | {"likelihood.0": np.array(-3.0)},
    )
    check_answer(PART, answer, request, [N_CONTROLS, N_PATIENTS])
    for name in ("cross.0", "moments.0", "normal.0"):
        sent = {**answer.arrays, name: np.ones_like(answer.arrays[name])}
        with pytest.raises(SumsError, match="over nobody"):
            check_answer(
                PART, replace(answer, arrays=sent), request, [N_CONTROLS, N_PATIENTS]
            )


def test_losses_that_people_cannot_have_are_refused() -> None:
    tasks = {"tasks": [["held-out-0", ""], ["held-out-1", ""]]}
    weights = dict.fromkeys(("weights.0", "weights.1"), np.ones((4, kinds.N_STEPS)))
    request = Request(kind=kinds.LOSSES, round=9, settings=tasks, arrays=weights)
    largest = np.log(1.0 + np.exp(5.0))
    answer = Answer(
        request=request.digest,
        numbers=[4, 5, 0, 6],
        arrays={"losses.0": largest * np.array([4, 5]), "losses.1": np.zeros(2)},
    )
    check_answer(PART, answer, request, [N_CONTROLS, N_PATIENTS])
    for name, losses in (
        ("losses.0", [4.0, -0.1]),
        ("losses.0", [4.1 * largest, 0.0]),
        ("losses.1", [0.1, 0.0]),
    ):
        sent = replace(answer, arrays={**answer.arrays, name: np.array(losses)})
        with pytest.raises(SumsError, match="people cannot have"):
            check_answer(PART, sent, request, [N_CONTROLS, N_PATIENTS])


@pytest.mark.parametrize("name", FAULTS)
def test_hostile_values_are_refused_by_name(name: str) -> None:
    """16 of each of 10 kinds."""
    rng = np.random.default_rng(0)
    for _ in range(16):
        assert PART in _receive(FAULTS[name](rng).encode())


@pytest.mark.parametrize("name", BYTES)
def test_hostile_bytes_are_refused_by_name(name: str) -> None:
    """16 of each of 4 kinds."""
    rng = np.random.default_rng(1)
    for _ in range(16):
        content = BYTES[name](VALID.encode(), rng)
        if content != VALID.encode():
            assert PART in _receive(content)
