"""Files for NVIDIA FLARE: jobs without code, tables named at the client."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rindices.cli.main import app
from rindices.errors import StudyError
from rindices.federated.fit import FederatedSettings
from rindices.federated.flare_files import ALLOWED, allow_jobs, read_site_study, write_flare_job, write_site_study
from rindices.study.config import ModelConfig, make_study

STUDY = make_study({"data": {"volumes": ["/tables/volumes.csv"], "group": "dx"}, "model": {"members": 7}})


def make_kit(folder: Path) -> Path:
    (folder / "local").mkdir(parents=True)
    resources = {"format_version": 2, "class_allow_list": ["nvflare.x.Y"]}
    (folder / "local" / "resources.json.default").write_text(json.dumps(resources))
    return folder


def test_job_names_classes_and_holds_no_code(tmp_path: Path) -> None:
    settings = FederatedSettings(ModelConfig(members=4), 5, adjust="linear")
    write_flare_job(tmp_path / "job", "results", 3, settings, wait=60)
    files = sorted(path.relative_to(tmp_path / "job").as_posix() for path in tmp_path.rglob("*.*"))
    assert files == ["app/config/config_fed_client.json", "app/config/config_fed_server.json", "meta.json"]
    server = json.loads((tmp_path / "job" / "app" / "config" / "config_fed_server.json").read_text())
    arguments = server["workflows"][0]["args"]
    assert FederatedSettings.from_dict(arguments["settings"]) == settings
    assert json.loads((tmp_path / "job" / "meta.json").read_text())["min_clients"] == 3


def test_kit_allows_rindices_once_and_keeps_the_rest(tmp_path: Path) -> None:
    kit = make_kit(tmp_path)
    allow_jobs(kit)
    allow_jobs(kit)
    resources = json.loads((kit / "local" / "resources.json").read_text())
    assert resources == {"format_version": 2, "class_allow_list": ["nvflare.x.Y", ALLOWED]}


def test_a_folder_that_is_no_kit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="is not a start-up kit: give a folder that nvflare provision wrote"):
        allow_jobs(tmp_path)


def test_study_of_a_site_is_read_as_written(tmp_path: Path) -> None:
    path = write_site_study(make_kit(tmp_path), STUDY, 25)
    study, fewest = read_site_study(path)
    assert (study.data, fewest) == (STUDY.data, 25)
    assert study.model.members == 10  # a client does not choose the model


@pytest.mark.parametrize("text", ["[site]\nfewest = 1\n", "[site]\nfewest = 'few'\n", "site = 3\n", "not toml"])
def test_damaged_study_of_a_site_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rindices.toml"
    path.write_text(text)
    with pytest.raises(StudyError, match=r"rindices\.toml"):
        read_site_study(path)


def test_commands_need_a_folder_or_flare(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text("[model]\nmembers = 3\n")
    words = ["federate", str(tmp_path / "study.toml"), "--out", "results", "--sites", "2"]
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2
    assert "--exchange" in refused.output
    both = CliRunner().invoke(app, [*words, "--exchange", str(tmp_path), "--parquet", str(tmp_path)])
    assert both.exit_code == 2  # one of them would have been ignored
    kit = make_kit(tmp_path / "server")
    job = ["--flare-job", str(tmp_path / "job"), "--flare-kit", str(kit)]
    two, three = (CliRunner().invoke(app, [*words, *job, "--sites", number]) for number in "23")
    assert two.exit_code == three.exit_code == 0
    assert ("masks" in two.stderr, "masks" in three.stderr) == (False, True)
    assert ALLOWED in (kit / "local" / "resources.json").read_text()
    server = json.loads((tmp_path / "job" / "app" / "config" / "config_fed_server.json").read_text())
    assert server["workflows"][0]["args"]["settings"]["model"]["members"] == 3
