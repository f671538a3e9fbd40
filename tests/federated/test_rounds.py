"""Two hundred and fifty hostile answers are refused, and the site is named."""

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rindices.federated import kinds
from rindices.federated.folder import CENTRE, FolderTransport, MessageFile, SharedFolder
from rindices.federated.messages import (
    Answer,
    ExchangeError,
    Request,
    WaitingError,
    sign_message,
)
from rindices.federated.rounds import check_answer

KEY, SITE, RUN = b"k" * 32, "hospital-b", "0123456789ab"
SETS = [["everyone", "all", "patients"], ["everyone", "all", "controls"]]
REQUEST = Request(kinds.PRODUCTS, 3, {"sets": SETS}, {"centre": np.zeros(4)})
SHAPES = kinds.get_answer_shapes(REQUEST)
N_CONTROLS, N_PATIENTS = 20, 30
VALID = Answer(
    REQUEST.digest, [N_PATIENTS, N_CONTROLS], {name: np.ones(shape) for name, shape in SHAPES.items()}, site=SITE
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
        VALID, arrays=arrays if rng.random() < 0.5 else {**VALID.arrays, f"rows-{rng.integers(99)}": np.ones(3)}
    )


FAULTS: dict[str, Fault] = {
    "nan": _set_value(np.nan),
    "infinite": _set_value(np.inf),
    "huge": _set_value(1e200),
    "shape": _reshape,
    "names": _rename,
    "other request": lambda rng: replace(VALID, request=rng.bytes(32).hex()),
    "too many people": lambda rng: replace(VALID, numbers=[N_PATIENTS, int(rng.integers(21, 10**9))]),
    "negative people": lambda rng: replace(VALID, numbers=[N_PATIENTS, -int(rng.integers(1, 99))]),
    "numbers of other sets": lambda rng: replace(VALID, numbers=[1] * int(rng.choice([0, 1, 3]))),
    "nobody": lambda rng: replace(VALID, numbers=[0, 0]),
}
BYTES: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    "truncated": lambda content, rng: content[: rng.integers(len(content))],
    "random": lambda content, rng: rng.bytes(int(rng.integers(1, 4000))),
    "long header": lambda content, rng: struct.pack("<Q", int(rng.integers(2**40))) + content[8:],
    "flipped": lambda content, rng: _flip(content, int(rng.integers(8, len(content)))),
    "pickle": lambda content, rng: b"\x80\x04" + rng.bytes(500),
}


def _flip(content: bytes, position: int) -> bytes:
    return content[:position] + bytes([content[position] ^ 0x15]) + content[position + 1 :]


def _receive(folder: Path, content: bytes, header: dict[str, Any], request: Request = REQUEST) -> str:
    """Put an answer into the folder and return the message with which it is refused."""
    problems: list[str] = []
    transport = FolderTransport(folder, RUN, [SITE], {SITE: KEY}, patience=0.0, poll=0.0, on_problem=problems.append)
    MessageFile(SharedFolder(folder, f"answers/{RUN}/{SITE}"), request.round).write(content, header)
    try:
        check_answer(SITE, transport.ask(request)[SITE], request, [N_CONTROLS, N_PATIENTS])
    except WaitingError:
        assert problems
        return problems[0]
    except ExchangeError as error:
        return str(error)
    return ""


def _sign(content: bytes, key: bytes = KEY) -> dict[str, Any]:
    request_signed = sign_message(REQUEST.encode(), KEY, "request", RUN, SITE, REQUEST.round)
    signature = sign_message(content, key, "answer", RUN, SITE, REQUEST.round)
    return {"request": REQUEST.digest, "request_signed": request_signed, "signed": {CENTRE: signature}}


def test_the_valid_answer_is_accepted(tmp_path: Path) -> None:
    content = VALID.encode()
    assert _receive(tmp_path, content, _sign(content)) == ""


def test_a_small_site_may_have_held_out_people_alone() -> None:
    """A small group is in one fold, which a member has not seen; no other task may be left in the round."""
    request = Request(kinds.CURVES, 9, {"tasks": [["seen-0", "unseen-0"]]}, {"weights.0": np.ones((4, kinds.N_STEPS))})
    nobody = {name: np.zeros(shape) for name, shape in kinds.get_answer_shapes(request).items()}
    answer = Answer(request.digest, [0], nobody | {"likelihood.0": np.array(-3.0)}, site=SITE)
    check_answer(SITE, answer, request, [N_CONTROLS, N_PATIENTS])
    for name in ("cross.0", "moments.0", "normal.0"):
        sent = {**answer.arrays, name: np.ones_like(answer.arrays[name])}
        with pytest.raises(ExchangeError, match="over nobody"):
            check_answer(SITE, replace(answer, arrays=sent), request, [N_CONTROLS, N_PATIENTS])


def test_losses_that_people_cannot_have_are_refused() -> None:
    tasks = {"tasks": [["held-out-0", ""], ["held-out-1", ""]]}
    weights = dict.fromkeys(("weights.0", "weights.1"), np.ones((4, kinds.N_STEPS)))
    request = Request(kinds.LOSSES, 9, tasks, weights)
    largest = np.log(1.0 + np.exp(5.0))
    answer = Answer(request.digest, [4, 5, 0, 6], {"losses.0": largest * np.array([4, 5]), "losses.1": np.zeros(2)})
    check_answer(SITE, answer, request, [N_CONTROLS, N_PATIENTS])
    for name, losses in (("losses.0", [4.0, -0.1]), ("losses.0", [4.1 * largest, 0.0]), ("losses.1", [0.1, 0.0])):
        sent = replace(answer, arrays={**answer.arrays, name: np.array(losses)})
        with pytest.raises(ExchangeError, match="people cannot have"):
            check_answer(SITE, sent, request, [N_CONTROLS, N_PATIENTS])


@pytest.mark.parametrize("name", FAULTS)
def test_hostile_values_are_refused_by_name(tmp_path: Path, name: str) -> None:
    """The site has a valid key and signs what it sends: 16 of each of 10 kinds."""
    rng = np.random.default_rng(0)
    for _ in range(16):
        content = FAULTS[name](rng).encode()
        assert SITE in _receive(tmp_path, content, _sign(content))


@pytest.mark.parametrize("name", BYTES)
def test_hostile_bytes_are_refused_by_name(tmp_path: Path, name: str) -> None:
    """Bytes with a valid digest and signature: 16 of each of 5 kinds."""
    rng = np.random.default_rng(1)
    for _ in range(16):
        content = BYTES[name](VALID.encode(), rng)
        if content != VALID.encode():
            header = _sign(content) if name != "flipped" else _sign(VALID.encode())
            assert SITE in _receive(tmp_path, content, header)


def test_answers_without_the_key_are_refused(tmp_path: Path) -> None:
    """Twelve answers of somebody who sees the folder and does not have the key."""
    rng = np.random.default_rng(2)
    for _ in range(12):
        content = VALID.encode()
        assert "forged" in _receive(tmp_path, content, _sign(content, rng.bytes(32)))


def test_a_file_that_was_changed_after_its_digest_is_refused(tmp_path: Path) -> None:
    content = VALID.encode()
    folder = tmp_path / "answers" / RUN / SITE
    MessageFile(SharedFolder(tmp_path, f"answers/{RUN}/{SITE}"), 3).write(content, _sign(content))
    (folder / "0003.safetensors").write_bytes(content[:-1])
    problems: list[str] = []
    transport = FolderTransport(tmp_path, RUN, [SITE], {SITE: KEY}, 0.0, 0.0, problems.append)
    with pytest.raises(WaitingError, match=SITE):
        transport.ask(REQUEST)
    assert "truncated or damaged" in problems[0]
    assert not (folder / "0003.json").exists()
