"""Write small versions of the tables that the documentation uses: ``python desk.py
FOLDER``.

``dlmuse.csv``, ``participants.tsv``   DLMUSE by code; diagnosis CN, MCI, AD; age, sex,
scanner ``visits.csv``, ``sessions.tsv``       the same people twice, a year and a half
apart; age, sex, diagnosis at each visit ``aseg.tsv``, ``lh.tsv``, ``rh.tsv``
FreeSurfer's tables of the same people ``sample_roi.csv``, ``sample_truth.csv``  as the
authors' package has them ``results``, ``model.safetensors``     a small study of
``dlmuse.csv``, and its model ``new.csv``, ``new.tsv``               controls and
patients of a third scanner ``clinical.tsv``                       clinical variables of
the same people ``your_table.csv``, ``your_participants.tsv``  the first two again
"""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import rindices as ri

STRUCTURES = (
    "Thalamus",
    "Caudate",
    "Putamen",
    "Pallidum",
    "Hippocampus",
    "Amygdala",
    "Accumbens-area",
)
GYRI = (
    "bankssts",
    "cuneus",
    "entorhinal",
    "fusiform",
    "insula",
    "lingual",
    "precuneus",
    "superiorfrontal",
)


def main(folder: Path) -> None:
    """Write all tables and run the study."""
    folder.mkdir(parents=True, exist_ok=True)
    simulated = ri.simulate_cohort("tiny", 0)
    # without the regions that no pattern affects, a fit takes half the time
    affected = (simulated.patterns.drop(columns="region") > 0).any(axis=1).to_numpy()
    cohort = replace(
        simulated.cohort, volumes=simulated.cohort.volumes.loc[:, affected]
    )
    rng = np.random.default_rng(0)
    volumes, people = cohort.volumes, make_participants(cohort, rng)
    ids = people["participant_id"]
    codes = volumes.rename(columns=lambda name: name.removeprefix("MUSE_"))
    dlmuse = pd.concat(
        [ids.rename("ID"), cohort.covariates["icv"].rename("702"), codes], axis=1
    )
    for table, name in ((dlmuse, "dlmuse.csv"), (dlmuse, "your_table.csv")):
        table.to_csv(folder / name, index=False)
    for name in ("participants.tsv", "your_participants.tsv"):
        people.to_csv(folder / name, sep="\t", index=False)
    clinical = people[["participant_id", "age", "sex"]].assign(
        mmse=rng.normal(27, 2, len(people)).round()
    )
    clinical.to_csv(folder / "clinical.tsv", sep="\t", index=False)
    write_new_people(dlmuse, people, folder)
    make_visits(dlmuse, rng).to_csv(folder / "visits.csv", index=False)
    make_sessions(people).to_csv(folder / "sessions.tsv", sep="\t", index=False)
    write_freesurfer_tables(volumes, ids, cohort.covariates["icv"], folder)
    write_upstream_sample(volumes, ids, cohort.is_patient, folder)
    simulated.severities.rename(
        columns=lambda name: (
            name.replace("s", "r") if name != "participant_id" else name
        )
    ).to_csv(folder / "sample_truth.csv", index=False)
    run_study(folder)


def run_study(folder: Path) -> None:
    """Run a small study of the first table with the command line."""
    program = [
        sys.executable,
        "-c",
        "from rindices.cli.main import run; run()",
        "fit",
        "dlmuse.csv",
    ]
    groups = "--participants participants.tsv --group diagnosis --controls CN --patients MCI,AD --covariates age,sex,icv"
    settings = "--patterns 2 --members 3 --method contrastive --workers 1 --out results"
    subprocess.run(
        [*program, *groups.split(), *settings.split()],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    shutil.copy(folder / "results" / "model.safetensors", folder)
    shutil.rmtree(folder / "results" / "runs")


def make_participants(cohort: ri.Cohort, rng: np.random.Generator) -> pd.DataFrame:
    """Return participants in the format of BIDS."""
    people = cohort.people[["participant_id"]].copy()
    people["diagnosis"] = np.where(
        cohort.is_control, "CN", rng.choice(["MCI", "AD"], len(cohort))
    )
    people[["age", "sex"]] = cohort.covariates[["age", "sex"]].to_numpy()
    people["scanner"] = rng.choice(["A", "B"], len(cohort))
    return people


def write_new_people(table: pd.DataFrame, people: pd.DataFrame, folder: Path) -> None:
    """Write sixty people with other ids from another scanner."""
    names = [f"new-{row:02d}" for row in range(60)]
    table[:60].assign(ID=names).to_csv(folder / "new.csv", index=False)
    participants = (
        people[:60]
        .assign(participant_id=names, scanner="C")
        .rename(columns={"diagnosis": "dx"})
    )
    participants.to_csv(folder / "new.tsv", sep="\t", index=False)


def make_visits(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return two scans of each person, the second a little different."""
    second = table.copy()
    second.iloc[:, 2:] *= rng.normal(0.99, 0.01, size=second.iloc[:, 2:].shape)
    both = pd.concat(
        [table.assign(session_id="ses-1"), second.assign(session_id="ses-2")]
    )
    return both.rename(columns={"ID": "participant_id"})


def make_sessions(people: pd.DataFrame) -> pd.DataFrame:
    """Return age, sex and diagnosis at each scan."""
    first = people[["participant_id", "age", "sex", "diagnosis"]].assign(
        session_id="ses-1"
    )
    return pd.concat(
        [first, first.assign(session_id="ses-2", age=first["age"].astype(float) + 1.5)]
    )


def write_freesurfer_tables(
    volumes: pd.DataFrame, ids: pd.Series, icv: pd.Series, folder: Path
) -> None:
    """Write volumes with the names of FreeSurfer."""
    columns = iter(range(volumes.shape[1]))
    aseg = {
        f"{side}-{name}": volumes.iloc[:, next(columns)]
        for name in STRUCTURES
        for side in ("Left", "Right")
    }
    frame = pd.DataFrame(
        {"Measure:volume": ids, **aseg, "EstimatedTotalIntraCranialVol": icv}
    )
    frame.to_csv(folder / "aseg.tsv", sep="\t", index=False)
    for side in ("lh", "rh"):
        gyri = {
            f"{side}_{name}_volume": volumes.iloc[:, next(columns)] for name in GYRI
        }
        pd.DataFrame({f"{side}.aparc.volume": ids, **gyri}).to_csv(
            folder / f"{side}.tsv", sep="\t", index=False
        )


def write_upstream_sample(
    volumes: pd.DataFrame, ids: pd.Series, patient: np.ndarray, folder: Path
) -> None:
    """Write a table in the format of the authors' package."""
    regions = volumes.set_axis([f"roi{k}" for k in range(volumes.shape[1])], axis=1)
    diagnosis = pd.Series(np.where(patient, 1, -1), name="diagnosis")
    pd.concat([ids, diagnosis, regions], axis=1).to_csv(
        folder / "sample_roi.csv", index=False
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
