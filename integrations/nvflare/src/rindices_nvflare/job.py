"""The folder of a job: names of classes and settings, no code and no table."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rindices_nvflare.core import (
    StudyError,
    join_names,
    make_settings,
    read_job_study,
    write_json,
)
from rindices_nvflare.kit import PACKAGE
from rindices_nvflare.wire import TASKS

FEWEST_MASKED = 3
"""Sites from which sums are masked by default: of two sites, the total less one's own
is the other's.
"""
_SECONDS = 0.05


def write_job(
    folder: Path,
    study_file: Path,
    sites: Sequence[str],
    columns: Mapping[str, Any],
    out: str,
    masked: bool | None = None,
    wait: int = 60,
    fewest: int = 10,
) -> None:
    """Write the folder of a job.

    Parameters
    ----------
    folder : Path
    study_file : Path
        Sections ``model`` and ``run`` of a study file.
    sites : sequence of str
        Names of all clients of the study.
    columns : mapping
        See `join_columns`.
    out : str
        Folder for the results at the server, relative to its start kit.
    masked : bool, optional
        Whether sums are masked; by default from three sites on.
    wait : int
        Seconds to wait for the answers of a round.
    fewest : int
        Fewest people of a total.

    Raises
    ------
    StudyError
        If there are too few sites, or the study file has settings without effect.
    """
    if len(set(sites)) != len(sites) or len(sites) < 2:
        raise StudyError(
            "a study between sites needs two of them or more: name each with --site."
        )
    is_masked = len(sites) >= FEWEST_MASKED if masked is None else masked
    if is_masked and len(sites) < FEWEST_MASKED:
        raise StudyError(
            f"masks hide nothing with {len(sites)} sites: leave --masks out."
        )
    settings = make_settings(read_job_study(study_file), is_masked)
    arguments = {
        "out": out, "sites": sorted(sites), "settings": settings, "columns": columns, "wait": wait, "fewest": fewest,
    }  # fmt: skip
    controller = {
        "id": "controller",
        "path": f"{PACKAGE}.server.StudyController",
        "args": arguments,
    }
    executor = {
        "tasks": list(TASKS),
        "executor": {"path": f"{PACKAGE}.site.SiteExecutor", "args": {}},
    }
    rest: dict[str, Any] = {
        "components": [],
        "task_data_filters": [],
        "task_result_filters": [],
    }
    config = folder / "app" / "config"
    config.mkdir(parents=True, exist_ok=True)
    server = {
        "format_version": 2,
        "server": {"task_request_interval": _SECONDS},
        "workflows": [controller],
        **rest,
    }
    client = {
        "format_version": 2,
        "default_task_fetch_interval": _SECONDS,
        "executors": [executor],
        **rest,
    }
    write_json(config / "config_fed_server.json", server)
    write_json(config / "config_fed_client.json", client)
    meta = {
        "name": folder.name,
        "resource_spec": {},
        "min_clients": len(sites),
        "mandatory_clients": sorted(sites),
        "deploy_map": {"app": ["server", *sorted(sites)]},
    }
    write_json(folder / "meta.json", meta)


def join_columns(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the columns of a job from those of one or more sites (``rindices-nvflare
    check --columns``).

    Raises StudyError: where sites have other regions, units or covariates.
    """
    first = dict(parts[0])
    for part in parts[1:]:
        for name in ("regions", "unit", "source"):
            if part[name] != first[name]:
                raise StudyError(
                    f"the {name} of the columns differ: let all sites use the same program."
                )
        if list(part["covariates"]) != list(first["covariates"]):
            names = sorted(set(part["covariates"]) ^ set(first["covariates"]))
            raise StudyError(
                f"the covariates differ ({join_names(names) or 'in their order'}): name the same ones."
            )
        first["covariates"] = {
            name: {
                "levels": sorted({*own["levels"], *part["covariates"][name]["levels"]})
            }
            for name, own in first["covariates"].items()
        }
    return first


def describe_columns(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a table: names of regions, covariates and categories that
    are not rare.
    """
    covariates = {
        name: {"levels": each["levels"]} for name, each in facts["covariates"].items()
    }
    return {
        "regions": facts["regions"],
        "unit": facts["unit"],
        "source": facts["source"],
        "covariates": covariates,
    }
