"""A start kit that is closed: only this package's classes run, and nothing but its
answers leaves.

NVFLARE's own settings are open: a client streams its log to the server, a project admin
may read files of a kit, a job may bring code of its own, and a job may name a privacy
scope that no filter belongs to. `close_kit` writes other settings into the part of the
kit that belongs to the participant, ``local``, and `check_kit` reads them back before
every job.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from rindices_nvflare.core import StudyError, write_json

PACKAGE = "rindices_nvflare"
CLASSES = [f"{PACKAGE}.server.StudyController", f"{PACKAGE}.site.SiteExecutor"]
"""All classes that a job may name."""
SITE_FILE = "rindices-nvflare.json"
RESOURCES, AUTHORIZATION, PRIVACY = (
    "resources.json",
    "authorization.json",
    "privacy.json",
)
SCOPE = "rindices"
_KNOWN = {
    *(
        f"{name}{end}"
        for name in (RESOURCES, AUTHORIZATION, "log_config.json")
        for end in ("", ".default")
    ),
    *(PRIVACY, f"{PRIVACY}.sample", "comm_config.json", SITE_FILE, "README.md"),
}
_STREAMS = ("SiteLogStreamer", "JobLogStreamer", "JobLogReceiver")
_RIGHTS = (
    "clone_job",
    "download_job",
    "shell_commands",
    "byoc",
    "server-predeployed-flwr",
)
_CLOSED_RIGHTS: dict[str, Any] = {
    "format_version": "1.0",
    "permissions": {
        role: {
            "submit_job": "any" if role in ("project_admin", "lead") else "none",
            "manage_job": "any" if role in ("project_admin", "lead") else "none",
            "view": "any",
            "operate": "o:site",
            **dict.fromkeys(_RIGHTS, "none"),
        }
        for role in ("project_admin", "org_admin", "lead", "member")
    },
}
_CLOSED_PRIVACY: dict[str, Any] = {
    "scopes": [
        {
            "name": SCOPE,
            "properties": {},
            "task_data_filters": [{"path": f"{PACKAGE}.site.KeepQuestion", "args": {}}],
            "task_result_filters": [
                {"path": f"{PACKAGE}.site.RebuildAnswer", "args": {}}
            ],
        }
    ],
    "default_scope": SCOPE,
}


@dataclass(frozen=True, kw_only=True)
class SiteConfig:
    """What the person responsible for a site decides: in ``local``, so that no job can
    change it.

    Parameters
    ----------
    study : str
        Study file that names the table.
    private : str
        Folder outside the kit, for the site's own files.
    fewest : int
        Fewest people of a sum.
    sites : tuple of str
        Names of all sites of the study, this one among them.
    masked : bool
        Whether sums leave under masks alone.
    """

    study: str
    private: str
    fewest: int
    sites: tuple[str, ...]
    masked: bool

    @classmethod
    def read(cls, kit: Path) -> "SiteConfig":
        """Return what was decided for a kit.

        Raises StudyError: if the kit was not closed.
        """
        try:
            values = json.loads((kit / "local" / SITE_FILE).read_text("utf-8"))
            return cls(**{**values, "sites": tuple(values["sites"])})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise StudyError(
                f"{kit} is not closed: run rindices-nvflare kit {kit}."
            ) from error


def is_client(kit: Path) -> bool:
    """Return whether a start kit is that of a client, and not that of a server.

    Raises StudyError: if it is neither.
    """
    for name, answer in (("fed_client.json", True), ("fed_server.json", False)):
        if (kit / "startup" / name).is_file():
            return answer
    raise StudyError(
        f"{kit} is not the start kit of a client or of a server: give the folder that holds startup."
    )


def close_kit(kit: Path, config: SiteConfig | None = None) -> None:
    """Write the closed settings into a start kit.

    Parameters
    ----------
    kit : Path
        Folder that holds ``startup`` and ``local``.
    config : SiteConfig, optional
        Of a client; its folder for own files is made.

    Raises
    ------
    StudyError
        If the kit is not one, or is still open afterwards.
    """
    local, is_of_client = kit / "local", is_client(kit)
    source = next(
        (
            path
            for path in (local / RESOURCES, local / f"{RESOURCES}.default")
            if path.is_file()
        ),
        None,
    )
    if source is None:
        raise StudyError(f"{local} has no {RESOURCES}: package the start kit again.")
    resources = json.loads(source.read_text("utf-8"))
    resources |= {
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": CLASSES,
        "allow_log_streaming": False,
    }
    resources["components"] = [
        each for each in resources["components"] if not _is_stream(each)
    ]
    if not is_of_client:
        _keep_store_in(kit.absolute(), resources)
    write_json(local / RESOURCES, resources)
    write_json(local / AUTHORIZATION, _CLOSED_RIGHTS)
    if is_of_client:
        assert config is not None
        private = Path(config.private)
        if private.absolute().is_relative_to(kit.absolute()):
            raise StudyError(
                f"{private} is inside the start kit: give a folder outside it (--private)."
            )
        private.mkdir(parents=True, exist_ok=True)
        write_json(local / PRIVACY, _CLOSED_PRIVACY)
        write_json(local / SITE_FILE, asdict(config))
    if faults := check_kit(kit):
        raise StudyError(f"{kit} is still open: {'; '.join(faults)}.")


def check_kit(kit: Path, running: bool = False) -> list[str]:
    """Return what is open in a start kit: nothing if it is closed.

    Parameters
    ----------
    kit : Path
    running : bool
        Also whether a setting was changed after the client that this process belongs
        to was started.

    Returns
    -------
    list of str
        One sentence for each fault.
    """
    local, faults = kit / "local", []
    try:
        is_of_client = is_client(kit)
        resources = json.loads((local / RESOURCES).read_text("utf-8"))
        rights = json.loads((local / AUTHORIZATION).read_text("utf-8"))
        privacy = (
            json.loads((local / PRIVACY).read_text("utf-8"))
            if is_of_client
            else _CLOSED_PRIVACY
        )
    except (OSError, ValueError, StudyError) as error:
        return [f"{type(error).__name__} where the closed settings should be"]
    if (
        resources.get("class_allow_list") != CLASSES
        or resources.get("class_list_enforcement_mode") != "enforce"
    ):
        faults.append("classes of others may run")
    if resources.get("allow_log_streaming") is not False or any(
        map(_is_stream, resources.get("components", []))
    ):
        faults.append("the log leaves")
    if rights != _CLOSED_RIGHTS:
        faults.append("admins may read files, or jobs may bring code")
    if privacy != _CLOSED_PRIVACY:
        faults.append("a privacy scope is open")
    if others := sorted(
        path.name for path in local.iterdir() if path.name not in _KNOWN
    ):
        faults.append(f"local holds {len(others)} other files")
    if (kit / "custom").exists():
        faults.append("the kit holds code")
    if running and not faults and _is_newer(local):
        faults.append("settings were changed after the start: start the client again")
    return faults


def _is_stream(component: Mapping[str, Any]) -> bool:
    return str(component.get("path", "")).rpartition(".")[2] in _STREAMS


def _keep_store_in(kit: Path, resources: dict[str, Any]) -> None:
    """Let a server keep jobs and snapshots in its own kit, and not in a folder that all
    users of a machine share.
    """
    for component in resources["components"]:
        if component["id"] == "job_manager":
            component["args"]["uri_root"] = str(kit / "jobs-storage")
    storage = (
        resources.get("snapshot_persistor", {})
        .get("args", {})
        .get("storage", {})
        .get("args")
    )
    if storage is not None:
        storage["root_dir"] = str(kit / "snapshot-storage")


def _is_newer(local: Path) -> bool:
    """Return whether a setting is newer than the oldest NVFLARE process that started
    this one.
    """
    started = [
        process.create_time()
        for process in (
            psutil.Process(os.getpid()),
            *psutil.Process(os.getpid()).parents(),
        )
        if any(word.startswith("nvflare.private") for word in process.cmdline())
    ]
    return max(path.stat().st_mtime for path in local.iterdir()) > min(
        started, default=0.0
    )
