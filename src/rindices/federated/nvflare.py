"""NVIDIA FLARE as transport (extra ``federated``): a controller for the server and an executor for the clients.

The messages are those of all transports; FLARE takes them there with its own authentication. The table of a client is
named in a file of the client's own start-up kit (`rindices.federated.flare_files`), never by the server.

FLARE does not bring a client that was restarted back into a job that is running. So the server keeps the answers of
each round: the job ends with the name of the client that is missing, and the same job, submitted again, goes on.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from nvflare.app_common.workflows.model_controller import ModelController

from rindices.errors import RindicesError, join_names
from rindices.federated.fit import FederatedSettings, run_federated_study
from rindices.federated.flare_files import STUDY_FILE, TASK, read_site_study
from rindices.federated.folder import MessageFile, SharedFolder
from rindices.federated.messages import (
    Answer,
    ExchangeError,
    RefusedError,
    Request,
    WaitingError,
    compute_message_digest,
)
from rindices.federated.site import Site
from rindices.federated.site_service import append_to_log
from rindices.study.config import make_study
from rindices.study.preflight import resolve_study
from rindices.study.wrong_cells import check_cells

_MESSAGE = "message"


class FlareTransport:
    """Takes requests to the clients of a FLARE job.

    n_clients: clients that take part; answers: folder in which answers are kept, so that a job that was interrupted can
    go on; wait: seconds to wait for an answer.
    """

    def __init__(self, controller: ModelController, n_clients: int, answers: Path, wait: int) -> None:
        self._controller, self._n_clients, self._answers, self._wait = controller, n_clients, answers, wait

    def ask(self, request: Request) -> list[Answer]:
        """Return the answers of all clients, in the order of their names.

        Raises ExchangeError: if an answer is not of the client that sent it. Raises RefusedError: if a client refuses.
        Raises WaitingError: if a client does not answer.
        """
        digest = compute_message_digest(request.encode())
        clients = sorted(client.name for client in self._controller.engine.get_clients())
        answers = {name: answer for name in clients if (answer := self._read_answer(name, request.round, digest))}
        missing = [name for name in clients if name not in answers]
        if missing:
            data = _to_model(request.encode())
            results = self._controller.send_model_and_wait(TASK, data, missing, timeout=self._wait)
            for result in results:
                answer = self._keep_answer(result, request, digest)
                answers[answer.site] = answer
        if len(answers) < self._n_clients:
            missing = [name for name in clients if name not in answers]
            raise WaitingError(
                f"no answer of {join_names(missing) or 'a client'} to round {request.round}: start it and submit the "
                "same job again, which goes on there."
            )
        return [answers[name] for name in sorted(answers)]

    def _read_answer(self, client: str, number: int, digest: str) -> Answer | None:
        """Return the answer of a client that was kept; None if there is none to this request."""
        file = MessageFile(SharedFolder(self._answers, client), number)
        header = file.read_header()
        if header is None or header.get("request") != digest:
            return None
        return Answer.decode(file.read_content(header), f"the answer of {client}")

    def _keep_answer(self, result: FLModel, request: Request, digest: str) -> Answer:
        """Check and keep the answer of a client."""
        client = str((result.meta or {}).get("client_name", ""))
        content = _to_bytes(result)
        answer = Answer.decode(content, f"the answer of {client}")
        if answer.site != client:
            raise ExchangeError(f"the answer of {client} says that it is from {answer.site[:60]}: it is forged.")
        if "refused" in answer.facts:
            raise RefusedError(f"{client} refuses round {request.round}: {answer.facts['refused']}")
        MessageFile(SharedFolder(self._answers, client), request.round).write(content, {"request": digest})
        return answer


class StudyController(ModelController):  # type: ignore[misc]
    """Fits a study across the clients of a FLARE job, and writes its files at the server.

    out: folder at the server for the files; a relative path begins at the server's start-up kit; n_clients: clients
    that take part; settings: section ``model`` of a study file; wait: seconds to wait for the answer of a client;
    harmonise: whether effects of sites are estimated from their controls and removed.
    """

    def __init__(
        self,
        out: str,
        n_clients: int,
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        adjust: str | None = None,
        with_distances: bool = True,
        wait: int = 3600,
        harmonise: bool = False,
    ) -> None:
        super().__init__()
        self.out, self.n_clients, self.wait = out, n_clients, wait
        self.settings, self.seed, self.adjust = dict(settings or {}), seed, adjust
        self.with_distances, self.harmonise = with_distances, harmonise

    def run(self) -> None:
        """Run the study; called by FLARE."""
        out = Path(self.engine.get_workspace().get_root_dir()) / self.out
        model = make_study({"data": {"volumes": "clients"}, "model": self.settings}, "the job").model
        transport = FlareTransport(self, self.n_clients, out / "answers", self.wait)
        study = FederatedSettings(model, self.seed, self.adjust, self.harmonise, self.with_distances)
        run_federated_study(transport, study, out)
        shutil.rmtree(out / "answers")


class SiteExecutor(Executor):  # type: ignore[misc]
    """Answers the requests of a `StudyController` with sums over the people of a client.

    The table is the one that ``local/rindices.toml`` of the client's start-up kit names. A job cannot name another.
    """

    def __init__(self) -> None:
        super().__init__()
        self._site: Site | None = None

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Answer one request; called by FLARE."""
        client = str(fl_ctx.get_prop(FLContextKey.CLIENT_NAME) or fl_ctx.get_identity_name())
        path = Path(fl_ctx.get_engine().get_workspace().get_site_config_dir()) / STUDY_FILE
        content = _to_bytes(FLModelUtils.from_shareable(shareable, fl_ctx))
        request = Request.decode(content)
        try:
            if self._site is None:
                self._site = _read_site(client, path)
            answer = self._site.answer(request)
        except RindicesError as error:
            digest = compute_message_digest(content)
            answer = Answer(client, request.kind, request.round, digest, {}, {}, {"refused": str(error)})
        append_to_log(path.parent / f"{path.stem}-log.tsv", fl_ctx.get_job_id(), answer)
        return FLModelUtils.to_shareable(_to_model(answer.encode()))


def _read_site(name: str, path: Path) -> Site:
    """Return the site of a study file; the ledger lies beside it."""
    study, fewest = read_site_study(path)
    result, study = resolve_study(study, path.parent)
    checked = check_cells(result.cohort_or_raise(), study.run.seed, study.adjust, study.data.on_outlier)
    return Site(name, checked.cohort, fewest, path.parent / f"{path.stem}-ledger.json")


def _to_model(content: bytes) -> FLModel:
    return FLModel(params_type=ParamsType.FULL, params={_MESSAGE: np.frombuffer(content, dtype=np.uint8)})


def _to_bytes(model: FLModel) -> bytes:
    params: Mapping[str, Sequence[int]] = model.params or {}
    if _MESSAGE not in params:
        raise ExchangeError("a message of FLARE holds no message of rindices: look at its log.")
    return np.asarray(params[_MESSAGE], dtype=np.uint8).tobytes()
