"""First attempts on tables as they were published: what ``rindices check`` says, in
``results/first_attempts.md``.

    python -m benchmarks.first_attempts

Each table gets at most two attempts, the second only with the answer to a question that
the first one asked.
"""

import argparse
import re
from pathlib import Path

from typer.testing import CliRunner

from rindices.cli.main import app

OUT = Path(__file__).parent / "results" / "first_attempts.md"
TEXT = """# First attempts on tables as they were published
What `rindices check` says (`python -m benchmarks.first_attempts`); `fit` decides alike. Each table is ready
after at most two attempts, and the second one only answers a question of the first. IXI and fcon1000 are tables of
healthy people; their groups are the sexes here.

"""
IDS = re.compile(
    r"\b(?:[A-Za-z]+(?:_[A-Za-z0-9]+)*_(?:sub)?\d{5,7}|[PC]\d{3}|(?:ds\d+_)?sub-\w+|IXI\d+-\w+-\d+-T1)\b"
)
"""Ids of people, which are not written."""
AUTISM = [*(f"patients/autism/stats/{name}" for name in
            ("aseg_table.tsv", "lh.aparc_table_volume.tsv", "rh.aparc_table_volume.tsv")),
          "--participants", "patients/autism/Phenotypic_V1_0b_preprocessed1.csv", "--group", "DX_GROUP",
          "--controls", "2", "--patients", "1"]  # fmt: skip
SCHIZOPHRENIA = [
    "patients/openneuro/openneuro_freesurfer.csv",
    "--group",
    "group",
    "--controls",
    "CON,CON-SIB",
]
FCON = ["fcon1000/fcon1000.csv", "--group", "sex", "--controls", "0", "--patients", "1"]
ATTEMPTS: dict[str, list[list[str]]] = {
    "Early psychosis": [["patients/psychosis/LNM_data.csv"]],
    "Autism": [AUTISM, [*AUTISM, "--covariates", "AGE_AT_SCAN,SEX,SupraTentorialVol"]],
    "Schizophrenia, 14 studies in one table": [
        [*SCHIZOPHRENIA, "--patients", "SCZ"],
        [*SCHIZOPHRENIA, "--patients", "SCZ", "--id", "dataset,participant_id"],
    ],
    "Depression": [
        [path := "patients/depression/openneuro_main.csv"],
        [path, "--measure", "thickness"],
    ],
    "IXI, men against women": [
        [
            "ixi/volumes.csv",
            "--participants",
            "ixi/demographics.csv",
            "--group",
            "Sex",
            "--controls",
            "F",
        ]
    ],
    "fcon1000, sex 1 against 0": [
        FCON,
        [*FCON, "--leave-out-site", "Bangor,Leiden_2180,Pittsburgh"],
    ],
}


def run_attempt(arguments: list[str], data: Path) -> tuple[str, int]:
    """Return a command with its output, and the exit code; paths are shown without
    their folders.
    """
    is_path = [
        not argument.startswith("-") and (data / argument).is_file()
        for argument in arguments
    ]
    pairs = list(zip(arguments, is_path, strict=True))
    result = CliRunner().invoke(
        app, ["check", *(str(data / text) if path else text for text, path in pairs)]
    )
    command = " ".join(Path(text).name if path else text for text, path in pairs)
    output = IDS.sub("(id)", result.output.rstrip())
    return f"$ rindices check {command}\n{output}\n", result.exit_code


def write_attempts(data: Path) -> str:
    """Return the sections of all tables; a table that is not ready in its last attempt
    is an error.
    """
    parts = []
    for name, attempts in ATTEMPTS.items():
        outputs = [run_attempt(arguments, data) for arguments in attempts]
        codes = [code for _, code in outputs]
        if codes != [1] * (len(attempts) - 1) + [0]:
            raise SystemExit(f"{name}: exit codes {codes}\n{outputs[-1][0]}")
        text = "\n".join(output for output, _ in outputs)
        parts.append(f"## {name}\n```text\n{text}```\n")
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    OUT.write_text(TEXT + write_attempts(parser.parse_args().data), "utf-8")


if __name__ == "__main__":
    main()
