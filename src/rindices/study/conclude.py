"""What a study found: its findings, from the people and the finished model.

Shape letters: N people, M patterns.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats

from rindices._typing import AnyArray, FloatArray
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.model.findings import (
    CountedPeople,
    CovariateCorrelation,
    GroupCounts,
    OutlyingFinding,
    StudyFindings,
    collect_findings,
)
from rindices.model.fitted import FittedModel
from rindices.model.records import MethodRecord, ModelCard, PatternRecord
from rindices.study.artefacts import find_artefacts
from rindices.study.build import (
    describe_own_people,
    join_members,
    make_consensus_model,
)
from rindices.study.decide import Decision
from rindices.study.plan import StudyPlan
from rindices.study.provenance import collect_provenance
from rindices.study.study import Study
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.cohort import GROUP, ID, SITE, Cohort

MIN_CORRELATED_PEOPLE = 10
"""Fewest patients from whom a correlation with a covariate is computed."""


def conclude_study(plan: StudyPlan, decision: Decision) -> FittedModel:
    """Return the model of a study with its findings, which its card and its selection
    repeat; a model without R-indices where no difference was detected.
    """
    study, selection = plan.study, decision.selection
    if decision.trained is None:
        return make_null_model(study, decision)
    people = plan.get_people(decision.finding)
    consensus = join_members(people, decision.trained)
    model = make_consensus_model(people, consensus, selection)
    own = describe_own_people(model, people, consensus)
    card = model.card.model_copy(update={"index_quantiles": own.quantiles})
    findings = collect_findings(
        replace(model, card=card),
        selection.model_copy(update={"patterns": own.evidence}),
        people=count_people(study),
        artefacts=find_artefacts(study, own.indices),
        covariates=correlate_covariates(study.cohort, own.indices, model.index_names),
    )
    patterns = add_findings(own.evidence, findings)
    return replace(
        model,
        card=card.model_copy(update={"pattern_evidence": patterns}),
        selection=selection.model_copy(update={"patterns": patterns}),
        indices=own.indices,
        visit_indices=own.visit_indices,
        findings=findings,
    )


def add_findings(
    evidence: Sequence[PatternRecord], findings: StudyFindings
) -> tuple[PatternRecord, ...]:
    """Return the records of patterns with the regions and the artefacts that were found
    in them.
    """
    return tuple(
        record.model_copy(
            update={"regions": finding.regions, "artefact": finding.artefact}
        )
        for record, finding in zip(evidence, findings.patterns, strict=True)
    )


def make_null_model(study: Study, decision: Decision) -> FittedModel:
    """Return the model of a study that detected no difference: it has no R-indices."""
    cohort, config, selection = study.cohort, study.config.model, decision.selection
    card = ModelCard(
        unit=cohort.unit,
        source=cohort.source,
        trained_on={
            "people": len(cohort),
            "controls": cohort.n_controls,
            "patients": cohort.n_patients,
        },
        method=MethodRecord(name=config.method, settings=config.resolve_values()),
        **vars(collect_provenance(study)),
        number_of_patterns=selection.number_of_patterns,
        finding=selection.finding,
    )
    findings = collect_findings(
        None, selection, people=count_people(study), artefacts=find_artefacts(study)
    )
    return FittedModel(
        preprocessing=study.preprocessing,
        heads=(),
        orders=(),
        patterns=np.zeros((len(SEVERITY_LEVELS), 0, cohort.n_regions)),
        training=None,
        card=card,
        selection=selection,
        findings=findings,
        ending=decision.ending,
    )


def count_people(study: Study) -> CountedPeople:
    """Return the numbers of participants, scans and outlying measurements by group."""
    cohort, table = study.cohort, study.checked.table
    scans = None
    if cohort.visits is not None:
        scans = GroupCounts(
            controls=cohort.visits.n_controls, patients=cohort.visits.n_patients
        )
    outlying = None
    if len(table):
        groups = table[ID].map(cohort.people.set_index(ID)[GROUP].to_dict())
        numbers = {
            name: GroupCounts(
                controls=int((each == CONTROL).sum()),
                patients=int((each == PATIENT).sum()),
            )
            for name, each in {
                "measurements": groups,
                "participants": groups[~table[ID].duplicated()],
            }.items()
        }
        outlying = OutlyingFinding(**numbers)
    participants = GroupCounts(controls=cohort.n_controls, patients=cohort.n_patients)
    return CountedPeople(participants, scans, outlying)


def correlate_covariates(
    cohort: Cohort, indices: pd.DataFrame, names: list[str]
) -> dict[str, list[CovariateCorrelation]]:
    """Return what is left of each covariate, and of sites, in the R-indices of the
    patients.

    indices: ``participant_id`` and R-indices of the people of the study; names: of the
    R-indices.
    """
    patients = cohort.take(cohort.is_patient)
    columns = {
        str(name): patients.covariates[name].to_numpy() for name in patients.covariates
    }
    if SITE in patients.people:
        columns["site"] = patients.people[SITE].astype(str).to_numpy()
    values = indices.set_index(ID)[names].reindex(patients.people[ID])
    correlations: dict[str, list[CovariateCorrelation]] = {}
    for name in names:
        index = values[name].to_numpy(dtype=float)
        results = [
            correlate_covariate(covariate, column, index)
            for covariate, column in columns.items()
        ]
        correlations[name] = [each for each in results if each is not None]
    return correlations


def correlate_covariate(
    name: str, column: AnyArray, index: FloatArray
) -> CovariateCorrelation | None:
    """Return the rank correlation of a covariate (N,) with an R-index (N,); None where
    there is nothing to correlate.

    Of a covariate with more than two categories, it is the square root of the part of
    the variance of ranks between categories, with the p-value of Kruskal and Wallis.
    """
    is_known = ~(pd.isna(column) | np.isnan(index))
    column, index = column[is_known], index[is_known]
    is_number = pd.api.types.is_numeric_dtype(column)
    levels, codes = np.unique(
        column if is_number else column.astype(str), return_inverse=True
    )
    if len(column) < MIN_CORRELATED_PEOPLE or len(levels) < 2 or np.ptp(index) == 0.0:
        return None
    if is_number or len(levels) == 2:
        result = stats.spearmanr(column.astype(float) if is_number else codes, index)
        label = name if is_number else f"{name} ({levels[1]})"
        return CovariateCorrelation(
            covariate=label,
            correlation=float(result.statistic),
            p=float(result.pvalue),
            people=len(index),
        )
    ranks = stats.rankdata(index)
    means = np.bincount(codes, ranks) / np.bincount(codes)
    between = float(np.var(means[codes]) / np.var(ranks))
    _, p = stats.kruskal(*(index[codes == level] for level in range(len(levels))))
    return CovariateCorrelation(
        covariate=name,
        correlation=float(np.sqrt(between)),
        p=float(p),
        people=len(index),
    )
