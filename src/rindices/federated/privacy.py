"""What a site refuses: sums over few people, and sums that can be combined to sums over few people.

The sums of a site are over sets of its people. A linear combination of sums is a sum over people with other weights, so
what matters is the space that the sets span:

- a set is empty or has at least the fewest people, and two sets are equal or differ in at least as many;
- in no combination of the sets of a group is the squared weight of one person larger than that of all others together.
  The largest share that a person can have is the leverage: the diagonal of the projection onto the span of the sets.

A study has one plan, one preparation of people and one request for each sum that is not iterated: the first one is
fixed, and others are refused, so there is nothing to compare it with. In rotations and R-indices, parameters give
weights w to people, which must not be those of few: (sum |w|)^2 / sum w^2 is at least the fewest people, or a quarter
of a small set. This is a hurdle and no proof: weights that are nearly equal can differ in one person. The sums of
curves have no such rule, as honest ones can be mainly over one patient: late steps of rare patterns.

Under masks (`rindices.federated.masks`), sets are those of all sites together, and a site computes each request itself
(`rindices.federated.site_service`), so that there are no other parameters to look at.

All rules look at everything that the site has ever answered: a ledger at the site, which never leaves it, keeps it.
People are known to it by a keyed hash of their values, so that other ids do not make other people.

Shape letters: N people, K weights.
"""

import hmac
import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.atomic import write_json
from rindices.errors import format_count
from rindices.federated.messages import RefusedError, compute_message_digest

FEWEST_PEOPLE = 10
"""Default fewest people of a sum."""
MAX_ROUNDS = 500
"""Answers after which a site refuses, over all runs: most studies take fewer than 200, and each tells a little."""
MAX_LEVERAGE = 0.5
"""Largest share of one person in the squared weights of a combination of sums."""


class SetGuard:
    """Allows or refuses sums over the people of a site.

    people: (N,) values of each person as bytes; fewest: 0 for people of one owner, who are not guarded; ledger: file in
    which all is kept that was answered; without it it is forgotten with the object.
    """

    def __init__(self, people: Sequence[bytes], fewest: int = FEWEST_PEOPLE, ledger: Path | None = None) -> None:
        self._fewest, self._ledger = fewest, ledger
        stored = _read_ledger(ledger)
        self._salt: str = stored.get("salt") or secrets.token_hex(16)
        tokens = [hmac.digest(self._salt.encode(), person, "sha256").hex()[:24] for person in people]
        self._tokens = list(dict.fromkeys([*stored.get("people", ()), *tokens]))
        positions = {token: k for k, token in enumerate(self._tokens)}
        self._positions = np.array([positions[token] for token in tokens], dtype=np.intp)
        self._rounds, self._bound = int(stored.get("rounds", 0)), dict[str, str](stored.get("bound", {}))
        sets: dict[str, list[list[int]]] = stored.get("sets", {})
        self._sets = {group: [self._to_mask(rows) for rows in each] for group, each in sets.items()}

    def check(self, mask: BoolArray, group: str, name: str) -> None:
        """Allow a sum over people (N,) of a group, or refuse it.

        Raises RefusedError: that names the set and says why.
        """
        if not self._fewest:
            return
        number, everyone = int(mask.sum()), self._to_mask(self._positions[mask])
        if 0 < number < self._fewest:
            raise RefusedError(
                f"{name}, {group}: a sum over {format_count(number, 'person', 'people')} is refused, the fewest are "
                f"{self._fewest}."
            )
        earlier = self._sets.setdefault(group, [])
        if not number or any((everyone == other).all() for other in earlier):
            return
        for other in earlier:
            difference = int((everyone ^ other).sum())
            if difference < self._fewest:
                raise RefusedError(
                    f"{name}, {group}: the difference to a sum that was given before would be a sum over "
                    f"{format_count(difference, 'person', 'people')}, the fewest are {self._fewest}. Use the same "
                    "people as before."
                )
        if compute_leverages([*earlier, everyone]).max() > MAX_LEVERAGE:
            raise RefusedError(
                f"{name}, {group}: after {len(earlier) + 1} different sums, single people could be computed. Ask for "
                "fewer members."
            )
        earlier.append(everyone)

    def count_round(self) -> None:
        """Count an answer, or refuse it after too many in all runs."""
        self._rounds += 1
        if self._fewest and self._rounds > MAX_ROUNDS:
            raise RefusedError(f"too-many-rounds: a site answers at most {MAX_ROUNDS} rounds about its people.")

    def bind(self, name: str, content: bytes) -> None:
        """Fix a part of the study at the first request, and refuse another one later."""
        digest = compute_message_digest(content)
        if self._fewest and self._bound.setdefault(name, digest) != digest:
            raise RefusedError(
                f"another-{name}: this site has answered with another {name} before, and both together could tell "
                "about single people. Repeat the study with the same sites and settings, or allow another one at the "
                "site, by another folder (--private)."
            )

    def check_weights(self, weights: FloatArray, name: str) -> None:
        """Refuse weights (N, K) that are those of few people in a column; a column of zeros has nobody.

        The number of people that weights amount to is at least the fewest, or a quarter of those in a small set.
        """
        squares = (weights**2).sum(axis=0)
        numbers = np.abs(weights).sum(axis=0)[squares > 0] ** 2 / squares[squares > 0]
        if numbers.min(initial=np.inf) < min(self._fewest, len(weights) / 4.0):
            raise RefusedError(
                f"few-weights: the parameters of {name} give weight to about {numbers.min():.1f} people. Ask for fewer "
                "patterns, or leave the site out."
            )

    def save(self) -> None:
        """Write the ledger; called before an answer leaves."""
        if self._ledger is not None:
            sets = {group: [np.flatnonzero(mask).tolist() for mask in masks] for group, masks in self._sets.items()}
            values = {"salt": self._salt, "people": self._tokens, "sets": sets}
            write_json(self._ledger, {**values, "rounds": self._rounds, "bound": self._bound})

    def _to_mask(self, rows: Sequence[int] | IntArray) -> BoolArray:
        mask = np.zeros(len(self._tokens), dtype=bool)
        mask[np.asarray(rows, dtype=np.intp)] = True
        return mask


def compute_leverages(masks: Sequence[BoolArray]) -> FloatArray:
    """Return the largest share (N,) of each person in the squared weights of a combination of sets (N,)."""
    basis, sizes, _ = np.linalg.svd(np.array(masks, dtype=float).T, full_matrices=False)
    return np.asarray((basis[:, sizes > 1e-9 * sizes[0]] ** 2).sum(axis=1))


def _read_ledger(path: Path | None) -> dict[str, Any]:
    if path is None or not path.is_file():
        return {}
    try:
        values = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise RefusedError(
            f"{path} cannot be read, so differences to earlier sums cannot be checked: restore it from a backup."
        ) from error
    return dict(values)
