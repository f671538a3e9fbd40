"""Real tables with sites, groups, age, sex and head size, cleaned of what is really
wrong in them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from rindices.tables.options import TableOptions
from rindices.tables.readers import make_request
from rindices.tables.validate import TableRequest, ValidationResult, validate_table

ID, SITE, GROUP, AGE, SEX, HEAD = "participant_id", "site", "group", "age", "sex", "ICV"
DATA = Path("..", "shared", "data")
_TOTALS = re.compile(
    r"BrainSeg|CortexVol|WhiteMatterVol$|GrayVol|SupraTent|MaskVol|eTIV|SurfaceHoles|IntraCranial|MeanThickness|avg_en"
    r"|hypoint|5th-Vent|Inf-Lat|vessel|choroid|CSF|Ventricle|Optic|CC_"
)
_KNOWN_COPIES_TEXT = (
    "ICBM_sub41546 Cleveland_sub22736 Cleveland_sub47482 Cleveland_sub17946 ICBM_sub26183 CMU_a_0050665 CMU_a_0050649 "
    "CMU_b_0050655 UM_2_0050387 UM_1_0050286 MaxMun_d_0051331"
)
_KNOWN_COPIES = _KNOWN_COPIES_TEXT.split()
"""People who stand twice in the public tables, judged by hand; one of each pair is left
out.
"""
_WRONG_DATASETS = ("ds002748", "ds004103", "ds003469", "ds002643", "ds000208")
"""OpenNeuro sets whose head size, sex or age is wrong, judged by hand."""


@dataclass(frozen=True, eq=False)
class RealTable:
    """A sound table: one row a person; columns id, site (if it has several), group,
    age, sex, head size and regions.
    """

    name: str
    frame: pd.DataFrame
    regions: list[str]
    measure: str | None = None

    @property
    def has_sites(self) -> bool:
        return SITE in self.frame

    def take(self, rows: np.ndarray) -> "RealTable":
        """Return some people, in the order of the table."""
        frame = self.frame.iloc[rows].reset_index(drop=True)
        if self.has_sites and frame[SITE].nunique() < 2:
            frame = frame.drop(columns=SITE)
        return replace(self, frame=frame)

    def request(self, on_suspect: str | None = "error") -> TableRequest:
        """Return the request with which the table is read, as by check."""
        options = TableOptions(
            id=ID,
            group=GROUP,
            site=SITE if self.has_sites else None,
            controls=("control",),
            patients=("patient",),
            measure=self.measure,
            on_suspect=on_suspect or "error",
        )
        request = make_request(self.frame, None, options)
        return replace(
            request, reports_missing=True, searches_blocks=on_suspect is not None
        )

    def check(self, on_suspect: str | None = "error") -> ValidationResult:
        """Read the table as check does."""
        return validate_table(self.request(on_suspect))


def _finish(
    name: str,
    frame: pd.DataFrame,
    regions: list[str],
    columns: dict[str, str],
    random_groups: bool = False,
) -> RealTable:
    frame = frame.rename(columns={old: new for new, old in columns.items()}).copy()
    keep = [
        each
        for each in regions
        if pd.api.types.is_numeric_dtype(frame[each])
        and (frame[each] > 0).mean() > 0.98
        and frame[each].nunique() > 10
    ]
    if random_groups:  # healthy people: half of those of each site are called patients
        rng = np.random.default_rng(0)
        frame[GROUP] = np.where(rng.random(len(frame)) < 0.5, "patient", "control")
    frame = frame[~frame[ID].astype(str).isin(_KNOWN_COPIES)].reset_index(drop=True)
    about = [each for each in (ID, SITE, GROUP, AGE, SEX, HEAD) if each in frame]
    is_thickness = frame[keep].median().max() < 10
    return RealTable(
        name, frame[about + keep], keep, "thickness" if is_thickness else None
    )


def _list_freesurfer(columns: pd.Index) -> list[str]:
    cortex = [
        each
        for each in columns
        if each.startswith(("lh_", "rh_")) and each.endswith("thickness")
    ]
    subcortex = [
        each for each in columns if each.startswith(("Left-", "Right-", "Brain-Stem"))
    ]
    return [each for each in [*cortex, *subcortex] if not _TOTALS.search(each)]


def _read_fcon() -> RealTable:
    frame = pd.read_csv(DATA / "fcon1000" / "fcon1000.csv")
    columns = {
        ID: "sub_id",
        SITE: "site",
        AGE: "age",
        SEX: "sex",
        HEAD: "EstimatedTotalIntraCranialVol",
    }
    return _finish(
        "fcon1000", frame, _list_freesurfer(frame.columns), columns, random_groups=True
    )


def _read_psychosis() -> RealTable:
    frame = pd.read_csv(DATA / "patients" / "psychosis" / "LNM_data.csv")
    frame = frame[frame.visit == 1].drop(columns="site").reset_index(drop=True)
    columns = {ID: "sub_id", HEAD: "EstimatedTotalIntraCranialVol"}
    return _finish("psychosis", frame, _list_freesurfer(frame.columns), columns)


def _read_abide(parts: tuple[str, ...]) -> RealTable:
    folder = DATA / "patients" / "autism"
    people = pd.read_csv(
        folder / "Phenotypic_V1_0b_preprocessed1.csv", low_memory=False
    )
    frame = people.loc[
        people.FILE_ID != "no_filename",
        ["FILE_ID", "SITE_ID", "DX_GROUP", "AGE_AT_SCAN", "SEX"],
    ]
    regions: list[str] = []
    for part in dict.fromkeys([*parts, "aseg_table"]):
        table = pd.read_csv(folder / "stats" / f"{part}.tsv", sep="\t")
        table = table.rename(columns={table.columns[0]: "FILE_ID"})
        regions += [
            each
            for each in table.columns[1:]
            if part in parts and not _TOTALS.search(each)
        ]
        frame = frame.merge(
            table[["FILE_ID", *[c for c in table.columns[1:] if c not in frame]]],
            on="FILE_ID",
        )
    frame[GROUP] = frame.DX_GROUP.map({1: "patient", 2: "control"})
    frame = frame.copy()
    columns = {
        ID: "FILE_ID",
        SITE: "SITE_ID",
        AGE: "AGE_AT_SCAN",
        SEX: "SEX",
        HEAD: "SupraTentorialVol",
    }
    return _finish(
        "autism" if "thickness" in parts[0] else "autism volumes",
        frame,
        regions,
        columns,
    )


def _read_ixi_program(file: str, site: str | None = None) -> RealTable:
    frame = pd.read_csv(DATA / "ixi_programs" / f"{file}.csv")
    regions = [each for each in frame if each.startswith(("left_", "right_"))]
    if site is not None:
        frame = frame[frame[SITE] == site].drop(columns=SITE).reset_index(drop=True)
    return _finish(
        f"IXI {file}" if site is None else f"IXI {site} {file}",
        frame,
        regions,
        {ID: "ID", HEAD: "head_volume"},
        random_groups=True,
    )


def _read_ixi() -> RealTable:
    folder = DATA / "ixi"
    frame = pd.read_csv(folder / "volumes.csv").merge(
        pd.read_csv(folder / "demographics.csv"), on="ID"
    )
    names = pd.read_csv(folder / "muse_single_rois.csv")
    codes = names.Code.astype(str).str.removeprefix("MUSE_")
    wanted = [
        code
        for code, name in zip(codes, names.Name, strict=True)
        if "Vent" not in name and code in frame
    ]
    frame = frame.rename(columns={code: f"MUSE_{code}" for code in wanted})
    frame[SITE] = frame.ID.str.split("-").str[1]
    columns = {ID: "ID", AGE: "Age", SEX: "Sex", HEAD: "702"}
    return _finish(
        "IXI DLMUSE",
        frame,
        [f"MUSE_{code}" for code in wanted],
        columns,
        random_groups=True,
    )


def _read_oasis() -> RealTable:
    frame = pd.read_csv(DATA / "patients" / "dementia" / "oasis1_thickness.csv")
    frame[GROUP] = np.where(frame.CDR > 0, "patient", "control")
    frame = frame[(frame.CDR.notna()) & (frame.age >= 60)].reset_index(drop=True)
    regions = [each for each in frame if each.startswith(("L_", "R_"))]
    return _finish("dementia", frame, regions, {ID: "ID", HEAD: "eTIV"})


def _read_openneuro(dataset: str | None = None) -> RealTable:
    frame = pd.read_csv(DATA / "patients" / "openneuro" / "openneuro_freesurfer.csv")
    frame = (
        frame[~frame.dataset.isin(_WRONG_DATASETS)]
        if dataset is None
        else frame[frame.dataset == dataset]
    )
    frame = frame.reset_index(drop=True)
    regions = [
        each
        for each in frame
        if each.startswith(("Left-", "Right-")) and not _TOTALS.search(each)
    ]
    regions += [
        each for each in frame if each.startswith(("lh", "rh")) and "thickness" in each
    ]
    frame[GROUP] = np.where(frame[GROUP].isin(["CON", "CON-SIB"]), "control", "patient")
    frame["id"] = frame.dataset + "_" + frame.participant_id.astype(str)
    frame = frame.drop(columns=ID)
    columns = {ID: "id", HEAD: "eTIV"} | ({SITE: "dataset"} if dataset is None else {})
    is_one_group = len(set(frame[GROUP])) == 1
    name = "OpenNeuro" if dataset is None else f"OpenNeuro {dataset}"
    return _finish(name, frame, regions, columns, random_groups=is_one_group)


def _read_depression() -> RealTable:
    frame = pd.read_csv(DATA / "patients" / "depression" / "openneuro_main.csv")
    labels = sorted(frame[GROUP].astype(str).unique())
    frame[GROUP] = np.where(frame[GROUP].astype(str) == labels[0], "control", "patient")
    regions = [each for each in frame if each.startswith(("lh_", "rh_"))]
    return _finish("depression", frame, regions, {ID: "subject"})


READERS: dict[str, Callable[[], RealTable]] = {
    "fcon1000": _read_fcon,
    "autism": lambda: _read_abide(
        ("lh.aparc_table_thickness", "rh.aparc_table_thickness", "aseg_table")
    ),
    "autism volumes": lambda: _read_abide(
        ("lh.aparc_table_volume", "rh.aparc_table_volume", "aseg_table")
    ),
    "IXI ants_thickness": lambda: _read_ixi_program("ants_thickness"),
    "IXI ants_volume": lambda: _read_ixi_program("ants_volume"),
    "IXI freesurfer_thickness": lambda: _read_ixi_program("freesurfer_thickness"),
    "IXI DLMUSE": _read_ixi,
    "psychosis": _read_psychosis,
    "dementia": _read_oasis,
    "OpenNeuro": _read_openneuro,
}
"""Real tables by name."""
FRESH: dict[str, Callable[[], RealTable]] = {
    "depression": _read_depression,
    "OpenNeuro ds000243": lambda: _read_openneuro("ds000243"),
    "OpenNeuro ds001747": lambda: _read_openneuro("ds001747"),
    "IXI Guys ants_volume": lambda: _read_ixi_program("ants_volume", "Guys"),
    "IXI HH freesurfer_thickness": lambda: _read_ixi_program(
        "freesurfer_thickness", "HH"
    ),
}
"""Tables on which no limit was set: another one, and single sets and sites that were
not looked at alone.
"""


@cache
def read_table(name: str) -> RealTable:
    """Return a real table without people who stand twice, of each pair of whom one is
    left out.
    """
    table = (READERS | FRESH)[name]()
    for _ in range(3):
        problems = [
            each for each in table.check().problems if each.code == "suspect_copies"
        ]
        if not problems:
            break
        pairs = re.findall(r"(\S+) = \S+", "; ".join(each.listing for each in problems))
        table = table.take(np.flatnonzero(~table.frame[ID].astype(str).isin(pairs)))
    return table
