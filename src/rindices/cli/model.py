"""``rindices model``: show, import, export and publish models."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rindices.cli.console import print_result, split_option
from rindices.cli.fit import describe_reference, read_study_table
from rindices.cli.options import (
    Json,
    Model,
    NewModel,
    TableCommand,
    Tables,
    Words,
    get_table_values,
    make_table_request,
    take_table_options,
)
from rindices.errors import ModelError, capitalise_first, format_count, join_names
from rindices.wording import FEATURE_UNIT, get_nouns

if TYPE_CHECKING:
    from rindices.model.fitted import FittedModel
    from rindices.model.records import ModelCard

MIN_REFERENCE_WEIGHT = 0.5
"""Weight of a reference in the fit, from which on its correlations are published in
place of those of the study.
"""

RegistryFile = Annotated[
    Path | None,
    typer.Option("--registry", help="A registry of your own, .toml."),
]
app = typer.Typer(no_args_is_help=True, help="What a model needs and holds.")


@app.command("show", epilog="Example: rindices model show model.safetensors")
def show(
    path: Model,
    as_json: Json = False,
    as_card: Annotated[
        bool, typer.Option("--card", help="Print a model card in Markdown.")
    ] = False,
) -> None:
    """Show what a table must have to be used with a model, and how the model was
    trained.
    """
    from rindices.exchange.card import render_model_card
    from rindices.model.fitted import load

    if as_json and as_card:
        raise typer.BadParameter("give --json or --card, not both")
    model = load(path)
    if as_card:
        typer.echo(render_model_card(model, dict(_list_facts(model))), nl=False)
    else:
        print_result(as_json, _make_json(model), _list_facts(model))


@app.command(
    "import",
    epilog="Example: rindices model import brain_aging_5rindices.saved_model --as brain_aging_5rindices "
    "--out ageing.safetensors",
)
def import_(
    path: Annotated[
        Path,
        typer.Argument(metavar="CHECKPOINT", help="A checkpoint of SurrealGAN 0.1.1."),
    ],
    out: NewModel,
    name: Annotated[
        str | None,
        typer.Option(
            "--as", help="A published model: ad_2rindices or brain_aging_5rindices."
        ),
    ] = None,
    regions: Annotated[
        Path | None,
        typer.Option(
            help="Any other: file of its regions in order, one per line; 47+48 is a sum of MUSE codes."
        ),
    ] = None,
    covariates: Annotated[
        Words,
        typer.Option(help="Any other: its covariates in order, e.g. sex=F/M,age."),
    ] = None,
    epoch: Annotated[
        int | None,
        typer.Option(help="Any other: which of its epochs, if it has several."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Convert a checkpoint of the authors' package into a model; no code in
    it is run.
    """
    from rindices.exchange.importers import (
        import_checkpoint,
        import_published,
        read_region_list,
    )
    from rindices.model.safetensors_io import PUBLISHED_CHECKPOINTS

    if (name is None) == (regions is None):
        published = " or ".join(f"--as {each}" for each in PUBLISHED_CHECKPOINTS)
        raise typer.BadParameter(
            f"give {published} for a published model, or --regions FILE for any other"
        )
    _check_new_model(out, path)
    if name is not None:
        model = import_published(path, name)
    else:
        assert regions is not None
        model = import_checkpoint(
            path, read_region_list(regions), split_option(covariates), epoch
        )
    model.save(out)
    needs = {
        "n_patterns": model.n_patterns,
        "regions": len(model.regions),
        "covariates": list(model.covariates),
    }
    covariate_names = ", ".join(model.covariates) or "no covariates"
    text = f"{model.n_patterns} R-indices from {len(model.regions)} regions and {covariate_names}: {out}"
    print_result(as_json, {"out": str(out), **needs}, text, err=True)


@app.command("list", epilog="Example: rindices model list")
def list_(registry: RegistryFile = None, as_json: Json = False) -> None:
    """List the published models that get can download; nothing is downloaded."""
    from dataclasses import asdict

    from rindices.exchange.registry import read_registry

    entries = read_registry(registry)
    facts = []
    for name, entry in entries.items():
        needs = f"; {join_names(entry.needs)}" if entry.needs else ""
        number = format_count(entry.n_patterns, "R-index", "R-indices")
        facts.append((name, f"{entry.title}: {number} from {entry.regions}{needs}"))
        facts.append(("", f"licence {entry.licence}; {entry.url}"))
    values = {name: asdict(entry) for name, entry in entries.items()}
    print_result(as_json, {"models": values}, facts)


@app.command("get", epilog="Example: rindices model get brain_aging_5rindices")
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As list shows it.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The model to write, .safetensors; NAME.safetensors."),
    ] = None,
    registry: RegistryFile = None,
    as_json: Json = False,
) -> None:
    """Download a published model, compare its SHA-256, and write it as a model."""
    from rindices.exchange.registry import get_model, read_registry

    out = Path(f"{name}.safetensors") if out is None else out
    _check_new_model(out)
    entries = read_registry(registry)
    download = get_model(name, entries)
    download.model.save(out)
    entry = entries[name]
    values = {"out": str(out), "url": entry.url, "sha256": entry.sha256}
    values |= {"licence": entry.licence, "citation": download.model.card.citation}
    text = f"{out}: {entry.title}, {download.n_bytes:,} bytes from {entry.url}\nlicence {entry.licence}; cite {download.model.card.citation}"
    print_result(as_json, values, text, err=True)


@app.command(
    "calibrate",
    cls=TableCommand,
    epilog="Example: rindices model calibrate mine.safetensors healthy.csv --participants healthy.tsv --out calibrated.safetensors",
)
@take_table_options(
    "participants id participants_id session group controls patients missing_codes"
)
def calibrate(
    context: typer.Context,
    path: Model,
    tables: Tables,
    out: NewModel,
    name: Annotated[
        str, typer.Option(help="Of the data set of these people, for the model's card.")
    ] = "",
    licence: Annotated[
        str, typer.Option(help="Of the figures of these people in the new file.")
    ] = "",
    sexes: Annotated[
        str, typer.Option(help="How women and men are called in the tables.")
    ] = "F,M",
    as_json: Json = False,
) -> None:
    """Give a model centiles among healthy people; an imported one also intervals and
    outlier scores. The table needs age and sex.
    """
    from rindices.exchange.healthy import calibrate_with_healthy_people
    from rindices.model.centiles import AGE, SEX
    from rindices.model.fitted import load
    from rindices.tables.validate import validate_table

    _check_new_model(out, path)
    levels = split_option([sexes])
    if len(set(levels)) != 2:
        raise typer.BadParameter("give two, women first", param_hint="--sexes")
    model = load(path)
    data = get_table_values(context)
    covariates = tuple(dict.fromkeys([*model.covariates, AGE, SEX]))
    request = make_table_request(
        tables, {**data, "covariates": covariates, "on_missing": "drop"}
    )
    validation = validate_table(replace(request, searches_blocks=False))
    cohort = validation.cohort_or_raise()
    first, second = levels
    calibrated = calibrate_with_healthy_people(
        model, cohort, name, licence, (first, second)
    )
    calibrated.save(out)
    assert calibrated.card.healthy is not None
    people = calibrated.card.healthy.text
    values = {"out": str(out), "people": calibrated.card.healthy.people}
    print_result(as_json, values, f"{out} knows {people}", err=True)


@app.command(
    "export",
    epilog="Example: rindices model export model.safetensors --page model.html",
)
def export(
    path: Model,
    onnx: Annotated[
        Path | None,
        typer.Option(help="A graph to write, .onnx, for R, JavaScript and others."),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            help="A web page to write, .html, that computes R-indices without Python."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a model as an ONNX graph, from columns to R-indices, or as a web page into
    which tables are dropped.
    """
    from rindices.model.fitted import load

    if (onnx is None) == (page is None):
        raise typer.BadParameter("give --onnx FILE.onnx or --page FILE.html")
    for out, suffix in ((onnx, ".onnx"), (page, ".html")):
        if out is not None and (
            out.suffix != suffix or not out.absolute().parent.is_dir()
        ):
            hint = "--onnx" if out is onnx else "--page"
            raise typer.BadParameter(
                f"give an {suffix} file in an existing folder", param_hint=hint
            )
    if page is not None:
        from rindices.report.model_page import export_page

        export_page(load(path), page)
        result, text = (
            {"out": str(page), "bytes": page.stat().st_size},
            f"written: {page}",
        )
    else:
        from rindices.exchange.onnx import export_onnx

        assert onnx is not None
        names = export_onnx(load(path), onnx)
        result = {"out": str(onnx), **names}
        text = f"{len(names['inputs'])} inputs, outputs {', '.join(names['outputs'])}: {onnx}"
    print_result(as_json, result, text, err=True)


def _find_study(results: Path, out: Path) -> tuple[Path, Path]:
    """Return the model and the study file in a folder of results; a model is not
    written over another one.
    """
    path, study_file = results / "model.safetensors", results / "study.toml"
    _check_new_model(out, path)
    if not path.exists() or not study_file.exists():
        what = f"{results} does not have both model.safetensors and study.toml"
        raise typer.BadParameter(
            f"{what}: give a folder of rindices fit; models of hospitals cannot be published"
        )
    return path, study_file


@app.command(
    "publish",
    epilog="Example: rindices model publish results --out model_to_share.safetensors",
)
def publish(
    results: Annotated[
        Path,
        typer.Argument(metavar="RESULTS", help="The folder that rindices fit wrote."),
    ],
    out: NewModel,
    as_json: Json = False,
) -> None:
    """Write a model for passing on, which says little about who took part; the table of
    the study is read again.
    """
    import numpy as np

    from rindices.cli.options import load_study
    from rindices.exchange.publish import explain_unpublishable, publish_model
    from rindices.model.fitted import load
    from rindices.study.preflight import read_reference
    from rindices.study.study import Study, StudyPeople

    path, study_file = _find_study(results, out)
    model = load(path)
    if reason := explain_unpublishable(model):
        raise ModelError(reason)
    config, folder = load_study([study_file], {}, {}, {})
    cohort, _, config = read_study_table(config, folder)
    if cohort.fingerprint() != model.card.fingerprint:
        raise ModelError(
            f"the table of {study_file} has changed since the model was fitted: fit again."
        )
    reference = model.card.reference
    study = Study(cohort, config, read_reference(config.data, folder))
    people = StudyPeople(study, config.model)
    if people.seen is None or len(model.pipelines) != len(model.heads):
        raise ModelError(
            "models that were fitted in parts or at hospitals cannot be published: keep the file to yourself."
        )
    means = np.array([pipeline.standardiser.mean for pipeline in people.pipelines])
    numbers = [
        int(np.abs(means - each.standardiser.mean).sum(axis=1).argmin())
        for each in model.pipelines
    ]
    is_used = reference is not None and reference.weight >= MIN_REFERENCE_WEIGHT
    published = publish_model(
        model, people.cohort, people.seen[numbers], study.reference if is_used else None
    )
    published.save(out)
    assert published.card.membership is not None
    facts = {
        "out": str(out),
        "membership_auc": published.card.membership.auc,
        "reference": is_used,
    }
    print_result(
        as_json, facts, f"{out}: {_describe_privacy(published.card)}", err=True
    )


def _check_new_model(out: Path, source: Path | None = None) -> None:
    """Refuse a path at which no model can be written, or that is its source."""
    if (
        out.suffix != ".safetensors"
        or (source is not None and out.resolve() == source.resolve())
        or not out.absolute().parent.is_dir()
    ):
        raise typer.BadParameter(
            "give a new .safetensors file in an existing folder", param_hint="--out"
        )


def _make_json(model: "FittedModel") -> dict[str, object]:
    """Return what ``show --json`` prints: what the model needs, then its card in the
    order of the file.
    """
    from rindices.model.file import SCHEMA_VERSION
    from rindices.model.scale import describe_scale

    card = json.loads(json.dumps(model.card.to_dict(), sort_keys=True))
    return {
        "schema": SCHEMA_VERSION,
        "n_patterns": model.n_patterns,
        "regions": list(model.regions),
        "intervals": _describe_intervals(model),
        "outlier_score": _describe_unusual(model),
        "scale": describe_scale(model),
        "sums": dict(model.sums),
        "units": card.pop("unit"),
        "covariates": model.preprocessing.residualiser.to_dict(),
        "harmonise": model.preprocessing.to_dict().get("harmonise"),
        **card,
    }


def _list_facts(model: "FittedModel") -> list[tuple[str, str]]:
    """Return what ``show`` prints; facts without a value are not printed."""
    return [
        *_list_inputs(model),
        *_list_evidence(model),
        *_list_origin(model.card),
    ]


def _list_inputs(model: "FittedModel") -> list[tuple[str, str]]:
    """Return what a model computes, from what, and on whom it was trained."""
    from rindices.model.scale import describe_scale
    from rindices.report.sections import StudyFacts, load_statements

    card, facts, sums = model.card, StudyFacts.of_model(model), ""
    say = load_statements(card.unit)
    unit = "" if card.unit == FEATURE_UNIT else f" in {card.unit}"
    regions = f"{len(model.regions)}{unit}: {join_names(model.regions)}"
    if model.sums:
        sums = (
            f"{len(model.sums)} of the regions are sums of columns, computed by apply"
        )
    codings = model.preprocessing.residualiser.to_dict()
    covariates = ", ".join(map(_describe_covariate, codings))
    return [
        ("patterns", str(model.n_patterns)),
        ("scale", describe_scale(model)),
        (get_nouns(card.unit).regions, regions),
        ("sums", sums),
        ("covariates", covariates or "none"),
        ("sites", _describe_sites(model)),
        ("adjusted for", say.adjustment(facts.adjustment)),
        ("trained on", say.people(facts)),
    ]


def _describe_sites(model: "FittedModel") -> str:
    """Return the sites whose effects are removed, and from whom they were estimated."""
    harmoniser = model.preprocessing.harmoniser
    if harmoniser is None:
        return ""
    unnamed = "known at the hospitals of the study alone"
    names = join_names(harmoniser.sites) or unnamed
    scale = (
        ""
        if harmoniser.reference is None
        else f", on the scale of {harmoniser.reference}"
    )
    return f"{names}, their effects estimated from {harmoniser.mode}{scale}"


def _list_evidence(model: "FittedModel") -> list[tuple[str, str]]:
    """Return how certain R-indices are, and what is known of each pattern."""
    from rindices.model.pattern_tables import get_shape
    from rindices.report.sections import StudyFacts, load_statements

    card, facts = model.card, StudyFacts.of_model(model)
    say, test, agreement = load_statements(card.unit), "", ""
    concordance = None if card.agreement is None else card.agreement.concordance
    if concordance is not None and card.agreement_between != "disjoint halves":
        agreement = f"{concordance:.3f} (c-index, members)"
    if card.number_of_patterns is not None:
        number = format_count(card.number_of_patterns.by_test, "pattern")
        test = f"{number} beyond chance"
    centiles = ""
    if card.healthy is not None and model.centiles is not None:
        centiles = f"among {card.healthy.text}, by age and sex"
    unmeasured = "none: the error of this model was not measured"
    signs = [each.artefact for each in facts.patterns if each.artefact]
    shape = get_shape(model)
    patterns = [
        (
            pattern.name,
            f"{say.regions(pattern)}. {capitalise_first(say.reproduction(pattern))}; {say.separation(pattern)}",
        )
        for pattern in facts.patterns
    ]
    return [
        ("intervals", _describe_intervals(model) or unmeasured),
        ("outlier_score", _describe_unusual(model)),
        ("centiles", centiles),
        ("agreement", agreement),
        ("test", test),
        ("looks like an artefact", " ".join(dict.fromkeys(signs))),
        ("shape", say.shape_words(shape) if shape else ""),
        *patterns,
    ]


def _list_origin(card: "ModelCard") -> list[tuple[str, str]]:
    """Return how and by what a model was made, and how it may be used."""
    return [
        ("method", _describe_method(card)),
        ("reference", describe_reference(card.reference)),
        ("privacy", _describe_privacy(card)),
        ("made by", f"rindices {card.rindices_version}"),
        ("licence", card.licence),
        ("cite", card.citation),
    ]


def _describe_intervals(model: "FittedModel") -> str | None:
    """Return how intervals were calibrated; None where there are none."""
    if model.intervals is None:
        return None
    if model.card.healthy is not None and not model.card.trained_on:
        return f"90 %, from simulated severities on {model.card.healthy.text}; the training people are not known"
    return "90 %, from simulated truth on the training controls and the spread among members"


def _describe_unusual(model: "FittedModel") -> str:
    """Return what new people are compared with."""
    if (
        model.has_distances
        and model.card.healthy is not None
        and not model.card.trained_on
    ):
        return f"{get_nouns(model.card.unit).regions} and covariates, against {model.card.healthy.text}, not the training people"
    if model.has_distances:
        return f"{get_nouns(model.card.unit).regions} and covariates, against the training people"
    return "ranges of covariates alone: nothing else is known of the training people"


def _describe_privacy(card: "ModelCard") -> str:
    """Return how well the file tells who took part; empty for imported models, of whose
    people nothing is known.
    """
    if card.membership is not None:
        return f"for passing on; it tells who took part with an AUC of about {card.membership.auc:.2f} (0.5 is chance)"
    if not card.fingerprint:
        return ""
    cure = (
        "; rindices model publish writes one to pass on"
        if card.can_be_published
        else ""
    )
    return f"for its owner: it tells who took part{cure}"


def _describe_method(card: "ModelCard") -> str:
    method = card.method
    if method is not None and method.name == "published":
        package, epoch = (
            method.settings.get(name, "unknown") for name in ("package", "epoch")
        )
        return f"imported from {package}, epoch {f'{epoch:,}' if isinstance(epoch, int) else epoch}"
    return f"{method and method.name}, seed {card.seed}"


def _describe_covariate(coding: dict[str, Any]) -> str:
    if coding["kind"] == "numeric":
        curve = ", as a spline" if coding.get("knots") else ""
        return f"{coding['name']} ({coding['low']:g} to {coding['high']:g}{curve})"
    return f"{coding['name']} ({join_names(coding['levels'])})"
