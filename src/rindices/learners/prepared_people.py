"""People as learners take them."""

from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.learners.missing_cells import complete_people


class PreparedPeople(NamedTuple):
    """Controls and patients, and what is known of normal variation from elsewhere.

    Attributes
    ----------
    X : (N, R)
        Prepared people; controls have mean 1 and standard deviation 0.1. Missing cells are NaN.
    y : (N,)
        0 control, 1 patient.
    reference : (R, R), optional
        Correlations of the regions in a reference population of healthy people.
    kinds : (R,), optional
        Code of what each region measures, such as thickness or volume; None if all measure the same.
    trend : (N, R), optional
        Where ``X`` is the mean of a person's visits: their change, as `reduce_visits` returns it.
    n_visits : (N,), optional
        Number of visits of each person; given together with ``trend``.
    """

    X: FloatArray
    y: IntArray
    reference: FloatArray | None = None
    kinds: IntArray | None = None
    trend: FloatArray | None = None
    n_visits: IntArray | None = None

    def complete(self, by_group: bool = True) -> "PreparedPeople":
        """Return the people with missing cells filled by what their other cells predict.

        Filled by group, cells carry the difference between the groups; for comparisons of groups they must not.
        """
        groups = self.y if by_group else np.zeros_like(self.y)
        return self._replace(X=complete_people(self.X, groups))

    def take(self, rows: IntArray) -> "PreparedPeople":
        """Return some of the people."""
        trend = None if self.trend is None else self.trend[rows]
        n_visits = None if self.n_visits is None else self.n_visits[rows]
        return self._replace(X=self.X[rows], y=self.y[rows], trend=trend, n_visits=n_visits)
