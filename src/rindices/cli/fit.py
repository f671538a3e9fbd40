"""``rindices fit``: run a study, from a table to a selected model."""

import shlex
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rindices.cli.console import (
    print_facts,
    print_json,
    print_problems,
    print_result,
    split_option,
)
from rindices.cli.options import (
    RUN,
    TRAINING,
    Json,
    OldMethod,
    describe_option,
    get_table_values,
    load_study,
    take_table_options,
)
from rindices.errors import format_count, join_names
from rindices.study.methods import METHODS

if TYPE_CHECKING:
    from rindices.cli.progress import Progress
    from rindices.errors import Problem
    from rindices.model.findings import PatternFinding, StudyFindings
    from rindices.model.fitted import FittedModel
    from rindices.model.records import (
        CandidateRecord,
        ReferenceRecord,
        SelectionRecord,
        SettingRecord,
    )
    from rindices.selection.choose import GridPoint
    from rindices.study.config import ModelConfig, StudyConfig
    from rindices.study.engines import StudyObserver
    from rindices.sums.parts import PartsTransport
    from rindices.sums.study import SumsResult
    from rindices.tables.cohort import Cohort

_TABLES = (
    "model.safetensors r_indices.tsv r_indices_visits.tsv patterns.tsv effects.tsv subgroups.tsv site_effects.tsv outlying_measurements.tsv "
    "trajectories.tsv networks.safetensors training.tsv members.tsv synthetic.tsv transformation.tsv"
)
_PRIVATE_TABLES = "r_indices.tsv r_indices_visits.tsv outlying_measurements.tsv"
_MODELS = "model.safetensors networks.safetensors"
_ONE_INDEX = "none beyond the mean difference; one index along it"
EXAMPLES = {
    "fit": "study.toml --out results, or rindices fit dlmuse.csv --participants ...",
    "report": "results",
}


@take_table_options("-")
def fit(
    context: typer.Context,
    source: Annotated[
        list[Path],
        typer.Argument(metavar="STUDY.toml|TABLE...", help="A study file, or volumes."),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for everything; run again to resume.")
    ],
    patterns: Annotated[
        list[str] | None,
        describe_option(
            "Numbers of patterns to try; by default a test decides.", "NUMBERS"
        ),
    ] = None,
    seed: Annotated[
        int | None, describe_option("Same seed, same numbers.", "N", min=0)
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only print what would run, and for how long."),
    ] = False,
    method: Annotated[
        str | None,
        describe_option(
            f"{', '.join(METHODS)}; the first by default.", "NAME", TRAINING
        ),
    ] = None,
    recipe: OldMethod = None,
    members: Annotated[
        int | None,
        describe_option("Ensemble members per setting.", "N", TRAINING, min=1),
    ] = None,
    max_steps: Annotated[
        int | None, describe_option("Most training steps.", "N", TRAINING, min=1)
    ] = None,
    orthogonality: Annotated[
        list[str] | None, describe_option("Weights lambda to try.", "WEIGHTS", TRAINING)
    ] = None,
    device: Annotated[
        str | None,
        describe_option("Where torch trains: cpu, cuda or mps.", "DEVICE", TRAINING),
    ] = None,
    engine: Annotated[
        str | None, describe_option("local, dask, slurm, pbs, lsf or sge.", "NAME", RUN)
    ] = None,
    workers: Annotated[
        int | None, describe_option("Processes; -1 for all cores.", "N", RUN, min=-1)
    ] = None,
    scheduler: Annotated[
        str | None,
        describe_option("Dask scheduler, for --engine dask.", "ADDRESS", RUN),
    ] = None,
    in_parts: Annotated[
        bool,
        describe_option(
            "Fit by sums over parts of a table that no memory holds.",
            None,
            RUN,
            "--in-parts",
        ),
    ] = False,
    no_report: Annotated[
        bool, describe_option("Write no report.html.", None, RUN, "--no-report")
    ] = False,
    show_people: Annotated[
        bool,
        describe_option(
            "Show single people in report.html.", None, RUN, "--show-people"
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Test whether patients differ, learn R-indices, write the model, everyone's
    R-indices and a report.
    """
    data = get_table_values(context)
    grid = {
        "patterns": split_option(patterns),
        "orthogonality": split_option(orthogonality),
    }
    given = {"max_steps": max_steps, "device": device}
    changes = {name: value for name, value in given.items() if value is not None}
    model = {
        "members": members,
        "method": method,
        "recipe": recipe,
        "method_settings": changes or None,
        **grid,
    }
    run = {
        "seed": seed,
        "engine": engine,
        "workers": workers,
        "scheduler": scheduler,
        "in_parts": in_parts or None,
    }
    study, folder = load_study(source, data, model, run)
    if study.run.in_parts:
        unused = {
            "--dry-run": dry_run,
            "--no-report": no_report,
            "--show-people": show_people,
        }
        for option in (option for option, is_given in unused.items() if is_given):
            why = "has no effect in parts, where no time is estimated and no report is written: leave it out"
            raise typer.BadParameter(why, param_hint=option)
        _fit_parts(study, folder, out, source[0], as_json)
        return
    if no_report and show_people:
        raise typer.BadParameter(
            "has no effect with --no-report: leave one of them out",
            param_hint="--show-people",
        )
    _refuse_large_table(study, folder, context)
    if dry_run:
        _print_plan(study, folder, out, as_json)
    else:
        _run_study(study, folder, out, source[0], as_json, not no_report, show_people)


def _refuse_large_table(
    study: "StudyConfig", folder: Path, context: typer.Context
) -> None:
    """Refuse a table that is too large for the memory, with the command that fits it in
    parts.
    """
    from rindices.errors import StudyError
    from rindices.study.preflight import (
        DIFFERENCES_IN_PARTS,
        describe_size,
        is_too_large,
        list_changes_in_parts,
    )

    if not is_too_large(study, folder):
        return
    changes = {
        "dry_run": None,
        "no_report": None,
        "show_people": None,
        **list_changes_in_parts(study, folder),
    }
    in_file = [
        name
        for name, value in changes.items()
        if value is None and not context.params.get(name)
    ]
    fixed = join_names(name for name in in_file if name in study.data.model_fields_set)
    first = f"take {fixed} out of the study file, then " if fixed else ""
    command = f"{_format_command(context, changes)} --in-parts"
    raise StudyError(
        f"{describe_size(study)}. To fit it in parts: {first}{command} ({DIFFERENCES_IN_PARTS})."
    )


def _format_command(context: typer.Context, changes: Mapping[str, str | None]) -> str:
    """Return the command of a context with other values of some options; those without
    a value are left out.
    """
    words, options = ["rindices", *context.command_path.split()[1:]], list[str]()
    for parameter in context.command.get_params(context):
        name, names = str(parameter.name), [*parameter.opts, ""]
        value = changes.get(name, context.params.get(name))
        if (
            value is None
            or value is False
            or value == parameter.default
            or (name in changes and not changes[name])
        ):
            continue
        values = [
            str(each)
            for each in (value if isinstance(value, list | tuple) else [value])
        ]
        if parameter.param_type_name == "argument":
            words += values
        else:
            options += (
                [names[0]]
                if value is True
                else [word for each in values for word in (names[0], each)]
            )
    return shlex.join([*words, *options])


def _run_study(
    study: "StudyConfig",
    folder: Path,
    out: Path,
    source: Path,
    as_json: bool,
    with_report: bool,
    show_people: bool,
) -> None:
    """Run a study, write its report and print its result."""
    from rindices.cli.progress import Progress
    from rindices.report.page import write_report
    from rindices.study.cluster import check_engine, make_engine
    from rindices.study.preflight import read_reference
    from rindices.study.run import run_study
    from rindices.study.study import Study
    from rindices.study.train import keep_processes

    start = time.monotonic()
    check_engine(study.run)
    progress = Progress("fit")
    engine = make_engine(study.run)
    with ExitStack() as stack:
        # networks: torch is imported while the table is read
        stack.enter_context(keep_processes(engine, study.model))
        cohort, problems, study = read_study_table(study, folder)
        to_run = Study(cohort, study, read_reference(study.data, folder))
        # a batch system ends a job by SIGTERM
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        stack.enter_context(progress)
        stack.enter_context(_explain_interruption(progress, out, with_report))

        def write_page(folder: Path) -> None:
            if with_report:
                write_report(folder, show_people)

        model = run_study(
            to_run,
            out,
            engine=engine,
            study_file=source,
            table_problems=problems,
            observer=_make_observer(progress, study.model, write_page),
        )
    seconds = round(time.monotonic() - start, 1)
    page = str(out / "report.html") if with_report else None
    if as_json:
        _print_json(model, out, page, seconds)
        return
    if model.ending is not None:
        typer.echo(str(model.ending), err=True)
    facts = _list_facts(model, _has_weights(study.model), out)
    private = _describe_private_files(out, study, show_people)
    print_facts([*facts, *_list_files(out, seconds, private, page)])


def _list_files(
    out: Path, seconds: float, private: str, page: str | None
) -> list[tuple[str, str]]:
    """Return how long a study took, and what it has written."""
    tables = ", ".join(name for name in _TABLES.split() if (out / name).exists())
    return [
        ("seconds", f"{seconds:g}"),
        ("written", f"{out}: {tables}, selection.json, study.toml"),
        ("private", private),
        ("report", page or ""),
    ]


def _make_observer(
    progress: "Progress", model: "ModelConfig", write_page: Callable[[Path], None]
) -> "StudyObserver":
    """Return what prints the progress of a study, and writes its report."""
    from rindices.study.engines import StudyObserver

    has_weights = _has_weights(model)

    def print_setting(point: "GridPoint", concordance: float) -> None:
        setting = _describe_setting(point, has_weights)
        progress.say(f"{setting}: agreement {concordance:.3f}")

    return StudyObserver(
        on_progress=progress.update,
        on_setting=print_setting,
        on_message=progress.say,
        on_problems=progress.print_problems,
        on_written=write_page,
        on_training=progress.watch,
    )


@contextmanager
def _explain_interruption(
    progress: "Progress", out: Path, with_report: bool
) -> Iterator[None]:
    """Say how to go on where a study is interrupted, and where to look where its
    training fails.
    """
    from rindices.study.exceptions import StudyStoppedError, TrainingFailedError

    try:
        yield
    except TrainingFailedError:
        if with_report:
            progress.say(f"how the members were trained: {out / 'report.html'}")
        raise
    except StudyStoppedError as error:
        progress.say(str(error))
        raise typer.Exit(3) from None
    except KeyboardInterrupt:
        progress.say(
            f"interrupted; what is finished is in {out / 'runs'}: run the same command again to go on"
        )
        raise typer.Exit(3) from None


def _list_null_facts(
    findings: "StudyFindings", selection: "SelectionRecord"
) -> list[tuple[str, str]]:
    """Return what is printed of a study without R-indices."""
    from rindices.report.sections import load_statements

    say = load_statements()
    return [
        *_list_signs(findings),
        ("adjusted for", say.adjustment(selection.adjustment)),
        ("difference", say.difference(findings)),
    ]


def _list_signs(findings: "StudyFindings") -> list[tuple[str, str]]:
    """Return the signs of an artefact."""
    return [("looks like an artefact", sign.what) for sign in findings.artefacts]


def _describe_private_files(
    out: Path, study: "StudyConfig", show_people: bool = False
) -> str:
    """Return which files of a study say something about single people, and what."""
    names = [name for name in _PRIVATE_TABLES.split() if (out / name).exists()]
    pages = ["report.html"] if show_people else []
    private = [f"{', '.join([*names, 'runs/', *pages])} (values of single people)"]
    models = [name for name in _MODELS.split() if (out / name).exists()]
    if models:
        private.append(f"{', '.join(models)} (who took part)")
    if study.data.exclude_people:
        private.append("study.toml (IDs of people left out)")
    return f"{', '.join(private)}; the other files may be passed on"


def _fit_parts(
    study: "StudyConfig", folder: Path, out: Path, source: Path, as_json: bool
) -> None:
    """Fit a table in parts: Dask workers answer with sums over parts of its files."""
    from rindices.study.cluster import check_engine
    from rindices.study.outlying_measurements import check_cells
    from rindices.study.preflight import identify_files, open_table_in_parts
    from rindices.study.write import (
        ResultsFolder,
        compute_settings_digest,
        write_description,
    )
    from rindices.sums.parts import connect_parts
    from rindices.sums.study import SumsSettings, run_study_from_sums
    from rindices.tables.sources.frames import locate

    start, table = time.monotonic(), locate(folder, study.data.volumes[0])
    check_engine(study.run)
    opened, study = open_table_in_parts(study, folder)
    request, unit = (
        opened.request,
        opened.validation.cohort_or_raise().unit,
    )  # as in the first file, for all files
    results = ResultsFolder(
        out, compute_settings_digest(study, identify_files(study, folder))
    )
    print_problems([*opened.validation.problems, *results.report_other_study()])
    settings = SumsSettings(
        model=study.model,
        seed=study.run.seed,
        adjust=study.data.adjust,
        age_curve=study.data.age_curve or "linear",
    )
    check = partial(
        check_cells,
        seed=study.run.seed,
        adjust=study.adjust,
        on_outlier=study.on_outlier,
    )
    with connect_parts(
        table.absolute(), request, check, study.run.workers, study.run.scheduler
    ) as transport:
        if n_left_out := transport.count_left_out():
            people = format_count(n_left_out, "person lacks", "people lack")
            typer.echo(f"{people} a covariate or many regions; left out")
        print_problems(transport.list_problems())

        def clear(folder: Path) -> None:
            results.clear(study, source)

        result = run_study_from_sums(
            transport, settings, out, partial(typer.echo, err=True), clear=clear
        )
        write_description(out, results.digest)
        _write_people_of_parts(transport, result, out, unit)
        parts = [part.name for part in transport.parts]
    _print_sums_result(result, parts, out, time.monotonic() - start, as_json)


def _write_people_of_parts(
    transport: "PartsTransport", result: "SumsResult", out: Path, unit: str
) -> None:
    """Write the outlying measurements and the R-indices of the people of all parts."""
    from rindices.apply.tables import write_indices
    from rindices.study.write import write_table

    outlying_measurements = transport.list_outlying_measurements()
    if len(outlying_measurements):
        write_table(out / "outlying_measurements.tsv", outlying_measurements, unit)
    if result.model is not None:
        indices = transport.tabulate_people(result.model)
        write_indices(indices, out / "r_indices.tsv", result.model.card.unit)


def _print_sums_result(
    result: "SumsResult", parts: list[str], out: Path, seconds: float, as_json: bool
) -> None:
    """Print the end of a study in parts."""
    model = str(out / "model.safetensors") if result.model is not None else None
    if as_json:
        print_json(
            {
                **result.to_dict(),
                "parts": parts,
                "seconds": round(seconds, 1),
                "model": model,
            }
        )
        return
    if result.ending:
        typer.echo(result.ending, err=True)
    print_facts(
        [
            ("finding", result.finding.replace("_", " ")),
            ("patterns", "" if result.model is None else str(result.model.n_patterns)),
            ("parts", str(len(parts))),
            (
                "people",
                f"{result.counts['controls']} controls, {result.counts['patients']} patients",
            ),
            ("rounds", str(len(result.rounds))),
            ("a part received", f"{result.received / 1e6:.1f} MB"),
            ("a part sent", f"{result.sent / 1e6:.1f} MB"),
            ("seconds", f"{seconds:.0f}"),
            ("written", str(out)),
        ]
    )


def _has_weights(model: "ModelConfig") -> bool:
    """Return whether the weight lambda is part of the choice: several are tried, or the
    user named one.
    """
    return model.orthogonality is not None or len(model.list_weights()) > 1


def _print_json(
    model: "FittedModel", out: Path, page: str | None, seconds: float
) -> None:
    """Print the end of a study; without R-indices, the number of patterns is 0."""
    findings, selection = model.findings, model.selection
    assert findings is not None
    assert selection is not None
    has_model, chosen = findings.n_patterns > 0, selection.chosen
    print_json(
        {
            "finding": findings.finding,
            "n_patterns": findings.n_patterns,
            "shape": findings.shape and findings.shape.chosen,
            "method": findings.method or None,
            "difference": findings.difference.to_dict()
            | {"detected": findings.is_difference},
            "agreement": findings.agreement and findings.agreement.to_dict(),
            "members": {
                "trained": findings.members_trained,
                "used": findings.members_used,
                "converged": chosen.members.converged if chosen else 0,
            },
            "patterns": [
                pattern.to_dict() | {"artefact": pattern.artefact or None}
                for pattern in findings.patterns
            ],
            "artefacts": [sign.to_dict() for sign in findings.artefacts],
            "participants": findings.participants and findings.participants.to_dict(),
            "scans": findings.scans and findings.scans.to_dict(),
            "outlying": findings.outlying and findings.outlying.to_dict(),
            "scale": findings.scale,
            "number_of_patterns": selection.number_of_patterns.to_dict(),
            "orthogonality": chosen and chosen.setting.orthogonality,
            "start": chosen and chosen.start and chosen.start.taken,
            "visits": chosen and chosen.held_out and chosen.held_out.visits,
            "seconds": seconds,
            "model": str(out / "model.safetensors") if has_model else None,
            "report": page,
        }
    )


def _list_facts(
    model: "FittedModel", has_weights: bool, out: Path
) -> list[tuple[str, str]]:
    from rindices.report.sections import StudyFacts, load_statements

    findings, selection, card = model.findings, model.selection, model.card
    assert findings is not None
    assert selection is not None
    if selection.chosen is None:
        return _list_null_facts(findings, selection)
    facts, say = StudyFacts.of_model(model, findings), load_statements(card.unit)
    chosen = selection.chosen
    weight = chosen.setting.orthogonality
    start, held_out = chosen.start, chosen.held_out
    is_diffuse = start is not None and start.taken != "contrastive"
    agreement = f"{_format_agreement(chosen)}, members"
    ties = [_describe_setting(setting, has_weights) for setting in selection.ties]
    outlying = findings.outlying
    return [
        *_list_signs(findings),
        ("participants", say.people(facts)),
        ("adjusted for", say.adjustment(facts.adjustment)),
        ("difference", say.difference(findings)),
        ("patterns", _describe_number(findings)),
        ("lambda", f"{weight:g}" if has_weights and weight is not None else ""),
        ("shape", "" if findings.shape is None else say.shape(findings.shape)),
        ("start", start.why if start is not None and is_diffuse else ""),
        ("visits", "" if held_out is None else held_out.visits or ""),
        ("agreement", "" if chosen.uses_disjoint_halves else agreement),
        ("tied with", ", ".join(ties)),
        *(
            line
            for pattern in findings.patterns
            for line in _list_pattern_facts(pattern, say)
        ),
        ("outlying", "" if outlying is None else say.outlying(outlying)),
        ("reference", describe_reference(card.reference)),
        ("members", f"{findings.members_used} of {findings.members_trained} used"),
        ("scale", findings.scale),
        ("note", _describe_passing_on(model, out)),
    ]


def _describe_passing_on(model: "FittedModel", out: Path) -> str:
    """Return which files tell who took part, and what can be passed on."""
    if model.networks is None:
        files, keep = "model.safetensors tells", "keep it to yourself"
    else:
        files, keep = "model and networks.safetensors tell", "keep them to yourself"
    publish = f"to pass it on: rindices model publish {out} --out FILE"
    return f"{files} who took part; {publish if model.card.can_be_published else keep}"


def _list_pattern_facts(pattern: "PatternFinding", say: Any) -> list[tuple[str, str]]:
    """Return the lines of a pattern: its regions, how far to trust it, what is left of
    covariates.
    """
    covariates = say.covariates(pattern)
    return [
        (pattern.name, say.regions(pattern)),
        ("", f"{say.reproduction(pattern)}; {say.separation(pattern)}"),
        (
            "",
            f"rank correlation with covariates in patients: {covariates}"
            if covariates
            else "",
        ),
    ]


def _describe_number(findings: "StudyFindings") -> str:
    """Return the number of patterns and what it was chosen by."""
    if findings.finding == "mean_difference":
        return _ONE_INDEX
    decision = "as asked" if findings.decided_by == "asked" else findings.decided_by
    return f"{findings.n_patterns} ({decision}; test: {findings.n_by_test})"


def describe_reference(reference: "ReferenceRecord | None") -> str:
    """Return whose correlations of regions were used, and their weight; empty without a
    reference.
    """
    if reference is None:
        return ""
    people = f"{format_count(reference.people, 'person', 'people')} of {format_count(reference.sites, 'site')}"
    return f"{reference.name}, {people}, weight {reference.weight:g}"


def _format_agreement(chosen: "CandidateRecord") -> str:
    """Return the agreement with its interval, which fewer than four members do not
    have.
    """
    concordance, (low, high) = chosen.agreement.concordance, chosen.concordance_interval
    if concordance is None:
        return "not known (one member)"
    return (
        f"{concordance:.3f}"
        if low is None or high is None
        else f"{concordance:.3f} ({low:.3f} to {high:.3f})"
    )


def _describe_setting(setting: "SettingRecord | GridPoint", has_weights: bool) -> str:
    weight = (
        f", lambda {setting.orthogonality:g}"
        if has_weights and setting.orthogonality is not None
        else ""
    )
    return f"{format_count(setting.n_patterns, 'pattern')}{weight}"


def read_study_table(
    study: "StudyConfig", folder: Path
) -> "tuple[Cohort, tuple[Problem, ...], StudyConfig]":
    """Return the cohort of a study, one scan per person, the problems of its table, and
    the study with all choices.
    """
    from rindices.errors import StudyError, TableError
    from rindices.study.preflight import list_group_questions, resolve_study

    if study.run.in_parts:
        raise StudyError(
            f"{study.data.volumes[0]} is fitted in parts, and this needs all people in memory."
        )
    result, study = resolve_study(study, folder)
    cohort = result.cohort_or_raise()
    if result.controls is None:
        raise TableError(list_group_questions(result.problems))
    return cohort, result.problems, study


def read_study_cohort(study: "StudyConfig", folder: Path) -> "Cohort":
    """Read the cohort of a study; notes and warnings go to standard error."""
    from rindices.study.checks import check_sample_size

    cohort, problems, _ = read_study_table(study, folder)
    print_problems(
        [
            *problems,
            *check_sample_size(cohort.n_controls, cohort.n_patients, cohort.unit),
        ]
    )
    return cohort


def _print_plan(study: "StudyConfig", folder: Path, out: Path, as_json: bool) -> None:
    from rindices.study.estimate import estimate_run_time
    from rindices.study.preflight import read_reference
    from rindices.study.study import Study

    cohort = read_study_cohort(study, folder)
    estimate = estimate_run_time(
        Study(cohort, study, read_reference(study.data, folder)), out / "runs"
    )
    seconds, values = estimate.seconds_left, asdict(estimate)
    time_left = (
        f"about {seconds:.0f} s" if seconds < 120 else f"about {seconds / 60:.0f} min"
    )
    time_left = time_left if seconds < 7200 else f"about {seconds / 3600:.0f} h"
    print_result(
        as_json,
        values,
        [
            *((name, str(value)) for name, value in values.items()),
            ("time left", time_left),
        ],
    )


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a finished study.")
    ],
    checklist: Annotated[
        bool,
        typer.Option(
            "--checklist",
            help="Also write checklist.md: TRIPOD+AI, filled in from the study.",
        ),
    ] = False,
    show_people: Annotated[
        bool,
        typer.Option(
            "--show-people",
            help="Show single people; otherwise a mark is five people or more.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write report.html again, for instance with associations (associate --out DIR) or
    brain pictures.
    """
    from rindices.report.checklist import write_checklist
    from rindices.report.page import write_report

    written = {"checklist": write_checklist(folder)} if checklist else {}
    path = write_report(folder, show_people)
    files = {name: str(each) for name, each in ({"report": path} | written).items()}
    print_result(
        as_json,
        {**files, "bytes": path.stat().st_size},
        f"written: {', '.join(files.values())}",
    )
