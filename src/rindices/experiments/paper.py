"""What the paper reports: pattern-c-index on its five tasks (Tables 1, 6 and 7)."""

from types import MappingProxyType

from rindices.experiments.tasks import PAPER


def _row(*values: float) -> dict[str, float]:
    return dict(zip(PAPER, values, strict=True))


SURREAL_GAN = MappingProxyType(_row(0.838, 0.837, 0.783, 0.818, 0.762))
REPORTED = MappingProxyType(
    {
        "surreal-gan": dict(SURREAL_GAN),
        "nmf": _row(0.680, 0.692, 0.625, 0.675, 0.611),
        "lda": _row(0.605, 0.591, 0.582, 0.626, 0.574),
        "fa": _row(0.631, 0.612, 0.526, 0.619, 0.526),
        "opnmf": _row(0.648, 0.670, 0.608, 0.651, 0.594),
        "dnmf": _row(0.562, 0.566, 0.525, 0.550, 0.539),
        "nmf-bound": _row(0.834, 0.844, 0.760, 0.831, 0.756),
        "lda-bound": _row(0.769, 0.777, 0.640, 0.775, 0.657),
        "fa-bound": _row(0.750, 0.721, 0.618, 0.764, 0.613),
        "opnmf-bound": _row(0.751, 0.715, 0.666, 0.730, 0.641),
        "dnmf-bound": _row(0.631, 0.641, 0.548, 0.644, 0.571),
        "linear": _row(0.871, 0.876, 0.816, 0.862, 0.817),
        "svr": _row(0.863, 0.869, 0.804, 0.857, 0.811),
    }
)
