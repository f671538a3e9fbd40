"""What a report says in sentences: what was found, what to beware of, what to write in a paper."""

from dataclasses import replace

import numpy as np

from rindices.errors import capitalise_first, format_count
from rindices.model.fitted import CITATION
from rindices.model.intervals import NOMINAL_COVERAGE
from rindices.model.records import CohortRecord, ModelCard, ProvenanceRecord
from rindices.report.figures import describe_setting
from rindices.report.people import (
    MIN_PEOPLE_PER_GROUP,
    describe_group_differences,
    describe_rare_levels,
    describe_table_warnings,
    describe_unit,
    join_with_and,
)
from rindices.report.region_names import format_region_name
from rindices.report.study_results import N_LISTED_REGIONS, StudyResults
from rindices.report.trust import describe_test_methods as trust_methods
from rindices.study.evidence import collect_study_warnings, list_weak_patterns
from rindices.study.recipes import get_study_recipe
from rindices.tables.layout import freesurfer
from rindices.tables.validation.groups import CONTROL, PATIENT

_MAX_PATTERN_SIMILARITY, _MAX_INDEX_CORRELATION = 0.7, 0.6
_CONTROL_QUANTILE = 0.95  # quantile of controls beyond which an R-index is called raised
JACKKNIFE_REFERENCE = (
    "Shao J, Wu CFJ. A general theory for jackknife variance estimation. The Annals of Statistics 17, 1176-1197 (1989)."
)
COMBAT_REFERENCE = (
    "Johnson WE, Li C, Rabinovic A. Adjusting batch effects in microarray expression data using empirical Bayes "
    "methods. Biostatistics 8, 118-127 (2007)."
)


def describe_findings(contents: StudyResults) -> list[str]:
    """Return what was found, in three sentences, after a word of doubt where the test finds nothing."""
    number = contents.selection.number_of_patterns
    doubt = "A test cannot tell these patients from controls, so all of this may be nothing but chance."
    said = [_describe_n_patterns(contents), _describe_locations(contents), _describe_affected_share(contents)]
    return [doubt, *said] if number and number.by_test == 0 else said


def _describe_n_patterns(contents: StudyResults) -> str:
    number = contents.model.n_patterns
    what = f"{capitalise_first(_spell_number(number))} pattern{'s' if number != 1 else ''} of change tell{'s' if number == 1 else ''}"
    what += " these patients apart from controls"
    concordance = contents.chosen.agreement.concordance
    if concordance is None:
        return f"{what}; how sure that is, one member cannot say."
    who = "two fits on separate halves of the people" if _uses_disjoint_halves(contents) else "two trainings"
    return f"{what}: {who} rank two patients alike {100 * concordance:.1f} times in 100{_format_agreement_interval(contents)}."


def _describe_locations(contents: StudyResults) -> str:
    parts = []
    for name in contents.names:
        regions = contents.top(name, N_LISTED_REGIONS)
        verb = "loss" if (regions["change"] < 0).mean() > 0.5 else "gain"
        parts.append(f"{name} is {verb} mainly in {describe_main_structures(contents, name)}")
    return f"Index {'; '.join(parts)}."


def _describe_affected_share(contents: StudyResults) -> str:
    bars = contents.select_group(CONTROL).quantile(_CONTROL_QUANTILE)
    raised = contents.select_group(PATIENT) > bars
    one, more = float(raised.any(axis=1).mean()), float((raised.sum(axis=1) > 1).mean())
    said = f"{100 * one:.0f} % of patients are more severe in at least one pattern than 95 % of controls"
    return f"{said}, {100 * more:.0f} % in more than one." if contents.model.n_patterns > 1 else f"{said}."


def describe_choice(contents: StudyResults) -> list[str]:
    """Return how the setting was chosen, in sentences."""
    number = len(contents.selection.grid)
    chosen = describe_setting(contents.chosen.setting)
    if number == 1:
        said = [f"One setting was asked for: {chosen}."]
    else:
        said = [f"{format_count(number, 'setting')} were tried; members agree most on {chosen}, so this was taken."]
    if _uses_disjoint_halves(contents):
        said.append(
            "Members share people and would agree on noise, too. So each setting is judged by fits on disjoint halves "
            "of the people: the share of pairs of patients that both halves rank alike."
        )
    else:
        said.append("Agreement is the share of pairs of patients that two members rank alike.")
    ties = [describe_setting(setting) for setting in contents.selection.ties]
    if ties:
        said.append(f"It cannot be told from {join_with_and(ties)}: the interval of the difference holds zero.")
    unstable = [describe_setting(record.setting) for record in contents.selection.grid if not record.stable]
    if unstable:
        said.append(f"Not stable, and left out of the choice: {join_with_and(unstable)}.")
    return said


def describe_warnings(contents: StudyResults) -> list[str]:
    """Return what a reader should know before relying on the result, in plain words."""
    return [
        *_describe_small_groups(contents),
        *_describe_uncertainty(contents),
        *_describe_pattern_overlap(contents),
        *_describe_covariate_gaps(contents),
    ]


def _describe_small_groups(contents: StudyResults) -> list[str]:
    cohort = contents.cohort
    said = []
    for group in ("controls", "patients"):
        if getattr(cohort, group) < MIN_PEOPLE_PER_GROUP:
            said.append(
                f"Few {group}: {getattr(cohort, group)}. Expect the patterns to move when more people are added."
            )
    if cohort.controls < cohort.regions:
        said.append(
            f"There are fewer controls ({cohort.controls}) than regions ({cohort.regions}), so normal variation "
            "is known only roughly."
        )
    return [*said, *describe_rare_levels(contents.cohort)]


def _describe_uncertainty(contents: StudyResults) -> list[str]:
    said = []
    if contents.selection.ties:
        ties = join_with_and([describe_setting(setting) for setting in contents.selection.ties])
        said.append(f"The number of patterns is not settled: {ties} would do about as well.")
    weak = list_weak_patterns(contents.model.card.pattern_scale)
    if weak:
        said.append(f"Members hardly agree on {join_with_and(weak)}: fewer patterns may be enough.")
    members = contents.chosen.members
    used = len(contents.model.heads)
    if members.converged < members.trained:
        said.append(f"{members.trained - members.converged} of {members.trained} members did not converge.")
    if used < members.converged:
        said.append(f"{members.converged - used} of {members.converged} members disagree with the rest; left out.")
    if members.trained == 1:
        said.append("There is a single member, so nothing says whether another training would find the same.")
    if contents.model.card.interval_over == "trainings":
        said.append("Intervals of regions cover repeated trainings on the same people; other people would differ more.")
    return said


def _describe_pattern_overlap(contents: StudyResults) -> list[str]:
    said = []
    last = np.abs(contents.model.patterns[-1])
    direction = last / np.maximum(np.linalg.norm(last, axis=1, keepdims=True), 1e-12)
    rho = np.atleast_2d(np.corrcoef(contents.select_group(PATIENT).to_numpy(dtype=float), rowvar=False))
    for i in range(len(last)):
        for j in range(i + 1, len(last)):
            pair = f"{contents.names[i]} and {contents.names[j]}"
            if direction[i] @ direction[j] > _MAX_PATTERN_SIMILARITY:
                said.append(f"{pair} take much the same regions: they may be one pattern told twice.")
            if abs(rho[i, j]) > _MAX_INDEX_CORRELATION:
                said.append(f"{pair} go together in patients (correlation {rho[i, j]:.2f}).")
    return said


def _describe_covariate_gaps(contents: StudyResults) -> list[str]:
    said = [
        f"{gap}: what the straight-line adjustment leaves of it may look like disease."
        for gap in describe_group_differences(contents.cohort)
    ]
    if not contents.model.covariates and contents.model.preprocessing.harmoniser is None:
        said.append("Nothing was adjusted for. Age, sex and head size change volumes and can pass for disease.")
    return [*said, *describe_table_warnings(_drop_repeated_problems(contents))]


def _drop_repeated_problems(contents: StudyResults) -> CohortRecord:
    """Return the cohort without what the section on trust says in full."""
    number = contents.selection.number_of_patterns
    repeated = collect_study_warnings(number, contents.selection.patterns) if number else []
    codes = {str(problem.code) for problem in repeated}
    problems = tuple(problem for problem in contents.cohort.problems if problem.code not in codes)
    return replace(contents.cohort, problems=problems)


def describe_individual_uncertainty(contents: StudyResults) -> list[str]:
    """Return how sure single people's R-indices are, in sentences; none where that is not known."""
    said = []
    if contents.widths:
        each = join_with_and([f"{width:.2f} for {name}" for name, width in contents.widths.items()])
        said.append(
            f"One person's R-index is less sure than the pattern: half of the patients have a {100 * NOMINAL_COVERAGE:.0f} % "
            f"interval wider than {each}. Everyone's is in r_indices.tsv, r1 from r1_low to r1_high."
        )
    if contents.novel is not None:
        one = contents.novel == 1
        said.append(
            f"{contents.novel:,} of {len(contents.indices):,} people {'is' if one else 'are'} unlike the others (novel "
            f"in r_indices.tsv): trust {'this' if one else 'their'} R-indices less."
        )
    return said


def describe_adjustment(contents: StudyResults) -> str:
    """Return what was adjusted for, in a sentence or two."""
    covariates = list(contents.model.covariates)
    scale = f"{_describe_harmonisation(contents)}Regions are then expressed in standard deviations of controls around their mean."
    if not covariates:
        return scale if contents.model.preprocessing.harmoniser else f"Nothing was adjusted for. {scale}"
    return f"Linear effects of {join_with_and(covariates, 12)}, estimated in controls alone, were taken out of everyone. {scale}"


def _describe_harmonisation(contents: StudyResults) -> str:
    """Return a sentence about harmonisation; nothing where there is none."""
    found = contents.model.preprocessing.harmoniser
    if found is None:
        return ""
    whom = "controls" if found.mode == "controls" else "everyone, the diagnosis held apart"
    return f"Effects of {format_count(len(found.sites), 'site')} were taken out by ComBat, learnt on {whom}. "


def describe_methods(contents: StudyResults) -> list[str]:
    """Return paragraphs to paste into a paper."""
    return [
        _describe_data(contents),
        _describe_training(contents),
        *trust_methods(contents),
        _describe_indices(contents),
    ]


def _describe_data(contents: StudyResults) -> str:
    cohort = contents.cohort
    what = f"Measures of {cohort.regions} brain regions ({cohort.source}, {describe_unit(contents.cohort)})"
    who = f"of {cohort.controls} controls and {cohort.patients} patients"
    covariates = list(contents.model.covariates)
    how = (
        f"adjusted for {join_with_and(covariates, 12)} by linear regression fitted in controls and "
        if covariates
        else ""
    )
    said = f"{what} {who} were {how}standardised to the controls' mean and standard deviation."
    return f"{said} {_describe_harmonisation(contents)}".strip()


def _describe_training(contents: StudyResults) -> str:
    card = contents.model.card
    name, values = ("default", {}) if card.recipe is None else (card.recipe.name, card.recipe.settings)
    recipe = get_study_recipe(name)
    tried = sorted({record.setting.n_patterns for record in contents.selection.grid})
    weights = sorted({record.setting.orthogonality or 0 for record in contents.selection.grid})
    share = recipe.get_subsample_share(values)
    seen = f", each on its own random {100 * share:.0f} % of controls and of patients" if share < 1 else ""
    grid = f"{join_with_and([str(m) for m in tried])} patterns" + (
        f" and orthogonality weights of {join_with_and([f'{weight:g}' for weight in weights])}"
        if len(weights) > 1
        else ""
    )
    steps = f" {recipe.describe_training(values, card.member_steps)}".rstrip()
    low, high = contents.chosen.concordance_interval
    concordance = contents.chosen.agreement.concordance
    told = ""
    if concordance is not None:
        between = "fits on disjoint halves of the people" if _uses_disjoint_halves(contents) else "members"
        ends = "" if low is None else f" (95 % bootstrap interval over members {low:.3f} to {high:.3f})"
        told = f", with a concordance of {concordance:.3f}{ends} between {between}"
    return (
        f"R-indices were learnt with rindices {card.rindices_version} (recipe {name}: {recipe.description}; "
        f"seed {card.seed}), after Surreal-GAN (Yang, Wen and Davatzikos, 2022). "
        f"{capitalise_first(grid)} were tried with {contents.chosen.members.trained} members each{seen}.{steps} "
        f"{capitalise_first(describe_setting(contents.chosen.setting))} was chosen by agreement{told}."
    )


def _describe_indices(contents: StudyResults) -> str:
    used = len(contents.model.heads)
    scale = "0 is the average control"
    if contents.model.heads[0].kind == "contrastive":
        scale += " and 1 the 98th percentile of patients"
    said = f"A person's R-indices are the mean over {format_count(used, 'aligned member')}; {scale}."
    said += " The effect of a pattern on a region is its change at full severity, in standard deviations of controls"
    over = contents.model.card.interval_over
    if over == "people":
        return f"{said}, with 95 % delete-d jackknife intervals (Shao and Wu, 1989) from the members' subsamples."
    return f"{said}, with 95 % intervals over repeated trainings." if over else f"{said}."


def list_references(contents: StudyResults) -> list[str]:
    """Return what the methods cite."""
    own = [JACKKNIFE_REFERENCE] if contents.model.card.interval_over == "people" else []
    own += [COMBAT_REFERENCE] if contents.model.preprocessing.harmoniser else []
    return [contents.model.card.citation or CITATION, *own]


def format_versions(card: ModelCard | ProvenanceRecord) -> str:
    """Return the versions behind the numbers, from a model's card or the like of it."""
    others = ", ".join(f"{name} {number}" for name, number in card.versions.items())
    return f"rindices {card.rindices_version or 'unknown'}, {others}; data {card.fingerprint[:12]}"


def describe_main_structures(contents: StudyResults, name: str, most: int = 3) -> str:
    """Return where a pattern is strongest, in words."""
    return join_with_and(_list_structures(list(contents.top(name, N_LISTED_REGIONS)["region"]), most))


def _list_structures(regions: list[str], most: int) -> list[str]:
    """Return the first few structures without their sides."""
    plain = [format_region_name(region).removesuffix(", left").removesuffix(", right") for region in regions]
    return list(dict.fromkeys(plain))[:most]


def describe_measures(contents: StudyResults) -> str:
    """Return a sentence about what is measured, where it is not volume alone."""
    found = sorted({freesurfer.infer_measure(region) for region in contents.model.regions} - {"volume"})
    return f"Regions of the cortex are measured by {join_with_and(found)}." if found else ""


def _uses_disjoint_halves(contents: StudyResults) -> bool:
    return contents.chosen.uses_disjoint_halves


def _format_agreement_interval(contents: StudyResults) -> str:
    low, high = contents.chosen.concordance_interval
    return "" if low is None or high is None else f" (95 % interval {100 * low:.1f} to {100 * high:.1f}; 50 is chance)"


def _spell_number(number: int) -> str:
    words = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    return words[number] if number < len(words) else str(number)
