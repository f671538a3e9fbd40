"""What a site keeps outside its start kit: one file of what it answered, its own log,
and the model of the study.

The file has digests of the people and of the plan of the study that the site takes part
in, and a digest of each round that it answered. Other people, or another plan, are
refused until the person responsible for the site allows them, because sums over people
who differ a little tell about those who differ.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rindices_nvflare.core import LocalPeople, write_json
from rindices_nvflare.wire import Code, SiteError, write_message

MAX_ROUNDS = 500
"""Rounds that a site answers about its people, over all studies."""
_FILE, _LOG = "answered.json", "log.txt"


def digest_people(site: LocalPeople) -> str:
    """Return a digest of all values of the people of a site."""
    cohort = site.cohort
    digest = hashlib.sha256("\t".join(cohort.regions).encode())
    for table in (cohort.people, cohort.covariates, cohort.volumes):
        digest.update(table.to_csv(index=False, float_format="%.17g").encode())
    return digest.hexdigest()


class Register:
    """The file of what a site answered.

    Parameters
    ----------
    folder : Path
        The site's folder for own files.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._values: dict[str, Any] = {
            "people": "",
            "plan": "",
            "rounds": {},
            "count": 0,
            "allowed": True,
        }
        if self._path.exists():
            self._values = json.loads(self._path.read_text("utf-8"))

    def begin(self, people: str, plan: Mapping[str, Any]) -> None:
        """Bind people and plan at the first job; refuse others later.

        Raises SiteError: if the people or the plan are not those of the job before.
        """
        own = {
            "people": people,
            "plan": hashlib.sha256(write_message(plan)).hexdigest(),
        }
        if self._values["allowed"]:
            self._values |= {**own, "rounds": {}, "allowed": False}
        if self._values["people"] != own["people"]:
            raise SiteError(Code.OTHER_PEOPLE)
        if self._values["plan"] != own["plan"]:
            raise SiteError(Code.OTHER_PLAN)
        self._write()

    def count(self, number: int, digest: str) -> None:
        """Write down a round before its answer leaves; refuse another question under
        the number of an earlier one.
        """
        if self._values["count"] >= MAX_ROUNDS:
            raise SiteError(Code.TOO_MANY_ROUNDS, self._values["count"])
        if self._values["rounds"].setdefault(str(number), digest) != digest:
            raise SiteError(Code.OTHER_ROUND, number)
        self._values["count"] += 1
        self._write()

    def allow(self) -> None:
        """Let the next job have other people or another plan; called by the person
        responsible for the site.
        """
        self._values["allowed"] = True
        self._write()

    def _write(self) -> None:
        write_json(self._path, self._values)


def write_log(folder: Path, text: str) -> None:
    """Add a line or a traceback to the site's own log."""
    with (folder / _LOG).open("a", encoding="utf-8") as log:
        log.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {text.rstrip()}\n")
