from pathlib import Path

import pytest

from rindices.json_files import MAX_JSON_BYTES, read_json


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 1_000_000, "nested too deeply"),
        (b'{"a": ' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
        (b"[1, 2]", "no object"),
        (b'{"a": 1', "delimiter"),
        (b"\xff\xfe", "decode"),
        (b"1" * 10_000, "digits"),
        (b" " * (MAX_JSON_BYTES + 1), "at most 32 MB are read"),
    ],
)
def test_what_is_no_small_object_is_a_value_error(
    content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "some.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as raised:
        read_json(path)
    assert "\n" not in str(raised.value)
