"""Jobs run once, and damaged cache files are measured again."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.suites.runner import run_jobs


@dataclass(frozen=True)
class Square:
    number: int

    @property
    def key(self) -> str:
        return f"square-{self.number}"

    def measure(self) -> "SquareResult":
        return SquareResult(self.number**2)

    def restore(self, value: int) -> "SquareResult":
        return SquareResult(value)


@dataclass(frozen=True)
class SquareResult:
    value: int


def test_results_are_in_the_order_of_the_jobs_and_cached(tmp_path: Path) -> None:
    jobs = [Square(number) for number in (3, 1, 2)]
    assert [result.value for result in run_jobs(jobs, tmp_path, workers=2)] == [9, 1, 4]
    assert (tmp_path / "square-3.json").read_text() == '{"value": 9}'


@pytest.mark.parametrize("content", ["{", "[1]", '{"other": 1}'])
def test_damaged_cache_files_are_measured_again(content: str, tmp_path: Path) -> None:
    (tmp_path / "square-1.json").write_text(content)
    (tmp_path / "square-2.json").write_text('{"value": 44}')
    finished: list[object] = []
    jobs = [Square(1), Square(2)]
    results = run_jobs(jobs, tmp_path, 1, lambda done, total, job: finished.append(job))
    assert [result.value for result in results] == [1, 44]
    assert finished == [Square(1)]
