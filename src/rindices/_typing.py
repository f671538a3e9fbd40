"""Type aliases of arrays, used in the whole package."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
"""An array of floats; its shape stands in the docstring of whoever takes it."""
IntArray = NDArray[np.intp]
"""An array of integers: positions of rows or columns, labels."""
BoolArray = NDArray[np.bool_]
"""An array of booleans: a mask."""
AnyArray = NDArray[Any]
"""An array of any type."""
