"""What figures need of a study, read from a fitted model or from a results folder."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import pandas as pd

from rindices.analysis import study_results
from rindices.analysis.study_results import StudyResults
from rindices.errors import InputError, StudyError, did_you_mean
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.model.findings import StudyFindings
from rindices.model.fitted import FittedModel
from rindices.model.pattern_tables import make_change_table
from rindices.model.records import CohortRecord, SelectionRecord
from rindices.tables.layouts.region_names import label_regions
from rindices.wording import FEATURE_UNIT

_INDEX_NAME = re.compile(r"r\d+")


@dataclass(frozen=True, kw_only=True, eq=False)
class StudySource:
    """What is known of a study; None where it is not known.

    Attributes
    ----------
    model : FittedModel or None
        None where no difference was found.
    indices : DataFrame or None
        ``participant_id`` (of a model or a folder), ``group`` and R-indices.
    selection : SelectionRecord or None
        How the number of patterns was chosen.
    findings : StudyFindings or None
        What was found.
    cohort : CohortRecord or None
        Numbers and covariates of the people.
    effects : DataFrame or None
        Content of ``effects.tsv``.
    associations : DataFrame or None
        Content of ``associations.tsv``.
    subgroups : DataFrame or None
        Content of ``subgroups.tsv``.
    site_effects : DataFrame or None
        Content of ``site_effects.tsv``.
    history : DataFrame or None
        Content of ``training.tsv``.
    patterns : DataFrame or None
        Changes of regions that were given in place of a model.
    """

    model: FittedModel | None
    indices: pd.DataFrame | None = None
    selection: SelectionRecord | None = None
    findings: StudyFindings | None = None
    cohort: CohortRecord | None = None
    effects: pd.DataFrame | None = None
    associations: pd.DataFrame | None = None
    subgroups: pd.DataFrame | None = None
    site_effects: pd.DataFrame | None = None
    history: pd.DataFrame | None = None
    patterns: pd.DataFrame | None = None

    @classmethod
    def of(cls, study: "Study") -> "StudySource":
        """Return the source of a model, of results, of a folder, or of a table."""
        if isinstance(study, StudySource):
            return study
        if isinstance(study, StudyResults):
            return cls._of_results(study)
        if isinstance(study, FittedModel):
            return cls._of_model(study)
        if isinstance(study, pd.DataFrame):
            return cls._of_table(study)
        if isinstance(study, str | PathLike):
            return cls._of_folder(Path(study))
        raise InputError(
            f"study is {type(study).__name__}: give a fitted model, or the folder of a study."
        )

    @classmethod
    def _of_model(cls, model: FittedModel) -> Self:
        networks = model.networks
        history = None
        if networks is not None:
            from rindices.study.networks import make_training_table

            history = make_training_table(networks.members)
        return cls(
            model=None if model.finding == "no_difference" else model,
            indices=model.indices,
            selection=model.selection,
            findings=model.findings,
            history=history,
        )

    @classmethod
    def _of_results(cls, results: StudyResults) -> Self:
        training = results.training
        return cls(
            model=results.model,
            indices=results.indices,
            selection=results.selection,
            findings=results.findings,
            cohort=results.cohort,
            effects=results.effects,
            associations=results.associations,
            subgroups=results.subgroups,
            site_effects=results.site_effects,
            history=None if training is None else training.history,
        )

    @classmethod
    def _of_folder(cls, folder: Path) -> Self:
        if folder.is_file() and folder.name == "model.safetensors":
            folder = folder.parent
        null = study_results.read_null_results(folder)
        if null is not None:
            return cls(
                model=None,
                selection=null.selection,
                findings=null.findings,
                cohort=null.cohort,
                effects=null.effects,
            )
        if not folder.is_dir():
            raise StudyError(
                f"{folder} is no folder: give the folder of a study, which rindices fit --out {folder} writes."
            )
        source = cls._of_results(study_results.read_study_results(folder))
        return replace(source, indices=study_results.read_index_file(folder))

    @classmethod
    def _of_table(cls, table: pd.DataFrame) -> Self:
        if {"pattern", "region", "change"} <= set(table):
            default = {"severity": SEVERITY_LEVELS[-1], "low": np.nan, "high": np.nan}
            missing = {
                name: value for name, value in default.items() if name not in table
            }
            return cls(model=None, patterns=table.assign(**missing))
        if any(map(_INDEX_NAME.fullmatch, map(str, table))):
            return cls(model=None, indices=table)
        raise InputError(
            "the table has neither R-indices (r1, r2, ...) nor patterns: give the columns pattern, region and change."
        )

    def get(self, name: str, what: str, cure: str) -> Any:
        """Return an attribute; an error says what is missing, and what to do."""
        value = getattr(self, name)
        if value is None:
            raise InputError(f"the study has no {what}: {cure}.")
        return value

    @property
    def fitted(self) -> FittedModel:
        """The model; an error where there is none."""
        model = self.get("model", "model, so no pattern", "draw number and effects")
        assert isinstance(model, FittedModel)
        return model

    @property
    def people(self) -> pd.DataFrame:
        """R-indices of the people with all of them."""
        table = self.get(
            "indices",
            "R-indices of its own people",
            "give the folder of the study, or a model that ri.fit has returned",
        )
        assert isinstance(table, pd.DataFrame)
        names = self.index_names
        return table[table[names].notna().all(axis=1)].reset_index(drop=True)

    @cached_property
    def index_names(self) -> list[str]:
        """Names of the R-indices or patterns."""
        if self.model is None and self.patterns is not None:
            return list(dict.fromkeys(self.patterns["pattern"]))
        if self.model is None and self.indices is not None:
            return [
                name for name in map(str, self.indices) if _INDEX_NAME.fullmatch(name)
            ]
        return self.fitted.index_names

    @cached_property
    def regions(self) -> tuple[str, ...]:
        """Names of the regions, as tables have them."""
        if self.model is None and self.patterns is not None:
            return tuple(dict.fromkeys(self.patterns["region"]))
        return tuple(self.fitted.regions)

    @property
    def unit(self) -> str:
        """Unit of the regions; ``""`` where it is not known."""
        return "" if self.model is None else self.model.card.unit

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """Name for readers of each region."""
        if self.unit == FEATURE_UNIT:
            return {region: region for region in self.regions}
        return label_regions(self.regions)

    @cached_property
    def changes(self) -> pd.DataFrame:
        """Change of each region under each pattern, by severity."""
        if self.model is None and self.patterns is not None:
            return self.patterns
        return make_change_table(self.fitted)

    def select_changes(
        self, pattern: str, severity: float = SEVERITY_LEVELS[-1]
    ) -> pd.DataFrame:
        """Return the change of each region under a pattern at a severity."""
        table = self.changes
        if self.model is not None and severity not in SEVERITY_LEVELS:
            table = make_change_table(self.fitted, [severity])
        return table[(table["pattern"] == pattern) & (table["severity"] == severity)]

    def choose_patterns(self, pattern: str | None) -> list[str]:
        """Return the pattern that was named, or all."""
        names = self.index_names
        if pattern is None:
            return names
        if pattern not in names:
            raise InputError(
                f"the study has no pattern {pattern!r}; {did_you_mean(str(pattern), names)}."
            )
        return [pattern]


Study: TypeAlias = (
    FittedModel | StudyResults | StudySource | pd.DataFrame | str | PathLike[str]
)
"""What a figure is drawn from: a fitted model, the folder of a study, or a table."""
