"""A site: an executor that answers with sums over its people, and the filters that
rebuild each answer once more.
"""

import json
import secrets
import traceback
from pathlib import Path
from threading import Lock

import numpy as np
from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.filter import Filter
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from nvflare.fuel.f3.cellnet.core_cell import Message, MessageHeaderKey
from nvflare.fuel.f3.cellnet.defs import ReturnCode as CellReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.streaming.stream_const import STREAM_CHANNEL, STREAM_DATA_TOPIC
from nvflare.private.defs import CellChannel, new_cell_message

from rindices_nvflare import masks, wire
from rindices_nvflare.core import (
    DESCRIBE,
    MASKED,
    LocalPeople,
    Request,
    RindicesError,
    VisitsError,
    describe_table,
    find_fewest,
    is_masked,
    open_site,
    sum_people,
    tabulate_people,
    write_atomically,
)
from rindices_nvflare.kit import SCOPE, SiteConfig, check_kit
from rindices_nvflare.register import Register, digest_people, write_log
from rindices_nvflare.wire import COMPARE, HELLO, MESSAGE, SEEDS, SUMS, Code, SiteError

TOPIC = "rindices_seed"
_SEED, _WAS_ENCRYPTED, _QUESTION = "seed", "rindices_was_encrypted", "rindices_question"
_SEED_SECONDS = 20.0


class SiteExecutor(Executor):  # type: ignore[misc]
    """Answers the questions of a study with sums over the people of a site.

    The table, the list of sites and all limits are those of the site's own files; a job
    cannot name others.
    """

    def __init__(self) -> None:
        super().__init__()
        self._site: LocalPeople | None = None
        self._config: SiteConfig | None = None
        self._seeds: dict[str, bytes] = {}
        self._used: set[int] = set()
        self._name, self._lock = "", Lock()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Listen for seeds from the start of the job; called by FLARE."""
        if event_type == EventType.START_RUN:
            self._name, cell = (
                str(fl_ctx.get_identity_name()),
                fl_ctx.get_engine().get_cell(),
            )
            cell.core_cell.add_incoming_filter(
                STREAM_CHANNEL, STREAM_DATA_TOPIC, _note_encryption
            )
            cell.register_request_cb(
                channel=CellChannel.AUX_COMMUNICATION, topic=TOPIC, cb=self._take_seed
            )

    def execute(
        self,
        task_name: str,
        shareable: Shareable,
        fl_ctx: FLContext,
        abort_signal: Signal,
    ) -> Shareable:
        """Answer one question; called by FLARE. No exception leaves, and no text."""
        declared: wire.Declared = {}
        try:
            message = read_message(shareable)
            declared = wire.declare(task_name, message)
            arrays = {
                wire.STATUS: np.zeros(wire.N_STATUS, np.int64),
                **self._answer(task_name, message, fl_ctx),
            }
        except SiteError as error:
            self._log(fl_ctx, f"{task_name}: {error}")
            arrays = wire.make_status(error.code, error.number)
        except RindicesError as error:
            self._log(fl_ctx, f"{task_name}: {error}")
            arrays = wire.make_status(Code.REFUSED)
        except BaseException:
            self._log(fl_ctx, f"{task_name}: {traceback.format_exc()}")
            arrays = wire.make_status(Code.FAILED)
        return write_answer(wire.rebuild(arrays, declared))

    def _answer(self, task: str, message: bytes, fl_ctx: FLContext) -> wire.Arrays:
        kit = Path(fl_ctx.get_engine().get_workspace().get_root_dir())
        if faults := check_kit(kit, running=True):
            self._log(fl_ctx, f"the kit is open: {'; '.join(faults)}")
            raise SiteError(Code.KIT_OPEN)
        if getattr(fl_ctx.get_prop(FLContextKey.SCOPE_OBJECT), "name", None) != SCOPE:
            raise SiteError(Code.KIT_OPEN)
        if self._config is None:
            self._config = SiteConfig.read(kit)
        answers = {
            HELLO: self._describe,
            SEEDS: self._send_seeds,
            SUMS: self._sum,
            COMPARE: self._compare,
        }
        return answers[task](message, fl_ctx)

    @property
    def _others(self) -> set[str]:
        assert self._config is not None
        return set(self._config.sites) - {self._name}

    def _describe(self, message: bytes, fl_ctx: FLContext) -> wire.Arrays:
        """Return numbers of people and facts about the table, after people and plan
        were bound.
        """
        config, plan = self._config, json.loads(message)
        assert config is not None
        if plan["sites"] != sorted(config.sites) or self._name not in config.sites:
            raise SiteError(Code.OTHER_SITES)
        if config.masked and not plan["settings"]["masked"]:
            raise SiteError(Code.UNMASKED)
        if self._site is None:
            try:
                self._site = open_site(self._name, Path(config.study))
            except (RindicesError, OSError) as error:
                self._log(fl_ctx, f"the table: {error}")
                is_visits = isinstance(error, VisitsError)
                code = Code.VISITS if is_visits else Code.NO_TABLE
                raise SiteError(code) from error
        site, described = self._site, describe_table(self._site, config.fewest)
        facts = wire.encode_facts(described.facts, plan["columns"])
        if any(0 < number < config.fewest for number in described.numbers):
            raise SiteError(Code.REFUSED)
        Register(Path(config.private)).begin(digest_people(site), plan)
        return {"people": np.array(described.numbers, dtype=np.int64), "facts": facts}

    def _send_seeds(self, message: bytes, fl_ctx: FLContext) -> wire.Arrays:
        """Send a fresh seed to each site with a later name; those with earlier names
        send theirs.
        """
        failed = 0
        for other in sorted(name for name in self._others if name > self._name):
            seed = secrets.token_bytes(masks.SEED_BYTES)
            request, engine = Shareable({_SEED: seed}), fl_ctx.get_engine()
            got = engine.send_aux_request(
                [other], TOPIC, request, _SEED_SECONDS, fl_ctx, secure=True
            )
            if other in got and got[other].get_return_code() == ReturnCode.OK:
                with self._lock:
                    self._seeds.setdefault(other, seed)
            else:
                failed += 1
        if failed:
            raise SiteError(Code.NO_SEED_SENT, failed)
        return {}

    def _take_seed(self, message: Message) -> Message:
        """Take the seed of another site, once, if its own encryption says who it is."""
        origin = FQCN.get_root(message.get_header(MessageHeaderKey.ORIGIN))
        seed = (
            message.payload.get(_SEED)
            if isinstance(message.payload, Shareable)
            else None
        )
        is_encrypted, code = (
            bool(message.get_header(_WAS_ENCRYPTED, False)),
            ReturnCode.ERROR,
        )
        with self._lock:
            is_expected = (
                self._config is not None
                and origin in self._others
                and origin < self._name
            )
            is_new = is_expected and origin not in self._seeds
            if (
                is_encrypted
                and is_new
                and isinstance(seed, bytes)
                and len(seed) == masks.SEED_BYTES
            ):
                self._seeds[origin], code = seed, ReturnCode.OK
        reply = new_cell_message({}, make_reply(code))
        reply.set_header(MessageHeaderKey.RETURN_CODE, CellReturnCode.OK)
        return reply

    def _sum(self, message: bytes, fl_ctx: FLContext) -> wire.Arrays:
        """Return sums over the people of the site; under masks, one array of masked
        integers.
        """
        request, config = Request.decode(message), self._config
        if self._site is None or config is None or request.kind == DESCRIBE:
            raise SiteError(Code.OTHER_PLAN)
        if config.masked and not is_masked(request):
            raise SiteError(Code.UNMASKED)
        if is_masked(request):
            if missing := self._others - set(self._seeds):
                raise SiteError(Code.SEEDS_MISSING, len(missing))
            if request.round in self._used:
                raise SiteError(Code.MASK_USED, request.round)
        numbers, arrays = sum_people(self._site, request)
        if (
            not is_masked(request)
            and 0 < find_fewest(request, numbers, arrays) < config.fewest
        ):
            raise SiteError(Code.REFUSED)
        Register(Path(config.private)).count(request.round, request.digest)
        if not is_masked(request):
            return {"numbers": np.array(numbers, dtype=np.int64), **arrays}
        self._used.add(request.round)
        return {
            MASKED: masks.mask(arrays[MASKED], self._name, self._seeds, request.round)
        }

    def _compare(self, message: bytes, fl_ctx: FLContext) -> wire.Arrays:
        """Keep the model of the study and the R-indices of own people; return one
        number, rounded to hundredths.

        It is how often a patient of the site has a higher cross-fitted R-index, summed
        over patterns, than a control.
        """
        site, config = self._site, self._config
        assert site is not None
        assert config is not None
        folder = Path(config.private)
        write_atomically(folder / "model.safetensors", message)
        table, is_patient = tabulate_people(site, folder / "model.safetensors")
        table.to_csv(folder / "r_indices.tsv", sep="\t", index=False)
        names = [
            name for name in table.columns if name[0] == "r" and name[1:].isdecimal()
        ]
        severity = table[names].to_numpy(dtype=float).sum(axis=1)
        groups = [
            severity[mask & np.isfinite(severity)] for mask in (~is_patient, is_patient)
        ]
        if min(map(len, groups)) < max(config.fewest, 1):
            raise SiteError(Code.TOO_FEW)
        controls, patients = groups
        higher = (patients[:, None] > controls).mean() + 0.5 * (
            patients[:, None] == controls
        ).mean()
        return {"hundredths": np.array(round(100 * float(higher)), dtype=np.int64)}

    def _log(self, fl_ctx: FLContext, text: str) -> None:
        """Write to the site's own log, outside the kit; without one, say nothing at
        all.
        """
        try:
            config = self._config or SiteConfig.read(
                Path(fl_ctx.get_engine().get_workspace().get_root_dir())
            )
            write_log(Path(config.private), text)
        except Exception:
            return


class KeepQuestion(Filter):  # type: ignore[misc]
    """Keeps what a question declares, for the filter of its answer."""

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Called by FLARE before the executor."""
        declared: wire.Declared = {}
        try:
            declared = wire.declare(
                str(fl_ctx.get_prop(FLContextKey.TASK_NAME)), read_message(shareable)
            )
        finally:
            fl_ctx.set_prop(_QUESTION, declared, private=True, sticky=False)
        return shareable


class RebuildAnswer(Filter):  # type: ignore[misc]
    """Rebuilds an answer from what its question declared, after any executor."""

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Called by FLARE after the executor."""
        try:
            arrays = FLModelUtils.from_shareable(shareable).params
        except Exception:
            arrays = {}
        return write_answer(
            wire.rebuild(arrays or {}, fl_ctx.get_prop(_QUESTION) or {})
        )


def read_message(shareable: Shareable) -> bytes:
    """Return the bytes that a server sent."""
    return np.asarray(
        FLModelUtils.from_shareable(shareable).params[MESSAGE], dtype=np.uint8
    ).tobytes()


def write_answer(arrays: wire.Arrays) -> Shareable:
    """Return arrays in a fresh message, which has nothing else."""
    return FLModelUtils.to_shareable(
        FLModel(params_type=ParamsType.FULL, params=arrays)
    )


def _note_encryption(message: Message) -> None:
    """Note whether a message came encrypted, before FLARE decrypts it by the
    certificate of its origin.
    """
    is_encrypted = all(
        message.get_header(key, False)
        for key in (MessageHeaderKey.SECURE, MessageHeaderKey.ENCRYPTED)
    )
    message.set_header(_WAS_ENCRYPTED, is_encrypted)
