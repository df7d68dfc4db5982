"""Background rows that stand for all others, with calibration weights from survey sampling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from credex.typing import Floats, Ints, Masks

__all__ = ["Sample"]

MAX_DEGREE = 4
"""Functions of each column whose means a sample of background rows is calibrated to."""

ROWS_PER_FUNCTION = 8
"""Sampled rows for each such function, at least."""


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
    def calibrated(
        cls, background: Floats, weights: Floats, chosen: Ints, *, categorical: Masks
    ) -> Sample:
        """Rows ``chosen`` of a weighted background, drawn in proportion to the weights."""
        rows, size = background[chosen], len(chosen)
        degree = min(MAX_DEGREE, size // (ROWS_PER_FUNCTION * rows.shape[1]))
        every: list[Floats] = []
        auxiliary: list[Floats] = []
        for j in range(rows.shape[1] if degree else 0):
            if categorical[j]:
                codes, counts = np.unique(rows[:, j], return_counts=True)
                common = codes[np.argsort(-counts, kind="stable")[:degree]]
                auxiliary.append((rows[:, j, None] == common).astype(np.float64))
                every.append(np.array([weights @ (background[:, j] == code) for code in common]))
            else:
                auxiliary.append(_polynomials(rows[:, j], degree))
                every.append(weights @ _polynomials(background[:, j], degree))
        if not auxiliary:
            return cls(rows, np.full(size, 1.0 / size), None, 1.0 - size / len(background))
        known = np.column_stack(auxiliary)
        off = np.concatenate(every) - known.mean(axis=0)
        known -= known.mean(axis=0)
        shift = np.linalg.lstsq(known.T, off, rcond=None)[0]
        return cls(rows, 1.0 / size + shift, known, 1.0 - size / len(background))

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


def _polynomials(rank: Floats, degree: int) -> Floats:
    """Legendre polynomials of ranks, −1 if missing, without the constant."""
    return np.asarray(np.polynomial.legendre.legvander(2.0 * rank - 1.0, degree)[:, 1:])
