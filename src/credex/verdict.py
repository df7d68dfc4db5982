"""The verdict in words: what is certain, what is open, and what it would cost to settle it.

Every sentence follows from the posterior and the cost of the run by a rule; the model is not asked.
Variances are taken to fall as 1/queries, so that costs are upper limits where a surrogate learns.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from credex.aggregate import aggregate
from credex.cells import clean
from credex.errors import check_level, check_positive
from credex.explanation_base import ExplanationBase
from credex.formatting import (
    View,
    amount,
    decimals,
    largest,
    number,
    percent,
    power_of,
    shorten,
    times,
)
from credex.posteriors import Belief

N_DRAWS, MAX_NUMBERS = 20_000, 4_000_000
"""Draws of the importances behind a ranking, fewer if there are more than 200 features."""

MAX_LEADERS = 3
"""Leading features whose order is looked at."""

MAX_GROWTH = 100.0
"""A question that takes more than so many times the queries asked is called out of reach."""

ROUNDING = 1e-9
"""Importances below this share of the largest are rounding errors."""

LOW_R2 = 0.5
"""Below this R² a linear explanation misses more of the model's variation than it shows."""

FEW_DOF = 5.0
"""Below these degrees of freedom an interval's own width is a rough guess: ±32 % or more."""

NAME_COLUMNS = 40
"""Longest name in a sentence."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Sentences without their full stops.

    ``certain``: what the posterior settles at its level. ``open``: what it does not, and about how
    many more rows would. ``fit``: how the importances relate to the prediction. ``caution``:
    reasons not to trust them.
    """

    certain: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    fit: tuple[str, ...] = ()
    caution: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """All sentences, reasons for caution first."""
        warned = tuple(f"Caution: {s}." for s in self.caution)
        return (*warned, *(f"{s}." for s in self.certain + self.open + self.fit))

    def __str__(self) -> str:
        return "\n".join(self.lines)


def judge(
    e: ExplanationBase,
    output: Any = None,
    level: float | None = None,
    row_cost: float | None = None,
) -> Verdict:
    """Return the verdict on one output; ``row_cost`` is the price of a model row."""
    view = View.of(e, output, None if level is None else check_level(level))
    if row_cost is not None:
        check_positive("row_cost", row_cost)
    b, features = e.belief.only(view.output), largest(e, view.output)[0]
    known = [i for i in features if np.isfinite(b.mean[i, 0]) and np.isfinite(b.scale[i, i, 0])]
    if not known:
        return Verdict(caution=("too few queries were answered to say anything",))
    caution = _interrupted(e) + _unmeasured(e, [i for i in features if i not in known])
    if not view.peak:
        return Verdict(certain=(_all_zero(e),), caution=tuple(caution))

    def cost(settled: Callable[[Belief], bool]) -> str:
        return _cost(e, growth(b, settled), row_cost)

    none = (view.lower == 0) & (view.upper == 0)  # rounding errors lead nothing
    kept = replace(b, mean=np.where(none[:, None], 0.0, b.mean))
    kept = replace(kept, scale=np.where((none[:, None] | none)[..., None], 0.0, b.scale))
    certain, unsettled = _ranking(e, kept, known, view.level, cost)
    said, unsure = _directions(e, view, known, cost)
    wide = _width(e, view, known, cost)
    return Verdict(
        tuple(certain + said),
        tuple(unsettled + wide),
        tuple(_fit(e, view)),
        tuple(caution + unsure + _misfit(e, view)),
    )


# -- what the sentences are built from -----------------------------------------------------------


def growth(b: Belief, settled: Callable[[Belief], bool]) -> float:
    """Return how many times the queries so far settle a question; infinite beyond `MAX_GROWTH`."""

    def after(factor: float) -> bool:
        return settled(replace(b, scale=b.scale / factor))

    if after(1.0):
        return 1.0
    if not after(MAX_GROWTH):
        return math.inf
    low, high = 1.0, MAX_GROWTH
    while high / low > 1.005:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if after(middle) else (middle, high)
    return high


class Ranking(NamedTuple):
    """Which features lead, by draws from the posterior.

    The order of the first ``n`` has probability ``chance``. ``rivals`` may have the next rank
    instead of the feature with the next largest mean: the likeliest first. ``first`` are the
    features of which one is the most important, with probability ``chance_first``.
    """

    n: int
    chance: float
    rivals: list[int]
    first: list[int]
    chance_first: float


def _ranked(b: Belief, known: list[int], level: float) -> Ranking:
    """Rank features that are given in the order of their means."""
    d = len(known)
    part = replace(b, mean=b.mean[known], scale=b.scale[np.ix_(known, known)])
    draws = max(min(N_DRAWS, MAX_NUMBERS // d), 1_000)
    size = np.abs(part.sample(draws, 0)[:, :, 0])
    top = np.bincount(size.argmax(axis=1), minlength=d) / draws
    best = np.argsort(-top, kind="stable")
    n_first = int(np.searchsorted(np.cumsum(top[best]), level)) + 1
    first = [known[i] for i in best[:n_first]]
    n, chance = (1, 1.0) if d == 1 else (0, 1.0)
    held = np.ones(draws, dtype=np.bool_)
    for k in range(min(MAX_LEADERS, d - 1)):
        if not size[:, k].any():
            break
        held &= size[:, k] >= size[:, k + 1 :].max(axis=1)
        if held.mean() < level:
            break
        n, chance = k + 1, float(held.mean())
    above = (size[:, n + 1 :] > size[:, n : n + 1]).mean(axis=0) if n < d else np.empty(0)
    order = np.argsort(-above, kind="stable")
    rivals = [known[n + 1 + int(c)] for c in order if above[c] > 1 - level]
    return Ranking(n, chance, rivals, first, float(top[best[:n_first]].sum()))


def _cost(e: ExplanationBase, factor: float, row_cost: float | None) -> str:
    """Say what ``factor`` times the queries so far cost beyond these; nothing if out of reach."""
    more = (factor - 1) * e.n_queries
    if e.method == "BayesSHAP" and e.data_digest is None:  # all coalitions are an exact answer
        more = min(more, 2.0 ** min(len(e.names), 1_000) - e.n_queries)
    if not math.isfinite(more) or more > MAX_GROWTH * e.n_queries:
        return ""
    share = max(more, 1.0) / max(e.n_queries, 1)
    rows, seconds = share * e.n_model_rows, share * e.seconds
    words = f"about {_rounded(max(rows, 1.0))} more rows, {duration(seconds)}"
    return words if row_cost is None else f"{words}, at a price of {rows * row_cost:,.2g}"


def _rounded(x: float) -> str:
    """Round to two digits."""
    return f"{round(x, 1 - math.floor(math.log10(x))):,.0f}"


def duration(seconds: float) -> str:
    """Return seconds as ``2 s``, ``5 min`` or ``3 h``."""
    if seconds < 0.1:
        return "under 0.1 s"
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 9.5 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3600:.0f} h"


def probability(p: float) -> str:
    """Format a probability with three decimals, and never as 1."""
    return "P > 0.999" if p > 0.9995 else f"P = {p:.3f}"


def name(e: ExplanationBase, i: int) -> str:
    """Return a feature's name for a sentence; one that is written right to left is isolated."""
    return _isolated(shorten(clean(e.names[i]) or "(no name)", NAME_COLUMNS))


def _isolated(text: str) -> str:
    right = any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text)
    return f"\u2068{text}\u2069" if right else text


def _some(words: list[str], last: str = "and") -> str:
    """Join words: ``a, b and c``; more than three as ``a, b, c and 4 more``."""
    shown, left = words[:3], len(words) - 3
    if left > 0:
        shown = [*shown, f"{left} more"]
    return f" {last} ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def size(x: float, half: float, peak: float) -> str:
    """Format ``x`` with the digits that ``half`` supports."""
    power = power_of(peak)
    unit = 10.0**power
    return number(x / unit, max(decimals(half / unit, peak / unit), 0)) + times(power)


# -- the sentences -------------------------------------------------------------------------------


def _ranking(
    e: ExplanationBase,
    b: Belief,
    known: list[int],
    level: float,
    cost: Callable[[Callable[[Belief], bool]], str],
) -> tuple[list[str], list[str]]:
    """Say which features lead, and which cannot be told apart."""
    r = _ranked(b, known, level)
    certain: list[str] = []
    exact = e.exact or not b.scale[known].any()
    if r.n and len(known) > 1:
        then = f", then {_some([name(e, i) for i in known[1 : r.n]])}" if r.n > 1 else ""
        sure = "exactly" if exact else probability(r.chance)
        certain.append(f"{name(e, known[0])} is the most important feature{then} ({sure})")
    elif 1 < len(r.first) <= MAX_LEADERS:
        these = _some([name(e, i) for i in r.first], last="or")
        certain.append(f"{these} is the most important feature ({probability(r.chance_first)})")
    if exact or r.n >= MAX_LEADERS or not r.rivals:
        return certain, []
    first, second, more = known[r.n], r.rivals[0], len(r.rivals) - 1
    others = f" ({more} more {'are' if more > 1 else 'is'} close)" if more else ""
    price = cost(lambda later: later.prob_greater(first, second, 0, signed=False) >= level)
    if price:
        end = f" yet{others}: {price}, would settle it"
    else:
        end = f"{others}: they may be equally important, and {MAX_GROWTH:.0f} times as many rows "
        end += "would hardly settle it"
    return certain, [f"{name(e, first)} and {name(e, second)} cannot be told apart{end}"]


def _directions(
    e: ExplanationBase,
    view: View,
    known: list[int],
    cost: Callable[[Callable[[Belief], bool]], str],
) -> tuple[list[str], list[str]]:
    """Say how many features certainly raise or lower the prediction; warn if none does."""
    up = sum(bool(view.lower[i] > ROUNDING * view.peak) for i in known)
    down = sum(bool(view.upper[i] < -ROUNDING * view.peak) for i in known)
    unclear = sum(bool(view.unclear[i]) for i in known)
    level = percent(view.level)
    if not up + down:
        first = known[0]

        def settled(later: Belief) -> bool:
            i = later.interval(view.level)
            return bool(i.lower[first, 0] > 0 or i.upper[first, 0] < 0)

        price = cost(settled)
        then = f"; {price}, would settle that of {name(e, first)}" if price else ""
        return [], [f"every {level} interval includes 0, so no direction is known yet{then}"]
    raises = f"{_features(up)} raise{'' if up > 1 else 's'} the prediction" if up else ""
    lowers = f"{down if up else _features(down)} lower{'' if down > 1 else 's'} "
    lowers = lowers + ("it" if up else "the prediction") if down else ""
    rest = f"; for {unclear} the direction is open" if unclear else ""
    said = f"{raises}{' and ' if up and down else ''}{lowers}{rest}"
    exact = not (view.lower < view.upper)[known].any()
    return [said if exact else f"At {level}, {said}"], []


def _features(n: int) -> str:
    return f"{n} feature{'s' if n > 1 else ''}"


def _width(
    e: ExplanationBase,
    view: View,
    known: list[int],
    cost: Callable[[Callable[[Belief], bool]], str],
) -> list[str]:
    """Say how wide the intervals are, and what halving them takes, where a run met its limit."""
    widest = float((view.upper - view.lower)[known].max())
    if e.exact or e.converged or widest <= 0:
        return []

    def halved(later: Belief) -> bool:
        return bool((later.interval(view.level).width[known] <= 0.5001 * widest).all())

    price = cost(halved)
    wide = size(widest, widest, view.peak)
    share = f"{100 * widest / view.peak:.0f} % of the largest importance"
    half = f"; half as wide takes {price}" if price else ""
    return [f"This may be precise enough: the widest interval is {wide}, {share}{half}"]


def _fit(e: ExplanationBase, view: View) -> list[str]:
    """Say how the importances relate to the prediction."""
    r2 = float(e.estimate.r2[view.output])
    if e.method == "BayesLIME":
        if math.isnan(r2) or r2 < LOW_R2:
            return []
        said = f"The linear explanation accounts for {_share(r2)} of how the model varies around "
        return [f"{said}this instance (R² {number(r2, 2)})"]
    if not e.selected[:, view.output].all():
        return []
    base, half = e.base_value, np.atleast_1d(e.base_interval.width)[view.output] / 2
    value = float(np.atleast_1d(base)[view.output])
    if half <= 1e-9 * max(abs(value), view.peak):
        return []
    peak = max(abs(value), view.peak)
    known = f"{size(value, float(half), peak)} ± {size(float(half), float(half), peak)}"
    return [f"The base value is itself an estimate: {known}"]


def _misfit(e: ExplanationBase, view: View) -> list[str]:
    """Warn where a linear explanation is far from the model, or an interval rests on little."""
    out = []
    if e.method == "BayesLIME":
        r2 = float(e.estimate.r2[view.output])
        if r2 < LOW_R2:
            out.append(
                f"the model is far from linear around this instance (R² {number(r2, 2)}); "
                "the importances are its trend, not what it does at single points"
            )
        full = float(np.atleast_1d(e.prediction)[view.output])
        gap = abs(full - float(e.estimate.local_prediction[view.output]))
        if gap > view.peak:
            out.append(
                f"at the instance itself the linear explanation is off by "
                f"{amount(gap, gap)}, more than the largest importance"
            )
    if e.dof < FEW_DOF and not e.exact and e.belief.scale.any():
        out.append(
            f"the intervals rest on few independent answers ({e.dof:.2g} degrees of "
            "freedom), so their width is a rough guess"
        )
    return out


def _interrupted(e: ExplanationBase) -> list[str]:
    if e.stop_reason == "model error":
        return ["the model failed before the run was done; this is what it had answered"]
    return []


def _unmeasured(e: ExplanationBase, unknown: list[int]) -> list[str]:
    if not unknown:
        return []
    these = _some([name(e, i) for i in unknown])
    it = "them" if len(unknown) > 1 else "it"
    return [f"nothing is known of {these}: no query measured {it}"]


def _all_zero(e: ExplanationBase) -> str:
    if e.exact:
        return "No feature changes the prediction (exactly)"
    return "No feature changed the prediction in any query so far"


def _share(r2: float) -> str:
    return f"{100 * min(r2, 0.99):.0f} %" if r2 < 0.995 else "over 99 %"


def printed(e: ExplanationBase, output: int) -> tuple[str, ...]:
    """Return the sentences below a table: all, or the first two if there are several outputs."""
    lines = judge(e, output).lines
    return lines if len(e.outputs) == 1 else lines[:2]


# -- batches -------------------------------------------------------------------------------------


def judge_batch(explained: Sequence[ExplanationBase], output: int, n_lost: int = 0) -> Verdict:
    """Return the verdict on a batch; ``n_lost`` rows have no explanation."""
    caution = [f"{n_lost} of {len(explained) + n_lost} rows have no explanation"] if n_lost else []
    if not explained:
        return Verdict(caution=tuple(caution or ["there is no row"]))
    if any(e.names != explained[0].names for e in explained):
        fit = "The rows have features of their own, so there is no average over them"
        return Verdict(fit=(fit,), caution=tuple(caution))
    a, level = aggregate(explained, output, population="rows"), explained[0].level
    best, rows = a.order[0], "1 row" if a.n_rows == 1 else f"{a.n_rows} rows"
    names = [_isolated(shorten(n or "(no name)", NAME_COLUMNS)) for n in a.names]
    certain, unsettled = [], []
    leader = f"the most important feature on average over {rows}"
    if not any(View.of(e, output).peak for e in explained):
        return Verdict(
            certain=(f"No feature changes a prediction in {rows}",), caution=tuple(caution)
        )
    if not a.upper[best]:
        unsettled.append(f"No feature stands out from the noise over {rows}: ask more queries")
    elif a.chance[best] >= level:
        half = (a.upper[best] - a.lower[best]) / 2
        about = f"mean |φ| {size(a.mean[best], half, a.mean[best])}"
        sure = "exactly" if not half else probability(float(a.chance[best]))
        certain.append(f"{names[best]} is {leader} ({about}, {sure})")
    else:
        likely = [int(i) for i in np.argsort(-a.chance, kind="stable")[:2]]
        pair = " and ".join(f"{names[i]} (P = {a.chance[i]:.2f})" for i in likely)
        unsettled.append(f"{pair} may each be {leader}")
    tops = np.argsort(-a.first, kind="stable")[:2]
    led = " and ".join(f"{names[i]} in {a.first[i] * a.n_rows:.0f}" for i in tops if a.first[i])
    if led:
        certain.append(f"The largest estimate belongs to {led} of {rows}")
    views = [View.of(e, output) for e in explained]
    blank = sum(bool(v.unclear.any() and not ((v.lower > 0) | (v.upper < 0)).any()) for v in views)
    if blank:
        unsettled.append(f"In {blank} of {rows} no direction is known: ask more queries of them")
    return Verdict(tuple(certain), tuple(unsettled), (), tuple(caution))
