"""`Design`: which perturbations of an instance exist, in which order they are asked, and how."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from credex.blackbox import check_repeat
from credex.designs.samplers import (
    Candidates,
    MaskStream,
    Paired,
    Predictive,
    Random,
    Stream,
    checked,
)
from credex.domains import Neighbourhood
from credex.errors import InputError, ModelOutputError
from credex.game import Query, Result
from credex.history import History, joined
from credex.options import Options
from credex.seeds import Purpose, spawn
from credex.typing import Design as Rows
from credex.typing import Floats, Ints, Masks, Native, Weights

__all__ = ["Context", "Design", "Request", "coalitions_of"]

T = TypeVar("T")

LOGIT_CLIP = 1e-6
"""Probabilities are clipped this far from 0 and 1 before ``link="logit"``."""

ONE_ROW = np.ones(1)
"""Weights of a value that is one model row."""
ONE_ROW.flags.writeable = False

KEPT = 16
"""Sequences and factorisations that a context keeps."""


class Context:
    """Sequences of masks and factorisations that the rows of a batch share. Thread-safe."""

    def __init__(self) -> None:
        self._store: dict[Hashable, Any] = {}
        self.lock = threading.RLock()

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what is stored under ``key``, made if it is not there."""
        with self.lock:
            if key not in self._store:
                if len(self._store) >= KEPT:
                    self._store.pop(next(iter(self._store)))
                self._store[key] = make()
            found: T = self._store[key]
            return found


@dataclass(slots=True, eq=False)
class Request:
    """What a run asks for in one go: ``queries``, and what they are for.

    First come ``ends`` queries for the empty and the full coalition in turns, then f(x) again as a
    check if ``repeat``, then one query for the ``candidates``.
    """

    queries: Sequence[Query]
    ends: int
    repeat: bool
    candidates: Candidates | None


class Design(ABC):
    """Perturbations of one instance. Used by one run only: its stream remembers a position."""

    d: int
    """Number of features that take part."""
    active: Masks
    """Which of all features those are."""
    paired: bool
    """Whether every mask is asked with its complement."""
    everything: float
    """Queries after which nothing is left to ask; infinite for tables and noisy models."""
    enumerable = True
    """Whether the perturbations can be listed."""
    rows_per_query = 1
    """Model rows that one query costs."""
    query_cost = 1
    """Queries that one perturbation counts as."""
    growth = 0.05
    """Least share of the queries so far to ask before the next look."""
    repeat_cost: int
    """Queries that a repeat of f(x) costs: 1 where a query is one model row, else 0."""
    end_queries: int
    """Queries that the empty and the full coalition cost."""
    n_ends = 1
    """Queries of `end_pair`: 2 with an empty coalition."""
    ends_suffice = False
    """Whether the empty and the full coalition are all there is to ask."""
    recheck: bool
    """Whether f(x) of a continued run may come from another model."""

    def __init__(
        self, nb: Neighbourhood, options: Options, context: Context, history: History
    ) -> None:
        self.neighbourhood, self.options, self.context = nb, options, context
        self.continued = self.recheck = history.full is not None
        self._stream: Stream | None = None

    # -- sizes ---------------------------------------------------------------------------------

    @property
    def unit(self) -> int:
        """Perturbations that are asked together: 2 for pairs."""
        return 2 if self.paired else 1

    def unasked(self, h: History) -> float:
        """Perturbations that were not asked yet."""
        return self.everything - self.n_ends - h.rows.n

    def room(self, h: History, ceiling: int, coming: int = 0) -> int:
        """Perturbations that fit under ``ceiling`` queries after ``coming`` others."""
        left = ceiling - h.n_queries - coming
        if not h.checked and self.affords_repeat(ceiling):
            left -= self.repeat_cost
        return int(max(min(left // self.query_cost, self.unasked(h)), 0))

    def affords_repeat(self, ceiling: int) -> bool:
        """Whether f(x) may be repeated: not if the ceiling is just enough for the whole game."""
        return not self.everything <= ceiling < self.everything + self.repeat_cost

    def without_repeat(self, h: History) -> History:
        """Return the history with the repeat of f(x) uncounted if every query was asked."""
        if not h.checked or self.unasked(h) >= 1:
            return h
        return replace(h, n_queries=h.n_queries - self.repeat_cost)

    # -- choosing ------------------------------------------------------------------------------

    @abstractmethod
    def fresh_stream(self, h: History) -> Stream:
        """Return the perturbations that were not asked yet, in the order of the seed."""

    def known_units(self, h: History) -> Masks | None:
        """Return the masks that were asked, of each pair the first."""
        return h.rows.design()[:: self.unit] if h.rows.n else None

    def choose(self, h: History, n: int, fit: Predictive | None) -> Candidates:
        """Let the sampler choose at most ``n`` perturbations."""
        sampler = self.options.sampler
        with self.context.lock:
            if self._stream is None:
                self._stream = self.fresh_stream(h)
            if type(sampler) in (Random, Paired):  # which take what comes
                taken: Candidates = sampler.select(self._stream, n, fit, None)
                return taken
            rng = spawn(int(self.options.seed), Purpose.SAMPLER, h.rows.n)
            chosen = checked(sampler.select(self._stream, n, fit, rng), n, paired=self.paired)
            if isinstance(self._stream, MaskStream):
                self._stream.keep_rest(chosen)
            return chosen

    # -- asking --------------------------------------------------------------------------------

    def ends_due(self, h: History, ceiling: int) -> int:
        """How often the empty and the full coalition have to be asked before anything else."""
        del ceiling
        return int(h.full is None)

    def extra_ends(self, h: History, n: int, ceiling: int) -> int:
        """How often to repeat both along with ``n`` perturbations (noisy models only)."""
        del h, n, ceiling
        return 0

    def end_pair(self) -> list[Query]:
        """Return the queries for the empty and the full coalition (BayesLIME: for f(x))."""
        return [self.instance_query()]

    @abstractmethod
    def perturbation_queries(self, candidates: Candidates) -> list[Query]:
        """Return the queries for the candidates' values."""

    def answered(
        self, candidates: Candidates, results: Sequence[Result]
    ) -> tuple[Rows, Floats | None]:
        """Return the rows of the candidates that were answered, and their values."""
        y = self.values(results[0])
        return candidates.design[: 0 if y is None else len(y)], y

    def values(self, result: Result) -> Floats | None:
        """Return the values of a result after the link."""
        return None if result.y is None else self.linked(result.y)

    def query(
        self,
        make: Callable[[int, int], tuple[Native, Ints | None]],
        n: int,
        weights: Floats = ONE_ROW,
        **more: Any,
    ) -> Query:
        """Query for ``n`` values of this instance; see `Query` for the arguments."""
        nb = self.neighbourhood
        return Query(make, n, weights, nb.row_bytes, nb.form, **more)

    def instance_query(self) -> Query:
        """Query for f(x), which is one row."""
        return self.query(lambda _a, _b: (self.neighbourhood.instance_inputs(), None), 1)

    def over_all(self, masks: Masks) -> Masks:
        """Masks ``(n, ·)`` over all features, of which those that do not take part are on."""
        if len(self.active) == self.d:
            return masks
        whole = np.ones((len(masks), len(self.active)), dtype=np.bool_)
        whole[:, self.active] = masks
        return whole

    @property
    def keeps_rows(self) -> bool:
        """Whether values are wanted by background row."""
        return self.options.background_uncertainty

    def mask_query(self, masks: Masks, weights: Floats = ONE_ROW) -> Query:
        """Query for ``masks (n, d)``; equal model rows are sent once, unless the model is noisy."""
        nb, o = self.neighbourhood, self.options
        return self.query(
            lambda a, b: nb.coalition_inputs(masks[a:b], merge=not o.noisy),
            len(masks),
            weights,
            keep_rows=self.keeps_rows,
            unit=self.unit,
        )

    def request(
        self, h: History, candidates: Candidates | None, ceiling: int, *, ends: int = 0
    ) -> Request:
        """Return what to ask: the empty and the full coalition ``ends`` times, the candidates."""
        n = 0 if candidates is None else len(candidates)
        ends += self.extra_ends(h, n, ceiling) if n else 0
        queries = self.end_pair() * ends if ends else []
        n_ends = len(queries)
        wanted = not h.checked or (self.recheck and not self.repeat_cost)
        repeat = not self.options.noisy and wanted and self._repeats_now(h, n, ceiling)
        if repeat:
            queries.append(self.instance_query())
            self.recheck = False
        if candidates is not None and n:
            queries += self.perturbation_queries(candidates)
        return Request(queries, n_ends, repeat, candidates)

    def _repeats_now(self, h: History, n: int, ceiling: int) -> bool:
        """Whether to repeat f(x) in a request of ``n`` perturbations."""
        if self.ends_suffice:
            return ceiling - h.n_queries >= self.end_queries + self.repeat_cost
        return n > 0 and self.affords_repeat(ceiling)

    # -- absorbing -----------------------------------------------------------------------------

    def row_weights(self, design: Rows) -> Weights:
        """Weights of perturbations: BayesSHAP's regression weighs them by their size later."""
        return np.ones(len(design))

    def absorb(self, h: History, request: Request, results: Sequence[Result]) -> History:
        """Return the history after the results of a request; missing values are left out."""
        changes: dict[str, Any] = {}
        ends, rest = results[: request.ends], list(results[request.ends :])
        queries = 0
        if ends and all(r.y is not None for r in ends):
            changes |= self._end_changes(h, ends)
            queries += self.end_queries * len(ends) // self.n_ends
        if request.repeat and rest.pop(0).y is not None:
            changes["checked"] = True
            queries += self.repeat_cost
        full = changes.get("full", h.full)
        if request.candidates is not None and full is not None and rest:
            design, y = self.answered(request.candidates, rest)
            if y is not None:
                if y.shape[1] != len(full):
                    msg = f"the model returned {y.shape[1]} outputs where it returned {len(full)} "
                    msg += "before"
                    raise ModelOutputError(msg)
                changes["rows"] = h.rows.add(design, y, self.row_weights(design))
                if self._stream is not None:
                    changes["cursor"] = self._stream.place(request.candidates, len(y))
                queries += len(y) * self.query_cost
            if rest[0].by_row is not None and self.options.background_uncertainty:
                known = [] if h.by_row is None else [h.by_row]
                changes["by_row"] = np.concatenate([*known, rest[0].by_row])
        return h.spend(results, queries, **changes)

    def _end_changes(self, h: History, ends: Sequence[Result]) -> dict[str, Any]:
        """Return what the values of the empty and the full coalition change."""
        each = self.n_ends
        known = [[self.values(r) for r in ends[i::each]] for i in range(each)]
        values = [joined([y for y in ys if y is not None]) for ys in known]
        if any(v.shape != values[0].shape for v in values):
            shapes = " and ".join(str(v.shape[1]) for v in values)
            msg = f"the model returned {shapes} outputs for the background and the instance"
            raise ModelOutputError(msg)
        if each == 1:
            return {"full": values[0][0]}
        changes = h.with_ends(*values, noisy=self.options.noisy)
        if ends[0].by_row is not None and self.options.background_uncertainty:
            changes["base_by_row"] = ends[0].by_row[0]
        return changes

    def check_repeat(self, h: History, request: Request, results: Sequence[Result]) -> None:
        """Raise if the model gave another answer for f(x) the second time."""
        again = results[request.ends] if request.repeat else None
        if again is None or again.y is None or h.full is None:
            return
        first, second = h.full, self.linked(again.y)[0]
        if self.options.link == "logit":  # log-odds magnify rounding: compare probabilities
            first, second = (0.5 * (1 + np.tanh(0.5 * y)) for y in (first, second))
        elif self.options.link == "log":
            first, second = np.exp(first), np.exp(second)
        check_repeat(first, second, again.tolerance, continued=self.continued)

    def linked(self, y: Floats) -> Floats:
        """Apply the link function: identity, log-odds of probabilities, or the logarithm."""
        link = self.options.link
        if link == "identity":
            return y
        # averages of exact ones may miss by rounding
        outside = (y < -1e-9) | (y > 1 + 1e-9) if link == "logit" else ~(y > 0)
        if np.any(outside):
            bad, needs = float(y[outside][0]), {"logit": "probabilities", "log": "positive outputs"}
            msg = f"link={link!r} needs {needs[link]}, but the model returned {bad:g}; "
            msg += "leave link out to explain the output as it is"
            raise InputError(msg)
        if link == "log":
            return np.asarray(np.log(y))
        p = np.clip(y, LOGIT_CLIP, 1 - LOGIT_CLIP)
        return np.asarray(np.log(p) - np.log1p(-p))


def coalitions_of(d: int) -> float:
    """2^d, or infinity where a float does not hold it."""
    return float(2**d) if d <= 1000 else np.inf
