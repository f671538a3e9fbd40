"""What a site refuses: sums over few people, and sums whose differences are sums over few people.

The sums of a site are over sets of its people. A linear combination of sums is a sum over people with other weights, so
what matters is the space that the sets span. Two rules keep small groups out of it:

- a set is empty or has at least the fewest people, and two sets are equal or differ in at least as many;
- the sets of a group span at most N - fewest dimensions, for N people in it. A combination of that many random sets
  that leaves out as many people as possible still has more than the fewest people in it.

Both rules look at all sets that the site has ever answered about, also in other studies: a ledger at the site, which
never leaves it, keeps them. So a second study that has the same people less one is refused.

Shape letters: N people.
"""

import hashlib
import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rindices._typing import BoolArray, IntArray
from rindices.atomic import write_json
from rindices.errors import format_count
from rindices.federated.messages import RefusedError

FEWEST_PEOPLE = 10
"""Default fewest people of a sum."""


class SetGuard:
    """Allows or refuses sums over sets of the people of a site.

    ids: (N,) ids of the people of the site; fewest: 0 for people of one owner, who are not guarded; ledger: file in
    which the sets are kept; without it they are forgotten with the object.
    """

    def __init__(self, ids: Sequence[str], fewest: int = FEWEST_PEOPLE, ledger: Path | None = None) -> None:
        self._fewest, self._ledger = fewest, ledger
        stored = _read_ledger(ledger)
        self._salt: str = stored.get("salt") or secrets.token_hex(16)
        tokens = [hashlib.sha256(f"{self._salt}/{person}".encode()).hexdigest()[:24] for person in ids]
        self._tokens = list(dict.fromkeys([*stored.get("people", ()), *tokens]))
        positions = {token: k for k, token in enumerate(self._tokens)}
        self._positions = np.array([positions[token] for token in tokens], dtype=np.intp)
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
        self._check_rank([*earlier, everyone], group, name)
        earlier.append(everyone)

    def save(self) -> None:
        """Write the ledger; called before an answer leaves."""
        if self._ledger is not None:
            sets = {group: [np.flatnonzero(mask).tolist() for mask in masks] for group, masks in self._sets.items()}
            write_json(self._ledger, {"salt": self._salt, "people": self._tokens, "sets": sets})

    def _check_rank(self, masks: Sequence[BoolArray], group: str, name: str) -> None:
        involved = np.any(masks, axis=0)
        matrix = np.array(masks)[:, involved].astype(float)
        if len(matrix) > 1 and np.linalg.matrix_rank(matrix) > max(1, int(involved.sum()) - self._fewest):
            raise RefusedError(
                f"{name}, {group}: after {len(masks)} different sums over {int(involved.sum())} people, single people "
                "could be computed. Ask for fewer members."
            )

    def _to_mask(self, rows: Sequence[int] | IntArray) -> BoolArray:
        mask = np.zeros(len(self._tokens), dtype=bool)
        mask[np.asarray(rows, dtype=np.intp)] = True
        return mask


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
