"""Losses of a prediction, squared error and cross-entropy, and their estimates from few rows.

Each row of a portfolio has one number that its loss depends on: the prediction for squared error,
the probability of the row's class for cross-entropy. That number is a mean over background rows, of
which q are asked. The loss of a mean of q is too large by about c·(1/q − 1/B) for a background of B
rows, and that of the mean of q − 1 by c·(1/(q − 1) − 1/B): the two give the loss at B (a
jackknife). For squared error the mean of that is right exactly.

Estimates of a small probability may be near zero or below it, where the logarithm is steep or is
not there. Below a multiple of the estimate's standard error it goes on as its parabola, of which
the jackknife is right again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from credex.cells import display, is_missing
from credex.errors import InputError
from credex.typing import Floats, Ints

__all__ = ["COPIES", "LOSSES", "Loss", "read_labels"]

COPIES = {"squared error": 2, "cross-entropy": 3}
"""Background rows on which a coalition is asked.

Squared error takes two for its jackknife. Cross-entropy, three populations at 2,900 model rows: 3
had 0.7 to 1.1 of the error of 4 or 6, and 2 had outliers (5 times the error on one).
"""

LOSSES = tuple(COPIES)

LEAST_PROBABILITY = 1e-6
"""Smaller probabilities of a row's class count as this: a loss of 13.8, not infinity."""

FLOOR_ERRORS = 2.0
"""Standard errors of an estimated probability below which the logarithm is a parabola.

The same three populations: 1 and 3 had 1.0 to 1.3 of the error, and no bias was seen with any;
models that say 0 or 1 have one (see ``FLOOR_DOUBT``).
"""

FAR_SHARE = 0.1
"""Share of the rows that are sampled apart because their labels are far from the mean.

A table with an effect in 6 % of its rows, to a width: a quarter of the error and half the model
rows; two others, without rare effects, about the same.
"""

MAX_STRATA = 20
"""Classes that are sampled apart, at most: three rows of each take about 1,000 model rows."""

PROBABILITY_TOLERANCE = 1e-3
"""By how much the sum of a row's probabilities may differ from one: single precision."""


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """A loss and the labels of N rows.

    ``target (N,)`` are the numbers to predict (squared error), ``output (N,)`` the column of the
    model's outputs that the loss of each row reads.
    """

    name: str
    target: Floats
    output: Ints

    @property
    def entropic(self) -> bool:
        """Whether it is the cross-entropy."""
        return self.name == "cross-entropy"

    def take(self, rows: Any) -> Loss:
        """Return the part of some rows."""
        return Loss(self.name, self.target[rows], self.output[rows])

    def of(self, s: Floats, target: Floats) -> Floats:
        """Loss of predictions."""
        if self.entropic:
            return np.asarray(-np.log(np.clip(s, LEAST_PROBABILITY, 1.0)))
        return np.asarray((s - target) ** 2)

    def extended(self, s: Floats, target: Floats, floor: Any) -> Floats:
        """Loss of estimates, of which some may be no probabilities: a parabola below ``floor``."""
        if not self.entropic:
            return self.of(s, target)
        below = np.minimum(s / floor - 1.0, 0.0)
        return np.asarray(-np.log(np.maximum(s, floor)) - below + 0.5 * below**2)

    def slope(self, s: Floats, target: Floats) -> Floats:
        """Derivative of the loss in the prediction."""
        if self.entropic:
            return np.asarray(-1.0 / np.maximum(s, LEAST_PROBABILITY))
        return np.asarray(2.0 * (s - target))

    def bend(self, s: Floats) -> Floats:
        """Half of the second derivative of the loss in the prediction."""
        if self.entropic:
            return np.asarray(0.5 / np.maximum(s, LEAST_PROBABILITY) ** 2)
        return np.ones_like(s)

    def of_mean(self, centre: Floats, error: Floats, target: Floats, share: float) -> Floats:
        """Loss of ``centre`` plus the mean of all errors, from q of them, ``(…, q)``.

        ``share`` is that of the background rows that were asked.
        """
        q, mean = error.shape[-1], error.mean(axis=-1)
        if share >= 1.0:
            return self.of(centre + mean, target)
        square = error.var(axis=-1, ddof=1) * (1.0 - share) / q
        se = np.sqrt(np.maximum(square, square.mean()))  # of few rows it may be too small by chance
        floor = np.maximum(FLOOR_ERRORS * se, LEAST_PROBABILITY)
        whole = self.extended(centre + mean, target, floor)
        others = centre[..., None] + (q * mean[..., None] - error) / (q - 1)
        without = self.extended(others, target[..., None], floor[..., None]).mean(axis=-1)
        return np.asarray(whole + (q - 1) * (1.0 - share) * (whole - without))

    def strata(self, least: int) -> Ints:
        """Number ``(N,)`` each row's stratum: what is rare and has a large loss is sampled apart.

        For cross-entropy the row's class; classes of fewer than ``least`` rows are taken together,
        as are all but the `MAX_STRATA` largest.
        For squared error whether its label is among those farthest from the mean.
        """
        if not self.entropic:
            far, many = (
                np.abs(self.target - self.target.mean()),
                round(FAR_SHARE * len(self.target)),
            )
            out = np.zeros(len(far), dtype=np.int64)
            if many >= least and np.ptp(far) > 0:
                out[np.argsort(-far, kind="stable")[:many]] = 1
            return out
        counts = np.bincount(self.output)
        kept = np.argsort(-counts, kind="stable")[:MAX_STRATA]
        kept = np.sort(kept[counts[kept] >= least])
        others = np.setdiff1d(np.arange(len(counts)), kept)
        few = counts[others].sum()
        number = np.full(len(counts), len(kept))
        number[kept] = np.arange(len(kept))
        if len(kept) and 0 < few < least:  # too few even together: with the smallest class
            number[others] = number[kept[np.argmin(counts[kept])]]
        return np.asarray(np.unique(number[self.output], return_inverse=True)[1])

    def check_outputs(self, y: Floats) -> None:
        """Raise if outputs ``(n, k)`` do not fit the loss and the labels."""
        k = y.shape[1]
        if not self.entropic:
            if k > 1:
                msg = f"squared error takes one output; the model has {k}. Choose one with target="
                raise InputError(msg)
            return
        sums = y.sum(axis=1) if k > 1 else np.ones(1)
        low, high = float(y.min()), float(y.max())
        worst = low if -low > high - 1.0 else high
        if worst < -PROBABILITY_TOLERANCE or worst > 1 + PROBABILITY_TOLERANCE:
            msg = (
                f"cross-entropy takes probabilities; the model returned {worst:.6g}. Give a model "
            )
            raise InputError(msg + "that returns probabilities, or loss='squared error'")
        off = float(sums[np.argmax(np.abs(sums - 1.0))])
        if abs(off - 1.0) > PROBABILITY_TOLERANCE:
            msg = f"cross-entropy takes probabilities; those of a row sum to {off:.6g}, not 1"
            raise InputError(msg)
        if (most := int(self.output.max())) >= max(k, 2):
            msg = f"y has the label {most}, but the model has {k} output{'s' if k > 1 else ''}: "
            raise InputError(msg + f"labels are 0 to {max(k, 2) - 1}")


def read_labels(y: Any, n: int, loss: str, classes: tuple[Any, ...] | None, index: Any) -> Loss:
    """Check the labels of n rows; ``classes`` are the model's, ``index`` the output explained."""
    if loss not in LOSSES:
        msg = f"loss={loss!r} is unknown; choose {' or '.join(map(repr, LOSSES))}"
        raise InputError(msg)
    labels = _array_of(y)
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1:
        raise InputError(f"y has shape {labels.shape}; pass one label for each of the {n} rows")
    if len(labels) != n:
        raise InputError(f"y has {len(labels)} labels for {n} rows of X; pass one for each")
    missing = np.array([is_missing(x) for x in labels.tolist()], dtype=np.bool_)
    if missing.any():
        msg = f"{missing.sum()} labels of y are missing (the first is that of row "
        raise InputError(msg + f"{int(np.argmax(missing))}); leave these rows out of X and y")
    if loss == "cross-entropy":
        return Loss(loss, np.zeros(n), _classes(labels, classes))
    if classes is not None:
        if index is None:
            msg = f"squared error takes one output; the model has {len(classes)} classes. Choose "
            raise InputError(msg + "one with target=, or loss='cross-entropy'")
        target = (_classes(labels, classes) == index).astype(np.float64)
    else:
        try:
            target = labels.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            bad = next((x for x in labels.tolist() if not isinstance(x, int | float)), None)
            which = "a label that is too large" if bad is None else f"the label {display(bad)}"
            raise InputError(f"y has {which}; squared error takes numbers") from None
        if not np.isfinite(target).all():
            raise InputError("y has infinite labels; squared error takes finite numbers")
    return Loss(loss, target, np.zeros(n, dtype=np.int64))


def _array_of(y: Any) -> Any:
    """Return labels as an array; masked ones are missing."""
    masked = isinstance(y, np.ma.MaskedArray)
    labels = np.asarray(y.astype(object).filled(np.nan) if masked else y)
    if labels.dtype.kind in "mMc":
        kind = "complex numbers" if labels.dtype.kind == "c" else "dates or durations"
        raise InputError(f"y holds {kind}; pass numbers or classes")
    return labels


def _classes(labels: Any, classes: tuple[Any, ...] | None) -> Ints:
    """Column of each row's class."""
    values = labels.tolist()
    if classes is not None:
        column = {c: j for j, c in enumerate(classes)}
        unknown = next((x for x in values if x not in column), None)
        if unknown is not None:
            known = ", ".join(map(repr, classes))
            msg = f"y has the label {unknown!r}, which is no class of the model: those are {known}"
            raise InputError(msg)
        return np.array([column[x] for x in values], dtype=np.int64)
    for x in values:
        if not isinstance(x, bool | int | float) or not 0 <= x < np.inf or x != int(x):
            msg = f"y has the label {x!r}; this model has no class labels, so that labels are "
            msg += "columns of its outputs: 0, 1, … (0 and 1 if it returns one probability)"
            raise InputError(msg)
    return np.array([int(x) for x in values], dtype=np.int64)
