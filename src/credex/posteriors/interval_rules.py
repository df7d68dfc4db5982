"""How the variance of a Gaussian process becomes an interval that holds its level.

`credex.posteriors.process` says what each correction is. The constants are not derived: they were
chosen by coverage on the benchmark games (`docs/benchmarks/reliability.md`) and checked on others,
some of the same kinds (`docs/benchmarks/other_games.md`). What was measured for a constant stands
beside it, where that is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["IntervalRule"]


@dataclass(frozen=True, slots=True)
class IntervalRule:
    """Corrections of a posterior from n rows.

    Attributes
    ----------
    rows_per_dof, max_dof : a Student-t with 3 + n/rows_per_dof degrees of freedom, at most max_dof.
    tail_dof : degrees of freedom that are reported, at the same width at 95 %; None: the above.
    inflation : sigma² grows by 1 + inflation·(p + 5)/n, for p + 5 fitted hyper-parameters.
    looks, few_looks : factor looks + (few_looks/n)² of the width if a run may stop at any look.
    first : residuals of rows before this one, which are in every run, do not count.
    blocks_from : blocks of rows from this one on are left out, too; None: no blocks.
    in_sample : with many features, sigma² is at least that of the fit itself.
    kurtosis : n is the effective number of rows, by the kurtosis of the residuals.
    sandwich : the total variance is at least that of a sandwich of left-out residuals.
    """

    rows_per_dof: int
    max_dof: float
    tail_dof: float | None = None
    inflation: float = 0.0
    looks: float = 1.0
    few_looks: float = 0.0
    first: int = 0
    blocks_from: int | None = None
    in_sample: bool = False
    kurtosis: bool = False
    sandwich: bool = False


SANDWICH_ROWS = 2
"""Random rows per feature from which Shapley values have a sandwich."""

LOOKS = 1.15
"""Stopping at a width favours runs whose scale came out small: without this factor 95 % intervals
covered .936-.944 on the benchmark games, with it .953-.970."""

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
    rows_per_dof=16, max_dof=10.0, inflation=0.75, looks=LOOKS, kurtosis=True
)
