"""Each promise of SECURITY.md names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_each_promise_names_a_test() -> None:
    rows = re.findall(
        r"^\| (.+) \| (.+) \|$", (ROOT / "SECURITY.md").read_text("utf-8"), re.MULTILINE
    )[1:]
    assert len(rows) >= 10
    for promise, cell in rows:
        tests = re.findall(r"`([^`]+)`", cell)
        assert tests, promise
        file = ""
        for test in tests:
            name = test.partition("::")[2]
            file = test.partition("::")[0] or file  # a test of the file before
            assert (ROOT / file).is_file(), test
            assert not name or f"def {name}(" in (ROOT / file).read_text("utf-8"), test
