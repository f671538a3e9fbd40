"""Answer the requests in an exchange folder, and log what leaves."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rindices.atomic import write_json
from rindices.errors import RindicesError
from rindices.federated.exceptions import ExchangeError
from rindices.federated.folder import DONE, POLL_SECONDS, MessageFile, check_site_name, read_run
from rindices.federated.kinds import KINDS
from rindices.federated.messages import Answer, Request, compute_message_digest, is_signed, sign_message
from rindices.federated.site import Site

LOG_COLUMNS = ("time", "run", "round", "kind", "what left", "people", "sums", "numbers", "bytes", "digest")


@dataclass
class SiteService:
    """The site's side of an exchange folder.

    Parameters
    ----------
    site : Site
    exchange : Path
    folder : Path
        Folder at the site, which nobody else sees: the log, and the ledger of the sets of people.
    key : bytes, optional
        Shared with the centre. With a key, requests without its signature are refused.
    poll : float
        Seconds between two looks.
    on_answer : callable
        Called with one line about each answer.
    """

    site: Site
    exchange: Path
    folder: Path
    key: bytes | None = None
    poll: float = POLL_SECONDS
    on_answer: Callable[[str], None] = lambda text: None

    def __post_init__(self) -> None:
        check_site_name(self.site.name)

    def serve(self, patience: float | None = None) -> bool:
        """Answer until the run is over.

        Parameters
        ----------
        patience : float, optional
            Seconds without a request after which to leave; 0 to answer what is there and leave.

        Returns
        -------
        bool
            Whether the run is over.
        """
        (self.exchange / "sites").mkdir(parents=True, exist_ok=True)
        write_json(self.exchange / "sites" / f"{self.site.name}.json", {"site": self.site.name})
        end = None if patience is None else time.monotonic() + patience
        while True:
            n_answered = self.answer_requests()
            run = read_run(self.exchange)
            if run is not None and run.get("state") == DONE and not n_answered:
                return True
            if n_answered and patience is not None:
                end = time.monotonic() + patience
            elif end is not None and time.monotonic() >= end:
                return False
            if not n_answered:
                time.sleep(self.poll)

    def answer_requests(self) -> int:
        """Answer all requests of the current run that have no answer yet, and return their number."""
        run = read_run(self.exchange)
        if run is None or self.site.name not in run.get("sites", ()):
            return 0
        name, number, n_answered = str(run["run"]), 1, 0
        while True:
            request_file = MessageFile(self.exchange / "requests" / name, number)
            header = request_file.read_header()
            if header is None:
                return n_answered
            answer_file = MessageFile(self.exchange / "answers" / name / self.site.name, number)
            answered = answer_file.read_header()
            if answered is None or answered.get("request") != header.get("digest"):
                self._answer(name, request_file, answer_file)
                n_answered += 1
            number += 1

    def _answer(self, run: str, request_file: MessageFile, answer_file: MessageFile) -> None:
        header = request_file.read_header() or {}
        digest = str(header.get("digest", ""))
        try:
            content = request_file.read_content(header)
            signatures = header.get("signed")
            signature = signatures.get(self.site.name, "") if isinstance(signatures, dict) else ""
            if not is_signed(content, str(signature), self.key):
                raise ExchangeError("the request does not have the signature of the centre: it is forged.")
            request = Request.decode(content)
            if request.round != request_file.number:
                raise ExchangeError(f"the request says that it is round {request.round}: it is repeated or forged.")
            answer = self.site.answer(request)
        except RindicesError as error:
            number, kind = request_file.number, str(header.get("kind", ""))
            answer = Answer(self.site.name, kind, number, digest, {}, {}, {"refused": str(error)})
        sent = answer.encode()
        leaves = append_to_log(self.folder / "log.tsv", run, answer)
        self.on_answer(f"round {answer.round}, {answer.kind}: {leaves}")
        answer_file.write(sent, {"request": digest, "site": self.site.name, "signed": sign_message(sent, self.key)})


def append_to_log(path: Path, run: str, answer: Answer) -> str:
    """Append a line about an answer to the log of a site, before the answer leaves.

    Parameters
    ----------
    path : Path
        The log, a tsv file.
    run : str
        Name of the run.
    answer : Answer

    Returns
    -------
    str
        What left, for the screen.
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
