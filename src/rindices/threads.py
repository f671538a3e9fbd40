"""One thread for linear algebra, so that sums are the same on any number of cores; the
matrices are small.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def limit_blas_threads() -> Iterator[None]:
    """Limit the linear algebra of numpy to one thread; also a decorator."""
    with threadpool_limits(1):
        yield
