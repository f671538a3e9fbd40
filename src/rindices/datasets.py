"""Public tables of real people, downloaded once and compared with their SHA-256.

Files are kept in the folder that the environment variable ``RINDICES_DATA`` names, or
in ``~/.cache/rindices``.
"""

import os
import sys
import tomllib
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import pandas as pd

from rindices.atomic import write_atomically
from rindices.errors import TableError
from rindices.tables.cohort import Cohort
from rindices.tables.readers import read_cohort

_SECONDS = 60  # after which a server that does not answer is given up
SOURCES = tomllib.loads((files("rindices") / "datasets.toml").read_text("utf-8"))
"""Files, licence and citation of each table."""


def fetch_csf() -> Cohort:
    """Return 333 people with 124 proteins of the cerebrospinal fluid: 242 controls, 91
    with impaired cognition.

    Sex and age are covariates; tau, p-tau and amyloid are left out, as a truth from
    outside.

    Returns
    -------
    Cohort
        The people.
    """
    table = pd.read_csv(_fetch("csf") / "ad_data.csv").rename(
        columns={"rownames": "participant_id"}
    )
    table = table.drop(columns=["tau", "p_tau", "Ab_42", "Genotype"])
    return read_cohort(
        table,
        group="Class",
        controls="Control",
        patients="Impaired",
        covariates=["male", "age"],
        measure="any",
        missing_codes="none",
    )


def fetch_abide() -> Cohort:
    """Return 1,027 people of ABIDE I with 89 volumes by FreeSurfer: 528 controls, 499
    with autism, 20 sites.

    Returns
    -------
    Cohort
        The people.
    """
    folder = _fetch("abide")
    return read_cohort(
        [
            folder / name
            for name in (
                "aseg_table.tsv",
                "lh.aparc_table_volume.tsv",
                "rh.aparc_table_volume.tsv",
            )
        ],
        folder / "phenotypes.csv",
        participants_id="FILE_ID",
        group="DX_GROUP",
        controls="2",
        patients="1",
        covariates=[
            "AGE_AT_SCAN",
            "SEX",
            "SupraTentorialVol",
        ],  # the intracranial volume is faulty
        site="SITE_ID",
        on_missing="drop",
    )


def fetch_ixi() -> Cohort:
    """Return healthy people with 139 volumes by MUSE: those under 55 as controls, those
    of 60 and more as patients.

    Returns
    -------
    Cohort
        The people.
    """
    folder = _fetch("ixi")
    people = pd.read_csv(folder / "demographics.csv").rename(
        columns={"Age": "age", "Sex": "sex"}
    )
    people = people[(people["age"] < 55) | (people["age"] >= 60)]
    people = people.assign(group=np.where(people["age"] < 55, "young", "old"))
    return read_cohort(
        folder / "volumes.csv",
        people[["ID", "sex", "group"]],
        group="group",
        controls="young",
        patients="old",
        covariates=["sex", "icv"],
        on_missing="drop",
    )


def get_folder(name: str) -> Path:
    """Return the folder in which the files of a table are kept.

    Parameters
    ----------
    name : {'csf', 'abide', 'ixi'}
        Name of the table.

    Returns
    -------
    Path
        The folder.
    """
    return (
        Path(os.environ.get("RINDICES_DATA", Path.home() / ".cache" / "rindices"))
        / name
    )


def _fetch(name: str) -> Path:
    """Return the folder with the files of a table; those that are not there are
    downloaded.
    """
    source, folder = SOURCES[name], get_folder(name)
    for file, (url, digest) in source["files"].items():
        path = folder / file
        if not path.is_file():
            try:
                with urlopen(url, timeout=_SECONDS) as answer:
                    content = answer.read()
            except (URLError, OSError) as error:
                cure = f"download it elsewhere and put it at {path}"
                raise TableError(
                    f"{url} cannot be reached ({getattr(error, 'reason', error)}): {cure}."
                ) from error
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)
        if sha256(path.read_bytes()).hexdigest() != digest:
            raise TableError(
                f"{path} is not the expected file (another SHA-256): delete it, and fetch it again."
            )
    sys.stderr.write(
        f"{name}: licence {source['licence']}. Cite {source['citation']}\n"
    )
    return folder
