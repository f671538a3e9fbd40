"""Contrastive variational autoencoder, a small network in torch.

Shape letters: N people, B people of a batch, R regions, M patterns (salient variables),
L shared variables, H hidden units.

References
----------
Abid A, Zou J (2019). Contrastive variational autoencoder enhances salient features.
arXiv:1902.04601. (section 3: the model and the sum of both lower bounds; its optional
total-correlation term is left out)
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.suites.baselines.decompositions import compute_signs
from rindices._typing import BoolArray, FloatArray
from rindices.learners.base import Learner, RandomState
from rindices.learners.gan.train import one_thread


class Posterior(NamedTuple):
    """Gaussian posterior of latent variables.

    Attributes
    ----------
    mean, log_variance : Tensor of shape (B, K)
    """

    mean: Tensor
    log_variance: Tensor

    def sample(self) -> Tensor:
        """Draw from the posterior, (B, K)."""
        return self.mean + torch.exp(0.5 * self.log_variance) * torch.randn_like(
            self.mean
        )

    def divergence(self) -> Tensor:
        """Return the Kullback-Leibler divergence from the standard normal distribution,
        (B,).
        """
        return 0.5 * (
            self.mean**2 + self.log_variance.exp() - 1.0 - self.log_variance
        ).sum(dim=1)


class ContrastiveNetwork(nn.Module):
    """Encoders of the salient (s) and shared (z) variables, and the decoder of both."""

    def __init__(
        self, n_regions: int, n_salient: int, n_shared: int, n_hidden: int
    ) -> None:
        super().__init__()
        self.n_salient = n_salient
        self.encode_salient = _make_perceptron(n_regions, n_hidden, 2 * n_salient)
        self.encode_shared = _make_perceptron(n_regions, n_hidden, 2 * n_shared)
        self.decode = _make_perceptron(n_salient + n_shared, n_hidden, n_regions)
        self.log_error_variance = nn.Parameter(torch.zeros(n_regions))

    def infer_salient(self, people: Tensor) -> Posterior:
        """Return q(s | x), (B, R) -> (B, M)."""
        return Posterior(*self.encode_salient(people).chunk(2, dim=1))

    def compute_loss(self, patients: Tensor, controls: Tensor) -> Tensor:
        """Return minus the mean lower bound of patients (B, R) plus that of controls
        (B, R); s is 0 in controls.
        """
        people = torch.cat([patients, controls])
        salient = self.infer_salient(patients)
        shared = Posterior(*self.encode_shared(people).chunk(2, dim=1))
        absent = controls.new_zeros(len(controls), self.n_salient)
        latent = torch.cat(
            [torch.cat([salient.sample(), absent]), shared.sample()], dim=1
        )
        squares = (people - self.decode(latent)) ** 2 * torch.exp(
            -self.log_error_variance
        )
        bounds = (
            0.5 * (squares + self.log_error_variance).sum(dim=1) + shared.divergence()
        )
        loss: Tensor = (
            bounds[: len(patients)].mean()
            + bounds[len(patients) :].mean()
            + salient.divergence().mean()
        )
        return loss


class ContrastiveVAE(Learner):
    """Salient latent variables of a variational autoencoder that shares its other
    variables with the controls.

    The R-indices are the means of q(s | x). Their sign is set so that patients are
    above controls on average. The error variance of each region is learnt: with a fixed
    one, salient variables of weak patterns collapse to the prior.

    Parameters
    ----------
    n_shared : int, default=10
        L, the number of variables that patients share with controls.
    n_hidden : int, default=64
        H, the width of the one hidden layer of each network.
    n_steps : int, default=3000
        Steps of Adam.
    batch_size : int, default=128
        B, the number of patients and of controls per step.
    learning_rate : float, default=0.001

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        Change of each region, in control standard deviations, as one R-index grows from
        0 to 1 and all else is 0.
    network_ : ContrastiveNetwork
    losses_ : ndarray of shape (n_steps,)
    """

    def __init__(
        self,
        n_patterns: int = 3,
        random_state: RandomState = None,
        n_shared: int = 10,
        n_hidden: int = 64,
        n_steps: int = 3000,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
    ) -> None:
        super().__init__(n_patterns, random_state)
        self.n_shared = n_shared
        self.n_hidden = n_hidden
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate

    def _prepare(self, regions: FloatArray) -> FloatArray:
        return self._z_scores(regions)

    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        prepared = self._prepare(regions)
        with one_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._draw_seed())
            network = ContrastiveNetwork(
                self.n_features_in_, self.n_patterns, self.n_shared, self.n_hidden
            )
            self.network_ = network.double()
            self.losses_ = self._train(
                torch.as_tensor(prepared[patient]), torch.as_tensor(prepared[~patient])
            )
        self.signs_ = np.ones(self.n_patterns)
        self.signs_ = compute_signs(self._infer(prepared), patient)
        self.patterns_ = self._decode_patterns()

    def _train(self, patients: Tensor, controls: Tensor) -> FloatArray:
        """Train the network and return the loss of each step."""
        optimiser = torch.optim.Adam(
            self.network_.parameters(), self.learning_rate, fused=True
        )
        losses = np.empty(self.n_steps)
        for step in range(self.n_steps):
            batches = [
                group[torch.randint(len(group), (self.batch_size,))]
                for group in (patients, controls)
            ]
            loss = self.network_.compute_loss(*batches)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            losses[step] = loss.item()
        return losses

    @torch.no_grad()
    def _decode_patterns(self) -> FloatArray:
        """Return the decoder's change (M, R) as one R-index grows from 0 to 1."""
        latent = torch.zeros(
            self.n_patterns + 1, self.n_patterns + self.n_shared, dtype=torch.float64
        )
        latent[range(self.n_patterns), range(self.n_patterns)] = torch.as_tensor(
            self.signs_
        )
        decoded = self.network_.decode(latent).numpy()
        return np.asarray(decoded[:-1] - decoded[-1], dtype=np.float64)

    @torch.no_grad()
    def _infer(self, prepared: FloatArray) -> FloatArray:
        with one_thread():
            means = self.network_.infer_salient(torch.as_tensor(prepared)).mean.numpy()
        return np.asarray(means * self.signs_, dtype=np.float64)


def _make_perceptron(n_inputs: int, n_hidden: int, n_outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(n_inputs, n_hidden), nn.ReLU(), nn.Linear(n_hidden, n_outputs)
    )
