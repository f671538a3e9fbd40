"""``rindices fit``: the whole study, from a table to a selected model."""

import json
import signal
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rindices.cli.console import print_facts, print_json, print_problems, split_option
from rindices.cli.options import (
    Controls,
    Covariates,
    Exclude,
    Group,
    Harmonise,
    IdColumn,
    Json,
    Participants,
    Patients,
    Session,
    Site,
)
from rindices.study.recipes import RECIPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rindices.errors import Problem
    from rindices.model.fitted import FittedModel
    from rindices.model.records import PatternCountRecord, PatternRecord, SettingRecord
    from rindices.selection.choose import GridPoint
    from rindices.study.config import StudyConfig
    from rindices.study.exceptions import NoPatternError
    from rindices.study.store import RunStore

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
    id_column: IdColumn = None,
    session: Session = None,
    exclude: Exclude = None,
    measure: Annotated[str | None, typer.Option(help="volume, thickness, area or any.")] = None,
    on_missing: Annotated[str | None, typer.Option(help="error or drop.")] = None,
    patterns: Annotated[list[str] | None, typer.Option(help="Numbers of patterns to try, e.g. 2,3,4.")] = None,
    orthogonality: Annotated[list[str] | None, typer.Option(help="Weights lambda to try.")] = None,
    members: Annotated[int | None, typer.Option(min=1, help="Members a setting.")] = None,
    recipe: Annotated[str | None, typer.Option(help=f"How to train: {', '.join(RECIPES)}.")] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Training steps at most.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Same seed, same numbers.")] = None,
    engine: Annotated[str | None, typer.Option(help="local, dask, slurm, pbs, lsf or sge.")] = None,
    workers: Annotated[int | None, typer.Option(min=-1, help="Processes; -1 for all cores.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, for --engine dask.")] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.html.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run and how long it takes.")] = False,
    as_json: Json = False,
) -> None:
    """Learn R-indices, choose among settings by agreement, and write the model and everyone's R-indices."""
    data = {
        "participants": participants,
        "group": group,
        "controls": split_option(controls),
        "patients": split_option(patients),
    }
    data |= {
        "covariates": split_option(covariates),
        "site": site,
        "harmonise": harmonise,
        "id": id_column,
        "session": session,
    }
    data |= {"exclude": split_option(exclude), "measure": measure, "on_missing": on_missing}
    model: dict[str, Any] = {"patterns": split_option(patterns), "orthogonality": split_option(orthogonality)}
    model |= {"members": members, "recipe": recipe}
    if max_steps is not None:
        model["recipe_changes"] = {"max_steps": max_steps}
    run = {"seed": seed, "engine": engine, "workers": workers, "scheduler": scheduler}
    study, folder = _load_study(source, data, model, run)
    if dry_run:
        _print_plan(study, folder, out, as_json)
    else:
        _run_study(study, folder, out, source[0], as_json, not no_report)


def _load_study(source: list[Path], *sections: dict[str, Any]) -> "tuple[StudyConfig, Path]":
    """Return the study of a file with the options on top, or of options alone."""
    from rindices.errors import StudyError
    from rindices.study.config import make_study, merge_options

    given = [{k: _to_config_value(v) for k, v in section.items() if v not in (None, ())} for section in sections]
    values = dict(zip(("data", "model", "run"), given, strict=True))
    if source[0].suffix == ".toml":
        if len(source) > 1:
            raise StudyError("give one study file, or tables, not both.")
        return make_study(merge_options(source[0], values), source[0].name), source[0].parent
    values["data"]["volumes"] = [str(path.absolute()) for path in source]
    try:
        return make_study(values, "options"), Path()
    except StudyError as error:
        raise typer.BadParameter(str(error)) from error


def _to_config_value(value: Any) -> Any:
    return str(value.absolute()) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value


def _run_study(study: "StudyConfig", folder: Path, out: Path, source: Path, as_json: bool, with_report: bool) -> None:
    from rindices.errors import StudyError, describe_os_error
    from rindices.report.page import write_report
    from rindices.study.engines.base import StudyStoppedError
    from rindices.study.exceptions import NoPatternError
    from rindices.study.store import RunStore

    start = time.monotonic()
    cohort, problems = _read_cohort_and_problems(study, folder)
    store = RunStore(out / "runs")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the end of a batch job is an interruption, too
    try:
        with store.lock_folder():
            try:
                model = _fit_study(study, cohort, problems, store, out, source)
            except NoPatternError as error:
                page = str(write_report(out)) if with_report else None
                _print_null_result(error, out, page, time.monotonic() - start, as_json)
                return
            page = str(write_report(out)) if with_report else None
    except StudyStoppedError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(3) from None
    except KeyboardInterrupt:
        typer.echo(f"interrupted; what is finished is in {store.folder}: run the same command again to go on", err=True)
        raise typer.Exit(3) from None
    except OSError as error:
        raise StudyError(
            f"cannot write to {out} ({describe_os_error(error)}): make room or give another --out."
        ) from error
    _print_result(model, out, page, round(time.monotonic() - start, 1), as_json)


def _fit_study(
    study: "StudyConfig", cohort: Any, problems: "list[Problem]", store: "RunStore", out: Path, source: Path
) -> "FittedModel":
    """Run the study and write what it found."""
    from rindices.cli.progress import Progress
    from rindices.preprocess.pipeline import Preprocessing
    from rindices.study.config import format_study_toml
    from rindices.study.engines.registry import make_engine
    from rindices.study.evidence import collect_study_warnings
    from rindices.study.exceptions import NoPatternError, UnstableError
    from rindices.study.fit import fit_cohort
    from rindices.study.outputs import clear_outputs, write_null_result, write_selection, write_study

    clear_outputs(out)
    if not (out / "study.toml").exists() or not (out / "study.toml").samefile(source):
        (out / "study.toml").write_text(format_study_toml(study), "utf-8")
    with Progress("fit") as progress:

        def agreed(point: "GridPoint", concordance: float) -> None:
            progress.say(f"{_describe_setting(point)}: members agree {concordance:.3f}")

        watched = partial(
            fit_cohort, told=progress.update, agreed=agreed, say=progress.say, harmonise=study.data.harmonise
        )
        try:
            model = watched(cohort, study.model, study.run.seed, store, engine=make_engine(study.run))
        except NoPatternError as error:
            review = Preprocessing.fit(cohort, study.data.harmonise).review(cohort)
            write_null_result(out, error.selection, cohort, [*problems, *review])
            raise
        except UnstableError as error:
            write_selection(out, error.selection)
            raise
    review = model.preprocessing.review(cohort)
    assert model.card.number_of_patterns is not None
    said = collect_study_warnings(model.card.number_of_patterns, model.card.pattern_evidence)
    print_problems([*review, *_list_weak_pattern_problems(model.card.pattern_scale), *said])
    write_study(out, model, cohort, [*problems, *review, *said])
    return model


def _list_weak_pattern_problems(scales: "Sequence[float]") -> "list[Problem]":
    """Return a warning for patterns on which members hardly agree."""
    from rindices.errors import Problem, Severity, join_names
    from rindices.study.evidence import list_weak_patterns

    weak = list_weak_patterns(scales)
    what = f"members hardly agree on {join_names(weak)}: fewer patterns may be enough"
    return [Problem(Severity.WARNING, what)] if weak else []


def _print_result(model: "FittedModel", out: Path, page: str | None, seconds: float, as_json: bool) -> None:
    selection = model.selection
    assert selection is not None
    assert selection.chosen is not None
    assert selection.number_of_patterns is not None
    chosen = selection.chosen
    if as_json:
        facts = {"orthogonality": chosen.setting.orthogonality, "agreement": chosen["agreement"]}
        files = {"model": str(out / "model.safetensors"), "report": page}
        numbers = {"number_of_patterns": selection["number_of_patterns"], "patterns": selection["patterns"]}
        counts = {"members": chosen["members"], "seconds": seconds}
        print_json({"n_patterns": model.n_patterns, **facts, **counts, **files, **numbers})
        return
    agreement = _format_agreement(chosen.agreement.concordance, *chosen.concordance_interval)
    weight = chosen.setting.orthogonality
    print_facts(
        [
            ("patterns", _format_n_patterns(model.n_patterns, selection.number_of_patterns)),
            ("lambda", "" if weight is None else f"{weight:g}"),
            ("agreement", f"{agreement}, {chosen.agreement_between}"),
            ("tied with", ", ".join(_describe_setting(setting) for setting in selection.ties)),
            *((pattern.name, _describe_pattern(pattern)) for pattern in selection.patterns),
            ("members", f"{chosen.members.converged} of {chosen.members.trained} converged"),
            ("seconds", f"{seconds:g}"),
            ("written", f"{out}: model.safetensors, r_indices.tsv, patterns.tsv, selection.json, study.toml"),
            ("report", page or ""),
        ]
    )


def _format_agreement(concordance: float | None, low: float | None, high: float | None) -> str:
    """Return the agreement with its interval; fewer than three members have none."""
    if concordance is None:
        return "not known (one member)"
    return f"{concordance:.3f}" if low is None or high is None else f"{concordance:.3f} ({low:.3f} to {high:.3f})"


def _format_n_patterns(chosen: int, number: "PatternCountRecord") -> str:
    """Return the number of patterns and who says so."""
    test = f"test: {number.by_test} (p = {number.test.curve[0].p:.3f} against none)"
    return f"{chosen} (as asked; {test})" if number.forced else f"{chosen} (agreement; {test})"


def _describe_pattern(pattern: "PatternRecord") -> str:
    return (
        f"carried by {pattern.carriers:.0%} of patients; ranks unseen people alike in disjoint halves "
        f"{pattern.split_half:.2f}, in bootstraps {pattern.stability:.2f}"
    )


def _print_null_result(error: "NoPatternError", out: Path, page: str | None, seconds: float, as_json: bool) -> None:
    """Say that there is no pattern, which is an answer and not a failure."""
    if as_json:
        empty = {"orthogonality": None, "agreement": None, "members": {"trained": 0, "converged": 0}}
        rest = {"seconds": round(seconds, 1), "model": None, "report": page}
        print_json(
            {
                "n_patterns": 0,
                **empty,
                **rest,
                "number_of_patterns": error.selection["number_of_patterns"],
                "patterns": [],
            }
        )
        return
    typer.echo(str(error), err=True)
    written = f"{out}: cohort.json, selection.json, study.toml"
    print_facts([("patterns", "no disease pattern found"), ("written", written), ("report", page or "")])


def _describe_setting(setting: "SettingRecord | GridPoint") -> str:
    weight = "" if setting.orthogonality is None else f", lambda {setting.orthogonality:g}"
    return f"{setting.n_patterns} patterns{weight}"


def read_study_cohort(study: "StudyConfig", folder: Path) -> Any:
    """Read the cohort; notes and warnings go to standard error."""
    return _read_cohort_and_problems(study, folder)[0]


def _read_cohort_and_problems(study: "StudyConfig", folder: Path) -> "tuple[Any, list[Problem]]":
    """Read the cohort and what is to be said about it, which goes to standard error."""
    from rindices.experiments.small_sample import check_sample_size
    from rindices.tables.validation.validate import validate_table

    result = validate_table(study.data.request(folder))
    cohort = result.cohort_or_raise()
    problems = [*result.problems, *check_sample_size(cohort.n_controls, cohort.n_patients)]
    print_problems(problems)
    return cohort, problems


def _print_plan(study: "StudyConfig", folder: Path, out: Path, as_json: bool) -> None:
    from rindices.study.estimate import estimate_run_time

    cohort = read_study_cohort(study, folder)
    model, run = study.model, study.run
    result = estimate_run_time(cohort, model, run.seed, out / "runs", run.workers, study.data.harmonise)
    if as_json:
        print_json(result)
        return
    minutes = result["seconds_left"] / 60
    left = f"about {result['seconds_left']:.0f} s" if minutes < 2 else f"about {minutes:.0f} min"
    print_facts([(name, json.dumps(value)) for name, value in result.items()] + [("time left", left)])
