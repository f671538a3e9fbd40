"""A folder as transport: the centre puts requests there and collects answers, sites do the reverse.

Any folder that both sides see will do: a network drive, a synchronised folder, or one that a person carries. A message
is a safetensors file; a small JSON file beside it, written last, has its digest and signatures. So a file is complete
where its JSON is there, both sides can be killed at any time, and running the same command again goes on.

``requests/RUN/0007.*``       requests of the centre
``answers/RUN/SITE/0007.*``   answers of the sites
``sites/SITE.json``           sites that take part
``run.json``                  the run that is under way, and whether it is over
``model.safetensors``         the model, when the run is over

With keys, all of these but the names of sites are signed, together with the run and the site that they belong to.

Others write to this folder, too, so below it no link is followed, for reading or writing. Folders are opened one after
the other, each relative to the one above and never through a link, so that nobody can put a link in the place of a
folder between a check and its use. Systems without such calls (Windows) compare the path with the one that it leads to.
A file is written under a random name and then renamed: this replaces a link, also a hard one, and leaves alone what it
leads to.
"""

import errno
import hashlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field

from rindices.errors import StudyError, join_names
from rindices.federated import secure
from rindices.federated.messages import (
    MAX_MESSAGE_BYTES,
    Answer,
    ExchangeError,
    Request,
    WaitingError,
    compute_message_digest,
    is_signed,
    receive_answer,
    sign_message,
)

POLL_SECONDS = 0.5
"""Default time between two looks at the folder."""
MAX_REJECTED = 5
"""Answers of one site in one round that may be rejected before the centre stops."""
_SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_MAX_HEADER_BYTES = 100_000
RUNNING, DONE = "running", "done"
CENTRE = ""
"""The centre as a reader of signatures; other readers are sites."""
RUN_FILE, MODEL_FILE = "run.json", "model.safetensors"
Parsed = TypeVar("Parsed", bound=BaseModel)
_OPENS_RELATIVE = os.open in os.supports_dir_fd
_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))  # a pipe must not block
_LINK_ERRORS = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.ENXIO)


def check_site_name(name: str) -> str:
    """Return a name that is safe in a path.

    Raises StudyError: if it is not.
    """
    if not _SITE_NAME.fullmatch(name):
        raise StudyError(f"{name[:60]!r} is no name for a site: use up to 40 letters, digits, dots and dashes.")
    return name


def make_run_name(values: Mapping[str, Any]) -> str:
    """Return a name that changes with the settings and the sites of a study."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class SharedFolder:
    """A folder within an exchange folder.

    root: the exchange folder; it may be a link itself; name: names of folders below it, joined by slashes; empty for
    the exchange folder itself.
    """

    root: Path
    name: str = ""

    def read(self, name: str, max_bytes: int) -> bytes | None:
        """Return the content of a file; None if there is none.

        Raises ExchangeError: if it is a link, no file, or too large.
        """
        with suppress(FileNotFoundError), self._open(name) as (prefix, folder):
            descriptor = os.open(prefix + name, os.O_RDONLY | _FLAGS, dir_fd=folder)
            with open(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise self._make_error(name, "is no file")
                if status.st_size > max_bytes:
                    raise self._make_error(name, f"has {status.st_size:,} bytes, which no message has")
                return file.read(max_bytes)
        return None

    def write(self, name: str, content: bytes) -> None:
        """Write a file, atomically; folders are made where they lack."""
        temporary = f".{name}.{secrets.token_hex(8)}.part"
        with self._open(name, create=True) as (prefix, folder):
            descriptor = os.open(
                prefix + temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o666, dir_fd=folder
            )
            try:
                with open(descriptor, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(descriptor)
                os.replace(prefix + temporary, prefix + name, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                with suppress(OSError):  # after the rename there is none
                    os.unlink(prefix + temporary, dir_fd=folder)
            if folder is not None:
                with suppress(OSError):
                    os.fsync(folder)

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file, or a link itself, if there is one."""
        with suppress(FileNotFoundError), self._open() as (prefix, folder):
            os.replace(prefix + name, prefix + new_name, src_dir_fd=folder, dst_dir_fd=folder)

    def list_names(self) -> list[str]:
        """Return the names of the files, in order."""
        with suppress(FileNotFoundError), self._open() as (prefix, folder):
            return sorted(os.listdir(prefix if folder is None else folder))
        return []

    @contextmanager
    def _open(self, name: str = "", create: bool = False) -> Iterator[tuple[str, int | None]]:
        """Yield what stands before the name of a file, and the descriptor of the folder where systems have one."""
        parts = self.name.split("/") if self.name else []
        if {"", ".", ".."} & set(parts):
            raise ExchangeError(f"{self.name} is no folder of an exchange: name sites by letters and digits.")
        if create:
            self.root.mkdir(parents=True, exist_ok=True)
        try:
            if not _OPENS_RELATIVE:
                yield self._check_path(parts, name, create), None
                return
            folder = os.open(self.root, os.O_RDONLY)
            try:
                for part in parts:
                    if create:
                        with suppress(FileExistsError):
                            os.mkdir(part, dir_fd=folder)
                    inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | _FLAGS, dir_fd=folder)
                    os.close(folder)
                    folder = inner
                yield "", folder
            finally:
                os.close(folder)
        except OSError as error:
            if error.errno in _LINK_ERRORS:
                raise self._make_error(name, "is a link or no folder") from error
            raise

    def _check_path(self, parts: list[str], name: str, create: bool) -> str:
        """Return the path of the folder with a separator, if neither it nor the file is a link."""
        path = self.root.resolve().joinpath(*parts)
        if (path / name).resolve() != path / name:
            raise self._make_error(name, "is a link")
        if create:
            path.mkdir(parents=True, exist_ok=True)
        return f"{path}{os.sep}"

    def _make_error(self, name: str, fault: str) -> ExchangeError:
        path = "/".join(part for part in (self.name, name) if part)
        return ExchangeError(f"{path} {fault}: remove it, and look for who writes to the exchange folder.")


class SignedJson(BaseModel):
    """A JSON file of the exchange folder with signatures, by their reader."""

    signed: dict[str, Any] = {}

    def get_signature(self, reader: str) -> str:
        """Return the signature for a reader; empty if there is none."""
        return str(self.signed.get(reader, ""))


class MessageHeader(SignedJson):
    """The JSON beside a message.

    kind: of a request; request, request_signed: digest and signature of the request that an answer is to.
    """

    digest: str
    kind: str = ""
    request: str = ""
    request_signed: str = ""


class Run(SignedJson):
    """What ``run.json`` says: settings of the study, and whether it is over, how it ended, and the model's digest."""

    run: Annotated[str, Field(pattern="^[0-9a-f]{12}$")]
    sites: list[str]
    study: dict[str, Any] = {}
    state: str = RUNNING
    ending: str = ""
    model: str = ""

    @property
    def is_masked(self) -> bool:
        """Whether sums are asked for under masks."""
        return bool(self.study.get("masked"))

    def encode_state(self) -> bytes:
        """Return what is signed, besides the run and the site: whether the run is over, and how it ended."""
        return json.dumps([self.state, self.ending, self.model]).encode()


@dataclass(frozen=True)
class MessageFile:
    """A message in a folder: the file, and the JSON beside it, which is written last."""

    folder: SharedFolder
    number: int

    @property
    def names(self) -> tuple[str, str]:
        """Names of the message and of the JSON."""
        return f"{self.number:04d}.safetensors", f"{self.number:04d}.json"

    def write(self, content: bytes, header: Mapping[str, Any]) -> None:
        """Write a message."""
        values = {**header, "digest": compute_message_digest(content)}
        for name, each in zip(self.names, (content, json.dumps(values, indent=2).encode()), strict=True):
            self.folder.write(name, each)

    def read_header(self) -> MessageHeader | None:
        """Return the JSON; None if the message is not there (yet)."""
        return read_json(self.folder, self.names[1], MessageHeader)

    def read_content(self, header: MessageHeader) -> bytes:
        """Return the message.

        Raises ExchangeError: if it is missing, truncated, damaged or a link.
        """
        content = self.folder.read(self.names[0], MAX_MESSAGE_BYTES)
        if content is None or compute_message_digest(content) != header.digest:
            fault = "missing" if content is None else "truncated or damaged (its digest is another)"
            raise ExchangeError(f"{self.folder.name}/{self.names[0]} is {fault}.")
        return content

    def set_aside(self) -> None:
        """Rename a message that was rejected, so that another can take its place."""
        for name in self.names:
            self.folder.rename(name, f"{name}.rejected")


@dataclass
class FolderTransport:
    """The centre's side of an exchange folder.

    run: name of the run (`make_run_name`); sites: names of the sites that take part; keys: key of each site; without
    any, messages are not signed; patience: seconds to wait for an answer; poll: seconds between two looks; on_problem:
    called with a message about each rejected answer; study: settings, by which sites repeat the calculation of the
    centre; reader: for whom the signatures of answers are: the centre, or a site that repeats the calculation.
    """

    exchange: Path
    run: str
    sites: Sequence[str]
    keys: Mapping[str, bytes] = field(default_factory=dict)
    patience: float = 3600.0
    poll: float = POLL_SECONDS
    on_problem: Callable[[str], None] = lambda text: None
    study: Mapping[str, Any] = field(default_factory=dict)
    reader: str = CENTRE

    def begin(self) -> None:
        """Announce the run to the sites."""
        self._write_run(RUNNING)

    def finish(self, ending: str = "", model: bytes | None = None) -> None:
        """Tell the sites that the run is over, and give them the model or the reason why there is none."""
        if model is not None:
            SharedFolder(self.exchange).write(MODEL_FILE, model)
        self._write_run(DONE, ending, "" if model is None else compute_message_digest(model))

    def _write_run(self, state: str, ending: str = "", model: str = "") -> None:
        run = Run(run=self.run, sites=list(self.sites), study=dict(self.study), state=state, ending=ending, model=model)
        run.signed |= self._sign(run.encode_state(), "state")
        SharedFolder(self.exchange).write(RUN_FILE, run.model_dump_json(indent=2).encode())

    def _sign(self, content: bytes, what: str, number: int = 0) -> dict[str, str]:
        """Return the signature for each site of a message of this run."""
        return {site: sign_message(content, self.keys.get(site), what, self.run, site, number) for site in self.sites}

    def ask(self, request: Request) -> dict[str, Answer]:
        """Put a request into the folder and return the answers of all sites.

        Raises WaitingError: if a site does not answer in time. Raises RefusedError: if a site refuses the request.
        Raises ExchangeError: if the answers of a site are rejected again and again.
        """
        content = request.encode()
        file = MessageFile(SharedFolder(self.exchange, f"requests/{self.run}"), request.round)
        signatures, header = self._sign(content, "request", request.round), file.read_header()
        if header is None or (header.digest, header.signed) != (request.digest, signatures):
            file.write(content, {"kind": request.kind, "signed": signatures})
        sites = secure.list_sites(request, self.sites)
        answers: dict[str, Answer] = {}
        n_rejected, end = dict.fromkeys(sites, 0), time.monotonic() + self.patience
        while True:
            for site in [site for site in sites if site not in answers]:
                try:
                    answered = {"request": request.digest, "request_signed": signatures[site]}
                    answer = self.read_answer(site, request, answered)
                except ExchangeError as error:
                    n_rejected[site] += 1
                    self.on_problem(str(error))
                    self.get_answer_file(site, request.round).set_aside()
                    if n_rejected[site] >= MAX_REJECTED:
                        raise ExchangeError(
                            f"{MAX_REJECTED} answers of {site} were rejected in round {request.round}, the last one: "
                            f"{error} Leave the site out (--leave-out {site}), or look for who writes there."
                        ) from error
                    continue
                if answer is not None:
                    answers[site] = answer
            missing = [site for site in sites if site not in answers]
            if not missing:
                return {site: answers[site] for site in sites}
            if time.monotonic() > end:
                out = f"leave it out (--leave-out {','.join(missing)})"
                if secure.is_masked(request):
                    out = f"if it has left, say so here and at all other sites (--left {missing[0]}:{request.round})"
                raise WaitingError(
                    f"no answer of {join_names(missing)} to round {request.round} after {self.patience:g} seconds: "
                    f"start it and run the same command again, or {out}."
                )
            time.sleep(self.poll)

    def get_answer_file(self, site: str, number: int) -> MessageFile:
        """Return the file of the answer of a site to a round."""
        return MessageFile(SharedFolder(self.exchange, f"answers/{self.run}/{site}"), number)

    def read_answer(self, site: str, request: Request, answered: Mapping[str, str]) -> Answer | None:
        """Return the answer of a site; None if there is none yet.

        answered: what the JSON of an answer says of the request: its digest, ``request``, and its signature. Raises
        ExchangeError: if the answer is damaged or forged. Raises RefusedError: if the site refuses.
        """
        file = self.get_answer_file(site, request.round)
        header = file.read_header()
        if header is None or any(getattr(header, key) != value for key, value in answered.items()):
            return None
        content, signature = file.read_content(header), header.get_signature(self.reader)
        if not is_signed(content, signature, self.keys.get(site), "answer", self.run, site, request.round):
            raise ExchangeError(
                f"the answer of {site} in round {request.round} does not have the signature of this site and run: it "
                "is forged or repeated."
            )
        return receive_answer(content, site, request, answered["request"])


def wait_for_sites(
    exchange: Path, number: int, left_out: Sequence[str] = (), patience: float = 3600.0, poll: float = POLL_SECONDS
) -> list[str]:
    """Wait until a number of sites take part, and return their names in order.

    number: of sites, those left out not counted; left_out: names of sites to leave out; patience, poll: seconds to
    wait, and between two looks. Raises WaitingError: if too few come. Raises StudyError: if there are more.
    """
    end = time.monotonic() + patience
    while True:
        names = SharedFolder(exchange, "sites").list_names()
        present = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        sites = [site for site in present if _SITE_NAME.fullmatch(site) and site not in left_out]
        if len(sites) > number:
            raise StudyError(
                f"{len(sites)} sites take part ({join_names(sites)}), not {number}: correct --sites, or leave out "
                "those that do not belong to the study (--leave-out)."
            )
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

    Raises StudyError: if it is not a key.
    """
    try:
        key = bytes.fromhex(path.read_text("utf-8").strip())
    except (OSError, ValueError) as error:
        raise StudyError(f"{path} is not a key: make keys with rindices federate --make-keys.") from error
    if len(key) < 16:
        raise StudyError(f"{path} is too short for a key: make keys with rindices federate --make-keys.")
    return key


def read_json(folder: SharedFolder, name: str, kind: type[Parsed]) -> Parsed | None:
    """Return the values of a small JSON file; None if there is none that can be read."""
    try:
        return kind.model_validate(json.loads(folder.read(name, _MAX_HEADER_BYTES) or b""))
    except (ValueError, RecursionError):
        return None


def read_run(exchange: Path) -> Run | None:
    """Return what ``run.json`` says; None if no run has begun."""
    return read_json(SharedFolder(exchange), RUN_FILE, Run)
