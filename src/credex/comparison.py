"""Differences between the importances of two explanations: which of them are real."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from credex.cells import clean
from credex.errors import InputError, check_level
from credex.explanation_base import ExplanationBase
from credex.posteriors.student import cdf, quantile
from credex.typing import Floats, Masks


class Comparison(NamedTuple):
    """Differences φ(a) − φ(b) of the features that two explanations share, ``(m,)`` each.

    ``probability`` is the posterior probability that a difference has the sign it shows: ½ says
    nothing, 1 is certain. The posteriors are taken to be independent. Runs that share their
    perturbations have errors in common, which makes the true intervals narrower than these.
    """

    names: tuple[str, ...]
    difference: Floats
    lower: Floats
    upper: Floats
    probability: Floats
    level: float

    @property
    def real(self) -> Masks:
        """Which intervals exclude zero."""
        return np.asarray((self.lower > 0) | (self.upper < 0))


def compare(
    a: ExplanationBase, b: ExplanationBase, output: Any = None, level: float | None = None
) -> Comparison:
    """Compare two explanations feature by feature, matched by name."""
    if not isinstance(b, ExplanationBase):
        raise InputError(f"compare() takes a second Explanation; got {type(b).__name__}")
    level = check_level(a.level if level is None else level)
    ja, jb = (e._output(output) for e in (a, b))  # noqa: SLF001 - as in their methods
    at = {name: i for i, name in enumerate(b.names)}
    shared = [(i, at[name]) for i, name in enumerate(a.names) if name in at]
    if not shared:
        raise InputError("the two explanations have no feature in common")
    if a.method != b.method:
        raise InputError(
            f"a {a.method} and a {b.method} measure different things; compare two of one kind"
        )
    ia, ib = (list(pair) for pair in zip(*shared, strict=True))
    difference = a.belief.mean[ia, ja] - b.belief.mean[ib, jb]
    va, vb = a.belief.deviation[ia, ja] ** 2, b.belief.deviation[ib, jb] ** 2
    variance = va + vb
    with np.errstate(divide="ignore", invalid="ignore"):  # Welch and Satterthwaite
        dof = variance**2 / (va**2 / a.dof + vb**2 / b.dof)
    dof = np.where(np.isfinite(dof), np.clip(dof, 1.0, None), min(a.dof, b.dof))
    scale = np.sqrt(variance)
    half = scale * [quantile(level, float(nu)) for nu in dof]
    sure = np.where(difference == 0, 0.5, 1.0)
    chance = [
        float(cdf(np.asarray(abs(x) / s), nu)) if s > 0 else p
        for x, s, nu, p in zip(difference, scale, dof, sure, strict=True)
    ]
    names = tuple(clean(a.names[i]) for i in ia)
    return Comparison(
        names, difference, difference - half, difference + half, np.array(chance), level
    )
