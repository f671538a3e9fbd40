"""Effects of sites from the sums that each site sends: ComBat without people.

Each exchange site is a site of `rindices.preprocess.harmonise`. Its shift and scale of each region are estimated from
its own controls, after the effects of covariates, which all sites share, and shrunk by the same empirical Bayes. All of
this follows from the products of covariates and regions by site, which the adjustment asks for anyway: nothing more
leaves a site. Harmonised regions are a linear function of regions and covariates within a site, so their products
follow, too.

Shape letters: K sites, R regions, P columns of the design.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import PreprocessingError, join_names
from rindices.federated.column_products import GroupProducts, compute_residual_products, regress_columns
from rindices.preprocess.harmonise import Harmoniser, shrink_site_effect
from rindices.preprocess.standardise import find_constant_regions


def fit_site_effects(
    controls: Mapping[str, GroupProducts], centre: FloatArray, n_columns: int, regions: Sequence[str]
) -> Harmoniser:
    """Estimate the effects of sites from the products of their controls.

    controls: by site, about the centre; centre (P + R,); n_columns: P; regions: (R,). Returns that of `Harmoniser.fit`
    with the controls of all sites. Raises PreprocessingError: if a site has too few controls, or a region is constant.
    """
    small = [site for site, group in controls.items() if group.number < 2]
    if small:
        raise PreprocessingError(
            f"{join_names(small)} has no controls that can be adjusted, and the effect of a site needs them: leave the "
            'site out (--leave-out), or set harmonise = "none".'
        )
    within = {site: group.centre_products() for site, group in controls.items()}
    coefficients = regress_columns(np.sum(list(within.values()), axis=0), n_columns)
    numbers = np.array([group.number for group in controls.values()])
    means = np.stack([centre + group.total / group.number for group in controls.values()])
    average = numbers @ means / numbers.sum()
    levels = means[:, n_columns:] - (means[:, :n_columns] - average[:n_columns]) @ coefficients
    mean = numbers @ levels / numbers.sum()
    squares = np.stack([np.diag(compute_residual_products(each, coefficients)) for each in within.values()])
    sd = np.sqrt(np.maximum(squares.sum(axis=0), 0.0) / numbers.sum())
    constant = find_constant_regions(mean, sd, regions)
    if constant:
        raise PreprocessingError(f"constant within sites: {join_names(constant)}. Leave these regions out (--exclude).")
    effects = [
        shrink_site_effect(int(number), (level - mean) / sd, each / sd**2 / (number - 1))
        for number, level, each in zip(numbers, levels, squares, strict=True)
    ]
    shift, scale = (np.stack(arrays) for arrays in zip(*effects, strict=True))
    counts = tuple(int(number) for number in numbers)
    return Harmoniser(*("controls", tuple(controls), counts, mean, average[:n_columns], coefficients, sd, shift, scale))


def harmonise_products(group: GroupProducts, harmoniser: Harmoniser, site: str, centre: FloatArray) -> GroupProducts:
    """Return the products of a group of a site after its effect was removed, about the same centre (P + R,).

    Harmonised volumes are e + (v - e - sd shift) / scale, where e are the volumes that covariates predict.
    """
    row, n_columns = harmoniser.sites.index(site), len(harmoniser.centre)
    scale = harmoniser.scale[row]
    linear = np.eye(len(centre))
    linear[n_columns:, n_columns:] = np.diag(1.0 / scale)
    linear[:n_columns, n_columns:] = harmoniser.coefficients * (1.0 - 1.0 / scale)
    expected = harmoniser.mean - harmoniser.centre @ harmoniser.coefficients
    offset = np.zeros(len(centre))
    offset[n_columns:] = expected * (1.0 - 1.0 / scale) - harmoniser.sd * harmoniser.shift[row] / scale
    move = centre @ linear + offset - centre
    total = group.total @ linear
    cross = np.outer(total, move)
    products = linear.T @ group.products @ linear + cross + cross.T + group.number * np.outer(move, move)
    return GroupProducts(group.number, total + group.number * move, products)
