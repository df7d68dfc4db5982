"""``features=K``: which K features an explanation keeps, and its importances of those."""

from __future__ import annotations

import numpy as np

from credex.posteriors import Belief, ExactPosterior, LinearPosterior, ShapleyPosterior
from credex.typing import Floats, Ints, Masks

__all__ = ["Sparse", "choose", "sparse_fit"]

MAX_FORWARD = 6
"""``auto`` is forward selection up to this many features, highest weights above (as in lime)."""


class Sparse:
    """Importances of ``keep`` of d features, filled in output by output."""

    def __init__(self, d: int, k: int, keep: int, *, widened: bool = True) -> None:
        self.keep, self.widened = keep, widened
        self.mean, self.scale = np.zeros((d, k)), np.zeros((d, d, k))
        self.selected = np.zeros((d, k), dtype=np.bool_)
        self.intercept, self.error_scale, self.r2 = np.zeros(k), np.zeros(k), np.zeros(k)
        self.dof = np.inf

    def put(
        self,
        j: int,
        columns: Masks,
        fit: ShapleyPosterior | LinearPosterior | ExactPosterior,
        belief: Belief,
        wider: float,
    ) -> None:
        """Put the fit of output j on the chosen ``columns (d,)``, ``wider`` than its belief."""
        i = np.flatnonzero(columns)
        self.mean[i, j] = belief.mean[:, 0]
        self.scale[i[:, None], i, j] = belief.scale[:, :, 0] * wider**2
        self.selected[i, j] = True
        self.dof = min(self.dof, belief.dof)
        self.error_scale[j], self.r2[j] = np.asarray(fit.error.scale)[0], np.asarray(fit.r2)[0]
        if not isinstance(fit, ShapleyPosterior):
            self.intercept[j] = np.asarray(fit.intercept)[0]

    @property
    def belief(self) -> Belief:
        """Belief about all features; those not kept are zero."""
        return Belief(self.mean, self.scale, self.dof)

    @property
    def note(self) -> str:
        """Note for the reader of the explanation."""
        count = f"{self.keep} of {len(self.mean)} features"
        so = "intervals are widened for that" if self.widened else "intervals ignore that"
        return f"{count}, chosen on the same queries: {so}"


def sparse_fit(p: LinearPosterior, keep: int, method: str) -> Sparse:
    """Choose ``keep`` features output by output and fit the same regression on them.

    As the paper prints it: intervals do not allow for the choice.
    """
    rows, y, w = p.rows.design(), p.rows.y(), p.rows.w()
    out, ridge = Sparse(p.d, p.k, keep, widened=False), float(np.mean(p.prior.precisions(p.d)))
    for j in range(p.k):
        columns = choose(
            p.gram, p.moment[:, j], p.mean[:, j], keep=keep, method=method, ridge=ridge
        )
        small = LinearPosterior.fit(
            rows[:, columns],
            y[:, j : j + 1],
            w,
            prior=p.prior.only(columns),
            intercept=p.intercept_kind,
        )
        out.put(j, columns, small, Belief(small.mean, small.scale_matrix, small.dof), 1.0)
    return out


def choose(
    gram: Floats, moment: Floats, mean: Floats, *, keep: int, method: str, ridge: float = 0.0
) -> Masks:
    """Return which ``keep`` features of one output to keep, ``(d,)``.

    From ZᵀWZ ``(d, d)`` and ZᵀWy ``(d,)``, weighted and centred, and the ``mean (d,)`` of the full
    fit. ``"forward"`` takes greedily what explains most, with ``ridge`` on the diagonal;
    ``"highest"`` the largest |φ̂|; ``"lasso"`` the first ones on the lasso path; ``"auto"`` is
    forward up to 6, else highest; ``"none"`` keeps all.
    """
    d = len(mean)
    if keep >= d or method == "none":
        return np.ones(d, dtype=np.bool_)
    if method == "auto":
        method = "forward" if keep <= MAX_FORWARD else "highest"
    if method == "forward":
        chosen = _forward(gram + ridge * np.eye(d), moment, keep)
    else:
        chosen = np.argsort(-np.abs(mean), kind="stable")
        if method == "lasso":
            chosen = _lasso(gram, moment, keep, chosen)
    return np.isin(np.arange(d), chosen[:keep])


def _forward(gram: Floats, moment: Floats, keep: int) -> Ints:
    """Take the feature with the largest gain, orthogonalise the others against it, repeat."""
    g, c = gram.copy(), moment.copy()
    tiny = 1e-12 * max(float(gram.diagonal().max()), 1e-300)
    chosen: list[int] = []
    for _ in range(keep):
        diagonal = g.diagonal().copy()
        gain = np.divide(c * c, diagonal, out=np.full(len(c), -1.0), where=diagonal > tiny)
        gain[chosen] = -np.inf
        j = int(np.argmax(gain))
        chosen.append(j)
        if diagonal[j] > 0:
            column = g[:, j] / diagonal[j]
            c = c - column * c[j]
            g = g - np.outer(column, g[j])
    return np.array(chosen, dtype=np.int64)


def _lasso(gram: Floats, moment: Floats, keep: int, by_size: Ints) -> Ints:
    """Features on the lasso path while there are at most ``keep``, then the largest others."""
    from sklearn.linear_model import lars_path_gram

    scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    _, _, path = lars_path_gram(
        moment / scale, gram / np.outer(scale, scale), n_samples=1, method="lasso"
    )
    few_enough = np.count_nonzero(path, axis=0) <= keep  # the path starts with none
    inside = np.flatnonzero(path[:, np.flatnonzero(few_enough)[-1]])
    return np.concatenate([inside, by_size[~np.isin(by_size, inside)]])
