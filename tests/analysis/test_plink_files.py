"""Phenotype and covariate files: their numbers, and that PLINK reads them."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.analysis.plink_files import write_plink_files
from rindices.errors import InputError
from rindices.preprocess.residualise import CategoricalCovariate, NumericCovariate

CODINGS = (
    NumericCovariate("age", 40, 80),
    CategoricalCovariate("sex", ("F", "M")),
    CategoricalCovariate("s t", ("a", "b", "c")),
)


def make_people(number: int = 60) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    ids = [f"sub-{k:03d}" for k in range(number)]
    indices = pd.DataFrame({"participant_id": ids, "r1": rng.random(number), "r2": rng.random(number).round(1)})
    indices = indices.assign(r1_low=0.0, r1_high=1.0, novel=False)
    covariates = pd.DataFrame({"age": rng.uniform(40, 80, number), "sex": rng.choice(["F", "M"], number)})
    return indices, covariates.assign(**{"s t": rng.choice(["a", "b", "c"], number)})


def test_numbers_are_those_of_the_people(tmp_path: Path) -> None:
    indices, covariates = make_people()
    write_plink_files(indices, covariates, CODINGS, tmp_path / "gwas.v1")
    phenotypes = pd.read_csv(tmp_path / "gwas.v1.phe", sep="\t")
    assert list(phenotypes) == ["FID", "IID", "r1", "r2"]
    np.testing.assert_array_equal(phenotypes["IID"], indices["participant_id"])
    np.testing.assert_array_equal(phenotypes["r1"], indices["r1"])
    written = pd.read_csv(tmp_path / "gwas.v1.cov", sep="\t")
    assert list(written) == ["FID", "IID", "age", "sex_M", "s_t_b", "s_t_c"]
    np.testing.assert_array_equal(written["sex_M"], (covariates["sex"] == "M").astype(float))
    np.testing.assert_array_equal(written["s_t_c"], (covariates["s t"] == "c").astype(float))
    write_plink_files(indices, covariates, (), tmp_path / "none")
    assert not (tmp_path / "none.cov").exists()


def test_blanks_are_refused(tmp_path: Path) -> None:
    indices, covariates = make_people(4)
    with pytest.raises(InputError, match="blanks: sub 1"):
        write_plink_files(indices.assign(participant_id=["sub 1", "b", "c", "d"]), covariates, CODINGS, tmp_path / "a")


@pytest.mark.parametrize("program", ["plink2", "plink1.9"])
def test_plink_reads_the_files(program: str, tmp_path: Path) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    indices, covariates = make_people()
    write_plink_files(indices, covariates, CODINGS, tmp_path / "gwas")
    rng = np.random.default_rng(2)
    genotypes = rng.integers(0, 3, (len(indices), 2))
    alleles = [" ".join("AG"[k > n] for n in range(2)) for k in range(3)]
    rows = [
        f"{name} {name} 0 0 1 -9 {' '.join(alleles[k] for k in row)}"
        for name, row in zip(indices["participant_id"], genotypes, strict=True)
    ]
    (tmp_path / "g.ped").write_text("\n".join(rows) + "\n")
    (tmp_path / "g.map").write_text("1 rs1 0 100\n1 rs2 0 200\n")
    files = ["--pheno", "gwas.phe", "--covar", "gwas.cov", "--out", "result"]
    if program == "plink2":
        subprocess.run(
            ["plink1.9", "--file", "g", "--make-bed", "--out", "g"], cwd=tmp_path, check=True, capture_output=True
        )
        command = ["plink2", "--bfile", "g", "--glm", "hide-covar", "allow-no-covars", *files]
    else:
        command = ["plink1.9", "--file", "g", "--linear", "hide-covar", "--all-pheno", "--allow-no-sex", *files]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = list(tmp_path.glob("result*r1*linear")) or list(tmp_path.glob("result.P1.*linear"))
    table = pd.read_csv(path, sep=r"\s+")
    design = np.column_stack(
        [np.ones(60), genotypes[:, 0], *pd.read_csv(tmp_path / "gwas.cov", sep="\t").iloc[:, 2:].T.to_numpy()]
    )
    slope = np.linalg.lstsq(design, indices["r1"].to_numpy(), rcond=None)[0][1]
    assert abs(table["BETA"].iloc[0]) == pytest.approx(abs(slope), rel=1e-3)
