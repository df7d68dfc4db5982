"""`LossSurvey`: a portfolio with labels, whose coalitions are asked on several background rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from credex.designs.background import pair_scale
from credex.domains import Tabular
from credex.formatting import ROUNDING
from credex.importance.loss_estimate import LossResiduals, shapley_of
from credex.importance.losses import COPIES, LEAST_PROBABILITY, Loss
from credex.importance.surrogate import FOLDS, Games
from credex.importance.survey import Answers, Survey
from credex.model_queue import ModelQueue
from credex.options import Options
from credex.seeds import Purpose, one_blas_thread, spawn
from credex.typing import Floats, Ints, Masks

__all__ = ["STRATUM_ROWS", "LossSurvey"]

STRATUM_ROWS = 8
"""Rows of a class that is sampled apart, at least."""


class LossSurvey(Survey):
    """The rows of a portfolio, their labels, and the answers so far."""

    def __init__(self, domain: Tabular, rows: Sequence[Any], options: Options, loss: Loss) -> None:
        stratum = loss.strata(STRATUM_ROWS)
        self.sizes = np.bincount(stratum)
        cohorts = [stratum == h for h in range(len(self.sizes))]
        super().__init__(domain, rows, options, cohorts if len(cohorts) > 1 else ())
        self.loss, self._listed = loss, loss.take(self.order)
        self.stratum: Ints = stratum[self.order]
        self.full_loss: Floats = np.zeros(0)  # of the rows asked, with all features
        self.copies = min(COPIES[loss.name], len(self.weights))
        self._share = 0.0 if self._design.weighted else self.copies / len(self.weights)

    def cost(self, n: int, p: int) -> int:
        """Model rows of n rows with p pairs each, from the beginning."""
        return n * (1 + 2 * p * self.copies) + self.base_rows(n, p)

    def pairs(self, n: int, p: int) -> tuple[Masks, Ints]:
        """Coalitions ``(n, p, d)`` and background rows ``(n, p, q)`` of the first n rows.

        Background rows come in turn, and those of one pair differ; rows with weights are drawn
        independently of each other.
        """
        every, q = len(self.weights), self.copies
        units = every // q  # of a cycle
        masks, origin = [], []
        for t in range(p):
            design = self._pair_design(t)
            masks.append(design.pair_masks(0, n))
            if self._design.weighted:
                rng = spawn(int(design.options.seed), Purpose.PAIR_ROWS, every)
                origin.append(rng.choice(every, (n, q), p=self.weights))
                continue
            cycles = range(-(-n // units))
            rows = [design.pair_rows(c * every, (c + 1) * every)[: units * q] for c in cycles]
            origin.append(np.concatenate(rows).reshape(-1, q)[:n])
        return np.stack(masks, axis=1), np.stack(origin, axis=1)

    def folds(self, n: int) -> Ints:
        """Fold of each row: in turn within its stratum."""
        out = np.empty(n, dtype=np.int64)
        for h in range(len(self.sizes)):
            at = self.stratum[:n] == h
            out[at] = (np.arange(at.sum()) + h) % FOLDS
        return out

    def extend(self, n: int, p: int, queue: ModelQueue) -> None:
        """Ask what is missing, and check that outputs fit the loss."""
        super().extend(n, p, queue)
        if self.answers is not None:
            self.loss.check_outputs(self.answers.all)

    @property
    def rounding(self) -> Floats:
        """Shares ``(1,)`` below which there is only rounding: outputs times the loss's slope.

        −log p changes by as much as p does in relation to itself.
        """
        if self.loss.entropic:
            return np.array([ROUNDING])
        assert self.answers is not None  # noqa: S101 - `extend` comes first
        y = self.answers.all
        slope = np.abs(self.loss.target - y.mean()).max() + np.ptp(y)
        return np.asarray([2 * ROUNDING * np.abs(y).max() * slope])

    def loss_residuals(self) -> LossResiduals:
        """Fit the surrogates and return what they leave of the loss."""
        assert self.answers is not None  # noqa: S101 - `extend` comes first
        a = self.answers
        if self.loss.entropic and a.full.shape[1] == 1:  # the probability of label 1
            two = (np.concatenate([1 - y, y], axis=-1) for y in (a.full, a.pairs, a.base))
            a = Answers(*two)
        with one_blas_thread():
            return self._loss_residuals(a)

    def _loss_residuals(self, a: Answers) -> LossResiduals:
        (n, p, b), d, loss = self.shape, self.d, self._listed
        masks, fit, left = self._fit(a)
        # the surrogate's own game: below its error, the logarithm is a parabola
        floor = max(float(np.sqrt(np.square(left.pairs).mean())), LEAST_PROBABILITY)
        games = fit.quadratic(self._encoded, loss.output, self._background, self.weights)
        each_u, noise = shapley_of(
            games, loss, floor, lambda m: self._pair_design(-2).pair_masks(0, m)
        )
        u = each_u.mean(axis=2)
        u[:n] = np.take_along_axis(each_u[:n], left.fold[:, None, None], axis=2)[:, :, 0]

        rows, sampled = np.arange(n), loss.take(slice(n))
        both = np.stack([masks, ~masks], axis=2).reshape(n, 2 * p, d)
        centre = games.of(left.fold).values(both)[:, :, 0].reshape(n, p, 2)
        error = left.pairs[rows, ..., sampled.output].transpose(0, 1, 3, 2)  # (n, p, 2, q)
        target = np.broadcast_to(sampled.target[:, None, None], centre.shape)
        more = loss.extended(centre, target, floor)
        more = more - loss.of_mean(centre, error, target, self._share)  # v less the surrogate's
        centred = pair_scale(d) * (masks - masks.mean(axis=2, keepdims=True))
        each = centred * (0.5 * (more[:, :, :1] - more[:, :, 1:]))  # (n, p, d)
        rough = loss.of(centre + error.mean(axis=-1), target)  # neither parabola nor jackknife
        rough = rough - loss.of_mean(centre, error, target, self._share)
        floored = centred * (0.5 * (rough[:, :, 1:] - rough[:, :, :1]))

        base, _ = self._base(fit, a.base, left.base, self._design.base_rows(0, b))
        self.full_loss = full = loss.of(a.full[rows, sampled.output], sampled.target)
        guess = self._guess(games, floor, left.fold, full)
        # the model's loss is known of the rows asked: features have equal shares of it
        u = u - (u.sum(axis=1) + guess)[:, None] / d
        r = each.mean(axis=1) - (full - guess[:n])[:, None] / d
        return LossResiduals(
            u,
            noise,
            r,
            each.var(axis=1, ddof=1) / p,
            self.stratum,
            self.sizes,
            self._base_errors(base, left.base),
            float(self.loss.of(base[self.loss.output], self.loss.target).mean()),
            floored.mean(axis=1) if loss.entropic else np.zeros_like(r),
        )

    def _guess(self, games: Games, floor: float, fold: Ints, full: Floats) -> Floats:
        """Model's loss ``(L,)`` in the rows listed, as far as the surrogate's says something of it.

        A survey's regression estimator: the surrogate's loss times the slope of the model's loss
        in it, without the rows of the fold. The loss of a model that is always right has slope 0,
        and is the mean of the rows asked; so it is if the estimate would be negative.
        """
        n, on = len(full), np.ones((1, self.d), dtype=np.bool_)
        each = self._listed.extended(games.values(on)[:, 0], self._listed.target[:, None], floor)
        own, stratum = each[np.arange(n), fold], self.stratum[:n]
        count = np.bincount(stratum)
        weight = (self.sizes / count)[stratum] ** 2
        x, y = (v - (np.bincount(stratum, v) / count)[stratum] for v in (own, full))
        slopes = np.zeros(each.shape[1])
        for f in range(len(slopes)):
            at = fold != f
            if (size := float((weight * x**2)[at].sum())) > 0:
                slopes[f] = np.clip((weight * x * y)[at].sum() / size, 0.0, 1.0)
        out = (slopes * each).mean(axis=1)
        out[:n] = slopes[fold] * own
        mean = np.bincount(self.stratum, out) / np.bincount(self.stratum)
        mean = mean + np.bincount(stratum, full - out[:n]) / count
        return out if mean @ self.sizes >= 0 else np.zeros_like(out)

    def _base_errors(self, base: Floats, left: Floats) -> Floats:
        """Return what each background row adds to the error of the mean loss of the base value.

        From what the surrogate leaves of it; the sum of their squares is the variance. The last one
        is the square of the base value's error, all that there is if the base value is the mean
        label: for a normal error of variance V, its mean square is 3 V².
        """
        loss, b = self.loss, len(left)
        s = base[loss.output]
        slope, bend = (
            np.bincount(loss.output, x, minlength=len(base)) / len(s)
            for x in (loss.slope(s, loss.target), loss.bend(s))
        )
        thin = 1.0 if self._design.weighted else max(1.0 - b / len(self.weights), 0.0)
        each = self._design.base_weights(self._design.base_rows(0, b))[:, None] * left
        each = (each - each.mean(axis=0)) * np.sqrt(thin / (b * (b - 1)))
        return np.append(each @ slope, np.sqrt(3.0) * np.square(each).sum(axis=0) @ bend)
