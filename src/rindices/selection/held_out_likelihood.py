"""Compare settings by the likelihood of people that members have not seen.

Members of one number see the same people in every setting, so settings are compared member by member, which removes
how typical the left-out people happen to be. A larger setting is chosen only where its advantage exceeds one standard
error of the mean over members (the one-standard-error rule). Shape letters: S members.
"""

from collections.abc import Sequence

import numpy as np

from rindices._typing import FloatArray

N_STANDARD_ERRORS = 1.0
"""Standard errors by which a larger setting must be ahead."""


def exceeds_chance(differences: FloatArray) -> bool:
    """Return whether the mean of paired differences (S,) exceeds its standard error."""
    if len(differences) < 2:
        return bool(differences.mean() > 0)
    error = float(differences.std(ddof=1)) / np.sqrt(len(differences))
    return bool(differences.mean() > N_STANDARD_ERRORS * error)


def choose_simplest_setting(likelihoods: Sequence[FloatArray]) -> int:
    """Return the first setting that the most likely one does not exceed by more than a standard error.

    Parameters
    ----------
    likelihoods : sequence of (S,)
        Mean log-likelihood of the people that each member has not seen, of settings from simple to large.

    Returns
    -------
    int
        Position of the setting.
    """
    best = max(range(len(likelihoods)), key=lambda k: float(likelihoods[k].mean()))
    return next(k for k in range(best + 1) if k == best or not exceeds_chance(likelihoods[best] - likelihoods[k]))
