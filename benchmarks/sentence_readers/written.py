"""What a study wrote and what is true of it: the figures against which its sentences
are held.

Everything is computed from the tables that the study wrote, from the tables that it was
given, and from the truth. Nothing here uses ``rindices.model.findings``. Shape letters:
N people, R regions, M patterns.
"""

import json
import math
import re
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import linear_sum_assignment

from benchmarks.sentence_readers.studies import GROUP, ID, SESSION, SITE, Study, Truth
from rindices.tables.layouts.region_names import label_regions

NEGLIGIBLE = 0.3
"""True change, in standard deviations of controls, whose sign is not held against a
sentence.
"""
MIN_REPRODUCED = 0.5
MAX_NAMED = 3
"""Structures that a sentence names."""
MAX_LISTED = 10
"""Regions of a pattern in JSON."""


class NamedRegion(NamedTuple):
    """A region as a sentence names it: its structure, its side with the measure, and
    its change.
    """

    structure: str
    side: str
    change: str


class WrittenStudy:
    """The folder of a finished study, the tables that it was given, and the truth.

    Parameters
    ----------
    study : Study
    truth : Truth
    folder : Path
        What ``rindices fit --out`` has written.
    """

    def __init__(self, study: Study, truth: Truth, folder: Path) -> None:
        self.study, self.truth, self.folder = study, truth, folder
        self.selection: dict[str, Any] = json.loads(
            (folder / "selection.json").read_text("utf-8")
        )
        self.cohort: dict[str, Any] = json.loads(
            (folder / "cohort.json").read_text("utf-8")
        )

    def read(self, name: str) -> pd.DataFrame | None:
        """Return a table of the folder; None where there is none.

        Tables of features name them ``feature``.
        """
        path = self.folder / f"{name}.tsv"
        if not path.is_file():
            return None
        table = pd.read_csv(
            path,
            sep="\t",
            dtype={ID: str, SESSION: str},
            keep_default_na=False,
            na_values=["n/a", ""],
        )
        return table.rename(columns={"feature": "region"})

    @cached_property
    def indices(self) -> pd.DataFrame | None:
        """``r_indices.tsv`` by participant."""
        table = self.read("r_indices")
        return None if table is None else table.set_index(ID)

    @cached_property
    def names(self) -> list[str]:
        """Names of the R-indices."""
        return (
            []
            if self.indices is None
            else [name for name in self.indices if re.fullmatch(r"r\d+", name)]
        )

    @cached_property
    def effects(self) -> pd.DataFrame:
        """``effects.tsv`` by region."""
        table = self.read("effects")
        assert table is not None
        return table.set_index("region")

    @cached_property
    def changes(self) -> dict[str, pd.DataFrame]:
        """Rows of ``patterns.tsv`` at severity 1 by pattern, with structure and side of
        each region for readers.
        """
        table = self.read("patterns")
        if table is None:
            return {}
        table = table[table["severity"] == 1.0]
        labels = {region: region for region in table["region"]}
        if not self.has_features:
            labels = label_regions(tuple(dict.fromkeys(table["region"])))
        shown = [self._split_label(labels[region]) for region in table["region"]]
        table = table.assign(
            structure=[each[0] for each in shown], side=[each[1] for each in shown]
        )
        table["shown"] = [labels[region] for region in table["region"]]
        table["is_certain"] = (table["low"] > 0) | (table["high"] < 0)
        table["size"] = table["change"].abs()
        return {
            name: rows.set_index("region")
            for name, rows in table.groupby("pattern", sort=False)
        }

    def _split_label(self, label: str) -> tuple[str, str]:
        match = (
            None
            if self.has_features
            else re.fullmatch(r"(.+), ((?:left|right)(?: \(\w+\))?)", label)
        )
        return (match[1], match[2]) if match else (label, "")

    @cached_property
    def has_features(self) -> bool:
        """Whether the table holds features of any kind."""
        return bool(self.cohort["unit"] == "any")

    @cached_property
    def header(self) -> dict[str, Any]:
        """Values of the model file, and the shapes of its arrays; empty without a
        model.
        """
        path = self.folder / "model.safetensors"
        if not path.is_file():
            return {}
        content = path.read_bytes()
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
        values: dict[str, Any] = json.loads(header.pop("__metadata__")["rindices"])
        self._arrays = {
            name: np.frombuffer(
                content[8 + size :][slice(*entry["data_offsets"])],
                _DTYPES[entry["dtype"]],
            ).reshape(entry["shape"])
            for name, entry in header.items()
        }
        return values

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays of the model file by name."""
        return self._arrays if self.header else {}

    @property
    def is_null(self) -> bool:
        """Whether the study ended without a model."""
        return not self.header

    @property
    def difference(self) -> dict[str, Any]:
        """The test of any difference."""
        return dict(self.selection["difference"])

    @property
    def level(self) -> float:
        """Of the tests."""
        return float(self.selection["number_of_patterns"]["test"]["level"])

    @property
    def is_difference(self) -> bool:
        """Whether p is at most the level."""
        return bool(self.difference["p"] <= self.level)

    @property
    def n_reached(self) -> int:
        """Permutations with a difference at least as large as the true labels give."""
        return round(self.difference["p"] * (self.difference["permutations"] + 1)) - 1

    @property
    def held_out(self) -> dict[str, Any] | None:
        """Likelihoods of the chosen setting by shape."""
        chosen = self.selection["chosen"]
        return None if chosen is None else chosen.get("held_out")

    @property
    def n_regions(self) -> int:
        """Regions that were analysed."""
        return len(self.effects)

    def get_evidence(self, name: str) -> dict[str, Any]:
        """Return the record of a pattern in ``selection.json``."""
        (record,) = [
            each for each in self.selection["patterns"] if each["name"] == name
        ]
        return dict(record)

    @cached_property
    def known(self) -> pd.DataFrame:
        """People with R-indices: the written rows beside what the input tables say of
        them.
        """
        assert self.indices is not None
        people = self.truth.first.drop(columns=[GROUP, *self.indices], errors="ignore")
        people.index = people.index.astype(str)
        return self.indices[self.indices[self.names].notna().all(axis=1)].join(people)

    def split(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the R-index of controls and of patients."""
        return tuple(
            self.known.loc[self.known[GROUP] == group, name].to_numpy()
            for group in ("control", "patient")
        )

    def compute_auc(self, name: str) -> tuple[float, float]:
        """Return the AUC of an R-index, and its standard error (DeLong)."""
        controls, patients = self.split(name)
        larger = (patients[:, None] > controls) + 0.5 * (patients[:, None] == controls)
        error = larger.mean(axis=1).var(ddof=1) / len(patients) + larger.mean(
            axis=0
        ).var(ddof=1) / len(controls)
        return float(larger.mean()), float(np.sqrt(error))

    def compute_prevalence(self, name: str) -> float:
        """Return the share of patients above the 95th percentile of controls, beyond
        the share that chance gives.
        """
        controls, patients = self.split(name)
        above = float((patients > np.quantile(controls, 0.95)).mean())
        return min(max((above - 0.05) / 0.95, 0.0), 1.0)

    def compute_middle_half(self, name: str) -> tuple[float, float]:
        """Return the quartiles of an R-index in controls."""
        low, high = np.quantile(self.split(name)[0], [0.25, 0.75])
        return float(low), float(high)

    def correlate(self, name: str) -> dict[str, tuple[float, float]]:
        """Return the rank correlation of an R-index with each covariate and with the
        site in patients, and its p.
        """
        patients = self.known[self.known[GROUP] == "patient"]
        columns = [*self.truth.covariates, *([SITE] if self.uses_sites else [])]
        found = {}
        for column in columns:
            values = patients[column]
            kept, values = patients[name][values.notna()], values[values.notna()]
            if values.nunique() < 2:
                continue
            if pd.api.types.is_numeric_dtype(values):
                found[column] = tuple(map(float, stats.spearmanr(values, kept)))
            elif values.nunique() == 2:
                last = max(values.astype(str))
                found[f"{column} ({last})"] = tuple(
                    map(float, stats.spearmanr(values.astype(str) == last, kept))
                )
            else:
                ranks = kept.rank()
                means = ranks.groupby(values.astype(str)).transform("mean")
                eta = math.sqrt(
                    ((means - ranks.mean()) ** 2).sum()
                    / ((ranks - ranks.mean()) ** 2).sum()
                )
                groups = [rows for _, rows in kept.groupby(values.astype(str))]
                found[column] = (eta, float(stats.kruskal(*groups).pvalue))
        return found

    @property
    def uses_sites(self) -> bool:
        """Whether the study knows the sites of its people."""
        return SITE in self.truth.people

    def list_adjusted(self) -> dict[str, int]:
        """Return the number of regions that each covariate was removed from, by the
        coefficients of the model.
        """
        if self.is_null:
            return {
                each["name"]: each["regions"]
                for each in self.selection["adjustment"]["covariates"]
            }
        coefficients, start, found = self.arrays["residualise.coefficients"], 0, {}
        for covariate in self.header["covariates"]:
            width = (
                1 if covariate["kind"] == "numeric" else len(covariate["levels"]) - 1
            )
            rows = coefficients[start : start + width]
            found[covariate["name"]] = int((rows != 0).any(axis=0).sum())
            start += width
        return found

    def count_outlying(self) -> dict[str, int] | None:
        """Return the numbers of outlying measurements and of their participants by
        group; None without any.
        """
        table = self.read("outlying_measurements")
        if table is None or not len(table):
            return None
        groups = self.truth.first[GROUP]
        groups.index = groups.index.astype(str)
        own = table[ID].map(groups.to_dict())
        people = table.drop_duplicates(ID)[ID].map(groups.to_dict())
        counts = {
            f"{name} {group}": int((each == group).sum())
            for name, each in (("m", own), ("p", people))
            for group in ("control", "patient")
        }
        return counts | {"m": len(table), "p": len(people)}

    @cached_property
    def matched(self) -> dict[str, str]:
        """The true pattern of each R-index, by rank correlation with the true
        severities in patients.
        """
        truth = self.truth.severities
        if truth is None or not self.names:
            return {}
        patients = self.known[self.known[GROUP] == "patient"]
        truth = truth.loc[patients.index]
        constant = [name for name in truth if truth[name].nunique() < 2]
        if constant:
            return dict.fromkeys(self.names, constant[0])
        rho = np.array(
            [
                [stats.spearmanr(patients[a], truth[b]).statistic for b in truth]
                for a in self.names
            ]
        )
        rows, columns = linear_sum_assignment(-rho)
        self.accuracy = float(np.mean(rho[rows, columns]))
        return {
            self.names[row]: str(truth.columns[column])
            for row, column in zip(rows, columns, strict=True)
        }

    def find_true_directions(self, name: str, region: str) -> set[str]:
        """Return the directions, loss or gain, that a pattern may be said to have in a
        region; empty if unknown.

        It is that of the matched pattern, where its change is not negligible; of any
        pattern where a study has fewer patterns than there are, or more. ``none``
        stands for a region that no pattern changes.
        """
        effects = self.known_effects
        if effects is None:
            return set()
        own = effects.loc[region]
        if not (own.abs() >= NEGLIGIBLE).any():
            return {"none"}
        match, is_complete = self.matched.get(name), len(self.names) >= effects.shape[1]
        known = own[[match]] if match is not None and is_complete else own
        return {
            "loss" if value < 0 else "gain"
            for value in known[known.abs() >= NEGLIGIBLE]
        }

    @property
    def known_effects(self) -> pd.DataFrame | None:
        """True changes by region; None where they are not known, or the table was
        altered as a whole.
        """
        alteration = self.truth.alteration
        is_whole = alteration is None or alteration.kind == "one_site"
        return self.truth.effects if is_whole and self.names else None


_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "I64": "<i8",
    "I32": "<i4",
    "BOOL": "?",
    "U8": "u1",
    "I16": "<i2",
    "F16": "<f2",
}
