"""Model files are read; what cannot be, or was damaged, is refused by name."""

import copy
import json
import pickle
import re
import shlex
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.errors import ModelError, ProblemCode
from rindices.exchange.importers import PUBLISHED_MODELS
from rindices.model.file import ModelMetadata, find_unsafe_value, parse_metadata
from rindices.model.records import rename_method
from rindices.model.safetensors_io import (
    PUBLISHED_CHECKPOINTS,
    compute_content_digest,
    read_metadata,
)

FIXTURES = Path(__file__).parent / "fixtures"
GOOD = rename_method(read_metadata(FIXTURES / "contrastive.safetensors"))
SITES = {"mode": "controls", "sites": ["A", "B"], "counts": [10, 12]}


def change_metadata(source: Path, path: Path, **changes: Any) -> Path:
    write_altered(
        path, from_bytes(source.read_bytes()), read_metadata(source) | changes
    )
    return path


def write_altered(path: Path, arrays: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Write a file with the digest of its content."""
    signed = metadata | {"sha256": compute_content_digest(metadata, arrays)}
    path.write_bytes(to_bytes(arrays, {"rindices": json.dumps(signed)}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("agreement", 3),
        ("method", {"name": "x"}),
        ("member_steps", 7),
        ("pattern_evidence", [1]),
        ("trained_on", []),
    ],
)
def test_a_card_that_makes_no_sense_is_refused(
    key: str, value: Any, tmp_path: Path
) -> None:
    path = change_metadata(
        FIXTURES / "contrastive.safetensors", tmp_path / "m.safetensors", **{key: value}
    )
    with pytest.raises(ModelError, match=rf"m\.safetensors: {key}|'{key}'"):
        ri.load(path)


def apply_model(path: Path, folder: Path) -> Any:
    from scripts.make_model_fixture import small_cohort

    cohort = small_cohort()
    table = pd.concat(
        [cohort.people[["participant_id"]], cohort.covariates, cohort.volumes], axis=1
    )
    table.to_csv(folder / "people.csv", index=False)
    options = ["--workers", "1", "--out", str(folder / "r.tsv")]
    return CliRunner().invoke(
        app, ["apply", str(path), str(folder / "people.csv"), *options]
    )


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "standardise.sd",
            lambda array: 0 * array,
            "standardise.sd should be positive",
        ),
        ("standardise.sd", np.negative, "standardise.sd should be positive"),
        (
            "member0.shift_scale",
            lambda array: 0 * array,
            "member0.shift_scale should be positive",
        ),
        (
            "member1.weights",
            lambda array: array * 1e300,
            "member1.weights holds values beyond",
        ),
        (
            "training.covariance",
            np.negative,
            "training.covariance should have positive variances",
        ),
        (
            "training.covariance",
            lambda array: array - 2 * array.max(),
            "training.covariance should",
        ),
        (
            "training.distances",
            lambda array: array[::-1],
            "training.distances should be in ascending order",
        ),
        (
            "intervals.knots",
            lambda array: array[:, ::-1],
            "intervals.knots should be in ascending order",
        ),
        (
            "intervals.middle",
            lambda array: array + 9,
            "intervals.middle should lie between",
        ),
        (
            "intervals.error",
            lambda array: 0 * array,
            "intervals.error should be positive",
        ),
    ],
)
def test_values_that_cannot_be_are_refused_by_name(
    name: str, change: Any, message: str, tmp_path: Path
) -> None:
    source = FIXTURES / "contrastive.safetensors"
    arrays = from_bytes(source.read_bytes())
    arrays[name] = np.ascontiguousarray(change(arrays[name]))
    path = tmp_path / "m.safetensors"
    write_altered(path, arrays, read_metadata(source))
    result = apply_model(path, tmp_path)
    assert isinstance(result.exception, ModelError)
    assert message in str(result.exception)
    assert str(result.exception).startswith("m.safetensors: ")
    assert "get it again" in str(result.exception)
    assert len(str(result.exception).splitlines()) == 1


@pytest.mark.parametrize(
    "coding",
    [
        {"name": "age", "kind": "numeric", "low": 80, "high": 50},
        {"name": "age", "kind": "numeric", "low": None, "high": 50},
        {"name": ["age"], "kind": "numeric", "low": 50, "high": 80},
        {"name": "age", "kind": "numeric", "low": 50},
        {"name": "sex", "kind": "numeric", "low": 50, "high": 80},
    ],
)
def test_altered_codings_are_refused(coding: dict[str, Any], tmp_path: Path) -> None:
    source = FIXTURES / "contrastive.safetensors"
    covariates = [coding, read_metadata(source)["covariates"][1]]
    result = apply_model(
        change_metadata(source, tmp_path / "m.safetensors", covariates=covariates),
        tmp_path,
    )
    assert isinstance(result.exception, ModelError)
    assert "covariates" in str(result.exception)
    assert len(str(result.exception).splitlines()) == 1


@pytest.mark.parametrize("option", [[], ["--json"], ["--card"]])
@pytest.mark.parametrize(
    "changes",
    [
        {"agreement": {"concordance": "high", "difference": None, "dimension": None}},
        {
            "recipe": {"recipe": "default", "values": {"share": "x"}},
            "member_steps": [1, 2],
        },
        {"trained_on": {"controls": "many"}},
        {"citation": "\ud800"},
        {"later": float("inf")},
        {"member_steps": ["x"]},
    ],
)
def test_altered_cards_are_refused(
    changes: dict[str, Any], option: list[str], tmp_path: Path
) -> None:
    path = change_metadata(
        FIXTURES / "paper.safetensors", tmp_path / "m.safetensors", **changes
    )
    result = CliRunner().invoke(app, ["model", "show", str(path), *option])
    assert isinstance(result.exception, ModelError)
    assert str(result.exception).startswith("m.safetensors: ")
    assert len(str(result.exception).splitlines()) == 1


def test_results_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    """Several extreme numbers, each of which is possible alone."""
    source = FIXTURES / "contrastive.safetensors"
    arrays = from_bytes(source.read_bytes())
    extremes = {
        "share": 0.0,
        "control_mean": 1e29,
        "control_scale": 1e-29,
        "shift_scale": 1e-29,
    }
    extremes |= {"error": 1e-29, "members": 1e29}
    for name, array in arrays.items():
        field = name.split(".")[-1]
        arrays[name] = (
            np.full_like(array, extremes[field]) if field in extremes else array
        )
    arrays["member1.weights"] = arrays["member1.weights"] * 1e29
    path = tmp_path / "m.safetensors"
    write_altered(path, arrays, read_metadata(source))
    result = apply_model(path, tmp_path)
    assert isinstance(result.exception, ModelError)
    (problem,) = result.exception.problems
    assert problem.code is ProblemCode.INFINITE_VALUES
    assert problem.offenders
    assert not (tmp_path / "r.tsv").exists()


def test_keys_of_later_versions_are_kept(tmp_path: Path) -> None:
    path = change_metadata(
        FIXTURES / "contrastive.safetensors", tmp_path / "m.safetensors", contact="x"
    )
    ri.load(path).save(tmp_path / "n.safetensors")
    written, expected = (
        read_metadata(tmp_path / "n.safetensors"),
        rename_method(read_metadata(path)),
    )
    assert written | {"sha256": ""} == expected | {"sha256": ""}


def test_a_later_schema_is_refused(tmp_path: Path) -> None:
    path = change_metadata(
        FIXTURES / "paper.safetensors", tmp_path / "m.safetensors", schema=2
    )
    with pytest.raises(
        ModelError, match=r"newer than what rindices .* reads\. Update rindices"
    ):
        ri.load(path)


@pytest.mark.parametrize("name", ["default", "contrastive", "paper"])
def test_a_flipped_bit_is_refused(name: str, tmp_path: Path) -> None:
    """Also where the value that it changes could be right: R-indices would be others,
    with exit code 0.
    """
    good = (FIXTURES / f"{name}.safetensors").read_bytes()
    path = tmp_path / "m.safetensors"
    for position in np.random.default_rng(0).integers(8 * len(good), size=60).tolist():
        content = bytearray(good)
        content[position // 8] ^= 1 << position % 8
        path.write_bytes(content)
        with pytest.raises(ModelError) as caught:
            ri.load(path)
        assert "m.safetensors" in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1
    content = bytearray(good)
    content[-1000] ^= 1  # the lowest bit of a number
    path.write_bytes(content)
    result = apply_model(path, tmp_path)
    assert str(result.exception).startswith(
        "m.safetensors: its content is not what was written (its SHA-256 differs)"
    )
    assert not (tmp_path / "r.tsv").exists()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "member0.weights",
            np.negative,
            "member0.weights should be precision times steps",
        ),
        (
            "member1.steps",
            lambda array: 1.01 * array,
            "member1.weights should be precision times steps",
        ),
        (
            "member0.precision",
            np.negative,
            "member0.precision should have positive variances",
        ),
        (
            "member1.correlation",
            lambda array: 2 * array,
            "member1.correlation should be 1 with itself",
        ),
        ("patterns", np.negative, "patterns should be the mean of the members' curves"),
    ],
)
def test_arrays_that_contradict_each_other_are_refused(
    name: str, change: Any, message: str, tmp_path: Path
) -> None:
    source = FIXTURES / "default.safetensors"
    arrays = from_bytes(source.read_bytes())
    arrays[name] = np.ascontiguousarray(change(arrays[name]))
    write_altered(tmp_path / "m.safetensors", arrays, read_metadata(source))
    result = apply_model(tmp_path / "m.safetensors", tmp_path)
    assert isinstance(result.exception, ModelError)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    "path", sorted(FIXTURES.glob("*.safetensors")), ids=lambda path: path.stem
)
def test_good_metadata_pass(path: Path) -> None:
    metadata = parse_metadata(Path("m"), read_metadata(path), ModelMetadata)
    assert metadata.list_array_shapes()["residualise.centre"] == (2,)
    assert (
        parse_metadata(Path("m"), GOOD | {"harmonise": SITES}, ModelMetadata).harmonise
        is not None
    )


def change(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    content: Any = copy.deepcopy(GOOD)
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return content


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("kind",), "magic", "kind: should be one of contrastive"),
        (("members",), True, "members: input should be a valid integer"),
        (("members",), 3, "one order of the patterns for each member"),
        (("n_patterns",), 0, "n_patterns: .* greater than or equal to 1"),
        (("regions",), ["r0", "r0"], "regions: should not hold a name twice"),
        (("regions", 3), "", "regions.3: should be a name on one line"),
        (("covariates", 0, "low"), 99.0, "lowest and a highest"),
        (("covariates", 0, "low"), "50", "low: input should be a valid number"),
        (("covariates", 0, "kind"), "other", "covariates.0: "),
        (
            ("covariates", 1, "levels"),
            ["F", "F"],
            "levels: should not hold a name twice",
        ),
        (("covariates", 1, "levels"), [], "levels: "),
        (("covariates", 1, "name"), "age", "covariates should not hold a name twice"),
        (("orders",), [[0, 1], [1, 1]], "one order of the patterns"),
        (
            ("harmonise",),
            SITES | {"mode": "magic"},
            "harmonise.mode: should be one of controls, all",
        ),
        (
            ("harmonise",),
            SITES | {"counts": [3]},
            "harmonise: should have one count for each site",
        ),
        (("harmonise",), SITES | {"counts": [3, -1]}, "harmonise.counts.1: "),
        (("sums",), {"other": ["a", "b"]}, "sums should be sums of the regions"),
        (("sums",), {"r0": []}, "sums.r0: "),
        (
            ("covariate_ranges", "age"),
            [3],
            "covariate_ranges.age: should be a lowest and a highest value",
        ),
        (("covariate_ranges",), {"icv": [1, 2]}, "should be ranges of the covariates"),
        (("interval_knots",), 0, "interval_knots: "),
        (("training_distances",), -1, "training_distances: "),
        (("training_distances",), 2, "training_distances should be 0, or at least 3"),
        (
            ("method",),
            {"name": "trajectories", "settings": {"share": "x"}},
            "method.settings.share: ",
        ),
    ],
)
def test_a_wrong_field_is_named(
    path: tuple[Any, ...], value: Any, message: str
) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        parse_metadata(Path("m.safetensors"), change(path, value), ModelMetadata)
    (problem,) = caught.value.problems
    assert problem.code is ProblemCode.DAMAGED_FILE
    assert problem.where == "m.safetensors"
    assert len(str(problem).splitlines()) == 1
    assert "get it again" in str(problem)


def test_fields_are_required() -> None:
    for key in ("sums", "training_distances", "interval_knots", "adjust"):
        content = {name: value for name, value in GOOD.items() if name != key}
        with pytest.raises(ModelError, match=f"{key}: field required"):
            parse_metadata(Path("m"), content, ModelMetadata)


def nest(depth: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    return nested


@pytest.mark.parametrize(
    ("value", "place", "what"),
    [
        ({"a": [1.0, float("inf")]}, "a.1", "is not finite"),
        ({"a": {"b": float("nan")}}, "a.b", "is not finite"),
        ({"a": 10**400}, "a", "is too large"),
        ({"a": "x\x1b[31m"}, "a", "holds control characters"),
        ({"a": "\ud800"}, "a", "holds control characters"),
        ({"a": {"\ud800": 1}}, "a", "holds control characters"),
        ({"a": nest(60)}, "a" + 49 * ".0", "is nested too deeply"),
    ],
)
def test_unsafe_values_are_found(value: Any, place: str, what: str) -> None:
    assert find_unsafe_value(value) == (place, what)


def test_other_text_is_safe() -> None:
    assert find_unsafe_value(GOOD) is None
    assert find_unsafe_value({"é\u3042": ["two\nlines", None, True, -3, 2.5]}) is None


def test_another_file_in_the_place_of_a_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("participant_id,47\na,1\n")
    pd.DataFrame({"a": [1]}).to_excel(tmp_path / "people.xlsx")
    (tmp_path / "report.html").write_text("<p>Größe" * 2_000, "utf-8")
    (tmp_path / "results").mkdir()
    for name, what in {
        "people.csv": "people.csv: this is a table, not a model. Give the model.safetensors that fit wrote.",
        "people.xlsx": "people.xlsx: this is a table, not a model.",
        "report.html": "report.html: this is a text file, not a model.",
        "results": f"{tmp_path / 'results'} is a folder without a model.safetensors: give a model.",
    }.items():
        with pytest.raises(ModelError, match=re.escape(what)):
            ri.load(tmp_path / name)
    (tmp_path / "results" / "model.safetensors").write_bytes(b"")
    with pytest.raises(
        ModelError,
        match=re.escape(
            f"is a folder: give {tmp_path / 'results' / 'model.safetensors'}"
        ),
    ):
        ri.load(tmp_path / "results")


def test_a_checkpoint_in_the_place_of_a_model_names_the_command_that_converts_it(
    tmp_path: Path,
) -> None:
    with zipfile.ZipFile(tmp_path / "ad_2rindices.saved_model", "w") as file:
        file.writestr("archive/data.pkl", b"")
    (tmp_path / "my model.pt").write_bytes(pickle.dumps({"a": 1}))
    for name, options in (
        ("ad_2rindices.saved_model", "--as ad_2rindices"),
        ("my model.pt", "--regions FILE"),
    ):
        with pytest.raises(ModelError) as caught:
            ri.load(tmp_path / name)
        command = str(caught.value).partition("convert it: ")[2]
        out = f"{Path(name).stem}.safetensors"
        expected = [
            "rindices",
            "model",
            "import",
            str(tmp_path / name),
            *options.split(),
            "--out",
            out,
        ]
        assert shlex.split(command) == expected
        assert caught.value.problems[0].code is ProblemCode.UNSAFE_FILE


def test_the_names_of_published_checkpoints_are_those_that_can_be_imported() -> None:
    assert {
        name: each["sha256"] for name, each in PUBLISHED_MODELS.items()
    } == PUBLISHED_CHECKPOINTS
