"""What was removed from the regions before learning."""

import numpy as np

from rindices.model.records.base import Record
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.residualise import NumericCovariate, count_columns
from rindices.tables.layouts.freesurfer import infer_measure
from rindices.wording import FEATURE_UNIT


class AdjustedCovariateRecord(Record):
    """A covariate, the number of regions that it was removed from, and what these
    measure if they are not all.

    Attributes
    ----------
    name : str
    regions : int
    measures : tuple of str
    """

    name: str
    regions: int
    measures: tuple[str, ...] = ()


class AdjustmentRecord(Record):
    """What was removed from the regions before learning.

    ``scale`` is 'log', 'linear' or 'none'. ``head_size`` names the covariates that
    entered as logarithms. ``site_mode`` is 'controls' or 'all', the people from whom
    the effects of ``sites`` sites were estimated, or ''.

    Attributes
    ----------
    scale : str
    regions : int
    covariates : tuple of AdjustedCovariateRecord
    head_size : tuple of str
    sites : int
    site_mode : str
    """

    scale: str
    regions: int
    covariates: tuple[AdjustedCovariateRecord, ...] = ()
    head_size: tuple[str, ...] = ()
    sites: int = 0
    site_mode: str = ""

    @property
    def in_all_regions(self) -> list[str]:
        """Covariates that were removed from all regions."""
        return [each.name for each in self.covariates if each.regions == self.regions]

    @property
    def in_some_regions(self) -> list[AdjustedCovariateRecord]:
        """Covariates that were removed from some regions."""
        return [each for each in self.covariates if 0 < each.regions < self.regions]

    @property
    def without_effect(self) -> list[str]:
        """Covariates that were named and changed nothing, because controls do not
        differ in them.
        """
        return [each.name for each in self.covariates if not each.regions]


def describe_adjustment(preprocessing: Preprocessing, unit: str) -> AdjustmentRecord:
    """Return what a preprocessing removes, by its coefficients: thickness, for one,
    keeps the effect of head size.

    Parameters
    ----------
    unit : str
        Unit of the table. Features of any kind have no measures.
    """
    residualiser, harmoniser = preprocessing.residualiser, preprocessing.harmoniser
    regions = np.array(preprocessing.regions)
    ends = np.cumsum([count_columns(coding) for coding in residualiser.codings])
    covariates = []
    for coding, coefficients in zip(
        residualiser.codings,
        np.split(residualiser.coefficients, ends)[:-1],
        strict=True,
    ):
        adjusted = regions[(coefficients != 0).any(axis=0)]
        is_part = 0 < len(adjusted) < len(regions) and unit != FEATURE_UNIT
        measures = (
            sorted({infer_measure(region) for region in adjusted}) if is_part else ()
        )
        covariates.append(
            AdjustedCovariateRecord(
                name=coding.name, regions=len(adjusted), measures=tuple(measures)
            )
        )
    return AdjustmentRecord(
        scale=preprocessing.adjust,
        regions=len(regions),
        covariates=tuple(covariates),
        head_size=tuple(
            each.name
            for each in residualiser.codings
            if isinstance(each, NumericCovariate) and each.log
        ),
        sites=0 if harmoniser is None else len(harmoniser.sites),
        site_mode="" if harmoniser is None else harmoniser.mode,
    )
