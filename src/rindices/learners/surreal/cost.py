"""Estimate how long the training of Surreal-GAN takes, from the size of the networks and without training.

The constants were measured on one core with stacks of five members, 10 to 300 regions and 1 to 4 patterns; they hold
within a factor of about 1.5. `measure_speed` compares this machine with that core. Nothing here imports torch, whose
import alone takes seconds.
"""

import time

import numpy as np

_REFERENCE_PRODUCT_SECONDS = 40e-6  # of the product in `measure_speed`
_N_PRODUCTS = 200
_N_FITS = 3  # linear fits per member with a warm start: one on its people, two on halves of them
_SHARE_TRAINED_ON = 0.5  # share of members whose f is trained after its start, and whose halves are trained, too


def measure_speed(repeats: int = 5) -> float:
    """Return the time that a matrix product takes, relative to the core on which the constants were measured.

    Parameters
    ----------
    repeats : int
        The fastest of so many measurements counts. Processor time is measured, so that other programs matter little.

    Returns
    -------
    float
        2 for a core of half the speed.
    """
    left, right = np.ones((128, 160), np.float32), np.ones((160, 80), np.float32)
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(_N_PRODUCTS):
            left @ right
        seconds.append((time.process_time() - start) / _N_PRODUCTS)
    return min(seconds) / _REFERENCE_PRODUCT_SECONDS


def estimate_training_seconds(
    n_regions: int, n_patterns: int, *, warm_start: bool, start_steps: int, held_steps: int, max_steps: int
) -> float:
    """Return the seconds that one member takes on the reference core, as one of a stack of five.

    Parameters
    ----------
    n_regions, n_patterns : int
        R and M.
    warm_start : bool
        Whether f is fitted to a linear start first; then hardly any member needs all steps.
    start_steps, held_steps, max_steps : int
        See `Recipe`.

    Returns
    -------
    float
    """
    step = _estimate_step_seconds(n_regions, n_patterns)
    if not warm_start:
        return max_steps * step
    steps = held_steps + _SHARE_TRAINED_ON * (max_steps - held_steps)
    training = start_steps * _estimate_start_step_seconds(n_regions) + steps * step
    halves = _SHARE_TRAINED_ON * 2 * training
    return _N_FITS * _estimate_linear_seconds(n_regions, n_patterns) + training + halves


def _estimate_step_seconds(n_regions: int, n_patterns: int) -> float:
    return 5e-4 + (2.4e-8 + 8.4e-9 * n_patterns) * n_regions**2


def _estimate_start_step_seconds(n_regions: int) -> float:
    return 6e-4 + 4.4e-8 * n_regions**2


def _estimate_linear_seconds(n_regions: int, n_patterns: int) -> float:
    return (0.08 + 1.15e-5 * n_regions**2) * (0.7 + 0.33 * n_patterns)
