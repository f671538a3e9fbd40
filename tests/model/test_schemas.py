"""Every schema of the model file is read; a card that makes no sense is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

import rindices as ri
from rindices.errors import ModelError
from rindices.model.safetensors_io import read_metadata
from rindices.model.schemas import SCHEMA_VERSION, read_model_parts

FIXTURES = Path(__file__).parent / "fixtures"


def change_metadata(source: Path, path: Path, **changes: Any) -> Path:
    content = to_bytes(from_bytes(source.read_bytes()), {"rindices": json.dumps(read_metadata(source) | changes)})
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("schema", range(1, SCHEMA_VERSION + 1))
def test_parts_of_every_schema(schema: int) -> None:
    parts = read_model_parts(FIXTURES / f"schema{schema}-contrastive.safetensors")
    assert len(parts["heads"]) == len(parts["orders"]) == 2
    assert parts["card"].recipe.name == "contrastive"
    assert (parts["intervals"] is None) == (schema == 1)


@pytest.mark.parametrize(
    ("key", "value"),
    [("agreement", 3), ("recipe", {"recipe": "x"}), ("member_steps", 7), ("pattern_evidence", [1]), ("trained_on", [])],
)
def test_a_card_that_makes_no_sense_is_refused(key: str, value: Any, tmp_path: Path) -> None:
    path = change_metadata(FIXTURES / "schema2-contrastive.safetensors", tmp_path / "m.safetensors", **{key: value})
    with pytest.raises(ModelError, match=r"m\.safetensors: its metadata make no sense"):
        ri.load(path)


def test_keys_of_later_versions_are_kept(tmp_path: Path) -> None:
    path = change_metadata(FIXTURES / "schema2-contrastive.safetensors", tmp_path / "m.safetensors", contact="x")
    ri.load(path).save(tmp_path / "n.safetensors")
    assert read_metadata(tmp_path / "n.safetensors") == read_metadata(path)


def test_a_newer_schema_asks_for_an_update(tmp_path: Path) -> None:
    path = change_metadata(FIXTURES / "schema2-paper.safetensors", tmp_path / "m.safetensors", schema=99)
    with pytest.raises(ModelError, match="update rindices"):
        ri.load(path)
