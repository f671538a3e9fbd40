"""What the networks of a study do: the changes that f makes, and synthetic patients
beside real ones.

Shape letters: N participants, R regions, M patterns, L severities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from rindices._typing import FloatArray
from rindices.learners.ensemble import Member
from rindices.learners.gan.losses import copula_factor
from rindices.learners.gan.networks import SurrealNetworks, save_networks
from rindices.learners.gan.realism import MIN_PATIENTS, Realism, measure_realism
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD

SHOWN_SEVERITIES = (1 / 3, 2 / 3, 1.0)
"""Severities at which the change of controls under f is described."""
MAX_JUDGED_MEMBERS = 5
"""Members whose synthetic patients are judged by classifiers, which takes seconds for
each.
"""


class MemberPeople(NamedTuple):
    """Controls and patients (N, R) with which a member is described; the study's
    controls have mean 1 and sd 0.1.

    Attributes
    ----------
    controls : ndarray
    patients : ndarray
    """

    controls: FloatArray
    patients: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkSummary:
    """What the networks of the members that are used do.

    Attributes
    ----------
    changes : ndarray of shape (L, M, R)
        Mean of f(x, z) - x over controls x at each of `SHOWN_SEVERITIES` of one pattern
        alone, in control sd, averaged over the members.
    real_mean, real_sd : ndarray of shape (R,)
        Mean and standard deviation of real patients by region, in control sd, averaged
        over the members.
    synthetic_mean, synthetic_sd : ndarray of shape (R,)
        The same of synthetic patients: one of each control, with severities uniform on
        [0, 1], and independent unless a copula was learnt.
    realism : Realism or None
        How well classifiers tell synthetic patients from real ones, averaged over the
        first `MAX_JUDGED_MEMBERS` members. None if there are too few people.
    is_held_out : bool
        Whether these controls and patients are people whom the member has not seen.
    """

    changes: FloatArray
    real_mean: FloatArray
    real_sd: FloatArray
    synthetic_mean: FloatArray
    synthetic_sd: FloatArray
    realism: Realism | None
    is_held_out: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkEnsemble:
    """Networks of the chosen setting of a study, and what they do.

    Attributes
    ----------
    members : tuple of Member
        All members, each with its `NetworkTraining`.
    used : tuple of Member
        Those behind the R-indices, in the order of the model.
    standardised_d : bool
        Whether D reads deviations from the controls, see `SurrealNetworks`.
    summary : NetworkSummary
        Of the members that are used.
    """

    members: tuple[Member, ...]
    used: tuple[Member, ...]
    standardised_d: bool
    summary: NetworkSummary


def summarise_networks(
    members: Sequence[Member],
    orders: Sequence[Sequence[int]],
    people: Sequence[MemberPeople],
    *,
    is_held_out: bool,
    seed: int,
) -> NetworkSummary:
    """Return what the networks of members do.

    Parameters
    ----------
    members : sequence of Member
        Those that are used, each with its `NetworkTraining`.
    orders : sequence of (M,) integers
        ``orders[s][k]`` is the pattern of member s that is pattern k of the study.
    people : sequence of MemberPeople
        Of each member.
    is_held_out : bool
        Whether the members have not seen them.
    seed : int
        Of the severities of synthetic patients, and of the classifiers.

    Returns
    -------
    NetworkSummary
    """
    changes, moments = [], []
    found: list[Realism] = []
    for member, order, (controls, patients) in zip(
        members, orders, people, strict=True
    ):
        networks = make_networks([member]).double()
        changes.append(_average_changes(networks, controls)[:, list(order)])
        real = (patients - CONTROL_MEAN) / CONTROL_SD
        synthetic = (
            _synthesise(networks, controls, seed, member.number) - CONTROL_MEAN
        ) / CONTROL_SD
        moments.append(
            [
                real.mean(axis=0),
                real.std(axis=0),
                synthetic.mean(axis=0),
                synthetic.std(axis=0),
            ]
        )
        if (
            min(len(real), len(synthetic)) >= MIN_PATIENTS
            and len(found) < MAX_JUDGED_MEMBERS
        ):
            found.append(measure_realism(real, synthetic, seed))
    real_mean, real_sd, synthetic_mean, synthetic_sd = np.mean(moments, axis=0)
    return NetworkSummary(
        changes=np.mean(changes, axis=0),
        real_mean=real_mean,
        real_sd=real_sd,
        synthetic_mean=synthetic_mean,
        synthetic_sd=synthetic_sd,
        realism=_average_realism(found),
        is_held_out=is_held_out,
    )


def make_networks(
    members: Sequence[Member], standardised_d: bool = False
) -> SurrealNetworks:
    """Return the networks of members; ``standardised_d`` is that of their recipe, which
    only D depends on.
    """
    weights = []
    for member in members:
        assert member.training is not None
        weights.append(
            {
                name: torch.as_tensor(weight)
                for name, weight in member.training.weights.items()
            }
        )
    return SurrealNetworks.from_members(weights, standardised_d)


def write_networks(ensemble: NetworkEnsemble, path: Path) -> None:
    """Write f, D, g1 and g2 of the members that are used to one file, see
    `save_networks`.
    """
    save_networks(make_networks(ensemble.used, ensemble.standardised_d), path)


@torch.inference_mode()
def _average_changes(networks: SurrealNetworks, controls: FloatArray) -> FloatArray:
    """Return the mean change of controls (N, R) by f of one member, (L, M, R), in
    control sd.
    """
    f, n_patterns = networks.f, networks.n_patterns
    code = f.encode(torch.as_tensor(controls)[None])
    singles = torch.eye(n_patterns, dtype=torch.float64).expand(
        1, len(controls), -1, -1
    )
    changes = [
        f.decode(code, severity * singles)[0].mean(dim=0).numpy()
        for severity in SHOWN_SEVERITIES
    ]
    return np.stack(changes) / CONTROL_SD


@torch.inference_mode()
def _synthesise(
    networks: SurrealNetworks, controls: FloatArray, seed: int, number: int
) -> FloatArray:
    """Return one synthetic patient of each control (N, R): f(x, z) of one member, with
    z of its copula.
    """
    normal = np.random.default_rng([seed, number]).standard_normal(
        (1, len(controls), networks.n_patterns)
    )
    z = torch.special.ndtr(
        torch.as_tensor(normal) @ copula_factor(networks.copula.phi).mT
    )
    synthetic: torch.Tensor = networks.f(torch.as_tensor(controls)[None], z)
    return np.asarray(synthetic[0].numpy())


def _average_realism(found: Sequence[Realism]) -> Realism | None:
    """Return the mean over members; None without any."""
    if not found:
        return None
    return Realism(
        auc={
            name: float(np.mean([each.auc[name] for each in found]))
            for name in found[0].auc
        },
        mean_error=float(np.mean([each.mean_error for each in found])),
        sd_error=float(np.mean([each.sd_error for each in found])),
    )
