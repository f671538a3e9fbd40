"""Answer the requests in an exchange folder, and log what leaves.

Under masks, a site repeats the calculation of the centre: it adds the answers of all sites up, as the centre does,
computes the next request from the total, and answers the request of the centre if both are equal but for rounding. So a
centre can choose neither people nor parameters, in whatever nearly equal or combined requests. Answers are signed for
each site, too, which so knows that they are those of the other sites.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from rindices.errors import RindicesError
from rindices.federated import folder as exchange_folder
from rindices.federated import secure
from rindices.federated.fit import FederatedSettings, run_federated_study
from rindices.federated.folder import (
    MODEL_FILE,
    POLL_SECONDS,
    FolderTransport,
    MessageFile,
    Run,
    SharedFolder,
    read_run,
)
from rindices.federated.kinds import KINDS
from rindices.federated.messages import (
    MAX_MESSAGE_BYTES,
    REFUSED,
    Answer,
    ExchangeError,
    RefusedError,
    Request,
    WaitingError,
    compute_message_digest,
    is_signed,
    make_printable,
    sign_message,
)
from rindices.federated.site import Site

TOLERANCE = 1e-6
"""Largest difference, relative to the largest number of an array, between requests of two computers."""
LOG_COLUMNS = ("time", "run", "round", "kind", "what left", "people", "sums", "numbers", "bytes", "digest")


@dataclass
class SiteService:
    """The site's side of an exchange folder.

    folder: folder at the site, which nobody else sees: the log, and the ledger of the sets of people; key: shared with
    the centre. With a key, requests without its signature are refused, and only the end of a run that is signed ends
    the service; poll: seconds between two looks; on_answer: called with one line about each answer; without_masks:
    whether sums may leave without masks if there are three sites or more; repeats: whether the site repeats the
    calculation of the centre under masks.
    """

    site: Site
    exchange: Path
    folder: Path
    key: bytes | None = None
    poll: float = POLL_SECONDS
    on_answer: Callable[[str], None] = lambda text: None
    without_masks: bool = True
    repeats: bool = True
    _run: str = field(default="", init=False)
    """The run that was answered last; the end of another one is none."""
    _noted: str = field(default="", init=False)
    _patience: float | None = field(default=None, init=False)
    _end: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        exchange_folder.check_site_name(self.site.name)

    def serve(self, patience: float | None = None) -> Run | None:
        """Answer until the run is over.

        patience: seconds without a request after which to leave; 0 to answer what is there and leave. Returns what the
        centre says of the run when it is over; else None. Raises ExchangeError: if the model is not that of the centre.
        """
        SharedFolder(self.exchange, "sites").write(f"{self.site.name}.json", b"{}")
        self._patience = patience
        self._extend_time()
        is_repeated = False
        while True:
            n_answered, over = 0, None
            try:
                run = self._read_run()
                if run is not None and not (run.is_masked and self.repeats):
                    n_answered = self._answer_requests(run.run)
                over = None if n_answered else self._read_end()
                if run is not None and run.is_masked and self.repeats and over is None and not is_repeated:
                    self._repeat_study(run)
                    is_repeated = True
            except RindicesError as error:
                is_repeated = is_repeated or isinstance(error, RefusedError)
                self._note(str(error))
            if over is not None:
                self._check_model(over)
                return over
            if n_answered:
                self._extend_time()
            elif self._end is not None and time.monotonic() >= self._end:
                return None
            else:
                time.sleep(self.poll)

    def _extend_time(self) -> None:
        self._end = None if self._patience is None else time.monotonic() + self._patience

    def _read_end(self) -> Run | None:
        """Return what the centre says of a run that is over; None if it is not."""
        run, site = read_run(self.exchange), self.site.name
        if run is None or run.state != exchange_folder.DONE:
            return None
        if not is_signed(run.encode_state(), run.get_signature(site), self.key, "state", run.run, site, 0):
            self._note(f"the end of the run {run.run} does not have the signature of the centre: it is forged.")
            return None
        return run if self._run in ("", run.run) else None

    def _check_model(self, run: Run) -> None:
        content = SharedFolder(self.exchange).read(MODEL_FILE, MAX_MESSAGE_BYTES) if run.model else None
        if run.model and (content is None or compute_message_digest(content) != run.model):
            raise ExchangeError(f"{MODEL_FILE} is not the model of this run: ask the centre for it by another way.")

    def _note(self, text: str) -> None:
        """Say once what is wrong with the folder."""
        if text != self._noted:
            self._noted = text
            self.on_answer(text)

    def _answer_requests(self, run: str) -> int:
        """Answer all requests of a run that have no answer yet, and return their number."""
        number, n_answered = 1, 0
        while (is_new := self._answer_round(run, number)) is not None:
            number, n_answered = number + 1, n_answered + is_new
        return n_answered

    def _read_run(self) -> Run | None:
        """Return the run under way, if this site takes part and its people agree to how sums leave.

        Raises WaitingError: if they have not agreed yet.
        """
        run, key = read_run(self.exchange), self.site.key
        if run is None or self.site.name not in run.sites:
            return None
        n_others = len(run.sites) - 1
        if run.is_masked and key is not None and len(key.accepted) < n_others:
            raise WaitingError(
                f"{n_others} other sites take part: compare their fingerprints by telephone, then accept each "
                "(--accept FINGERPRINT)."
            )
        if not run.is_masked and len(run.sites) >= secure.FEWEST_SITES and not self.without_masks:
            raise WaitingError(
                "the centre asks for sums without masks: let it ask with masks, or allow it (--no-masks)."
            )
        return run

    def _repeat_study(self, run: Run) -> None:
        """Take part in a run under masks, and compute each request of the centre here, too."""
        if self.site.key is not None:
            self._run = run.run
            self.site.bind_study(run.study)
            run_federated_study(self, FederatedSettings.from_dict(run.study, self.site.key.left))

    def ask(self, request: Request) -> dict[str, Answer]:
        """Answer a request of the centre if it is the one that was computed here, and return the answers of all sites.

        Raises WaitingError: if the request or an answer does not come in time. Raises RefusedError: if the requests
        differ, or the site refuses.
        """
        expected = Request.decode(request.encode())
        while True:
            try:
                if self._answer_round(self._run, request.round, expected):
                    self._extend_time()
                answers = self._read_answers(expected)
                if answers is not None:
                    return answers
                text = f"waiting for the answers of others to round {request.round}"
            except (ExchangeError, WaitingError) as error:
                text = str(error)
                self._note(text)
            if self._end is not None and time.monotonic() >= self._end:
                raise WaitingError(text)
            time.sleep(self.poll)

    def _read_answers(self, request: Request) -> dict[str, Answer] | None:
        """Return the answers of all sites to a request; None if some are missing.

        Raises ExchangeError: if one is not that of its site. Raises RefusedError: if a site refuses.
        """
        asked = MessageFile(SharedFolder(self.exchange, f"requests/{self._run}"), request.round).read_header()
        run = read_run(self.exchange)
        if asked is None or run is None:
            return None
        sites, keys = secure.list_sites(request, run.sites), self._derive_keys(request)
        folder = FolderTransport(self.exchange, self._run, sites, keys, reader=self.site.name)
        answers = {site: folder.read_answer(site, request, {"request": asked.digest}) for site in sites}
        found = {site: answer for site, answer in answers.items() if answer is not None}
        return found if len(found) == len(answers) else None

    def _derive_keys(self, request: Request) -> dict[str, bytes]:
        """Return the keys for signatures that this site shares with each site of a request; none without masks."""
        if self.site.key is None:
            return {}
        public = {site: request.settings["sites"][site]["key"] for site in secure.list_sites(request)}
        return {site: self.site.key.derive_key(key, b"codes") for site, key in public.items()}

    def _answer_round(self, run: str, number: int, expected: Request | None = None) -> bool | None:
        """Answer a request if it has no answer yet; return whether it was answered now, None if there is no request.

        expected: the request as computed here. Raises WaitingError: if the people of the site have to agree first.
        """
        file, site = MessageFile(SharedFolder(self.exchange, f"requests/{run}"), number), self.site.name
        header = file.read_header()
        if header is None:
            return None
        answered = {"request": header.digest, "request_signed": header.get_signature(site)}
        answer_file = FolderTransport(self.exchange, run, [site]).get_answer_file(site, number)
        answer_header = answer_file.read_header()
        if answer_header is not None and all(getattr(answer_header, key) == value for key, value in answered.items()):
            return False
        kind = make_printable(header.kind)[:40]  # as somebody says who can write to the folder
        keys: dict[str, bytes | None] = {exchange_folder.CENTRE: self.key}
        try:
            content = file.read_content(header)
            if not is_signed(content, answered["request_signed"], self.key, "request", run, site, number):
                raise ExchangeError(
                    "the request does not have the signature of the centre for this run, site and round: it is forged "
                    "or repeated, or the centre runs without --keys."
                )
            request = Request.decode(content)
            if request.round != number:
                raise ExchangeError(f"the request says that it is round {request.round}: it is repeated or forged.")
            if expected is not None:
                check_same_request(request, expected)
            elif self.repeats and secure.is_masked(request):
                raise RefusedError("other-request: it has masks, and the run is without: it cannot be repeated here.")
            self._run = run
            answer, kind = self.site.answer(request), request.kind
            keys |= self._derive_keys(request)
        except WaitingError:
            raise
        except RindicesError as error:
            answer = Answer(answered["request"], facts={REFUSED: str(error)}, site=site)
        sent = answer.encode()
        leaves = append_to_log(self.folder / "log.tsv", (run, number, kind), answer)
        self.on_answer(f"round {number}, {kind}: {leaves}")
        signed = {reader: sign_message(sent, key, "answer", run, site, number) for reader, key in keys.items()}
        answer_file.write(sent, {**answered, "signed": signed})
        return True


def check_same_request(request: Request, expected: Request) -> None:
    """Refuse a request that is not the one that the program computes from the answers so far.

    Raises WaitingError: if it names other sites, on which people can agree.
    """
    sites, others = (dict(each.settings.get("sites", {})) for each in (request, expected))
    if sites != others:
        raise WaitingError(
            f"round {request.round} is asked of {sorted(sites)}, and not of the sites and keys that have answered: if "
            "one of them left, name it here (--left SITE:ROUND)."
        )
    is_same = (request.kind, sorted(request.arrays)) == (expected.kind, sorted(expected.arrays))
    if not is_same or not _is_close([request.settings, request.arrays], [expected.settings, expected.arrays]):
        raise RefusedError(
            f"other-request: round {request.round} ({request.kind}) is not what the program computes here from the "
            "answers of all sites. Use the same versions at all sites; if they are, the centre is not honest, or its "
            "computer rounds otherwise (--no-repeat)."
        )


def _is_close(first: Any, second: Any) -> bool:
    """Return whether nested values are equal but for rounding."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return set(first) == set(second) and all(_is_close(value, second[key]) for key, value in first.items())
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_is_close, first, second))
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        largest = np.abs(second).max(initial=0.0)
        return first.shape == second.shape and bool(np.allclose(first, second, rtol=0.0, atol=TOLERANCE * largest))
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=TOLERANCE)
    return type(first) is type(second) and bool(first == second)


def append_to_log(path: Path, asked: tuple[str, int, str], answer: Answer) -> str:
    """Append a line about an answer to the log of a site, before the answer leaves.

    path: the log, a tsv file; asked: run, number and kind of the round. Returns what left, for the screen.
    """
    sent, refused = answer.encode(), answer.facts.get(REFUSED)
    leaves = f"nothing, refused: {refused}" if refused else KINDS[asked[2]].leaves
    counted = [number for number in answer.numbers if number]
    people = f"{min(counted)} to {max(counted)}" if counted else "masked" if secure.MASKED in answer.arrays else "0"
    n_numbers = sum(array.size for array in answer.arrays.values())
    when = datetime.now(UTC).isoformat(timespec="seconds")
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [] if path.exists() else ["\t".join(LOG_COLUMNS)]
    fields = (when, *asked, leaves, people, len(answer.numbers), n_numbers, len(sent), compute_message_digest(sent))
    lines.append("\t".join(str(value).replace("\t", " ").replace("\n", " ") for value in fields))
    with path.open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return leaves if refused else "masked sums" if people == "masked" else f"sums over {people} people"
