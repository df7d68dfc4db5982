"""How the variance of a Gaussian process becomes an interval that holds its level.

The variance of phi given the kernel is too small, because the kernel was fitted to the same rows.

* Its scale sigma² is the mean of squared left-out residuals over their variances, r_i²/v_i.
  Leave-one-out residuals are too small, because the kernel was fitted to the row left out as well:
  two rows that show a rare conjunction are predicted from each other, whether the kernel is right
  or not. So Shapley values are cross-fitted: every quarter of the rows is judged by a kernel that
  was fitted to the other three, each row left out of the conditioning on its own.
* Where random rows are enough, phi's total variance is at least that of a sandwich of the left-out
  residuals: the error of a regression on what the process leaves, whatever its kernel cannot
  express. Then only the sandwich is cross-fitted.
* Without cross-fitting (surrogates of LIME, noisy models), sigma² grows by
  sum_i M_i² r_i² / sum_i M_i² v_i sigma², at least one, if the rows that weigh most in phi were
  predicted worse than the rest, and by 1 + c (p + 5)/n for p + 5 hyper-parameters fitted on n rows.
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

FOLDS = 4
"""Parts of the rows, each judged by a kernel that was fitted to the others. With two, 95 %
intervals were 1.2 times as wide at 200 queries and no less often wrong."""

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
    in_sample: bool = False  # with many features, sigma² is at least that of the fit itself
    sandwich: bool = False  # the total variance is at least that of a sandwich of residuals
    cross_fit: bool = False  # rows are judged by kernels that were not fitted to them


CHOSEN_PAIRS = IntervalRule(
    rows_per_dof=8,
    max_dof=10.0,  # what the kernel cannot express does not vanish with n
    tail_dof=4.0,  # most errors are far smaller than the few that decide the 95 %
    looks=LOOKS,
    few_looks=12.0,  # without: .82-.89 on small games
    first=1,
    in_sample=True,  # leave-one-out is overconfident with about as many players as pairs
    cross_fit=True,
)
NOISY_PAIRS = replace(  # part of the misfit is noise, and known
    CHOSEN_PAIRS, rows_per_dof=16, inflation=1.5, cross_fit=False
)
RANDOM_PAIRS = replace(CHOSEN_PAIRS, looks=1.0, few_looks=0.0, sandwich=True)
COALITIONS = replace(RANDOM_PAIRS, max_dof=20.0, first=2)
FEW_COALITIONS = replace(COALITIONS, looks=LOOKS, sandwich=False)
NOISY_COALITIONS = IntervalRule(rows_per_dof=8, max_dof=20.0, tail_dof=4.0)
FEW_NOISY_COALITIONS = replace(NOISY_COALITIONS, inflation=5.0, looks=LOOKS)
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
