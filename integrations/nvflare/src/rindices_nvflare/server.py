"""The server: a controller that runs a study and asks all sites in rounds."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.workflows.model_controller import ModelController

from rindices_nvflare import masks, wire
from rindices_nvflare.checkpoint import Checkpoint
from rindices_nvflare.core import (
    ALL_SITES,
    DESCRIBE,
    GROUPS,
    MASKED,
    N_FOLDS,
    Answer,
    Request,
    RindicesError,
    StudyError,
    ask_for_masks,
    count_sets,
    find_fewest,
    join_names,
    list_sums,
    read_total,
    run_study,
    write_json,
)
from rindices_nvflare.kit import check_kit
from rindices_nvflare.wire import COMPARE, HELLO, MESSAGE, SEEDS, SUMS

_CHECK_SECONDS = 0.02
_START_SECONDS = 90
"""Seconds to wait for the first answers, before which sites start a process and read
their tables.
"""
_MOST_PEOPLE = 1e9


class StudyController(ModelController):  # type: ignore[misc]
    """Runs a study across the sites of a job, and writes its files at the server.

    Parameters
    ----------
    out : str
        Folder for the files; a relative path begins at the server's start kit.
    sites : list of str
        Names of all sites.
    settings : mapping
        See `rindices_nvflare.core.make_settings`.
    columns : mapping
        Names of regions, covariates and categories, which sites compare with their own.
    wait : int
        Seconds to wait for the answers of a round.
    fewest : int
        Fewest people of a total.
    """

    def __init__(
        self,
        out: str,
        sites: list[str],
        settings: Mapping[str, Any],
        columns: Mapping[str, Any],
        wait: int = 60,
        fewest: int = 10,
    ) -> None:
        super().__init__()
        self.out, self.sites, self.settings, self.columns = (
            out,
            sorted(sites),
            settings,
            columns,
        )
        self.wait, self.fewest, self._said = wait, fewest, False

    def run(self) -> None:
        """Run the study; called by FLARE."""
        kit = Path(self.engine.get_workspace().get_root_dir())
        self.communicator._task_check_period = (
            _CHECK_SECONDS  # 2.9.0 takes no argument for it
        )
        plan = {"settings": self.settings, "sites": self.sites, "columns": self.columns}
        try:
            if faults := check_kit(kit):
                raise StudyError(
                    f"the server's start kit is open ({'; '.join(faults)}): run rindices-nvflare kit."
                )
            checkpoint = Checkpoint(kit / self.out, plan)
        except RindicesError as error:
            self._end(str(error))
            return
        try:
            ending = self._run_study(checkpoint, plan)
            checkpoint.say(ending, finished=True)
        except Exception as error:
            text = (
                str(error)
                if isinstance(error, RindicesError)
                else f"{type(error).__name__}: {error}"
            )
            checkpoint.say(text)
            self._end(text)

    def _end(self, text: str) -> None:
        self.error(text)
        self.panic(text)

    def _run_study(self, checkpoint: Checkpoint, plan: Mapping[str, Any]) -> str:
        rounds = SiteRounds(self, checkpoint, plan, self.fewest)
        checkpoint.say("running")
        result = run_study(rounds.ask, self.settings, checkpoint.folder, self.info)
        facts = checkpoint.folder / "rounds.json"
        sent = {"bytes_sent_by_a_part": rounds.bytes_sent}
        write_json(facts, json.loads(facts.read_text("utf-8")) | sent)
        if result.model is None:
            return result.ending
        model = (checkpoint.folder / "model.safetensors").read_bytes()
        told = self.ask_sites(COMPARE, model, refuse=False)
        agreement = {
            name: int(arrays["hundredths"]) / 100
            if "hundredths" in arrays
            else wire.say(arrays[wire.STATUS])
            for name, arrays in told.items()
        }
        write_json(
            checkpoint.folder / "sites.json", {"patients above controls": agreement}
        )
        return f"finished: {result.finding}"

    def ask_sites(
        self, task: str, message: bytes, refuse: bool = True
    ) -> dict[str, wire.Arrays]:
        """Return what each site answers to a question, in the order of their names.

        Raises StudyError: that names the sites that do not answer, or refuse.
        """
        params = {MESSAGE: np.frombuffer(message, dtype=np.uint8)}
        model = FLModel(params_type=ParamsType.FULL, params=params)
        seconds = max(self.wait, _START_SECONDS) if task == HELLO else self.wait
        results = self.send_model_and_wait(
            task, model, targets=self.sites, timeout=seconds
        )
        declared = wire.declare(task, message)
        got = {
            result.meta["client_name"]: wire.rebuild(result.params, declared)
            for result in results
        }
        if missing := [name for name in self.sites if name not in got]:
            raise StudyError(
                f"no answer of {join_names(missing)} within {seconds} seconds: start its client, and submit the same "
                "job again, which goes on there."
            )
        refused = [
            f"{name} {wire.say(each[wire.STATUS])}"
            for name, each in sorted(got.items())
            if each[wire.STATUS][0]
        ]
        if refused and refuse:
            raise StudyError(f"{'; '.join(refused)}.")
        return {name: got[name] for name in self.sites}


class SiteRounds:
    """Answers the requests of a study by rounds, or from what was kept of them.

    Under masks there is one answer, the total of all sites, because nothing else is
    known.

    Attributes
    ----------
    bytes_sent : int
        Bytes of the sums that each site sent so far; masked sums take twice as many.
    """

    def __init__(
        self,
        controller: StudyController,
        checkpoint: Checkpoint,
        plan: Mapping[str, Any],
        fewest: int,
    ) -> None:
        self._controller, self._checkpoint, self._plan, self._fewest = (
            controller,
            checkpoint,
            plan,
            fewest,
        )
        self.bytes_sent = 0

    def ask(self, request: Request) -> Mapping[str, Answer]:
        """Return the answers of all sites to a request, or their total."""
        if request.kind == DESCRIBE:
            return self._describe(request)
        is_masked = self._plan["settings"][MASKED]
        request = ask_for_masks(request) if is_masked else request
        declared = list_sums(request)
        self.bytes_sent += wire.count_bytes(declared)
        if is_masked:
            kept = self._checkpoint.read(request)
            if kept is None:
                told = self._controller.ask_sites(SUMS, request.encode())
                kept = {MASKED: masks.add_all(each[MASKED] for each in told.values())}
                self._checkpoint.keep(request, kept)
            self._check_masks(request, kept[MASKED])
            answers = {ALL_SITES: read_total(request, kept[MASKED])}
            self._check_fewest(request, answers)
            return answers
        kept = self._checkpoint.read(request)
        if kept is None:
            told = self._controller.ask_sites(SUMS, request.encode())
            kept = {
                f"{name}/{key}": arrays[key]
                for name, arrays in told.items()
                for key in declared
            }
            self._checkpoint.keep(request, kept)
        answers = {}
        for name in self._controller.sites:
            arrays = {key: kept[f"{name}/{key}"] for key in declared}
            numbers = arrays.pop("numbers").tolist()
            answers[name] = Answer(
                request=request.digest, numbers=numbers, arrays=arrays
            )
        self._check_fewest(request, answers)
        return answers

    def _describe(self, request: Request) -> dict[str, Answer]:
        told = self._controller.ask_sites(HELLO, wire.write_message(self._plan))
        self._check_groups(
            {name: arrays["people"].tolist() for name, arrays in told.items()}
        )
        if self._plan["settings"][MASKED]:
            self._controller.ask_sites(SEEDS, wire.write_message({}))
        return {
            name: Answer(
                request=request.digest,
                numbers=arrays["people"].tolist(),
                facts=wire.decode_facts(arrays["facts"], self._plan["columns"]),
            )
            for name, arrays in told.items()
        }

    def _check_groups(self, people: Mapping[str, list[int]]) -> None:
        """Refuse groups of which all sites but one have few people: that site could
        tell their sums from means of a fold, which are parameters of the model.
        """
        fewest = self._fewest * N_FOLDS
        for k, group in enumerate(GROUPS):
            total = sum(numbers[k] for numbers in people.values())
            for name, numbers in people.items():
                if 0 < total - numbers[k] < fewest:
                    raise StudyError(
                        f"all sites but {name} have {total - numbers[k]} {group} together, "
                        f"and {name} could tell sums over few of them from the model: the "
                        f"fewest are {fewest}, {self._fewest} in each of {N_FOLDS} folds. "
                        "Let a larger site join."
                    )

    def _check_masks(self, request: Request, total: masks.Integers) -> None:
        """Refuse a total in which masks do not cancel."""
        for number in masks.to_numbers(total[: count_sets(request)]).tolist():
            if number != round(number) or not 0 <= number < _MOST_PEOPLE:
                raise StudyError(
                    f"the masks of round {request.round} do not cancel: let all sites install the same version, and "
                    "submit the same job again."
                )

    def _check_fewest(self, request: Request, answers: Mapping[str, Answer]) -> None:
        """Refuse a sum over few people, of all sites together or of one whose answer is
        seen.
        """
        for name, answer in answers.items():
            number = find_fewest(request, answer.numbers, answer.arrays)
            if 0 < number < self._fewest:
                raise StudyError(
                    f"{name}: round {request.round} ({request.kind}) has a sum over {number} people, and the fewest "
                    f"are {self._fewest}. Ask for fewer members, leave out a covariate with a rare category, or let "
                    "more people join."
                )
