"""One thread for arithmetic: sums come out the same on any number of cores, and the matrices are small anyway."""

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def limit_blas_threads() -> Iterator[None]:
    """Keep the linear algebra of numpy to one thread; a decorator too."""
    with threadpool_limits(1):
        yield
