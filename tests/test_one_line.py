"""Public objects are shown in one short line."""

import numpy as np

import rindices as ri
from rindices.analysis.replicate import Replication
from rindices.experiments.visits import simulate_visits
from rindices.one_line import MAX_LENGTH, describe_fields, shorten


def test_a_simulated_cohort_names_the_sizes_of_its_tables() -> None:
    made = ri.simulate_cohort("tiny", seed=0)
    sizes = "cohort of 180, severities 100 x 4, patterns 139 x 4"
    assert repr(made) == f"<SimulatedCohort: {sizes}>"


def test_public_objects_are_shown_in_one_line() -> None:
    made = ri.simulate_cohort("tiny", seed=0)
    visits = simulate_visits("tiny", seed=0)
    table = visits.sessions[["participant_id", "group", "years"]].assign(
        r1=visits.simulated.cohort.volumes.iloc[:, 0].to_numpy()
    )
    shown = [
        made,
        made.cohort,
        visits,
        ri.Preprocessing.fit(made.cohort),
        ri.NormalReference.fit(made.cohort),
        ri.analysis.change_per_year(table, "years"),
        Replication(table=table, largest=np.zeros(1_000), maps=[]),
        ri.SurrealGAN(n_patterns=3),
        ri.DiseaseTrajectories(n_patterns=3, members=5),
        ri.ContrastiveICA(n_patterns=3),
    ]
    for each in shown:
        text = repr(each)
        assert type(each).__name__ in text
        assert "\n" not in text
        assert len(text) <= 100
    assert repr(shown[6]) == f"<Replication: table {len(table)} x 4, largest 1,000>"


def test_a_long_line_is_cut_before_its_last_character() -> None:
    assert shorten("short") == "short"
    assert shorten("<" + "a" * 200 + ">") == "<" + "a" * 83 + "...>"
    assert len(shorten("x" * 89)) == MAX_LENGTH
    assert describe_fields(ri.Problem(severity=ri.Severity.NOTE, what="w")).startswith(
        "<Problem: severity note, what w"
    )
