"""The scale of R-indices: what 0, 1 and the usual value of a control are, which differs
between kinds of models.
"""

from rindices.learners.inference import SurrealHead, TrajectoryHead
from rindices.model.file import ModelContent
from rindices.model.records import QUANTILE_RANKS, ModelCard
from rindices.tables.checks.groups import CONTROL

UNKNOWN_SCALE = "0 is no change or the average control, and 1 about the most severe patients; rindices model show MODEL says which"
"""What holds for the R-indices of any model of a study."""
IMPORTED = "published"
"""Method that the card of an imported checkpoint names."""


def describe_scale(model: ModelContent) -> str:
    """Return one sentence on the scale of a model's R-indices, with the usual values of
    its controls where known.

    Parameters
    ----------
    model : FittedModel
        Any model: trajectories, contrastive, mean difference, networks, imported ones.

    Returns
    -------
    str
        For instance: "An R-index is the expected severity of a pattern, from 0 (no
        change) to 1 (as in the most severe patients); controls are above 0, because no
        estimate is certain (half of the study's controls have 0.05 to 0.12)."
    """
    one, head, card = (
        ("The" if model.n_patterns == 1 else "An") + " R-index",
        model.heads[0],
        model.card,
    )
    usual, both = _describe_controls(model), "values below 0 and above 1 occur"
    ends = "0 (no change) to 1 (as in the most severe patients)"
    if isinstance(head, TrajectoryHead):
        meaning = f"{one} is the expected severity of a pattern, from {ends}"
        return (
            f"{meaning}; controls are above 0, because no estimate is certain{usual}."
        )
    if isinstance(head, SurrealHead):
        meaning = f"the severity that a network estimates, trained on {ends}"
        if card.method is not None and card.method.name == IMPORTED:
            return (
                f"{one} of this imported model is {meaning}; {_warn_of_imported(card)}."
            )
        return f"{one} is {meaning}; its output is not bounded: {both}, and controls need not be near 0{usual}."
    ends = f"1 about the 98th percentile of patients, and {both}"
    if (
        card.finding == "mean_difference"
    ):  # errors of the mean of controls tilt the line towards other controls
        line = "the mean difference between patients and controls: 0 is the average of the controls that it was fitted to"
        return f"{one} is a position along {line}, {ends}; other controls are a little above 0 on average{usual}."
    return (
        f"{one} is a position along a pattern: 0 is the average control, {ends}{usual}."
    )


def _warn_of_imported(card: ModelCard) -> str:
    """Return what to know before reading a value of an imported model, whose controls
    are unknown.
    """
    if card.name:  # measured for the published models alone
        healthy = "healthy adults have values over the whole range, often 0.2 to 0.6"
    else:
        healthy = "the values of healthy people are not known"
    cure = "compare people with controls of your own"
    if card.healthy is not None:
        cure = "see how many of them are lower (centiles), or " + cure
    return f"{healthy}: {cure}"


def _describe_controls(model: ModelContent) -> str:
    """Return the middle half of the study's controls in each R-index, in brackets;
    empty where it is not known.
    """
    rows = model.card.index_quantiles.get(CONTROL, ())
    if len(rows) != model.n_patterns or any(
        len(row) != len(QUANTILE_RANKS) for row in rows
    ):
        return ""
    ends = [QUANTILE_RANKS.index(rank) for rank in (0.25, 0.75)]
    ranges = [" to ".join(_format_value(row[end]) for end in ends) for row in rows]
    names = [""] if len(rows) == 1 else [f" in {name}" for name in model.index_names]
    return f" (half of the study's controls have {', '.join(map(''.join, zip(ranges, names, strict=True)))})"


def _format_value(value: float) -> str:
    """Return an R-index with two digits, without a negative zero."""
    return f"{round(value, 2) + 0.0:.2f}"
