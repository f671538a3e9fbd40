"""Run every command on small tables and keep all outputs, to compare two versions of
the package.

Usage::

    # run all commands, keep what they write
    python scripts/snapshot_outputs.py run FOLDER [--source SRC]
    # list the differences, number by number
    python scripts/snapshot_outputs.py compare OLD NEW

``--source`` is the ``src`` folder of the version to run (default: the installed
package). Nothing is imported from the package, so the script can run any version of it.
``compare`` ignores paths, times and process ids. Numerical outputs must be equal, byte
for byte; a difference in prose (messages, report, card) is listed, but counted apart.
"""

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

PROGRAM = "from rindices.cli.main import run; run()"
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
PEOPLE = 60
PARCELS = ["bankssts", "cuneus", "entorhinal", "fusiform", "insula", "precuneus"]
ASEG = [
    "Left-Thalamus",
    "Right-Thalamus",
    "Left-Hippocampus",
    "Right-Hippocampus",
    "Left-Amygdala",
    "Brain-Stem",
]
PROSE_SUFFIXES = {".html", ".md", ".stderr"}


def write_tables(folder: Path) -> None:
    """Write a small table of each supported layout, and some with defects."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    ids = [f"sub-{number:02d}" for number in range(PEOPLE)]
    groups = ["CN", "AD"] * (PEOPLE // 2)
    people = pd.DataFrame(
        {"participant_id": ids, "age": rng.uniform(50, 80, PEOPLE).round(1)}
    )
    people = people.assign(
        sex=rng.choice(["F", "M"], PEOPLE),
        diagnosis=groups,
        site=["A", "B", "B"] * (PEOPLE // 3),
    )
    people.to_csv(folder / "people.tsv", sep="\t", index=False)
    people.assign(
        mmse=rng.integers(10, 30, PEOPLE), apoe=rng.choice(["e3", "e4"], PEOPLE)
    ).to_csv(folder / "clinical.csv", index=False)

    def columns(names: list[str], level: float, spread: float) -> dict[str, np.ndarray]:
        return {name: rng.normal(level, spread, PEOPLE).round(3) for name in names}

    etiv = columns(["EstimatedTotalIntraCranialVol"], 1.5e6, 1e5)
    aseg = {
        "Measure:volume": ids,
        **columns([*ASEG, "Left-Lateral-Ventricle", "BrainSegVol"], 5000, 500),
        **etiv,
    }
    pd.DataFrame(aseg).to_csv(folder / "aseg.txt", sep="\t", index=False)
    for side in ("lh", "rh"):
        for measure, level, spread in (("volume", 2500, 250), ("thickness", 2.5, 0.2)):
            names = [f"{side}_{name}_{measure}" for name in PARCELS]
            table = {f"{side}.aparc.{measure}": ids, **columns(names, level, spread)}
            pd.DataFrame(table).to_csv(
                folder / f"{side}.{measure}.txt", sep="\t", index=False
            )
    names = [
        "left cerebral white matter",
        "left cerebral cortex",
        "left thalamus",
        "brain-stem",
        "csf",
    ]
    scans = [f"{name}_T1w.nii.gz" for name in ids]
    synthseg = {
        "": scans,
        **columns(["total intracranial"], 1.5e6, 1e5),
        **columns(names, 9000, 500),
    }
    text = pd.DataFrame(synthseg).to_csv(index=False, lineterminator="\n")
    (folder / "synthseg.csv").write_bytes(text.replace("\n", "\r\r\n").encode())
    enigma = ["LLatVent", "RLatVent", "Lthal", "Rthal", "Lhippo", "Rhippo"]
    pd.DataFrame({"SubjID": ids, **columns(enigma, 4000, 300), "ICV": 1.5e6}).to_csv(
        folder / "enigma.csv", index=False
    )
    generic = pd.DataFrame(
        {
            "name": ids,
            "Age": 60,
            "dx": ["HC", "SZ"] * (PEOPLE // 2),
            **columns(PARCELS, 3000, 300),
        }
    )
    generic.to_csv(folder / "generic.csv", sep=";", decimal=",", index=False)
    _write_defects(folder, pd.DataFrame(aseg))
    for number, name in enumerate(ids[:4]):
        stats = folder / "fastsurfer" / name / "stats"
        stats.mkdir(parents=True)
        lines = [
            "# Title",
            "# ColHeaders Index SegId NVoxels Volume_mm3 StructName normMean",
        ]
        lines += [
            f"{k} {k} 5000 {5000 + 10 * number + k}.0 {region} 80.0"
            for k, region in enumerate(ASEG, 1)
        ]
        (stats / "aseg+DKT.stats").write_text("\n".join(lines) + "\n")


def _write_defects(folder: Path, table: pd.DataFrame) -> None:
    """Write tables that must be refused or questioned."""
    missing = table.copy()
    missing.loc[3, "Left-Thalamus"] = np.nan
    missing.to_csv(folder / "missing.csv", index=False)
    pd.concat([table, table.iloc[:1]]).to_csv(folder / "duplicate.csv", index=False)
    table.assign(**{"Left-Thalamus": table["Left-Thalamus"] / 1000}).to_csv(
        folder / "units.csv", index=False
    )
    table.assign(**{"Left-Thalamus": "x"}).to_csv(folder / "text.csv", index=False)
    table.assign(**{"Left-Thalamus": -table["Left-Thalamus"]}).to_csv(
        folder / "negative.csv", index=False
    )
    (folder / "empty.csv").write_text("")
    (folder / "latin.csv").write_bytes(
        table.assign(**{"Measure:volume": "Zoë"}).to_csv(index=False).encode("latin-1")
    )


def list_commands(data: Path) -> list[tuple[str, list[str]]]:
    """Return name and arguments of every command, in order; paths are relative to the
    folder of outputs.
    """
    tables = [(name, [f"tables/{name}"]) for name in _table_names()]
    tables += [
        (
            "both_hemispheres",
            ["tables/lh.volume.txt", "tables/rh.volume.txt", "tables/aseg.txt"],
        )
    ]
    tables += [("mixed", ["tables/lh.volume.txt", "tables/rh.thickness.txt"])]
    joined = [
        "--participants",
        "tables/people.tsv",
        "--covariates",
        "age,sex",
        "--group",
        "diagnosis",
    ]
    commands = [(f"check.{name}", ["check", *paths]) for name, paths in tables]
    commands += [
        (f"check_json.{name}", ["check", *paths, *joined, "--json"])
        for name, paths in tables
    ]
    commands += _simulated_study()
    if data.is_dir():
        commands += _shared_data(data)
    return commands


def _table_names() -> list[str]:
    names = [
        "aseg.txt",
        "lh.volume.txt",
        "rh.volume.txt",
        "lh.thickness.txt",
        "synthseg.csv",
        "enigma.csv",
    ]
    defects = [
        "missing.csv",
        "duplicate.csv",
        "units.csv",
        "text.csv",
        "negative.csv",
        "empty.csv",
        "latin.csv",
    ]
    return [*names, "generic.csv", "fastsurfer", *defects, "absent.csv"]


def _simulated_study() -> list[tuple[str, list[str]]]:
    """Return a study of each method on simulated people, and everything that can be
    done with it.
    """
    people = ["--participants", "demo/participants.tsv"]
    study = [
        "demo/volumes.csv",
        *people,
        "--group",
        "group",
        "--covariates",
        "age,sex,icv",
        "--workers",
        "2",
    ]
    quick = ["--method", "contrastive", "--members", "4", "--patterns", "2,3"]
    paper = [
        "--method",
        "surreal-gan",
        "--members",
        "2",
        "--max-steps",
        "30",
        "--patterns",
        "2",
        "--orthogonality",
        "0.2",
    ]
    indices = ["contrastive/r_indices.tsv"]
    model = "contrastive/model.safetensors"
    commands = [
        ("simulate", ["simulate", "--task", "small", "--seed", "3", "--out", "demo"]),
        (
            "simulate_sites",
            ["simulate", "--task", "tiny", "--sites", "2", "--out", "sites", "--json"],
        ),
        ("simulate_null", ["simulate", "--task", "null", "--out", "null"]),
        ("fit_dry_run", ["fit", *study, *quick, "--out", "dry", "--dry-run", "--json"]),
        ("fit_contrastive", ["fit", *study, *quick, "--out", "contrastive"]),
        (
            "fit_contrastive_json",
            ["fit", *study, *quick, "--out", "contrastive2", "--json", "--no-report"],
        ),
        (
            "fit_resume",
            ["fit", "contrastive/study.toml", "--out", "contrastive", "--json"],
        ),
        (
            "fit_default",
            [
                "fit",
                *study,
                "--members",
                "3",
                "--patterns",
                "3",
                "--out",
                "default",
                "--json",
            ],
        ),
        ("fit_paper", ["fit", *study, *paper, "--out", "paper", "--json"]),
        (
            "fit_one_pattern",
            ["fit", *study, *quick[:4], "--patterns", "1", "--out", "one"],
        ),
        (
            "fit_one_member",
            [
                "fit",
                *study,
                *quick[:2],
                "--members",
                "1",
                "--patterns",
                "3",
                "--out",
                "one_member",
            ],
        ),
        (
            "fit_dask",
            ["fit", *study, *quick, "--engine", "dask", "--out", "dask", "--json"],
        ),
        (
            "fit_sites",
            [
                "fit",
                "sites/volumes.csv",
                "--participants",
                "sites/participants.tsv",
                "--group",
                "group",
            ],
        ),
        (
            "fit_null",
            [
                "fit",
                "null/volumes.csv",
                "--participants",
                "null/participants.tsv",
                "--group",
                "group",
            ],
        ),
        ("fit_bad_method", ["fit", *study, "--method", "defalt", "--out", "bad"]),
        ("fit_bad_table", ["fit", "tables/text.csv", "--out", "bad"]),
        (
            "apply",
            ["apply", model, "demo/volumes.csv", *people, "--out", "applied.tsv"],
        ),
        (
            "apply_json",
            [
                "apply",
                model,
                "demo/volumes.csv",
                *people,
                "--out",
                "applied.csv",
                "--json",
            ],
        ),
        (
            "apply_default",
            [
                "apply",
                "default/model.safetensors",
                "demo/volumes.csv",
                *people,
                "--out",
                "d.tsv",
            ],
        ),
        (
            "apply_paper",
            [
                "apply",
                "paper/model.safetensors",
                "demo/volumes.csv",
                *people,
                "--out",
                "p.tsv",
            ],
        ),
        (
            "apply_sites",
            [
                "apply",
                "fitted_sites/model.safetensors",
                "sites/volumes.csv",
                "--participants",
            ],
        ),
        ("apply_wrong", ["apply", model, "tables/aseg.txt", "--out", "wrong.tsv"]),
        (
            "apply_parquet",
            ["apply", model, "demo.parquet", *people, "--out", "chunked.tsv"],
        ),
        (
            "apply_parquet_out",
            ["apply", model, "demo.parquet", *people, "--out", "chunked.parquet"],
        ),
        ("apply_folder", ["apply", model, "parts", *people, "--out", "folder.tsv"]),
        (
            "apply_chunks",
            [
                "apply",
                model,
                "long.csv",
                "--participants",
                "long_people.tsv",
                "--out",
                "long.tsv",
                "--workers",
                "2",
            ],
        ),
        ("show", ["model", "show", model]),
        ("show_json", ["model", "show", model, "--json"]),
        ("show_card", ["model", "show", "default/model.safetensors", "--card"]),
        ("export", ["model", "export", model, "--onnx", "model.onnx", "--json"]),
        ("report", ["report", "contrastive"]),
        (
            "associate",
            ["associate", *indices, "demo/participants.tsv", "--out", "contrastive"],
        ),
        ("report_associated", ["report", "contrastive"]),
        (
            "associate_json",
            [
                "associate",
                *indices,
                "demo/participants.tsv",
                "--covariates",
                "age",
                "--out",
                "a",
            ],
        ),
        (
            "compare",
            [
                "compare",
                *indices,
                "demo/volumes.csv",
                *people,
                "--covariates",
                "age,sex",
                "--out",
                "compared",
            ],
        ),
        (
            "classify",
            [
                "classify",
                *indices,
                "demo/volumes.csv",
                *people,
                "--repeats",
                "2",
                "--out",
                "classified",
            ],
        ),
        ("reproduce", ["reproduce", "contrastive/study.toml", "--out", "halves"]),
        ("change", ["change", "visits.tsv", "--time", "age", "--out", "changed"]),
        (
            "change_json",
            ["change", "visits.tsv", "--time", "age", "--out", "changed2", "--json"],
        ),
        (
            "power",
            [
                "power",
                "--people",
                "80+100",
                "--rates",
                "0.3",
                "--cohorts",
                "2",
                "--out",
                "powered",
            ],
        ),
        ("score", ["score", *indices, "demo/truth.tsv"]),
        ("score_json", ["score", *indices, "demo/truth.tsv", "--json"]),
        (
            "benchmark",
            [
                "benchmarks",
                "suite",
                "--suite",
                "paper",
                "--learners",
                "contrastive,nmf,fa",
                "--cohorts",
                "1",
            ],
        ),
    ]
    rest = {
        "fit_sites": ["--site", "site", *quick, "--out", "fitted_sites", "--json"],
        "fit_null": [*quick, "--out", "fitted_null", "--json"],
        "apply_sites": ["sites/participants.tsv", "--site", "site", "--out", "s.tsv"],
        "benchmark": ["--out", "benchmarked", "--json"],
        "associate_json": ["--json"],
    }
    return [(name, arguments + rest.get(name, [])) for name, arguments in commands]


def _shared_data(data: Path) -> list[tuple[str, list[str]]]:
    """Return commands on the published checkpoints and on real tables."""
    commands = []
    for name in ("ad_2rindices", "brain_aging_5rindices"):
        source = str(data / "upstream" / f"{name}.saved_model")
        model = f"{name}.safetensors"
        table = [str(data / "nichart_demo/DLMUSE_Volumes.csv"), "--participants"]
        table += [str(data / "nichart_demo/participants.csv"), "--out", f"{name}.tsv"]
        commands += [
            (
                f"import.{name}",
                ["model", "import", source, "--as", name, "--out", model, "--json"],
            ),
            (f"show.{name}", ["model", "show", model, "--json"]),
            (f"apply.{name}", ["apply", model, *table]),
            (f"export.{name}", ["model", "export", model, "--onnx", f"{name}.onnx"]),
        ]
    ixi = [
        str(data / "ixi/volumes.csv"),
        "--participants",
        str(data / "ixi/demographics.csv"),
    ]
    commands.append(("check.ixi", ["check", *ixi, "--json"]))
    commands.append(
        (
            "check.fcon1000",
            ["check", str(data / "fcon1000/fcon1000.csv"), "--site", "site", "--json"],
        )
    )
    return commands


def prepare_inputs(name: str, folder: Path) -> None:
    """Make the inputs that a command needs from what earlier commands wrote."""
    if name == "apply_parquet":
        table = pd.read_csv(folder / "demo/volumes.csv")
        table.to_parquet(folder / "demo.parquet", row_group_size=40)
        (folder / "parts").mkdir()
        table.iloc[:70].to_csv(folder / "parts/a.csv", index=False)
        table.iloc[70:].to_parquet(folder / "parts/b.parquet")
        people = pd.read_csv(folder / "demo/participants.tsv", sep="\t")
        for frame, path, sep in (
            (table, "long.csv", ","),
            (people, "long_people.tsv", "\t"),
        ):
            copies = [
                frame.assign(**{frame.columns[0]: frame.iloc[:, 0] + f"x{k}"})
                for k in range(40)
            ]
            pd.concat([frame, *copies]).to_csv(folder / path, sep=sep, index=False)
    if name == "change":
        first = pd.read_csv(folder / "applied.tsv", sep="\t").assign(session_id="a")
        ages = pd.read_csv(folder / "demo/participants.tsv", sep="\t")[
            ["participant_id", "age"]
        ]
        first = first.merge(ages)
        second = first.assign(
            session_id="b", age=first["age"] + 1.5, r1=first["r1"] * 1.1
        )
        pd.concat([first, second]).to_csv(folder / "visits.tsv", sep="\t", index=False)


def run_commands(folder: Path, source: Path | None, only: str) -> None:
    """Run all commands in a folder; standard output, standard error and exit code
    become files beside their outputs.
    """
    if folder.exists():
        shutil.rmtree(folder)
    write_tables(folder / "tables")
    (folder / "printed").mkdir()
    environment = os.environ | {
        "COLUMNS": "120",
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "agg",
    }
    if source is not None:
        source = source.resolve()
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(source), str(source.parent)]
        )  # the benchmarks are beside src
    for name, arguments in list_commands(SHARED):
        if only and not re.search(only, name):
            continue
        prepare_inputs(name, folder)
        program = ["-m"] if arguments[0] == "benchmarks" else ["-c", PROGRAM]
        command = [sys.executable, *program, *arguments]
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        (folder / "printed" / f"{name}.stdout").write_text(done.stdout)
        (folder / "printed" / f"{name}.stderr").write_text(done.stderr)
        (folder / "printed" / f"{name}.exit").write_text(f"{done.returncode}\n")
        print(f"{name}: exit {done.returncode}", flush=True)


def compare_folders(old: Path, new: Path, show: bool) -> int:
    """Print what differs between two folders of outputs; return the number of numerical
    differences.
    """
    names = [_list_files(folder) for folder in (old, new)]
    numbers, prose, equal = [], [], 0
    for name in sorted(names[0] | names[1]):
        if name not in names[0] or name not in names[1]:
            numbers.append(f"{name}: only in {'NEW' if name in names[1] else 'OLD'}")
            continue
        left, right = (_read_normalised(folder / name, folder) for folder in (old, new))
        if left == right:
            equal += 1
        elif Path(name).suffix in PROSE_SUFFIXES or _strip_words(left) == _strip_words(
            right
        ):
            prose.append(name)
        else:
            numbers.append(name)
        if show and left != right:
            lines = difflib.unified_diff(
                left.splitlines(), right.splitlines(), "old", "new", n=0, lineterm=""
            )
            print(f"== {name}", *(line[:300] for line in list(lines)[:40]), sep="\n")
    print(
        f"{equal} files equal, {len(prose)} differ in wording alone, {len(numbers)} differ in numbers or keys"
    )
    print(
        *(f"wording: {name}" for name in prose),
        *(f"NUMBERS: {name}" for name in numbers),
        sep="\n",
    )
    return len(numbers)


def _list_files(folder: Path) -> set[str]:
    skipped = ("journal", ".lock", "/lock", "people-")
    paths = (
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
    )
    return {path for path in paths if not any(part in path for part in skipped)}


def _read_normalised(path: Path, folder: Path) -> str:
    """Return the content as text; paths, times and pictures' metadata are replaced."""
    content = path.read_bytes()
    if path.suffix == ".safetensors":
        content = _describe_tensors(content)
    elif path.suffix == ".parquet":
        content = pd.read_parquet(path).to_csv().encode()
    text = content.decode("utf-8", errors="backslashreplace").replace(
        str(folder.resolve()), "FOLDER"
    )
    text = re.sub(
        r'("(?:seconds|rows_per_second|[a-z_]*_seconds)": )[0-9.]+', r"\1TIME", text
    )
    text = re.sub(r"\d{4}-\d{2}-\d{2}T[0-9:+.]+", "TIME", text)
    text = re.sub(r"(?m)^(.*seconds\W+)[0-9.]+$", r"\1TIME", text)
    text = re.sub(r"(?m)^.*\b(left|begun)\n", "", text)
    text = re.sub(
        r'(?<=download="r_indices.csv" href=")[^"]*', "ROWS IN RANDOM ORDER", text
    )
    return re.sub(r"[0-9,]+ (people|rows) (a|per) second", "RATE", text)


def _describe_tensors(content: bytes) -> bytes:
    """Return header and digest of a safetensors file; the header is JSON, made
    readable.
    """
    import hashlib

    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    metadata = {
        name: json.loads(value) if value[:1] in "{[" else value
        for name, value in header["__metadata__"].items()
    }
    digest = hashlib.sha256(content[8 + length :]).hexdigest()
    return json.dumps(
        {"metadata": metadata, "digest": digest}, indent=1, sort_keys=True
    ).encode()


def _strip_words(text: str) -> list[str]:
    """Return the numbers, keys of JSON and column names of a text."""
    return re.findall(r'"[^"]+"(?=:)|-?\d+(?:\.\d+)?(?:e[-+]?\d+)?', text)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("folder", type=Path)
    run.add_argument("--source", type=Path)
    run.add_argument(
        "--only", default="", help="regular expression of names of commands"
    )
    compare = commands.add_parser("compare")
    compare.add_argument("old", type=Path)
    compare.add_argument("new", type=Path)
    compare.add_argument(
        "--show", action="store_true", help="print the differing lines"
    )
    arguments = parser.parse_args()
    if arguments.command == "run":
        run_commands(arguments.folder, arguments.source, arguments.only)
    else:
        sys.exit(
            1 if compare_folders(arguments.old, arguments.new, arguments.show) else 0
        )


if __name__ == "__main__":
    main()
