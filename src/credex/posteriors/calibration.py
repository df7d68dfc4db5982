r"""How the variance of a Gaussian process becomes an interval that holds its level.

The variance of phi given the kernel is too small, because the kernel was fitted to the same rows,
and so are leave-one-out residuals: of two rows that show a rare conjunction each is predicted from
the other, whether the kernel is right or not.

Shapley values are cross-fitted (`credex.posteriors.process.CrossFit`): four kernels, each fitted to
three quarters of the rows, judge the quarter that they have not seen.

* The scale sigma² is the mean of squared leave-one-out residuals over their variances, times how
  much larger that mean is for rows that a kernel was not fitted to than for those that it was.
* It grows by ¾(d/m)² for d players and m rows: with few rows main effects rest on the prior.
* How far phi moves from one kernel to another is added (delete-a-group jackknife).
* If few rows decide (errors of heavy tails), half a row may yet be unlike all others; and the
  posterior is a Student-t with 1 + (sum of squares)²/(sum of fourth powers) degrees of freedom, at
  most 1 + n/3 for n rows.

Surrogates (BayesLIME) have leave-one-out residuals and an `IntervalRule` with these corrections:

* sigma² grows by sum_i M_i² r_i² / sum_i M_i² v_i sigma², at least one, if the rows that weigh most
  in phi were predicted worse than the rest, and by 1 + c (p + 5)/n for p + 5 hyper-parameters
  fitted on n rows.
* Over masks, phi's total variance is at least that of a sandwich of the residuals: the error of a
  regression on what the process leaves, whatever its kernel cannot express.
* The scale itself is uncertain, so that the posterior is a Student-t.
* A run that stops at a width favours scales that came out small (`LOOKS`).

Their constants were chosen by coverage on the benchmark games (`docs/benchmarks/reliability.md`)
and checked on others, some of the same kinds (`docs/benchmarks/other_games.md`). What was measured
for a constant stands beside it, where that is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credex.typing import Floats

FOLDS = 4
"""Parts of the rows, each judged by a kernel that was fitted to the others. With eight, 95 %
intervals were 1.1 times as wide and no less often wrong."""

LOOKS = 1.15
"""Stopping at a width favours runs whose scale came out small: this factor widens the intervals of
surrogates then. It was measured on Shapley values before these were cross-fitted (95 % intervals
covered .936-.944 without it, .953-.970 with it); those do without it now and cover .96-.97."""


@dataclass(frozen=True, slots=True)
class IntervalRule:
    """Corrections of a surrogate's posterior from n rows, of p + 5 fitted hyper-parameters.

    n is the effective number of rows: fewer if residuals have heavy tails (`kurtosis_rows`).
    """

    rows_per_dof: int  # the Student-t has 3 + n/rows_per_dof degrees of freedom,
    max_dof: float  # at most so many
    inflation: float = 0.0  # sigma² grows by 1 + inflation·(p + 5)/n
    in_sample: bool = False  # with many features, sigma² is at least that of the fit itself
    sandwich: bool = False  # the total variance is at least that of a sandwich of residuals


MASKS = IntervalRule(  # an inflation of 0.75 in place of the sandwich covered .87 on other games
    rows_per_dof=16, max_dof=30.0, in_sample=True, sandwich=True
)
POOL = IntervalRule(  # a sandwich would count chance replacements in a row: up to twice too wide
    rows_per_dof=16, max_dof=10.0, inflation=0.75
)


def leave_one_out(inverse: Floats, whitened: Floats) -> tuple[Floats, Floats]:
    """Leave-one-out residuals (n, k) and their variances (n,) at sigma² = 1.

    ``inverse`` is L^-1 of the rows' covariance L L', ``whitened`` is L^-1 Y.
    """
    v = 1 / (inverse**2).sum(0)
    return np.asarray((inverse.T @ whitened) * v[:, None]), np.asarray(v)
