"""The study file: data, model and engine of a study, checked when they are read."""

import json
import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    Field,
    ValidationError,
    field_validator,
)

from rindices._typing import BoolArray
from rindices.errors import (
    Problem,
    RindicesError,
    StudyError,
    describe_os_error,
    did_you_mean,
)
from rindices.learners.prepared_people import round_members
from rindices.model.normal_reference import MUSE_REFERENCE
from rindices.preprocess.pipeline import Preprocessing
from rindices.study.methods import (
    DEFAULT_METHOD,
    METHODS,
    MethodValues,
    StudyMethod,
    get_study_method,
)
from rindices.study.settings import (
    SettingSource,
    describe_fault,
    list_unused_settings,
    rename_old_settings,
)
from rindices.tables.checks.ids import has_control_characters
from rindices.tables.cohort import Cohort
from rindices.tables.options import DataOptions, Texts
from rindices.tables.readers import locate_people_files, make_request
from rindices.tables.sources.frames import locate
from rindices.tables.validate import TableRequest


class _ConfigSection(BaseModel):
    model_config = {"frozen": True, "extra": "forbid"}


class DataConfig(DataOptions):
    """Table, columns and adjustment.

    See `rindices.read_cohort` and `rindices.Preprocessing.fit`.

    Attributes
    ----------
    volumes : Texts
        The table, or several.
    """

    volumes: Texts = Field(validation_alias=AliasChoices("volumes", "table"))

    def request(self, folder: Path) -> TableRequest:
        """Return the request to read the table; paths are relative to a folder."""
        paths = [locate(folder, path) for path in self.volumes]
        participants = (
            None if self.participants is None else locate(folder, self.participants)
        )
        people = locate_people_files(folder, self.exclude_people)
        options = self.model_copy(update={"exclude_people": tuple(people)})
        return make_request(paths, participants, options)


class ModelConfig(_ConfigSection):
    """Method, numbers of patterns and ensemble members. See `rindices.fit`.

    Attributes
    ----------
    patterns : tuple of int or None
        Numbers of patterns to try. By default, the tests decide.
    orthogonality : tuple of float or None
        Weights lambda to try.
    members : int
        Number of ensemble members.
    method : str
        Name of the method.
    method_settings : dict
        Values of the method to change, by name.
    correlated : bool
        Whether to learn a copula between the severities.
    """

    patterns: tuple[int, ...] | None = None
    orthogonality: tuple[float, ...] | None = None
    members: int = Field(default=10, ge=1, le=1000)
    method: str = DEFAULT_METHOD
    method_settings: dict[str, float | int | bool | str] = Field(default_factory=dict)
    correlated: bool = False

    @field_validator("patterns", "orthogonality", mode="before")
    @classmethod
    def _make_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, int | float) else value

    @field_validator("method", mode="before")
    @classmethod
    def _check_method(cls, value: Any) -> Any:
        if not isinstance(value, str) or value not in METHODS:
            raise ValueError(
                f"there is no method {value!r}: {did_you_mean(str(value), list(METHODS))}"
            )
        return value

    @field_validator("patterns", "orthogonality")
    @classmethod
    def _check_list(
        cls, value: tuple[float, ...] | None, info: Any
    ) -> tuple[float, ...] | None:
        least = 1 if info.field_name == "patterns" else 0
        if value is not None and (not value or min(value) < least):
            raise ValueError(
                f"{min(value):g} is below {least}" if value else "there is no number"
            )
        return value

    def get_method(self) -> StudyMethod:
        """Return the method."""
        return get_study_method(self.method)

    def resolve_values(self) -> MethodValues:
        """Return all values of the method."""
        return self.get_method().resolve_values(self.method_settings, self.correlated)

    def list_weights(self) -> tuple[float | None, ...]:
        """Return the weights lambda of the grid: those of the study, else those of the
        method.
        """
        weights = self.get_method().orthogonality_weights
        if not weights:
            return (None,)
        return (
            weights
            if self.orthogonality is None
            else tuple(dict.fromkeys(self.orthogonality))
        )

    @property
    def n_members(self) -> int:
        """Number of members, rounded up to whole sets of folds for methods whose
        members leave people out.
        """
        return (
            round_members(self.members)
            if self.get_method().leaves_people_out
            else self.members
        )

    @property
    def forced(self) -> int | None:
        """The number of patterns, if the study names a single one; it is then trained
        whatever the tests say.
        """
        return (
            self.patterns[0]
            if self.patterns is not None and len(set(self.patterns)) == 1
            else None
        )


class _JobSection(_ConfigSection):
    """Values that get into job scripts: a line break there would begin
    another command.
    """

    @field_validator("*")
    @classmethod
    def _refuse_control_characters(cls, value: Any) -> Any:
        texts = value if isinstance(value, tuple) else (value,)
        if any(
            isinstance(text, str) and has_control_characters(text) for text in texts
        ):
            raise ValueError(
                "a line break or another control character cannot be in it; write one entry per line"
            )
        return value


class QueueConfig(_JobSection):
    """Request for each job of a batch system.

    Attributes
    ----------
    partition : str or None
        Partition. PBS, LSF and SGE call it a queue.
    account : str or None
        Account. LSF and SGE call it a project.
    walltime : str
        Largest duration of a job.
    memory : str
        Memory of a job.
    cores : int
        Number of workers per job.
    jobs : int
        Number of jobs.
    directives : tuple of str
        Lines added to the header of the job.
    setup : tuple of str
        Commands to run before the workers.
    interface : str or None
        Network that jobs and client share.
    """

    partition: str | None = None
    account: str | None = None
    walltime: str = "12:00:00"
    memory: str = "4GB"
    cores: int = Field(default=1, ge=1)
    jobs: int = Field(default=1, ge=1)
    directives: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    interface: str | None = None

    @field_validator("walltime")
    @classmethod
    def _check_walltime(cls, value: str) -> str:
        if not re.fullmatch(r"(\d+-)?\d+(:\d\d){1,2}", value):
            raise ValueError("write it as 12:00:00 or 2-00:00:00")
        return value


class RunConfig(_JobSection):
    """Where and how a study is trained.

    Attributes
    ----------
    engine : {'local', 'dask', 'slurm', 'pbs', 'lsf', 'sge'}
        This machine, Dask or a batch system.
    seed : int
        Seed of all random numbers.
    workers : int
        Number of processes. -1 means all cores.
    scheduler : str or None
        Address of a Dask scheduler.
    in_parts : bool
        Whether the table is fitted part by part.
    slurm, pbs, lsf, sge : QueueConfig or None
        Request for each job of this batch system.
    """

    engine: Literal["local", "dask", "slurm", "pbs", "lsf", "sge"] = "local"
    seed: int = Field(default=0, ge=0)
    workers: int = Field(default=-1, ge=-1)
    scheduler: str | None = None
    in_parts: bool = False
    slurm: QueueConfig | None = None
    pbs: QueueConfig | None = None
    lsf: QueueConfig | None = None
    sge: QueueConfig | None = None

    @field_validator("workers")
    @classmethod
    def _check_workers(cls, value: int) -> int:
        if value == 0:
            raise ValueError(
                "0 workers cannot work: give their number, or -1 for all cores"
            )
        return value


class StudyConfig(_ConfigSection):
    """All settings of a study.

    Attributes
    ----------
    data : DataConfig
        Table, columns and adjustment.
    model : ModelConfig
        Method, numbers of patterns and ensemble members.
    run : RunConfig
        Where and how it is trained.
    """

    data: DataConfig
    model: ModelConfig = ModelConfig()
    run: RunConfig = RunConfig()

    @property
    def adjust(self) -> str | None:
        """Scale of the adjustment that the study or its method names."""
        return self.data.adjust or self.model.get_method().adjust

    @property
    def has_straight_age(self) -> bool:
        """Whether the study or its method adjusts for age along a straight line."""
        is_published = self.model.get_method().adjust == "linear"
        return self.data.age_curve is None or is_published

    @property
    def on_outlier(self) -> str | None:
        """What becomes of outlying measurements, as the study or its method says."""
        return self.data.on_outlier or self.model.get_method().on_outlier

    def fit_preprocessing(
        self,
        cohort: Cohort,
        seen: BoolArray | None = None,
        age_knots: tuple[float, ...] | None = None,
    ) -> Preprocessing:
        """Learn the adjustment of a cohort with the settings of this study, from
        everyone or from the people seen.

        age_knots: where they are chosen already.
        """
        if self.has_straight_age:
            age_knots = ()
        return Preprocessing.fit(
            cohort,
            self.data.harmonise,
            self.adjust,
            self.data.icv_for,
            seen,
            self.data.harmonise_to,
            age_knots,
        )


def _say_nothing(text: str) -> None:
    """Say nothing about settings that a study calls by their old names."""


def read_study(
    path: Path, volumes: str | None = None, say: Callable[[str], object] = _say_nothing
) -> StudyConfig:
    """Read a study file, and report all its problems at once.

    Parameters
    ----------
    path : Path
        The study file.
    volumes : str or None
        Its table, if the file may name none.
    say : callable
        Called with the new names of settings that the file calls by their old ones.
    """
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise StudyError(
            f"{path} cannot be read ({describe_os_error(error)}): check the path."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StudyError(f"{path.name} is not a study file: {error}.") from error
    if volumes is not None:
        values["data"] = {"volumes": volumes} | values.get("data", {})
    return make_study(values, path.name, say)


def merge_options(
    path: Path,
    options: dict[str, dict[str, Any]],
    say: Callable[[str], object] = _say_nothing,
) -> dict[str, dict[str, Any]]:
    """Return the values of a study file with absolute paths, overridden by the options
    of a command.
    """
    stored = read_study(path, say=say).model_dump(exclude_defaults=True)
    folder = path.absolute().parent
    stored["data"]["volumes"] = [
        str(folder / table) for table in stored["data"]["volumes"]
    ]
    for key in ("participants", "reference"):
        if key in stored["data"] and stored["data"][key] != MUSE_REFERENCE:
            stored["data"][key] = str(folder / stored["data"][key])
    if people := stored["data"].get("exclude_people"):
        stored["data"]["exclude_people"] = locate_people_files(folder, people)
    merged = {name: stored.get(name, {}) | options[name] for name in options}
    changes = stored.get("model", {}).get("method_settings", {}) | options["model"].get(
        "method_settings", {}
    )
    return (
        merged
        if not changes
        else merged | {"model": merged["model"] | {"method_settings": changes}}
    )


def make_study(
    values: dict[str, Any],
    source: SettingSource | str = "study",
    say: Callable[[str], object] = _say_nothing,
) -> StudyConfig:
    """Return the study of plain values.

    Settings that would have no effect are refused (`list_unused_settings`).

    Parameters
    ----------
    values : dict
        Sections of a study file.
    source : SettingSource or str
        Where the values come from, for messages.
    say : callable
        Called with the new names of settings that they call by their old ones.
    """
    source = SettingSource(source) if isinstance(source, str) else source
    if isinstance(values.get("model"), dict):
        values = values | {"model": rename_old_settings(values["model"], source, say)}
    try:
        study = StudyConfig(**values)
    except ValidationError as error:
        raise StudyError(
            [_describe_validation_error(fault, source) for fault in error.errors()]
        ) from error
    except TypeError as error:
        raise StudyError(
            f"{source.where}: a study has the tables [data], [model] and [run]."
        ) from error
    if unused := list_unused_settings(study, source):
        raise StudyError(unused)
    model = study.model
    if not (model.method_settings or model.correlated):
        return study  # a table alone is read without what methods need
    try:
        model.get_method().check_settings(model.method_settings, model.correlated)
    except RindicesError as error:
        raise StudyError(
            replace(problem, where=source.where) for problem in error.problems
        ) from error
    return study


def format_study_toml(study: StudyConfig) -> str:
    """Return the text of a study file; defaults are left out."""
    lines: list[str] = []
    for name in ("data", "model", "run"):
        section: BaseModel = getattr(study, name)
        values = section.model_dump(exclude_defaults=True)
        if name == "data":  # what is read comes first
            values = {"volumes": values.pop("volumes"), **values}
        if (
            values.get("measure") == "any"
        ):  # the table may hold other features than volumes
            values = {
                "table" if key == "volumes" else key: value
                for key, value in values.items()
            }
        lines += [
            f"[{name}]",
            *(f"{key} = {_format_toml_value(value)}" for key, value in values.items()),
            "",
        ]
    return "\n".join(lines)


def _format_toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{ "
            + ", ".join(
                f"{key} = {_format_toml_value(item)}" for key, item in value.items()
            )
            + " }"
        )
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_format_toml_value(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _describe_validation_error(fault: Any, source: SettingSource) -> Problem:
    """Return an error of pydantic as a problem."""
    place = tuple(map(str, fault["loc"]))
    sections: dict[str, type[BaseModel]] = {
        "data": DataConfig,
        "model": ModelConfig,
        "run": RunConfig,
    }
    section = (
        QueueConfig
        if len(place) > 2 and place[0] == "run"
        else sections.get(place[0], StudyConfig)
    )
    return describe_fault(fault, list(section.model_fields), source)
