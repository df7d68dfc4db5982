"""Background rows that stand for all others, with calibration weights from survey sampling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credex.typing import Floats

__all__ = ["Sample"]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Rows ``(n, p)`` that stand for a background, with weights ``(n,)``.

    ``auxiliary (n, q)`` are functions of single columns whose means over the whole background the
    weights give exactly (a survey's calibration); ``left_out`` is the share of other rows.
    """

    rows: Floats
    weights: Floats
    auxiliary: Floats | None = None
    left_out: float = 0.0

    @classmethod
    def calibrated(cls, rows: Floats, known: Floats, means: Floats, left_out: float) -> Sample:
        """Rows drawn in proportion to their weights; ``means (q,)`` of ``known (n, q)`` are all's.

        With no function known, every row has the same weight.
        """
        size = len(rows)
        if known.shape[1] == 0:
            return cls(rows, np.full(size, 1.0 / size), None, left_out)
        off = means - known.mean(axis=0)
        known = known - known.mean(axis=0)
        shift = np.linalg.lstsq(known.T, off, rcond=None)[0]
        return cls(rows, 1.0 / size + shift, known, left_out)

    def variance(self, by_row: Floats) -> Floats:
        """Covariance ``(d, d, k)`` of the mean of ``by_row (n, d, k)`` as an estimate for all."""
        n, left = len(by_row), by_row - by_row.mean(axis=0)
        q = 0
        if self.auxiliary is not None:
            flat, q = left.reshape(n, -1), self.auxiliary.shape[1]
            fitted = self.auxiliary @ np.linalg.lstsq(self.auxiliary, flat, rcond=None)[0]
            left = (flat - fitted).reshape(left.shape)
        outer = np.einsum("nik,njk->ijk", left, left, optimize=True)
        return np.asarray(self.left_out / n / max(n - 1 - q, 1) * outer)
