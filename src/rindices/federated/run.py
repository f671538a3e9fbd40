"""Run a federated study: fit its model and write its files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rindices.atomic import write_json
from rindices.errors import RindicesError, StudyError, join_names
from rindices.federated.exceptions import COMPUTE_ERRORS, ExchangeError
from rindices.federated.fit import FederatedFit
from rindices.federated.privacy import FEWEST_PEOPLE
from rindices.federated.rounds import InMemoryTransport, RoundRecord, Rounds, Transport
from rindices.federated.site import Site
from rindices.federated.subsets import MAX_PEOPLE
from rindices.model.fitted import FittedModel
from rindices.study.config import ModelConfig, make_study
from rindices.study.exceptions import NoPatternError
from rindices.study.outputs import clear_outputs, write_effects, write_patterns, write_selection
from rindices.tables.cohort import Cohort


@dataclass(frozen=True)
class FederatedResult:
    """End of a federated study.

    model: none if no difference between patients and controls was detected; ending: why there is no model; empty if
    there is one; finding: ``patterns``, ``mean_difference`` or ``no_difference``; counts: controls and patients of all
    sites; received, sent: bytes that a site received and, at most, sent.
    """

    model: FittedModel | None
    ending: str
    finding: str
    counts: Mapping[str, int]
    rounds: tuple[RoundRecord, ...]
    received: int
    sent: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``federation.json``."""
        kinds: dict[str, dict[str, int]] = {}
        for record in self.rounds:
            kind = kinds.setdefault(record.kind, {"rounds": 0, "received": 0, "sent": 0})
            for name, value in zip(kind, (1, record.sent, record.received), strict=True):
                kind[name] += value
        return {
            "finding": self.finding,
            "n_patterns": 0 if self.model is None else self.model.n_patterns,
            **self.counts,
            "rounds": len(self.rounds),
            "bytes_received_by_a_site": self.received,
            "bytes_sent_by_a_site": self.sent,
            "by_kind": kinds,
        }


def run_federated_study(
    transport: Transport,
    model: ModelConfig,
    seed: int = 0,
    *,
    adjust: str | None = None,
    with_distances: bool = True,
    out: Path | None = None,
    on_stage: Callable[[str], None] = lambda text: None,
    on_round: Callable[[int, RoundRecord], None] | None = None,
    max_people: int = MAX_PEOPLE,
    harmonise: bool = False,
) -> FederatedResult:
    """Fit the model of a study across sites and write its files.

    transport: takes requests to the sites; with_distances: whether the model gets distances of the training people, for
    `unusual`; out: folder for ``model.safetensors``, ``selection.json``, ``patterns.tsv``, ``effects.tsv``,
    ``federation.json``; on_stage, on_round: called at the beginning of a stage and after a round; max_people: largest
    number of people of a group, about, that a member is drawn from; harmonise: whether effects of sites are estimated
    from their controls (ComBat) and removed.
    """
    rounds = Rounds(transport, on_round)
    fit = FederatedFit(rounds, model, seed, adjust, with_distances, on_stage, max_people, harmonise)
    try:
        fitted, ending = fit.run(), ""
        selection = fitted.selection
    except NoPatternError as error:
        fitted, ending, selection = None, str(error), error.selection
    except RindicesError:
        raise
    except COMPUTE_ERRORS as error:
        last = f"round {len(rounds.records)} ({rounds.records[-1].kind})" if rounds.records else "the first round"
        raise ExchangeError(
            f"nothing can be computed from the sums of {join_names(rounds.sites)} after {last}: {error}. One of them "
            "sends wrong sums: leave out one after the other (--leave-out)."
        ) from error
    assert selection is not None
    received, sent = rounds.bytes_per_site
    result = FederatedResult(
        *(fitted, ending, selection.finding, fit.sums.counts, tuple(rounds.records), received, sent)
    )
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        clear_outputs(out)
        write_effects(out, fit.tests.effects, fit.sums.regions, fit.sums.unit)
        write_selection(out, selection)
        write_json(out / "federation.json", result.to_dict())
        if fitted is not None:
            write_patterns(out, fitted, fit.sums.unit)
            fitted.save(out / "model.safetensors")
    return result


def fit_federated(
    sites: Mapping[str, Cohort] | Sequence[Cohort],
    patterns: int | Sequence[int] | None = None,
    *,
    members: int = 10,
    adjust: str | None = None,
    seed: int = 0,
    fewest: int = FEWEST_PEOPLE,
    distances: bool = True,
    harmonise: bool | None = None,
) -> FittedModel:
    """Learn R-indices from sites that give sums over their people, all in this process.

    With one site it is the fit of people who may be pooled, by the same arithmetic; ``rindices site`` and
    ``rindices federate`` run it where they may not.

    Parameters
    ----------
    sites : mapping of str to Cohort, or sequence of Cohort
        Each site's people.
    patterns : int or sequence of int, optional
        Numbers of patterns M to try. Left out, the numbers next to the one that the test finds.
    members : int
        Number of ensemble members.
    adjust : {'log', 'linear', 'none'}, optional
        Scale on which measures are adjusted for covariates.
    seed : int
    fewest : int
        Fewest people of a sum.
    distances : bool
        Whether the model gets distances of the training people, for `unusual`.
    harmonise : bool, optional
        Whether effects of sites are estimated from their controls (ComBat) and removed. Left out, they are if there is
        more than one site, as `fit` does it.

    Returns
    -------
    FittedModel

    Raises
    ------
    StudyError
        If the study cannot be run, or ends without a model.
    """
    named = sites if isinstance(sites, Mapping) else {f"site-{k + 1}": cohort for k, cohort in enumerate(sites)}
    transport = InMemoryTransport([Site(name, named[name], fewest) for name in sorted(named)])
    values = {"patterns": None if patterns is None else np.atleast_1d(patterns).tolist(), "members": members}
    study = make_study({"data": {"volumes": "memory"}, "model": values}, "fit_federated")
    harmonise = len(named) > 1 if harmonise is None else harmonise
    result = run_federated_study(
        *(transport, study.model, seed), adjust=adjust, with_distances=distances, harmonise=harmonise
    )
    if result.model is None:
        raise StudyError(result.ending)
    return result.model
