"""Whatever happens to the disk or the process, files are whole, messages are one line, and running again mends it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and reads /proc")


def inject_faults(folder: Path, *options: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.fault_injection", str(folder), *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def test_a_sample_of_faults(tmp_path: Path) -> None:
    summary = inject_faults(tmp_path, "--sample", 5)
    assert summary["injected"] == 5
    assert summary["possible"] >= 2000
    assert not summary["failures"]


@pytest.mark.slow
def test_every_fault_at_every_operation(tmp_path: Path) -> None:
    summary = inject_faults(tmp_path)
    assert summary["injected"] == summary["possible"] >= 2000
    assert min(summary["by_command"].values()) > 0
    assert not summary["failures"]
