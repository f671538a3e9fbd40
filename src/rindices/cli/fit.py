"""``rindices fit``: the whole study, from a table to a selected model."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rindices.cli.console import print_facts, print_json, say_problems, split
from rindices.cli.options import (
    Controls,
    Covariates,
    Exclude,
    Group,
    IdColumn,
    Json,
    Participants,
    Patients,
    Session,
    Site,
    Workers,
)

if TYPE_CHECKING:
    from rindices.study.config import Study

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
    id_column: IdColumn = None,
    session: Session = None,
    exclude: Exclude = None,
    measure: Annotated[str | None, typer.Option(help="volume, thickness, area or any.")] = None,
    on_missing: Annotated[str | None, typer.Option(help="error or drop.")] = None,
    patterns: Annotated[list[str] | None, typer.Option(help="Numbers of patterns to try, e.g. 2,3,4.")] = None,
    orthogonality: Annotated[list[str] | None, typer.Option(help="Weights lambda to try (recipe paper).")] = None,
    members: Annotated[int | None, typer.Option(min=1, help="Members a setting.")] = None,
    recipe: Annotated[str | None, typer.Option(help="default, contrastive or paper.")] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Training steps at most (recipe paper).")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Same seed, same numbers.")] = None,
    engine: Annotated[str | None, typer.Option(help="local.")] = None,
    workers: Workers = -1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run and how long it takes.")] = False,
    as_json: Json = False,
) -> None:
    """Learn R-indices, choose among settings by agreement, and write the model and everyone's R-indices."""
    data = {"participants": participants, "group": group, "controls": split(controls), "patients": split(patients)}
    data |= {"covariates": split(covariates), "site": site, "id": id_column, "session": session}
    data |= {"exclude": split(exclude), "measure": measure, "on_missing": on_missing}
    model: dict[str, Any] = {"patterns": split(patterns), "orthogonality": split(orthogonality)}
    model |= {"members": members, "recipe": recipe}
    if max_steps is not None:
        model["recipe_changes"] = {"max_steps": max_steps, "min_steps": max_steps}
    study, folder = _study(source, data, model, {"seed": seed, "engine": engine})
    if dry_run:
        _tell_plan(study, folder, out, workers, as_json)
    else:
        _run(study, folder, out, workers, as_json)


def _study(source: list[Path], *sections: dict[str, Any]) -> "tuple[Study, Path]":
    """Return the study of a file with the options on top, or of options alone."""
    from rindices.errors import StudyError
    from rindices.study.config import make_study, read_study

    given = [{k: _plain(v) for k, v in section.items() if v not in (None, ())} for section in sections]
    values = dict(zip(("data", "model", "run"), given, strict=True))
    if source[0].suffix == ".toml":
        if len(source) > 1:
            raise StudyError("give one study file, or tables, not both.")
        stored = read_study(source[0]).model_dump(exclude_defaults=True)
        merged = {name: stored.get(name, {}) | values[name] for name in values}
        return make_study(merged, source[0].name), source[0].parent
    values["data"]["volumes"] = [str(path.absolute()) for path in source]
    if "participants" in values["data"]:
        values["data"]["participants"] = str(Path(values["data"]["participants"]).absolute())
    return make_study(values, "options"), Path()


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value


def _run(study: "Study", folder: Path, out: Path, workers: int, as_json: bool) -> None:
    from rindices.cli.progress import Progress
    from rindices.errors import StudyError
    from rindices.study.config import study_toml
    from rindices.study.fit import fit_cohort
    from rindices.study.outputs import write_study
    from rindices.study.store import RunStore

    start = time.monotonic()
    cohort = _read(study, folder)
    store = RunStore(out / "runs")
    try:
        with Progress("fit") as progress:

            def agreed(point: Any, concordance: float) -> None:
                progress.say(f"{_setting(point._asdict())}: members agree {concordance:.3f}")

            model = fit_cohort(cohort, study.model, study.run.seed, store, workers, progress.update, agreed)
        write_study(out, model, cohort)
        (out / "study.toml").write_text(study_toml(study), "utf-8")
    except KeyboardInterrupt:
        typer.echo(f"interrupted; what is finished is in {store.folder}: run the same command again to go on", err=True)
        raise typer.Exit(3) from None
    except OSError as error:
        raise StudyError(f"cannot write to {out} ({error.strerror}): make room or give another --out.") from error
    chosen = dict(model.selection or {})["chosen"]
    result = {
        "n_patterns": model.n_patterns,
        "orthogonality": chosen["setting"]["orthogonality"],
        "agreement": chosen["agreement"],
        "members": chosen["members"],
        "seconds": round(time.monotonic() - start, 1),
        "model": str(out / "model.safetensors"),
        "report": None,
    }
    if as_json:
        print_json(result)
    else:
        _tell(result, dict(model.selection or {}), out)


def _tell(result: dict[str, Any], selection: dict[str, Any], out: Path) -> None:
    low, high = selection["chosen"]["concordance_interval"]
    concordance = result["agreement"]["concordance"]
    told = f"{concordance:.3f} ({low:.3f} to {high:.3f})" if concordance is not None else "not known (one member)"
    ties = ", ".join(_setting(setting) for setting in selection["ties"])
    members = result["members"]
    print_facts(
        [
            ("patterns", str(result["n_patterns"])),
            ("lambda", "" if result["orthogonality"] is None else f"{result['orthogonality']:g}"),
            ("agreement", told),
            ("tied with", ties),
            ("members", f"{members['converged']} of {members['trained']} converged"),
            ("seconds", f"{result['seconds']:g}"),
            ("written", f"{out}: model.safetensors, r_indices.tsv, selection.json, study.toml"),
        ]
    )


def _setting(setting: dict[str, Any]) -> str:
    weight = "" if setting["orthogonality"] is None else f", lambda {setting['orthogonality']:g}"
    return f"{setting['n_patterns']} patterns{weight}"


def _read(study: "Study", folder: Path) -> Any:
    """Read the cohort; notes and warnings go to standard error."""
    from rindices.errors import Severity, TableError
    from rindices.tables.door import examine

    result = examine(study.data.request(folder))
    if result.cohort is None:
        raise TableError(problem for problem in result.problems if problem.severity is Severity.ERROR)
    say_problems(result.problems)
    return result.cohort


def _tell_plan(study: "Study", folder: Path, out: Path, workers: int, as_json: bool) -> None:
    from rindices.study.estimate import estimate

    result = estimate(_read(study, folder), study.model, study.run.seed, out / "runs", workers)
    if as_json:
        print_json(result)
        return
    minutes = result["seconds_left"] / 60
    left = f"about {result['seconds_left']:.0f} s" if minutes < 2 else f"about {minutes:.0f} min"
    print_facts([(name, json.dumps(value)) for name, value in result.items()] + [("time left", left)])
