"""Products of covariates and regions, and regressions from them.

Shape letters: R regions, P columns of the design.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray
from rindices.learners.base import handle_zeros_in_scale


class GroupProducts(NamedTuple):
    """Number of people of a group, and sums (P + R,) and products (P + R, P + R) about the centre."""

    number: int
    total: FloatArray
    products: FloatArray

    def centre_products(self) -> FloatArray:
        """Return the products about the mean of the group."""
        return np.asarray(self.products - np.outer(self.total, self.total) / max(self.number, 1))


def add_products(groups: Iterable[GroupProducts]) -> GroupProducts:
    """Return the products of the people of several groups, about the same centre."""
    numbers, totals, products = zip(*groups, strict=True)
    return GroupProducts(sum(numbers), np.sum(totals, axis=0), np.sum(products, axis=0))


def regress_columns(products: FloatArray, n_columns: int) -> FloatArray:
    """Return the coefficients (P, R) of regions on the first P columns, from centred products."""
    scale = handle_zeros_in_scale(np.sqrt(np.maximum(np.diag(products)[:n_columns], 0.0)))
    normal = products[:n_columns, :n_columns] / np.outer(scale, scale)
    right = products[:n_columns, n_columns:] / scale[:, None]
    return np.asarray(np.linalg.lstsq(normal, right, rcond=1e-10)[0] / scale[:, None])


def compute_residual_products(products: FloatArray, coefficients: FloatArray) -> FloatArray:
    """Return the products (R, R) of the residuals of a regression on the first P columns."""
    n_columns = len(coefficients)
    linear = np.vstack([-coefficients, np.eye(products.shape[0] - n_columns)])
    return np.asarray(linear.T @ products @ linear)
