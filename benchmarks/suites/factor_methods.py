"""Methods of the suites real-factors and real-base: each gives R-indices by fits that
have not seen the person.

A new method is a class with `FoldMethod.learn` if it is fitted to prepared people, or
with `Method.infer` if it takes a cohort as it was read, and an entry in `METHODS`.

Shape letters: N people, R regions, M patterns, K factors.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata
from sklearn.decomposition import FactorAnalysis
from sklearn.linear_model import LinearRegression, RidgeCV

import rindices as ri
from benchmarks.suites.entrants import get_entrant
from benchmarks.suites.factor_tables import FactorTable
from rindices._typing import BoolArray, FloatArray
from rindices.learners.inference import MemberHead
from rindices.learners.prepared_people import N_FOLDS, PreparedPeople, find_seen_people
from rindices.learners.trajectory.members import fit_trajectory_members
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.tables.cohort import GROUP, ID, SITE, Cohort

Reader = Callable[[FloatArray], FloatArray]
"""Takes z-scores (N, R) and returns indices (N, M)."""
_LARGEST_Z = 8.0
_PENALTIES = np.logspace(0, 5, 11)


class Reading(NamedTuple):
    """R-indices of everyone by one method.

    Attributes
    ----------
    indices : ndarray of shape (N, M)
        Not a number for people whom no fit has left out. M is 0 if the method found
        nothing.
    finding : str
        What a study said.
    """

    indices: FloatArray
    finding: str = ""


class Fold(NamedTuple):
    """A fit: z-scores (N, R) of everyone, the mask (N,) of whom it has seen, and what
    it reads of z-scores.
    """

    z: FloatArray
    seen: BoolArray
    read: Reader


class Training(NamedTuple):
    """Who a fit is learnt from.

    Attributes
    ----------
    controls, patients : ndarray of shape (N, R)
        z-scores, in standard deviations of these controls.
    truth : ndarray of shape (patients, K), optional
        Factors of these patients, for supervised methods alone.
    n_patterns : int
    seed : int
    """

    controls: FloatArray
    patients: FloatArray
    truth: FloatArray | None
    n_patterns: int
    seed: int


class Method(ABC):
    """A method.

    Attributes
    ----------
    label : str
        In tables and figures.
    is_ours : bool
        Whether it is a method of this package, whose results depend on its version.
    is_supervised : bool
        Whether it is given the true values of its training people.
    note : str
        What else a reader of the table must know.
    """

    label: str
    is_ours = False
    is_supervised = False
    note = ""

    @abstractmethod
    def infer(self, table: FactorTable, seed: int) -> Reading:
        """Return the R-indices of everyone, by fits that have not seen the person."""


@dataclass(frozen=True)
class StudyMethod(Method):
    """A study as ``rindices fit`` runs it; without ``--patterns``, if the number is to
    be found.
    """

    label: str
    method: str = "trajectories"
    is_told_number: bool = True
    is_ours = True

    def infer(self, table: FactorTable, seed: int) -> Reading:
        """Return the R-indices that the study writes: the mean over members that have
        not seen the person.
        """
        patterns = table.n_patterns if self.is_told_number else None
        model = ri.fit(
            table.cohort, patterns, method=self.method, workers=1, progress=False
        )
        if model.indices is None:
            return Reading(np.zeros((len(table.cohort), 0)), "no index")
        assert model.selection is not None
        indices = model.indices.set_index(ID).loc[
            table.cohort.people[ID], list(model.index_names)
        ]
        return Reading(indices.to_numpy(dtype=float), str(model.selection.finding))


class FoldMethod(Method):
    """A method that is fitted to four fifths of the people and read in the others, five
    times.

    The folds are those of the first five members of a study. Site effects, adjustment
    and scales are learnt inside them, too. See `join_folds`.
    """

    n_folds = N_FOLDS

    @abstractmethod
    def learn(self, training: Training) -> Reader:
        """Learn the patterns."""

    def infer(self, table: FactorTable, seed: int) -> Reading:
        """Return the R-indices of everyone, by fits that have not seen the person."""
        patient, truth = table.cohort.is_patient, table.truth.to_numpy(dtype=float)
        folds = []
        for number, seen in enumerate(find_folds(table.cohort, seed)[: self.n_folds]):
            z = compute_z(table.cohort, seen)
            told = truth[seen & patient] if self.is_supervised else None
            training = Training(
                z[seen & ~patient], z[seen & patient], told, table.n_patterns, number
            )
            folds.append(Fold(z, seen, self.learn(training)))
        return Reading(join_folds(folds, patient, align=not self.is_supervised))


@dataclass(frozen=True)
class TrajectoryMembers(Method):
    """The first five members of the default, without the choices of a study, which may
    end with one index.
    """

    label: str
    start: str = "auto"
    is_ours = True
    note = "five members of the shape that they choose, with the number of patterns given and no test"

    def infer(self, table: FactorTable, seed: int) -> Reading:
        """Return the R-indices of everyone, by the member that has not seen
        the person.
        """
        patient, masks = table.cohort.is_patient, find_folds(table.cohort, seed)
        z = [compute_z(table.cohort, seen) for seen in masks]
        people = [
            PreparedPeople(
                X=CONTROL_MEAN + CONTROL_SD * each, y=patient.astype(np.intp), seen=seen
            )
            for each, seen in zip(z, masks, strict=True)
        ]
        members = fit_trajectory_members(
            people, table.n_patterns, range(N_FOLDS), seed, start=self.start
        )
        readers = [partial(_read_member, member.head) for member in members]
        held_out = members[0].held_out
        finding = "" if held_out is None else f"{held_out.start} start"
        return Reading(join_folds(list(map(Fold, z, masks, readers)), patient), finding)


@dataclass(frozen=True)
class EntrantMethod(FoldMethod):
    """A learner of the other suites; see `benchmarks.suites.entrants`."""

    label: str
    entrant: str

    def learn(self, training: Training) -> Reader:
        """Fit the learner."""
        make = get_entrant(self.entrant).make
        assert make is not None
        y = np.repeat([0, 1], [len(training.controls), len(training.patients)])
        X = CONTROL_MEAN + CONTROL_SD * np.concatenate(
            [training.controls, training.patients]
        )
        learner = make(training.n_patterns, training.seed).fit(X, y)
        return lambda z: np.asarray(learner.transform(CONTROL_MEAN + CONTROL_SD * z))


class VarimaxFactors(FoldMethod):
    """Factor analysis of the patients, rotated by varimax."""

    label = "factor analysis"

    def learn(self, training: Training) -> Reader:
        """Fit the factors."""
        model = FactorAnalysis(
            training.n_patterns, rotation="varimax", max_iter=300, random_state=0
        )
        return _orient(model.fit(training.patients).transform, training)


@dataclass(frozen=True)
class Regression(FoldMethod):
    """Regression of the ranks of each factor in the patients, who are given their true
    values.
    """

    label: str
    make: Callable[[], Any]
    is_supervised = True

    def learn(self, training: Training) -> Reader:
        """Fit the regressions."""
        assert training.truth is not None
        ranks = np.apply_along_axis(rankdata, 0, training.truth)
        models = [self.make().fit(training.patients, rank) for rank in ranks.T]
        return lambda z: np.stack([model.predict(z) for model in models], axis=1)


class TwoNetworks(FoldMethod):
    """Two networks of Surreal-GAN, each read in the fifth of the people that it has not
    seen.
    """

    label = "Surreal-GAN"
    is_ours = True
    n_folds = 2
    n_steps = 5_000
    note = "one split a table, two members of 5,000 steps, read in the two fifths whom they have not seen"

    def learn(self, training: Training) -> Reader:
        """Train one network."""
        from rindices.learners.gan.estimator import SurrealGAN
        from rindices.learners.gan.recipe import SURREAL_GAN

        recipe = SURREAL_GAN.replace(min_steps=self.n_steps, max_steps=self.n_steps)
        learner = SurrealGAN(
            training.n_patterns, random_state=training.seed, members=1, training=recipe
        )
        y = np.repeat([0, 1], [len(training.controls), len(training.patients)])
        learner.fit(
            CONTROL_MEAN
            + CONTROL_SD * np.concatenate([training.controls, training.patients]),
            y,
        )
        return lambda z: np.asarray(learner.transform(CONTROL_MEAN + CONTROL_SD * z))


METHODS: dict[str, Method] = {
    "default": StudyMethod("default"),
    "default-number-found": StudyMethod("default, number found", is_told_number=False),
    "default-members": TrajectoryMembers("default, members alone"),
    "contrastive-start": TrajectoryMembers(
        "members of the contrastive start", start="contrastive"
    ),
    "whole-cohort-start": TrajectoryMembers(
        "members of the whole-cohort start", start="whole-cohort"
    ),
    "contrastive": StudyMethod("contrastive", method="contrastive"),
    "surreal-gan": TwoNetworks(),
    "pca": EntrantMethod("PCA", "normative-pca"),
    "factor-analysis": VarimaxFactors(),
    "ica": EntrantMethod("normative ICA", "normative-ica"),
    "nmf": EntrantMethod("NMF", "nmf"),
    "ridge": Regression("supervised ridge", lambda: RidgeCV(_PENALTIES)),
    "regression": Regression("supervised regression", LinearRegression),
}
"""Methods by name."""


def find_folds(cohort: Cohort, seed: int) -> BoolArray:
    """Return the masks (5, N) of the people whom the fits see: the folds of the first
    five members of a study.
    """
    names = [name for name in (GROUP, SITE) if name in cohort.people]
    strata = list(
        zip(*(cohort.people[name].astype(str) for name in names), strict=True)
    )
    return find_seen_people(
        cohort.volumes.to_numpy(dtype=float), strata, range(N_FOLDS), seed
    )


def compute_z(cohort: Cohort, seen: BoolArray) -> FloatArray:
    """Return the z-scores (N, R) of everyone, adjusted and standardised by the controls
    of a mask (N,).
    """
    prepared = Preprocessing.fit(cohort, seen=seen).transform(cohort)
    return np.clip((prepared - CONTROL_MEAN) / CONTROL_SD, -_LARGEST_Z, _LARGEST_Z)


def join_folds(
    folds: Sequence[Fold], patient: BoolArray, align: bool = True
) -> FloatArray:
    """Return the indices (N, M) of everyone by the fit that has not seen the person.

    They are standardised to the training patients of the fit. To align them, each fit's
    patterns in its training patients are matched to those of the first fit, with their
    signs.
    """
    first, joined = None, None
    for z, seen, read in folds:
        values, training = read(z), z[seen & patient]
        known = values[seen & patient]
        values = (values - known.mean(axis=0)) / np.maximum(known.std(axis=0), 1e-12)
        if align:
            patterns = _compute_patterns(known, training)
            first = patterns if first is None else first
            order, signs = _match_patterns(first, patterns)
            values = values[:, order] * signs
        joined = np.full_like(values, np.nan) if joined is None else joined
        joined[~seen] = values[~seen]
    assert joined is not None
    return joined


def _read_member(head: MemberHead, z: FloatArray) -> FloatArray:
    return np.asarray(head.infer(CONTROL_MEAN + CONTROL_SD * z))


def _orient(
    transform: Callable[[FloatArray], FloatArray], training: Training
) -> Reader:
    """Return indices whose mean is higher in patients than in controls."""
    shift = transform(training.patients).mean(axis=0) - transform(
        training.controls
    ).mean(axis=0)
    signs = np.where(shift < 0, -1.0, 1.0)
    return lambda z: np.asarray(transform(z) * signs)


def _compute_patterns(indices: FloatArray, z: FloatArray) -> FloatArray:
    """Return the change (M, R) of each region per unit of each index (N, M), with rows
    of length 1.
    """
    design = np.column_stack([np.ones(len(indices)), indices])
    patterns = np.linalg.lstsq(design, z, rcond=None)[0][1:]
    return np.asarray(
        patterns / np.maximum(np.linalg.norm(patterns, axis=1, keepdims=True), 1e-12)
    )


def _match_patterns(first: FloatArray, second: FloatArray) -> tuple[Any, FloatArray]:
    """Return the order (M,) of the second patterns (M, R) that matches the first, and
    their signs (M,).
    """
    similarity = first @ second.T
    rows, order = linear_sum_assignment(-np.abs(similarity))
    return order, np.where(similarity[rows, order] < 0, -1.0, 1.0)
