"""A sound table of simulated people, and faults that tables have."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from rindices.tables.checks.block_table import (
    BlockKind,
    BlockTable,
    divide,
    make_block_table,
)
from rindices.tables.checks.search import search_blocks

N_SITES, PEOPLE_PER_SITE, N_PAIRS = 4, 70, 24


@dataclass(frozen=True)
class People:
    """volumes (N, R) and participants (N, ...) of one table."""

    volumes: pd.DataFrame
    participants: pd.DataFrame

    def change(self, rows: np.ndarray, volumes: np.ndarray) -> "People":
        """Return people with other volumes in some rows."""
        changed = self.volumes.copy()
        changed.loc[rows] = volumes
        return replace(self, volumes=changed)

    def rename(self, column: str, values: object) -> "People":
        """Return people with another column."""
        return replace(self, participants=self.participants.assign(**{column: values}))

    def order(self, rows: np.ndarray) -> "People":
        """Return people in another order."""
        volumes, participants = (
            each.iloc[rows].reset_index(drop=True)
            for each in (self.volumes, self.participants)
        )
        return People(volumes, participants)

    @property
    def is_b(self) -> np.ndarray:
        """The people of site B."""
        return (self.participants["site"] == "B").to_numpy()

    def make_table(self, with_groups: bool = False) -> BlockTable:
        """Return the table in blocks."""
        about = self.participants
        divisions = [divide(BlockKind.SITE, about["site"], "site")]
        groups = None
        if with_groups:
            groups = (about["group"] == "patient").to_numpy().astype(int)
            divisions.append(divide(BlockKind.GROUP, about["group"]))
        table = make_block_table(
            values=self.volumes,
            measures=["volume"] * self.volumes.shape[1],
            ids=about["participant_id"].tolist(),
            age=about["age"],
            sex=about["sex"].astype(str).tolist(),
            head_size=about["icv"],
            groups=groups,
            divisions=divisions,
        )
        assert table is not None
        return table

    def search(self, with_groups: bool = False) -> set[tuple[str, str]]:
        """Return the code and the block of everything that is suspicious."""
        suspicions = search_blocks(self.make_table(with_groups))
        return {
            (str(each.code), each.block.label or each.block.kind) for each in suspicions
        }


def simulate_people(
    seed: int = 0, n_per_site: int = PEOPLE_PER_SITE, decimals: int = 2
) -> People:
    """Return healthy people of four sites: regions share head size, age and three
    factors; sides differ by region.
    """
    rng = np.random.default_rng(seed)
    n = N_SITES * n_per_site
    site = np.repeat(np.arange(N_SITES), n_per_site)
    sex, age = rng.integers(0, 2, n), np.round(rng.uniform(20, 80, n), 1)
    head = np.log(1.45e6) + 0.11 * (sex - 0.5) + rng.normal(0, 0.08, n)
    middle = np.linspace(np.log(600), np.log(15000), N_PAIRS)
    rng.shuffle(middle)
    profile = np.repeat(middle, 2) + rng.normal(0, 0.06, 2 * N_PAIRS)
    shared = rng.normal(size=(n, 3)) @ rng.normal(0, 0.03, (3, 2 * N_PAIRS))
    log_volumes = (
        profile
        + 0.7 * (head - head.mean())[:, None]
        - 0.004 * (age - 50)[:, None]
        + shared
    )
    log_volumes += (sex - 0.5)[:, None] * rng.normal(0, 0.05, 2 * N_PAIRS)
    log_volumes += (
        rng.normal(0, 0.05, (n, 2 * N_PAIRS))
        + rng.normal(0, 0.025, (N_SITES, 2 * N_PAIRS))[site]
    )
    names = [f"{side}_region{k}" for k in range(N_PAIRS) for side in ("Left", "Right")]
    participants = pd.DataFrame(
        {
            "participant_id": [f"sub-{k:04d}" for k in range(n)],
            "site": np.array(list("ABCD"))[site],
            "group": np.where(rng.random(n) < 0.5, "patient", "control"),
            "age": age,
            "sex": np.where(sex == 1, "M", "F"),
            "icv": np.round(np.exp(head)),
        }
    )
    return People(
        pd.DataFrame(np.round(np.exp(log_volumes), decimals), columns=names),
        participants,
    )
