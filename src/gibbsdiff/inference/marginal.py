r"""p(φ | y) without drawing x: Fisher's identity with the two moments of x | y, φ, eq. (11).

∂_φ log p(y | φ) is the expectation of ∂_φ log p(ε | φ) over ε = y - x given y and φ. Eq. (8) is
linear in P, so that only E[P | y, φ] = |ŷ - D̂|² + Ê is needed: one call of the denoiser. Ê of a
network comes from its derivative, eq. (13): its heads know that of one image only to some 10 %,
which is good enough for the first steps of a search. With the weights of eq. (14) both terms are
those of the places where the network is sure. Everything here happens in the prior box scaled to
[0, 1]^d.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.checks import as_images
from gibbsdiff.diffusion.calibration import overlap
from gibbsdiff.diffusion.denoiser import Denoiser, NoiseError, as_denoiser
from gibbsdiff.diffusion.error_model import in_every_mode
from gibbsdiff.diffusion.tweedie import through, windowed_error
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import REFERENCE, Wavevectors, half_plane
from gibbsdiff.inference.level_score import counted_modes, with_level
from gibbsdiff.inference.observation import ObservationModel, stationary
from gibbsdiff.inference.score import Called, Score, ScoreAt, known, level_of, sum_by_owner
from gibbsdiff.inference.uncertainty import pixel_sd
from gibbsdiff.inference.weights import check_maps
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.noise.covariance import NoiseCovariance
from gibbsdiff.noise.stationary import Statistic
from gibbsdiff.streams import Key, Streams

CHUNK = 2**20  # pixels that the denoiser is shown at once


class Marginal:
    """The marginal score of a batch of observations y (B, C, H, W), one call each.

    `shared` images have one φ, such as windows of one picture: scores then add up, and a call
    is counted for each of them. `keys` name the images' random streams, (i,) by default.
    `weights` w (1 or B, 1, H, W) say where to listen, eq. (14).
    """

    def __init__(
        self,
        y: Any,
        noise: NoiseModel,
        denoiser: Denoiser,
        observation: ObservationModel | None = None,
        *,
        shared: bool = False,
        seed: int = 0,
        keys: Sequence[Key] | None = None,
        weights: Tensor | None = None,
    ) -> None:
        self.denoiser = as_denoiser(denoiser)
        if not self.denoiser.error_model:
            raise InputError("the marginal method needs a denoiser that models its own error")
        self.y = as_images(y, "observation")
        self.noise, self.shared, self.seed = stationary(noise), shared, seed
        self.keys = [(i,) for i in range(len(self.y))] if keys is None else list(keys)
        self.shape = (self.y.shape[-2], self.y.shape[-1])
        self.observation = observation or ObservationModel(noise, self.shape)
        if weights is not None:
            maps = check_maps(weights, len(self.y), self.shape)
            self.observation = self.observation.weighted(maps, len(self.y), together=shared)
        self.width = noise.high - noise.low

    @property
    def problems(self) -> int:
        """How many φ are asked for: one for every image, or one for all."""
        return 1 if self.shared else len(self.y)

    @property
    def cost(self) -> int:
        """Denoiser calls of one score, per problem."""
        return len(self.y) if self.shared else 1

    @property
    def plain(self) -> bool:
        """Whether all modes count alike: then V = J, and H⁻¹ is the covariance."""
        weights = self.observation.weights
        return weights is None or weights.modes is None

    def phi(self, u: Tensor) -> Tensor:
        """From the unit box to the parameters, never outside by rounding."""
        return torch.minimum(self.noise.low + u * self.width, self.noise.high)

    @torch.no_grad()
    def score(
        self,
        u: Tensor,
        problem: Tensor | None = None,
        *,
        probe: bool = True,
        beyond: Tensor | None = None,
    ) -> Score:
        """Eq. (11) at u (n, d), for all problems in turn or for the named ones.

        Without a `probe` Ê is the denoiser's own word, half of the cost, and what a probe found
        `beyond` it at another φ nearby.
        """
        rows, owner = self.rows(len(u), problem)
        phi = self.phi(u)
        at = self.score_at(phi[owner], rows, probe, beyond)
        expected = self.observation.statistic(self.y[rows] - at.mean, rows, at.E, at.N, at.g)
        held = (1 - at.E / at.N).clamp(0, 1).square()
        h, slopes = self.observation.mode_weights(rows), self.slopes(expected.k, phi)[owner]
        both = (held, held) if h is None else (h * held, h.square() * held)
        J, V = (
            0.5 * torch.einsum("brm,birm,bjrm->bij", self.in_groups(v, rows), slopes, slopes)
            for v in both
        )
        g = self.gradient(phi, owner, expected)
        if at.g is not None:
            h = self._counted_modes(at.N)
            seen = (self.y[rows] - at.mean, at.g, at.N, known(at.trace), h, held, slopes)
            more, J = with_level(self.observation, phi[owner], rows, J, *seen)
            g, V = g + sum_by_owner(more, owner, len(u)), J
        J, V = (sum_by_owner(part, owner, len(u)) for part in (J, V))
        return Score(g, J, V, at)

    @torch.no_grad()
    def score_at(
        self, phi: Tensor, rows: Tensor, probe: bool = True, beyond: Tensor | None = None
    ) -> ScoreAt:
        """One call for each of the named images, at its own φ; two with a probe."""
        observation = self.observation
        window = observation.whole_window
        # What is exact needs a probe only where a window sees parts of the picture.
        own = self.denoiser
        probed = probe and own.differentiable and not (own.exact and observation.weights is None)
        parts = []
        for part in self.chunks(rows):
            here = self.called(phi[part], rows[part], exactly=probed)
            N = observation.take_power(known(here.covariance.spectrum()))
            y, v = self.y[rows[part]], window(rows[part])
            g = level_of(here.covariance)
            mean, s = here.mean, here.E / N
            said = s if observation.weights is None else through(s, v)
            if probed:
                share, trace = windowed_error(
                    here.mean_of, mean, s, y, N, v, g=g, h=self._counted_modes(N)
                )
                share = share - self._bias(share)
            else:
                share = said if beyond is None else said + beyond[part]
                # The same share of the noise everywhere: enough for the first steps.
                counted = (self._counted_modes(N) * share).flatten(2)
                everywhere = half_plane(self.shape).mean(counted).sum((1, 2))
                trace = everywhere.view(-1, 1, 1, 1).expand_as(y[:, :1])
                trace = trace if v is None else trace * v.square()
            seen = (mean, share * N, N, here.around, share - said)
            parts.append(seen if g is None else (*seen, g.expand_as(y[:, :1]), trace))
        return ScoreAt(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def called(self, phi: Tensor, rows: Tensor, *, exactly: bool = False) -> Called:
        """What the denoiser says of the named images, each at its own φ; `exactly`: in float32, of
        which differences may be made.
        """
        observation, own = self.observation, self.denoiser
        own = own.with_precision("float32") if exactly else own
        covariance, show = self.shown(phi, rows)
        shown = show(self.y[rows])
        held = covariance.held(shown)

        def mean_of(y: Tensor) -> Tensor:
            return observation.take(own(show(y), held).mean)

        mean, error = own(shown, covariance)
        E = known(None if error is None else error.spectrum()).expand(-1, shown.shape[1], -1, -1)
        sd = pixel_sd(observation, error, shown.shape[1])
        taken = observation.take(mean)
        around = torch.full_like(taken, torch.nan) if sd is None else sd
        E = observation.take_power(E)
        return Called(covariance, taken, E, around, mean_of, show, (mean, error))

    def _counted_modes(self, N: Tensor) -> Tensor:
        """How much each mode tells of the level: all alike where the denoiser is exact."""
        return torch.ones_like(N) if self.denoiser.exact else counted_modes(N)

    @property
    def noise_error(self) -> NoiseError | None:
        """What N̂ is off by over images, eq. (12): with weights, where a rule made them, and on
        noise like that of cameras, where the family is one.
        """
        return self.denoiser.noise_error(weighted=not self.plain, camera=self.noise.is_camera)

    def _bias(self, share: Tensor) -> Tensor:
        """What N̂/N is off by on average, ρ̄ q, eq. (12): as much less of Ê/N makes it right."""
        known = self.noise_error
        if known is None:
            return torch.zeros_like(share)
        # A grey picture is its luminance alone.
        rho = known.bias.reshape(-1, len(REFERENCE))[: share.shape[1]].to(share)
        q = overlap(share, torch.ones_like(share))
        return in_every_mode(rho, self.shape) * q

    @torch.no_grad()
    def around(self, phi: Tensor, *, probe: bool = True) -> Tensor:
        """The sd of x around D in every pixel of all images, with the error by ∂D/∂y; without a
        `probe`, by the denoiser's own word.
        """
        rows, owner = self.rows(len(phi))
        denoiser = self.denoiser.with_derivative_error() if probe else self.denoiser
        parts = []
        for part in self.chunks(rows):
            covariance, show = self.shown(phi[owner[part]], rows[part])
            shown = show(self.y[rows[part]])
            _, error = denoiser(shown, covariance)
            parts.append(known(pixel_sd(self.observation, error, shown.shape[1])))
        return torch.cat(parts)

    def chunks(self, rows: Tensor) -> Sequence[Tensor]:
        """Rows that the denoiser is shown at once."""
        return torch.arange(len(rows)).split(max(1, CHUNK // self.y[0, 0].numel()))

    def shown(
        self, phi: Tensor, rows: Tensor
    ) -> tuple[NoiseCovariance, Callable[[Tensor], Tensor]]:
        """Σ_φ of what the denoiser is shown of the named images, and how y is shown."""
        covariance = self.observation.covariance(phi, self.y.dtype, rows)

        def show(y: Tensor) -> Tensor:
            # The chroma noise of an image is the same at every φ but for its spectrum: the score
            # is then a smooth function of φ.
            rng = Streams(self.seed, [(*self.keys[i], 1) for i in rows.tolist()])
            return self.observation.show(y, covariance, rng)

        return covariance, show

    def adapted(self, phi: Tensor) -> tuple[Denoiser, int]:
        """The denoiser that x is drawn with, and the calls that it took to make it.

        For a single image the error model of the heads is corrected by ∂D/∂y at φ (1, d). Draws are
        then as good as with ∂D/∂y in every call, at the cost of the heads.
        """
        if not self.denoiser.adaptable or len(self.y) > 1:
            return self.denoiser, 0
        covariance, show = self.shown(phi, torch.zeros(1, dtype=torch.int64))
        return self.denoiser.adapted(show(self.y), covariance), 1

    def gradient(self, phi: Tensor, owner: Tensor, expected: Statistic) -> Tensor:
        """∂_u of the log-likelihood of images' statistics, each at φ[owner], and of the prior."""
        with torch.enable_grad():
            at = phi.detach().requires_grad_()
            value = self.noise.log_likelihood(at[owner], expected).sum()
            (gradient,) = torch.autograd.grad(value + self.noise.log_prior(at).sum(), at)
        return gradient * self.width

    def slopes(self, k: Wavevectors, phi: Tensor) -> Tensor:
        """∂ log N/∂u in every group, (B, d, R, M), by central differences inside the box."""
        columns = []
        for i in range(phi.shape[1]):
            h = torch.zeros_like(phi)
            h[:, i] = 1e-5 * self.width[i]
            low, high = (p.clamp(self.noise.low, self.noise.high) for p in (phi - h, phi + h))
            apart = ((high - low)[:, i] / self.width[i]).view(-1, 1, 1)
            ends = (self.noise.log_spectra(k, end) for end in (high, low))
            columns.append(torch.sub(*ends) / apart)
        return torch.stack(columns, 1)

    def rows(self, n: int, problem: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The images behind n rows of u, and the row that each belongs to."""
        if self.shared:
            images = len(self.y)
            return torch.arange(images).repeat(n), torch.arange(n).repeat_interleave(images)
        return torch.arange(n) if problem is None else problem, torch.arange(n)

    def in_groups(self, values: Tensor, rows: Tensor) -> Tensor:
        """Σ w · values over the channels of a spectrum and groups, as far as windows let them
        count: (B, R, M).
        """
        grouping = self.noise.grouping(self.shape)
        counts = 1.0 if self.observation.window is None else (grouping.k.k > 0)
        sums = grouping.sum(self.noise.by_spectrum(values)[0])
        return sums * self.observation.counted(rows).view(-1, 1, 1) * counts
