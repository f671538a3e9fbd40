"""Answer the requests in an exchange folder, and log what leaves."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rindices.errors import RindicesError
from rindices.federated import folder as exchange_folder
from rindices.federated.folder import MODEL_FILE, POLL_SECONDS, MessageFile, SharedFolder, get_signature
from rindices.federated.kinds import KINDS
from rindices.federated.messages import (
    MAX_MESSAGE_BYTES,
    Answer,
    ExchangeError,
    Request,
    compute_message_digest,
    is_signed,
    sign_message,
)
from rindices.federated.site import Site

LOG_COLUMNS = ("time", "run", "round", "kind", "what left", "people", "sums", "numbers", "bytes", "digest")


@dataclass
class SiteService:
    """The site's side of an exchange folder.

    folder: folder at the site, which nobody else sees: the log, and the ledger of the sets of people; key: shared with
    the centre. With a key, requests without its signature are refused, and only the end of a run that is signed ends
    the service; poll: seconds between two looks; on_answer: called with one line about each answer.
    """

    site: Site
    exchange: Path
    folder: Path
    key: bytes | None = None
    poll: float = POLL_SECONDS
    on_answer: Callable[[str], None] = lambda text: None
    _run: str = field(default="", init=False)
    """The run that was answered last; the end of another one is none."""
    _noted: str = field(default="", init=False)

    def __post_init__(self) -> None:
        exchange_folder.check_site_name(self.site.name)

    def serve(self, patience: float | None = None) -> dict[str, Any] | None:
        """Answer until the run is over.

        patience: seconds without a request after which to leave; 0 to answer what is there and leave. Returns what the
        centre says of the run when it is over (``ending``, and ``model``, the digest); else None. Raises ExchangeError:
        if the model is not that of the centre.
        """
        name = self.site.name
        SharedFolder(self.exchange, "sites").write(f"{name}.json", exchange_folder.encode_json({"site": name}))
        end = None if patience is None else time.monotonic() + patience
        while True:
            n_answered, run = 0, None
            try:
                n_answered = self.answer_requests()
                run = self._read_end()
            except ExchangeError as error:
                self._note(str(error))
            if run is not None and not n_answered:
                self._check_model(run)
                return run
            if n_answered and patience is not None:
                end = time.monotonic() + patience
            elif end is not None and time.monotonic() >= end:
                return None
            if not n_answered:
                time.sleep(self.poll)

    def _read_end(self) -> dict[str, Any] | None:
        """Return what the centre says of a run that is over; None if it is not."""
        run = exchange_folder.read_run(self.exchange)
        if run is None or run.get("state") != exchange_folder.DONE:
            return None
        name, site = str(run["run"]), self.site.name
        signature = get_signature(run.get("signed"), site)
        if not is_signed(exchange_folder.encode_state(run), signature, self.key, "state", name, site, 0):
            self._note(f"the end of the run {name} does not have the signature of the centre: it is forged.")
            return None
        return run if self._run in ("", name) else None

    def _check_model(self, run: dict[str, Any]) -> None:
        digest = run.get("model")
        content = SharedFolder(self.exchange).read(MODEL_FILE, MAX_MESSAGE_BYTES) if digest else None
        if digest and (content is None or compute_message_digest(content) != digest):
            raise ExchangeError(f"{MODEL_FILE} is not the model of this run: ask the centre for it by another way.")

    def _note(self, text: str) -> None:
        """Say once what is wrong with the folder."""
        if text != self._noted:
            self._noted = text
            self.on_answer(text)

    def answer_requests(self) -> int:
        """Answer all requests of the current run that have no answer yet, and return their number."""
        run = exchange_folder.read_run(self.exchange)
        if run is None or self.site.name not in run.get("sites", ()):
            return 0
        name, number, n_answered = str(run["run"]), 1, 0
        while True:
            request_file = MessageFile(SharedFolder(self.exchange, f"requests/{name}"), number)
            header = request_file.read_header()
            if header is None:
                return n_answered
            signature = get_signature(header.get("signed"), self.site.name)
            answered = {"request": str(header.get("digest", "")), "request_signed": signature}
            answer_file = MessageFile(SharedFolder(self.exchange, f"answers/{name}/{self.site.name}"), number)
            answer_header = answer_file.read_header() or {}
            if any(answer_header.get(key) != value for key, value in answered.items()):
                answer = self._answer(name, request_file, header, answered)
                sent, leaves = answer.encode(), append_to_log(self.folder / "log.tsv", name, answer)
                self.on_answer(f"round {answer.round}, {answer.kind}: {leaves}")
                signature = sign_message(sent, self.key, "answer", name, self.site.name, number)
                answer_file.write(sent, {**answered, "site": self.site.name, "signed": signature})
                n_answered += 1
            number += 1

    def _answer(self, run: str, request_file: MessageFile, header: dict[str, Any], answered: dict[str, str]) -> Answer:
        """Return the answer to the request of a file, or the reason why there is none."""
        name, number = self.site.name, request_file.number
        try:
            content = request_file.read_content(header)
            if not is_signed(content, answered["request_signed"], self.key, "request", run, name, number):
                raise ExchangeError(
                    "the request does not have the signature of the centre for this run, site and round: it is forged "
                    "or repeated, or the centre runs without --keys."
                )
            request = Request.decode(content)
            if request.round != number:
                raise ExchangeError(f"the request says that it is round {request.round}: it is repeated or forged.")
            self._run = run
            return self.site.answer(request)
        except RindicesError as error:
            kind = exchange_folder.make_printable(header.get("kind", ""))[:40]
            return Answer(name, kind, number, answered["request"], {}, {}, {"refused": str(error)})


def append_to_log(path: Path, run: str, answer: Answer) -> str:
    """Append a line about an answer to the log of a site, before the answer leaves.

    path: the log, a tsv file; run: name of the run. Returns what left, for the screen.
    """
    sent = answer.encode()
    refused = answer.facts.get("refused")
    leaves = f"nothing, refused: {refused}" if refused else KINDS[answer.kind].leaves
    counts = [count for count in answer.counts.values() if count]
    people = f"{min(counts)} to {max(counts)}" if counts else "0"
    numbers = sum(array.size for array in answer.arrays.values())
    when = datetime.now(UTC).isoformat(timespec="seconds")
    values = (when, run, answer.round, answer.kind, leaves, people, len(answer.counts), numbers)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [] if path.exists() else ["\t".join(LOG_COLUMNS)]
    fields = (*values, len(sent), compute_message_digest(sent))
    lines.append("\t".join(str(value).replace("\t", " ").replace("\n", " ") for value in fields))
    with path.open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return leaves if refused else f"sums over {people} people"
