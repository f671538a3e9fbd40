"""One thread for torch too."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from rindices import threads


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch and the linear algebra of numpy to one thread; a decorator too."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threads.limit_blas_threads():
            yield
    finally:
        torch.set_num_threads(before)
