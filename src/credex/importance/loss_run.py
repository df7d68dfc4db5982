"""Shares of a loss over a portfolio: ask, fit, look, and divide what is asked next."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from credex.averages import Average, Estimates
from credex.cells import clean
from credex.errors import InputError
from credex.formatting import ROUNDING
from credex.importance.estimate import Means
from credex.importance.loss_estimate import LossOutlook, LossResiduals, loss_means
from credex.importance.loss_survey import LossSurvey
from credex.importance.outlook import Outlook
from credex.importance.run import LEAST_PAIRS, LEAST_ROWS, N_RANK_DRAWS, PortfolioRun, Request
from credex.loss_shares import LossShares
from credex.model_queue import ModelQueue
from credex.posteriors.student import quantile, root
from credex.stopping import RankingSettled, RelativeWidth, Rule, Width

__all__ = ["LossRun"]

SAMPLED_ROWS = 3
"""Rows of every class that is sampled apart, at least."""

LEAST_DOF = 10.0
"""Degrees of freedom at which a width may stop a run, unless every row was asked.

With fewer, runs end where the variance happens to look small: the table with a rare effect was
covered 0.87, and 0.91 with this (20 runs), for 2.7 times the model rows.
"""


class LossRun(PortfolioRun):
    """One run of ``explain_loss``."""

    survey: LossSurvey

    def __init__(self, survey: LossSurvey, queue: ModelQueue, request: Request, names: Any) -> None:
        super().__init__(survey, queue, request, (names, None))
        self._found: LossResiduals | None = None

    def run(self) -> LossShares:
        """Ask until a goal is met."""
        found = super().run()
        assert isinstance(found, LossShares)  # noqa: S101 - `result` makes it
        return found

    def _least_rows(self) -> int:
        """Rows until every class has enough."""
        least = LEAST_ROWS
        if self._most < least:
            raise InputError(f"explain_loss takes {least} rows or more; got {self._most}")
        for h in range(len(self.survey.sizes)):
            at = np.flatnonzero(self.survey.stratum == h)
            least = max(least, int(at[SAMPLED_ROWS - 1]) + 1)
        if least > self._most:
            msg = f"max_rows={self._most} is too few for {len(self.survey.sizes)} groups of rows "
            msg += f"(classes, or labels far from the mean), each of which takes {SAMPLED_ROWS}: "
            raise InputError(msg + f"{least} rows are needed")
        return least

    def _pilot(self, limit: int | None) -> tuple[int, int]:
        return super()._pilot(limit)[0], LEAST_PAIRS

    def _check(self, rule: Rule) -> str | None:
        """Return the reason to stop; intervals that few rows decide are not trusted with it."""
        few = self._means[0][1].dof < LEAST_DOF and self.survey.shape[0] < self._most
        if few and isinstance(rule, Width | RelativeWidth):
            return None
        if isinstance(rule, RankingSettled):  # shares are ranked by φ
            rule = replace(rule, signed=True)
        return super()._check(rule)

    def _fit(self) -> None:
        self._found = self.survey.loss_residuals()
        means = loss_means(self._found, self.request.level)
        means = means.without_rounding(self.survey.rounding)
        self._means = [(self._found, means, means)]  # type: ignore[list-item]

    def outlook(self, learning: float | None = None) -> Outlook:
        """Return what the next queries will do; see `Outlook` for ``learning``."""
        assert self._found is not None  # noqa: S101 - a fit comes first
        return LossOutlook(
            self._found,
            self._limits()[0],
            shape=self.survey.shape[:2],
            level=self.request.level,
            cost=self.survey.cost,
            size=self._most,
            learning=learning,
        )

    def result(self, reason: str, *, converged: bool) -> LossShares:
        """Return the shares as they stand."""
        (n, p, b), (_, m, _), f = self.survey.shape, self._means[0], self._found
        assert f is not None  # noqa: S101 - a fit comes first
        value, cov, level = m.value[:, 0], m.covariance[:, :, 0], self.request.level
        found = _estimates(m)
        total = loss_means(f.summed(), level, tail=True).without_rounding(self.survey.rounding)
        unknown = np.full(len(value), np.nan)
        none = Estimates(unknown, unknown, unknown, unknown)
        z = np.random.default_rng(0).standard_normal((N_RANK_DRAWS, len(value)))
        names = tuple(map(clean, self._names))
        part = Average(
            names, "loss", None, n, level, m.dof, found, found, none, none, unknown,
            value + z @ root(cov).T,
        )  # fmt: skip
        note = f"{n:,} rows with {p} pairs of coalitions each on {self.survey.copies} background "
        note += f"rows, and {b:,} background rows; a surrogate predicts "
        note += f"{100 * max(self.survey.r2, 0.0):.0f} % of the variance of other queries"
        notes = (note, *self._doubts())
        return LossShares(
            (part,),
            level,
            "Intervals: the choice of rows, noise within rows, and the base value",
            n_rows=n,
            population=float(self.survey.size),
            n_model_rows=self.queue.rows_sent,
            n_calls=self.queue.calls,
            seconds=time.perf_counter() - self._begun,
            stop_reason=reason,
            converged=converged,
            notes=notes,
            loss=self.survey.loss.name,
            base_loss=f.base_loss,
            total=_estimates(total),
        )

    def _doubts(self) -> list[str]:
        """Return what intervals cannot know."""
        full = self.survey.full_loss
        alike = len(full) < self.survey.size and np.ptp(full) <= ROUNDING * np.abs(full).max()
        out = [
            f"All {len(full):,} rows asked have the same loss: rare rows of another are not seen"
        ]
        out = out if alike else []
        m = self._means[0][1]
        usual = quantile(self.request.level, m.dof) * np.sqrt(np.diag(m.covariance[:, :, 0]))
        wider = int(((m.upper - m.lower)[:, 0] / 2 > np.sqrt(2.0) * usual).sum())
        if wider:  # what the logarithm leaves open is more than all other errors
            text = f"Probabilities near 0 make this cross-entropy hard to estimate: {wider} of "
            text += f"{len(usual)} intervals are wider for it, and may still miss. "
            out.append(f"{text}loss='squared error' with target= has no such limit")
        return out


def _estimates(m: Means) -> Estimates:
    sd = np.sqrt(np.diag(m.covariance[:, :, 0]))
    return Estimates(m.value[:, 0], m.lower[:, 0], m.upper[:, 0], sd)
