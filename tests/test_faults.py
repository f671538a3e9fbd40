"""Whatever happens to the disk or the process, files are whole, messages are one line,
and running again mends it.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks, and reads /proc")
def test_every_fault_at_every_operation(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fault_injection", str(tmp_path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["injected"] == summary["possible"] >= 2000
    assert min(summary["by_command"].values()) > 0
    assert not summary["failures"]
