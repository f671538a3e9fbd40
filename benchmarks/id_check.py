"""Cost of finding repeated ids in ``rindices apply``, for numbers of people that
double.

    python -m benchmarks.id_check

Writes ``results/id_check.json``: the least processor seconds of five, to which other
work on the machine only adds, and the largest memory so far.
"""

import json
import os
import resource
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from rindices.apply.chunks import find_repeated_hashes

OUT = Path(__file__).parent / "results" / "id_check.json"
PEOPLE_A_FILE = 62_500
FILES = (160, 320, 640)
REPEATS = 5


def main() -> None:
    """Measure and write the result."""
    rng, rows = np.random.default_rng(0), []
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{k}.npz") for k in range(FILES[-1])]
        for file in files:
            hashes = rng.integers(2**64, size=PEOPLE_A_FILE, dtype=np.uint64)
            np.savez(file, keys=hashes, people=np.sort(hashes))
        for number in FILES:
            seconds = []
            for _ in range(REPEATS):
                start = time.process_time()
                assert not len(find_repeated_hashes(files[:number]))
                seconds.append(time.process_time() - start)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            rows.append(
                {
                    "people": number * PEOPLE_A_FILE,
                    "seconds": round(min(seconds), 3),
                    "mb": peak // 1024,
                }
            )
    ratios = [
        round(after["seconds"] / before["seconds"], 2)
        for before, after in pairwise(rows)
    ]
    result = {"load_at_start": load, "rows": rows, "ratios": ratios}
    OUT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
