"""BayesSHAP on tables: Shapley values over all background rows from one row per query."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from credex.designs.background import BackgroundDesign, pair_scale
from credex.estimators.base import Estimate, Estimator, r_squared
from credex.estimators.forecast import Forecast, forecast_of, solve_forecast
from credex.history import History
from credex.posteriors import Belief, ErrorPosterior
from credex.posteriors.assisted import (
    BASIS_ROWS,
    MAX_EXACT_ROWS,
    MAX_FIT_ROWS,
    AnovaKernel,
    Correction,
    InputSpace,
    Surrogate,
    combine,
    fit_kernel,
)
from credex.posteriors.sample import Sample
from credex.posteriors.warmed import Warmed
from credex.seeds import Purpose, spawn
from credex.stopping import RelativeWidth, Width
from credex.typing import Floats, Ints, Masks, Outputs

__all__ = ["BackgroundEstimator"]

UNFITTED_BASIS_ROWS = 300
"""Basis of the surrogate with nothing fitted, which is meant to be quick."""

MIN_FUNCTIONAL_ROWS = 500
"""Background rows, or as many as were asked, for the surrogate's Shapley values.

A calibrated sample of 250 of 1,000 rows gave the errors and the coverage of all of them.
"""

ROWS_PER_FUNCTION = 8
"""Sampled rows for each function of a column that they are calibrated to, at least."""

FEW_ROWS_FOLDS = 4
"""Kernels while each can learn from more rows: with two, intervals were 6 % wider.

From twice the rows that a kernel is fitted on, two are enough.
"""

LEAST_PAIRS = 3
"""Pairs from which a variance is taken."""

LEARNING = {"gp": 0.75, "linear": 0.65}
"""Widths fall with the rows to this power while the surrogate learns, then to the power ½.

26 tables, from 100, 300 and 1,000 rows to 2 to 10 times as many: forecast ÷ need had medians of
0.94 to 1.16 (gp) and 0.86 to 1.29 (linear); with ½ throughout 1.2 to 3.5 and 1.2 to 2.2.
"""

MAX_RANGE_DOF = 6.0
"""Degrees of freedom for a forecast's range, at most: how fast a surrogate learns differs, too.

On these tables the range held the need 0.84 to 1.00 (gp) and 0.71 to 1.00 (linear) of the time.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """The rows of a history: encoded, and where pairs and background rows are among them."""

    rows: Floats
    y: Outputs
    masks: Masks
    pairs: Ints
    base: Ints
    base_weights: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Belief about the active features, and what else an estimate needs."""

    belief: Belief
    base: Floats
    base_sd: Floats
    error: ErrorPosterior
    r2: Floats
    units: int


class BackgroundEstimator(Estimator):
    """A surrogate over inputs, corrected by the units that were left out of its fit.

    ``posterior="gp"`` fits the parameters of its kernel, ``"linear"`` is a ridge regression on a
    kernel with nothing fitted.
    """

    design: BackgroundDesign
    warmed: Warmed | None = None
    _last: tuple[History, Fit | None] | None = None

    @property
    def minimum(self) -> int:
        """f(x), its repeat, two background rows and some pairs."""
        d = self.design
        if d.d <= 1:
            return int(min(d.everything, 4.0))
        return 1 + d.repeat_cost + 2 + 2 * LEAST_PAIRS

    def fit(self, h: History) -> Estimate | None:
        """Fit the history."""
        f = self._fitted(h)
        if f is None or h.full is None:
            return None
        exact = self.d <= 1 and not f.base_sd.any() and not self.options.noisy
        belief, selected = f.belief, None
        notes: tuple[str, ...] = ()
        keep = self.options.features
        if keep is not None and keep < self.d:
            belief, selected = _largest(belief, keep, self.options.level)
            note = f"{keep} of {self.d} features, chosen on the same queries: intervals are "
            notes = (note + "widened for that; the others have their shares of f(x) − base",)
        out = self.estimate(
            belief,
            f.error,
            f.r2,
            f.base,
            "exact" if exact else self.kind,
            selected=selected,
            notes=notes,
        )
        settled = exact or bool(np.all(np.ptp(h.rows.y(), axis=0) > 0)) if h.rows.n else True
        out = replace(out, settled=settled)
        return replace(out, base_sd=f.base_sd, base_dof=max(self.design.counts(h)[0] - 1.0, 1.0))

    @property
    def kind(self) -> str:
        """Name of the posterior."""
        return "gp" if self.options.posterior == "gp" else "linear"

    def forecast(self, h: History, limits: Width | RelativeWidth, level: float) -> Forecast | None:
        """Return how many more queries these widths take, if the surrogate learns as others did."""
        f = self._fitted(h)
        if f is None:
            return None
        if not f.belief.scale.any():
            return forecast_of(h, limits, level, (0.0, 0.0, 0.0))
        deviation, dof = f.belief.deviation, f.belief.dof

        power = LEARNING[self.kind] if self.d > 1 else 0.5  # one feature has no surrogate

        def rate(n: float) -> float:
            learned = min(n, MAX_EXACT_ROWS)
            return float(learned**-power * np.sqrt(learned / n))

        def spread(n: float) -> tuple[Floats, float]:
            return deviation * (rate(n) / rate(f.units)), dof

        known = min(dof, MAX_RANGE_DOF)
        return solve_forecast(
            h, f.belief.mean, spread, f.units, limits=limits, level=level, range_dof=known
        )

    def _fitted(self, h: History) -> Fit | None:
        if self._last is None or self._last[0] is not h:
            self._last = (h, self._fit(h))
        return self._last[1]

    # -- fitting -------------------------------------------------------------------------------

    def asked(self, h: History) -> Asked:
        """Encode what was asked; the first row is the instance."""
        d = self.design
        x = d.neighbourhood.encoded
        masks = h.rows.design()
        order = np.argsort(masks.any(axis=1), kind="stable")  # however the run was cut
        masks, y = masks[order], h.rows.y()[order]
        n_base, n_pairs = d.counts(h)
        base = d.base_rows(0, n_base)
        origin = np.concatenate([base, np.repeat(d.pair_rows(0, n_pairs), 2)])
        on = np.ones((len(masks), len(d.active)), dtype=np.bool_)
        on[:, d.active] = masks
        rows = np.where(on[:, d.neighbourhood.feature_of], x, d.neighbourhood.encode(origin))
        return Asked(
            np.concatenate([x, rows]),
            np.concatenate([np.asarray(h.full)[None], y]),
            masks[n_base::2],
            1 + n_base + np.arange(2 * n_pairs).reshape(-1, 2),
            1 + np.arange(n_base),
            d.base_weights(base),
        )

    @property
    def space(self) -> InputSpace:
        """Similarities of the active features."""
        nb = self.design.neighbourhood
        columns = tuple(nb.members[i] for i in np.flatnonzero(self.design.active))
        return InputSpace(columns, nb.categorical)

    def _fit(self, h: History) -> Fit | None:
        if h.full is None:
            return None
        if self.d == 0:
            k = len(h.full)
            belief = Belief(np.zeros((0, k)), np.zeros((0, 0, k)), np.inf)
            error = ErrorPosterior(np.inf, np.zeros(k))
            return Fit(belief, h.full, np.zeros(k), error, np.full(k, np.nan), 1)
        n_base, n_pairs = self.design.counts(h)
        if self.d == 1:
            return self._fit_base(h) if n_base >= min(2, self.design.n_background) else None
        if n_base < min(2, self.design.n_background) or n_pairs < LEAST_PAIRS:
            return None
        asked = self.asked(h)
        rest = asked.y if self.warmed is None else asked.y - self.warmed.predict(asked.rows)
        middle, spread = rest.mean(axis=0), rest.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        surrogates = self.surrogates(asked, (rest - middle) / spread)
        fit = self._corrected(asked, surrogates, middle, spread)
        belief = self._with_prior(_with_noise_of_full(fit.belief, h), fit.error)
        return replace(fit, belief=belief, base=h.full - belief.mean.sum(axis=0))

    def background_rows(self, n: int) -> Sample:
        """Background rows for the surrogate's Shapley values: all, or as many as were asked.

        A sample has the marginals of all rows (calibration weights), and what its features do not
        explain of the rows left out is part of the variance.
        """
        nb, weights, n_rows = (
            self.design.neighbourhood,
            self.design.weights,
            len(self.design.weights),
        )
        size = max(MIN_FUNCTIONAL_ROWS, n)
        if size >= n_rows:
            return Sample(nb.encode(np.arange(n_rows)), weights)
        rng = spawn(int(self.options.seed), Purpose.FUNCTIONAL_ROWS, n_rows)
        points = (rng.random() + np.arange(size)) / size
        order = rng.permutation(n_rows)
        at = np.cumsum(weights[order]).searchsorted(points, side="right")
        rows = nb.encode(order[np.minimum(at, n_rows - 1)])
        degree = size // (ROWS_PER_FUNCTION * rows.shape[1])
        return Sample.calibrated(rows, *nb.auxiliary(rows, degree), 1.0 - size / n_rows)

    def _with_prior(self, belief: Belief, error: ErrorPosterior) -> Belief:
        """Update the belief by the prior φ ~ N(m, σ²/λ) of features with λ > 0.

        Their sum changes only as far as the base value is uncertain.
        """
        if not np.any(np.asarray(self.prior.precision) > 0):
            return belief
        precisions = self.prior.precisions(self.d)
        known = np.flatnonzero(precisions > 0)
        mean, scale = belief.mean.copy(), belief.scale.copy()
        for j, sigma in enumerate(np.atleast_1d(np.asarray(error.scale))):
            S = scale[:, :, j]
            inner = S[np.ix_(known, known)] + np.diag(sigma**2 / precisions[known])
            if not np.any(inner):
                continue
            gain = np.linalg.lstsq(inner, S[known], rcond=None)[0].T  # (d, known)
            mean[:, j] += gain @ (self.prior.means(self.d)[known] - mean[known, j])
            scale[:, :, j] = S - gain @ S[known]
        return Belief(mean, scale, belief.dof)

    def surrogates(self, asked: Asked, y: Outputs) -> list[tuple[Surrogate, slice]]:
        """Fit the surrogates to standardised outputs; see `fit_surrogates`."""
        basis, fitted = self._basis(len(y)), self.kind == "gp"
        units = (asked.pairs, asked.base[:, None])
        return fit_surrogates(
            self.space, asked.rows, y, units, basis, seed=int(self.options.seed), fitted=fitted
        )

    def _basis(self, n: int) -> Floats | None:
        """Return hybrid rows that were not asked, for a basis smaller than ``n`` rows."""
        gp = self.kind == "gp"
        size = BASIS_ROWS if gp else UNFITTED_BASIS_ROWS
        if n <= (MAX_EXACT_ROWS if gp else size):
            return None
        nb = self.design.neighbourhood
        rng = spawn(int(self.options.seed), Purpose.BASIS_ROWS, self.d)
        features = rng.random((size, len(self.design.active))) < rng.random((size, 1))
        rows = nb.encode(rng.integers(self.design.n_background, size=size))
        return np.where(features[:, nb.feature_of], nb.encoded, rows)

    def _corrected(
        self,
        asked: Asked,
        fits: list[tuple[Surrogate, slice]],
        middle: Floats,
        spread: Floats,
    ) -> Fit:
        """Correct the surrogates' Shapley values by what left-out units say of their error.

        ``middle`` and ``spread (k,)`` are mean and standard deviation of what the surrogates fit:
        the outputs, or what `Warmed` leaves of them.
        """
        d, m, k = self.d, len(asked.pairs), asked.y.shape[1]
        n_base, n_rows = len(asked.base), self.design.n_background
        x = self.design.neighbourhood.encoded
        sample = self.background_rows(len(asked.y))
        background, weights = sample.rows, sample.weights
        by_row, base_by_row = np.zeros((len(weights), d, k)), np.zeros((len(weights), k))
        if self.warmed is not None:
            by_row, base_by_row = self.warmed.shapley(x, sample)
            by_row = by_row[:, self.design.active]
        phi, base_value = np.einsum("n,ndk->dk", weights, by_row), middle + weights @ base_by_row
        sensitivity = np.zeros((d, len(asked.y)))
        pairs, base = np.empty((m, 2, k)), np.empty((n_base, k))
        for surrogate, part in fits:
            f = surrogate.shapley(x, background, weights)
            phi += f.phi @ surrogate.coefficients * spread / len(fits)
            base_value += f.base @ surrogate.coefficients * spread / len(fits)
            by_row += f.by_row * spread / len(fits)
            base_by_row += f.base_by_row * spread / len(fits)
            sensitivity += surrogate.sensitivity(f.phi) / len(fits)
            pairs[part] = surrogate.left_out(asked.pairs[part]) * spread
            base[part] = surrogate.left_out(asked.base[part, None])[:, 0] * spread
        weighted = base * asked.base_weights[:, None]
        thin = self.thinned(n_base)
        base_value += weighted.mean(axis=0)
        if thin == 0.0:  # every background row was asked: the mean is known
            base_value = (asked.base_weights / n_rows) @ asked.y[asked.base]
        total = asked.y[0] - base_value
        corrections = self._corrections(asked, pairs, base, sensitivity)
        corrections = [
            replace(c, value=c.value + (total[j] - phi[:, j].sum()) / d)
            for j, c in enumerate(corrections)
        ]
        size = np.einsum("n,ndk->dk", weights, by_row**2)
        means, scales, dof = combine(phi, corrections, spread, np.maximum(size, 0.0))
        means += (total - means.sum(axis=0)) / d  # adds up to f(x) − base as reported
        alike = np.ptp(asked.y, axis=0) == 0
        means[:, alike], base_value[alike] = 0.0, asked.y[0, alike]
        base_sd = thin * weighted.std(axis=0, ddof=min(1, n_base - 1)) / np.sqrt(n_base)
        if sample.left_out > 0:
            scales += sample.variance(by_row)
            more = sample.variance(base_by_row[:, None])[0, 0]
            base_sd, scales = np.sqrt(base_sd**2 + more), scales + more / d**2
        if self.options.background_uncertainty:
            scales += _variance_of_mean(by_row, weights, self.design.weights)
            more = _variance_of_mean(base_by_row[:, None], weights, self.design.weights)[0, 0]
            base_sd = np.sqrt(base_sd**2 + more)
        difference = 0.5 * (asked.y[asked.pairs[:, 0]] - asked.y[asked.pairs[:, 1]])
        left = difference - (asked.masks - 0.5) @ means
        rss = (left**2).sum(axis=0)
        return Fit(
            Belief(means, scales, float(np.clip(dof, 1.0, m - 1))),
            base_value,
            base_sd,
            ErrorPosterior(float(m), np.sqrt(rss / m)),
            r_squared(rss, (difference**2).sum(axis=0)),
            len(asked.y),
        )

    def _corrections(
        self, asked: Asked, pairs: Floats, base: Floats, sensitivity: Floats
    ) -> list[Correction]:
        """What residuals of pairs ``(m, 2, k)`` and of base rows ``(b, k)`` say of each output."""
        d, m, n_base = self.d, len(pairs), len(base)
        weighted, thin = base * asked.base_weights[:, None], self.thinned(n_base)
        per_pair = pair_scale(d) * (asked.masks - asked.masks.mean(axis=1, keepdims=True))
        out = []
        for j in range(base.shape[1]):
            half = 0.5 * (pairs[:, 0, j] - pairs[:, 1, j])
            each = (per_pair * half[:, None]).T  # (d, m): an unbiased estimate each
            own = each.mean(axis=1)
            on_pairs = (each - own[:, None]) / max(m - 1, 1)
            on_base = np.broadcast_to(
                -thin * (weighted[:, j] - weighted[:, j].mean()) / max(n_base - 1, 1) / d,
                (d, n_base),
            )
            refit = np.einsum("dmq,mq->dm", sensitivity[:, asked.pairs], pairs[:, :, j])
            refit_base = sensitivity[:, asked.base] * base[:, j]
            influence = np.concatenate([on_pairs, on_base], axis=1)
            surrogate = np.concatenate([refit, refit_base], axis=1)
            out.append(Correction(own, influence, surrogate))
        return out

    def thinned(self, n_base: int) -> float:
        """Finite-population factor of the base value's deviation; noise never averages out."""
        left = 1.0 - n_base / self.design.n_background
        again = self.options.noisy or self.design.weighted
        return 1.0 if again else float(np.sqrt(max(left, 0.0)))

    def _fit_base(self, h: History) -> Fit:
        """One feature that differs: φ = f(x) − base, from background rows alone."""
        n, y = h.rows.n, h.rows.y()
        weights = self.design.base_weights(self.design.base_rows(0, n))
        base = (y * weights[:, None]).mean(axis=0) / weights.mean()
        left = (y - base) * weights[:, None]
        sd = (1.0 if self.options.background_uncertainty else self.thinned(n)) * np.sqrt(
            (left**2).sum(axis=0) / max(n - 1, 1) / n
        )
        phi, k = np.asarray(h.full) - base, len(base)
        belief = Belief(phi[None], (sd**2)[None, None], float(max(n - 1, 1)))
        belief = _with_noise_of_full(belief, h)
        error = ErrorPosterior(float(max(n - 1, 1)), np.zeros(k))
        return Fit(belief, base, sd, error, np.ones(k), n)


def fit_surrogates(
    space: InputSpace,
    rows: Floats,
    y: Outputs,
    units: tuple[Ints, ...],
    basis: Floats | None,
    *,
    seed: int,
    fitted: bool,
) -> list[tuple[Surrogate, slice]]:
    """Fit surrogates, each with the units (``slice``) that its kernel did not see.

    A kernel fitted to a unit flatters it, even if the unit is then left out of the regression: with
    ``fitted`` there are several kernels, and each judges the units it did not see. A kernel with
    nothing fitted judges all units. ``units`` are ``(m, q)`` positions among the rows; rows of none
    are seen by all.
    """
    if not fitted:
        return [(Surrogate(AnovaKernel.unfitted(space.d), space, rows, y, basis), slice(None))]
    folds = FEW_ROWS_FOLDS if len(y) < 2 * MAX_FIT_ROWS else 2
    out = []
    for fold in range(folds):
        judged = slice(fold, None, folds)
        hidden = np.concatenate([u[judged].ravel() for u in units])
        seen = np.delete(np.arange(len(rows)), hidden)
        kernel = fit_kernel(space, rows[seen], y[seen], seed)
        out.append((Surrogate(kernel, space, rows, y, basis), judged))
    return out


def _variance_of_mean(by_row: Floats, weights: Floats, all_weights: Floats) -> Floats:
    """Covariance ``(d, d, k)`` of a mean over all rows, as a sample of a population.

    ``by_row (n, d, k)`` with ``weights (n,)`` may be some of the rows.
    """
    left = by_row - np.einsum("n,ndk->dk", weights, by_row)
    square = float((all_weights**2).sum())
    shared = square / max(1.0 - square, 1e-12)
    outer = np.einsum("n,nik,njk->ijk", weights, left, left, optimize=True)
    return np.asarray(shared * outer)


def _with_noise_of_full(belief: Belief, h: History) -> Belief:
    """Add the noise of f(x), an equal share of which is in every importance."""
    if h.end_values is None or h.end_repeats < 2:
        return belief
    noise = h.end_values[:, 0].var(axis=0, ddof=1) / h.end_repeats / len(belief.mean) ** 2
    return replace(belief, scale=belief.scale + noise)


def _largest(belief: Belief, keep: int, level: float) -> tuple[Belief, Masks]:
    """Keep the ``keep`` features with the largest importances of each output."""
    mean, scale = belief.mean.copy(), belief.scale.copy()
    selected = np.zeros(mean.shape, dtype=np.bool_)
    for j in range(mean.shape[1]):
        out = np.argsort(-np.abs(mean[:, j]), kind="stable")
        selected[out[:keep], j] = True
        scale[:, :, j] *= belief.selection_factor(j, keep, level) ** 2
        mean[out[keep:], j] = 0.0
        scale[out[keep:], :, j] = scale[:, out[keep:], j] = 0.0
    return Belief(mean, scale, belief.dof), selected
