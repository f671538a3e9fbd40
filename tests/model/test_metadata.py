"""The schema of the metadata of model files: every field is checked and named."""

import copy
from pathlib import Path
from typing import Any

import pytest

from rindices.errors import ModelError, ProblemCode
from rindices.model.metadata import ModelMetadata, find_unsafe_value, validate_metadata
from rindices.model.safetensors_io import read_metadata

FIXTURES = Path(__file__).parent / "fixtures"
GOOD = read_metadata(FIXTURES / "contrastive.safetensors")
SITES = {"mode": "controls", "sites": ["A", "B"], "counts": [10, 12]}


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.safetensors")), ids=lambda path: path.stem)
def test_good_metadata_pass(path: Path) -> None:
    metadata = validate_metadata("m", read_metadata(path), ModelMetadata)
    assert metadata.n_columns == 2
    assert validate_metadata("m", GOOD | {"harmonise": SITES}, ModelMetadata).harmonise is not None


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
        (("covariates", 1, "levels"), ["F", "F"], "levels: should not hold a name twice"),
        (("covariates", 1, "levels"), [], "levels: "),
        (("covariates", 1, "name"), "age", "covariates should not hold a name twice"),
        (("orders",), [[0, 1], [1, 1]], "one order of the patterns"),
        (("harmonise",), SITES | {"mode": "magic"}, "harmonise.mode: should be one of controls, all"),
        (("harmonise",), SITES | {"counts": [3]}, "harmonise: should have one count for each site"),
        (("harmonise",), SITES | {"counts": [3, -1]}, "harmonise.counts.1: "),
        (("sums",), {"other": ["a", "b"]}, "sums should be sums of the regions"),
        (("sums",), {"r0": []}, "sums.r0: "),
        (("covariate_ranges", "age"), [3], "covariate_ranges.age: should be a lowest and a highest value"),
        (("covariate_ranges",), {"icv": [1, 2]}, "should be ranges of the covariates"),
        (("interval_knots",), 0, "interval_knots: "),
        (("training_distances",), -1, "training_distances: "),
        (("training_distances",), 2, "training_distances should be 0, or at least 3"),
        (("recipe",), {"recipe": "default", "values": {"share": "x"}}, "recipe.values.share: "),
    ],
)
def test_a_wrong_field_is_named(path: tuple[Any, ...], value: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        validate_metadata("m.safetensors", change(path, value), ModelMetadata)
    (problem,) = caught.value.problems
    assert problem.code is ProblemCode.DAMAGED_FILE
    assert problem.where == "m.safetensors"
    assert len(str(problem).splitlines()) == 1
    assert "get it again" in str(problem)


def test_fields_are_required() -> None:
    for key in ("sums", "training_distances", "interval_knots", "adjust"):
        content = {name: value for name, value in GOOD.items() if name != key}
        with pytest.raises(ModelError, match=f"{key}: field required"):
            validate_metadata("m", content, ModelMetadata)


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
