"""D on held-out people: the stopping rule of warm starts."""

from __future__ import annotations

import numpy as np

from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.subsampling import draw_subsample
from rindices.learners.surreal.ensemble_training import TrainingData
from rindices.learners.surreal.stopping import CHANCE_LOSS, discriminator_at_chance, held_out_discrimination_loss
from rindices.learners.surreal.train import run_steps
from tests.learners.helpers import LinearCohort
from tests.learners.surreal.helpers import BRIEF, make_data, make_starts, make_warm_state


def test_d_tells_held_out_people_where_f_is_wrong_and_not_where_it_is_right() -> None:
    cohort = LinearCohort(controls=500, patients=500, regions=24)
    recipe = BRIEF.replace(start_steps=800, held_steps=600, max_steps=700, telling_bar=0)
    data = TrainingData.from_people(PreparedPeople(1 + 0.1 * cohort.people, cohort.y), 2, recipe)
    good = data.fit_start(draw_subsample(data.y, recipe.share, np.random.default_rng(0)), 2, 0)
    bad = good._replace(patterns=np.zeros_like(good.patterns))
    state = make_warm_state(data, {0: good, 1: bad})
    run_steps(state, 600)
    right, wrong = (held_out_discrimination_loss(state) / CHANCE_LOSS).tolist()
    assert right > 0.97 > 0.6 > wrong


def test_the_rule_needs_a_bar_and_held_out_people() -> None:
    brief = BRIEF.replace(start_steps=5)
    for recipe, applies in ((brief, True), (brief.replace(telling_bar=0), False), (brief.replace(share=1.0), False)):
        data = make_data(recipe)
        state = make_warm_state(data, make_starts(data))
        assert (discriminator_at_chance(state) is not None) == applies
