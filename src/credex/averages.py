"""`Aggregate`: importances averaged over rows, with intervals, ranks and differences of cohorts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from credex import formatting, markup
from credex.cells import display
from credex.errors import InputError
from credex.posteriors.student import Interval, cdf, quantile
from credex.typing import Floats, Ints, Masks

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Aggregate", "Average", "Differences", "Estimates", "holm"]

MAX_FEATURES = 20
"""Features that a table shows."""

MAX_COHORTS = 30
"""Cohorts of which all pairs are compared."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """Numbers ``(d,)`` with the ends of their intervals, and standard errors."""

    value: Floats
    lower: Floats
    upper: Floats
    sd: Floats

    def __post_init__(self) -> None:
        for name in ("value", "lower", "upper", "sd"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))

    def without(self, none: Masks) -> Estimates:
        """Return them with zeros where ``none`` says so."""
        each = (self.value, self.lower, self.upper, self.sd)
        return Estimates(*(np.where(none, 0.0, x) for x in each))


@dataclass(frozen=True, slots=True, eq=False)
class Average:
    """Averages of d features over the rows of one cohort, for one output.

    Attributes
    ----------
    size, signed
        Mean |φ| (of a loss, the share φ) and mean φ.
    positive, negative
        Share of rows in which the feature's interval lies above, or below, zero.
    first
        ``(d,)`` share of rows in which the feature has the largest estimate.
    draws
        ``(B, d)`` of ``size``, for ranks.
    """

    names: tuple[str, ...]
    output: str
    cohort: Any
    n_rows: int
    level: float
    dof: float
    size: Estimates
    signed: Estimates
    positive: Estimates
    negative: Estimates
    first: Floats
    draws: Floats = field(repr=False)

    @property
    def order(self) -> list[int]:
        """Features, the largest first."""
        return [int(i) for i in np.argsort(-self.size.value, kind="stable")]

    @property
    def chance(self) -> Floats:
        """Probability that a feature is the largest of all."""
        return self.rank_probabilities()[:, 0]

    def rank_probabilities(self) -> Floats:
        """``(d, d)``: entry (i, r) is the probability that feature i has rank r + 1.

        Features that are equal, such as those that do nothing, may have each other's ranks.
        """
        d = len(self.names)
        coin = np.random.default_rng(0).random(self.draws.shape)
        order = np.lexsort((coin, -self.draws), axis=1)
        counts = np.bincount((order * d + np.arange(d)).ravel(), minlength=d * d)
        return counts.reshape(d, d) / len(self.draws)

    def rank_range(self, level: float | None = None) -> tuple[Ints, Ints]:
        """Lowest and highest rank of each feature at ``level``; 1 is the largest."""
        tail = (1 - (self.level if level is None else level)) / 2
        p = np.cumsum(self.rank_probabilities(), axis=1)
        return np.argmax(p > tail, axis=1) + 1, np.argmax(p >= 1 - tail - 1e-12, axis=1) + 1


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """Sizes in cohort ``first`` less those in ``second``, ``(d,)`` each, for one output.

    ``probability`` is that of the sign it shows, ``p_value`` is adjusted (Holm) for all features
    and pairs of cohorts of that output, and ``real`` are the differences that pass at the level.
    """

    names: tuple[str, ...]
    output: str
    first: Any
    second: Any
    difference: Floats
    lower: Floats
    upper: Floats
    probability: Floats
    p_value: Floats
    real: Masks


@dataclass(frozen=True, eq=False)
class Aggregate:
    """Importances averaged over rows: `credex.aggregate` and ``explain_global`` return it.

    ``mean`` (of |φ|), ``lower``, ``upper``, ``signed``, ``first``, ``chance``, ``order`` and
    ``names`` are those of the only cohort and output; if there are several, choose with `of`.

    Attributes
    ----------
    parts
        An `Average` for each cohort and output.
    level
        Level of the intervals.
    about
        What the rows are, and what the intervals include, in a sentence.
    n_model_rows, n_rows, population
        Rows sent to the model (by ``explain_global``), rows explained, and rows of the population:
        infinity if it is large or unknown.
    stop_reason, converged
        Why ``explain_global`` stopped, and whether it met its goal.
    """

    parts: tuple[Average, ...]
    level: float
    about: str = ""
    n_rows: int = 0
    population: float = np.inf
    n_model_rows: int = 0
    n_calls: int = 0
    seconds: float = 0.0
    stop_reason: str = ""
    converged: bool = True
    notes: tuple[str, ...] = ()

    def of(self, *, output: Any = None, cohort: Any = None) -> Average:
        """Return the averages of one output and one cohort."""
        found = self.parts
        if output is not None:
            index = isinstance(output, int | np.integer) and not isinstance(output, bool)
            names = self.outputs
            wanted = names[output] if index and -len(names) <= output < len(names) else output
            found = tuple(p for p in found if p.output == str(wanted))
        if cohort is not None:
            found = tuple(p for p in found if p.cohort == cohort)
        if len(found) == 1:
            return found[0]
        what = "nothing fits" if not found else "several fit"
        msg = f"{what} output={output!r}, cohort={cohort!r}: outputs are "
        msg += ", ".join(map(repr, self.outputs))
        if self.cohorts != [None]:
            msg += "; cohorts are " + ", ".join(display(c) for c in self.cohorts[:MAX_COHORTS])
        raise InputError(msg)

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return list(dict.fromkeys(p.output for p in self.parts))

    @property
    def cohorts(self) -> list[Any]:
        """Labels of the cohorts; ``[None]`` if there are none."""
        return list(dict.fromkeys(p.cohort for p in self.parts))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        return self.parts[0].names

    @property
    def mean(self) -> Floats:
        """Mean |φ|, ``(d,)``."""
        return self.of().size.value

    @property
    def lower(self) -> Floats:
        """Lower ends of the intervals of ``mean``."""
        return self.of().size.lower

    @property
    def upper(self) -> Floats:
        """Upper ends of the intervals of ``mean``."""
        return self.of().size.upper

    @property
    def signed(self) -> Floats:
        """Mean φ, ``(d,)``."""
        return self.of().signed.value

    @property
    def first(self) -> Floats:
        """Share of rows in which a feature has the largest estimate."""
        return self.of().first

    @property
    def chance(self) -> Floats:
        """Probability that a feature is the largest of all."""
        return self.of().chance

    @property
    def order(self) -> list[int]:
        """Features, the largest first."""
        return self.of().order

    def interval(self) -> Interval:
        """Intervals of ``mean``."""
        return Interval(self.lower, self.upper, self.level)

    def rank_probabilities(self) -> Floats:
        """``(d, d)``: entry (i, r) is the probability that feature i has rank r + 1."""
        return self.of().rank_probabilities()

    def rank_range(self, level: float | None = None) -> tuple[Ints, Ints]:
        """Lowest and highest rank of each feature at ``level``; 1 is the largest."""
        return self.of().rank_range(level)

    def differences(self) -> list[Differences]:
        """Compare the sizes in every two cohorts: which differences are real."""
        if len(self.cohorts) > MAX_COHORTS:
            msg = f"{len(self.cohorts)} cohorts make too many pairs; at most {MAX_COHORTS} are "
            raise InputError(msg + "compared. Put them into fewer groups")
        return [d for output in self.outputs for d in self._differences(output)]

    def _differences(self, output: str) -> list[Differences]:
        parts = [p for p in self.parts if p.output == output]
        pairs = list(combinations(parts, 2))
        if not pairs:
            return []
        difference = np.array([a.size.value - b.size.value for a, b in pairs])
        sd = np.array([np.hypot(a.size.sd, b.size.sd) for a, b in pairs])
        dof = np.array([min(a.dof, b.dof) for a, b in pairs])
        peak = np.array([np.maximum(np.abs(a.size.value), np.abs(b.size.value)) for a, b in pairs])
        difference[np.abs(difference) <= formatting.ROUNDING * peak] = 0.0
        z = np.divide(np.abs(difference), sd, out=np.zeros_like(sd), where=sd > 0)
        z = np.where((sd == 0) & (difference != 0), np.inf, z)
        sure = np.array([cdf(row, nu) for row, nu in zip(z, dof, strict=True)])
        p_value = holm(2 * (1 - sure))
        half = sd * np.array([quantile(self.level, nu) for nu in dof])[:, None]
        return [
            Differences(
                a.names,
                output,
                a.cohort,
                b.cohort,
                difference[i],
                difference[i] - half[i],
                difference[i] + half[i],
                sure[i],
                p_value[i],
                p_value[i] <= 1 - self.level,
            )
            for i, (a, b) in enumerate(pairs)
        ]

    # -- forms ---------------------------------------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """Return a frame with a line for each cohort, output and feature, the largest first.

        ``mean``, ``signed``, ``positive`` and ``negative`` have columns ``…_lower`` and
        ``…_upper``; ``prob_first`` is the probability that the feature is the largest.
        """
        import pandas as pd

        frames = []
        for p in self.parts:
            at = p.order
            low, high = p.rank_range()
            columns: dict[str, Any] = {}
            if self.cohorts != [None]:
                columns["cohort"] = [p.cohort] * len(at)
            if len(self.outputs) > 1:
                columns["output"] = [p.output] * len(at)
            columns["feature"] = [p.names[i] for i in at]
            each = {"mean": p.size, "signed": p.signed}
            for name, e in (each | {"positive": p.positive, "negative": p.negative}).items():
                columns[name] = e.value[at]
                columns[f"{name}_lower"], columns[f"{name}_upper"] = e.lower[at], e.upper[at]
            columns |= {"rank_low": low[at], "rank_high": high[at], "prob_first": p.chance[at]}
            frames.append(pd.DataFrame(columns | {"n_rows": p.n_rows}))
        return pd.concat(frames, ignore_index=True)

    def __str__(self) -> str:
        out = [self._title()]
        for p in self.parts:
            head, rows, more = self._table(p)
            cells = [head, *rows]
            widths = [max(formatting.columns(r[c]) for r in cells) for c in range(len(head))]
            out += ["", *([self._part_title(p)] if self._part_title(p) else [])]
            for r in cells:
                padded = [
                    text + " " * gap if c == 0 else " " * gap + text
                    for c, (text, width) in enumerate(zip(r, widths, strict=True))
                    for gap in [width - formatting.columns(text)]
                ]
                out.append("  ".join(padded).rstrip())
            out += more
        return "\n".join([*out, "", *self._foot()])

    def _repr_html_(self) -> str:
        out = [f'<div class="title"><b>{escape(self._title())}</b></div>']
        for p in self.parts:
            head, rows, more = self._table(p)
            out.append(f'<div class="title"><bdi>{escape(self._part_title(p))}</bdi></div>')
            out.append(markup.table(head, [[escape(c) for c in r] for r in rows], 1))
            out.append(markup.paragraphs(more, "small"))
        return markup.fragment(*out, markup.paragraphs(self._foot(), "small"))

    def _title(self) -> str:
        of = f" of {self.population:,.0f}" if self.n_rows < self.population < np.inf else ""
        rows = "1 row" if self.n_rows == 1 else f"{self.n_rows:,}{of} rows"
        return f"Importances averaged over {rows}, {formatting.percent(self.level)} intervals"

    def _part_title(self, p: Average) -> str:
        parts = [f"cohort {display(p.cohort)} ({p.n_rows:,} rows)"] if p.cohort is not None else []
        parts += [f"output {p.output}"] if len(self.outputs) > 1 else []
        return ", ".join(parts)

    def _table(self, p: Average) -> tuple[list[str], list[list[str]], list[str]]:
        at = p.order[:MAX_FEATURES]
        peak = float(max(np.max(np.abs(p.size.upper[at])), np.max(np.abs(p.signed.value[at]))))
        power = formatting.power_of(peak)
        unit, (low, high) = 10.0**power, p.rank_range()

        def between(e: Estimates, i: int) -> tuple[str, str]:
            half = (e.upper[i] - e.lower[i]) / 2 / unit
            places = max(formatting.decimals(float(half), peak / unit), 0)
            value, *ends = (
                formatting.number(float(x[i]) / unit, places) for x in (e.value, e.lower, e.upper)
            )
            return value, " … ".join(ends) if half > 0 else "exact"

        head = ["feature", f"mean |φ|{formatting.times(power)}", "interval", "mean φ", "interval"]
        head += ["sure +", "sure −", "rank"]
        rows = []
        for i in at:
            rank = f"{low[i]}" if low[i] == high[i] else f"{low[i]}–{high[i]}"
            shares = [f"{100 * x[i]:.0f} %" for x in (p.positive.value, p.negative.value)]
            name = formatting.shorten(p.names[i], 30)
            rows.append([name, *between(p.size, i), *between(p.signed, i), *shares, rank])
        left = len(p.names) - len(at)
        return head, rows, [f"… and {left} more features"] if left else []

    def _foot(self) -> list[str]:
        out = [self.about] if self.about else []
        out += list(self._said_of_cohorts())
        if self.n_model_rows:
            why = formatting.ENDINGS.get(self.stop_reason, self.stop_reason)
            out.append(f"{self.n_model_rows:,} model rows; {why}")
        return [*out, *self.notes]

    def _said_of_cohorts(self) -> Iterator[str]:
        if not 1 < len(self.cohorts) <= MAX_COHORTS:
            return
        real = [
            (abs(float(d.difference[i])), d, i)
            for d in self.differences()
            for i in np.flatnonzero(d.real)
        ]
        if not real:
            yield "No difference between cohorts is certain (Holm's correction)"
        for _, d, i in sorted(real, key=lambda r: -r[0])[:MAX_FEATURES]:
            more, less = (d.first, d.second) if d.difference[i] > 0 else (d.second, d.first)
            of = f" (output {d.output})" if len(self.outputs) > 1 else ""
            yield (
                f"{d.names[i]} matters more in {display(more)} than in {display(less)}{of}: "
                f"by {abs(d.difference[i]):.3g}, adjusted p = {d.p_value[i]:.2g}"
            )


def holm(p: Floats) -> Floats:
    """Holm's adjusted p-values, any shape."""
    flat = np.asarray(p, dtype=np.float64).ravel()
    order = np.argsort(flat, kind="stable")
    stepped = np.maximum.accumulate(flat[order] * np.arange(len(flat), 0, -1))
    out = np.empty_like(flat)
    out[order] = np.minimum(stepped, 1.0)
    return out.reshape(np.shape(p))
