"""Start kits that are closed, the file of what a site answered,
checkpoints, and jobs.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from rindices_nvflare.checkpoint import Checkpoint
from rindices_nvflare.cli import app
from rindices_nvflare.core import (
    Request,
    StudyError,
    VisitsError,
    open_site,
    read_job_study,
)
from rindices_nvflare.job import join_columns, write_job
from rindices_nvflare.kit import SiteConfig, check_kit, close_kit
from rindices_nvflare.register import MAX_ROUNDS, Register
from rindices_nvflare.wire import Code, SiteError
from tests.people import STUDY, simulate_site, write_site, write_visits

SITES = ("site-1", "site-2", "site-3")
COLUMNS = {
    "regions": ["a"],
    "unit": "mm3",
    "source": "table",
    "covariates": {"sex": {"levels": ["F"]}},
}


def make_kit(folder: Path, kind: str = "client") -> Path:
    """Return a kit with the settings that NVFLARE writes, as far as they
    matter here.
    """
    (folder / "startup").mkdir(parents=True)
    (folder / "startup" / f"fed_{kind}.json").write_text("{}")
    (folder / "local").mkdir()
    stream = {
        "id": "site_log_streamer",
        "path": "nvflare.app_common.logging.site_log_streamer.SiteLogStreamer",
    }
    manager = {
        "id": "job_manager",
        "path": "x.SimpleJobDefManager",
        "args": {"uri_root": "/tmp/nvflare/jobs-storage"},
    }
    resources = {
        "class_allow_list": ["nvflare."],
        "allow_log_streaming": True,
        "components": [stream, manager],
    }
    (folder / "local" / "resources.json.default").write_text(json.dumps(resources))
    return folder


def close(folder: Path, private: Path) -> Path:
    close_kit(
        folder,
        SiteConfig(
            study="study.toml",
            private=str(private),
            fewest=10,
            sites=SITES,
            masked=True,
        ),
    )
    return folder


def test_a_kit_is_closed_and_read_back(tmp_path: Path) -> None:
    kit = make_kit(tmp_path / "kit")
    assert check_kit(kit)
    close(kit, tmp_path / "private")
    assert check_kit(kit) == []
    assert SiteConfig.read(kit).sites == SITES
    server = make_kit(tmp_path / "server", "server")
    close_kit(server)
    assert check_kit(server) == []
    assert "/tmp/nvflare" not in (server / "local" / "resources.json").read_text()


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("resources.json", {"class_allow_list": ["*"]}),
        ("resources.json", {"class_list_enforcement_mode": "warn"}),
        ("resources.json", {"allow_log_streaming": True}),
        (
            "resources.json",
            {"components": [{"id": "x", "path": "nvflare.x.SiteLogStreamer"}]},
        ),
        ("authorization.json", {"permissions": {"project_admin": "any"}}),
        ("privacy.json", {"default_scope": "public"}),
        ("privacy.json", {"scopes": []}),
        ("custom.py", {}),
    ],
)
def test_a_kit_that_was_opened_again_is_noticed(
    tmp_path: Path, file: str, change: dict[str, Any]
) -> None:
    kit = close(make_kit(tmp_path / "kit"), tmp_path / "private")
    path = kit / "local" / file
    values = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**values, **change}))
    assert len(check_kit(kit)) == 1


def test_a_folder_inside_the_kit_is_refused(tmp_path: Path) -> None:
    kit = make_kit(tmp_path / "kit")
    with pytest.raises(StudyError, match="inside the start kit"):
        close(kit, kit / "private")


def test_other_people_and_another_plan_are_refused_until_they_are_allowed(
    tmp_path: Path,
) -> None:
    register = Register(tmp_path)
    register.begin("people", {"seed": 1})
    register.count(2, "question")
    register.count(2, "question")
    again = Register(tmp_path)
    again.begin("people", {"seed": 1})
    for people, plan, number, code in (
        ("people less one", {"seed": 1}, 0, Code.OTHER_PEOPLE),
        ("people", {"seed": 2}, 0, Code.OTHER_PLAN),
        ("people", {"seed": 1}, 2, Code.OTHER_ROUND),
    ):
        with pytest.raises(SiteError) as caught:  # noqa: PT012
            again.begin(people, plan)
            again.count(number, "another question")
        assert caught.value.code == code
    again.allow()
    Register(tmp_path).begin("people less one", {"seed": 1})
    with pytest.raises(SiteError):
        Register(tmp_path).begin("people", {"seed": 1})


def test_a_site_answers_a_limited_number_of_rounds(tmp_path: Path) -> None:
    register = Register(tmp_path)
    register.begin("people", {})
    for number in range(MAX_ROUNDS):
        register._values["count"] = number
        register._values["rounds"] = {}
        register.count(1, "question") if number in (0, MAX_ROUNDS - 1) else None
    with pytest.raises(SiteError) as caught:
        register.count(2, "question")
    assert caught.value.code == Code.TOO_MANY_ROUNDS
    assert json.loads((tmp_path / "answered.json").read_text())["count"] == MAX_ROUNDS


def test_rounds_are_kept_for_the_same_study_alone(tmp_path: Path) -> None:
    checkpoint, request = (
        Checkpoint(tmp_path, {"seed": 1}),
        Request(kind="means", round=2, settings={"n_columns": 3}),
    )
    assert checkpoint.read(request) is None
    checkpoint.keep(request, {"total": np.arange(3)})
    again = Checkpoint(tmp_path, {"seed": 1}).read(request)
    assert again is not None
    np.testing.assert_array_equal(again["total"], np.arange(3))
    with pytest.raises(StudyError, match="was another question"):
        checkpoint.read(Request(kind="means", round=2, settings={"n_columns": 4}))
    with pytest.raises(StudyError, match="rounds of another study"):
        Checkpoint(tmp_path, {"seed": 2})
    checkpoint.say("finished", finished=True)
    assert not list(tmp_path.rglob("*.npz"))
    with pytest.raises(StudyError, match="is finished"):
        Checkpoint(tmp_path, {"seed": 1})


def test_a_job_has_masks_from_three_sites_on(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text("[model]\npatterns = [2]\n")
    for sites, wanted, masked in (
        (SITES, None, True),
        (SITES[:2], None, False),
        (SITES, False, False),
    ):
        write_job(tmp_path / "job", study, sites, COLUMNS, "out", wanted)
        server = json.loads(
            (tmp_path / "job/app/config/config_fed_server.json").read_text()
        )
        assert server["workflows"][0]["args"]["settings"]["masked"] is masked
    with pytest.raises(StudyError, match="hide nothing with 2 sites"):
        write_job(tmp_path / "job", study, SITES[:2], COLUMNS, "out", True)
    with pytest.raises(StudyError, match="two of them or more"):
        write_job(tmp_path / "job", study, SITES[:1], COLUMNS, "out")


def test_categories_of_all_sites_are_joined() -> None:
    other = {**COLUMNS, "covariates": {"sex": {"levels": ["M"]}}}
    assert join_columns([COLUMNS, other])["covariates"] == {
        "sex": {"levels": ["F", "M"]}
    }
    with pytest.raises(StudyError, match="unit"):
        join_columns([COLUMNS, {**COLUMNS, "unit": "cm3"}])


def test_check_says_what_would_leave_and_names_nobody(tmp_path: Path) -> None:
    table = simulate_site("site-1", 30, 30, n_regions=4)
    table.loc[0, "sex"] = "sub-0042"
    study, kit = write_site(tmp_path / "tables", table), make_kit(tmp_path / "kit")
    names = [word for name in SITES for word in ("--site", name)]
    words = [
        "kit",
        str(kit),
        "--study",
        str(study),
        "--private",
        str(tmp_path / "private"),
        *names,
    ]
    assert CliRunner().invoke(app, words).exit_code == 0
    said = CliRunner().invoke(
        app, ["check", str(kit), "--columns", str(tmp_path / "columns.json")]
    )
    assert said.exit_code == 0, said.output
    assert "30 controls, 30 patients" in said.output
    assert "sub-" not in said.output + (tmp_path / "columns.json").read_text()
    assert not (tmp_path / "private" / "answered.json").exists()


def test_several_visits_are_refused_unless_the_first_ones_are_meant(
    tmp_path: Path,
) -> None:
    table = simulate_site("site-1", 30, 30, n_regions=4)
    study = write_visits(tmp_path / "visits", table)
    with pytest.raises(VisitsError) as caught:
        open_site("site-1", study)
    assert str(caught.value) == (
        "60 people have several visits, and a study between sites takes one of each: "
        'set visits = "first" in [data] of study.toml.'
    )
    study.write_text(f'{STUDY}visits = "first"\n')
    first = open_site("site-1", study)
    alone = open_site("site-1", write_site(tmp_path / "first", table))
    pd.testing.assert_frame_equal(first.cohort.volumes, alone.cohort.volumes)


@pytest.mark.parametrize("setting", ['harmonise = "none"', 'adjust = "linear"'])
def test_what_all_sites_have_in_common_is_not_for_one_site(
    tmp_path: Path, setting: str
) -> None:
    study = write_site(tmp_path, simulate_site("site-1", 30, 30, n_regions=4))
    study.write_text(f"{STUDY}{setting}\n")
    with pytest.raises(StudyError, match=setting.split()[0]):
        open_site("site-1", study)


def test_thickness_that_memory_adjusts_otherwise_is_refused(tmp_path: Path) -> None:
    table = simulate_site("site-1", 30, 30, n_regions=4)
    study = write_site(tmp_path, table)
    names = {"region_0": "lh_cuneus_thickness", "region_1": "lh_cuneus_volume"}
    volumes = pd.read_csv(tmp_path / "volumes.csv").rename(columns=names)
    volumes["lh_cuneus_thickness"] /= 1000.0
    volumes[["participant_id", *names.values()]].to_csv(
        tmp_path / "volumes.csv", index=False
    )
    people = pd.read_csv(tmp_path / "participants.tsv", sep="\t")
    people.assign(icv=people["age"] * 1e4 + 1e6).to_csv(
        tmp_path / "participants.tsv", sep="\t", index=False
    )
    study.write_text(STUDY.replace('"sex"]', '"sex", "icv"]'))
    with pytest.raises(StudyError, match='icv_for = "all"'):
        open_site("site-1", study)
    study.write_text(study.read_text() + 'icv_for = "all"\n')
    assert len(open_site("site-1", study).regions) == 2


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[data]\ncovariates = ["age"]\n', r"\[data\] covariates"),
        ('[data]\nvolumes = "mine.csv"\n', r"\[data\] volumes"),
        ('[data]\nharmonise = "all"\n', 'harmonise = "all"'),
        ('[run]\nengine = "dask"\n', r"\[run\] engine"),
    ],
)
def test_settings_that_a_job_cannot_use_are_refused(
    tmp_path: Path, text: str, named: str
) -> None:
    path = tmp_path / "job.toml"
    path.write_text(text)
    with pytest.raises(StudyError, match=rf"{named} in job.toml cannot be used"):
        read_job_study(path)
    path.write_text('[data]\nharmonise = "none"\n[run]\nseed = 3\n')
    assert read_job_study(path).run.seed == 3
