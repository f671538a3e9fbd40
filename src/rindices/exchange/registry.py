"""The registry of models that can be got by name: where each file is, its SHA-256, its
licence and what a table must have.

Nothing is downloaded before it is asked for, and a file with another SHA-256 is
refused.
"""

import tomllib
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from rindices.errors import ModelError, describe_os_error, did_you_mean
from rindices.exchange.importers import PUBLISHED_MODELS, import_published
from rindices.learners.gan.recipe import require_torch
from rindices.model.fitted import FittedModel, load

_SECONDS = 60  # after which a server that does not answer is given up
_MAX_BYTES = 500_000_000
_SCHEMES = ("https", "http", "file")


@checked_dataclass(frozen=True, kw_only=True)
class RegistryEntry:
    """A model that can be got by its name.

    Attributes
    ----------
    title : str
        What it is a model of.
    url : str
        Of the file: https, http or file.
    sha256 : str
        Of the file.
    format : {'checkpoint', 'model'}
        A checkpoint of SurrealGAN 0.1.1 that `import_published` knows by its name, or
        a model of rindices.
    licence : str
    n_patterns : int
        Number of R-indices.
    regions : str
        Regions that a table must have, in words.
    needs : tuple of str
        Covariates that a table must have, in words.
    citation : str
    """

    title: str
    url: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    format: Literal["checkpoint", "model"] = "model"
    licence: str
    n_patterns: int
    regions: str
    needs: tuple[str, ...] = ()
    citation: str = ""


Registry = dict[str, RegistryEntry]


@dataclass(frozen=True)
class Download:
    """A file of the registry, with the model that is in it.

    Attributes
    ----------
    model : FittedModel
    n_bytes : int
    """

    model: FittedModel
    n_bytes: int


def read_registry(path: Path | None = None) -> Registry:
    """Return the entries of a registry, by name.

    Parameters
    ----------
    path : Path, optional
        A file in the form of ``published.toml``; left out, the published models.

    Raises
    ------
    ModelError
        If the file cannot be read, or an entry lacks something.
    """
    name = "published.toml" if path is None else path.name
    try:
        source = files("rindices.exchange") / name if path is None else path
        content = tomllib.loads(source.read_text("utf-8"))
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read ({describe_os_error(error)}): check the path."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{name} is not TOML: {error}.") from error
    try:
        return TypeAdapter(Registry).validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ModelError(f"{name}: {place}: {first['msg']}.") from error


def get_model(name: str, registry: Registry) -> Download:
    """Download a model of a registry and read it.

    Raises
    ------
    ModelError
        If there is no such model, its file cannot be had, or it is another file.
    """
    if name not in registry:
        raise ModelError(
            f"no model is called '{name}': {did_you_mean(name, list(registry))}"
        )
    entry = registry[name]
    if entry.format == "checkpoint":
        if name not in PUBLISHED_MODELS:
            raise ModelError(
                f"{name} is a checkpoint that is not known: import it with rindices model import FILE --regions REGIONS."
            )
        require_torch("the import of a checkpoint", ModelError)
    content = _download(name, entry)
    digest = sha256(content).hexdigest()
    if digest != entry.sha256:
        what = f"{entry.url} has SHA-256 {digest[:12]}..., and the registry says {entry.sha256[:12]}..."
        raise ModelError(f"{what}: the file has changed or is damaged, get it again.")
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        is_checkpoint = entry.format == "checkpoint"
        model = import_published(path, name) if is_checkpoint else load(path)
    return Download(model, len(content))


def _download(name: str, entry: RegistryEntry) -> bytes:
    """Return the content of the file of an entry."""
    scheme = urlsplit(entry.url).scheme
    if scheme not in _SCHEMES:
        raise ModelError(
            f"{entry.url} is not an address of a file: give one that begins with https, http or file."
        )
    try:
        with urlopen(entry.url, timeout=_SECONDS) as answer:
            content: bytes = answer.read(_MAX_BYTES + 1)
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        cure = f"download it elsewhere, then rindices model import FILE --as {name} --out {name}.safetensors"
        cure = cure if entry.format == "checkpoint" else "download it elsewhere"
        raise ModelError(
            f"{entry.url} cannot be reached ({reason}): {cure}."
        ) from error
    if len(content) > _MAX_BYTES:
        raise ModelError(
            f"{entry.url} has more than {_MAX_BYTES:,} bytes: no model has."
        )
    return content
