"""What a study keeps of networks that it has trained: tables of their training, and of
what they do.

Shape letters: R regions, M patterns, L severities.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from rindices.learners.ensemble import Member
from rindices.learners.gan.recipe import LOSS_NAMES
from rindices.model.records import RealismRecord
from rindices.study.study import StudyPeople

if TYPE_CHECKING:
    from rindices.learners.gan.describe import NetworkEnsemble, NetworkSummary


def describe_networks(
    people: StudyPeople,
    members: Sequence[Member],
    used: Sequence[Member],
    orders: Sequence[Sequence[int]],
) -> NetworkEnsemble | None:
    """Return the networks of a setting and what they do, or None for members without
    networks.

    Where members leave people out, synthetic patients are compared with people whom the
    member has not seen.

    Parameters
    ----------
    people : StudyPeople
        People of the study.
    members : sequence of Member
        Members of the setting.
    used : sequence of Member
        Members behind the R-indices.
    orders : sequence of sequence of int
        Order of the patterns of each used member.
    """
    if any(member.training is None for member in members):
        return None
    from rindices.learners.gan.describe import (
        MemberPeople,
        NetworkEnsemble,
        summarise_networks,
    )

    own = []
    for member in used:
        prepared = people.prepare(member.number, people.visits).complete()
        is_shown = (
            np.ones(len(prepared.y), dtype=bool)
            if prepared.seen is None
            else ~prepared.seen
        )
        own.append(
            MemberPeople(
                *(prepared.X[is_shown & (prepared.y == group)] for group in (0, 1))
            )
        )
    return NetworkEnsemble(
        members=tuple(members),
        used=tuple(used),
        standardised_d=bool(people.model.resolve_values()["standardised_d"]),
        summary=summarise_networks(
            used,
            orders,
            own,
            is_held_out=people.seen is not None,
            seed=people.study.seed,
        ),
    )


def make_training_table(members: Iterable[Member]) -> pd.DataFrame:
    """Return the losses of members at their checks, as ``training.tsv`` has them."""
    tables = []
    for member in members:
        assert member.training is not None
        columns = dict(zip(LOSS_NAMES, member.training.losses.T, strict=True))
        tables.append(
            pd.DataFrame(
                {"member": member.number, "step": member.training.checks} | columns
            )
        )
    return pd.concat(tables, ignore_index=True)


def make_member_table(
    members: Iterable[Member], used: Sequence[Member] = ()
) -> pd.DataFrame:
    """Return how the training of each member ended, as ``members.tsv`` has it."""
    numbers, rows = {member.number for member in used}, []
    for member in members:
        assert member.training is not None
        ending = {
            "steps": member.steps,
            "outcome": str(member.outcome),
            "met_bars": member.training.met_bars,
        }
        rows.append(
            {"member": member.number} | ending | {"used": member.number in numbers}
        )
    return pd.DataFrame(rows)


def make_synthetic_table(
    summary: NetworkSummary, regions: Sequence[str]
) -> pd.DataFrame:
    """Return the moments of real and synthetic patients by region, as ``synthetic.tsv``
    has them.
    """
    return pd.DataFrame(
        {
            "region": regions,
            "mean_real": summary.real_mean,
            "mean_synthetic": summary.synthetic_mean,
            "sd_real": summary.real_sd,
            "sd_synthetic": summary.synthetic_sd,
        }
    )


def make_transformation_table(
    summary: NetworkSummary, severities: Sequence[float], regions: Sequence[str]
) -> pd.DataFrame:
    """Return the changes of controls under f, as ``transformation.tsv`` has them."""
    patterns = [f"r{k + 1}" for k in range(summary.changes.shape[1])]
    index = pd.MultiIndex.from_product(
        [patterns, severities, regions], names=["pattern", "severity", "region"]
    )
    return pd.DataFrame(
        {"change": summary.changes.transpose(1, 0, 2).ravel()}, index=index
    ).reset_index()


def make_realism_record(summary: NetworkSummary) -> RealismRecord:
    """Return how synthetic patients differ from real ones, as
    ``realism.json`` has it.
    """
    realism = summary.realism
    return RealismRecord(
        auc={} if realism is None else realism.auc,
        mean_error=float(np.abs(summary.synthetic_mean - summary.real_mean).mean()),
        sd_error=float(np.abs(summary.synthetic_sd - summary.real_sd).mean()),
        is_held_out=summary.is_held_out,
    )
