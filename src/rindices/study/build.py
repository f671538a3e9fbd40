"""The model of the chosen setting, and what it gives to the people of the study.

Shape letters: N people, R regions, M patterns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray
from rindices.learners.ensemble import (
    GroupSeparation,
    Member,
    PatternStability,
    assess_pattern_stability,
    measure_separation,
    rescale_consensus,
    select_usable_members,
)
from rindices.learners.inference import MemberHead
from rindices.learners.normal_variation import ReferenceTarget
from rindices.learners.prepared_people import PreparedPeople
from rindices.model import records
from rindices.model.consensus import ConsensusInference, average_weighted
from rindices.model.file import ModelContent
from rindices.model.fitted import CITATION, FittedModel
from rindices.model.intervals import (
    CalibratedIntervals,
    MemberControls,
    calibrate_intervals,
)
from rindices.model.normal_reference import NormalReference
from rindices.model.pattern_tables import average_member_interactions
from rindices.model.unusual import TrainingDistribution
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.residualise import round_outwards
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.selection.agreement import compute_standard_error
from rindices.study.candidates import TrainedSettings
from rindices.study.networks import describe_networks
from rindices.study.provenance import collect_provenance
from rindices.study.study import StudyPeople
from rindices.tables.checks.groups import PATIENT
from rindices.tables.cohort import GROUP, ID


@dataclass(frozen=True, kw_only=True)
class Consensus:
    """The agreeing members of a setting, on one scale.

    Attributes
    ----------
    members : sequence of Member
        Those that agree.
    trained : sequence of Member
        All members of the setting.
    heads : tuple of MemberHead
        Inference of those that agree, rescaled.
    orders : tuple of tuple of int
        For each of them, the order that aligns its columns with those of the first.
    patterns : ndarray of shape (S, Q, M, R)
        Of each member.
    unseen : ndarray of shape (S, N)
        Who was not seen by each member; everyone if all members have seen everyone.
    inferred : ndarray of shape (S, N, M)
        R-indices by each member.
    indices : ndarray of shape (N, M)
        The mean over members that have not seen the person.
    unit : ndarray of shape (M,)
        Scale of each pattern before.
    everyone : PreparedPeople
        The people of the study.
    completed : PreparedPeople
        The same without missing cells, filled alike in both groups.
    training : TrainingDistribution
        Of the same.
    """

    members: Sequence[Member]
    trained: Sequence[Member]
    heads: tuple[MemberHead, ...]
    orders: tuple[tuple[int, ...], ...]
    patterns: FloatArray
    unseen: BoolArray
    inferred: FloatArray
    indices: FloatArray
    unit: FloatArray
    everyone: PreparedPeople
    completed: PreparedPeople
    training: TrainingDistribution

    @property
    def mean_patterns(self) -> FloatArray:
        """The patterns (Q, M, R) of the consensus."""
        return np.asarray(self.patterns.mean(axis=0))


def join_members(people: StudyPeople, trained: TrainedSettings) -> Consensus:
    """Return the consensus of the agreeing members of the chosen setting, from the
    R-indices that they give to the people of the study.
    """
    cohort, choice = people.cohort, trained.choice
    usable = select_usable_members(trained.chosen_members)
    members = [usable[index] for index in choice.agreeing]
    orders = tuple(tuple(int(index) for index in order) for order in choice.orders)
    everyone = people.prepare()
    completed = everyone.complete(by_group=False)  # groups are compared below
    training = TrainingDistribution.fit(completed.X, cohort.people[ID].tolist())
    heads = tuple(member.head for member in members)
    patterns = np.stack(
        [
            member.patterns[:, list(order)]
            for member, order in zip(members, orders, strict=True)
        ]
    )
    content = ModelContent(
        preprocessing=people.study.preprocessing,
        heads=heads,
        orders=orders,
        patterns=patterns.mean(axis=0),
        training=training,
        card=records.ModelCard(),
        pipelines=list_pipelines(people, members),
    )
    inferred = ConsensusInference(content).infer_members(
        content.preprocessing.inputs(cohort)
    )
    unseen = np.ones((len(members), len(cohort)), dtype=bool)
    if people.seen is not None:
        unseen = ~people.seen[[member.number for member in members]]
    before = average_weighted(inferred, unseen.T.astype(float))
    heads, unit = rescale_consensus(heads, orders, before[cohort.is_patient])
    return Consensus(
        members=members,
        trained=trained.chosen_members,
        heads=heads,
        orders=orders,
        patterns=patterns * unit[:, None],
        unseen=unseen,
        inferred=inferred / unit,
        indices=before / unit,
        unit=unit,
        everyone=everyone,
        completed=completed,
        training=training,
    )


def list_pipelines(
    people: StudyPeople, members: Sequence[Member]
) -> tuple[Preprocessing, ...]:
    """Return the pipelines of members; empty if all share that of everyone."""
    if not people.pipelines:
        return ()
    return tuple(people.pipelines[member.number] for member in members)


def make_consensus_model(
    people: StudyPeople, consensus: Consensus, selection: records.SelectionRecord
) -> FittedModel:
    """Return the model of a consensus as it applies to anyone, without what it gives to
    the people of the study.
    """
    fraction = people.method.get_subsample_fraction(people.model.resolve_values())
    errors = None
    if len(consensus.members) > 1:
        errors = compute_standard_error(consensus.patterns, fraction)
    over = "people" if fraction < 1 else "trainings"
    return FittedModel(
        preprocessing=people.study.preprocessing,
        heads=consensus.heads,
        orders=consensus.orders,
        patterns=consensus.mean_patterns,
        training=consensus.training,
        card=_make_card(people, consensus, selection, "" if errors is None else over),
        intervals=_calibrate_intervals(people, consensus, fraction),
        patterns_se=errors,
        pipelines=list_pipelines(people, consensus.members),
        networks=describe_networks(
            people, consensus.trained, consensus.members, consensus.orders
        ),
    )


def _calibrate_intervals(
    people: StudyPeople, consensus: Consensus, fraction: float
) -> CalibratedIntervals:
    """Return the intervals of R-indices, from people who are simulated of controls."""
    is_known = ~np.isnan(consensus.indices).any(axis=1)
    measured = [
        MemberControls(
            head,
            order,
            people.prepare(member.number)
            .complete(by_group=False)
            .X[people.cohort.is_control],
        )
        for head, order, member in zip(
            consensus.heads, consensus.orders, consensus.members, strict=True
        )
    ]
    return calibrate_intervals(
        measured,
        consensus.mean_patterns,
        consensus.indices[people.cohort.is_patient & is_known],
        fraction,
        people.study.seed,
        average_member_interactions(consensus.heads, consensus.orders),
    )


@dataclass(frozen=True, kw_only=True)
class OwnPeople:
    """What a model gives to the people of its study.

    Attributes
    ----------
    indices : DataFrame
        Their R-indices, in the order of their table.
    visit_indices : DataFrame or None
        Those of all visits.
    quantiles : mapping
        Of the R-indices of each group, at `rindices.model.records.QUANTILE_RANKS`.
    evidence : tuple of PatternRecord
        For each pattern.
    """

    indices: pd.DataFrame
    visit_indices: pd.DataFrame | None
    quantiles: Mapping[str, tuple[tuple[float, ...], ...]]
    evidence: tuple[records.PatternRecord, ...]


def describe_own_people(
    model: FittedModel, people: StudyPeople, consensus: Consensus
) -> OwnPeople:
    """Return the R-indices of the study's people and their visits, and the evidence for
    each pattern that they give.
    """
    cohort, seed = people.study.checked.applied, people.study.seed
    unseen = None if people.seen is None else consensus.unseen
    table = model.tabulate_own_people(cohort, unseen)
    quantiles = {
        str(group): tuple(
            tuple(rows[name].quantile(list(records.QUANTILE_RANKS)).round(4))
            for name in model.index_names
        )
        for group, rows in table.groupby(GROUP)
    }
    visits = None
    if cohort.visits is not None:
        rows = pd.Index(cohort.people[ID]).get_indexer(cohort.visits.people[ID])
        visits = model.tabulate_own_people(
            cohort.visits, None if unseen is None else unseen[:, rows]
        )
    stability = assess_pattern_stability(
        consensus.completed,
        np.nan_to_num(consensus.indices),
        model.patterns[-1],
        people.method.choose_weight_learner(list(consensus.members)),
        seed,
    )
    changes: list[float | None] = [None] * model.n_patterns
    if unseen is not None:
        changes = compute_seed_changes(consensus.inferred, unseen)
    evidence = make_pattern_records(
        stability,
        _measure_separation(table, model.index_names, seed),
        changes,
        in_sample=unseen is None,
    )
    ids = people.study.cohort.people[ID].tolist()  # in the order of their table
    return OwnPeople(
        indices=table.set_index(ID).loc[ids].reset_index(),
        visit_indices=visits,
        quantiles=quantiles,
        evidence=evidence,
    )


def _measure_separation(
    indices: pd.DataFrame, names: Sequence[str], seed: int
) -> GroupSeparation:
    """Return how the R-indices of the study's own people, as they are written, separate
    the groups.
    """
    # bootstraps depend on the order
    known = indices.dropna(subset=list(names)).sort_values(ID)
    values, is_patient = (
        known[list(names)].to_numpy(dtype=float),
        known[GROUP].to_numpy() == PATIENT,
    )
    return measure_separation(values[~is_patient], values[is_patient], seed)


def compute_seed_changes(inferred: FloatArray, unseen: BoolArray) -> list[float | None]:
    """Return by how much a cross-fitted R-index changes with another seed, as the root
    mean square over people.

    The n members that have not seen a person are of independent partitions. With v
    their variance, two seeds differ by 2 v / n on average, squared. ``inferred`` is (S,
    N, M), ``unseen`` (S, N). None if nobody has two such members.
    """
    number = unseen.sum(axis=0)
    several = number > 1
    if not several.any():
        return [None] * inferred.shape[2]
    values = np.where(unseen[:, several, None], inferred[:, several], np.nan)
    squared = 2.0 * np.nanvar(values, axis=0, ddof=1) / number[several, None]
    return [float(value) for value in np.sqrt(squared.mean(axis=0))]


def make_pattern_records(
    stability: PatternStability,
    separation: GroupSeparation,
    seed_changes: Sequence[float | None],
    in_sample: bool,
) -> tuple[records.PatternRecord, ...]:
    """Return how well each pattern is reproduced in other people, and how it separates
    patients from controls.
    """
    return tuple(
        records.PatternRecord(
            name=f"r{k + 1}",
            stability=float(stability.stability[:, k].mean()),
            stability_interval=compute_interval(stability.stability[:, k]),
            split_half=float(stability.split_half[:, k].mean()),
            split_half_interval=compute_interval(stability.split_half[:, k]),
            carriers=float(separation.carriers[0, k]),
            carriers_interval=_compute_bootstrap_interval(separation.carriers[1:, k]),
            auc=float(separation.auc[0, k]),
            auc_interval=_compute_bootstrap_interval(separation.auc[1:, k]),
            seed_change=seed_changes[k],
            in_sample=in_sample,
        )
        for k in range(stability.stability.shape[1])
    )


def compute_interval(values: FloatArray) -> records.Interval:
    """Return the range that holds the middle 95 % of values."""
    return float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975))


def _compute_bootstrap_interval(values: FloatArray) -> records.Interval | None:
    """Return the interval of bootstrapped values; None without any, as where people
    cannot be pooled.
    """
    return compute_interval(values) if len(values) else None


def _make_card(
    people: StudyPeople,
    consensus: Consensus,
    selection: records.SelectionRecord,
    interval_over: str,
) -> records.ModelCard:
    """Return the card of a model, without what the people of the study get from it."""
    cohort, chosen = people.cohort, selection.chosen
    assert chosen is not None
    adjusted = [
        coding.name for coding in people.study.preprocessing.residualiser.codings
    ]
    numbers = cohort.covariates[adjusted].select_dtypes("number")
    trained_on = {
        "people": len(cohort),
        "controls": cohort.n_controls,
        "patients": cohort.n_patients,
    }
    if cohort.visits is not None and people.visits != "first":
        trained_on["scans"] = len(cohort.visits)
    return records.ModelCard(
        unit=cohort.unit,
        source=cohort.source,
        covariate_ranges={
            name: round_outwards(numbers[name].min(), numbers[name].max())
            for name in numbers
        },
        trained_on=trained_on,
        shape="" if chosen.held_out is None else chosen.held_out.shape,
        orthogonality=chosen.setting.orthogonality,
        agreement=chosen.agreement,
        agreement_between=chosen.agreement_between,
        concordance_interval=chosen.concordance_interval,
        members_trained=chosen.members,
        method=records.MethodRecord(
            name=people.model.method, settings=people.model.resolve_values()
        ),
        **vars(collect_provenance(people.study)),
        citation=CITATION,
        number_of_patterns=selection.number_of_patterns,
        finding=selection.finding,
        reference=_make_reference_record(people.study.reference, consensus.everyone),
        pattern_scale=tuple(float(value) for value in consensus.unit),
        member_steps=tuple(member.steps for member in consensus.members),
        interval_over=interval_over,
    )


def _make_reference_record(
    reference: NormalReference | None, people: PreparedPeople
) -> records.ReferenceRecord | None:
    """Return the reference and the weight that it gets among all controls."""
    if reference is None:
        return None
    controls = (people.complete().X[people.y == 0] - CONTROL_MEAN) / CONTROL_SD
    target = ReferenceTarget.choose(controls, people.reference)
    assert target is not None
    return records.ReferenceRecord(
        name=reference.name,
        people=reference.people,
        sites=reference.sites,
        weight=target.weight,
    )
