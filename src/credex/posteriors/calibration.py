"""How the variance of a Gaussian process becomes an interval that holds its level.

The variance of phi given the kernel is too small, because the kernel was fitted to the same rows.

* Its scale sigma² is the mean of squared leave-one-out residuals over their variances, r_i²/v_i.
  Such residuals are too small where some features do not matter: rows that differ in those only are
  copies of one another. So where rows are random, blocks are left out too: a row together with the
  fifth of all rows that is nearest to it in the kernel's distance.
* Where the rows that weigh most in phi were predicted worse than the rest, sigma² grows by
  sum_i M_i² r_i² / sum_i M_i² v_i sigma², at least one.
* It grows by 1 + c (p + 5)/n for p + 5 hyper-parameters fitted on n rows; or, where n random rows
  are enough, phi's total variance is at least that of a sandwich of the residuals: the error of a
  regression on what the process leaves, whatever its kernel cannot express.
* The scale itself is uncertain, so that the posterior is a Student-t.

Which of these apply, with which constants, depends on what is explained (`IntervalRule`). The
constants are not derived: they were chosen by coverage on the benchmark games
(`docs/benchmarks/reliability.md`) and checked on others, some of the same kinds
(`docs/benchmarks/other_games.md`). What was measured for a constant stands beside it, where that is
known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from credex.typing import Floats

BLOCK_SHARE = 5
"""A block is one in so many rows."""

MAX_BLOCK_ROWS, MAX_BLOCKS = 50, 200
"""Bounds of the time that blocks take; they are around rows evenly spread."""

SANDWICH_ROWS = 2
"""Random rows per feature from which Shapley values have a sandwich."""

LOOKS = 1.15
"""Stopping at a width favours runs whose scale came out small: without this factor 95 % intervals
covered .936-.944 on the benchmark games, with it .953-.970."""


@dataclass(frozen=True, slots=True)
class IntervalRule:
    """Corrections of a posterior from n rows, of p + 5 fitted hyper-parameters.

    n is the effective number of rows: fewer if residuals have heavy tails (`kurtosis_rows`).
    """

    rows_per_dof: int  # the Student-t has 3 + n/rows_per_dof degrees of freedom,
    max_dof: float  # at most so many,
    tail_dof: float | None = None  # of which so many are reported, at the same width at 95 %
    inflation: float = 0.0  # sigma² grows by 1 + inflation·(p + 5)/n
    looks: float = 1.0  # widths grow by looks + (few_looks/n)² if a run may stop at any look
    few_looks: float = 0.0
    first: int = 0  # residuals of rows before this one, which are in every run, do not count
    blocks_from: int | None = None  # blocks of rows from this one on are left out, too
    in_sample: bool = False  # with many features, sigma² is at least that of the fit itself
    sandwich: bool = False  # the total variance is at least that of a sandwich of residuals


CHOSEN_PAIRS = IntervalRule(
    rows_per_dof=16,
    max_dof=10.0,  # what the kernel cannot express does not vanish with n
    tail_dof=4.0,  # most errors are far smaller than the few that decide the 95 %
    inflation=2.0,  # as in Akaike's final prediction error, to first order
    looks=LOOKS,
    few_looks=12.0,  # without: .82-.89 on small games
    first=1,
    in_sample=True,  # leave-one-out is overconfident with about as many players as pairs
)
NOISY_PAIRS = replace(CHOSEN_PAIRS, inflation=1.5)  # part of the misfit is noise, and known
FEW_RANDOM_PAIRS = replace(CHOSEN_PAIRS, inflation=3.0)  # with 2: .86 on digits, .90 on boosting
RANDOM_PAIRS = IntervalRule(
    rows_per_dof=8,  # with a sandwich the scale is better known
    max_dof=10.0,
    tail_dof=4.0,
    first=1,
    blocks_from=1,
    in_sample=True,
    sandwich=True,
)
COALITIONS = IntervalRule(
    rows_per_dof=8, max_dof=20.0, tail_dof=4.0, blocks_from=2, in_sample=True, sandwich=True
)
FEW_COALITIONS = replace(
    COALITIONS,
    inflation=5.0,  # of 2, 3 and 5 the one that held on boosting and digits
    looks=LOOKS,
    sandwich=False,
)
MASKS = IntervalRule(  # an inflation of 0.75 in place of the sandwich covered .87 on other games
    rows_per_dof=16, max_dof=30.0, looks=LOOKS, in_sample=True, sandwich=True
)
POOL = IntervalRule(  # a sandwich would count chance replacements in a row: up to twice too wide
    rows_per_dof=16, max_dof=10.0, inflation=0.75, looks=LOOKS
)


def leave_one_out(inverse: Floats, whitened: Floats) -> tuple[Floats, Floats]:
    """Leave-one-out residuals (n, k) and their variances (n,) at sigma² = 1.

    ``inverse`` is L^-1 of the rows' covariance L L', ``whitened`` is L^-1 Y.
    """
    v = 1 / (inverse**2).sum(0)
    return np.asarray((inverse.T @ whitened) * v[:, None]), np.asarray(v)


def block_scale(inverse: Floats, whitened: Floats, distance: Floats, first: int) -> Floats:
    """sigma² (k,) from rows predicted without their neighbours; 0 if there are too few rows.

    ``distance`` has the squared distances (n, n) between rows; the rows before ``first`` are in
    every run and are never left out. The other arguments are those of `leave_one_out`.
    """
    n = len(inverse)
    size = min((n - first) // BLOCK_SHARE, MAX_BLOCK_ROWS)
    if size < 2:
        return np.zeros(whitened.shape[1])
    centres = np.linspace(first, n - 1, min(n - first, MAX_BLOCKS)).round().astype(np.int64)
    away = distance[centres]
    away[:, :first] = np.inf
    away[np.arange(len(centres)), centres] = -np.inf
    near = np.argsort(away, axis=1, kind="stable")[:, :size]  # the row itself comes first
    precision = inverse.T @ inverse
    alpha = inverse.T @ whitened
    block = precision[near[:, :, None], near[:, None, :]]
    unit = np.zeros((len(centres), size, 1))
    unit[:, 0] = 1.0
    column = np.linalg.solve(block, unit)[:, :, 0]  # of the block's covariance given the others
    residual = np.einsum("bm,bmk->bk", column, alpha[near])
    return np.asarray((residual**2 / np.maximum(column[:, :1], 1e-300)).mean(0))
