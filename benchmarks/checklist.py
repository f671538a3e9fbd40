"""The checklist TRIPOD+AI of the early-psychosis study.

``python -m benchmarks.checklist --data ../shared/data`` fits the study and writes
``results/checklist_psychosis.md``.
"""

import argparse
import tempfile
import warnings
from pathlib import Path

import rindices as ri
from benchmarks.suites.patients import read_psychosis_visits
from rindices.report.checklist import write_checklist

OUT = Path(__file__).parent / "results" / "checklist_psychosis.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    cohort = read_psychosis_visits(parser.parse_args().data / "patients")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ri.fit(cohort, workers=1, out=folder)
        OUT.write_text(write_checklist(Path(folder)).read_text("utf-8"), "utf-8")


if __name__ == "__main__":
    main()
