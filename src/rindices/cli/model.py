"""``rindices model``: show, import, export and publish models."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rindices.cli.console import print_result, split_option
from rindices.cli.fit import describe_reference, read_study_table
from rindices.cli.options import Json, Model, NewModel, Words
from rindices.errors import ModelError, capitalise_first, format_count, join_names
from rindices.wording import FEATURE_UNIT, get_wording

if TYPE_CHECKING:
    from rindices.model.fitted import FittedModel
    from rindices.model.records import ModelCard

MIN_REFERENCE_WEIGHT = 0.5
"""Weight of a reference in the fit, from which on its correlations are published in place of those of the study."""

app = typer.Typer(no_args_is_help=True, help="What a model needs and holds.")


@app.command("show", epilog="Example: rindices model show model.safetensors")
def show(
    path: Model,
    as_json: Json = False,
    as_card: Annotated[bool, typer.Option("--card", help="Print a model card in Markdown.")] = False,
) -> None:
    """Show what a table must have to be used with a model, and how the model was trained."""
    from rindices.model.fitted import load
    from rindices.share.card import render_model_card

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
    path: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="A checkpoint of SurrealGAN 0.1.1.")],
    out: NewModel,
    name: Annotated[
        str | None, typer.Option("--as", help="A published model: ad_2rindices or brain_aging_5rindices.")
    ] = None,
    regions: Annotated[
        Path | None,
        typer.Option(help="Any other: file of its regions in order, one per line; 47+48 is a sum of MUSE codes."),
    ] = None,
    covariates: Annotated[Words, typer.Option(help="Any other: its covariates in order, e.g. sex=F/M,age.")] = None,
    epoch: Annotated[int | None, typer.Option(help="Any other: which of its epochs, if it has several.")] = None,
    as_json: Json = False,
) -> None:
    """Convert a checkpoint of the authors' package into a model; no code in it is run."""
    from rindices.model.safetensors_io import PUBLISHED_CHECKPOINTS
    from rindices.share.importers import import_checkpoint, import_published, read_region_list

    if (name is None) == (regions is None):
        published = " or ".join(f"--as {each}" for each in PUBLISHED_CHECKPOINTS)
        raise typer.BadParameter(f"give {published} for a published model, or --regions FILE for any other")
    if out.suffix != ".safetensors" or out.resolve() == path.resolve() or not out.absolute().parent.is_dir():
        raise typer.BadParameter("give a new .safetensors file in an existing folder", param_hint="--out")
    if name is not None:
        model = import_published(path, name)
    else:
        assert regions is not None
        model = import_checkpoint(path, read_region_list(regions), split_option(covariates), epoch)
    model.save(out)
    needs = {"n_patterns": model.n_patterns, "regions": len(model.regions), "covariates": list(model.covariates)}
    covariate_names = ", ".join(model.covariates) or "no covariates"
    text = f"{model.n_patterns} R-indices from {len(model.regions)} regions and {covariate_names}: {out}"
    print_result(as_json, {"out": str(out), **needs}, text, err=True)


@app.command("export", epilog="Example: rindices model export model.safetensors --page model.html")
def export(
    path: Model,
    onnx: Annotated[Path | None, typer.Option(help="A graph to write, .onnx, for R, JavaScript and others.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="A web page to write, .html, that computes R-indices without Python.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a model as an ONNX graph, from columns to R-indices, or as a web page into which tables are dropped."""
    from rindices.model.fitted import load

    if (onnx is None) == (page is None):
        raise typer.BadParameter("give --onnx FILE.onnx or --page FILE.html")
    for out, suffix in ((onnx, ".onnx"), (page, ".html")):
        if out is not None and (out.suffix != suffix or not out.absolute().parent.is_dir()):
            hint = "--onnx" if out is onnx else "--page"
            raise typer.BadParameter(f"give an {suffix} file in an existing folder", param_hint=hint)
    if page is not None:
        from rindices.report.model_page import export_page

        export_page(load(path), page)
        result, text = {"out": str(page), "bytes": page.stat().st_size}, f"written: {page}"
    else:
        from rindices.share.onnx import export_onnx

        assert onnx is not None
        names = export_onnx(load(path), onnx)
        result = {"out": str(onnx), **names}
        text = f"{len(names['inputs'])} inputs, outputs {', '.join(names['outputs'])}: {onnx}"
    print_result(as_json, result, text, err=True)


@app.command("publish", epilog="Example: rindices model publish results --out model_to_share.safetensors")
def publish(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="The folder that rindices fit wrote.")],
    out: NewModel,
    as_json: Json = False,
) -> None:
    """Write a model for passing on, which says little about who took part; the table of the study is read again."""
    import numpy as np

    from rindices.cli.options import load_study
    from rindices.model.fitted import load
    from rindices.share.publish import explain_unpublishable, publish_model
    from rindices.study.preflight import read_reference
    from rindices.study.study import Study, StudyPeople

    path, study_file = results / "model.safetensors", results / "study.toml"
    if out.suffix != ".safetensors" or out.resolve() == path.resolve() or not out.absolute().parent.is_dir():
        raise typer.BadParameter("give a new .safetensors file in an existing folder", param_hint="--out")
    if not path.exists() or not study_file.exists():
        what = f"{results} does not have both model.safetensors and study.toml"
        raise typer.BadParameter(f"{what}: give a folder of rindices fit; models of hospitals cannot be published")
    model = load(path)
    if reason := explain_unpublishable(model):
        raise ModelError(reason)
    config, folder = load_study([study_file], {}, {}, {})
    cohort, _, config = read_study_table(config, folder)
    if cohort.fingerprint() != model.card.fingerprint:
        raise ModelError(f"the table of {study_file} has changed since the model was fitted: fit again.")
    reference = model.card.reference
    study = Study(cohort, config, read_reference(config.data, folder))
    people = StudyPeople(study, config.model)
    if people.seen is None or len(model.pipelines) != len(model.heads):
        raise ModelError(
            "models that were fitted in parts or at hospitals cannot be published: keep the file to yourself."
        )
    means = np.array([pipeline.standardiser.mean for pipeline in people.pipelines])
    numbers = [int(np.abs(means - each.standardiser.mean).sum(axis=1).argmin()) for each in model.pipelines]
    is_used = reference is not None and reference.weight >= MIN_REFERENCE_WEIGHT
    published = publish_model(model, people.cohort, people.seen[numbers], study.reference if is_used else None)
    published.save(out)
    assert published.card.membership is not None
    facts = {"out": str(out), "membership_auc": published.card.membership.auc, "reference": is_used}
    print_result(as_json, facts, f"{out}: {_describe_privacy(published.card)}", err=True)


def _make_json(model: "FittedModel") -> dict[str, object]:
    """Return what ``show --json`` prints: what the model needs, then its card in the order of the file."""
    from rindices.model.file import SCHEMA_VERSION
    from rindices.model.scale import describe_scale

    card = json.loads(json.dumps(model.card.to_dict(), sort_keys=True))
    return {
        "schema": SCHEMA_VERSION,
        "n_patterns": model.n_patterns,
        "regions": list(model.regions),
        "intervals": _describe_intervals(model),
        "unusual": _describe_unusual(model),
        "scale": describe_scale(model),
        "sums": dict(model.sums),
        "units": card.pop("unit"),
        "covariates": model.preprocessing.residualiser.to_dict(),
        "harmonise": model.preprocessing.to_dict().get("harmonise"),
        **card,
    }


def _list_facts(model: "FittedModel") -> list[tuple[str, str]]:
    """Return what ``show`` prints; facts without a value are not printed."""
    from rindices.model.pattern_tables import get_shape
    from rindices.model.scale import describe_scale
    from rindices.report.sections import StudyFacts, load_statements

    card, facts, say = model.card, StudyFacts.of_model(model), load_statements(model.card.unit)
    unit, harmoniser = "" if card.unit == FEATURE_UNIT else f" in {card.unit}", model.preprocessing.harmoniser
    names = "" if harmoniser is None else join_names(harmoniser.sites) or "known at the hospitals of the study alone"
    sites = "" if harmoniser is None else f"{names}, their effects estimated from {harmoniser.mode}"
    concordance, test = None if card.agreement is None else card.agreement.concordance, card.number_of_patterns
    is_between_members = concordance is not None and card.agreement_between != "disjoint halves"
    return [
        ("patterns", str(model.n_patterns)),
        ("scale", describe_scale(model)),
        (get_wording(card.unit)("regions"), f"{len(model.regions)}{unit}: {join_names(model.regions)}"),
        ("sums", f"{len(model.sums)} of the regions are sums of columns, computed by apply" if model.sums else ""),
        ("covariates", ", ".join(map(_describe_covariate, model.preprocessing.residualiser.to_dict())) or "none"),
        ("sites", sites),
        ("adjusted for", say.adjustment(facts.adjustment)),
        ("trained on", say.people(facts)),
        ("intervals", _describe_intervals(model) or "none: the error of this model was not measured"),
        ("unusual", _describe_unusual(model)),
        ("agreement", f"{concordance:.3f} (c-index, members)" if is_between_members else ""),
        ("test", f"{format_count(test.by_test, 'pattern')} beyond chance" if test is not None else ""),
        ("looks like an artefact", " ".join(dict.fromkeys(each.artefact for each in facts.patterns if each.artefact))),
        ("shape", say.shape_words(shape) if (shape := get_shape(model)) else ""),
        *(
            (
                pattern.name,
                f"{say.regions(pattern)}. {capitalise_first(say.reproduction(pattern))}; {say.separation(pattern)}",
            )
            for pattern in facts.patterns
        ),
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
    return "90 %, from simulated truth on the training controls and the spread among members"


def _describe_unusual(model: "FittedModel") -> str:
    """Return what new people are compared with."""
    if model.has_distances:
        return get_wording(model.card.unit)("regions and covariates, against the training people")
    return "ranges of covariates alone: nothing else is known of the training people"


def _describe_privacy(card: "ModelCard") -> str:
    """Return how well the file tells who took part; empty for imported models, of whose people nothing is known."""
    if card.membership is not None:
        return f"for passing on; it tells who took part with an AUC of about {card.membership.auc:.2f} (0.5 is chance)"
    if not card.fingerprint:
        return ""
    cure = "; rindices model publish writes one to pass on" if card.can_be_published else ""
    return f"for its owner: it tells who took part{cure}"


def _describe_method(card: "ModelCard") -> str:
    method = card.method
    if method is not None and method.name == "published":
        package, epoch = (method.settings.get(name, "unknown") for name in ("package", "epoch"))
        return f"imported from {package}, epoch {f'{epoch:,}' if isinstance(epoch, int) else epoch}"
    return f"{method and method.name}, seed {card.seed}"


def _describe_covariate(coding: dict[str, Any]) -> str:
    if coding["kind"] == "numeric":
        return f"{coding['name']} ({coding['low']:g} to {coding['high']:g})"
    return f"{coding['name']} ({join_names(coding['levels'])})"
