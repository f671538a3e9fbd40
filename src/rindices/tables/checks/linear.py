"""Cross-fitted ridge regression from sums of products.

Shape letters: N people, P features, T targets.
"""

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray


def solve_ridge(
    products: FloatArray, targets: FloatArray, n_people: float
) -> FloatArray:
    """Return coefficients (P, T) from the products of features (P, P) and of features
    with targets (P, T).

    The penalty grows with the number of features over the root of the number of people.
    """
    scale = np.diag(products).mean()
    values, vectors = np.linalg.eigh(products)
    penalty = 0.3 * np.sqrt(len(products) / max(n_people, 1.0)) * scale + 0.02 * scale
    return np.asarray(
        vectors @ ((vectors.T @ targets) / (values + max(penalty, 1e-300))[:, None])
    )


def predict_cross_fitted(
    F: FloatArray, Y: FloatArray, train: BoolArray, folds: IntArray
) -> FloatArray:
    """Return cross-fitted predictions (N, T) of targets.

    People of the training set are predicted without their fold, and all others from the
    whole training set.

    Parameters
    ----------
    F : ndarray of shape (N, P)
        Features.
    Y : ndarray of shape (N, T)
        Targets.
    train : ndarray of shape (N,)
        People of the training set.
    folds : ndarray of shape (N,)
        Fold of each person.
    """
    predicted = np.zeros(Y.shape)
    rows = [np.flatnonzero((folds == fold) & train) for fold in np.unique(folds)]
    rows = [each for each in rows if len(each)]
    products = [F[each].T @ F[each] for each in rows]
    targets = [F[each].T @ Y[each] for each in rows]
    all_products, all_targets = (
        sum(products, np.zeros((F.shape[1],) * 2)),
        sum(targets, np.zeros((F.shape[1], Y.shape[1]))),
    )
    n_people = sum(map(len, rows))
    for each, own_products, own_targets in zip(rows, products, targets, strict=True):
        remaining = solve_ridge(
            all_products - own_products, all_targets - own_targets, n_people - len(each)
        )
        predicted[each] = F[each] @ remaining
    if not train.all():
        predicted[~train] = F[~train] @ solve_ridge(all_products, all_targets, n_people)
    return predicted
