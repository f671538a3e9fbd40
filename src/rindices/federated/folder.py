"""A folder as transport: the centre puts requests there and collects answers, sites do the reverse.

Any folder that both sides see will do: a network drive, a synchronised folder, or one that a person carries. A message
is a safetensors file; a small JSON file beside it, written last, has its digest and signatures. So a file is complete
where its JSON is there, both sides can be killed at any time, and running the same command again goes on.

``requests/RUN/0007.*``       requests of the centre
``answers/RUN/SITE/0007.*``   answers of the sites
``sites/SITE.json``           sites that take part
``run.json``                  the run that is under way, and whether it is over
"""

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rindices.atomic import write_atomically, write_json
from rindices.errors import StudyError, join_names
from rindices.federated.exceptions import ExchangeError, RefusedError, WaitingError
from rindices.federated.messages import (
    MAX_MESSAGE_BYTES,
    Answer,
    Request,
    compute_message_digest,
    is_signed,
    sign_message,
)

POLL_SECONDS = 0.5
"""Default time between two looks at the folder."""
MAX_REJECTED = 5
"""Answers of one site in one round that may be rejected before the centre stops."""
_SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_MAX_HEADER_BYTES = 100_000
RUNNING, DONE = "running", "done"


def check_site_name(name: str) -> str:
    """Return a name that is safe in a path.

    Raises
    ------
    StudyError
        If it is not.
    """
    if not _SITE_NAME.fullmatch(name):
        raise StudyError(f"{name[:60]!r} is no name for a site: use up to 40 letters, digits, dots and dashes.")
    return name


def make_run_name(values: Mapping[str, Any]) -> str:
    """Return a name that changes with the settings and the sites of a study."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class MessageFile:
    """A message in the folder: the file and the JSON beside it."""

    folder: Path
    number: int

    @property
    def content_path(self) -> Path:
        """Path of the message."""
        return self.folder / f"{self.number:04d}.safetensors"

    @property
    def header_path(self) -> Path:
        """Path of the JSON, which is written last."""
        return self.folder / f"{self.number:04d}.json"

    def write(self, content: bytes, header: Mapping[str, Any]) -> None:
        """Write a message."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.content_path, content)
        write_json(self.header_path, {**header, "digest": compute_message_digest(content), "bytes": len(content)})

    def read_header(self) -> dict[str, Any] | None:
        """Return the JSON; None if the message is not there (yet)."""
        return _read_json(self.header_path)

    def read_content(self, header: Mapping[str, Any]) -> bytes:
        """Return the message.

        Raises
        ------
        ExchangeError
            If it is missing, truncated or damaged.
        """
        name = "/".join(self.content_path.parts[-2:])
        try:
            size = self.content_path.stat().st_size
            content = self.content_path.read_bytes() if size <= MAX_MESSAGE_BYTES else b""
        except OSError as error:
            raise ExchangeError(f"{name} is missing.") from error
        if size > MAX_MESSAGE_BYTES:
            raise ExchangeError(f"{name} has {size:,} bytes, which no message has.")
        if compute_message_digest(content) != header.get("digest"):
            raise ExchangeError(f"{name} is truncated or damaged (its digest is another).")
        return content

    def set_aside(self) -> None:
        """Rename a message that was rejected, so that another can take its place."""
        for path in (self.header_path, self.content_path):
            if path.exists():
                path.replace(path.with_suffix(path.suffix + ".rejected"))


@dataclass
class FolderTransport:
    """The centre's side of an exchange folder.

    Parameters
    ----------
    exchange : Path
    run : str
        Name of the run (`make_run_name`).
    sites : sequence of str
        Names of the sites that take part.
    keys : mapping of str to bytes
        Key of each site; without any, messages are not signed.
    patience : float
        Seconds to wait for an answer.
    poll : float
        Seconds between two looks.
    on_problem : callable
        Called with a message about each rejected answer.
    """

    exchange: Path
    run: str
    sites: Sequence[str]
    keys: Mapping[str, bytes] = field(default_factory=dict)
    patience: float = 3600.0
    poll: float = POLL_SECONDS
    on_problem: Callable[[str], None] = lambda text: None

    def begin(self) -> None:
        """Announce the run to the sites."""
        self.exchange.mkdir(parents=True, exist_ok=True)
        write_json(self.exchange / "run.json", {"run": self.run, "sites": list(self.sites), "state": RUNNING})

    def finish(self, ending: str = "") -> None:
        """Tell the sites that the run is over."""
        values = {"run": self.run, "sites": list(self.sites), "state": DONE, "ending": ending}
        write_json(self.exchange / "run.json", values)

    def ask(self, request: Request) -> list[Answer]:
        """Put a request into the folder and return the answers of all sites.

        Raises
        ------
        WaitingError
            If a site does not answer in time.
        RefusedError
            If a site refuses the request.
        ExchangeError
            If the answers of a site are rejected again and again.
        """
        content = request.encode()
        digest = compute_message_digest(content)
        file = MessageFile(self.exchange / "requests" / self.run, request.round)
        header = file.read_header()
        if header is None or header.get("digest") != digest:
            signatures = {site: sign_message(content, self.keys.get(site)) for site in self.sites}
            file.write(content, {"run": self.run, "round": request.round, "kind": request.kind, "signed": signatures})
        return self._collect(request, digest)

    def _collect(self, request: Request, digest: str) -> list[Answer]:
        answers: dict[str, Answer] = {}
        n_rejected, end = dict.fromkeys(self.sites, 0), time.monotonic() + self.patience
        while True:
            for site in self.sites:
                if site in answers:
                    continue
                file = MessageFile(self.exchange / "answers" / self.run / site, request.round)
                try:
                    answer = self._read_answer(file, site, request, digest)
                except ExchangeError as error:
                    n_rejected[site] += 1
                    self.on_problem(str(error))
                    file.set_aside()
                    if n_rejected[site] >= MAX_REJECTED:
                        raise ExchangeError(
                            f"{MAX_REJECTED} answers of {site} were rejected in round {request.round}, the last one: "
                            f"{error} Leave the site out (--leave-out {site}), or look for who writes there."
                        ) from error
                    continue
                if answer is not None:
                    answers[site] = answer
            missing = [site for site in self.sites if site not in answers]
            if not missing:
                return [answers[site] for site in self.sites]
            if time.monotonic() > end:
                raise WaitingError(
                    f"no answer of {join_names(missing)} to round {request.round} after {self.patience:g} seconds: "
                    f"start it and run the same command again, or leave it out (--leave-out {missing[0]})."
                )
            time.sleep(self.poll)

    def _read_answer(self, file: MessageFile, site: str, request: Request, digest: str) -> Answer | None:
        """Return the answer of a site; None if there is none to this request yet."""
        header = file.read_header()
        if header is None or header.get("request") != digest:
            return None
        name = f"the answer of {site} in round {request.round}"
        content = file.read_content(header)
        if not is_signed(content, str(header.get("signed", "")), self.keys.get(site)):
            raise ExchangeError(f"{name} does not have the signature of this site: it is forged.")
        answer = Answer.decode(content, name)
        if answer.site != site:
            raise ExchangeError(f"{name} says that it is from {answer.site[:60]}: it is forged.")
        if (answer.kind, answer.round, answer.request_digest) != (request.kind, request.round, digest):
            raise ExchangeError(f"{name} belongs to round {answer.round}: it is late or repeated.")
        if "refused" in answer.facts:
            raise RefusedError(f"{site} refuses round {request.round} ({request.kind}): {answer.facts['refused']}")
        return answer


def wait_for_sites(
    exchange: Path, number: int, left_out: Sequence[str] = (), patience: float = 3600.0, poll: float = POLL_SECONDS
) -> list[str]:
    """Wait until a number of sites take part, and return their names in order.

    Parameters
    ----------
    exchange : Path
    number : int
        Of sites, those left out not counted.
    left_out : sequence of str
        Names of sites to leave out.
    patience, poll : float
        Seconds to wait, and between two looks.

    Raises
    ------
    WaitingError
        If too few come.
    StudyError
        If there are more.
    """
    end = time.monotonic() + patience
    while True:
        present = sorted(path.stem for path in (exchange / "sites").glob("*.json") if _SITE_NAME.fullmatch(path.stem))
        sites = [site for site in present if site not in left_out]
        if len(sites) > number:
            raise StudyError(f"{len(sites)} sites take part ({join_names(sites)}), not {number}: correct --sites.")
        if len(sites) == number:
            return sites
        if time.monotonic() > end:
            raise WaitingError(
                f"{len(sites)} of {number} sites take part ({join_names(sites) or 'none'}) after {patience:g} seconds: "
                "start the others and run the same command again."
            )
        time.sleep(poll)


def read_key(path: Path) -> bytes:
    """Return the key of a file of hexadecimal digits.

    Raises
    ------
    StudyError
        If it is not a key.
    """
    try:
        key = bytes.fromhex(path.read_text("utf-8").strip())
    except (OSError, ValueError) as error:
        raise StudyError(f"{path} is not a key: make keys with rindices federate --make-keys.") from error
    if len(key) < 16:
        raise StudyError(f"{path} is too short for a key: make keys with rindices federate --make-keys.")
    return key


def _read_json(path: Path) -> dict[str, Any] | None:
    """Return the object of a small JSON file; None if there is none that can be read."""
    try:
        if path.stat().st_size > _MAX_HEADER_BYTES:
            return None
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_run(exchange: Path) -> dict[str, Any] | None:
    """Return what ``run.json`` says; None if no run has begun."""
    run = _read_json(exchange / "run.json")
    return run if run is not None and re.fullmatch(r"[0-9a-f]{12}", str(run.get("run", ""))) else None
