"""NVIDIA FLARE as transport: answers are kept, and a provisioned deployment gives the result of memory."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rindices.federated import kinds
from rindices.federated.folder import FolderTransport
from rindices.federated.messages import Answer, RefusedError, Request, WaitingError
from tests.federated.sites import make_transport, simulate_people, split_cohort

pytest.importorskip("nvflare", reason="the extra federated is not installed")
ROOT = Path(__file__).parents[2]
REQUEST = Request(kinds.DESCRIBE, 1, {}, {})


class FakeController:
    """Clients in memory, of which some do not answer."""

    def __init__(self, absent: str = "") -> None:
        self.sites = {site.name: site for site in make_transport(split_cohort(simulate_people(), 3)).sites}
        self.absent, self.asked = absent, list[str]()
        self.engine = SimpleNamespace(get_clients=lambda: [SimpleNamespace(name=name) for name in self.sites])
        self.refuse = False

    def send_model_and_wait(self, task: str, data: Any, targets: list[str], timeout: int) -> list[Any]:
        from rindices.federated.nvflare import _to_bytes, _to_model

        request, results = Request.decode(_to_bytes(data)), []
        for name in targets:
            if name == self.absent:
                continue
            self.asked.append(name)
            answer = self.sites[name].answer(request)
            if self.refuse:
                answer = Answer(request.digest, facts={"refused": "too few people"}, site=name)
            model = _to_model(answer.encode())
            model.meta = {"client_name": name}
            results.append(model)
        return results


def test_answers_are_kept_for_the_next_job(tmp_path: Path) -> None:
    from rindices.federated.nvflare import FlareTransport

    first = FakeController(absent="site-1")
    with pytest.raises(WaitingError, match="no answer of site-1 to round 1"):
        FlareTransport(first, 3, FolderTransport(tmp_path, "job", ()), 1).ask(REQUEST)
    second = FakeController()
    answers = FlareTransport(second, 3, FolderTransport(tmp_path, "job", ()), 1).ask(REQUEST)
    assert second.asked == ["site-1"]
    assert list(answers) == ["site-0", "site-1", "site-2"]
    other = Request(kinds.DESCRIBE, 1, {"changed": 1}, {})
    FlareTransport(second, 3, FolderTransport(tmp_path, "job", ()), 1).ask(other)
    assert second.asked == ["site-1", "site-0", "site-1", "site-2"]


def test_a_refusal_names_the_client(tmp_path: Path) -> None:
    from rindices.federated.nvflare import FlareTransport

    controller = FakeController()
    controller.refuse = True
    with pytest.raises(RefusedError, match=r"site-0 refuses round 1 \(describe\): too few people"):
        FlareTransport(controller, 3, FolderTransport(tmp_path, "job", ()), 1).ask(REQUEST)


@pytest.mark.slow
def test_deployment_with_a_killed_client_gives_the_result_of_memory(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "benchmarks.federated_nvflare", "--results", str(tmp_path)], cwd=ROOT, check=True
    )
    facts = json.loads((tmp_path / "federated_nvflare.json").read_text())
    assert facts["processes killed"] >= 2  # the client, and the process of its job
    assert facts["end of the first job"] != facts["end of the second job"] == "FINISHED:COMPLETED"
    assert facts["rounds"] == facts["rounds in memory"] > facts["rounds that the client had answered"] >= 20
    np.testing.assert_allclose(facts["largest difference of patterns"], 0.0, atol=1e-9)
    np.testing.assert_allclose(facts["largest difference of curves of members"], 0.0, atol=1e-9)
