"""Tasks of the paper and the scores that it published: pattern-c-index (Tables 1, 6 and
7).
"""

from types import MappingProxyType

PAPER_TASKS = ("basic", "overlap", "scarce", "noise", "mild")


def _make_task_scores(*values: float) -> dict[str, float]:
    return dict(zip(PAPER_TASKS, values, strict=True))


SURREAL_GAN_SCORES = MappingProxyType(
    _make_task_scores(0.838, 0.837, 0.783, 0.818, 0.762)
)
TABLE_6_SCORES = MappingProxyType(_make_task_scores(0.827, 0.828, 0.764, 0.813, 0.741))
PUBLISHED_SCORES = MappingProxyType(
    {
        "surreal-gan": dict(SURREAL_GAN_SCORES),
        "nmf": _make_task_scores(0.680, 0.692, 0.625, 0.675, 0.611),
        "lda": _make_task_scores(0.605, 0.591, 0.582, 0.626, 0.574),
        "fa": _make_task_scores(0.631, 0.612, 0.526, 0.619, 0.526),
        "opnmf": _make_task_scores(0.648, 0.670, 0.608, 0.651, 0.594),
        "dnmf": _make_task_scores(0.562, 0.566, 0.525, 0.550, 0.539),
        "nmf-bound": _make_task_scores(0.834, 0.844, 0.760, 0.831, 0.756),
        "lda-bound": _make_task_scores(0.769, 0.777, 0.640, 0.775, 0.657),
        "fa-bound": _make_task_scores(0.750, 0.721, 0.618, 0.764, 0.613),
        "opnmf-bound": _make_task_scores(0.751, 0.715, 0.666, 0.730, 0.641),
        "dnmf-bound": _make_task_scores(0.631, 0.641, 0.548, 0.644, 0.571),
        "linear": _make_task_scores(0.871, 0.876, 0.816, 0.862, 0.817),
        "svr": _make_task_scores(0.863, 0.869, 0.804, 0.857, 0.811),
    }
)
