"""Import checkpoints of SurrealGAN 0.1.1, the published ones among them.

Shape letters: R regions, M patterns, C covariates, Q severities.
"""

import hashlib
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rindices._typing import AnyArray, FloatArray
from rindices._version import __version__
from rindices.array_checks import find_array_fault
from rindices.errors import ModelError, did_you_mean, make_damage_error
from rindices.exchange.healthy import add_shipped_healthy_people
from rindices.learners.gan.recipe import require_torch
from rindices.learners.inference import SEVERITY_LEVELS, SurrealHead, leaky_relu
from rindices.model.fitted import CITATION, FittedModel
from rindices.model.records import MethodRecord, ModelCard
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.residualise import (
    CategoricalCovariate,
    CovariateCoding,
    NumericCovariate,
    Residualiser,
)
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD, Standardiser
from rindices.tables.layouts.muse import paper_codes, region_name

if TYPE_CHECKING:
    from rindices.learners.gan.upstream_checkpoint import UpstreamCheckpoint


_UNPAIRED_CODES = (35, 71, 72, 73, 95)
PUBLISHED_MODELS: dict[str, dict[str, Any]] = tomllib.loads(
    files("rindices.exchange").joinpath("published.toml").read_text("utf-8")
)
"""Facts about published checkpoints that the files do not contain."""


def list_published_regions() -> tuple[str, ...]:
    """Return the 72 regions of the published models: five single ones, then sums of
    consecutive pairs.
    """
    rest = [code for code in paper_codes() if code not in _UNPAIRED_CODES]
    pairs = zip(rest[::2], rest[1::2], strict=True)
    return (
        *map(region_name, _UNPAIRED_CODES),
        *("+".join(map(region_name, pair)) for pair in pairs),
    )


def import_published(
    path: Path, name: str, with_healthy_people: bool = True
) -> FittedModel:
    """Import one of `PUBLISHED_MODELS`; a file with other numbers is refused.

    Its training people are not known, so it gets the healthy people that come with the
    package, unless ``with_healthy_people`` is False.
    """
    if name not in PUBLISHED_MODELS:
        raise ModelError(
            f"no published model is called '{name}': {did_you_mean(name, list(PUBLISHED_MODELS))}"
        )
    published, checkpoint = PUBLISHED_MODELS[name], _read_checkpoint(path)
    digest = hash_checkpoint(checkpoint)
    if digest != published["digest"]:
        what = f"{path.name} is a checkpoint, but its numbers are not those of the published {name}"
        other = next(
            (
                each
                for each, facts in PUBLISHED_MODELS.items()
                if facts["digest"] == digest
            ),
            None,
        )
        cure = "get the file again, or import it as a model of your own with --regions"
        raise ModelError(
            f"{what}: {cure if other is None else f'they are those of {other}, so give --as {other}'}."
        )
    citation = f"{published['citation']} {CITATION}".strip()
    card = ModelCard(
        name=name, source="dlmuse", unit="mm3", licence="MIT", citation=citation
    )
    covariates, order = published["covariates"], tuple(published["order"])
    model = _build_model(
        path.name, checkpoint, list_published_regions(), covariates, order, card
    )
    return add_shipped_healthy_people(model, name) if with_healthy_people else model


def import_checkpoint(
    path: Path,
    regions: Sequence[str],
    covariates: Sequence[str] = (),
    epoch: int | None = None,
) -> FittedModel:
    """Import any checkpoint of SurrealGAN 0.1.1.

    Parameters
    ----------
    regions : sequence of str
        Columns of the training table, in order. ``MUSE_47+MUSE_48`` is the sum of
        two columns. A number is a MUSE code.
    covariates : sequence of str
        In the order of training. ``age`` is a number. ``sex=F/M`` has two
        categories that were coded 0 and 1.
    epoch : int or None
        Saved epoch to import. Needed if there are several.
    """
    checkpoint = _read_checkpoint(path, epoch)
    names = [_parse_region(text) for text in regions]
    if len(names) != checkpoint.n_regions or len(set(names)) != len(names):
        what = f"the checkpoint has {checkpoint.n_regions} regions, {len(set(names))} different ones were named"
        raise ModelError(
            f"{what}: give the columns of the table it was trained on, in order."
        )
    order = tuple(range(checkpoint.n_patterns))
    return _build_model(
        path.name,
        checkpoint,
        names,
        covariates,
        order,
        ModelCard(source="table", citation=CITATION),
    )


def _read_checkpoint(path: Path, epoch: int | None = None) -> "UpstreamCheckpoint":
    require_torch("the import of a checkpoint", ModelError)
    from rindices.learners.gan.upstream_checkpoint import read_upstream_checkpoint

    return read_upstream_checkpoint(path, epoch)


def read_region_list(path: Path) -> list[str]:
    """Return the regions in a text file, one per line or separated by commas."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        cure = "give a text file with one region per line"
        raise ModelError(
            f"{path} cannot be read as a list of regions: {cure}."
        ) from error
    return [
        word.strip()
        for line in text.splitlines()
        for word in line.split(",")
        if word.strip()
    ]


def hash_checkpoint(checkpoint: "UpstreamCheckpoint") -> str:
    """Return a hash of the arrays that inference uses."""
    digest = hashlib.sha256(
        repr((checkpoint.n_regions, checkpoint.n_patterns)).encode()
    )
    for array in (
        checkpoint.mean,
        checkpoint.sd,
        checkpoint.low,
        checkpoint.high,
        checkpoint.beta,
    ):
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    for net in (checkpoint.g1, checkpoint.g2, checkpoint.f):
        for name in sorted(net):
            digest.update(np.ascontiguousarray(net[name], dtype="<f4").tobytes())
    return digest.hexdigest()


def _parse_covariates(
    checkpoint: "UpstreamCheckpoint", covariates: Sequence[str]
) -> tuple[CovariateCoding, ...]:
    """Return the covariates of a checkpoint, as they were named."""
    if len(covariates) != len(checkpoint.low):
        what = f"the checkpoint was corrected for {len(checkpoint.low)} covariates, {len(covariates)} were named"
        raise ModelError(
            f"{what}: give them in the order of training, e.g. --covariates sex=F/M,age."
        )
    codings = tuple(map(_parse_covariate, covariates, checkpoint.low, checkpoint.high))
    if len({coding.name for coding in codings}) != len(codings):
        raise ModelError(
            "a covariate is named twice: give each of --covariates a name of its own."
        )
    return codings


def _build_model(
    file: str,
    checkpoint: "UpstreamCheckpoint",
    regions: Sequence[str],
    covariates: Sequence[str],
    order: tuple[int, ...],
    card: ModelCard,
) -> FittedModel:
    codings = _parse_covariates(checkpoint, covariates)
    with np.errstate(over="ignore", invalid="ignore"):  # such numbers are refused below
        coefficients = checkpoint.beta / (checkpoint.high - checkpoint.low)[:, None]
        patterns = _compute_pattern_changes(checkpoint)[:, list(order)]
    residualiser = Residualiser(
        codings=codings, centre=checkpoint.low, coefficients=coefficients
    )
    preprocessing = Preprocessing(
        regions=tuple(regions),
        residualiser=residualiser,
        standardiser=Standardiser(checkpoint.mean, checkpoint.sd),
    )
    for name, array in {**preprocessing.to_arrays(), "patterns": patterns}.items():
        if fault := find_array_fault(name, array):
            raise make_damage_error(file, f"{name} of its model {fault}", name)
    correlation = (
        None
        if checkpoint.correlation is None
        else checkpoint.correlation[np.ix_(order, order)].tolist()
    )
    card = card.model_copy(
        update={
            "method": MethodRecord(
                name="published",
                settings={"package": "SurrealGAN 0.1.1", "epoch": checkpoint.epoch},
            ),
            "severity_correlation": correlation,
            "rindices_version": __version__,
        }
    )
    sums = {region: tuple(region.split("+")) for region in regions if "+" in region}
    return FittedModel(
        preprocessing=preprocessing,
        heads=(_build_head(checkpoint),),
        orders=(order,),
        patterns=patterns,
        training=None,
        card=card,
        sums=sums,
    )


def _build_head(checkpoint: "UpstreamCheckpoint") -> SurrealHead:
    """Return the head of a checkpoint; upstream layers are (outputs, inputs), those of
    a head (inputs, outputs).
    """
    g1 = np.concatenate(
        [checkpoint.g1["model.1.weight"].T, checkpoint.g1["model.1.bias"][None]]
    )
    layers: dict[str, AnyArray] = {}
    for number, layer in enumerate(("model.0", "model.2", "model.4"), start=1):
        layers[f"g2_weight{number}"] = checkpoint.g2[f"{layer}.weight"].T
        layers[f"g2_bias{number}"] = checkpoint.g2[f"{layer}.bias"][None]
    return SurrealHead(g1=g1, **layers)


def _compute_pattern_changes(checkpoint: "UpstreamCheckpoint") -> FloatArray:
    """Return the change of the average control under each single pattern, (Q, M, R), in
    control standard deviations.
    """
    f = {name: array.astype(np.float64) for name, array in checkpoint.f.items()}
    average_control = np.full(checkpoint.n_regions, CONTROL_MEAN)
    code = leaky_relu(
        f["model.2.weight"] @ leaky_relu(f["model.0.weight"] @ average_control)
    )
    severities = np.multiply.outer(SEVERITY_LEVELS, np.eye(checkpoint.n_patterns))
    gate = 1.0 / (
        1.0
        + np.exp(
            -(
                severities @ f["model.4.add_noise.0.weight"].T
                + f["model.4.add_noise.0.bias"]
            )
        )
    )
    change = leaky_relu(
        leaky_relu((code * gate) @ f["model.5.weight"].T) @ f["model.7.weight"].T
    )
    return np.asarray(change / CONTROL_SD)


def _parse_covariate(text: str, low: float, high: float) -> CovariateCoding:
    name, _, labels = text.partition("=")
    if not name.strip() or not text.isprintable():
        raise ModelError(
            f"{text!r:.50} is not a covariate: give a name, e.g. age, or sex=F/M."
        )
    if not labels:
        return NumericCovariate(name=name, low=float(low), high=float(high))
    levels = tuple(labels.split("/"))
    if (
        len(set(levels)) != 2
        or not all(levels)
        or len(levels) != 2
        or (low, high) != (0.0, 1.0)
    ):
        what = f"two categories coded 0 and 1 are written {name}=A/B"
        raise ModelError(
            f"{text}: {what}; the checkpoint has {name} from {low:g} to {high:g}."
        )
    return CategoricalCovariate(name, levels)


def _parse_region(text: str) -> str:
    """Return the name of a region or sum of regions; numbers are MUSE codes."""
    parts = [part.strip() for part in text.split("+")]
    if not all(part and part.isprintable() for part in parts):
        raise ModelError(
            f"{text!r:.50} is not a region: give a name, or names joined by +, e.g. 47+48."
        )
    return "+".join(
        region_name(int(part)) if part.isdecimal() else part for part in parts
    )
