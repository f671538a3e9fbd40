"""``rindices fit``: run a study, from a table to a selected model."""

import signal
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rindices.cli.console import print_facts, print_json, print_problems, split_option
from rindices.cli.options import (
    Adjust,
    Controls,
    Covariates,
    Exclude,
    Group,
    Harmonise,
    IcvFor,
    IdColumn,
    ImputeCovariates,
    Include,
    Json,
    Measure,
    MissingCodes,
    Participants,
    ParticipantsId,
    Patients,
    Reference,
    Session,
    Site,
)
from rindices.errors import format_count
from rindices.study.recipes import RECIPES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rindices.errors import Problem
    from rindices.model.fitted import FittedModel
    from rindices.model.records import (
        PatternCountRecord,
        PatternRecord,
        ReferenceRecord,
        SelectionRecord,
        SettingRecord,
    )
    from rindices.selection.choose import GridPoint
    from rindices.study.config import ModelConfig, StudyConfig
    from rindices.study.exceptions import NoPatternError
    from rindices.tables.cohort import Cohort

_ONE_INDEX = "none beyond the mean difference; one index along it"
EPILOG = "Example: rindices fit study.toml --out results    or    rindices fit dlmuse.csv --participants p.tsv ..."


def fit(
    source: Annotated[list[Path], typer.Argument(metavar="STUDY.toml|TABLE...", help="A study file, or volumes.")],
    out: Annotated[Path, typer.Option(help="Folder for everything; run again to resume.")],
    participants: Participants = None,
    group: Group = None,
    controls: Controls = None,
    patients: Patients = None,
    covariates: Covariates = None,
    site: Site = None,
    harmonise: Harmonise = None,
    adjust: Adjust = None,
    icv_for: IcvFor = None,
    reference: Reference = None,
    id_column: IdColumn = None,
    participants_id: ParticipantsId = None,
    session: Session = None,
    visits: Annotated[
        str | None,
        typer.Option(
            metavar="first|mean|all", help="Learn from the first visits, their mean, or all and their change."
        ),
    ] = None,
    exclude: Exclude = None,
    include: Include = None,
    measure: Measure = None,
    missing_codes: MissingCodes = None,
    on_missing: Annotated[
        str | None,
        typer.Option(help="People who lack regions: model uses the others, drop leaves them out, error stops."),
    ] = None,
    impute_covariates: ImputeCovariates = False,
    patterns: Annotated[
        list[str] | None, typer.Option(help="Numbers of patterns to try, e.g. 2,3; by default a test decides.")
    ] = None,
    orthogonality: Annotated[list[str] | None, typer.Option(help="Weights lambda to try.")] = None,
    members: Annotated[int | None, typer.Option(min=1, help="Ensemble members per setting.")] = None,
    recipe: Annotated[str | None, typer.Option(help=f"How to train: {', '.join(RECIPES)}.")] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Largest number of training steps.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Same seed, same numbers.")] = None,
    engine: Annotated[str | None, typer.Option(help="local, dask, slurm, pbs, lsf or sge.")] = None,
    workers: Annotated[int | None, typer.Option(min=-1, help="Processes; -1 for all cores.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, for --engine dask.")] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.html.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would run, and for how long.")] = False,
    as_json: Json = False,
) -> None:
    """Test whether patients differ, learn R-indices, and write the model, everyone's R-indices and a report."""
    groups = {"group": group, "controls": split_option(controls), "patients": split_option(patients)}
    columns = {"covariates": split_option(covariates), "site": site, "id": id_column, "session": session}
    regions = {"exclude": split_option(exclude), "include": split_option(include), "measure": measure}
    regions |= {"missing_codes": split_option(missing_codes)}
    people = {"participants": participants, "participants_id": participants_id, "on_missing": on_missing}
    adjustment = {"harmonise": harmonise, "adjust": adjust, "icv_for": icv_for, "reference": make_absolute(reference)}
    imputation = {"impute_covariates": impute_covariates or None, "visits": visits}
    data = {**imputation, **adjustment, **people, **groups, **columns, **regions}
    grid = {"patterns": split_option(patterns), "orthogonality": split_option(orthogonality)}
    changes = None if max_steps is None else {"max_steps": max_steps}
    model = {"members": members, "recipe": recipe, "recipe_changes": changes, **grid}
    run = {"seed": seed, "engine": engine, "workers": workers, "scheduler": scheduler}
    study, folder = load_study(source, data, model, run)
    if dry_run:
        _print_plan(study, folder, out, as_json)
    else:
        _run_study(study, folder, out, source[0], as_json, not no_report)


def load_study(source: list[Path], *sections: "Mapping[str, object]") -> "tuple[StudyConfig, Path]":
    """Return the study of a file with the options on top, or of options alone."""
    from rindices.errors import StudyError
    from rindices.study.config import make_study, merge_options

    options = [{k: _to_config_value(v) for k, v in section.items() if v not in (None, ())} for section in sections]
    values = dict(zip(("data", "model", "run"), options, strict=True))
    if source[0].suffix == ".toml":
        if len(source) > 1:
            raise StudyError("give one study file, or tables, not both.")
        return make_study(merge_options(source[0], values), source[0].name), source[0].parent
    values["data"]["volumes"] = [str(path.absolute()) for path in source]
    try:
        return make_study(values, "options"), Path()
    except StudyError as error:
        raise typer.BadParameter(str(error)) from error


def make_absolute(reference: str | None) -> str | None:
    """Return the path of a reference from the root; ``muse`` is no path."""
    return reference if reference in (None, "muse") else str(Path(reference).absolute())


def _to_config_value(value: object) -> Any:
    return str(value.absolute()) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value


def _run_study(study: "StudyConfig", folder: Path, out: Path, source: Path, as_json: bool, with_report: bool) -> None:
    """Run a study, write its report and print its result."""
    from rindices.cli.progress import Progress
    from rindices.report.page import write_report
    from rindices.study.engines.base import StudyObserver
    from rindices.study.exceptions import NoPatternError, StudyStoppedError
    from rindices.study.reference import read_reference
    from rindices.study.run import run_study

    start, has_weights = time.monotonic(), _has_weights(study.model)
    cohort, problems = _read_table(study, folder)
    reference = read_reference(study.data, folder)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a batch system ends a job by SIGTERM
    with Progress("fit") as progress:

        def print_setting(point: "GridPoint", concordance: float) -> None:
            progress.say(f"{_describe_setting(point, has_weights)}: members agree {concordance:.3f}")

        def write_page(folder: Path) -> None:
            if with_report:
                write_report(folder)

        observer = StudyObserver(progress.update, print_setting, progress.say, progress.print_problems, write_page)
        try:
            ending: FittedModel | NoPatternError = run_study(
                cohort,
                study,
                out,
                study_file=source,
                table_problems=problems,
                observer=observer,
                reference=reference,
            )
        except NoPatternError as error:
            ending = error
        except StudyStoppedError as error:
            progress.say(str(error))
            raise typer.Exit(3) from None
        except KeyboardInterrupt:
            progress.say(f"interrupted; what is finished is in {out / 'runs'}: run the same command again to go on")
            raise typer.Exit(3) from None
    seconds, page = round(time.monotonic() - start, 1), str(out / "report.html") if with_report else None
    if isinstance(ending, NoPatternError):
        _print_null_result(ending, out, page, seconds, as_json)
    else:
        _print_result(ending, has_weights, out, page, seconds, as_json)


def _has_weights(model: "ModelConfig") -> bool:
    """Return whether the weight lambda is part of the choice: several are tried, or the user named one."""
    from rindices.study.plan import list_grid_weights

    return model.orthogonality is not None or len(list_grid_weights(model)) > 1


def _print_result(
    model: "FittedModel", has_weights: bool, out: Path, page: str | None, seconds: float, as_json: bool
) -> None:
    selection = model.selection
    assert selection is not None
    assert selection.chosen is not None
    assert selection.number_of_patterns is not None
    chosen = selection.chosen
    if as_json:
        facts = {"orthogonality": chosen.setting.orthogonality, "agreement": chosen["agreement"]}
        files = {"model": str(out / "model.safetensors"), "report": page}
        numbers = {"number_of_patterns": selection["number_of_patterns"], "patterns": selection["patterns"]}
        numbers |= {"finding": selection.finding, "difference": selection["difference"]}
        numbers |= {"shape": None if chosen.held_out is None else chosen.held_out.shape}
        numbers |= {"visits": None if chosen.held_out is None else chosen.held_out.visits}
        counts = {"members": chosen["members"], "seconds": seconds}
        print_json({"n_patterns": model.n_patterns, **facts, **counts, **files, **numbers})
        return
    number = selection.number_of_patterns
    is_mean_difference = selection.finding == "mean_difference"
    agreement = _format_agreement(chosen.agreement.concordance, *chosen.concordance_interval)
    weight = chosen.setting.orthogonality
    tables = ["model.safetensors", "r_indices.tsv", "patterns.tsv", "effects.tsv"]
    tables += ["trajectories.tsv"] if (out / "trajectories.tsv").exists() else []
    print_facts(
        [
            ("difference", _describe_difference(selection)),
            ("patterns", _ONE_INDEX if is_mean_difference else _format_n_patterns(model.n_patterns, number)),
            ("lambda", f"{weight:g}" if has_weights and weight is not None else ""),
            ("shape", "" if chosen.held_out is None else chosen.held_out.shape),
            ("visits", "" if chosen.held_out is None else chosen.held_out.visits or ""),
            ("agreement", f"{agreement}, {chosen.agreement_between}"),
            ("tied with", ", ".join(_describe_setting(setting, has_weights) for setting in selection.ties)),
            *((pattern.name, _describe_pattern(pattern)) for pattern in selection.patterns),
            ("reference", _describe_reference(model.card.reference)),
            ("members", f"{chosen.members.converged} of {chosen.members.trained} converged"),
            ("seconds", f"{seconds:g}"),
            ("written", f"{out}: {', '.join(tables)}, selection.json, study.toml"),
            ("report", page or ""),
        ]
    )


def _describe_reference(reference: "ReferenceRecord | None") -> str:
    if reference is None:
        return ""
    return f"{reference.name} ({reference.people:,} people) has weight {reference.weight:g} in normal variation"


def _describe_difference(selection: "SelectionRecord") -> str:
    if selection.difference is None:
        return ""
    p = f"p = {selection.difference.p:.3f}"
    return f"patients differ from controls, {p}" if selection.is_difference_detected else f"none detected, {p}"


def _format_agreement(concordance: float | None, low: float | None, high: float | None) -> str:
    """Return the agreement with its interval, which fewer than four members do not have."""
    if concordance is None:
        return "not known (one member)"
    return f"{concordance:.3f}" if low is None or high is None else f"{concordance:.3f} ({low:.3f} to {high:.3f})"


def _format_n_patterns(chosen: int, number: "PatternCountRecord") -> str:
    """Return the number of patterns, how it was chosen, and the number by the test."""
    test = f"test: {number.by_test}"
    return f"{chosen} ({'as asked' if number.forced else number.decided_by or 'agreement'}; {test})"


def _describe_pattern(pattern: "PatternRecord") -> str:
    auc = "" if pattern.auc is None else f"AUC in held-out people {pattern.auc:.2f}; "
    return (
        f"{auc}carried by {pattern.carriers:.0%} of patients; ranks held-out people alike in disjoint halves "
        f"{pattern.split_half:.2f}, in bootstraps {pattern.stability:.2f}"
    )


def _print_null_result(error: "NoPatternError", out: Path, page: str | None, seconds: float, as_json: bool) -> None:
    """Print that no difference was detected, which is a result and not a failure."""
    if as_json:
        empty = {"orthogonality": None, "agreement": None, "members": {"trained": 0, "converged": 0}}
        rest = {"seconds": seconds, "model": None, "report": page}
        tests = {name: error.selection[name] for name in ("number_of_patterns", "finding", "difference")}
        print_json({"n_patterns": 0, **empty, **rest, **tests, "patterns": []})
        return
    typer.echo(str(error), err=True)
    written = f"{out}: effects.tsv, cohort.json, selection.json, study.toml"
    print_facts([("difference", "none detected"), ("written", written), ("report", page or "")])


def _describe_setting(setting: "SettingRecord | GridPoint", has_weights: bool) -> str:
    weight = f", lambda {setting.orthogonality:g}" if has_weights and setting.orthogonality is not None else ""
    return f"{format_count(setting.n_patterns, 'pattern')}{weight}"


def _read_table(study: "StudyConfig", folder: Path) -> "tuple[Cohort, Sequence[Problem]]":
    """Return the cohort of a study, one scan per person, and the problems of its table; paths start at a folder."""
    from rindices.study.preflight import drop_settled_notes, keep_training_scans
    from rindices.tables.validation.validate import validate_table

    result = validate_table(study.data.request(folder))
    problems = drop_settled_notes(result.problems, study)
    return keep_training_scans(result.cohort_or_raise(), problems, study.data.visits)


def read_study_cohort(study: "StudyConfig", folder: Path) -> "Cohort":
    """Read the cohort of a study; notes and warnings go to standard error."""
    from rindices.study.sample_size import check_sample_size

    cohort, problems = _read_table(study, folder)
    print_problems([*problems, *check_sample_size(cohort.n_controls, cohort.n_patients, cohort.unit)])
    return cohort


def _print_plan(study: "StudyConfig", folder: Path, out: Path, as_json: bool) -> None:
    from rindices.study.estimate import estimate_run_time
    from rindices.study.reference import read_reference

    cohort = read_study_cohort(study, folder)
    model, run = study.model, study.run
    data, reference = study.data, read_reference(study.data, folder)
    estimate = estimate_run_time(
        *(cohort, model, run.seed, out / "runs", run.workers, data.harmonise, data.adjust, reference, data.icv_for),
        data.visits,
    )
    if as_json:
        print_json(asdict(estimate))
        return
    seconds = estimate.seconds_left
    time_left = f"about {seconds:.0f} s" if seconds < 120 else f"about {seconds / 60:.0f} min"
    time_left = time_left if seconds < 7200 else f"about {seconds / 3600:.0f} h"
    print_facts([*((name, str(value)) for name, value in asdict(estimate).items()), ("time left", time_left)])
