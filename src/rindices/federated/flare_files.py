"""Files for NVIDIA FLARE: the folder of a job, and what participants add to their start-up kits.

FLARE gives each participant a folder, the start-up kit. Its part ``local`` belongs to the participant alone. There,
``rindices.toml`` is a study file of which the section ``data`` is read; the section ``site`` may have ``fewest``.

A job names classes and settings and holds no code: rindices is installed by each participant.
"""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from rindices.atomic import write_atomically, write_json
from rindices.errors import StudyError, describe_os_error
from rindices.federated.fit import FederatedSettings
from rindices.federated.privacy import FEWEST_PEOPLE
from rindices.study.config import StudyConfig, format_study_toml, make_study

STUDY_FILE = "rindices.toml"
ALLOWED = "rindices.federated.nvflare"
"""Module of the classes that a job of rindices has."""
TASK = "train"
"""Name of the task that the server sends to its clients."""
_RESOURCES = "resources.json"
_ALLOW_LIST = "class_allow_list"


def write_flare_job(folder: Path, out: str, n_clients: int, settings: FederatedSettings, wait: int = 3600) -> None:
    """Write a job that can be submitted to a FLARE server.

    folder: folder of the job; its last part is the name of the job; out: folder at the server for the files; a relative
    path begins at the server's start-up kit; n_clients: clients that take part; the job begins when all of them are
    there; wait: seconds to wait for the answer of a client.
    """
    study = replace(settings, masked=False).to_dict()
    arguments = {"out": out, "n_clients": n_clients, "wait": wait, "settings": study}
    controller = {"id": "controller", "path": f"{ALLOWED}.StudyController", "args": arguments}
    executor = {"path": f"{ALLOWED}.SiteExecutor", "args": {}}
    rest: dict[str, Any] = {"components": [], "task_data_filters": [], "task_result_filters": []}
    config = folder / "app" / "config"
    config.mkdir(parents=True, exist_ok=True)
    write_json(config / "config_fed_server.json", {"format_version": 2, "workflows": [controller], **rest})
    executors = [{"tasks": [TASK], "executor": executor}]
    write_json(config / "config_fed_client.json", {"format_version": 2, "executors": executors, **rest})
    meta = {"name": folder.name, "resource_spec": {}, "min_clients": n_clients, "deploy_map": {"app": ["@ALL"]}}
    write_json(folder / "meta.json", meta)


def allow_jobs(kit: Path) -> None:
    """Let a participant run jobs of rindices: FLARE refuses classes that its list does not have.

    kit: start-up kit of a client or of the server. Raises StudyError: if it is not a start-up kit.
    """
    local = kit / "local"
    source = next((path for path in (local / _RESOURCES, local / f"{_RESOURCES}.default") if path.is_file()), None)
    if source is None:
        raise StudyError(f"{kit} is not a start-up kit: give a folder that nvflare provision wrote.")
    try:
        resources = json.loads(source.read_text("utf-8"))
        allowed = list(resources.get(_ALLOW_LIST, []))
    except (ValueError, AttributeError, TypeError) as error:
        raise StudyError(f"{source} cannot be read ({error}): provision the kit again.") from error
    if ALLOWED not in allowed:
        write_json(local / _RESOURCES, {**resources, _ALLOW_LIST: [*allowed, ALLOWED]})


def write_site_study(kit: Path, study: StudyConfig, fewest: int = FEWEST_PEOPLE) -> Path:
    """Name the table of a client in its start-up kit, and let it run jobs of rindices.

    study: paths of its tables are absolute, or relative to ``local``; fewest: fewest people of a sum. Returns the file
    that was written.
    """
    allow_jobs(kit)
    path = kit / "local" / STUDY_FILE
    data = StudyConfig(data=study.data)
    write_atomically(path, f"{format_study_toml(data)}\n[site]\nfewest = {fewest}\n".encode())
    return path


def read_site_study(path: Path) -> tuple[StudyConfig, int]:
    """Return the study that names the table of a client, and the fewest people of a sum.

    Raises StudyError: if the file cannot be read.
    """
    try:
        values = tomllib.loads(path.read_text("utf-8"))
        fewest = int(values.pop("site", {}).get("fewest", FEWEST_PEOPLE))
    except OSError as error:
        raise StudyError(f"{path} cannot be read ({describe_os_error(error)}): write it with rindices site.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, AttributeError, TypeError, ValueError) as error:
        raise StudyError(f"{path} is not a study file: {error}.") from error
    if fewest < 2:
        raise StudyError(f"{path}: fewest is {fewest}, and a sum over one person is the person: give 2 or more.")
    return make_study(values, path.name), fewest
