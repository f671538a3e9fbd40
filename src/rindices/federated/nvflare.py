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
from rindices.federated.folder import FolderTransport
from rindices.federated.messages import REFUSED, Answer, ExchangeError, Request, WaitingError, receive_answer
from rindices.federated.site import Site
from rindices.federated.site_service import append_to_log
from rindices.study.preflight import resolve_study
from rindices.study.wrong_cells import check_cells

_MESSAGE = "message"


class FlareTransport:
    """Takes requests to the clients of a FLARE job.

    n_clients: clients that take part; kept: folder in which answers are kept, so that a job that was interrupted can go
    on; wait: seconds to wait for an answer.
    """

    def __init__(self, controller: ModelController, n_clients: int, kept: FolderTransport, wait: int) -> None:
        self._controller, self._n_clients, self._kept, self._wait = controller, n_clients, kept, wait

    def ask(self, request: Request) -> dict[str, Answer]:
        """Return the answers of all clients, in the order of their names.

        Raises ExchangeError: if an answer is damaged. Raises RefusedError: if a client refuses. Raises WaitingError: if
        a client does not answer.
        """
        answered = {"request": request.digest}
        clients = sorted(client.name for client in self._controller.engine.get_clients())
        answers = {name: answer for name in clients if (answer := self._kept.read_answer(name, request, answered))}
        if missing := [name for name in clients if name not in answers]:
            data = _to_model(request.encode())
            for result in self._controller.send_model_and_wait(TASK, data, missing, timeout=self._wait):
                content, name = _to_bytes(result), str((result.meta or {}).get("client_name", ""))
                answers[name] = receive_answer(content, name, request)
                self._kept.get_answer_file(name, request.round).write(content, answered)
        if len(answers) < self._n_clients:
            missing = [name for name in clients if name not in answers]
            raise WaitingError(
                f"no answer of {join_names(missing) or 'a client'} to round {request.round}: start it and submit the "
                "same job again, which goes on there."
            )
        return {name: answers[name] for name in sorted(answers)}


class StudyController(ModelController):  # type: ignore[misc]
    """Fits a study across the clients of a FLARE job, and writes its files at the server.

    out: folder at the server for the files; a relative path begins at the server's start-up kit; n_clients: clients
    that take part; settings: see `FederatedSettings.to_dict`; wait: seconds to wait for the answer of a client.
    """

    def __init__(self, out: str, n_clients: int, settings: Mapping[str, Any], wait: int = 3600) -> None:
        super().__init__()
        self.out, self.n_clients, self.settings, self.wait = out, n_clients, settings, wait

    def run(self) -> None:
        """Run the study; called by FLARE."""
        out = Path(self.engine.get_workspace().get_root_dir()) / self.out
        transport = FlareTransport(self, self.n_clients, FolderTransport(out, "job", ()), self.wait)
        run_federated_study(transport, FederatedSettings.from_dict(self.settings), out)
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
        request = Request.decode(_to_bytes(FLModelUtils.from_shareable(shareable, fl_ctx)))
        try:
            if self._site is None:
                self._site = _read_site(client, path)
            answer = self._site.answer(request)
        except RindicesError as error:
            answer = Answer(request.digest, facts={REFUSED: str(error)}, site=client)
        asked = (str(fl_ctx.get_job_id()), request.round, request.kind)
        append_to_log(path.parent / f"{path.stem}-log.tsv", asked, answer)
        return FLModelUtils.to_shareable(_to_model(answer.encode()))


def _read_site(name: str, path: Path) -> Site:
    """Return the site of a study file; the ledger lies beside it."""
    study, fewest = read_site_study(path)
    result, study = resolve_study(study, path.parent)
    checked = check_cells(result.cohort_or_raise(), study.run.seed, study.adjust, study.data.on_outlier)
    return Site(name, checked.cohort_or_raise(), fewest, path.parent / f"{path.stem}-ledger.json")


def _to_model(content: bytes) -> FLModel:
    return FLModel(params_type=ParamsType.FULL, params={_MESSAGE: np.frombuffer(content, dtype=np.uint8)})


def _to_bytes(model: FLModel) -> bytes:
    params: Mapping[str, Sequence[int]] = model.params or {}
    if _MESSAGE not in params:
        raise ExchangeError("a message of FLARE holds no message of rindices: look at its log.")
    return np.asarray(params[_MESSAGE], dtype=np.uint8).tobytes()
