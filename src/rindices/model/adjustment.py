"""What a preprocessing removes from which regions."""

import numpy as np

from rindices.model.records import AdjustedCovariateRecord, AdjustmentRecord
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.residualise import NumericCovariate, count_columns
from rindices.tables.layout.freesurfer import infer_measure
from rindices.wording import FEATURE_UNIT


def describe_adjustment(preprocessing: Preprocessing, unit: str) -> AdjustmentRecord:
    """Return what a preprocessing removes, by its coefficients: thickness, for one, keeps the effect of head size.

    unit: unit of the table; features of any kind have no measures.
    """
    residualiser, harmoniser = preprocessing.residualiser, preprocessing.harmoniser
    regions = np.array(preprocessing.regions)
    ends = np.cumsum([count_columns(coding) for coding in residualiser.codings])
    covariates = []
    for coding, coefficients in zip(residualiser.codings, np.split(residualiser.coefficients, ends)[:-1], strict=True):
        adjusted = regions[(coefficients != 0).any(axis=0)]
        is_part = 0 < len(adjusted) < len(regions) and unit != FEATURE_UNIT
        measures = sorted({infer_measure(region) for region in adjusted}) if is_part else ()
        covariates.append(AdjustedCovariateRecord(coding.name, len(adjusted), tuple(measures)))
    return AdjustmentRecord(
        scale=preprocessing.adjust,
        regions=len(regions),
        covariates=tuple(covariates),
        head_size=tuple(each.name for each in residualiser.codings if isinstance(each, NumericCovariate) and each.log),
        sites=0 if harmoniser is None else len(harmoniser.sites),
        site_mode="" if harmoniser is None else harmoniser.mode,
    )
