"""A fitted model in a notebook: the facts of the first screen, and one figure."""

import base64
import io
from typing import Any

from PIL import Image

from rindices import plot
from rindices.model.fitted import FittedModel
from rindices.plot import style
from rindices.plot.brain import match_atlas
from rindices.plot.files import render_figure
from rindices.report.formatting import make_environment
from rindices.report.sections import StudyFacts

_N_COLOURS = 192
_DPI = 110


def render_model(model: FittedModel) -> str:
    """Return what a model is and what its study found, as HTML with one figure."""
    has_brain = match_atlas(model.regions, model.card.unit).atlas is not None
    template = make_environment(model.card.unit).get_template("notebook.html")
    return template.render(
        summary=repr(model)[1:-1],
        findings=model.findings,
        facts=StudyFacts.of_model(model, model.findings),
        picture=_draw(lambda: (plot.patterns if has_brain else plot.forest)(model)),
        alt="Patterns on the brain" if has_brain else "The largest changes",
    )


def _draw(draw: Any) -> str:
    """Return a figure as a small PNG in a data URI."""
    picture = Image.open(
        io.BytesIO(render_figure(draw, style.PAGE_MM, "png", dpi=_DPI))
    )
    small = picture.convert("RGB").quantize(_N_COLOURS, Image.Quantize.MAXCOVERAGE)
    out = io.BytesIO()
    small.save(out, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"
