"""Mean importances over rows that were explained one by one, with intervals.

**Noise.** The mean of |φ| over rows is too large if the φ are noisy. So the distribution of a
feature's φ over rows is estimated (empirical Bayes): a mixture of normal distributions on a grid,
fitted by its likelihood to the estimates with their standard errors (`Mixture`). The mean of |φ| is
that of the rows' posteriors under it.

**Intervals** come from a Bayesian bootstrap: rows are weighted at random, the mixture is fitted
again, and so on. That holds the choice of rows and their noise together. If the population has N
rows, the part of the variance that is due to the choice of rows is reduced by n/N. The most extreme
row counts once more: the sample may as well have missed one like it.

**Errors in common.** Rows explained with one seed share coalitions and background rows, and their
errors do not average out: with a correlation of `SHARED` they add ρ·(mean standard error)² to the
variance of a mean. Rows with seeds of their own, as ``explain_global`` takes them, do not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from credex.averages import Aggregate, Average, Estimates
from credex.cells import display
from credex.deconvolve import Mixture
from credex.errors import InputError, check_count
from credex.explanation_base import ExplanationBase
from credex.formatting import ROUNDING
from credex.posteriors.student import quantile
from credex.row_estimates import Rows, grouped, read
from credex.seeds import Purpose, spawn
from credex.typing import Floats

__all__ = ["Aggregate", "aggregate", "first_of", "share_of"]

SHARED = 0.5
"""Correlation between the errors of two rows that were explained with one seed.

It was 0.46 on the diabetes table with a forest, and 0.46 to 0.48 on a bumpy function of 7 features.
"""

N_DRAWS = 400
"""Weightings of the rows: the ends of a 95 % interval are right to 0.011 (one standard error)."""

CORRECTION_ERROR = 0.25
"""Standard error of what is taken off for noise, as a share of it.

Seven distributions of φ, 40 and 200 rows, errors up to the size of φ: the correction was off by up
to a quarter of itself, and intervals without this allowance held down to 0.5 of the time.
"""


SAME = 1e-9
"""Spread of the weighted means, by the largest |φ|, that rounding explains."""


@dataclass(frozen=True, slots=True, eq=False)
class Mean:
    """Mean |φ| of one feature, draws of it, whether it may be 0; mean φ with its standard error."""

    value: float
    draws: Floats
    may_be_zero: bool
    signed: float
    signed_sd: float


@dataclass(frozen=True, slots=True)
class _How:
    """Level, rows of the population, correlation of errors, and a number for the random stream."""

    level: float
    size: float
    shared: float
    stream: int


def aggregate(
    source: Any,
    output: Any = None,
    level: float | None = None,
    *,
    by: Any = None,
    population: int | str | None = None,
    own_seeds: bool | None = None,
) -> Aggregate:
    """Average importances over rows: mean |φ|, mean φ, shares of certain signs, ranks.

    Unknown importances, and rows with errors, are left out.

    Parameters
    ----------
    source
        `Explanations`, a list of explanations, a `SavedBatch`, or a tidy frame as `frames` of an
        explainer or ``to_frame()`` of a batch gives it.
    output
        One output, by name or index; by default all of them.
    level
        Level of the intervals: by default that of the explanations. The intervals of a frame are
        taken to be at this level (0.95), because it has no column for it.
    by
        Cohorts: a column of the frame (such as one that ``keep=`` kept), the name of a feature, or
        one label for each row. `Aggregate.differences` compares them.
    population
        The rows that the averages are about. By default the rows are a random sample of a large
        population. A number: of one with so many rows. ``"rows"`` (or ``"all"``): the rows
        themselves, so that only their own uncertainty is left.
    own_seeds
        Whether each row was explained with a seed of its own, so that errors average out. By
        default the explanations say so; of frames it is not known and taken to be false.

    Examples
    --------
    >>> import numpy as np, credex as cx
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> batch = cx.BayesSHAP(lambda rows: rows @ [3.0, 1.0, 0.0], X).explain_many(X[:50])
    >>> found = cx.aggregate(batch)
    >>> found.order
    [0, 1, 2]
    """
    found = read(source, output, level, by)
    rows, cohorts, level = found.rows, found.cohorts, found.level
    own = found.own_seeds if own_seeds is None else own_seeds
    n = len(rows[0].mean)
    size = _population(population, n)
    groups = [(None, np.ones(n, dtype=np.bool_))] if cohorts is None else grouped(cohorts)
    rounding = {part.output: ROUNDING * _largest_output(source, part) for part in rows}
    parts = []
    for number, (cohort, at) in enumerate(groups):
        share = size if not np.isfinite(size) else max(size * at.mean(), at.sum())
        if at.sum() < 2 and share > at.sum():
            where = f" in cohort {display(cohort)}" if cohort is not None else ""
            msg = f"one row{where} is no sample; pass population='rows' to average the rows alone"
            raise InputError(msg)
        for part in rows:
            how = _How(level, share, 0.0 if own else SHARED, number)
            parts.append(_average(part.only(at), cohort, how, rounding[part.output]))
    whole = size <= n
    about = "Intervals: of the rows themselves" if whole else "Intervals: the choice of rows"
    about += "; noise within rows" if whole else " and noise within rows"
    about += "" if own else "; errors that rows of one seed share"
    return Aggregate(tuple(parts), level, about, n, size)


def _population(population: int | str | None, n: int) -> float:
    if population is None:
        return np.inf
    if isinstance(population, str):
        if population in ("rows", "all"):
            return float(n)
        msg = f"population must be a number of rows or 'rows'; got {population!r}"
        raise InputError(msg)
    size = check_count("population", population)
    if size < n:
        raise InputError(f"population={size} is smaller than the {n} rows that were explained")
    return float(size)


# -- averaging -----------------------------------------------------------------------------------


def _largest_output(source: Any, rows: Rows) -> float:
    """Return the largest |prediction|, base value or importance of one output."""
    known = [np.abs(rows.mean)]
    if hasattr(source, "manifest"):
        source = source.to_frame(["output", "prediction", "base_value"])
    if hasattr(source, "columns"):
        table = source.to_pandas() if hasattr(source, "to_pandas") else source
        if "output" in table.columns:
            table = table[table["output"].astype(str) == rows.output]
        named = [c for c in ("prediction", "base_value") if c in table.columns]
        known += [np.abs(table[c].to_numpy(dtype=np.float64)) for c in named]
    else:
        explained = [e for e in getattr(source, "items", source) if isinstance(e, ExplanationBase)]
        j = list(map(str, explained[0].outputs)).index(rows.output)
        ends = [(e.prediction, e.base_value) for e in explained]
        known.append(np.abs([np.atleast_1d(y)[j] for pair in ends for y in pair]))
    return float(max(np.nanmax(x, initial=0.0) for x in known))


def _average(rows: Rows, cohort: Any, how: _How, rounding: float) -> Average:
    level, size = how.level, how.size
    known = np.isfinite(rows.mean) & np.isfinite(rows.sd)
    lost = [name for name, k in zip(rows.names, known.T, strict=True) if not k.any()]
    if lost:
        raise InputError(f"nothing is known of {', '.join(lost[:3])} in any row; ask more queries")
    n, d = rows.mean.shape
    rng = spawn(0, Purpose.ROW_WEIGHTS, n, how.stream)
    weights, z = rng.standard_exponential((N_DRAWS, n)), rng.standard_normal((d, 2, N_DRAWS))
    found = [
        _mean_of(
            rows.mean[k, j], rows.sd[k, j], weights[:, k], z[j], replace(how, size=size * k.mean())
        )
        for j, k in enumerate(known.T)
    ]
    value, draws = np.array([f.value for f in found]), np.stack([f.draws for f in found], axis=1)
    signed, signed_sd = np.array([(f.signed, f.signed_sd) for f in found]).T
    dof = float(max(n - 1, 1)) if size > n else np.inf
    q = quantile(level, dof)
    sd = draws.std(axis=0)
    tail, wider = (1 - level) / 2, q / quantile(level, np.inf)
    ends = np.quantile(draws, [tail, 1 - tail], axis=0)
    lower, upper = value + wider * (ends - value)
    lower = np.where([f.may_be_zero for f in found], 0.0, np.clip(lower, 0.0, value))
    half = q * signed_sd
    with np.errstate(invalid="ignore"):
        positive, negative = (rows.lower > rounding) & known, (rows.upper < -rounding) & known
    upper = np.maximum(upper, value)
    none = np.maximum(upper, np.abs(signed) + half) <= rounding
    return Average(
        rows.names,
        rows.output,
        cohort,
        n,
        level,
        dof,
        Estimates(value, lower, upper, sd).without(none),
        Estimates(signed, signed - half, signed + half, signed_sd).without(none),
        share_of(positive.sum(axis=0), known.sum(axis=0), size, level),
        share_of(negative.sum(axis=0), known.sum(axis=0), size, level),
        first_of(np.where(known, rows.mean, 0.0), rounding),
        np.where(none, 0.0, np.maximum(draws, 0.0)),
    )


def first_of(phi: Floats, rounding: float) -> Floats:
    """Share of rows of ``phi (n, d)`` in which a feature has the largest |φ|, if one has any."""
    size = np.abs(phi)
    biggest = np.argmax(size, axis=1)[size.max(axis=1) > rounding]
    return np.bincount(biggest, minlength=phi.shape[1]) / len(phi)


def share_of(count: Any, n: Any, size: float, level: float) -> Estimates:
    """Share of rows and Wilson's interval, for a sample of n rows out of ``size``."""
    n = np.maximum(np.asarray(n, dtype=np.float64), 1.0)
    p, left = np.asarray(count) / n, np.maximum(1 - n / size, 0.0)
    z2 = quantile(level, np.inf) ** 2 * left  # the finite-population correction of the variance
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    lower, upper = np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)
    return Estimates(p, np.minimum(lower, p), np.maximum(upper, p), np.sqrt(left * p * (1 - p) / n))


def _mean_of(mean: Floats, sd: Floats, weights: Floats, z: Floats, how: _How) -> Mean:
    """Means of one feature; ``z (2, B)`` are normal draws."""
    n, size, shared = len(mean), how.size, how.shared
    unit = max(float(np.abs(mean).max()), float(sd.max())) or 1.0  # squares must not overflow
    mean, sd = mean / unit, sd / unit
    noise, common = float((sd**2).mean()), np.sqrt(shared) * float(sd.mean())
    apart = (1.0 - shared) * noise  # errors of each row's own
    total = max(float(mean.var(ddof=1)) if n > 1 else 0.0, apart)
    variance = total / n - (total - apart) / max(size, n) + common**2
    mixture = Mixture(mean, sd)
    value = float(mixture.size.mean())
    draws = mixture.sizes(weights / weights.sum(axis=1, keepdims=True))
    between = (float(mixture.size.var(ddof=1)) if n > 1 else 0.0) + mixture.within
    kept = max(float(draws.var()) - between / size, apart / n) if size > n else apart / n
    extreme = float(((mixture.size - value) ** 2).max()) / n**2  # such a row may have been missed
    kept += extreme * max(1.0 - n / size, 0.0)
    spread = float(draws.std())
    own = (draws - draws.mean()) / spread if spread > SAME else z[0]
    shift = np.sqrt(shared) * float((mixture.sign * sd).mean())
    doubt = CORRECTION_ERROR * (float(np.abs(mean).mean()) - value)
    draws = value + np.sqrt(kept) * own + shift * z[0] + doubt * z[1]
    signed, signed_sd = unit * float(mean.mean()), unit * float(np.sqrt(variance))
    return Mean(unit * value, unit * draws, _may_be_zero(mean, sd), signed, signed_sd)


def _may_be_zero(mean: Floats, sd: Floats) -> bool:
    """Whether noise alone explains all estimates (a χ² test at 2.5 %)."""
    from scipy.special import chdtri

    return bool(np.all(sd > 0) and ((mean / sd) ** 2).sum() <= chdtri(len(mean), 0.025))
