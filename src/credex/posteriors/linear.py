"""The paper's posterior of a linear explanation, in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from credex.errors import InputError, check_level
from credex.history import Rows, checked
from credex.posteriors.regression import (
    CONSTANT,
    INTERCEPT_PRECISIONS,
    TINY,
    Columns,
    InterceptKind,
    Moments,
    Prior,
    effective_rows,
    inverse,
    sandwich,
    slack,
    squared,
    widen_few,
)
from credex.posteriors.student import ErrorPosterior, Interval, quantile
from credex.typing import Design, Floats, Masks


class Solution(NamedTuple):
    """The closed form, of outputs divided by their scale."""

    v: Floats  # (d, d), see `LinearPosterior.v`
    phi: Floats  # (d, k)
    rss: Floats  # (k,) weighted residual sum of squares
    squares: Floats  # (k,) N·s² (Eq. 7): squares of the residuals and of what the prior pulls
    scale2: Floats  # (k,) scale² of the Student-t
    bias: Floats  # (d, k), see `LinearPosterior.bias`


@dataclass(frozen=True, eq=False)
class LinearPosterior:
    """Posterior of φ in y = b + Zφ + ε, ε ~ N(0, σ²/w) (paper Eq. 3–7).

    With Λ = diag(precision) and m the prior mean::

        V  = (ZᵀWZ + Λ)⁻¹          φ̂ = V(ZᵀWy + Λm)
        s² = [(y−Zφ̂)ᵀW(y−Zφ̂) + (φ̂−m)ᵀΛ(φ̂−m)] / N
        φ | y ~ t_dof(φ̂, scale² V)

    With ``intercept="flat"`` (default) b has a flat prior: Z and y are centred, dof = n0 + N − 1
    and the mean equals ``sklearn.linear_model.Ridge(alpha=1)``, which is what ``lime`` fits. With
    ``intercept="none"`` everything is as the paper prints it, dof = n0 + N. With
    ``intercept="unit"`` b is one more coefficient with precision 1 around zero, a column of ones in
    Z whose square counts in s², as in the paper's published code; dof = n0 + N. In all three
    scale² = (n0·σ0² + N·s²) / dof.

    Make one with :meth:`fit`. One factorisation serves all k outputs; if ``y`` was ``(n,)`` the
    last axis is dropped everywhere.

    Examples
    --------
    >>> import numpy as np
    >>> from credex import LinearPosterior
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.random((200, 3)) < 0.5
    >>> y = 5 + Z @ [1.0, -2.0, 0.0] + 0.1 * rng.standard_normal(200)
    >>> p = LinearPosterior.fit(Z[:100], y[:100]).update(Z[100:], y[100:])
    >>> bool(np.all(np.abs(p.mean - [0.98, -1.96, 0.0]) < 0.06))
    True
    """

    rows: Rows
    prior: Prior
    intercept_kind: InterceptKind
    squeeze: bool
    cluster: int = 1
    """Number of consecutive rows that were drawn together (2 for pairs)."""

    @classmethod
    def fit(
        cls,
        Z: Design,
        y: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        prior: Prior | None = None,
        intercept: InterceptKind = "flat",
        cluster: int = 1,
    ) -> LinearPosterior:
        """Fit on ``Z (n, d)``, ``y (n,)`` or ``(n, k)``, ``weights (n,)`` (default: ones)."""
        if intercept not in INTERCEPT_PRECISIONS:
            msg = f"intercept must be 'flat', 'none' or 'unit'; got {intercept!r}"
            raise InputError(msg)
        rows = Rows().add(*checked(Z, y, weights))
        prior = Prior() if prior is None else prior
        prior.check(rows.blocks[0].d)
        return cls(rows, prior, intercept, np.asarray(y).ndim == 1, cluster)

    def update(self, Z: Design, y: ArrayLike, weights: ArrayLike | None = None) -> LinearPosterior:
        """Return the posterior after further rows."""
        z, yy, w = checked(Z, y, weights)
        if z.shape[1] != self.d or yy.shape[1] != self.k:
            msg = f"update needs {self.d} columns and {self.k} outputs; "
            msg += f"got {z.shape[1]} and {yy.shape[1]}"
            raise InputError(msg)
        return replace(self, rows=self.rows.add(z, yy, w))

    @cached_property
    def n(self) -> int:
        """Number of rows N."""
        return self.rows.n

    @cached_property
    def d(self) -> int:
        """Number of features."""
        return self.rows.blocks[0].d

    @property
    def k(self) -> int:
        """Number of outputs."""
        return int(self.rows.blocks[0].y.shape[1])

    @cached_property
    def moments(self) -> Moments:
        """Weighted means and centred cross products of the rows."""
        return Moments.of(self._columns)

    @cached_property
    def _columns(self) -> Columns:
        return Columns(self.rows)

    # -- the closed form, of outputs divided by their scale ------------------------------------

    @cached_property
    def _centred(self) -> Moments:
        """Moments around the part of the weighted means that the intercept takes."""
        return self.moments if self._flat else self.moments.less_intercept(self.intercept_kind)

    @property
    def _flat(self) -> bool:
        return self.intercept_kind == "flat"

    @property
    def _scale(self) -> Floats:
        return self.moments.output_scale

    @cached_property
    def _solution(self) -> Solution:
        d, m, n0 = self.d, self._centred, self.prior.n0
        zz, zy, scale = m.zz, m.zy, m.output_scale
        precisions = self.prior.precisions(d)
        lam, prior_mean = precisions[:, None], self.prior.means(d)[:, None] / scale
        v = inverse(zz + np.diag(precisions))
        phi = v @ (zy + lam * prior_mean)
        off = phi - prior_mean
        rss = m.yy + np.vecdot(phi.T, (zz @ phi - 2 * zy).T)
        pulled = precisions @ np.square(off)
        if self.intercept_kind == "unit":  # its square counts in s², too
            square = np.square(m.y_mean - m.z_mean @ phi)
            rss, pulled = rss - square, pulled + square
        rss = np.maximum(rss, 0.0)
        squares = rss + pulled
        scale2 = (n0 * self.prior.sigma0_sq / scale / scale + squares) / self.dof
        share = 1 - precisions * v.diagonal()
        if share.min(initial=1.0) < 1e-6:  # lost to cancellation; it is the diagonal of VG
            exact = np.maximum(np.einsum("ij,ij->i", v, zz), TINY)
            share = np.where(self.unidentified, 1e-8, exact)
        return Solution(v, phi, rss, squares, scale2, v @ (lam / share[:, None] * off))

    @property
    def v(self) -> Floats:
        """V = (ZᵀWZ + Λ)⁻¹ (Eq. 6), ``(d, d)``."""
        return self._solution.v

    @property
    def gram(self) -> Floats:
        """ZᵀWZ, ``(d, d)``, as the intercept leaves it: centred if that is flat."""
        return self._centred.zz

    @property
    def moment(self) -> Floats:
        """ZᵀWy, ``(d, k)``, centred as `gram` is."""
        return np.asarray(self._centred.zy * self._scale)

    def _out(self, a: Floats) -> Floats:
        """Drop the last axis, that of the outputs, if ``y`` had none."""
        return np.asarray(a[..., 0] if self.squeeze else a)

    def _number(self, a: Floats) -> Floats | float:
        """A number of each output, ``(k,)``; just a number if ``y`` had one axis."""
        return float(a[0]) if self.squeeze else a

    # -- what it says --------------------------------------------------------------------------

    @property
    def dof(self) -> float:
        """Degrees of freedom of the Student-t marginals."""
        return max(self.prior.n0 + self.n - self._flat, self.prior.n0, 1e-12)

    @property
    def mean(self) -> Floats:
        """Posterior mean φ̂ (Eq. 6), ``(d,)`` or ``(d, k)``."""
        return self._out(self._solution.phi * self._scale)

    @property
    def intercept(self) -> Floats | float:
        """Intercept b at the posterior mean (0 if there is none)."""
        m = self._centred
        return self._number((m.y_mean - m.z_mean @ self._solution.phi) * self._scale)

    @property
    def s2(self) -> Floats | float:
        """The paper's s² (Eq. 7)."""
        return self._number(self._solution.squares / self.n * squared(self._scale))

    @property
    def scale_matrix(self) -> Floats:
        """scale² · V of the Student-t, ``(d, d)`` or ``(d, d, k)``."""
        return self._out(self.v[:, :, None] * (self._solution.scale2 * squared(self._scale)))

    @property
    def covariance(self) -> Floats:
        """Posterior covariance of φ, ``(d, d)`` or ``(d, d, k)``; infinite up to dof 2."""
        factor = self.dof / (self.dof - 2) if self.dof > 2 else np.inf
        return np.asarray(self.scale_matrix * factor)

    @property
    def error(self) -> ErrorPosterior:
        """Posterior of the error ε (Eq. 8)."""
        return ErrorPosterior(self.dof, self._number(np.sqrt(self._solution.scale2) * self._scale))

    @property
    def r2(self) -> Floats | float:
        """Weighted R² of the explanation on the rows it was fitted on."""
        both = zip(self._solution.rss.tolist(), self.moments.yy.tolist(), strict=True)
        return self._number(np.array([1 - rss / yy if yy > 0 else np.nan for rss, yy in both]))

    def interval(
        self, level: float = 0.95, *, robust: bool = False, fraction: float = 0.0
    ) -> Interval:
        """Equal-tailed intervals of the features.

        Parameters
        ----------
        level
            Probability inside.
        robust
            ``False``: the paper's, right if the model really is linear plus noise. ``True``:
            :meth:`robust_covariance`, which does not assume that.
        fraction
            Fraction of all possible rows that was asked (finite population correction; only with
            ``robust``).
        """
        level = check_level(level)
        if robust:
            dof, variance = self.robust_dof, np.einsum("iik->ik", self._robust(fraction))
        else:
            dof, variance = self.dof, np.outer(self.v.diagonal(), self._solution.scale2)
        half = quantile(level, dof) * self._out(np.sqrt(variance) * self._scale)
        return Interval(self.mean - half, self.mean + half, level)

    def predictive_variance(self, Z: Design) -> Floats:
        """Return var ŷ(z) = (zᵀVz + 1)·s²·N/(N−2) (Eq. 11) for ``Z (n, d)``."""
        z = np.asarray(Z, dtype=np.float64) - self._centred.z_mean
        spread = self._intercept_leverage + np.vecdot(z @ self.v, z) + 1.0
        factor = self.n / (self.n - 2) if self.n > 2 else np.inf
        s2 = self._solution.squares / self.n * squared(self._scale)
        return self._out(spread[:, None] * (s2 * factor))

    def sample(self, n: int, seed: int | np.random.Generator = 0) -> Floats:
        """Draw ``(n, d)`` or ``(n, d, k)`` from the posterior of φ (Eq. 5)."""
        rng = np.random.default_rng(seed)
        chi2 = rng.chisquare(self.dof, size=(n, 1, self.k)) / self.dof
        chol = np.linalg.cholesky(self.v)
        noise = np.einsum("ij,njk->nik", chol, rng.standard_normal((n, self.d, self.k)))
        s = self._solution
        return self._out((s.phi + noise * np.sqrt(s.scale2 / chi2)) * self._scale)

    # -- misfit instead of noise ---------------------------------------------------------------

    def robust_covariance(self, *, fraction: float = 0.0) -> Floats:
        """Leverage-corrected sandwich (HC3) and the prior's bias.

        The residual of an explanation is misfit, not noise, so its variance differs from row to
        row: φ̂ − φ* = V·Σ wᵢzᵢεᵢ − b with b = `bias`, hence V·[Σ wᵢ²zᵢzᵢᵀεᵢ²/(1−hᵢ)²]·V + bbᵀ.
        The misfit ε is the residual of φ̂ + b: the residuals of φ̂ itself contain the bias too
        (their scores add up to Λ(φ̂−m)), and it would be counted twice.
        """
        return self._out(self._robust(fraction) * squared(self._scale))

    @property
    def robust_dof(self) -> float:
        """Number of rows less the number of parameters, for the Student-t of the sandwich."""
        return max(self.n - self._n_parameters, 1.0)

    @property
    def bias(self) -> Floats:
        """Difference between the least squares solution and φ̂, ``(d,)`` or ``(d, k)``.

        VΛ(φ* − m), where φ*ⱼ − mⱼ is estimated by (φ̂ⱼ − mⱼ)/(1 − λⱼVⱼⱼ): φ̂ⱼ without the share of
        its own pseudo-observation.
        """
        return self._out(self._solution.bias * self._scale)

    @cached_property
    def unidentified(self) -> Masks:
        """``(d,)``: features that are constant in all rows; only the prior determines them."""
        m = self.moments
        return np.asarray(m.zz.diagonal() <= CONSTANT * m.weight)

    def noise_variance(self) -> Floats:
        """Residual variance corrected for the parameters fitted, ``(k,)``."""
        return np.asarray(self._solution.rss * squared(self._scale) / self.robust_dof)

    def projected_meat(self) -> tuple[Floats, float, Floats]:
        """Return what a forecast of the sandwich needs, with unbiased squared residuals e²/(1−h).

        The meat Σ wᵢ²zᵢzᵢᵀeᵢ²/(1−hᵢ) ``(d, d, k)``, the mean leverage weighted by the squared
        residuals, and sums ``(d, d, k)`` of products of rows' shares in two features' variances.
        """
        d, k, unit = self.d, self.k, squared(self._scale)[:, None]
        meat, shares, leverage, mass = np.zeros((d, d, k)), np.zeros((d, d, k)), 0.0, TINY
        for z, w, influence, residual, free in self._influences():
            e2 = np.square(w * residual) / free * unit
            meat += sandwich([(z, np.sqrt(e2))], d, k)
            shares += sandwich([(np.square(influence), e2)], d, k)
            squares = e2.sum(axis=0)
            leverage += float((1 - free) @ squares)
            mass += float(squares.sum())
        return meat, leverage / mass, shares

    @cached_property
    def _n_parameters(self) -> float:
        """Trace of the hat matrix."""
        return float(np.vdot(self.v, self.gram)) + (self._intercept_leverage > 0)

    @property
    def _intercept_leverage(self) -> float:
        """Leverage of a row of weight one that the intercept accounts for."""
        m, kind = self.moments, self.intercept_kind
        return m.intercept_share(kind) / m.weight if m.weight > 0 else 0.0

    def _influences(self) -> Iterator[tuple[Floats, Floats, Floats, Floats, Floats]]:
        """Iterate over the rows in chunks of n.

        Centred rows z ``(d, n)``, their weights w ``(n,)``, influences Vz ``(d, n)`` (the change of
        each coefficient per unit of wε), residuals ε ``(k, n)`` of φ̂ + bias, and 1 − leverage
        ``(n,)``.
        """
        d, s, intercept = self.d, self._solution, self._intercept_leverage
        shift = (self._centred.mean - self._columns.pivot)[:, None]
        both = np.concatenate([s.v, -(s.phi + s.bias).T])
        for columns, w in self._columns:
            centred = columns - shift
            z, out = centred[:d], both @ centred[:d]
            influence = out[:d]
            leverage = np.einsum("dn,dn->n", influence, z) + intercept
            yield z, w, influence, out[d:] + centred[d + 1 :], slack(leverage * w)

    @cached_property
    def _sandwich(self) -> tuple[Floats, Floats]:
        """HC3 covariance ``(d, d, k)``, and how many rows each variance rests on, ``(d,)``.

        The rows' shares in a variance are w times their squared influences: of a column that is
        nearly constant, only the few rows that differ tell.
        """
        sums: list[Floats] = []
        for _, w, influence, residual, free in self._influences():
            misfit = sandwich([(influence, residual * (w / free))], self.d, self.k, self.cluster)
            square = np.square(influence)
            new = [misfit, square @ w, np.square(square) @ np.square(w)]
            sums = [a + b for a, b in zip(sums, new, strict=True)] if sums else new
        out, total, squares = sums
        return out, effective_rows(total, squares)

    def _robust(self, fraction: float) -> Floats:
        """Robust covariance ``(d, d, k)`` of outputs divided by their scale."""
        (misfit, rows), bias = self._sandwich, self._solution.bias
        out = (1 - fraction) * misfit + bias[:, None] * bias
        widen_few(out, rows, self.robust_dof)
        i = self.unidentified.nonzero()[0]
        if len(i):  # the paper's variance, but at least that of the outputs
            near = self.moments.yy / max(self.moments.weight, TINY)
            spread = np.maximum(near, (self.rows.y() / self._scale).var(axis=0))
            out[i, i] += np.maximum(np.outer(self.v.diagonal()[i], self._solution.scale2), spread)
        return np.asarray(out)
