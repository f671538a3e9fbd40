"""``rindices replicate``: whether the patterns of one study are found in another."""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rindices.cli.console import make_folder, print_problems
from rindices.cli.options import Json
from rindices.cli.statistics import write_results
from rindices.errors import (
    AnalysisError,
    Findings,
    ProblemCode,
    RindicesError,
    explain_write_errors,
    format_count,
    join_names,
)

if TYPE_CHECKING:
    import pandas as pd

    from rindices._typing import FloatArray
    from rindices.analysis.replicate import Regions
    from rindices.model.fitted import FittedModel
    from rindices.tables.cohort import Cohort

EXAMPLES = {"replicate": "results other_cohort/model.safetensors --out results"}


@dataclass(frozen=True, eq=False, kw_only=True)
class _Source:
    """A model with the people of its study, where they are given, or a map of effects.

    Attributes
    ----------
    name : str
        Name of the study or of the map.
    regions : tuple of str
        Names of the regions.
    patterns : ndarray of shape (M, R)
        Patterns of the model, or the map.
    model : FittedModel or None
        None for a map.
    cohort : Cohort or None
        People of the study.
    indices : DataFrame or None
        Cross-fitted R-indices of these people.
    """

    name: str
    regions: tuple[str, ...]
    patterns: "FloatArray"
    model: "FittedModel | None" = None
    cohort: "Cohort | None" = None
    indices: "pd.DataFrame | None" = None

    @cached_property
    def parts(self) -> "list[Regions]":
        """The regions that each of the R is the sum of."""
        sums = {} if self.model is None else self.model.sums
        return [tuple(sums.get(region, (region,))) for region in self.regions]


def _tabulate_patterns(
    source: "_Source", places: Mapping[str, str]
) -> dict[tuple[str, ...], "FloatArray"]:
    """Return the pattern values of a source by place of its regions."""
    keys = (tuple(sorted(places[part] for part in parts)) for parts in source.parts)
    return dict(zip(keys, source.patterns.T, strict=True))


def _compare_people(
    sources: tuple["_Source", "_Source"], pairs: "pd.DataFrame"
) -> "pd.DataFrame | None":
    """Compare the R-indices of the people of each study by its own model and by the
    other one; None where neither has people.
    """
    import pandas as pd

    from rindices.analysis import replicate as analysis

    compared = []
    for study, (own, other) in enumerate((sources, sources[::-1]), start=1):
        applied = _apply_to_people(own, other)
        if applied is not None and own.indices is not None:
            named = pairs.to_numpy()[:, :: 3 - 2 * study].tolist()
            compared.append(
                analysis.compare_people(own.indices, applied, named).assign(study=study)
            )
    if not compared:
        return None
    return pd.concat(compared)[list(analysis.PEOPLE_COLUMN_DESCRIPTIONS)]


def replicate(
    first: Annotated[
        Path,
        typer.Argument(
            metavar="A", help="Folder of a study, model file, or map: region, effect."
        ),
    ],
    second: Annotated[
        Path, typer.Argument(metavar="B", help="What it is compared with.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for tables, text and figure; that of A for its report."
        ),
    ],
    seed: Annotated[int, typer.Option(min=0, help="Of the random maps.")] = 0,
    as_json: Json = False,
) -> None:
    """Compare the patterns of two studies over regions, and their R-indices in each
    other's people.

    Correlations are compared with those of random maps that are smooth, as patterns of
    the brain are.
    """
    from rindices import plot
    from rindices.analysis import replicate as analysis
    from rindices.analysis.tidy import write_table
    from rindices.atomic import write_atomically
    from rindices.plot import files

    make_folder(out)
    sources = (_read_source(first), _read_source(second))
    has_common_people = _warn_of_common_people(sources)
    places = _locate_regions(
        [[part for parts in each.parts for part in parts] for each in sources]
    )
    tables = [_tabulate_patterns(each, places) for each in sources]
    regions, first_patterns, second_patterns = analysis.align_regions(*tables)
    sizes = _warn_of_other_atlas(sources, len(regions))
    structures = [tuple(part.partition(" ")[2] for part in each) for each in regions]
    correlation = _find_correlation(sources, places, regions)
    result = analysis.replicate_patterns(
        first_patterns, second_patterns, correlation, structures, seed
    )
    pairs = result.table.dropna(subset="p")[["first", "second"]]
    people = _compare_people(sources, pairs)
    names = (sources[0].name, sources[1].name)
    text = analysis.describe_replication(
        result, names, people, has_common_people, sizes
    )
    settings = {
        "first": names[0],
        "second": names[1],
        "seed": seed,
        "chance": result.chance,
        "text": text,
    }
    with explain_write_errors(f"to {out}"):
        files.write_png(
            out / "replication.png", lambda: plot.replication(result, names)
        )
        write_atomically(out / "replication.txt", f"{text}\n".encode())
    write_table(people, out / "replication_people.tsv", settings)
    write_results(result.table, out / "replication.tsv", settings, as_json, text)


def _read_source(path: Path) -> _Source:
    """Read the folder of a study, a model file, or a table with the columns region and
    effect.
    """
    from rindices.analysis.study_results import read_index_file
    from rindices.model.fitted import load
    from rindices.tables.sources.frames import read_frame

    if path.suffix in (".csv", ".tsv"):
        table = read_frame(path, ["region"], Findings())
        if (
            not {"region", "effect"} <= set(table)
            or table["effect"].dtype.kind not in "fi"
        ):
            raise AnalysisError(
                f"{path} needs the columns region and effect, a number; it has {join_names(table)}."
            )
        table = table.dropna(subset="effect")
        return _Source(
            name=path.stem,
            regions=tuple(table["region"]),
            patterns=table[["effect"]].to_numpy(dtype=float).T,
        )
    if (path / "selection.json").is_file() and not (
        path / "model.safetensors"
    ).is_file():
        raise AnalysisError(
            f"the study in {path} ended without a model, so it has no pattern: compare another one."
        )
    model = load(path / "model.safetensors" if path.is_dir() else path)
    folder = path if path.is_dir() else path.parent
    name = (
        folder.absolute().name if path.is_dir() or path.stem == "model" else path.stem
    )
    source = _Source(
        name=name, regions=model.regions, patterns=model.patterns[-1], model=model
    )
    if not (
        path / "r_indices.tsv"
    ).is_file():  # of a model file, or of hospitals, whose people are not here
        return source
    return replace(source, cohort=_read_people(path), indices=read_index_file(path))


def _read_people(folder: Path) -> "Cohort | None":
    """Return the people of a study; None, with a note, if its tables are
    not at hand.
    """
    from rindices.cli.fit import read_study_table
    from rindices.study.config import read_study

    try:
        return read_study_table(read_study(folder / "study.toml"), folder)[0]
    except RindicesError as error:
        _note(f"the people of {folder.name} are not at hand", error)
        return None


def _note(what: str, error: RindicesError) -> None:
    findings = Findings()
    findings.note(ProblemCode.MISSING_OUTPUTS, f"{what}: {str(error).rstrip('.')}")
    print_problems(findings)


def _warn_of_common_people(sources: tuple[_Source, _Source]) -> bool:
    """Warn of ids that two studies have in common, and return whether there are any."""
    ids = [
        set() if each.indices is None else set(each.indices["participant_id"])
        for each in sources
    ]
    findings = Findings()
    if both := sorted(ids[0] & ids[1]):
        what = f"{format_count(len(both), 'id is', 'ids are')} in both studies, which may share people"
        cure = "People whom both models have seen say nothing about replication"
        findings.warn(ProblemCode.TRAINING_PEOPLE, what, cure, offenders=both)
    print_problems(findings)
    return bool(both)


def _warn_of_other_atlas(
    sources: tuple[_Source, _Source], n_common: int
) -> tuple[int, int] | None:
    """Warn of two studies that have few regions in common, and return their numbers of
    regions; None otherwise.
    """
    sizes = (len(sources[0].regions), len(sources[1].regions))
    if 2 * n_common >= min(sizes):
        return None
    findings, both = Findings(), f"{sources[0].name} and {sources[1].name}"
    what = f"{both} have {n_common} regions in common, of {sizes[0]} and {sizes[1]}: their atlases or measures differ"
    cure = "Only the common regions are compared; to compare all, fit both studies with tables of the same atlas"
    findings.warn(ProblemCode.UNKNOWN_REGION, what, cure)
    print_problems(findings)
    return sizes


def _locate_regions(tables: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return side and structure of each region, the same in all layouts of an atlas;
    with its measure, if needed.
    """
    from rindices.tables.layouts import freesurfer, muse
    from rindices.tables.layouts.region_names import parse_region_name

    places = {}
    for region in {region for table in tables for region in table}:
        found = muse.single_regions().get(
            muse.parse_muse_codes([region]).get(region, -1)
        )
        side, structure = (
            (found.side, re.sub("_[LR]$", "", found.label))
            if found
            else parse_region_name(region)
        )
        places[region] = f"{side} {structure}"
    if any(len({places[region] for region in table}) < len(table) for table in tables):
        places = {
            region: f"{place} {freesurfer.infer_measure(region)}"
            for region, place in places.items()
        }
    return places


def _find_correlation(
    sources: tuple[_Source, _Source], places: dict[str, str], regions: "list[Regions]"
) -> "FloatArray":
    """Return correlations of regions in controls at hand, else in the package's healthy
    people or training people.
    """
    import numpy as np
    import pandas as pd

    from rindices.model.normal_reference import load_muse_reference

    models = [(each.model, each.cohort) for each in sources if each.model is not None]
    found = [
        (
            model.regions,
            pd.DataFrame(model.preprocessing.transform(cohort.take(cohort.is_control)))
            .corr()
            .to_numpy(),
        )
        for model, cohort in models
        if cohort is not None
    ]
    healthy = load_muse_reference()
    found.append((healthy.regions, healthy.correlation))
    places = _locate_regions([healthy.regions]) | places
    found += [
        (model.regions, model.training.covariance)
        for model, _ in models
        if model.training is not None
    ]
    for names, matrix in found:
        position = {places.get(name): k for k, name in enumerate(names)}
        if all(part in position for each in regions for part in each):
            mean = np.zeros((len(regions), len(names)))
            for row, each in zip(mean, regions, strict=True):
                row[[position[part] for part in each]] = 1 / len(each)
            sd = np.sqrt(np.diag(matrix))
            return np.asarray(mean @ np.nan_to_num(matrix / np.outer(sd, sd)) @ mean.T)
    cure = "give the folder of a study whose tables are at hand as A or B"
    raise AnalysisError(
        f"nothing says how these regions vary in healthy people: {cure}."
    )


def _apply_to_people(own: _Source, other: _Source) -> "pd.DataFrame | None":
    """Return the R-indices of a study's people by the model of the other; None, with a
    note, if it does not apply.
    """
    from rindices.tables.cohort import SITE

    if own.cohort is None or other.model is None:
        return None
    try:
        is_harmonised = (
            other.model.preprocessing.harmoniser is not None
            and SITE in own.cohort.people
        )
        model = other.model.with_sites(own.cohort) if is_harmonised else other.model
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            applied = model.apply(own.cohort)
        for each in caught:
            typer.echo(f"warning: {each.message}", err=True)
        return applied
    except RindicesError as error:
        _note(
            f"the model of {other.name} was not applied to the people of {own.name}",
            error,
        )
        return None
