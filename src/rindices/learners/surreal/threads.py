"""Limit torch and BLAS to one thread."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from rindices import threads


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch and numpy's linear algebra to one thread; also works as a decorator."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threads.limit_blas_threads():
            yield
    finally:
        torch.set_num_threads(before)
