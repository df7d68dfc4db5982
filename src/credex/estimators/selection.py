"""Choosing the few features of a sparse explanation, from sufficient statistics only."""

from __future__ import annotations

import numpy as np

from credex.typing import Floats, Ints, Masks

MAX_FORWARD = 6
"""``auto`` is forward selection up to this many features, highest weights above (as in lime)."""


def choose(
    gram: Floats, moment: Floats, mean: Floats, *, keep: int, method: str, ridge: float = 0.0
) -> Masks:
    """Return which ``keep`` features of one output to keep, ``(d,)``.

    Parameters
    ----------
    gram
        ``(d, d)`` weighted, centred ZᵀWZ.
    moment
        ``(d,)`` weighted, centred ZᵀWy.
    mean
        ``(d,)`` importances of the full fit.
    keep
        How many.
    method
        ``"forward"``: greedily the feature that explains most; ``"highest"``: largest |φ̂|;
        ``"lasso"``: the first ones on the lasso path; ``"auto"``: forward up to 6, else highest.
    ridge
        Added to the diagonal in forward selection.
    """
    d = len(mean)
    if keep >= d or method == "none":
        return np.ones(d, dtype=np.bool_)
    if method == "auto":
        method = "forward" if keep <= MAX_FORWARD else "highest"
    if method == "highest":
        chosen = np.argsort(-np.abs(mean), kind="stable")[:keep]
    elif method == "forward":
        chosen = _forward(gram + ridge * np.eye(d), moment, keep)
    else:
        chosen = _lasso(gram, moment, mean, keep)
    return np.isin(np.arange(d), chosen)


def _forward(gram: Floats, moment: Floats, keep: int) -> Ints:
    """Orthogonalise against what was chosen, take the largest gain, repeat."""
    g, c = gram.copy(), moment.copy()
    chosen: list[int] = []
    for _ in range(keep):
        diag = np.diag(g).copy()
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.where(
                diag > 1e-12 * max(float(gram.diagonal().max()), 1e-300), c * c / diag, -1
            )
        gain[chosen] = -np.inf
        j = int(np.argmax(gain))
        chosen.append(j)
        if diag[j] > 0:
            column = g[:, j] / diag[j]
            c = c - column * c[j]
            g = g - np.outer(column, g[j])
    return np.array(chosen, dtype=np.int64)


def _lasso(gram: Floats, moment: Floats, mean: Floats, keep: int) -> Ints:
    from sklearn.linear_model import lars_path_gram

    scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    _, _, path = lars_path_gram(
        moment / scale, gram / np.outer(scale, scale), n_samples=1, method="lasso"
    )
    for j in range(path.shape[1] - 1, -1, -1):
        inside = np.flatnonzero(path[:, j])
        if len(inside) <= keep:
            rest = [i for i in np.argsort(-np.abs(mean), kind="stable") if i not in set(inside)]
            return np.array([*inside, *rest[: keep - len(inside)]], dtype=np.int64)
    return np.argsort(-np.abs(mean), kind="stable")[:keep]
