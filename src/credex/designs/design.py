"""`Design`: which perturbations of an instance exist, in which order they are asked, and how."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from credex.blackbox import check_repeat
from credex.designs.focused import Focused
from credex.designs.samplers import (
    Candidates,
    MaskStream,
    Paired,
    PerturbationStream,
    Predictive,
    Random,
    Sampler,
    checked,
)
from credex.domains import Neighbourhood
from credex.errors import InputError, ModelOutputError
from credex.game import Query, Result
from credex.history import History
from credex.options import Options
from credex.typing import Floats, Masks, Outputs

__all__ = ["Context", "Design", "Request", "coalitions_of", "resolve_sampler"]

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


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What a run asks for in one go.

    Attributes
    ----------
    queries
        For the empty and the full coalition in turns, then f(x) again, then the perturbations.
    ends
        How many of them are for the empty or the full coalition.
    repeat
        Whether f(x) is asked a second time, as a check.
    candidates
        The perturbations.
    """

    queries: Sequence[Query]
    ends: int
    repeat: bool
    candidates: Candidates | None


class Design(ABC):
    """Perturbations of one instance. Used by one run only: its stream remembers a position.

    Attributes
    ----------
    d
        Number of features that take part.
    paired
        Whether every mask is asked with its complement.
    recheck
        Whether f(x) of a continued run may come from another model.
    """

    d: int
    paired: bool
    rows_per_query = 1
    """Model rows that one query costs."""
    enumerable = True
    """Whether the perturbations can be listed."""
    end_queries: int
    """Queries that the empty and the full coalition cost."""
    n_ends = 1
    """Queries of `end_pair`: 2 with an empty coalition."""
    ends_suffice = False
    """Whether the empty and the full coalition are all there is to ask."""

    def __init__(
        self, nb: Neighbourhood, options: Options, context: Context, history: History
    ) -> None:
        self.neighbourhood, self.options, self.context = nb, options, context
        self.continued = self.recheck = history.full is not None
        self._stream: MaskStream | PerturbationStream | None = None

    # -- sizes ---------------------------------------------------------------------------------

    @property
    def unit(self) -> int:
        """Perturbations that are asked together: 2 for pairs."""
        return 2 if self.paired else 1

    @property
    @abstractmethod
    def everything(self) -> float:
        """Queries after which nothing is left to ask; infinite for tables and noisy models."""

    @property
    @abstractmethod
    def repeat_cost(self) -> int:
        """Queries that a repeat of f(x) costs: 1 where a query is one model row, else 0."""

    @abstractmethod
    def unasked(self, h: History) -> float:
        """Perturbations that were not asked yet."""

    def room(self, h: History, ceiling: int, coming: int = 0) -> int:
        """Perturbations that fit under ``ceiling`` queries after ``coming`` others."""
        left = ceiling - h.n_queries - coming
        if not h.checked and self.affords_repeat(ceiling):
            left -= self.repeat_cost
        return int(max(min(left, self.unasked(h)), 0))

    def affords_repeat(self, ceiling: int) -> bool:
        """Whether f(x) may be repeated: not if the ceiling is just enough for the whole game."""
        return not self.everything <= ceiling < self.everything + self.repeat_cost

    def without_repeat(self, h: History) -> History:
        """Return the history with the repeat of f(x) uncounted if every query was asked."""
        if not h.checked or self.unasked(h) >= 1:
            return h
        return replace(h, n_queries=h.n_queries - self.repeat_cost)

    # -- asking --------------------------------------------------------------------------------

    @abstractmethod
    def ends_due(self, h: History, ceiling: int) -> int:
        """How often the empty and the full coalition have to be asked before anything else."""

    @abstractmethod
    def end_pair(self) -> list[Query]:
        """Return the queries for the empty and the full coalition (BayesLIME: for f(x))."""

    @abstractmethod
    def perturbation_query(self, candidates: Candidates) -> Query:
        """Return the query for the candidates' values."""

    @abstractmethod
    def fresh_stream(self, h: History) -> MaskStream | PerturbationStream:
        """Return the perturbations that were not asked yet, in the order of the seed."""

    @abstractmethod
    def absorb_rows(
        self, h: History, candidates: Candidates, y: Outputs, result: Result, *, whole: bool
    ) -> dict[str, Any]:
        """Return the changes of the history due to values ``y`` of the candidates.

        ``whole``: all that were asked for were answered.
        """

    def choose(
        self, h: History, n: int, fit: Predictive | None, rng: np.random.Generator
    ) -> Candidates:
        """Let the sampler choose at most ``n`` perturbations."""
        with self.context.lock:
            if self._stream is None:
                self._stream = self.fresh_stream(h)
            chosen = self.options.sampler.select(self._stream, n, fit, rng)
            own = isinstance(self.options.sampler, Paired)
            chosen = checked(chosen, n, paired=self.paired, trusted=own)
            if isinstance(self._stream, MaskStream):
                self._stream.keep_rest(chosen)
            return chosen

    def restart_stream(self) -> None:
        """Offer perturbations again that another sampler passed over."""
        self._stream = None

    def extra_ends(self, h: History, n: int, ceiling: int) -> int:
        """How often to ask for the ends again along with ``n`` perturbations (noisy models)."""
        del h, n, ceiling
        return 0

    def request(
        self, h: History, candidates: Candidates | None, ceiling: int, *, ends: int = 0
    ) -> Request:
        """Return what to ask: the ends so many times, and the candidates."""
        n = 0 if candidates is None else len(candidates)
        ends += self.extra_ends(h, n, ceiling) if n else 0
        queries = self.end_pair() * ends if ends else []
        n_ends = len(queries)
        wanted = not h.checked or (self.recheck and not self.repeat_cost)
        repeat = not self.options.noisy and wanted and self._repeats_now(h, n, ceiling)
        if repeat:
            queries.append(instance_query(self.neighbourhood))
            self.recheck = False
        if candidates is not None and n:
            queries.append(self.perturbation_query(candidates))
        return Request(queries, n_ends, repeat, candidates)

    def _repeats_now(self, h: History, n: int, ceiling: int) -> bool:
        """Whether to repeat f(x) in a request of ``n`` perturbations: not beside the ends alone."""
        if self.ends_suffice:
            return ceiling - h.n_queries >= self.end_queries + self.repeat_cost
        return n > 0 and self.affords_repeat(ceiling)

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
        if rest and request.candidates is not None and rest[0].y is not None and full is not None:
            y = self.linked(same_outputs(rest[0].y, full))
            whole = len(y) == len(request.candidates)
            some = request.candidates if whole else request.candidates.pick(np.arange(len(y)))
            changes |= self.absorb_rows(h, some, y, rest[0], whole=whole)
            queries += len(y)
        return h.spend(results, queries, **changes)

    def _end_changes(self, h: History, ends: Sequence[Result]) -> dict[str, Any]:
        """Return what the values of the empty and the full coalition change."""
        each = self.n_ends
        known = [[r.y for r in ends[i::each] if r.y is not None] for i in range(each)]
        values = [self.linked(np.concatenate(ys)) for ys in known]
        if any(v.shape != values[0].shape for v in values):
            shapes = " and ".join(str(v.shape[1]) for v in values)
            msg = f"the model returned {shapes} outputs for the background and the instance"
            raise ModelOutputError(msg)
        if each == 1:
            return {"full": values[0][0]}
        changes = h.with_ends(*values, noisy=self.options.noisy)
        if ends[0].by_row is not None:
            changes["base_by_row"] = ends[0].by_row[0]
        return changes

    def check_repeat(self, h: History, request: Request, results: Sequence[Result]) -> None:
        """Raise if the model gave another answer for f(x) the second time."""
        if not request.repeat or h.full is None:
            return
        again = results[request.ends]
        if again.y is None:
            return
        name = self.options.link
        first, second = unlink(h.full, name), unlink(self.linked(again.y)[0], name)
        check_repeat(first, second, again.tolerance, continued=self.continued)

    def linked(self, y: Floats) -> Floats:
        """Apply the link function to outputs."""
        return link(y, self.options.link)


def coalitions_of(d: int) -> float:
    """2^d, or infinity where a float does not hold it."""
    return float(2**d) if d <= 1000 else np.inf


def resolve_sampler(sampler: Any, default: str, *, posterior: Any) -> Sampler:
    """Return the sampler that a name stands for; an object is returned as it is.

    ``default`` is the explainer's own: ``"paired"`` or ``"random"``.
    """
    if not isinstance(sampler, str):
        chosen: Sampler = sampler
        return chosen
    name = sampler
    if name == "auto":
        name = "focused" if posterior == "gp" and default == "paired" else default
    if name == "focused":
        return Focused()
    if posterior == "exact" or name == "exhaustive":
        return Paired(name="exhaustive") if default == "paired" else Random(name="exhaustive")
    return Paired() if name == "paired" else Random()


def instance_query(nb: Neighbourhood) -> Query:
    """Query for f(x), which is one row."""
    return Query(lambda _a, _b: (nb.instance_inputs(), None), 1, ONE_ROW, nb.row_bytes, nb.form)


def coalition_query(
    nb: Neighbourhood,
    masks: Masks,
    weights: Floats = ONE_ROW,
    *,
    merge: bool = True,
    keep_rows: bool = False,
    unit: int = 1,
) -> Query:
    """Query for the values of ``masks (n, d)``; ``merge``: equal model rows are sent once."""
    return Query(
        lambda a, b: nb.coalition_inputs(masks[a:b], merge=merge),
        len(masks),
        weights,
        nb.row_bytes,
        nb.form,
        keep_rows=keep_rows,
        unit=unit,
    )


def link(y: Floats, name: str) -> Floats:
    """Apply the link function: identity, or the log-odds of probabilities."""
    if name == "identity":
        return y
    outside = (y < -1e-9) | (y > 1 + 1e-9)  # averages of exact ones may miss by rounding
    if np.any(outside):
        bad = float(y[outside][0])
        msg = f"link='logit' needs probabilities, but the model returned {bad:g}; "
        msg += "leave link out to explain the output as it is"
        raise InputError(msg)
    p = np.clip(y, LOGIT_CLIP, 1 - LOGIT_CLIP)
    return np.asarray(np.log(p) - np.log1p(-p))


def unlink(y: Floats, name: str) -> Floats:
    """Invert `link`: answers are compared as probabilities, since log-odds magnify rounding."""
    return y if name == "identity" else np.asarray(0.5 * (1 + np.tanh(0.5 * y)))


def same_outputs(y: Outputs, full: Floats | None) -> Outputs:
    """Return ``y`` if it has as many outputs as f(x) had."""
    if full is not None and y.shape[1] != len(full):
        msg = f"the model returned {y.shape[1]} outputs where it returned {len(full)} before"
        raise ModelOutputError(msg)
    return y
