"""NVIDIA FLARE as transport (extra ``federated``): a controller for the server and an executor for the clients.

The messages are those of all transports; FLARE takes them there with its own authentication. The table of a client is
named in a file at the client, never by the server: a study file of which the section ``data`` is read.
"""

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

from rindices.errors import RindicesError
from rindices.federated.exceptions import ExchangeError, RefusedError
from rindices.federated.messages import Answer, Request, compute_message_digest
from rindices.federated.privacy import FEWEST_PEOPLE
from rindices.federated.run import run_federated_study
from rindices.federated.site import Site
from rindices.study.config import make_study, read_study
from rindices.study.preflight import keep_training_scans
from rindices.tables.validation.validate import validate_table

_MESSAGE = "message"


class FlareTransport:
    """Takes requests to the clients of a FLARE job.

    Parameters
    ----------
    controller : ModelController
    """

    def __init__(self, controller: ModelController) -> None:
        self._controller = controller

    def ask(self, request: Request) -> list[Answer]:
        """Return the answers of all clients, in the order of their names.

        Raises
        ------
        ExchangeError
            If an answer is not of the client that sent it.
        RefusedError
            If a client refuses.
        """
        results = self._controller.send_model_and_wait(data=_to_model(request.encode()))
        answers = []
        for result in results:
            client = str((result.meta or {}).get("client_name", ""))
            answer = Answer.decode(_to_bytes(result), f"the answer of {client}")
            if answer.site != client:
                raise ExchangeError(f"the answer of {client} says that it is from {answer.site[:60]}: it is forged.")
            if "refused" in answer.facts:
                raise RefusedError(f"{client} refuses round {request.round}: {answer.facts['refused']}")
            answers.append(answer)
        return sorted(answers, key=lambda answer: answer.site)


class StudyController(ModelController):  # type: ignore[misc]
    """Fits a study across the clients of a FLARE job, and writes its files at the server.

    Parameters
    ----------
    out : str
        Folder for the files.
    n_clients : int
        Clients that take part.
    settings : mapping, optional
        Section ``model`` of a study file.
    seed : int
    adjust : {'log', 'linear', 'none'}, optional
    with_distances : bool
    """

    def __init__(
        self,
        out: str,
        n_clients: int,
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        adjust: str | None = None,
        with_distances: bool = True,
    ) -> None:
        super().__init__()
        self.out, self.n_clients, self.settings = out, n_clients, dict(settings or {})
        self.seed, self.adjust, self.with_distances = seed, adjust, with_distances

    def run(self) -> None:
        """Run the study; called by FLARE."""
        study = make_study({"data": {"volumes": "clients"}, "model": self.settings}, "the job")
        run_federated_study(
            FlareTransport(self),
            study.model,
            self.seed,
            adjust=self.adjust,
            with_distances=self.with_distances,
            out=Path(self.out),
        )


class SiteExecutor(Executor):  # type: ignore[misc]
    """Answers the requests of a `StudyController` with sums over the people of a client.

    Parameters
    ----------
    study : str
        Study file at the client that names the table; ``{client}`` stands for the name of the client.
    fewest : int
        Fewest people of a sum.
    """

    def __init__(self, study: str, fewest: int = FEWEST_PEOPLE) -> None:
        super().__init__()
        self.study, self.fewest = study, fewest
        self._site: Site | None = None

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Answer one request; called by FLARE."""
        client = str(fl_ctx.get_prop(FLContextKey.CLIENT_NAME) or fl_ctx.get_identity_name())
        content = _to_bytes(FLModelUtils.from_shareable(shareable, fl_ctx))
        request = Request.decode(content)
        try:
            if self._site is None:
                self._site = _read_site(client, Path(self.study.format(client=client)), self.fewest)
            answer = self._site.answer(request)
        except RindicesError as error:
            digest = compute_message_digest(content)
            answer = Answer(client, request.kind, request.round, digest, {}, {}, {"refused": str(error)})
        return FLModelUtils.to_shareable(_to_model(answer.encode()))


def _read_site(name: str, path: Path, fewest: int) -> Site:
    """Return the site of a study file; the ledger lies beside it."""
    study = read_study(path)
    result = validate_table(study.data.request(path.parent))
    cohort, _ = keep_training_scans(result.cohort_or_raise(), result.problems)
    return Site(name, cohort, fewest, path.parent / f"{path.stem}-ledger.json")


def _to_model(content: bytes) -> FLModel:
    return FLModel(params_type=ParamsType.FULL, params={_MESSAGE: np.frombuffer(content, dtype=np.uint8)})


def _to_bytes(model: FLModel) -> bytes:
    params: Mapping[str, Sequence[int]] = model.params or {}
    if _MESSAGE not in params:
        raise ExchangeError("a message of FLARE holds no message of rindices: look at its log.")
    return np.asarray(params[_MESSAGE], dtype=np.uint8).tobytes()
