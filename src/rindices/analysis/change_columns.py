"""Descriptions of the columns of the tables of change, for their data dictionaries."""

from collections.abc import Iterable

GROUP_COLUMNS = {
    "index": "R-index",
    "model": "mixed model (random intercept and slope, restricted maximum likelihood), or two stages (least-squares "
    "slopes of persons, then a linear model of them with HC3 standard errors)",
    "controls": "Controls, all visits",
    "patients": "Patients, all visits",
    "controls_per_year": "Mean change of controls per year",
    "controls_per_year_low": "Lower end of its 95 % interval",
    "controls_per_year_high": "Upper end of its 95 % interval",
    "patients_per_year": "Mean change of patients per year",
    "patients_per_year_low": "Lower end of its 95 % interval",
    "patients_per_year_high": "Upper end of its 95 % interval",
    "difference": "Change of patients minus change of controls per year, adjusted for covariates of level and slope",
    "difference_low": "Lower end of its 95 % interval",
    "difference_high": "Upper end of its 95 % interval",
    "t": "Difference over its standard error",
    "freedom": "Degrees of freedom of t: people minus columns of the model of slopes",
    "p": "Two-sided p-value of no difference",
    "q": "False discovery rate over the table (Benjamini and Hochberg)",
}
TRIAL_COLUMNS = {
    "index": "R-index",
    "group": "People whose change a treatment would slow",
    "per_year": "Their mean change per year",
    "slope_sd": "Standard deviation of true change per year between people",
    "noise": "Standard deviation of a visit about the person's line",
    "slowing": "Share of the change that the treatment prevents",
    "power": "Power of a two-sided test at 0.05",
    "years": "Duration of the trial",
    "visits": "Visits of each person, evenly spaced",
    "per_arm": "People per arm who complete the trial; n/a if the change or its variance is unknown",
    "per_arm_low": "The same at the end of the 95 % interval of the mean change that is farther from zero",
    "per_arm_high": "The same at the end that is nearer to zero; n/a if the interval includes zero",
    "excess_per_arm": "People per arm if the treatment slows only the part of the change that exceeds controls' change",
    "excess_per_arm_low": "The same at the end of the 95 % interval that is farther from zero",
    "excess_per_arm_high": "The same at the end that is nearer to zero; n/a if the interval includes zero",
}
RETEST_COLUMNS = {
    "index": "R-index",
    "people": "Controls with two visits or more",
    "visits": "Their visits",
    "noise": "Standard deviation of a visit about the person's level and controls' common change",
    "correlation": "Intraclass correlation of visits",
    "smallest_change": "Change between two visits that 5 % of people without change exceed, up or down",
    "controls_beyond": "Share of controls whose change from first to last visit exceeds it",
    "patients_beyond": "Share of patients whose change from first to last visit exceeds it",
}


def describe_people_columns(names: Iterable[str]) -> dict[str, str]:
    """Return descriptions of the columns of ``change.tsv`` for the R-indices ``names``."""
    columns = {"participant_id": "Person", "group": "control or patient", "visits": "Number of visits"}
    columns["years"] = "Time from the first to the last visit"
    for name in names:
        columns |= {
            f"{name}_per_year": f"Change of {name} per year, least squares",
            f"{name}_per_year_low": "Lower end of its 90 % interval",
            f"{name}_per_year_high": "Upper end of its 90 % interval",
            f"{name}_shrunken": f"Change of {name} per year, shrunken towards the mean of the person's group; n/a "
            "where noise and change cannot be separated",
            f"{name}_shrunken_low": "Lower end of its 90 % interval",
            f"{name}_shrunken_high": "Upper end of its 90 % interval",
            f"{name}_change": f"{name} at the last visit minus {name} at the first",
            f"{name}_more_than_noise": "Whether this change exceeds the smallest change that is more than noise",
        }
    return columns
