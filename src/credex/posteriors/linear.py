"""The paper's posterior of a linear explanation, in closed form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property as once
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from credex.checks import check_level
from credex.errors import InputError
from credex.posteriors import sandwich
from credex.posteriors.interval import Interval
from credex.posteriors.moments import Moments, summed
from credex.posteriors.prior import Prior
from credex.posteriors.rows import Rows, checked
from credex.posteriors.scaled import ALIKE, Scaled
from credex.posteriors.spd import SINGULAR, inverse_spd
from credex.posteriors.student import ErrorPosterior, quantile
from credex.typing import Design, Floats, Masks

InterceptKind = Literal["flat", "none"]


@dataclass(frozen=True, eq=False)
class LinearPosterior:
    """Posterior of φ in y = b + Zφ + ε, ε ~ N(0, σ²/w) (paper Eq. 4–7).

    With Λ = diag(precision) and m the prior mean::

        V  = (ZᵀWZ + Λ)⁻¹          φ̂ = V(ZᵀWy + Λm)
        s² = [(y−Zφ̂)ᵀW(y−Zφ̂) + (φ̂−m)ᵀΛ(φ̂−m)] / N
        φ | y ~ t_dof(φ̂, scale² V)

    With ``intercept="flat"`` (default) b has a flat prior: Z and y are centred, dof = n0 + N − 1
    and the mean equals ``sklearn.linear_model.Ridge(alpha=1)``, which is what ``lime`` fits. With
    ``intercept="none"`` everything is as the paper prints it, dof = n0 + N. In both
    scale² = (n0·σ0² + N·s²) / dof.

    Make one with :meth:`fit`; :meth:`update` returns a new one. One factorisation serves all k
    outputs; if ``y`` was ``(n,)`` the last axis is dropped everywhere.

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

    moments: Moments
    rows: Rows
    prior: Prior
    intercept_kind: InterceptKind
    squeeze: bool
    cluster: int = 1
    """Consecutive rows that were drawn together (2 for pairs): their scores are summed."""

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
        if intercept not in ("flat", "none"):
            msg = f"intercept must be 'flat' or 'none'; got {intercept!r}"
            raise InputError(msg)
        z, yy, w = checked(Z, y, weights)
        prior = Prior() if prior is None else prior
        prior.check(z.shape[1])
        rows = Rows().add(z, yy, w)
        return cls._of(rows, None, prior, intercept, cluster, squeeze=np.asarray(y).ndim == 1)

    @classmethod
    def of_rows(
        cls,
        rows: Rows,
        *,
        prior: Prior,
        intercept: InterceptKind,
        cluster: int = 1,
        design: Design | None = None,
        robust: bool = True,
    ) -> LinearPosterior:
        """Fit on rows that were checked and packed before; arrays keep their last axis.

        ``design``: all of them unpacked, if they are at hand. ``robust=False``: no robust interval
        will be asked for, so that nothing has to be kept for it.
        """
        out = cls._of(rows, design, prior, intercept, cluster, squeeze=False)
        if not robust:
            out.__dict__.pop("_kept")
        return out

    @classmethod
    def _of(
        cls,
        rows: Rows,
        design: Design | None,
        prior: Prior,
        intercept: InterceptKind,
        cluster: int,
        *,
        squeeze: bool,
    ) -> LinearPosterior:
        moments, kept = summed(rows, design)
        out = cls(moments, rows, prior, intercept, squeeze, cluster)
        # the scaled rows, if they are few, until the sandwich is made of them; no field, so that
        # no copy shares them
        out.__dict__["_kept"] = kept
        return out

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles go without the scaled rows."""
        return {name: value for name, value in self.__dict__.items() if name != "_kept"}

    def update(self, Z: Design, y: ArrayLike, weights: ArrayLike | None = None) -> LinearPosterior:
        """Return the posterior after further rows; costs O(n·d²) whatever came before."""
        z, yy, w = checked(Z, y, weights)
        if z.shape[1] != self.d or yy.shape[1] != self.k:
            msg = f"update needs {self.d} columns and {self.k} outputs; "
            msg += f"got {z.shape[1]} and {yy.shape[1]}"
            raise InputError(msg)
        more, _ = summed(Rows().add(z, yy, w))
        rows = self.rows.add(z, yy, w)
        return replace(self, moments=self.moments + more, rows=rows)

    # -- sizes ---------------------------------------------------------------------------------

    @once
    def n(self) -> int:
        """Number of rows N."""
        return self.moments.n

    @once
    def d(self) -> int:
        """Number of features."""
        return len(self.moments.z_mean)

    @once
    def k(self) -> int:
        """Number of outputs."""
        return len(self.moments.y_mean)

    # -- the closed form -----------------------------------------------------------------------

    @once
    def products(self) -> tuple[Floats, Floats, Floats]:
        """``ZᵀWZ``, ``ZᵀWy`` and ``yᵀWy``, centred if the intercept is flat."""
        m = self.moments
        return (m.zz, m.zy, m.yy) if self.intercept_kind == "flat" else m.raw()

    @once
    def precisions(self) -> Floats:
        """Precisions λ of the prior, ``(d,)``."""
        return self.prior.precisions(self.d)

    @once
    def _means(self) -> Floats:
        """Means m of the prior, ``(d,)``."""
        return self.prior.means(self.d)

    @once
    def _v(self) -> Floats:
        a = self.products[0].copy()
        a.reshape(-1)[:: self.d + 1] += self.precisions
        return inverse_spd(a, sure=self.well_posed)

    @once
    def well_posed(self) -> bool:
        """Whether the prior alone keeps the inverse V from being one of a singular matrix."""
        least = self.prior.precision
        return isinstance(least, float) and least > SINGULAR * float(self.products[0].trace())

    @once
    def _phi(self) -> Floats:
        right = self.products[1]
        if self.prior.mean != 0.0:
            right = right + (self.precisions * self._means)[:, None]
        return np.asarray(self._v @ right)

    @once
    def _rss(self) -> Floats:
        """Weighted residual sum of squares, ``(k,)``."""
        g, c, yy = self.products
        phi = self._phi
        rss = yy + np.einsum("ik,ik->k", phi, g @ phi - 2 * c)
        return np.asarray(np.maximum(rss, 0.0))

    @once
    def _s2(self) -> Floats:
        shrink = self.precisions @ (self._phi - self._means[:, None]) ** 2
        return np.asarray((self._rss + shrink) / self.n)

    @once
    def _scale2(self) -> Floats:
        p = self.prior
        return np.asarray((p.n0 * p.sigma0_sq + self.n * self._s2) / self.dof)

    @property
    def dof(self) -> float:
        """Degrees of freedom of the Student-t marginals."""
        return max(self.prior.n0 + self.n - (self.intercept_kind == "flat"), self.prior.n0, 1e-12)

    @property
    def mean(self) -> Floats:
        """Posterior mean φ̂, ``(d,)`` or ``(d, k)``."""
        return self._out(self._phi)

    @property
    def intercept(self) -> Floats | float:
        """B at the posterior mean (0 without an intercept)."""
        flat, m = self.intercept_kind == "flat", self.moments
        b = m.y_mean - m.z_mean @ self._phi if flat else np.zeros(self.k)
        return float(b[0]) if self.squeeze else b

    @property
    def s2(self) -> Floats | float:
        """The paper's s² (Eq. 7)."""
        return float(self._s2[0]) if self.squeeze else self._s2

    @property
    def scale_matrix(self) -> Floats:
        """scale² · V of the Student-t, ``(d, d)`` or ``(d, d, k)``."""
        return self._out(self._v[:, :, None] * self._scale2)

    @property
    def covariance(self) -> Floats:
        """Posterior covariance of φ, ``(d, d)`` or ``(d, d, k)``; infinite up to dof 2."""
        factor = self.dof / (self.dof - 2) if self.dof > 2 else np.inf
        return np.asarray(self.scale_matrix * factor)

    @property
    def error(self) -> ErrorPosterior:
        """Posterior of the error ε (Eq. 8)."""
        scale = np.sqrt(self._scale2)
        return ErrorPosterior(self.dof, float(scale[0]) if self.squeeze else scale)

    @once
    def r2(self) -> Floats | float:
        """Weighted R² of the explanation on the rows it was fitted on."""
        m = self.moments
        r2 = np.full(self.k, np.nan)
        r2 = 1 - np.divide(self._rss, m.yy, out=r2, where=m.yy > 0)
        return float(r2[0]) if self.squeeze else np.asarray(r2)

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
            :meth:`robust_covariance`, which does not believe that.
        fraction
            Share of all possible rows that was asked (finite population correction; only with
            ``robust``).
        """
        level = check_level(level)
        if robust:
            half = quantile(level, self.robust_dof) * np.sqrt(
                self.robust_variance(fraction=fraction)
            )
        else:
            variance = self._out(np.outer(np.diag(self._v), self._scale2))
            half = quantile(level, self.dof) * np.sqrt(variance)
        return Interval(self.mean - half, self.mean + half, level)

    @property
    def bias(self) -> Floats:
        """How far the prior pulls φ̂ from the flat answer, ``(d,)`` or ``(d, k)``.

        VΛ(φ* − m), where φ*ⱼ − mⱼ is taken as (φ̂ⱼ − mⱼ)/(1 − λⱼVⱼⱼ): φ̂ⱼ without the share of its
        own pseudo-observation.
        """
        return self._out(self._bias)

    @once
    def _bias(self) -> Floats:
        lam, pull = self.precisions, self._phi
        if self.prior.mean != 0.0:
            pull = pull - self._means[:, None]
        shrunk = 1 - lam * self._v.diagonal()
        if np.count_nonzero(shrunk < 1e-6):  # its digits are lost: that is the diagonal of VG, too
            exact = np.einsum("ij,ij->i", self._v, self.products[0])
            shrunk = np.maximum(np.where(self.unseen, 1e-8, exact), np.finfo(float).tiny)
        return np.asarray(self._v @ ((lam / shrunk)[:, None] * pull))

    @property
    def unpulled(self) -> Floats:
        """φ̂ and the bias, ``(d, k)``: what the rows would say without the prior."""
        return np.asarray(self._phi + self._bias)

    @once
    def _robust_parts(self) -> tuple[Floats, float, Floats | None]:
        """Data part of the robust variances ``(d, k)``, trace of the hat, factors ``(d,)``."""
        kept: Scaled | None = self.__dict__.pop("_kept", None)  # one taker only: it is given on
        parts = sandwich.variances(self, kept)
        if kept is not None:
            kept.release()
        return parts

    @once
    def unseen(self) -> Masks:
        """``(d,)``: features that are alike in all rows, of which the prior alone speaks."""
        return np.asarray(self.moments.zz.diagonal() <= ALIKE * self.moments.weight)

    @once
    def some_unseen(self) -> bool:
        """Whether there are such features."""
        return bool(np.count_nonzero(self.unseen))

    def _prior_share(self) -> Floats:
        """Variances ``(d, k)`` of the unseen features: the paper's, but at least that of any y."""
        near = self.moments.yy / max(self.moments.weight, np.finfo(float).tiny)
        spread = np.maximum(near, self.rows.y().var(axis=0))
        prior = np.outer(self._v.diagonal(), self._scale2)
        return np.where(self.unseen[:, None], np.maximum(prior, spread), 0.0)

    def robust_variance(self, *, fraction: float = 0.0) -> Floats:
        """Diagonal of `robust_covariance`, ``(d,)`` or ``(d, k)``: all that intervals take."""
        variance, _, factor = self._robust_parts
        out = np.square(self._bias)
        out += variance if fraction == 0 else (1 - fraction) * variance
        if factor is not None:
            out *= factor[:, None]
        return self._out(out + self._prior_share() if self.some_unseen else out)

    def robust_covariance(self, *, fraction: float = 0.0) -> Floats:
        """Leverage-corrected sandwich (HC3) and the prior's pull.

        The residual of an explanation is misfit, not noise, so its variance changes from place
        to place: φ̂ − φ* = V·Σ wᵢzᵢεᵢ − b with b = `bias`, hence V·[Σ wᵢ²zᵢzᵢᵀεᵢ²/(1−hᵢ)²]·V + bbᵀ.
        The misfit ε is what φ̂ + b leaves over: the residuals of φ̂ itself hold the pull too
        (their scores add up to Λ(φ̂−m)), and it would be counted twice.
        """
        b = self._bias
        out = (1 - fraction) * sandwich.covariance(self) + np.einsum("ik,jk->ijk", b, b)
        factor = self._robust_parts[2]
        if factor is not None:
            root = np.sqrt(factor)
            out *= np.outer(root, root)[:, :, None]
        i = np.arange(self.d)
        out[i, i] += self._prior_share()
        return self._out(out)

    @property
    def v(self) -> Floats:
        """V = (ZᵀWZ + Λ)⁻¹, ``(d, d)``."""
        return self._v

    def noise_variance(self) -> Floats:
        """Residual variance corrected for the parameters fitted, ``(k,)``."""
        spent = float(np.sum(self._v * self.products[0])) + (self.intercept_kind == "flat")
        return np.asarray(self._rss / max(self.n - spent, 1.0))

    @property
    def robust_dof(self) -> float:
        """Rows less the parameters they were spent on, for the Student-t of the sandwich."""
        return max(self.n - self._robust_parts[1], 1.0)

    def predictive_variance(self, Z: Design) -> Floats:
        """Return var ŷ(z) = (zᵀVz + 1)·s²·N/(N−2) (Eq. 11) for ``Z (n, d)``."""
        z = np.asarray(Z, dtype=np.float64)
        base = 0.0
        if self.intercept_kind == "flat":
            z = z - self.moments.z_mean
            base = 1.0 / self.moments.weight if self.moments.weight > 0 else 0.0
        spread = base + np.einsum("ij,ij->i", z @ self._v, z) + 1.0
        factor = self.n / (self.n - 2) if self.n > 2 else np.inf
        out = spread[:, None] * self._s2 * factor
        return out[:, 0] if self.squeeze else np.asarray(out)

    def sample(self, n: int, seed: int | np.random.Generator = 0) -> Floats:
        """Draw ``(n, d)`` or ``(n, d, k)`` from the posterior of φ (paper Eq. 6)."""
        rng = np.random.default_rng(seed)
        chi2 = rng.chisquare(self.dof, size=(n, 1, self.k)) / self.dof
        chol = np.linalg.cholesky(self._v)
        noise = np.einsum("ij,njk->nik", chol, rng.standard_normal((n, self.d, self.k)))
        draws = self._phi + noise * np.sqrt(self._scale2 / chi2)
        return draws[:, :, 0] if self.squeeze else np.asarray(draws)

    def _out(self, a: Floats) -> Floats:
        return np.asarray(a[..., 0] if self.squeeze else a)
